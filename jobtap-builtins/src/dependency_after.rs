//! `.dependency-after`: jobs that wait for the start or the end of another job.
//!
//! | scheme | description | satisfied when the other job |
//! |---|---|---|
//! | `afterstart`, `after` (deprecated) | `after-start=ID` | started |
//! | `afterany` | `after-finish=ID` | is inactive, with any result |
//! | `afterok` | `after-success=ID` | succeeded |
//! | `afternotok` | `after-failure=ID` | was allocated and did not succeed |
//! | `afterexcept` | `after-except=ID` | was allocated and got a fatal exception |
//!
//! These are Flux's schemes. Two forms are jobtap's own: `afterstart:ID+5m` is satisfied five minutes after
//! the start of the job, and `any-of:afterok:ID|afterstart:ID` as soon as one of its conditions is.
//!
//! The eventlog of the other job decides, so that a restart changes nothing. A job with a delay after another job's
//! start stores that start time in its data, since the other job may be purged meanwhile.

mod condition;

use std::collections::BTreeMap;

use jobtap_core::eventlog::Name;
use jobtap_core::plugin::Timer;
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use crate::private_mode::PrivateMode;
use condition::{ANY_OF, Condition, Kind, Never};

/// The severity of the exception for a deprecated scheme.
const NOTE: Severity = severity!(3);

/// The plugin `.dependency-after`.
#[derive(Debug, Default)]
pub struct DependencyAfter {
    /// The jobs that wait for a job.
    waiting: BTreeMap<JobId, Vec<Waiter>>,
    /// The jobs that a job waits for.
    targets: BTreeMap<JobId, Vec<JobId>>,
    /// The dependencies of a job that are satisfied some time after the start of another job.
    delays: BTreeMap<JobId, Vec<Delay>>,
    private: PrivateMode,
}

/// The start times of jobs that a job waits for with a delay.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Starts(BTreeMap<JobId, Timestamp>);

#[derive(Debug, Clone)]
struct Waiter {
    dependent: JobId,
    kind: Kind,
    delay: Option<Fsd>,
    description: String,
}

/// A job has started, and a dependency on it is satisfied some time later.
#[derive(Debug)]
struct Delay {
    target: JobId,
    description: String,
    timer: Timer,
}

/// The status of a condition.
#[derive(Debug, Clone, Copy)]
enum Status {
    Satisfied,
    /// Satisfied after a delay; the value is the other job's start time.
    After(Timestamp),
    Open,
    Never(Never),
}

#[jobtap_plugin(name = ".dependency-after", after = [".limit-duration"], data = Starts)]
impl DependencyAfter {
    #[on("conf.update")]
    fn conf(&mut self, conf: InstanceConf<PrivateMode>) {
        self.private = conf.into_inner();
    }

