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
//! The eventlog of the other job decides, so that a restart changes nothing.

use std::collections::{BTreeMap, HashMap};

use jobtap_core::prelude::*;
use serde_json::{Value, json};

use crate::private_mode::PrivateMode;

/// The severity of the exception for a deprecated scheme.
const NOTE: Severity = severity!(3);

/// The plugin `.dependency-after`.
#[derive(Debug, Default)]
pub struct DependencyAfter {
    /// The jobs that wait for a job.
    waiting: BTreeMap<JobId, Vec<Waiter>>,
    /// The jobs that a job waits for.
    targets: HashMap<JobId, Vec<JobId>>,
    private: PrivateMode,
}

#[derive(Debug, Clone)]
struct Waiter {
    dependent: JobId,
    kind: Kind,
    description: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Start,
    Finish,
    Success,
    Failure,
    Except,
}

/// Why a dependency on an inactive job can't be satisfied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Never {
    Started,
    Ended,
}

impl Kind {
    fn of_scheme(scheme: &str) -> Option<Self> {
        Some(match scheme {
            "after" | "afterstart" => Kind::Start,
            "afterany" => Kind::Finish,
            "afterok" => Kind::Success,
            "afternotok" => Kind::Failure,
            "afterexcept" => Kind::Except,
            _ => return None,
        })
    }

    fn word(self) -> &'static str {
        match self {
            Kind::Start => "after-start",
            Kind::Finish => "after-finish",
            Kind::Success => "after-success",
            Kind::Failure => "after-failure",
            Kind::Except => "after-except",
        }
    }

    /// Checks whether an inactive job satisfies the dependency.
    fn judge(self, target: JobRef<'_>) -> Result<(), Never> {
        let completed = target.result() == Some(JobResult::Completed);
        let excepted = target.end_event().is_some_and(|end| end.name == "exception");
        let satisfied = match self {
            Kind::Finish => return Ok(()),
            _ if !target.event_posted("alloc") => return Err(Never::Started),
            Kind::Start if target.event_posted("start") => true,
            Kind::Start => return Err(Never::Started),
            Kind::Success => completed,
            Kind::Failure => !completed,
            Kind::Except => excepted,
        };
        if satisfied { Ok(()) } else { Err(Never::Ended) }
    }

    /// The rejection of a job whose dependency can't be satisfied any more.
    fn refusal(self, target: JobId, never: Never) -> Reject {
        Reject::new(match (self, never) {
            (_, Never::Started) | (Kind::Start | Kind::Finish, _) => {
                format!("dependency: after: {target} never started")
            }
            (Kind::Success, _) => {
                format!("dependency: afterok: job {target} failed or was canceled")
            }
            (Kind::Failure, _) => format!("dependency: afternotok: job {target} succeeded"),
            (Kind::Except, _) => format!("dependency: afterexcept: job {target}: no exception"),
        })
    }
}

