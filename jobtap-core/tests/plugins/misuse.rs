//! What remains of the misuse that jobtap's C interface detects at run time: each case is a typed error, a line in the
//! log, or no longer an error. The guide's table (docs/src/misuse.md) points here.

mod requests;
mod void;

use jobtap_core::job::JobId;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;

fn with<P: Plugin>() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().linked::<P>().start()
}

/// What a plugin wrote to the manager's log.
fn said(m: &TestManager, plugin: &str) -> Vec<String> {
    let prefix = format!("{plugin}: ");
    m.log().filter_map(|(_, text)| Some(text.strip_prefix(&prefix)?.to_owned())).collect()
}

/// Logs the result of a call, which the test reads there.
fn note<T: TopicSet, R>(cx: &Cx<'_, T>, call: &str, result: Result<R, CallError>) {
    let kind = match result {
        Ok(_) => "ok",
        Err(CallError::UnknownJob(_)) => "UnknownJob",
        Err(CallError::NotActive(_)) => "Over",
        Err(CallError::WrongState { .. }) => "WrongState",
        Err(CallError::Jobspec { .. }) => "Jobspec",
        Err(CallError::UsedDependency { .. }) => "UsedDependency",
        Err(CallError::EventContext { .. }) => "EventContext",
        Err(_) => "another",
    };
    cx.log(Level::Info, format!("{call} {kind}"));
}

const SEEN: EventName = event_name!("site.seen");

mod jobs {
    use super::*;

    /// Looks jobs up, early and late.
    #[derive(Default)]
    struct Late;

    fn look_up<T: TopicSet>(when: &str, id: JobId, cx: &Cx<'_, T>) {
        note(cx, &format!("{when}: job"), cx.job(id));
        note(cx, &format!("{when}: live"), cx.active_job(id));
    }

    #[jobtap_plugin(name = "late")]
    impl Late {
        #[on("job.validate")]
        fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            look_up("unknown", JobId::new(7), &cx);
            look_up("new", job.id(), &cx);
            Ok(())
        }

        #[on("job.state.cleanup")]
        fn ends(&self, job: &Job, cx: Cx<'_, JobStateCleanup>) {
            look_up("ends", job.id(), &cx);
        }

        #[on("job.state.inactive")]
        fn over(&self, job: &Job, cx: Cx<'_, JobStateInactive>) {
            look_up("over", job.id(), &cx);
        }
    }

    fn found(when: &str) -> Vec<String> {
        let mut m = with::<Late>();
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        let prefix = format!("{when}: ");
        let said = said(&m, "late");
        said.iter().filter_map(|text| Some(text.strip_prefix(&prefix)?.to_owned())).collect()
    }

    #[test]
    fn an_unknown_job_is_found_out_where_it_is_looked_up() {
        assert_eq!(found("unknown"), ["job UnknownJob", "live UnknownJob"]);
    }

    #[test]
    fn a_job_that_is_over_or_not_accepted_is_found_out_where_it_is_looked_up() {
        assert_eq!(found("new"), ["job ok", "live Over"]);
        assert_eq!(found("ends"), ["job ok", "live ok"]);
        assert_eq!(found("over"), ["job ok", "live Over"]);
    }

    /// Looks at results and data.
    #[derive(Default)]
    struct Looks;

    #[jobtap_plugin(name = "looks", data = Option<u32>)]
    impl Looks {
        #[on("job.state.run", "job.state.cleanup")]
        fn look(
            &self,
            job: &Job,
            data: Data<'_, Option<u32>>,
            cx: Cx<'_, (JobStateRun, JobStateCleanup)>,
        ) -> Result<(), HandlerError> {
            cx.log(Level::Info, format!("{:?} {:?}", job.result(), data.get()?));
            Ok(data.set(&Some(3))?)
        }
    }

    #[test]
    fn a_result_or_data_that_is_not_there_is_none() {
        let mut m = with::<Looks>();
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        assert_eq!(said(&m, "looks"), ["None None", "Some(Completed) Some(3)"]);
    }
}

mod dependencies {
    use super::*;

    #[derive(Default)]
    struct Holds;

