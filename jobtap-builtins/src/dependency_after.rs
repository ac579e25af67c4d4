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
//! The other job can be a job array: `afterany` is satisfied when all of its elements have ended, `afterok` when all have
//! succeeded, and `afternotok` when all have ended and one has not succeeded.
//!
//! The eventlog of the other job decides, so that a restart changes nothing. A job with a delay after another job's
//! start stores that start time in its data, since the other job may be purged meanwhile.

mod condition;

use std::collections::{BTreeMap, BTreeSet};

use jobtap_core::array::{Element, Progress};
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
    /// What each job waits for.
    waiting: BTreeMap<JobId, Vec<Open>>,
    /// The jobs that wait for an active job, and some that no longer do.
    dependents: BTreeMap<JobId, BTreeSet<JobId>>,
    private: PrivateMode,
}

/// The start times of jobs that a job waits for with a delay.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Starts(BTreeMap<JobId, Timestamp>);

/// A condition that can still be satisfied.
#[derive(Debug)]
struct Open {
    /// The dependency that it satisfies.
    description: String,
    kind: Kind,
    target: JobId,
    delay: Option<Fsd>,
    /// The target has started, and this satisfies the dependency after the delay.
    timer: Option<Timer>,
}

/// What a condition is on.
enum Target<'a> {
    Job(JobRef<'a>),
    /// A job array; it fails as soon as one of its elements does.
    Array(Progress),
}