    #[on(
        "job.dependency.after",
        "job.dependency.afterstart",
        "job.dependency.afterany",
        "job.dependency.afterok",
        "job.dependency.afternotok",
        "job.dependency.afterexcept",
        "job.dependency.any-of"
    )]
    fn dependency(
        &mut self,
        job: &Job,
        dependency: &Dependency,
        starts: Data<'_, Starts>,
        cx: Cx<'_, JobDependency>,
        remote: Remote<Self>,
    ) -> Result<(), Reject> {
        let (scheme, value) = (dependency.scheme.as_str(), dependency.value.as_str());
        let conditions = Condition::all(scheme, value)?;
        let description = match conditions.as_slice() {
            [only] if scheme != ANY_OF => format!("{}={value}", only.kind.word()),
            _ => format!("{ANY_OF}={value}"),
        };
        // This topic is called again after a restart or a reload. A dependency that is satisfied by then
        // must not be added again.
        let asked_again = job.state() == State::Depend;
        if asked_again && job.dependency(&description).is_none() {
            return Ok(());
        }
        let mut judged = Vec::new();
        for condition in conditions {
            // The stored start of a job that may have been purged meanwhile.
            let start = match condition.delay {
                Some(_) if asked_again => {
                    starts.get().or_reject()?.0.get(&condition.target).copied()
                }
                _ => None,
            };
            let status = match (self.target(job, &condition, &cx), start) {
                (Ok(target), _) => status(&condition, target, cx.now()),
                (Err(_), Some(start)) => Status::After(start),
                (Err(_), None) if asked_again && scheme == ANY_OF => {
                    // The condition was judged when its job became inactive, and did not satisfy the
                    // dependency.
                    Status::Never(Never::Ended)
                }
                (Err(refusal), None) => return Err(refusal),
            };
            judged.push((condition, status));
        }
        if scheme == "after" && !asked_again {
            let note = "dependency scheme 'after' is deprecated, use 'afterstart'";
            cx.raise(job, Exception::new(NOTE, "dependency", note))?;
        }
        let held = cx.dependency_add(description.as_str())?;
        if judged.iter().any(|(_, status)| matches!(status, Status::Satisfied)) {
            cx.dependency_remove(held);
            return Ok(());
        }
        let mut failed = None;
        let mut is_open = false;
        for (condition, status) in judged {
            let Condition { target, kind, delay, .. } = condition;
            match status {
                Status::Satisfied => {}
                Status::Never(never) => failed = Some((kind, target, never)),
                Status::After(start) => {
                    if starts.get().or_reject()?.0.get(&target) != Some(&start) {
                        starts.update(|starts| starts.0.insert(target, start)).or_reject()?;
                    }
                    let time = start + delay.map_or(0.0, Fsd::as_secs);
                    self.delay(&remote, job.id(), target, description.clone(), time);
                    is_open = true;
                }
                Status::Open => {
                    if kind == Kind::Start
                        && let Ok(target) = cx.active_job(target)
                    {
                        cx.subscribe(target)?;
                    }
                    let description = description.clone();
                    let waiter = Waiter { dependent: job.id(), kind, delay, description };
                    self.targets.entry(job.id()).or_default().push(target);
                    self.waiting.entry(target).or_default().push(waiter);
                    is_open = true;
                }
            }
        }
        match failed {
            Some((_, _, never)) if asked_again && !is_open => {
                fail(&cx, cx.active_job(job.id())?, &description, never);
            }
            Some((kind, target, never)) if !is_open => {
                return Err(match scheme {
                    ANY_OF => {
                        Reject::new(format!("dependency: {ANY_OF}: {value} can never be satisfied"))
                    }
                    _ => kind.refusal(target, never),
                });
            }
            _ => {}
        }
        Ok(())
    }

    #[on("job.event.start")]
    fn started(
        &mut self,
        job: &Job,
        starts: Data<'_, Starts>,
        cx: Cx<'_, JobEvent>,
        remote: Remote<Self>,
    ) -> Result<(), HandlerError> {
        cx.unsubscribe(job);
        let started: Vec<Waiter> = match self.waiting.get_mut(&job.id()) {
            Some(all) => all.extract_if(.., |waiter| waiter.kind == Kind::Start).collect(),
            None => Vec::new(),
        };
        for Waiter { dependent, delay, description, .. } in started {
            match delay {
                None => self.satisfied(&cx, dependent, &description),
                Some(delay) => {
                    let start = job.t_start().unwrap_or_else(|| cx.now());
                    if let Ok(dependent) = cx.active_job(dependent) {
                        starts.of(dependent).update(|starts| starts.0.insert(job.id(), start))?;
                    }
                    let time = start + delay.as_secs();
                    self.delay(&remote, dependent, job.id(), description, time);
                }
            }
        }
        Ok(())
    }

    /// The job has left DEPEND, or was rejected, so it no longer waits for other jobs.
    #[on("job.state.priority", "job.destroy")]
    fn left_depend(&mut self, job: &Job) {
        self.forget(job.id());
    }

    #[on("job.state.inactive")]
    fn over(&mut self, job: &Job, cx: Cx<'_, JobStateInactive>) {
        self.forget(job.id());
        let mut failed = Vec::new();
        for waiter in self.waiting.remove(&job.id()).unwrap_or_default() {
            match waiter.kind.judge(job.into()) {
                Ok(()) => self.satisfied(&cx, waiter.dependent, &waiter.description),
                Err(never) => failed.push((waiter, never)),
            }
        }
        // After all satisfied dependencies have been removed, as in Flux, since an exception makes the
        // dependent inactive.
        for (Waiter { dependent, description, .. }, never) in failed {
            if self.is_open(dependent, &description) {
                continue;
            }
            // No exception for a dependent that has become inactive meanwhile, or whose dependency another
            // condition has satisfied.
            if let Ok(dependent) = cx.active_job(dependent)
                && dependent.dependency(&description).is_some()
            {
                fail(&cx, dependent, &description, never);
            }
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        let all = self.waiting.iter().flat_map(|(id, list)| list.iter().map(move |w| (id, w)));
        let all = all.map(|(target, Waiter { dependent, kind, description, .. })| {
            json!({"id": target, "depid": dependent, "type": kind.word(), "description": description})
        });
        let delays = self.delays.iter().flat_map(|(id, list)| list.iter().map(move |d| (id, d)));
        let delays = delays.map(|(dependent, Delay { target, description, .. })| {
            let kind = Kind::Start.word();
            json!({"id": target, "depid": dependent, "type": kind, "description": description})
        });
        QueryData::new().with("dependencies", all.chain(delays).collect::<Value>())
    }

    /// Returns the job of a condition, which must belong to the same user.
    fn target<'a>(
        &self,
        job: &Job,
        condition: &Condition<'_>,
        cx: &'a Cx<'_, JobDependency>,
    ) -> Result<JobRef<'a>, Reject> {
        let Condition { scheme, id, target, .. } = condition;
        let unknown = || Reject::new(format!("dependency: {scheme}: id {id}: job not found"));
        let target = cx.job(*target).map_err(|_| unknown())?;
        if target.userid() != job.userid() {
            if self.private.hides(target.userid(), job.userid(), cx.owner()) {
                return Err(unknown());
            }
            return Err(Reject::new(format!("{scheme}: Permission denied for job {id}")));
        }
        Ok(target)
    }

    /// Sets a timer that satisfies a dependency at `time`. The target has started already.
    fn delay(
        &mut self,
        remote: &Remote<Self>,
        dependent: JobId,
        target: JobId,
        description: String,
        time: Timestamp,
    ) {
        let due = description.clone();
        let timer = remote.at(time, move |plugin, cx| plugin.satisfied(&cx, dependent, &due));
        self.delays.entry(dependent).or_default().push(Delay { target, description, timer });
    }

    /// Removes a satisfied dependency of a job, and stops waiting for its other conditions.
    fn satisfied<T: TopicSet>(&mut self, cx: &Cx<'_, T>, dependent: JobId, description: &str) {
        self.forget_delays(dependent, |other| other == description);
        if description.starts_with(ANY_OF) {
            self.forget_waiters(dependent, |other| other == description);
        }
        // A dependent that has become inactive meanwhile has no dependency to remove.
        if let Ok(dependent) = cx.job(dependent)
            && let Some(held) = dependent.dependency(description)
        {
            cx.dependency_remove(held);
        }
    }

    /// Whether a condition of a dependency can still be satisfied.
    fn is_open(&self, dependent: JobId, description: &str) -> bool {
        let targets = self.targets.get(&dependent).into_iter().flatten();
        let mut waiters = targets.filter_map(|target| self.waiting.get(target)).flatten();
        let mut delays = self.delays.get(&dependent).into_iter().flatten();
        waiters.any(|waiter| waiter.dependent == dependent && waiter.description == description)
            || delays.any(|delay| delay.description == description)
    }

    fn forget(&mut self, dependent: JobId) {
        self.forget_waiters(dependent, |_| true);
        self.forget_delays(dependent, |_| true);
        self.targets.remove(&dependent);
    }

    fn forget_waiters(&mut self, dependent: JobId, is_done: impl Fn(&str) -> bool) {
        for target in self.targets.get(&dependent).into_iter().flatten() {
            if let Some(waiters) = self.waiting.get_mut(target) {
                let is_done =
                    |waiter: &Waiter| waiter.dependent == dependent && is_done(&waiter.description);
                waiters.retain(|waiter| !is_done(waiter));
                if waiters.is_empty() {
                    self.waiting.remove(target);
                }
            }
        }
    }

    fn forget_delays(&mut self, dependent: JobId, is_done: impl Fn(&str) -> bool) {
        let Some(delays) = self.delays.get_mut(&dependent) else { return };
        for delay in delays.extract_if(.., |delay| is_done(&delay.description)) {
            delay.timer.cancel();
        }
        if delays.is_empty() {
            self.delays.remove(&dependent);
        }
    }
}