#[jobtap_plugin(name = ".dependency-after", after = [".limit-duration"])]
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
        "job.dependency.afterexcept"
    )]
    fn dependency(
        &mut self,
        job: &Job,
        dependency: &Dependency,
        cx: Cx<'_, JobDependency>,
    ) -> Result<(), Reject> {
        let (scheme, value) = (&dependency.scheme, &dependency.value);
        let Some(kind) = Kind::of_scheme(scheme) else {
            return Ok(());
        };
        // The largest id means "any job" in Flux.
        let target = value.parse().ok().filter(|id: &JobId| id.as_u64() != u64::MAX);
        let target = target.ok_or_else(|| {
            Reject::new(format!("dependency: {scheme}: \"{value}\" is not a valid jobid"))
        })?;
        let unknown = || Reject::new(format!("dependency: {scheme}: id {value}: job not found"));
        let target = cx.job(target).map_err(|_| unknown())?;
        if target.userid() != job.userid() {
            if self.private.hides(target.userid(), job.userid(), cx.owner()) {
                return Err(unknown());
            }
            let text = format!("{scheme}: Permission denied for job {value}");
            return Err(Reject::new(text));
        }
        let description = format!("{}={value}", kind.word());
        // This topic is called again after a restart or a reload. A dependency that is satisfied by then
        // must not be added again.
        let asked_again = job.state() == State::Depend;
        if asked_again && job.dependency(&description).is_none() {
            return Ok(());
        }
        if scheme == "after" && !asked_again {
            let note = "dependency scheme 'after' is deprecated, use 'afterstart'";
            cx.raise(job, Exception::new(NOTE, "dependency", note))?;
        }
        let held = cx.dependency_add(description.as_str())?;
        let waiter = Waiter { dependent: job.id(), kind, description };
        let Some(target) = target.active() else {
            match kind.judge(target) {
                Ok(()) => cx.dependency_remove(held),
                Err(never) if asked_again => fail(&cx, cx.active_job(job.id())?, &waiter, never),
                Err(never) => return Err(kind.refusal(target.id(), never)),
            }
            return Ok(());
        };
        if kind == Kind::Start {
            if target.event_posted("start") {
                cx.dependency_remove(held);
                return Ok(());
            }
            cx.subscribe(target)?;
        }
        self.targets.entry(job.id()).or_default().push(target.id());
        self.waiting.entry(target.id()).or_default().push(waiter);
        Ok(())
    }

    #[on("job.event.start")]
    fn started(&mut self, job: &Job, cx: Cx<'_, JobEvent>) {
        cx.unsubscribe(job);
        if let Some(waiters) = self.waiting.get_mut(&job.id()) {
            for waiter in waiters.extract_if(.., |waiter| waiter.kind == Kind::Start) {
                release(&cx, &waiter);
            }
        }
    }

    /// The job has left DEPEND, so it no longer waits for other jobs.
    #[on("job.state.priority")]
    fn left_depend(&mut self, job: &Job) {
        self.forget(job.id());
    }

    #[on("job.state.inactive")]
    fn over(&mut self, job: &Job, cx: Cx<'_, JobStateInactive>) {
        self.forget(job.id());
        for waiter in self.waiting.remove(&job.id()).unwrap_or_default() {
            match waiter.kind.judge(job.into()) {
                Ok(()) => release(&cx, &waiter),
                Err(never) => {
                    // A dependent that has become inactive meanwhile needs no exception.
                    if let Ok(dependent) = cx.active_job(waiter.dependent) {
                        fail(&cx, dependent, &waiter, never);
                    }
                }
            }
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        let all = self.waiting.iter().flat_map(|(id, list)| list.iter().map(move |w| (id, w)));
        let all = all.map(|(target, Waiter { dependent, kind, description })| {
            json!({"id": target, "depid": dependent, "type": kind.word(), "description": description})
        });
        QueryData::new().with("dependencies", all.collect::<Value>())
    }

    fn forget(&mut self, dependent: JobId) {
        for target in self.targets.remove(&dependent).unwrap_or_default() {
            if let Some(waiters) = self.waiting.get_mut(&target) {
                waiters.retain(|waiter| waiter.dependent != dependent);
                if waiters.is_empty() {
                    self.waiting.remove(&target);
                }
            }
        }
    }
}

fn release<T: TopicSet>(cx: &Cx<'_, T>, waiter: &Waiter) {
    // A dependent that has become inactive meanwhile has no dependency to remove.
    if let Ok(dependent) = cx.job(waiter.dependent)
        && let Some(held) = dependent.dependency(&waiter.description)
    {
        cx.dependency_remove(held);
    }
}

fn fail<T: TopicSet>(cx: &Cx<'_, T>, dependent: ActiveJob<'_>, waiter: &Waiter, never: Never) {
    let description = &waiter.description;
    let note = match never {
        Never::Started => format!("dependency {description} job never started"),
        Never::Ended => format!("dependency {description} can never be satisfied"),
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
                m.submit(job).unwrap_err().replace(id, "ID")
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
