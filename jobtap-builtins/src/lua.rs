//! `lua`: runs a site's `job_submit.lua` as Slurm does.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "lua" }]
//!
//! [plugins.lua]
//! script = "job_submit.lua"   # relative to the directory of the configuration
//! slurm-version = "26.05"     # the release for which the script was written
//! on_error = "reject"         # or "accept", as Slurm did before 26.05
//! lua = "5.1"                 # or "5.4"
//! sandbox = false             # true: no files, no commands
//! time_limit = "10s"          # for one call, and the commands that it runs
//! instructions = 200000000    # for one call
//! memory = 256                # MiB, of all that the script keeps
//! cluster = "cluster"         # slurm.CLUSTER_NAME
//! min_job_age = "5m"          # how long slurm.jobs has jobs that have ended
//! qos_priority = { high = 1000 }   # for slurm.get_qos_priority
//! ```
//!
//! A script that can't be loaded is an error when the plugin is loaded. A script is loaded again when its
//! file becomes newer; if that fails, the old one stays in use. Scripts run off the manager's thread, one
//! call at a time.
//!
//! The guide (`slurm-lua.md`) says what scripts can use, and how they differ from those in Slurm.

mod dialect;
mod document;
mod files;
#[cfg(feature = "fuzz")]
#[doc(hidden)]
pub mod foreign;
mod limits;
mod modules;
mod native;
mod pattern;
mod process;
mod script;
pub mod token;
mod worker;
mod yaml;

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::path::PathBuf;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_channel::oneshot;
use jobtap_core::plugin::{ConfDirectory, UserMessages};
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition, SlurmError, UnknownRelease, errno};

pub use limits::{Limit, Limits};
pub use modules::{MODULES, Module};
pub use native::{LogLine, Surroundings};
pub use process::kill_commands;
pub use script::{LoadError, OnError, Options, Script, Verdict, Version};
use worker::{Answer, Refused, Reply, Request, Worker};

/// The plugin `lua`.
#[derive(Debug)]
pub struct Lua {
    worker: Arc<Worker>,
    /// How long `slurm.jobs` includes jobs that have ended, in seconds.
    min_job_age: f64,
}

#[derive(Debug, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
struct Settings {
    /// The script; a relative name is relative to the directory of the configuration.
    script: PathBuf,
    /// The release of Slurm for which the script was written, such as `24.11`; the newest by default.
    #[serde(rename = "slurm-version")]
    slurm_version: Option<String>,
    /// What happens to a request when the script fails: `reject` or `accept`.
    on_error: OnErrorName,
    /// The version of Lua that the script sees: `5.1` or `5.4`.
    lua: VersionName,
    /// Keeps files, commands and the manager's environment out of reach of the script.
    sandbox: bool,
    /// How long one call may take; 10 seconds by default.
    time_limit: Option<Fsd>,
    /// How many instructions one call may run.
    instructions: u64,
    /// How much memory the script may use, in MiB.
    memory: u32,
    /// The value of `slurm.CLUSTER_NAME`.
    cluster: String,
    /// How long `slurm.jobs` includes jobs that have ended; 5 minutes by default.
    min_job_age: Option<Fsd>,
    /// What `slurm.get_qos_priority` returns.
    qos_priority: BTreeMap<String, f64>,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum OnErrorName {
    Reject,
    Accept,
}

#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
enum VersionName {
    #[serde(rename = "5.1")]
    Lua51,
    #[serde(rename = "5.4")]
    Lua54,
}

impl Default for Settings {
    fn default() -> Self {
        let limits = Limits::default();
        Self {
            script: "job_submit.lua".into(),
            slurm_version: None,
            on_error: OnErrorName::Reject,
            lua: VersionName::Lua51,
            sandbox: false,
            time_limit: None,
            instructions: limits.instructions,
            memory: 256,
            cluster: "cluster".to_owned(),
            min_job_age: None,
            qos_priority: BTreeMap::new(),
        }
    }
}

impl Settings {
    fn options(&self) -> Result<Options, UnknownRelease> {
        // A time that is too long for a `Duration` means no limit.
        let given =
            |time: Fsd| Duration::try_from_secs_f64(time.as_secs()).unwrap_or(Duration::MAX);
        let time = self.time_limit.map_or(Limits::default().time, given);
        let release = self.slurm_version.as_deref().map(str::parse).transpose()?;
        Ok(Options {
            release: release.unwrap_or_default(),
            version: match self.lua {
                VersionName::Lua51 => Version::Lua51,
                VersionName::Lua54 => Version::Lua54,
            },
            sandbox: self.sandbox,
            limits: Limits {
                instructions: self.instructions,
                time,
                memory: (self.memory.max(LEAST_MEMORY) as usize) << 20,
            },
            on_error: match self.on_error {
                OnErrorName::Reject => OnError::Reject,
                OnErrorName::Accept => OnError::Accept,
            },
            cluster: self.cluster.clone(),
            qos_priority: self.qos_priority.clone(),
        })
    }
}

/// In MiB: with less, not even the prelude can be loaded.
const LEAST_MEMORY: u32 = 2;

/// In seconds: Slurm's default of `MinJobAge`.
const MIN_JOB_AGE: f64 = 300.0;

/// How often a waiting request checks whether the script is stuck, in seconds.
const CHECK: f64 = 2.0;

#[jobtap_plugin(name = "lua", load = "by-name")]
impl Lua {
    #[init]
    fn new(
        settings: Conf<Settings>,
        directory: ConfDirectory,
        remote: Remote<Self>,
    ) -> Result<Self, ConfError> {
        let place = |error: ConfError| error.in_table("plugins.lua");
        let path = directory.resolve(&settings.script).map_err(place)?;
        let refused =
            |error: UnknownRelease| place(ConfError::new(format!("slurm-version: {error}")));
        let options = settings.options().map_err(refused)?;
        let mut log = Vec::new();
        let script = Script::load(&path, options.clone(), &mut log);
        let script = script.map_err(|error| place(ConfError::new(error.to_string())))?;
        write_log(&remote, log);
        let min_job_age = settings.min_job_age.map_or(MIN_JOB_AGE, Fsd::as_secs);
        let worker = Arc::new(Worker::new(path, options, script));
        Ok(Self { worker, min_job_age })
    }