    #[jobtap_plugin(name = "holds")]
    impl Holds {
        #[on("job.validate")]
        fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            let added = cx.dependency_add("d");
            if job.state() == State::New {
                added?;
            } else {
                note(&cx, "dependency_add", added);
            }
            Ok(())
        }

        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            cx.log(Level::Info, format!("other: {:?}", job.dependency("other")));
            cx.dependency_remove(cx.dependency_add("d")?);
            note(&cx, "again", cx.dependency_add("d"));
            Ok(())
        }

        #[on("job.state.sched")]
        fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
            cx.log(Level::Info, format!("d: {:?}", job.dependency("d")));
            if let Some(pending) = cx.active_job(job.id())?.pending() {
                note(&cx, "dependency_add_to", cx.dependency_add_to(pending, "late"));
            }
            Ok(())
        }

        #[on("job.update.attributes.system.queue")]
        fn queue(&self) -> Update {
            Update::allow()
        }
    }

    #[test]
    fn a_description_works_once() {
        let mut m = with::<Holds>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(
            id,
            "submit dependency-add validate dependency-remove depend priority alloc start",
        );
    }

    #[test]
    fn only_what_holds_the_job_can_be_removed() {
        let mut m = with::<Holds>();
        m.submit(TestJob::new()).unwrap();
        assert_eq!(said(&m, "holds")[..3], ["other: None", "again UsedDependency", "d: None"]);
    }

    #[test]
    fn a_job_past_depend_gets_no_dependencies() {
        let mut m = with::<Holds>();
        let id = m.submit(TestJob::new()).unwrap();
        // Calls `job.validate` again, for a job in RUN.
        m.update(id, "attributes.system.queue", "other").unwrap();
        let said = said(&m, "holds");
        assert_eq!(said[3..], ["dependency_add_to WrongState", "dependency_add WrongState"]);
    }
}

mod exceptions {
    use super::*;

    #[derive(Default)]
    struct Early;

    #[jobtap_plugin(name = "early")]
    impl Early {
        #[on("job.create")]
        fn create(&self, job: &Job, cx: Cx<'_, JobCreate>) -> Result<(), Reject> {
            Ok(cx.subscribe(job)?)
        }

        #[on("job.validate")]
        fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            const MILD: Severity = severity!(3);
            Ok(cx.raise(job, Exception::new(MILD, "two words", ""))?)
        }

        #[on("job.event.exception")]
        fn raised(&self, job: &Job, entry: &EventEntry, cx: Cx<'_, JobEvent>) {
            let kind = &entry.context.as_ref().unwrap()["type"];
            note(&cx, &format!("{kind} in {}", job.state()), cx.active_job(job.id()));
        }
    }

    #[test]
    fn a_job_that_is_not_accepted_yet_cannot_be_ended_by_an_exception() {
        let mut m = with::<Early>();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(said(&m, "early"), ["\"two-words\" in NEW Over"]);
        m.assert_state(id, State::Run);
    }

    #[test]
    fn a_severity_that_is_known_late_is_checked_where_it_is_made() {
        assert_eq!(Severity::try_new(0), None);
        assert_eq!(Severity::try_new(8), None);
        assert!(Severity::try_new(7).is_some());
    }
}

mod updates {
    use super::*;

    const A: JobspecPath = path!("attributes.system.a");

    /// Changes the jobspec wherever it can.
    #[derive(Default)]
    struct Changes;

    #[jobtap_plugin(name = "changes")]
    impl Changes {
        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            cx.jobspec_update(A, 1)?;
            if let Some(this) = cx.active_job(job.id())?.pending() {
                cx.jobspec_update_of(this, path!("attributes.system.b"), 2)?;
            }
            let through = path!("attributes.system.duration.x");
            note(&cx, "through a number", cx.jobspec_update(through, 1));
            Ok(())
        }

        #[on("job.state.run")]
        fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
            let pending = cx.active_job(job.id())?.pending().is_some();
            cx.log(Level::Info, format!("pending: {pending}"));
            Ok(())
        }

        #[on("job.update")]
        fn updated(&self, job: &Job, cx: Cx<'_, JobUpdate>) {
            if job.state() == State::Run {
                note(&cx, "updated while it runs", cx.jobspec_update(A, 3));
            }
        }

        #[on("job.update.attributes.system.c")]
        fn allow(&self) -> Update {
            Update::allow().validated()
        }
    }

    #[test]
    fn the_current_job_may_be_named_and_all_becomes_one_event() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().duration(60.0)).unwrap();
        let log = m.eventlog(id);
        let updates: Vec<_> = log.iter().filter(|e| e.name == "jobspec-update").collect();
        assert_eq!(updates.len(), 1);
        let context = serde_json::Value::from(updates[0].context.clone().unwrap());
        assert_eq!(context, json!({"attributes.system.a": 1, "attributes.system.b": 2}));
    }

    #[test]
    fn a_path_through_a_number_is_refused_by_the_call() {
        let mut m = with::<Changes>();
        m.submit(TestJob::new().duration(60.0)).unwrap();
        assert_eq!(said(&m, "changes")[0], "through a number Jobspec");
    }

    #[test]
    fn a_path_that_is_known_late_is_checked_where_it_is_made() {
        for key in ["a", "a.b"] {
            assert!(JobspecPath::try_new(format!("attributes.user.{key}")).is_ok());
        }
        assert!(JobspecPath::try_new("nowhere").is_err());
    }

    #[test]
    fn a_job_that_is_allocated_keeps_its_jobspec() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().duration(60.0)).unwrap();
        assert!(said(&m, "changes").contains(&"pending: false".to_owned()));
        m.update(id, "attributes.system.c", 1).unwrap();
        assert!(said(&m, "changes").contains(&"updated while it runs WrongState".to_owned()));
    }
}