/// Returns the status of a condition at `now`.
fn status(condition: &Condition<'_>, target: JobRef<'_>, now: Timestamp) -> Status {
    let kind = condition.kind;
    if target.active().is_some() && !(kind == Kind::Start && target.event_posted(Name::Start)) {
        return Status::Open;
    }
    if target.active().is_none()
        && let Err(never) = kind.judge(target)
    {
        return Status::Never(never);
    }
    let delay = condition.delay.map_or(0.0, Fsd::as_secs);
    let start = target.t_start().unwrap_or(now);
    if delay > 0.0 && start + delay > now { Status::After(start) } else { Status::Satisfied }
}

fn fail<T: TopicSet>(cx: &Cx<'_, T>, dependent: ActiveJob<'_>, description: &str, never: Never) {
    let note = match never {
        Never::Started if !description.starts_with(ANY_OF) => {
            format!("dependency {description} job never started")
        }
        _ => format!("dependency {description} can never be satisfied"),
    };
    cx.fail_job(dependent, "dependency", note);
}

#[cfg(test)]
mod tests {
    use jobtap_core::testing::{TestJob, TestManager};

    use super::*;
    use crate::PriorityDefault;

    fn manager() -> TestManager {
        TestManager::new().plugin::<PriorityDefault>().plugin::<DependencyAfter>().start()
    }