    #[on("slurm.job_submit")]
    async fn submit(
        desc: JobDescriptor,
        user: SubmitUid,
        partitions: Vec<Partition>,
        messages: UserMessages,
        remote: Remote<Self>,
    ) -> Result<JobDescriptor, SlurmError> {
        decide(desc, None, user, partitions, messages, remote).await
    }

    #[on("slurm.job_modify")]
    async fn modify(
        desc: JobDescriptor,
        job: JobRecord,
        user: SubmitUid,
        partitions: Vec<Partition>,
        messages: UserMessages,
        remote: Remote<Self>,
    ) -> Result<JobDescriptor, SlurmError> {
        decide(desc, Some(job), user, partitions, messages, remote).await
    }
}

impl Lua {
    /// The jobs of `slurm.jobs`.
    fn jobs(&self, cx: &Cx<'_, Later<Self>>) -> Vec<JobRecord> {
        let since = Timestamp::from_secs(cx.now().as_secs() - self.min_job_age);
        cx.active_jobs().chain(cx.ended_jobs(since)).map(JobRecord::from).collect()
    }
}

/// Asks the script for its verdict, and passes its messages on to the log and the user.
async fn decide(
    description: JobDescriptor,
    job: Option<JobRecord>,
    user: SubmitUid,
    partitions: Vec<Partition>,
    messages: UserMessages,
    remote: Remote<Lua>,
) -> Result<JobDescriptor, SlurmError> {
    let uid = user.0.as_u32();
    match ask(description, job, uid, partitions, &remote).await {
        Ok((verdict, description)) => {
            write_log(&remote, verdict.log.iter().cloned());
            for message in &verdict.messages {
                messages.send(message.clone());
            }
            verdict.refusal().map_or(Ok(description), Err)
        }
        Err(refused) => {
            let text = refused.to_string();
            let line = format!("{text}; the request is refused");
            remote.run(move |_, cx| cx.log(Level::Error, line));
            Err(errno::ESLURM_LUA_FUNC_FAILED.with(text))
        }
    }
}

async fn ask(
    description: JobDescriptor,
    job: Option<JobRecord>,
    uid: u32,
    partitions: Vec<Partition>,
    remote: &Remote<Lua>,
) -> Answer {
    let (sender, mut receiver) = oneshot::channel();
    // On the manager's thread, so that requests are queued in the order of their arrival.
    let put = remote.call(move |lua, cx| {
        let worker = Arc::clone(&lua.worker);
        // Collecting all jobs takes a while, and most scripts don't need them.
        let jobs = match worker.mentions_jobs() {
            true => lua.jobs(&cx),
            false => Vec::new(),
        };
        let surroundings = Surroundings { partitions, jobs, reservations: Vec::new() };
        let request = Request { description, job, surroundings, uid };
        let ticket = worker.put(request, Box::new(Waiting(sender)))?;
        Ok((worker, ticket))
    });
    let (worker, ticket) = put.await.map_err(|_| Refused::Gone)??;
    loop {
        ask_for_thread(&worker, remote);
        match remote.timeout(CHECK, &mut receiver).await {
            Ok(answer) => return answer.map_err(|_| Refused::Gone)?,
            Err(_) if worker.give_up(ticket) => {
                ask_for_thread(&worker, remote);
                return Err(Refused::Stuck);
            }
            Err(_) => {}
        }
    }
}

/// Asks the host for a thread that runs the queue, if none does. No request waits for that thread, since it
/// may go on to answer others long after the request that asked for it.
fn ask_for_thread(worker: &Arc<Worker>, remote: &Remote<Lua>) {
    let Some(errand) = worker.ask_for_thread() else { return };
    let (worker, remote) = (Arc::clone(worker), remote.clone());
    remote.clone().spawn(async move {
        let (running, generation) = (Arc::clone(&worker), errand.generation());
        let mut work = pin!(remote.blocking(move || running.run(generation)));
        let mut given_up = errand.given_up;
        let end = poll_fn(|cx| match work.as_mut().poll(cx) {
            Poll::Ready(end) => Poll::Ready(end),
            // Dropping the work tells the host that the thread is given up.
            Poll::Pending => Pin::new(&mut given_up).poll(cx).map(|_| Ok(())),
        });
        if let Err(error) = end.await {
            worker.refuse(generation, &error.to_string());
        }
    });
}

/// A request that waits for its answer.
struct Waiting(oneshot::Sender<Answer>);

impl Reply for Waiting {
    fn is_gone(&self) -> bool {
        self.0.is_canceled()
    }

    fn send(self: Box<Self>, answer: Answer) {
        // The request may have been withdrawn meanwhile.
        let _ = self.0.send(answer);
    }
}

/// Writes lines of the script to the manager's log.
fn write_log(remote: &Remote<Lua>, lines: impl IntoIterator<Item = LogLine>) {
    let lines: Vec<LogLine> = lines.into_iter().collect();
    if !lines.is_empty() {
        remote.run(move |_, cx| {
            for LogLine { level, text } in lines {
                cx.log(level, text);
            }
        });
    }
}
