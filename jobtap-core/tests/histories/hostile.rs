//! Plugins that misbehave in the ways that a job asks for under `attributes.system.h`.

use jobtap_core::prelude::*;

/// The places at which a job can ask for it, each with the number of ways.
pub(crate) const PLACES: &[(&str, u64)] = &[
    ("validate", 3),
    ("new", 5),
    ("depend", 7),
    ("priority", 6),
    ("get", 4),
    ("sched", 5),
    ("run", 9),
    ("cleanup", 8),
    ("inactive", 1),
    ("event", 9),
    ("slow-validate", 6),
    ("slow-wait", 6),
    ("slow-depend", 6),
    ("slow-run", 6),
    ("slow-cleanup", 6),
    ("second-validate", 6),
    ("second-priority", 6),
];

/// Returns the kind of misbehavior that the job asks for at a place, or 0.
fn asks(job: &Jobspec, key: &str) -> u64 {
    let value = job.attribute(&format!("h.{key}"));
    value.and_then(serde_json::Value::as_u64).unwrap_or(0)
}

/// The number of events that the plugin has seen.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Seen(u64);

/// Misbehaves in synchronous handlers.
#[derive(Default)]
pub(crate) struct Hostile {
    jobs: Vec<JobId>,
    kept: Vec<Token>,
}

const MINE: &str = "mine";

impl Hostile {
    /// Some other job, picked by the job's id.
    fn other(&self, id: JobId) -> Option<JobId> {
        let count = self.jobs.len().max(1);
        let index = (id.as_u64() >> 24) as usize * 7 % count;
        self.jobs.get(index).copied().filter(|other| *other != id)
    }

    fn hit_other<T: TopicSet>(&self, job: &Job, cx: &Cx<'_, T>, severity: u8) {
        let Some(other) = self.other(job.id()).and_then(|id| cx.active_job(id).ok()) else {
            return;
        };
        match Severity::try_new(severity) {
            None => cx.fail_job(other, "hit", "by another job"),
            Some(severity) => {
                let _ = cx.raise(other, Exception::new(severity, "hit", "by another job"));
            }
        }
    }

    fn free_other<T: TopicSet>(&self, id: JobId, cx: &Cx<'_, T>) {
        if let Some(other) = self.other(id).and_then(|id| cx.job(id).ok()) {
            release(other, cx);
        }
    }

    /// Drops, keeps, fails or later finishes a prolog or epilog, depending on `how`.
    fn keep<T: TopicSet>(&mut self, how: u64, token: Token, cx: &Cx<'_, T>, remote: &Remote<Self>) {
        match how % 5 {
            0 => drop(token),
            1 => self.kept.push(token),
            2 => token.fail("on purpose"),
            how => drop(remote.at(cx.now() + how as f64, move |_, _| token.finish(0))),
        }
    }
}

