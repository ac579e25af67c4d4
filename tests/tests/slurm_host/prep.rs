//! Plugins that run in slurmctld and slurmd as a PrEp plugin.

use std::fs;
use std::path::PathBuf;

use jobtap_tests::slurm::{Installation, Slurm};
use jobtap_tests::until;

use super::built::prep;

/// `Epilog` is set since without it, slurmd runs no epilog of a plugin for a job whose steps are
/// gone. The timeout is longer than any test, so that none of its stages fails on a busy machine.
const CONFIGURATION: &str = "PrEpPlugins=site\n\
                             PrologFlags=Alloc\n\
                             PrologEpilogTimeout=300\n\
                             Epilog=/bin/true";

struct Site {
    slurm: Slurm,
}

impl Site {
    fn start(of: &Installation, plugins: &[&str]) -> Self {
        Self::configured(of, plugins, CONFIGURATION)
    }

    fn configured(of: &Installation, plugins: &[&str], configuration: &str) -> Self {
        let built = prep(of, plugins);
        let mut slurm = Slurm::start_in(of, configuration, |etc| built.put(etc));
        slurm.start_node();
        Self { slurm }
    }

    /// A working directory whose name tells the plugins what to do.
    fn directory(&self, asked: &str) -> PathBuf {
        let directory = self.slurm.scripts().join("jobs").join(asked);
        fs::create_dir_all(&directory).unwrap();
        directory
    }

    fn submit(&self, asked: &str) -> String {
        let directory = self.directory(asked);
        let directory = directory.display().to_string();
        let words = ["-D", &directory, "-o", "/dev/null", "--wrap", "true"];
        self.slurm.sbatch(&words).ok().rsplit(' ').next().unwrap().to_owned()
    }

    /// The calls for a job, in their order: the stage, the node and the number of the job's nodes.
    fn trace(&self, id: &str) -> Vec<String> {
        let trace = fs::read_to_string(self.slurm.scripts().join("jobs/trace")).unwrap_or_default();
        let of_job = |line: &str| {
            let mut words = line.split(' ');
            let (stage, job) = (words.next()?, words.next()?);
            (job == id).then(|| [&[stage], words.collect::<Vec<_>>().as_slice()].concat().join(" "))
        };
        trace.lines().filter_map(of_job).collect()
    }

    fn job(&self, id: &str) -> String {
        self.slurm.client("scontrol", &["-o", "show", "job", id]).stdout
    }

    fn waits_for(&self, id: &str, state: &str) {
        until(&format!("job {id}: {state}"), || self.job(id).contains(state));
    }

    fn node(&self) -> String {
        self.slurm.client("sinfo", &["-N", "-h", "-o", "%T %E"]).stdout
    }

    /// Waits until the node is drained for this reason, and takes it back.
    fn is_drained(&self, reason: &str) {
        until(&format!("node: {reason}"), || self.node().contains(reason));
        let name = self.slurm.client("sinfo", &["-N", "-h", "-o", "%N"]).ok();
        let name = name.lines().next().unwrap();
        until("the node is taken back", || {
            let node = format!("nodename={name}");
            self.slurm.client("scontrol", &["update", &node, "state=resume"]);
            self.node().contains("idle")
        });
    }
}

fn host() -> String {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    host.trim().split('.').next().unwrap().to_owned()
}

fn all_four_stages_run_in_their_daemons(of: &Installation) {
    let site = Site::start(of, &["stages", "at-once"]);
    let job = site.submit("ok");
    site.waits_for(&job, "JobState=COMPLETED");
    let host = host();
    let nodes = [format!("prolog {host} 1"), format!("epilog {host} 1")];
    until("both epilogs have run", || site.trace(&job).len() == 4);
    let trace = site.trace(&job);
    assert_eq!(trace[0], "prepare - 1");
    assert_eq!(trace[1], nodes[0]);
    // The epilogs of the controller and of the node run at the same time.
    assert!(trace.contains(&nodes[1]) && trace.contains(&"account - 1".to_owned()), "{trace:?}");
}

