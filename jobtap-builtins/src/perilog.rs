//! `perilog`: runs an administrator's prolog before and epilog after the tasks of every job.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "perilog" }]
//!
//! [job-manager.prolog]
//! command = ["/etc/site/prolog"]
//! per-rank = true          # on every rank of the job; otherwise once, on rank 0
//! timeout = "5m"           # default: 30m for a prolog, none for an epilog
//! kill-timeout = 60        # seconds from SIGTERM to SIGKILL
//! cancel-on-exception = true
//! on-restart = "fail"      # or "rerun": if the manager restarts while it runs
//!
//! [job-manager.epilog]
//! command = ["/etc/site/epilog"]
//!
//! [job-manager.perilog]
//! log-ignore = ["^debug:"] # output that is not logged; default: empty lines
//! ```
//!
//! A prolog that fails raises a fatal exception on its job, an epilog that fails a non-fatal one. Nodes on
//! which a per-rank script failed or any script had to be killed are drained. The epilog also runs for a
//! job whose prolog has started, but whose tasks have not.
//!
//! If the manager restarts while one runs, a prolog counts as failed and an epilog is run again, unless
//! `on-restart` is set otherwise: a failed job can be submitted again, but nodes that were not cleaned must
//! not go to the next job.

mod conf;
mod run;

use std::collections::BTreeMap;
use std::sync::Arc;

use jobtap_core::plugin::{BulkEnd, Perilog as Kind};
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use self::conf::{Config, Script, Watched};
use self::run::{Run, Trouble};

const PROLOG: &str = "job-manager.prolog";
const EPILOG: &str = "job-manager.epilog";
const RESTARTED: &str = "the manager was restarted while it was open";
/// The severity of the exception for a failed epilog.
const FAILED_EPILOG: Severity = severity!(2);

/// The plugin `perilog`.
#[derive(Debug)]
pub struct Perilog {
    config: Config,
    runs: BTreeMap<JobId, Run>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "perilog", load = "by-name")]
impl Perilog {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        Self { config: Config::default(), runs: BTreeMap::new(), remote }
    }

    /// Running scripts keep the configuration with which they were started.
    #[on("conf.update")]
    fn configured(&mut self, conf: InstanceConf<Watched>) -> Result<(), ConfError> {
        self.config = Config::new(conf.into_inner())?;
        Ok(())
    }

    #[on("job.state.run")]
    fn begin(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        let job = cx.active_job(job.id())?;
        self.watch(job, &cx)?;
        if let Some(script) = self.config.prolog.clone() {
            self.start(script, cx.prolog_start(PROLOG), job, &cx);
        }
        Ok(())
    }

    #[on("job.event.finish")]
    fn end(&mut self, job: &Job, cx: Cx<'_, JobEventFinish>) -> Result<(), HandlerError> {
        if let Some(script) = self.config.epilog.clone() {
            self.start(script, cx.epilog_start(EPILOG), cx.active_job(job.id())?, &cx);
        }
        Ok(())
    }

    #[on("job.event.exception")]
    fn exception(&mut self, job: &Job, entry: &EventEntry) {
        if let (Some(raised), Some(run)) = (entry.fatal_exception(), self.runs.get(&job.id())) {
            // The epilog cleans up after the prolog whose failure caused this exception.
            let own = run.script.perilog == Kind::Epilog && raised.kind == Kind::Prolog.word();
            if run.script.cancel_on_exception && !own {
                run.bulk.stop();
            }
        }
    }

    /// Continues with prologs and epilogs that were running when the manager ended or the plugin was
    /// reloaded.
    #[on("job.new")]
    fn resume(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        if !job.state().is_running() {
            return Ok(());
        }
        let (prolog, epilog) = (cx.prolog_reopen(job, PROLOG), cx.epilog_reopen(job, EPILOG));
        let job = cx.active_job(job.id())?;
        self.watch(job, &cx)?;
        if let Ok(token) = prolog {
            match (job.cleanup(), self.config.to_rerun(Kind::Prolog)) {
                // The prolog had failed or the job got an exception, so only the epilog is left.
                (Some(_), _) if epilog.is_ok() => token.finish(1),
                (Some(_), _) => self.finish(job, Kind::Prolog, token, 1, &cx),
                (None, Some(script)) => self.start(script, Ok(token), job, &cx),
                (None, None) => {
                    self.fail(job, token, 1, format!("prolog {PROLOG}: {RESTARTED}"), &cx);
                }
            }
        }
        if let Ok(token) = epilog {
            if let Some(script) = self.config.to_rerun(Kind::Epilog) {
                self.start(script, Ok(token), job, &cx);
            } else {
                let note = format!("epilog {EPILOG}: {RESTARTED}");
                cx.raise(job, Exception::new(FAILED_EPILOG, "epilog", note))?;
                token.finish(1);
            }
        }
        Ok(())
    }

    #[on("plugin.query")]
    fn query(&self, cx: Cx<'_, PluginQuery>) -> Result<QueryData, HandlerError> {
        let script = |script: Option<&Script>| script.map_or(json!({}), |script| json!(script));
        let (prolog, epilog) = (self.config.prolog.as_deref(), self.config.epilog.as_deref());
        let conf = json!({ "prolog": script(prolog), "epilog": script(epilog) });
        let procs = self.runs.iter().map(|(id, run)| (id.to_string(), run.query(cx.now())));
        QueryData::of(&json!({ "conf": conf, "procs": procs.collect::<Value>() }))
    }
}

