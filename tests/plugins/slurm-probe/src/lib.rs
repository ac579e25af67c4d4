//! Plugins for the tests inside a real Slurm. Each does what a job's name asks for; those for prologs and epilogs do
//! what the last part of the job's working directory asks for.

use std::sync::atomic::{AtomicUsize, Ordering};

use jobtap_core::plugin::TextError;
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, JobRecord, MAIL_JOB_END, SlurmError, errno};

/// The settings of [`Limits`].
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    minutes: u32,
}

impl Default for Settings {
    fn default() -> Self {
        Self { minutes: 1440 }
    }
}

/// Limits and rewrites requests.
#[derive(Debug)]
pub struct Limits {
    settings: Settings,
    seen: u64,
}

#[jobtap_plugin(name = "limits")]
impl Limits {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { settings: settings.into_inner(), seen: 0 }
    }

    #[on("conf.update")]
    fn update(&mut self, settings: Conf<Settings>) -> Result<(), ConfError> {
        if settings.minutes == 0 {
            return Err(ConfError::new("minutes: must not be 0"));
        }
        self.settings = settings.into_inner();
        Ok(())
    }

    #[on("slurm.job_submit")]
    fn submit(
        &mut self,
        mut desc: Descriptor<'_>,
        partitions: Partitions<'_>,
        cx: Cx<'_, SlurmJobSubmit>,
    ) -> Result<(), SlurmError> {
        self.seen += 1;
        let most = self.settings.minutes;
        if desc.time_limit.is_some_and(|minutes| minutes > most) {
            return Err(errno::ESLURM_INVALID_TIME_LIMIT.with(format!("at most {most} minutes")));
        }
        match desc.name.as_deref() {
            Some("ten") => rewrite(&mut desc),
            Some("tenth") => {
                assert!(!self.seen.is_multiple_of(10), "the tenth request");
                cx.user_message(format!("request {}", self.seen));
            }
            Some("partitions") => {
                let names: Vec<&str> =
                    partitions.iter().filter_map(|partition| partition.name.as_deref()).collect();
                cx.user_message(names.join(" "));
                let default = partitions.default_partition().map(|found| found.total_cpus);
                cx.user_message(format!(
                    "{} {default:?}",
                    desc.user_name.as_deref().unwrap_or("-")
                ));
            }
            Some("segments") => desc.segment_size = Some(2),
            Some("hang") => std::thread::sleep(std::time::Duration::from_secs(8)),
            _ => {}
        }
        Ok(())
    }

    #[on("slurm.job_modify")]
    fn modify(&self, mut desc: Descriptor<'_>, record: &JobRecord) -> Result<(), SlurmError> {
        let most = self.settings.minutes;
        if desc.time_limit.is_some_and(|minutes| minutes > most) {
            return Err(errno::ESLURM_INVALID_TIME_LIMIT.with(format!("at most {most} minutes")));
        }
        let (name, dir) = (record.name.clone(), record.work_dir.clone());
        let cpus = record.min_cpus;
        desc.comment = Some(format!(
            "{} {} {cpus} {:?}",
            name.unwrap_or_default(),
            dir.unwrap_or_default(),
            record.time_limit
        ));
        Ok(())
    }
}

/// Rewrites eleven fields, and the environment.
fn rewrite(desc: &mut JobDescriptor) {
    desc.account = Some("gold".to_owned());
    desc.comment = None;
    desc.cpus_per_task = Some(3);
    desc.mail_type = MAIL_JOB_END;
    desc.mail_user = Some("admin@example.org".to_owned());
    desc.name = Some("rewritten".to_owned());
    desc.set_nice_value(Some(17));
    desc.partition = Some("debug".to_owned());
    desc.requeue = Some(0);
    desc.std_out = Some("/dev/null".to_owned());
    desc.time_limit = Some(7);
    desc.environment.set("FROM_JOBTAP", "a value");
}

/// Is called after [`Limits`], and sets the comment of requests that [`Limits`] has rewritten.
#[derive(Debug, Default)]
pub struct Second;

#[jobtap_plugin(name = "second")]
impl Second {
    #[on("slurm.job_submit")]
    fn submit(&self, mut desc: Descriptor<'_>) {
        if desc.name.as_deref() == Some("rewritten") {
            let limit = desc.time_limit.unwrap_or(0);
            desc.comment = Some(format!("second saw {limit}"));
        }
    }
}

/// Decides asynchronously.
#[derive(Debug, Default)]
pub struct Later;

#[jobtap_plugin(name = "later")]
impl Later {
    #[on("slurm.job_submit")]
    async fn submit(
        mut desc: JobDescriptor,
        messages: UserMessages,
        remote: Remote<Self>,
    ) -> Result<JobDescriptor, SlurmError> {
        let gone = |_| errno::SLURM_ERROR.with("the plugin was removed");
        match desc.name.as_deref() {
            Some("later") => {
                remote.sleep(0.2).await.map_err(gone)?;
                messages.send("decided later");
                desc.account = Some("later".to_owned());
            }
            Some("late") => remote.sleep(60.0).await.map_err(gone)?,
            _ => {}
        }
        Ok(desc)
    }
}

