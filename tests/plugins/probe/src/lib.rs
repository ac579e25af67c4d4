//! `probe`: a plugin for the end-to-end tests. Attributes of jobs, its configuration and requests make it do
//! what a test then observes in a real manager.
//!
//! It is loaded by name. A job's `probe.prolog` is a shell script that runs before the job starts, `probe.slow` makes
//! `job.validate` take that many milliseconds, `probe.panic` makes it panic, and `probe.wait` makes it wait for its own
//! thread. `probe.crash` makes it end the manager by `overflow`, `memory` or `double-panic`. `probe.block` is the
//! number of milliseconds for which the prolog's future blocks, and `probe.hang` makes work on a thread hang, for which
//! the prolog waits a tenth of a second.

mod slurm;

use std::hint::black_box;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use jobtap_core::prelude::*;
use serde_json::Value;

pub use slurm::SlurmProbe;

/// The plugin's own configuration.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub struct Settings {
    greeting: String,
    longest_update: Option<Fsd>,
}

/// The part of the instance's configuration that the plugin reads.
#[derive(Debug, Default, Deserialize)]
struct Watched {
    #[serde(default)]
    site: Site,
}

#[derive(Debug, Default, Deserialize)]
struct Site {
    #[serde(default)]
    color: String,
    /// A configuration with this text is refused, and the text is the reason.
    veto: Option<String>,
}

/// The plugin's data on the instance.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Ledger {
    total: i64,
}

/// See the crate's documentation.
#[derive(Debug)]
pub struct Probe {
    settings: Settings,
    color: String,
    /// The number of configurations that the plugin has seen.
    shown: u32,
}

/// What the plugin asks another service.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Ask {
    Topic { topic: String, payload: Value },
    Key { key: String },
}

#[derive(Debug, Serialize)]
struct Seen {
    greeting: String,
    color: String,
    shown: u32,
}

/// Blocks the thread until the future is ready, as the executors of other crates do.
fn block_on<F: Future>(future: F) -> F::Output {
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => return output,
            Poll::Pending => std::thread::park(),
        }
    }
}

/// Calls itself until the stack is full.
fn overflow(depth: u64) -> u64 {
    let frame = black_box([depth; 64]);
    match depth {
        u64::MAX => 0,
        depth => overflow(depth + 1) + frame.iter().sum::<u64>(),
    }
}

struct PanicsInDrop;

impl Drop for PanicsInDrop {
    fn drop(&mut self) {
        panic!("as asked, too");
    }
}

#[jobtap_plugin(name = "probe", load = "by-name", instance_data = Ledger)]
impl Probe {
    #[init]
    fn new(settings: Conf<Settings>) -> Self {
        Self { settings: settings.into_inner(), color: String::new(), shown: 0 }
    }

