//! `housekeeping`: runs an administrator's script on every rank of a job after the job, before other jobs
//! get the rank. The job itself is inactive at that time.
//!
//! ```toml
//! [job-manager.housekeeping]
//! command = ["/etc/site/housekeeping"]
//! release-after = "30s"    # ranks that are done after this time are released together, later ones
//!                          # one by one. 0: all one by one; if not set: all together at the end
//! ```
//!
//! The table loads the plugin. If a script fails, that is logged and the rank is released anyway; a script
//! can drain a rank that must not be used. Scripts that are running when the manager exits are started again
//! when it next starts. If the manager was killed, the earlier process may still be running then, and scripts
//! must cope with that.

mod conf;
mod run;

use std::collections::BTreeMap;

use jobtap_core::plugin::ProcessResult;
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use self::conf::{Script, Watched};
use self::run::{Next, Run};

/// The plugin `housekeeping`.
#[derive(Debug)]
pub struct Housekeeping {
    script: Option<Script>,
    runs: BTreeMap<JobId, Run>,
    remote: Remote<Self>,
}

/// The request of `jobtap housekeeping kill`.
#[derive(Debug, Deserialize)]
struct Kill {
    signum: i32,
    /// The job; `None` for all jobs.
    jobid: Option<JobId>,
    /// The ranks; `None` for all ranks.
    ranks: Option<String>,
}

#[jobtap_plugin(name = "housekeeping", load = "configured")]
impl Housekeeping {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        Self { script: None, runs: BTreeMap::new(), remote }
    }

    /// Running scripts keep the configuration with which they were started.
    #[on("conf.update")]
    fn configured(
        &mut self,
        conf: InstanceConf<Watched>,
        cx: Cx<'_, ConfUpdate>,
    ) -> Result<(), ConfError> {
        let script = Script::read(&conf)?;
        let (is, with) = match &script {
            Some(script) => ("is configured", if script.imp { " with IMP" } else { "" }),
            None => ("is not configured", ""),
        };
        cx.log(Level::Debug, format!("{is}{with}"));
        if script.as_ref().is_some_and(|script| script.systemd) {
            let key = "job-manager.housekeeping.use-systemd-unit";
            cx.log(Level::Error, format!("{key} is deprecated - ignoring"));
        }
        self.script = script;
        Ok(())
    }

    #[on("job.state.run")]
    fn watch(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    /// Subscribes to jobs that already have resources when the plugin is loaded or the manager restarts.
    #[on("job.new")]
    fn watch_again(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        match job.state().is_running() {
            true => Ok(cx.subscribe(job)?),
            false => Ok(()),
        }
    }

    #[on("job.event.free")]
    fn begin(&mut self, job: &Job, cx: Cx<'_, JobEventFree>) {
        let Some(script) = &self.script else { return };
        // Resources that were not allocated by the scheduler are not released to it either.
        let Ok(kept) = cx.retain_resources() else { return };
        let (id, ranks) = (job.id(), kept.resources().ranks());
        let mut words = script.command.iter().cloned();
        let process = Process::new(words.next().unwrap_or_default())
            .args(words)
            .for_job(job)
            .env("FLUX_JOB_ID", id.as_u64().to_string())
            .env("FLUX_JOB_RANKS", ranks.to_string());
        let pending = ranks.iter().map(|rank| {
            let process = process.clone().on_rank(rank);
            let mut child = self.remote.start_process_with(process, self.logger(id, rank));
            let (signals, remote) = (child.signals(), self.remote.clone());
            self.remote.spawn(async move {
                let end = child.wait().await;
                remote.run(move |housekeeping, cx| housekeeping.ended(id, rank, &end, &cx));
            });
            (rank, signals)
        });
        let run = Run::new(cx.now(), kept, pending.collect(), script.release);
        self.runs.insert(id, run);
        cx.log(Level::Debug, format!("{id} started"));
    }

    #[service("kill")]
    fn kill(&self, request: Request<Kill>) -> Result<(), ServiceError> {
        let ranks = request.ranks.as_deref().map(str::parse::<Idset>).transpose();
        let ranks = ranks.map_err(|error| ServiceError::invalid(error.to_string()))?;
        let wanted = |id: &JobId| request.jobid.is_none_or(|wanted| wanted == *id);
        for (_, run) in self.runs.iter().filter(|(id, _)| wanted(id)) {
            run.signal(request.signum, ranks.as_ref());
        }
        Ok(())
    }

    /// The running scripts, for `jobtap housekeeping list` and `jobtap resource status`.
    #[service("list", role = "guest")]
    fn list(&self) -> Value {
        self.stats()
    }

    #[on("plugin.query")]
    fn query(&self) -> Result<QueryData, HandlerError> {
        QueryData::of(&self.stats())
    }
}

impl Housekeeping {
    /// Called when the script of a rank has ended.
    fn ended(&mut self, id: JobId, rank: u32, end: &ProcessResult, cx: &Cx<'_, Later<Self>>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let place = |ranks: &Idset| cx.instance_resources().place(ranks);
        if let Err(error) = end {
            cx.log(Level::Error, format!("{} {id}: {error}", place(&Idset::from(rank))));
        }
        match run.ended(rank, end.as_ref().ok().map(|end| end.status)) {
            Next::Nothing => {}
            Next::Gather(seconds) => {
                // An error means that the plugin has been removed, which released all ranks.
                let _ = self.remote.after(seconds, move |housekeeping: &mut Self, _| {
                    if let Some(run) = housekeeping.runs.get_mut(&id) {
                        run.gathered();
                    }
                });
            }
            Next::Complete => {
                if let Some((failed, how)) = run.failure() {
                    cx.log(Level::Error, format!("{} {id}: {how}", place(&failed)));
                }
                self.runs.remove(&id);
                cx.log(Level::Debug, format!("{id} complete"));
            }
        }
    }

    /// Returns a function that logs the output of a rank's script.
    fn logger(&self, id: JobId, rank: u32) -> impl FnMut(OutputLine) + Send + 'static {
        let remote = self.remote.clone();
        move |line| {
            let level = match line.stream {
                Stream::Stdout => Level::Info,
                Stream::Stderr => Level::Error,
            };
            remote.run(move |_, cx| {
                let place = cx.instance_resources().place(&Idset::from(rank));
                cx.log(level, format!("{place} {id}: {}", line.text));
            });
        }
    }

    fn stats(&self) -> Value {
        let running: Value =
            self.runs.iter().map(|(id, run)| (id.to_string(), run.to_json())).collect();
        let config = self.script.as_ref().map_or_else(
            || json!({}),
            |script| {
                json!({
                    "release-after": script.release_after(),
                    "command": script.command.join(" "),
                })
            },
        );
        json!({ "running": running, "config": config })
    }
}