    fn after(m: &mut TestManager, scheme: &str, target: JobId) -> JobId {
        m.submit(TestJob::new().dependency(&format!("{scheme}:{target}"))).unwrap()
    }

    const RELEASED: &str =
        "submit dependency-add validate dependency-remove depend priority alloc start";
    const NEVER: &str = "submit dependency-add validate exception clean";

    #[test]
    fn what_is_satisfied_is_removed_before_a_job_fails_for_the_rest() {
        let mut m = manager();
        let target = m.submit(TestJob::new()).unwrap();
        let of = |scheme: &str| format!("{scheme}:{target}");
        let job = TestJob::new().dependency(&of("afterok")).dependency(&of("afterany"));
        let waits = m.submit(job).unwrap();
        let either = format!("any-of:afterok:{target}|afternotok:{target}");
        let either = m.submit(TestJob::new().dependency(&either)).unwrap();
        m.finish(target, 3);
        m.assert_events(
            waits,
            "submit dependency-add dependency-add validate dependency-remove exception clean",
        );
        m.assert_events(either, RELEASED);
    }

    #[test]
    fn a_job_that_is_canceled_with_its_target_has_one_exception() {
        let mut m = manager();
        let target = m.submit(TestJob::new().urgency(0)).unwrap();
        let waits = after(&mut m, "afterok", target);
        let last = after(&mut m, "afterok", waits);
        m.cancel_all().unwrap();
        m.assert_events(target, "submit validate depend priority exception clean");
        m.assert_events(waits, NEVER);
        m.assert_events(last, NEVER);
    }

    #[test]
    fn each_scheme_waits_for_its_condition() {
        // For each scheme: whether it is satisfied when the target succeeds, fails, or is canceled.
        let table = [
            ("afterok", [true, false, false]),
            ("afternotok", [false, true, true]),
            ("afterany", [true, true, true]),
            ("afterexcept", [false, false, true]),
        ];
        for (scheme, ends) in table {
            for (end, released) in ends.into_iter().enumerate() {
                let mut m = manager();
                let target = m.submit(TestJob::new()).unwrap();
                let waits = after(&mut m, scheme, target);
                m.assert_state(waits, State::Depend);
                match end {
                    0 => m.finish(target, 0),
                    1 => m.finish(target, 3),
                    _ => m.cancel(target).unwrap(),
                }
                m.assert_events(waits, if released { RELEASED } else { NEVER });
            }
        }
    }

    #[test]
    fn afterstart_waits_for_the_start_event() {
        let mut m = manager();
        m.hold_execution();
        let target = m.submit(TestJob::new()).unwrap();
        let waits = after(&mut m, "afterstart", target);
        m.assert_state(target, State::Run);
        m.assert_state(waits, State::Depend);
        m.started(target);
        m.assert_state(waits, State::Run);
    }

    #[test]
    fn a_target_that_never_ran_satisfies_only_afterany() {
        for scheme in ["afterok", "afternotok", "afterexcept", "afterstart"] {
            let mut m = manager();
            let target = m.submit(TestJob::new().urgency(0)).unwrap();
            let waits = after(&mut m, scheme, target);
            m.cancel(target).unwrap();
            m.assert_events(waits, NEVER);
            let context = m.eventlog(waits)[3].context.clone().unwrap();
            assert!(context["note"].as_str().unwrap().ends_with("job never started"));
        }
        let mut m = manager();
        let target = m.submit(TestJob::new().urgency(0)).unwrap();
        let waits = after(&mut m, "afterany", target);
        m.cancel(target).unwrap();
        m.assert_events(waits, RELEASED);
    }