fn failures_have_slurms_consequences(of: &Installation) {
    let mut site = Site::start(of, &["stages", "at-once"]);
    // The node's prolog: the node is drained, and the job queued again and held.
    for asked in ["fail-prolog", "panic-prolog"] {
        let job = site.submit(asked);
        site.waits_for(&job, "Reason=launch_failed_requeued_held");
        site.is_drained("Prolog error");
        site.slurm.client("scancel", &[&job]).ok();
    }
    // The node's epilog: the node is drained.
    let job = site.submit("fail-epilog");
    site.waits_for(&job, "JobState=COMPLETED");
    site.is_drained("Epilog error");
    // The controller's prolog: the job is queued again.
    for asked in ["fail-prepare", "panic-prepare", "fail-at-once"] {
        let job = site.submit(asked);
        site.waits_for(&job, "Restarts=1");
        assert!(site.node().contains("idle"), "{}", site.node());
        site.slurm.client("scancel", &[&job]).ok();
    }
    // A job whose user waits for it ends instead.
    let directory = site.directory("fail-prepare").display().to_string();
    let waited = site.slurm.client("srun", &["-D", &directory, "true"]);
    assert_ne!(waited.code, 0, "{waited:?}");
    assert!(waited.stderr.contains("PrologSlurmctld failed, job killed"), "{waited:?}");
    // The controller's epilog: the failure is only logged.
    let job = site.submit("fail-account");
    site.waits_for(&job, "JobState=COMPLETED");
    let line = format!("stages: slurm.epilog_slurmctld: job {job}: account was asked to fail");
    until("the failure is logged", || site.slurm.log("slurmctld.log").contains(&line));
    // After a restart, slurmctld goes on as before.
    site.slurm.restart_controller();
    until("the node is back", || site.node().contains("idle"));
    let job = site.submit("ok");
    site.waits_for(&job, "JobState=COMPLETED");
}

fn a_stage_that_takes_too_long_has_failed(of: &Installation) {
    let impatient = CONFIGURATION.replace("Timeout=300", "Timeout=3");
    let site = Site::configured(of, &["stages"], &impatient);
    let job = site.submit("slow-prepare");
    site.waits_for(&job, "Restarts=1");
    site.slurm.client("scancel", &[&job]).ok();
    let line = format!("prolog_slurmctld JobId={job} failed due to timing out");
    assert!(site.slurm.log("slurmctld.log").contains(&line));
    let job = site.submit("slow-prolog");
    site.is_drained("Prolog error");
    site.slurm.client("scancel", &[&job]).ok();
    let line = format!("stages: slurm.prolog: job {job}: no end within PrologEpilogTimeout");
    assert!(site.slurm.log("slurmd.log").contains(&line));
}

fn a_prolog_that_is_open_when_slurmctld_ends_runs_again(of: &Installation) {
    let mut site = Site::start(of, &["stages"]);
    let job = site.submit("slow-once-prepare");
    let begun = site.directory("slow-once-prepare").join("begun");
    until("the prolog has begun", || begun.exists());
    site.slurm.restart_controller();
    site.waits_for(&job, "JobState=COMPLETED");
    let prologs = site.trace(&job).iter().filter(|line| *line == "prepare - 1").count();
    assert_eq!(prologs, 2, "{:?}", site.trace(&job));
    assert!(!site.job(&job).contains("Restarts=1"), "{}", site.job(&job));
}

fn a_cancelled_job_does_not_wait_for_its_prolog(of: &Installation) {
    let site = Site::start(of, &["stages"]);
    let job = site.submit("slow-prepare");
    until("the prolog has begun", || site.trace(&job).len() == 1);
    site.slurm.client("scancel", &[&job]).ok();
    let line = format!("slurm.prolog_slurmctld: job {job}: dropped, since the job was cancelled");
    until("the prolog is dropped", || site.slurm.log("slurmctld.log").contains(&line));
    site.waits_for(&job, "JobState=CANCELLED");
    until("the node is free", || site.node().contains("idle"));
    // The prolog doesn't count as failed, and the next job isn't held up.
    assert!(!site.job(&job).contains("Restarts=1"), "{}", site.job(&job));
    let next = site.submit("ok");
    site.waits_for(&next, "JobState=COMPLETED");
}

fn fifty_jobs_at_once_have_all_their_stages(of: &Installation) {
    let site = Site::start(of, &["stages"]);
    let directory = site.directory("ok").display().to_string();
    let words = ["-D", &directory, "-o", "/dev/null", "--array=1-50", "--wrap", "true"];
    site.slurm.sbatch(&words).ok();
    let trace = || fs::read_to_string(site.slurm.scripts().join("jobs/trace")).unwrap_or_default();
    for stage in ["prepare", "prolog", "epilog", "account"] {
        let begin = format!("{stage} ");
        let count = || trace().lines().filter(|line| line.starts_with(&begin)).count();
        until(&format!("fifty times {stage}"), || count() >= 50);
        assert_eq!(count(), 50, "{stage}");
    }
}

in_each_slurm! {
    all_four_stages_run_in_their_daemons
    failures_have_slurms_consequences
    a_stage_that_takes_too_long_has_failed
    a_prolog_that_is_open_when_slurmctld_ends_runs_again
    a_cancelled_job_does_not_wait_for_its_prolog
    fifty_jobs_at_once_have_all_their_stages
}