#[jobtap_plugin(name = "hostile", data = Seen)]
impl Hostile {
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        match asks(job.jobspec(), "validate") {
            1 => return Err(Reject::new("no")),
            2 => panic!("hostile"),
            3 => {
                cx.jobspec_update(path!("attributes.system.h.updated"), 1)?;
                cx.dependency_add(MINE)?;
                self.hit_other(job, &cx, 0);
            }
            _ => {}
        }
        Ok(())
    }

    #[on("job.new")]
    fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>, remote: Remote<Self>) {
        let ask = asks(job.jobspec(), "new");
        match ask {
            1 => cx.reprioritize_all(),
            2 => {
                // After a restart, no plugin has been called for the next job yet.
                if let Ok(next) = cx.active_job(JobId::new(job.id().as_u64() + 1)) {
                    cx.fail_job(next, "hit", "by the one before");
                }
            }
            3 => {
                const MILD: Severity = severity!(1);
                let _ = cx.raise(job, Exception::new(MILD, "early", ""));
                self.hit_other(job, &cx, 2);
            }
            4 => panic!("hostile"),
            _ => {}
        }
        if !self.jobs.contains(&job.id()) {
            self.jobs.push(job.id());
        }
        if ask != 5 {
            let _ = cx.subscribe(job);
        }
        if job.dependencies().any(|open| open == MINE) {
            let id = job.id();
            remote.at(cx.now() + 2.0, move |_, cx| {
                if let Ok(job) = cx.job(id) {
                    release(job, &cx);
                    release(job, &cx);
                }
            });
        }
    }

    #[on("job.state.depend")]
    fn depend(
        &mut self,
        job: &Job,
        cx: Cx<'_, JobStateDepend>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        let id = job.id();
        let ask = asks(job.jobspec(), "depend");
        let held = if ask > 0 { Some(cx.dependency_add(MINE)?) } else { None };
        match ask {
            1 => {
                remote.at(cx.now() + 3.0, move |_, cx| {
                    if let Ok(job) = cx.job(id) {
                        release(job, &cx);
                    }
                });
            }
            2 => {
                held.into_iter().for_each(|held| cx.dependency_remove(held));
                release(job, &cx);
            }
            3 => panic!("hostile"),
            4 => cx.fail("depend", "on purpose")?,
            5 => {
                held.into_iter().for_each(|held| cx.dependency_remove(held));
                cx.fail("depend", "released and ended at once")?;
            }
            6 => {
                remote.at(cx.now() + 1.0, move |plugin, cx| {
                    if let Ok(job) = cx.active_job(id) {
                        release(job, &cx);
                        release(job, &cx);
                        cx.fail_job(job, "later", "");
                        plugin.free_other(id, &cx);
                    }
                });
            }
            7 => {
                let token = cx.prolog_start("soon")?;
                self.keep(id.as_u64() >> 24, token, &cx, &remote);
            }
            _ => {}
        }
        Ok(())
    }

    #[on("job.state.priority")]
    fn priority(
        &self,
        job: &Job,
        cx: Cx<'_, JobStatePriority>,
        remote: Remote<Self>,
    ) -> Result<Priority, HandlerError> {
        let id = job.id();
        Ok(match asks(job.jobspec(), "priority") {
            1 => {
                remote.at(cx.now() + 2.0, move |_, cx| {
                    if let Ok(job) = cx.active_job(id) {
                        let _ = cx.reprioritize(job, Priority::new(9));
                        let _ = cx.reprioritize(job, Priority::new(10));
                    }
                });
                Priority::UNAVAILABLE
            }
            2 => panic!("hostile"),
            3 => Priority::new(5),
            4 => Priority::UNAVAILABLE,
            5 => {
                cx.fail("priority", "on purpose")?;
                Priority::new(3)
            }
            6 => {
                cx.reprioritize(job, Priority::new(4))?;
                cx.jobspec_update(path!("attributes.system.h.priority"), 0)?;
                Priority::HELD
            }
            _ => Priority::UNCHANGED,
        })
    }

    #[on("job.priority.get")]
    fn again(&self, job: &Job, cx: Cx<'_, JobPriorityGet>) -> Priority {
        match asks(job.jobspec(), "get") {
            1 => cx.reprioritize_all(),
            2 => panic!("hostile"),
            3 => self.hit_other(job, &cx, 0),
            4 => return Priority::new(77),
            _ => {}
        }
        Priority::UNCHANGED
    }

    #[on("job.state.sched")]
    fn sched(
        &mut self,
        job: &Job,
        cx: Cx<'_, JobStateSched>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        match asks(job.jobspec(), "sched") {
            1 => cx.jobspec_update(path!("attributes.system.h.sched"), 0)?,
            2 => cx.fail("sched", "on purpose")?,
            3 => self.hit_other(job, &cx, 0),
            4 => {
                let token = cx.prolog_start("early")?;
                self.keep(job.id().as_u64() >> 24, token, &cx, &remote);
            }
            5 => cx.reprioritize_all(),
            _ => {}
        }
        Ok(())
    }

    #[on("job.state.run")]
    fn run(
        &mut self,
        job: &Job,
        cx: Cx<'_, JobStateRun>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        let ask = asks(job.jobspec(), "run");
        if ask > 0 {
            let token = cx.prolog_start("run")?;
            self.keep(ask, token, &cx, &remote);
        }
        if ask > 5 {
            // A second prolog of the same name.
            let token = cx.prolog_start("run")?;
            self.keep(ask + 2, token, &cx, &remote);
        }
        match ask {
            7 => cx.fail("run", "on purpose")?,
            8 => panic!("hostile"),
            9 => return Err(HandlerError::new("on purpose")),
            _ => {}
        }
        Ok(())
    }

    #[on("job.state.cleanup")]
    fn cleanup(
        &mut self,
        job: &Job,
        cx: Cx<'_, JobStateCleanup>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        let ask = asks(job.jobspec(), "cleanup");
        if ask > 0 {
            let token = cx.epilog_start("cleanup")?;
            self.keep(ask, token, &cx, &remote);
        }
        match ask {
            6 => cx.fail("cleanup", "on purpose")?,
            7 => panic!("hostile"),
            8 => self.hit_other(job, &cx, 0),
            _ => {}
        }
        Ok(())
    }

    #[on("job.state.inactive")]
    fn inactive(&mut self, job: &Job, cx: Cx<'_, JobStateInactive>) {
        self.free_other(job.id(), &cx);
        if asks(job.jobspec(), "inactive") > 0 {
            self.hit_other(job, &cx, 0);
        }
        self.jobs.retain(|id| *id != job.id());
    }

    #[on("job.event.*")]
    fn event(
        &self,
        job: &Job,
        entry: &EventEntry,
        seen: Data<'_, Seen>,
        cx: Cx<'_, JobEventAny>,
    ) -> Result<(), HandlerError> {
        seen.update(|seen| seen.0 += 1)?;
        match (asks(job.jobspec(), "event"), &*entry.name) {
            (1, "alloc") => self.hit_other(job, &cx, 0),
            (2, "start") | (3, "prolog-finish") | (4, "depend") => end(job, &cx, "event"),
            (5, "priority") | (6, "exception") => panic!("hostile"),
            (7, "finish") => end(job, &cx, "late"),
            (8, "release" | "validate") => self.free_other(job.id(), &cx),
            (9, "dependency-add") => release(job, &cx),
            _ => {}
        }
        Ok(())
    }
}

