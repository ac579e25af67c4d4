//! `housekeeping`: an administrator's script on every rank of a job that has ended, before the ranks go to
//! other jobs. The job is over meanwhile.
//!
//! ```toml
//! [job-manager.housekeeping]
//! command = ["/etc/site/housekeeping"]
//! release-after = "30s"    # all ranks that are done then go back, later ones each at once;
//!                          # 0: each at once; if not said all of them together
//! ```
//!
//! The table loads it. A script that fails is logged, and its rank goes back all the same: one that
//! must not be used drains it. What runs when the manager ends begins again at the next start. What a
//! manager that was killed had started may still run then: a script must cope with that.

mod conf;
mod run;

use std::collections::BTreeMap;

use jobtap_core::plugin::ProcessResult;
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use self::conf::{Script, Watched};
use self::run::{Next, Run};

/// See the module.
#[derive(Debug)]
pub struct Housekeeping {
    script: Option<Script>,
    runs: BTreeMap<JobId, Run>,
    remote: Remote<Self>,
}

/// `housekeeping kill`.
#[derive(Debug, Deserialize)]
struct Kill {
    signum: i32,
    /// Of one job; else of all.
    jobid: Option<JobId>,
    /// Of these ranks; else of all.
    ranks: Option<String>,
}

#[jobtap_plugin(name = "housekeeping", load = "configured")]
impl Housekeeping {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        Self { script: None, runs: BTreeMap::new(), remote }
    }

    /// What runs goes on as it began.
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

    /// Jobs that had their resources before this was loaded, or the manager started again.
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
        // One that has its resources past the scheduler leaves nothing that others could get.
        let Ok(kept) = cx.retain_resources() else { return };
        let (id, ranks) = (job.id(), kept.resources().ranks());
        let mut words = script.command.iter().cloned();
        let process = Process::new(words.next().unwrap_or_default())
            .args(words)
            .for_job(job)
            .env("FLUX_JOB_ID", id.as_u64().to_string())
            .env("FLUX_JOB_RANKS", ranks.to_string());
        let pending = ranks.iter().map(|rank| {
            let process = process.clone().env("JOBTAP_RANK", rank.to_string());
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

    /// What runs, for `housekeeping list` and `resource status`.
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
    /// A rank's script has ended.
    fn ended(&mut self, id: JobId, rank: u32, end: &ProcessResult, cx: &Cx<'_, Later<Self>>) {
        let Some(run) = self.runs.get_mut(&id) else { return };
        let place = |ranks: &Idset| cx.instance_resources().place(ranks);
        if let Err(error) = end {
            cx.log(Level::Error, format!("{} {id}: {error}", place(&Idset::from(rank))));
        }
        match run.ended(rank, end.as_ref().ok().map(|end| end.status)) {
            Next::Nothing => {}
            Next::Gather(seconds) => {
                // Nobody has to be told: a plugin that is gone has given back everything.
                let _ = self.remote.at(cx.now() + seconds, move |housekeeping: &mut Self, _| {
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

    /// What writes the output of a rank's script to the log.
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