/// The status of a condition.
#[derive(Debug, Clone, Copy, PartialEq)]
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
        // Elements of an array may have gone without an event: all is judged anew.
        if let Some(all) = self.waiting.get_mut(&job.id()) {
            all.extract_if(.., |open| open.description == description).for_each(Open::cancel);
        }
        let stored = if asked_again { starts.get().or_reject()? } else { Starts::default() };
        let mut judged = Vec::new();
        for condition in conditions {
            let status = match self.target(job, &condition, &cx) {
                Ok(Target::Job(target)) => status(&condition, target, cx.now()),
                Ok(Target::Array(progress)) => match condition.kind.judge_array(progress) {
                    Some(Ok(())) => Status::Satisfied,
                    Some(Err(never)) => Status::Never(never),
                    None => Status::Open,
                },
                // The job may have been purged meanwhile.
                Err(refusal) => match stored.0.get(&condition.target) {
                    Some(start) if condition.delay.is_some() => Status::After(*start),
                    // The condition was judged when its job became inactive, and did not satisfy the
                    // dependency.
                    _ if asked_again && scheme == ANY_OF => Status::Never(Never::Ended),
                    _ => return Err(refusal),
                },
            };
            judged.push((condition, status));
        }
        if scheme == "after" && !asked_again {
            let note = "dependency scheme 'after' is deprecated, use 'afterstart'";
            cx.raise(job, Exception::new(NOTE, "dependency", note))?;
        }
        let held = cx.dependency_add(description.as_str())?;
        if judged.iter().any(|(_, status)| *status == Status::Satisfied) {
            cx.dependency_remove(held);
            return Ok(());
        }
        let mut failed = None;
        for (Condition { kind, target, delay, .. }, status) in judged {
            let open = Open { description: description.clone(), kind, target, delay, timer: None };
            match status {
                Status::Satisfied => {}
                Status::Never(never) => failed = Some((kind, target, never)),
                Status::After(start) => {
                    self.delay(job.id(), open, start, &starts, &remote).or_reject()?
                }
                Status::Open => {
                    if kind == Kind::Start
                        && let Ok(target) = cx.active_job(target)
                    {
                        cx.subscribe(target)?;
                    }
                    self.dependents.entry(target).or_default().insert(job.id());
                    self.waiting.entry(job.id()).or_default().push(open);
                }
            }
        }
        match failed.filter(|_| !self.is_open(job.id(), &description)) {
            None => Ok(()),
            Some((_, _, never)) if asked_again => {
                fail(&cx, cx.active_job(job.id())?, &description, never);
                Ok(())
            }
            Some(_) if scheme == ANY_OF => {
                Err(Reject::new(format!("dependency: {ANY_OF}: {value} can never be satisfied")))
            }
            Some((kind, target, never)) => Err(kind.refusal(target, never)),
        }
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
        let start = job.t_start().unwrap_or_else(|| cx.now());
        // An error concerns one of the jobs that wait; the others must not wait forever.
        let mut outcome = Ok(());
        for (dependent, open) in self.take(job.id(), |open| open.kind == Kind::Start) {
            if open.delay.is_none() {
                self.satisfied(&cx, dependent, &open.description);
            } else if let Ok(job) = cx.job(dependent) {
                outcome = outcome.and(self.delay(dependent, open, start, &starts.of(job), &remote));
            }
        }
        Ok(outcome?)
    }

    /// The job has left DEPEND, or was rejected, so it no longer waits for other jobs.
    #[on("job.state.priority", "job.destroy")]
    fn left_depend(&mut self, job: &Job) {
        self.forget(job.id());
    }

    #[on("job.state.inactive")]
    fn over(&mut self, job: &Job, cx: Cx<'_, JobStateInactive>) {
        self.forget(job.id());
        let mut judged = Vec::new();
        for (dependent, open) in self.take(job.id(), |_| true) {
            judged.push((dependent, open.kind.judge(job.into()), open.description));
        }
        self.dependents.remove(&job.id());
        self.judge_array(job, &cx, &mut judged);
        let mut failed = Vec::new();
        for (dependent, judgment, description) in judged {
            match judgment {
                Ok(()) => self.satisfied(&cx, dependent, &description),
                Err(never) => failed.push((dependent, description, never)),
            }
        }
        // After all satisfied dependencies have been removed, as in Flux, since an exception makes the
        // dependent inactive.
        for (dependent, description, never) in failed {
            // No exception for a dependent that has become inactive meanwhile, or whose dependency another
            // condition has satisfied or still can.
            if let Ok(job) = cx.active_job(dependent)
                && job.dependency(&description).is_some()
                && !self.is_open(dependent, &description)
            {
                fail(&cx, job, &description, never);
            }
        }
    }

    #[on("plugin.query")]
    fn query(&self) -> QueryData {
        let all =
            self.waiting.iter().flat_map(|(id, list)| list.iter().map(move |open| (id, open)));
        let all = all.map(|(dependent, Open { target, kind, description, .. })| {
            json!({"id": target, "depid": dependent, "type": kind.word(), "description": description})
        });
        QueryData::new().with("dependencies", all.collect::<Value>())
    }

    /// Returns the job or the array of a condition, which must belong to the same user.
    fn target<'a>(
        &self,
        job: &Job,
        condition: &Condition<'_>,
        cx: &'a Cx<'_, JobDependency>,
    ) -> Result<Target<'a>, Reject> {
        let Condition { scheme, id, target, .. } = condition;
        let unknown = || Reject::new(format!("dependency: {scheme}: id {id}: job not found"));
        let target = match (cx.job(*target), cx.array(*target)) {
            (Ok(target), _) => Target::Job(target),
            (Err(_), Some(_)) if matches!(condition.kind, Kind::Start | Kind::Except) => {
                return Err(Reject::new(format!(
                    "dependency: {scheme}: {id} is a job array: use afterany, afterok or afternotok, or one of its \
                     elements"
                )));
            }
            (Err(_), Some(array)) => Target::Array(array),
            (Err(_), None) => return Err(unknown()),
        };
        let userid = match &target {
            Target::Job(target) => target.userid(),
            Target::Array(array) => array.userid,
        };
        if userid != job.userid() {
            if self.private.hides(userid, job.userid(), cx.owner()) {
                return Err(unknown());
            }
            return Err(Reject::new(format!("{scheme}: Permission denied for job {id}")));
        }
        Ok(target)
    }

    /// Judges the conditions on the array whose element has ended.
    fn judge_array(
        &mut self,
        job: &Job,
        cx: &Cx<'_, JobStateInactive>,
        judged: &mut Vec<(JobId, Result<(), Never>, String)>,
    ) {
        if self.dependents.is_empty() {
            return;
        }
        let Some(Element { array, .. }) = Element::of(job.jobspec().value()) else { return };
        let Some(progress) = cx.array(array).filter(|_| self.dependents.contains_key(&array))
        else {
            return;
        };
        let is_decided = |open: &Open| open.kind.judge_array(progress).is_some();
        for (dependent, open) in self.take(array, is_decided) {
            if let Some(judgment) = open.kind.judge_array(progress) {
                judged.push((dependent, judgment, open.description));
            }
        }
        if progress.is_over() {
            self.dependents.remove(&array);
        }
    }

    /// Sets the timer of a condition whose target started at `start`.
    fn delay(
        &mut self,
        dependent: JobId,
        open: Open,
        start: Timestamp,
        starts: &Data<'_, Starts>,
        remote: &Remote<Self>,
    ) -> Result<(), DataError> {
        if starts.get()?.0.get(&open.target) != Some(&start) {
            starts.update(|starts| starts.0.insert(open.target, start))?;
        }
        let due = open.description.clone();
        let time = start + open.delay.map_or(0.0, Fsd::as_secs);
        let timer = remote.at(time, move |plugin, cx| plugin.satisfied(&cx, dependent, &due));
        self.waiting.entry(dependent).or_default().push(Open { timer: Some(timer), ..open });
        Ok(())
    }

    /// Removes a satisfied dependency of a job, and stops waiting for its other conditions.
    fn satisfied<T: TopicSet>(&mut self, cx: &Cx<'_, T>, dependent: JobId, description: &str) {
        if let Some(all) = self.waiting.get_mut(&dependent) {
            all.extract_if(.., |open| open.description == description).for_each(Open::cancel);
        }
        // Nothing happens if the dependent has become inactive meanwhile.
        cx.dependency_remove_of(dependent, description);
    }

    /// Takes those conditions on the start or the end of a job that meet `is_due`, with the jobs that wait for them.
    fn take(&mut self, target: JobId, is_due: impl Fn(&Open) -> bool) -> Vec<(JobId, Open)> {
        let mut taken = Vec::new();
        for dependent in self.dependents.get(&target).into_iter().flatten() {
            let Some(all) = self.waiting.get_mut(dependent) else { continue };
            let due =
                |open: &mut Open| open.target == target && open.timer.is_none() && is_due(open);
            taken.extend(all.extract_if(.., due).map(|open| (*dependent, open)));
        }
        taken
    }

    /// Whether a dependency can still be satisfied.
    fn is_open(&self, dependent: JobId, description: &str) -> bool {
        let mut all = self.waiting.get(&dependent).into_iter().flatten();
        all.any(|open| open.description == description)
    }

    /// Stops waiting for all that a job waits for.
    fn forget(&mut self, dependent: JobId) {
        for open in self.waiting.remove(&dependent).into_iter().flatten() {
            if let Some(dependents) = self.dependents.get_mut(&open.target) {
                dependents.remove(&dependent);
            }
            open.cancel();
        }
    }
}

impl Open {
    fn cancel(self) {
        self.timer.into_iter().for_each(Timer::cancel);
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