/// Waits for another request, and says whether one came before this one was decided.
#[derive(Debug, Default)]
pub struct Together;

#[jobtap_plugin(name = "together")]
impl Together {
    #[on("slurm.job_submit")]
    async fn submit(messages: UserMessages, remote: Remote<Self>) -> Result<(), SlurmError> {
        static OPEN: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let gone = |_| errno::SLURM_ERROR.with("the plugin was removed");
        MOST.fetch_max(OPEN.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        let both = || MOST.load(Ordering::SeqCst) > 1;
        for _ in 0..50 {
            if both() {
                break;
            }
            remote.sleep(0.1).await.map_err(gone)?;
        }
        OPEN.fetch_sub(1, Ordering::SeqCst);
        messages.send(if both() { "together" } else { "alone" });
        Ok(())
    }
}

/// Sees submissions as jobs.
#[derive(Debug, Default)]
pub struct Checks;

#[jobtap_plugin(name = "checks")]
impl Checks {
    #[on("job.validate")]
    fn validate(&self, job: &Job) -> Result<(), Reject> {
        match job.jobspec().name() == Some("invalid") {
            true => {
                let (queue, seconds) = (job.jobspec().queue(), job.jobspec().duration());
                Err(Reject::new(format!("{} {seconds}", queue.unwrap_or("no queue"))))
            }
            false => Ok(()),
        }
    }
}

/// Rewrites the long parts of a request, and panics at every tenth.
#[derive(Debug, Default)]
pub struct Tenth {
    seen: u64,
}

#[jobtap_plugin(name = "tenth")]
impl Tenth {
    #[on("slurm.job_submit")]
    fn submit(&mut self, mut desc: Descriptor<'_>) {
        self.seen += 1;
        desc.comment = Some(format!("request {}", self.seen));
        if let Some(script) = &mut desc.script {
            script.push_str("# seen\n");
        }
        desc.environment.set("SEEN", self.seen.to_string());
        assert!(!self.seen.is_multiple_of(10), "the tenth request");
    }
}

/// Prologs and epilogs. Each call runs a process that writes a line to the file `trace` beside the working directory.
#[derive(Debug, Default)]
pub struct Stages;

/// Does what the directory's name asks for at this stage.
async fn run(
    stage: &str,
    job: JobInfo,
    host: &str,
    remote: Remote<Stages>,
) -> Result<(), TextError> {
    let directory = job.jobspec.cwd().unwrap_or("/").to_owned();
    let asked = directory.rsplit('/').next().unwrap_or_default();
    let script = "echo \"$0 $1 $2 $3\" >> \"$4/../trace\"";
    let line = [stage.to_owned(), job.id.as_u64().to_string(), host.to_owned()];
    let ranks = job.resources.map_or(0, |resources| resources.nnodes());
    let written = Process::new("/bin/sh").args(["-c", script]).args(line);
    let written = written.arg(ranks.to_string()).arg(&directory);
    let end = remote.run_process(written).await.or_error()?;
    end.success().or_error()?;
    if asked == format!("fail-{stage}") {
        return Err(format!("{stage} was asked to fail")).or_error();
    }
    if asked == format!("slow-{stage}") {
        remote.sleep(60.0).await.or_error()?;
    }
    if asked == format!("slow-once-{stage}") {
        // `mkdir` fails when the stage runs again.
        let first =
            remote.run_process(Process::new("/bin/mkdir").arg(format!("{directory}/begun")));
        if first.await.or_error()?.success().is_ok() {
            remote.sleep(60.0).await.or_error()?;
        }
    }
    assert!(asked != format!("panic-{stage}"), "{stage} was asked to panic");
    Ok(())
}

#[jobtap_plugin(name = "stages")]
impl Stages {
    #[on("slurm.prolog")]
    async fn prolog(job: JobInfo, node: Node, remote: Remote<Self>) -> Result<(), PrologFailed> {
        Ok(run("prolog", job, &node.host, remote).await?)
    }

    #[on("slurm.epilog")]
    async fn epilog(job: JobInfo, node: Node, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(run("epilog", job, &node.host, remote).await?)
    }

    #[on("slurm.prolog_slurmctld")]
    async fn prepare(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        Ok(run("prepare", job, "-", remote).await?)
    }

    #[on("slurm.epilog_slurmctld")]
    async fn account(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(run("account", job, "-", remote).await?)
    }
}

/// Decides synchronously, beside [`Stages`] in one plugin file.
#[derive(Debug, Default)]
pub struct AtOnce;

#[jobtap_plugin(name = "at-once")]
impl AtOnce {
    #[on("slurm.prolog_slurmctld")]
    fn prepare(&self, job: &Job) -> Result<(), PrologFailed> {
        match job.jobspec().cwd().is_some_and(|directory| directory.ends_with("/fail-at-once")) {
            true => Err(PrologFailed::new("asked to fail at once")),
            false => Ok(()),
        }
    }
}
