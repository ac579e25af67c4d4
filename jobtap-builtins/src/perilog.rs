//! `perilog`: an administrator's prolog and epilog around every job, as processes.
//!
//! ```toml
//! [job-manager]
//! plugins = [{ load = "perilog" }]
//!
//! [job-manager.prolog]
//! command = ["/etc/site/prolog"]
//! per-rank = true          # on every rank of the job; else once, on rank 0
//! timeout = "5m"           # 30m if not said; an epilog has none
//! kill-timeout = 60        # seconds from SIGTERM to SIGKILL
//! cancel-on-exception = true
//! on-restart = "fail"      # or "rerun": when the manager was restarted while it ran
//!
//! [job-manager.epilog]
//! command = ["/etc/site/epilog"]
//!
//! [job-manager.perilog]
//! log-ignore = ["^debug:"] # output that is not logged; empty lines if not said
//! ```
//!
//! A prolog that fails ends its job, an epilog that fails only notes it. Nodes where a script that is run
//! per rank failed, or where one had to be killed, are drained. A job whose prolog began and
//! that ends before it was started has its epilog too, and waits for it.
//!
//! When the manager is restarted meanwhile, a prolog has failed and an epilog begins again, if
//! `on-restart` doesn't say otherwise: a job is soon submitted again, while resources that were not
//! cleaned must not go to the next one.

mod conf;
mod run;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jobtap_core::plugin::{Bracket, ProcessResult};
use jobtap_core::prelude::*;
use serde_json::{Map, Value, json};

use self::conf::{Config, Script, Watched};
use self::run::{Phase, Run};

const PROLOG: &str = "job-manager.prolog";
const EPILOG: &str = "job-manager.epilog";
const RESTARTED: &str = "the manager was restarted while it was open";
/// How grave an epilog's failure is.
const FAILED_EPILOG: Severity = Severity::new(2);

/// See the module.
#[derive(Debug)]
pub struct Perilog {
    config: Config,
    runs: HashMap<JobId, Run>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "perilog", load = "by-name")]