    #[test]
    fn an_inactive_target_decides_at_submission() {
        let mut m = manager();
        let good = m.submit(TestJob::new().run_for(1.0)).unwrap();
        let bad = m.submit(TestJob::new().run_for(1.0).wait_status(256)).unwrap();
        m.advance(2.0);
        let ask = |m: &mut TestManager, uri: String| m.submit(TestJob::new().dependency(&uri));
        let now = ask(&mut m, format!("afterok:{good}")).unwrap();
        m.assert_events(
            now,
            "submit dependency-add dependency-remove validate depend priority alloc start",
        );
        assert_eq!(
            ask(&mut m, format!("afterok:{bad}")).unwrap_err(),
            format!("dependency: afterok: job {bad} failed or was canceled")
        );
        assert_eq!(
            ask(&mut m, format!("afternotok:{good}")).unwrap_err(),
            format!("dependency: afternotok: job {good} succeeded")
        );
        assert_eq!(
            ask(&mut m, format!("afterexcept:{bad}")).unwrap_err(),
            format!("dependency: afterexcept: job {bad}: no exception")
        );
    }

    #[test]
    fn private_mode_hides_jobs_of_other_users() {
        let config = json!({"access": {"private-mode": true}});
        let m = TestManager::new().config(config).plugin::<PriorityDefault>();
        let mut m = m.plugin::<DependencyAfter>().start();
        let other = m.submit(TestJob::new().user(7)).unwrap();
        for scheme in ["afterok", "afterany", "afterstart", "afternotok", "afterexcept"] {
            let mut refusal = |id: &str| {
                let job = TestJob::new().user(8).dependency(&format!("{scheme}:{id}"));
                m.submit(job).unwrap_err().text().replace(id, "ID")
            };
            let unknown = refusal("1234");
            assert_eq!(unknown, format!("dependency: {scheme}: id ID: job not found"));
            assert_eq!(refusal(&other.to_string()), unknown);
        }
    }

    #[test]
    fn refuses_invalid_job_ids() {
        let mut m = manager();
        let other = m.submit(TestJob::new().user(7)).unwrap();
        let mut refusal = |uri: &str| m.submit(TestJob::new().dependency(uri)).unwrap_err();
        assert_eq!(refusal("afterok:bar"), "dependency: afterok: \"bar\" is not a valid jobid");
        assert_eq!(refusal("afterany:1234"), "dependency: afterany: id 1234: job not found");
        assert_eq!(
            refusal(&format!("afterok:{other}")),
            format!("afterok: Permission denied for job {other}")
        );
        assert_eq!(refusal("afterwards:1"), "dependency scheme \"afterwards\" not supported");
    }

    #[test]
    fn the_deprecated_scheme_raises_a_note() {
        let mut m = manager();
        let target = m.submit(TestJob::new()).unwrap();
        let id = after(&mut m, "after", target);
        m.assert_events(
            id,
            "submit exception dependency-add dependency-remove validate depend priority alloc start",
        );
    }

    #[test]
    fn a_crash_changes_nothing() {
        let mut m = manager();
        let target = m.submit(TestJob::new()).unwrap();
        let waits = after(&mut m, "afterok", target);
        m.crash_and_restart();
        m.assert_events(waits, "submit dependency-add validate");
        m.finish(target, 0);
        m.assert_state(waits, State::Run);
    }

    #[test]
    fn a_chain_of_a_hundred_thousand_jobs_resolves() {
        const LENGTH: usize = 100_000;
        let mut m = manager();
        let first = m.submit(TestJob::new().urgency(0)).unwrap();
        let mut last = first;
        for _ in 1..LENGTH {
            last = m.submit(TestJob::new().dependency(&format!("afterok:{last}"))).unwrap();
        }
        // One cancel makes the whole chain fail.
        m.cancel(first).unwrap();
        m.assert_state(last, State::Inactive);
        m.assert_events(last, NEVER);
    }

    #[test]
    fn a_chain_of_successes_runs_to_its_end() {
        let mut m = manager();
        let first = m.submit(TestJob::new().run_for(1.0)).unwrap();
        let mut last = first;
        for _ in 0..1000 {
            let job = TestJob::new().run_for(1.0).dependency(&format!("afterok:{last}"));
            last = m.submit(job).unwrap();
        }
        m.advance(1002.0);
        m.assert_state(last, State::Inactive);
        assert_eq!(m.job(last).result(), Some(JobResult::Completed));
    }
}