/// Removes the plugin's own dependency, if it holds the job.
fn release<'j, T: TopicSet>(job: impl Into<JobRef<'j>>, cx: &Cx<'_, T>) {
    if let Some(held) = job.into().dependency(MINE) {
        cx.dependency_remove(held);
    }
}

fn end<T: TopicSet>(job: &Job, cx: &Cx<'_, T>, kind: &str) {
    if let Ok(job) = cx.active_job(job.id()) {
        cx.fail_job(job, kind, "");
    }
}

/// Waits, then ends in the way that the job asks for.
async fn slow<P: 'static>(ask: u64, remote: Remote<P>) -> Result<(), Reject> {
    match ask {
        0 => return Ok(()),
        1 => panic!("hostile"),
        2 => return Err(Reject::new("at once")),
        6 => remote.sleep(1e6).await?,
        _ => remote.sleep(ask as f64).await?,
    }
    match ask {
        3 => Err(Reject::new("after a while")),
        4 => panic!("hostile"),
        _ => Ok(()),
    }
}

/// Misbehaves in asynchronous handlers.
#[derive(Default)]
pub(crate) struct Slow;

#[jobtap_plugin(name = "slow")]
impl Slow {
    #[on("job.validate")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        slow(asks(&job.jobspec, "slow-validate"), remote).await
    }

    #[on("job.dependency.wait")]
    async fn wait(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        slow(asks(&job.jobspec, "slow-wait"), remote).await
    }

    #[on("job.state.depend")]
    async fn depend(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        slow(asks(&job.jobspec, "slow-depend"), remote).await
    }

    #[on("job.state.run")]
    async fn run(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        let end = slow(asks(&job.jobspec, "slow-run"), remote).await;
        end.map_err(|reject| PrologFailed::new(reject.text()))
    }

    #[on("job.state.cleanup")]
    async fn cleanup(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        let end = slow(asks(&job.jobspec, "slow-cleanup"), remote).await;
        end.map_err(|reject| EpilogFailed::new(reject.text()))
    }
}

/// A second asynchronous gate, and an asynchronous priority; loaded only when a history does so.
#[derive(Default)]
pub(crate) struct Second;

#[jobtap_plugin(name = "second", load = "by-name")]
impl Second {
    #[on("job.validate")]
    async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
        slow(asks(&job.jobspec, "second-validate"), remote).await
    }

    #[on("job.state.priority")]
    async fn priority(job: JobInfo, remote: Remote<Self>) -> Result<Priority, HandlerError> {
        let end = slow(asks(&job.jobspec, "second-priority"), remote).await;
        end.map_err(|reject| HandlerError::new(reject.text()))?;
        Ok(Priority::new(20))
    }
}