impl Perilog {
    /// Subscribes to the job's events, which is only necessary if there is a script.
    fn watch<T: TopicSet>(&self, job: ActiveJob<'_>, cx: &Cx<'_, T>) -> Result<(), CallError> {
        match self.config.prolog.is_some() || self.config.epilog.is_some() {
            true => cx.subscribe(job),
            false => Ok(()),
        }
    }

    /// Starts the processes of a prolog or epilog. `token` is an error if the start event could not be
    /// posted.
    fn start<T: TopicSet>(
        &mut self,
        script: Arc<Script>,
        token: Result<Token, CallError>,
        job: ActiveJob<'_>,
        cx: &Cx<'_, T>,
    ) {
        let (id, word) = (job.id(), script.perilog.word());
        let Ok(token) = token else {
            return cx.fail_job(job, word, format!("failed to start job {word}"));
        };
        let mut child = self.remote.start_bulk(script.bulk(job.into()), self.logger(id, word));
        let run = Run { script, token, bulk: child.control() };
        self.runs.insert(id, run);
        let remote = self.remote.clone();
        self.remote.spawn(async move {
            if let Ok(end) = child.wait().await {
                remote.run(move |perilog, cx| perilog.ended(id, &end, &cx));
            }
        });
    }

    /// Returns a function that logs the output of a job's processes.
    fn logger(
        &self,
        id: JobId,
        word: &'static str,
    ) -> impl FnMut(u32, OutputLine) + Clone + Send + 'static {
        let (remote, ignore) = (self.remote.clone(), Arc::clone(&self.config.ignore));
        move |rank, line| {
            if ignore.iter().any(|regex| regex.is_match(&line.text)) {
                return;
            }
            let (level, stream) = match line.stream {
                Stream::Stdout => (Level::Info, "stdout"),
                Stream::Stderr => (Level::Error, "stderr"),
            };
            remote.run(move |_, cx| {
                let place = cx.instance_resources().place(&Idset::from(rank));
                cx.log_of(id, level, format!("{word}: {place}: {stream}: {}", line.text));
            });
        }
    }

    /// Called when all processes have ended. Reports failures and lets the job continue.
    fn ended(&mut self, id: JobId, end: &BulkEnd, cx: &Cx<'_, Later<Self>>) {
        let (Some(Run { script, token, .. }), Ok(job)) = (self.runs.remove(&id), cx.active_job(id))
        else {
            return;
        };
        let (word, resources) = (script.perilog.word(), cx.instance_resources());
        for (rank, error) in end.errors() {
            let place = resources.place(&Idset::from(rank));
            cx.log_of(id, Level::Error, format!("{word}: {place}: {error}"));
        }
        if !end.killed.is_empty() {
            let text = format!("timed out waiting for SIGTERM to terminate {word}");
            cx.log_of(id, Level::Error, text);
        }
        let status = end.status().as_raw();
        if let Some(trouble) = Trouble::from_end(&script, end) {
            if !trouble.unfit.is_empty() {
                cx.drain(&trouble.unfit, format!("{word} {} for job {id}", trouble.reason));
            }
            let note = format!("{word} {} on {}", trouble.note, resources.place(&trouble.ranks));
            if script.perilog == Kind::Prolog {
                return self.fail(job, token, status, note, cx);
            }
            // This can't fail, since the job is active, as checked above.
            let _ = cx.raise(job, Exception::new(FAILED_EPILOG, word, note));
        }
        self.finish(job, script.perilog, token, status, cx);
    }

    /// Fails the job of a failed prolog and starts the epilog if there is one.
    fn fail<T: TopicSet>(
        &mut self,
        job: ActiveJob<'_>,
        token: Token,
        status: i32,
        note: String,
        cx: &Cx<'_, T>,
    ) {
        let kind = Kind::Prolog.word();
        match self.config.epilog.clone() {
            None => cx.fail_job(job, kind, note),
            Some(script) => {
                let epilog = cx.fail_job_with_epilog(job, EPILOG, kind, note);
                self.start(script, epilog, job, cx);
            }
        }
        token.finish(status);
    }

    /// Finishes a prolog or epilog. After the prolog of a job that will not start its tasks, the epilog is
    /// started.
    fn finish<T: TopicSet>(
        &mut self,
        job: ActiveJob<'_>,
        perilog: Kind,
        token: Token,
        status: i32,
        cx: &Cx<'_, T>,
    ) {
        if let (Kind::Prolog, Some(ending), Some(script)) =
            (perilog, job.cleanup(), self.config.epilog.clone())
        {
            self.start(script, cx.epilog_start_of(ending, EPILOG), job, cx);
        }
        token.finish(status);
    }
}