impl Perilog {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        Self { config: Config::default(), runs: HashMap::new(), remote }
    }

    /// What runs goes on as it began.
    #[on("conf.update")]
    fn configured(&mut self, conf: InstanceConf<Watched>) -> Result<(), ConfError> {
        self.config = Config::new(conf.into_inner())?;
        Ok(())
    }

    #[on("job.state.run")]
    fn begin(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        self.watch(job, &cx)?;
        if let Some(script) = self.config.prolog.clone() {
            match cx.prolog_start(PROLOG) {
                Ok(token) => self.start(&script, token, job.into(), cx.now()),
                Err(_) => cx.fail("prolog", "failed to start job prolog")?,
            }
        }
        Ok(())
    }

    #[on("job.event.finish")]
    fn end(&mut self, job: &Job, cx: Cx<'_, JobEventFinish>) -> Result<(), HandlerError> {
        if let Some(script) = self.config.epilog.clone() {
            match cx.epilog_start(EPILOG) {
                Ok(token) => self.start(&script, token, job.into(), cx.now()),
                Err(_) => cx.fail("epilog", "failed to start job epilog")?,
            }
        }
        Ok(())
    }

    #[on("job.event.exception")]
    fn exception(&mut self, job: &Job, entry: &EventEntry, cx: Cx<'_, JobEvent>) {
        let fatal = entry.exception().filter(|raised| raised.is_fatal());
        let (Some(raised), Some(run)) = (fatal, self.runs.get(&job.id())) else { return };
        // An epilog cleans up after the prolog whose failure this is.
        let own = run.script.bracket == Bracket::Epilog && raised.kind == Bracket::Prolog.word();
        if run.script.cancel_on_exception && !own {
            self.stop(job.id(), Phase::Canceled, cx.now());
        }
    }

    /// Takes over what was open when the manager ended, or this plugin was reloaded.
    #[on("job.new")]
    fn resume(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        if !matches!(job.state(), State::Run | State::Cleanup) {
            return Ok(());
        }
        self.watch(job, &cx)?;
        let (prolog, epilog) = (cx.prolog_reopen(job, PROLOG), cx.epilog_reopen(job, EPILOG));
        match (prolog, job.state()) {
            (Ok(token), State::Run) => self.resume_prolog(job, token, &cx)?,
            // It had failed, or the job was ended: what is left is to clean up after it.
            (Ok(token), _) if epilog.is_err() => {
                self.runs.insert(job.id(), Run::lost(self.script(Bracket::Prolog), token));
                self.conclude(job.id(), &cx);
            }
            (Ok(token), _) => token.finish(1),
            (Err(_), _) => {}
        }
        if let Ok(token) = epilog {
            let script = self.script(Bracket::Epilog);
            if script.rerun {
                self.start(&script, token, job.into(), cx.now());
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
        let script = |bracket| {
            self.config.script(bracket).map_or_else(|| json!({}), |script| script.query())
        };
        let runs: BTreeMap<_, _> = self.runs.iter().collect();
        let procs: Map<String, Value> =
            runs.into_iter().map(|(id, run)| (id.to_string(), run.query(cx.now()))).collect();
        let conf = json!({ "prolog": script(Bracket::Prolog), "epilog": script(Bracket::Epilog) });
        QueryData::of(&json!({ "conf": conf, "procs": procs }))
    }
}

impl Perilog {
    /// Hears of the job's exceptions and of the end of its tasks, as far as there is something to do.
    fn watch<T: TopicSet>(&self, job: &Job, cx: &Cx<'_, T>) -> Result<(), CallError> {
        match self.config.prolog.is_some() || self.config.epilog.is_some() {
            true => cx.subscribe(cx.live(job.id())?),
            false => Ok(()),
        }
    }

    /// What is to be run; when that was configured away meanwhile, something that is not run.
    fn script(&self, bracket: Bracket) -> Arc<Script> {
        let script = self.config.script(bracket).cloned();
        script.unwrap_or_else(|| Arc::new(Script::absent(bracket)))
    }

    fn resume_prolog(
        &mut self,
        job: &Job,
        token: Token,
        cx: &Cx<'_, JobNew>,
    ) -> Result<(), CallError> {
        let script = self.script(Bracket::Prolog);
        if script.rerun {
            self.start(&script, token, job.into(), cx.now());
            return Ok(());
        }
        self.runs.insert(job.id(), Run::lost(script, token));
        self.fail(cx.live(job.id())?, format!("prolog {PROLOG}: {RESTARTED}"), cx);
        Ok(())
    }

    /// Starts the processes of a prolog or epilog that was opened.
    fn start(&mut self, script: &Arc<Script>, token: Token, job: JobRef<'_>, now: Timestamp) {
        let (id, bracket) = (job.id(), script.bracket);
        let hosts = script.hosts(job);
        let mut run = Run::new(Arc::clone(script), token, hosts.clone());
        for (rank, host) in hosts {
            let process = script.process(job, rank);
            let place = format!("{id}: {}: {host} (rank {rank}): ", bracket.word());
            let mut child = self.remote.start_process_with(process, self.logger(place));
            run.started(rank, child.signals());
            let remote = self.remote.clone();
            self.remote.spawn(async move {
                let end = child.wait().await;
                remote.run(move |perilog, cx| perilog.ended((id, bracket), rank, end, &cx));
            });
        }
        if let Some(timeout) = script.timeout {
            let timer = self.remote.at(now + timeout, move |perilog: &mut Self, cx| {
                if perilog.run((id, bracket)).is_some() {
                    perilog.stop(id, Phase::TimedOut, cx.now());
                }
            });
            run.time(Some(now + timeout), Some(timer));
        }
        self.runs.insert(id, run);
    }

    /// What writes a process's output to the log.
    fn logger(&self, place: String) -> impl FnMut(OutputLine) + Send + 'static {
        let (remote, ignore) = (self.remote.clone(), Arc::clone(&self.config.ignore));
        move |line| {
            if ignore.iter().any(|regex| regex.is_match(&line.text)) {
                return;
            }
            let (level, stream) = match line.stream {
                Stream::Stdout => (Level::Info, "stdout"),
                Stream::Stderr => (Level::Error, "stderr"),
            };
            let text = format!("{place}{stream}: {}", line.text);
            remote.run(move |_, cx| cx.log(level, text));
        }
    }

    /// A job's prolog or epilog; none when it is over, or the other one is at work by now.
    fn run(&mut self, (id, bracket): (JobId, Bracket)) -> Option<&mut Run> {
        self.runs.get_mut(&id).filter(|run| run.script.bracket == bracket)
    }

    fn ended(
        &mut self,
        of: (JobId, Bracket),
        rank: u32,
        end: ProcessResult,
        cx: &Cx<'_, Later<Self>>,
    ) {
        let Some(run) = self.run(of) else { return };
        if let Some(reason) = run.ended(rank, end) {
            let (id, word) = (of.0, of.1.word());
            cx.log(Level::Error, format!("{id}: {word}: (rank {rank}): {reason}"));
        }
        if !run.is_active() {
            self.settle(of.0, cx);
        }
    }

    /// Asks the processes of a job to end, and sees to it that they do.
    fn stop(&mut self, id: JobId, phase: Phase, now: Timestamp) {
        let Some(run) = self.runs.get_mut(&id).filter(|run| run.phase == Phase::Running) else {
            return;
        };
        run.stop(phase);
        let of = (id, run.script.bracket);
        let deadline = now + run.script.kill_timeout;
        let timer = self.remote.at(deadline, move |perilog: &mut Self, cx| {
            if let Some(run) = perilog.run(of) {
                let word = of.1.word();
                let text = format!("{id}: timed out waiting for SIGTERM to terminate {word}");
                cx.log(Level::Error, text);
                run.kill();
                perilog.settle(id, &cx);
            }
        });
        if let Some(run) = self.runs.get_mut(&id) {
            run.time(Some(deadline), Some(timer));
        }
    }

    /// Nothing of it runs any more: says what went wrong, if anything did, and lets the job go on.
    fn settle(&mut self, id: JobId, cx: &Cx<'_, Later<Self>>) {
        let (Some(run), Ok(job)) = (self.runs.get_mut(&id), cx.live(id)) else {
            return;
        };
        run.time(None, None);
        if let Some((ranks, reason)) = run.unfit() {
            cx.drain(&ranks, format!("{reason} for job {id}"));
        }
        match (run.script.bracket, run.complaint()) {
            (Bracket::Prolog, Some(note)) => return self.fail(job, note, cx),
            (Bracket::Epilog, Some(note)) => {
                let exception = Exception::new(FAILED_EPILOG, "epilog", note);
                // The job is live, as was found above.
                let _ = cx.raise(job, exception);
            }
            (_, None) => {}
        }
        self.conclude(id, cx);
    }

    /// Ends the job of a prolog that failed, with an epilog if there is one.
    fn fail<T: TopicSet>(&mut self, job: LiveJob<'_>, note: String, cx: &Cx<'_, T>) {
        let Some(run) = self.runs.remove(&job.id()) else { return };
        let kind = Bracket::Prolog.word();
        match self.config.epilog.clone() {
            None => cx.fail_job(job, kind, note),
            Some(script) => match cx.fail_job_with_epilog(job, EPILOG, kind, note) {
                Ok(token) => self.start(&script, token, job.into(), cx.now()),
                Err(_) => cx.fail_job(job, "epilog", "failed to start job epilog"),
            },
        }
        let status = run.status();
        run.token.finish(status);
    }

    /// Finishes it. After a prolog, a job that can't be started any more has its epilog.
    fn conclude<T: TopicSet>(&mut self, id: JobId, cx: &Cx<'_, T>) {
        let Some(run) = self.runs.remove(&id) else { return };
        let ending = cx.live(id).ok().and_then(LiveJob::ending);
        if let (Bracket::Prolog, Some(job), Some(script)) =
            (run.script.bracket, ending, self.config.epilog.clone())
        {
            match cx.epilog_start_of(job, EPILOG) {
                Ok(token) => self.start(&script, token, job.into(), cx.now()),
                Err(_) => cx.fail_job(job, "epilog", "failed to start job epilog"),
            }
        }
        let status = run.status();
        run.token.finish(status);
    }
}