    #[on("conf.update")]
    fn configured(&mut self, conf: InstanceConf<Watched>) -> Result<(), ConfError> {
        self.shown += 1;
        if let Some(text) = &conf.site.veto {
            return Err(ConfError::new(text.clone()));
        }
        self.color.clone_from(&conf.site.color);
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&self.seen())
    }

    #[on("job.validate")]
    fn validate(&self, job: &Job, remote: Remote<Self>) -> Result<(), Reject> {
        let asked = job.jobspec().attribute("probe");
        let asked = |key: &str| asked.and_then(|probe| probe.get(key));
        assert!(asked("panic").is_none(), "as asked");
        if let Some(milliseconds) = asked("slow").and_then(|value| value.as_u64()) {
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
        match asked("crash").and_then(|value| value.as_str()) {
            Some("overflow") => drop(overflow(0)),
            Some("memory") => drop(black_box(Vec::<u8>::with_capacity(isize::MAX as usize))),
            Some("double-panic") => {
                let _panics = PanicsInDrop;
                panic!("as asked");
            }
            _ => {}
        }
        if asked("wait").is_some() {
            block_on(remote.call(|_, _| ())).map_err(|error| Reject::new(error.to_string()))?;
        }
        Ok(())
    }

    #[on("job.state.run", timeout = "60s")]
    async fn prepare(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let probe = job.jobspec.attribute("probe");
        let asked = |key: &str| probe.and_then(|probe| probe.get(key));
        if let Some(milliseconds) = asked("block").and_then(|value| value.as_u64()) {
            std::thread::sleep(Duration::from_millis(milliseconds));
        }
        if asked("hang").is_some() {
            let hangs = remote.blocking(|| std::thread::sleep(Duration::from_secs(3600)));
            if remote.timeout(0.1, hangs).await.is_err() {
                return Ok(());
            }
        }
        let Some(script) = asked("prolog").and_then(|script| script.as_str()) else {
            return Ok(());
        };
        let process = Process::new("sh").arg("-c").arg(script).env("JOB", job.id.to_string());
        let end = remote.run_process(process.stdin("from probe\n")).await?;
        let complaint = String::from_utf8_lossy(&end.stderr).trim().to_owned();
        end.success().map_err(|how| PrologFailed::new(format!("prepare: {how}: {complaint}")))
    }

    #[on("job.update.attributes.system.duration")]
    fn duration(&self, request: &UpdateRequest) -> Result<Update, Reject> {
        let longest = self.settings.longest_update;
        match (request.value.as_f64(), longest) {
            (None, _) => Err(Reject::new("a duration is a number")),
            (Some(seconds), Some(longest)) if seconds > longest.as_secs() => {
                Err(Reject::new(format!("probe: {longest} is the longest")))
            }
            _ => Ok(Update::allow().validated()),
        }
    }

    #[service("seen")]
    fn tell(&self) -> Seen {
        self.seen()
    }

    #[service("whoami", role = "guest")]
    fn whoami(&self, caller: Caller) -> u32 {
        caller.userid.as_u32()
    }

    /// Adds to the data on the instance.
    #[service("add")]
    fn add(&self, n: Request<i64>, data: InstanceData<'_, Ledger>) -> Result<i64, ServiceError> {
        Ok(data.update(|ledger| {
            ledger.total += n.into_inner();
            ledger.total
        })?)
    }

    /// Counts from 1 to a number.
    #[service("count", role = "guest")]
    async fn count(
        to: Request<u32>,
        remote: Remote<Self>,
        mut answers: Responder<u32>,
    ) -> Result<(), ServiceError> {
        for n in 1..=to.into_inner() {
            remote.sleep(0.01).await?;
            answers.send(&n)?;
        }
        Ok(())
    }

    /// Sends a request to another service, or reads a key.
    #[service("ask")]
    async fn ask(request: Request<Ask>, remote: Remote<Self>) -> Result<Value, ServiceError> {
        let answer = match request.into_inner() {
            Ask::Topic { topic, payload } => remote.rpc(topic, &payload).await,
            Ask::Key { key } => remote.kvs_lookup(key).await,
        };
        answer.map_err(|error| match error {
            RpcError::Refused { error, .. } => error,
            error => ServiceError::invalid(error.to_string()),
        })
    }

    /// Runs a shell script and returns its exit status.
    #[service("sh")]
    async fn sh(script: Request<String>, remote: Remote<Self>) -> Result<String, ServiceError> {
        let process = Process::new("sh").arg("-c").arg(script.into_inner());
        let end = remote.run_process(process).await?;
        Ok(format!(
            "{} {} {}",
            end.status.as_raw(),
            end.stdout.len(),
            String::from_utf8_lossy(&end.stderr).trim()
        ))
    }

    /// Runs a program that may not exist.
    #[service("exec")]
    async fn exec(program: Request<String>, remote: Remote<Self>) -> Result<i32, ServiceError> {
        Ok(remote.run_process(Process::new(program.into_inner())).await?.status.as_raw())
    }
}

impl Probe {
    fn seen(&self) -> Seen {
        Seen {
            greeting: self.settings.greeting.clone(),
            color: self.color.clone(),
            shown: self.shown,
        }
    }
}