mod resources {
    use super::*;
    use jobtap_core::resource::Idset;

    fn one_core(core: u32) -> ResourceSet {
        ResourceSet::single_host("elsewhere", Idset::from(core..=core)).unwrap()
    }

    /// Allocates a different core at each call.
    #[derive(Default)]
    struct Gives {
        calls: u32,
    }

    #[jobtap_plugin(name = "gives")]
    impl Gives {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            Ok(cx.subscribe(job)?)
        }

        #[on("job.event.set-flags")]
        fn again(&self, job: &Job, cx: Cx<'_, JobEvent>) -> Result<(), HandlerError> {
            // Sends the job through SCHED once more, before it is allocated.
            let Some(job) = cx.active_job(job.id())?.pending() else { return Ok(()) };
            Ok(cx.jobspec_update_of(job, path!("attributes.system.again"), 1)?)
        }

        #[on("job.state.sched")]
        fn sched(&mut self) -> ResourceSet {
            self.calls += 1;
            one_core(self.calls)
        }
    }

    #[test]
    fn resources_that_a_job_has_are_not_replaced() {
        let mut m = with::<Gives>();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(m.job(id).resources().unwrap().summary(), one_core(1).summary());
        assert!(m.log().any(|(_, text)| text.ends_with("R is already set")));
    }
}

mod events {
    use super::*;

    /// Posts many events to the job, and counts those that it receives.
    #[derive(Default)]
    struct Talks {
        shown: u32,
    }

    fn name(n: u32) -> EventName {
        let long = "long-".repeat(50);
        EventName::try_new(format!("site.{long}{n}")).unwrap()
    }

    #[jobtap_plugin(name = "talks")]
    impl Talks {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            cx.subscribe(job)?;
            cx.subscribe(job)?;
            note(&cx, "a number", cx.post_event(job, SEEN, 3));
            for n in 0..100 {
                cx.post_event(job, name(n), serde_json::Value::Null)?;
            }
            Ok(())
        }

        #[on("job.event.*")]
        fn event(&mut self, entry: &EventEntry) {
            self.shown += u32::from(entry.name.starts_with("site."));
        }

        #[service("shown")]
        fn shown(&self) -> u32 {
            self.shown
        }
    }

    #[test]
    fn any_number_of_names_of_any_length_is_delivered_and_once() {
        let mut m = with::<Talks>();
        let id = m.submit(TestJob::new()).unwrap();
        assert!(m.job(id).event_posted(name(99).as_str()));
        assert_eq!(m.call_service("talks.shown", json!({})).unwrap(), json!(100));
    }

    #[test]
    fn the_context_of_an_event_is_an_object_or_nothing() {
        let mut m = with::<Talks>();
        m.submit(TestJob::new()).unwrap();
        assert_eq!(said(&m, "talks"), ["a number EventContext"]);
    }

    /// Forgets to subscribe.
    #[derive(Default)]
    struct Deaf;

    #[jobtap_plugin(name = "deaf")]
    impl Deaf {
        #[on("job.event.*")]
        fn event(&self, cx: Cx<'_, JobEventAny>) {
            cx.log(Level::Info, "heard");
        }
    }

    #[test]
    fn without_a_subscription_no_event_is_delivered() {
        let mut m = with::<Deaf>();
        m.submit(TestJob::new()).unwrap();
        assert!(said(&m, "deaf").is_empty());
        // The counts of the handler show this to its author.
        assert_eq!(m.plugin_stats("deaf")[0].calls, 0);
    }
}
