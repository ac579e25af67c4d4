//! What remains of the misuse that jobtap's C interface finds at run time: each is a typed error, a
//! line in the log, or no error at all any more. The guide's table (docs/src/misuse.md) points here.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod common;
#[path = "misuse/requests.rs"]
mod requests;
#[path = "misuse/void.rs"]
mod void;

use common::ByUrgency;
use jobtap_core::job::JobId;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

fn with<P: Plugin>() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<P>().start()
}

/// What a plugin wrote to the manager's log.
fn said(m: &TestManager, plugin: &str) -> Vec<String> {
    let prefix = format!("{plugin}: ");
    m.log().filter_map(|(_, text)| Some(text.strip_prefix(&prefix)?.to_owned())).collect()
}

/// Where a test looks at what a call gave.
fn note<T: TopicSet>(cx: &Cx<'_, T>, call: &str, result: Result<(), CallError>) {
    let kind = match result {
        Ok(()) => "ok",
        Err(CallError::UnknownJob(_)) => "UnknownJob",
        Err(CallError::WrongState { .. }) => "WrongState",
        Err(CallError::NotHeld { .. }) => "NotHeld",
        Err(CallError::Jobspec { .. }) => "Jobspec",
        Err(CallError::EventContext { .. }) => "EventContext",
        Err(_) => "another",
    };
    cx.log(Level::Info, format!("{call} {kind}"));
}

const SEEN: EventName = EventName::new("site.seen");

mod jobs {
    use super::*;

    /// Calls everything on a job that is over.
    #[derive(Default)]
    struct Late;

    #[jobtap_plugin(name = "late")]
    impl Late {
        #[on("job.state.inactive")]
        fn over(&self, job: &Job, cx: Cx<'_, JobStateInactive>) {
            note(&cx, "reprioritize", cx.reprioritize(job, Priority::new(1)));
            note(&cx, "dependency_remove", cx.dependency_remove(job, "d"));
            note(&cx, "subscribe", cx.subscribe(job));
            note(&cx, "raise", cx.raise(job, Exception::fatal("late", "")));
            note(&cx, "set_flag", cx.set_flag(job, JobFlag::Debug));
            note(&cx, "post_event", cx.post_event(job, SEEN, json!({})));
            let path = "attributes.system.queue";
            note(&cx, "jobspec_update_of", cx.jobspec_update_of(job, path, "q"));
            note(&cx, "unknown", cx.job(JobId::new(7)).map(drop));
            note(&cx, "this", cx.job(job.id()).map(drop));
        }
    }

    #[test]
    fn every_call_on_a_job_that_is_over_is_refused() {
        let mut m = with::<Late>();
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        for call in [
            "reprioritize",
            "dependency_remove",
            "subscribe",
            "raise",
            "set_flag",
            "post_event",
            "jobspec_update_of",
        ] {
            assert!(said(&m, "late").contains(&format!("{call} WrongState")), "{call}");
        }
    }

    #[test]
    fn an_unknown_job_is_found_out_where_it_is_looked_up() {
        let mut m = with::<Late>();
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        let said = said(&m, "late");
        assert_eq!(said[7..], ["unknown UnknownJob", "this ok"]);
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
            note(&cx, "remove other", cx.dependency_remove(job, "other"));
            cx.dependency_add("d")?;
            cx.dependency_remove(job, "d")?;
            Ok(cx.dependency_add("d")?)
        }

        #[on("job.state.run")]
        fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) {
            note(&cx, "dependency_remove", cx.dependency_remove(job, "d"));
        }

        #[on("job.update.attributes.system.queue")]
        fn queue(&self) -> Update {
            Update::allow()
        }
    }

    #[test]
    fn a_description_works_once_and_adding_it_again_has_no_effect() {
        let mut m = with::<Holds>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(
            id,
            "submit dependency-add validate dependency-remove depend priority alloc start",
        );
    }

    #[test]
    fn what_does_not_hold_the_job_cannot_be_removed() {
        let mut m = with::<Holds>();
        m.submit(TestJob::new()).unwrap();
        assert!(said(&m, "holds").contains(&"remove other NotHeld".to_owned()));
    }

    #[test]
    fn a_job_past_depend_has_no_dependencies_to_change() {
        let mut m = with::<Holds>();
        let id = m.submit(TestJob::new()).unwrap();
        // `job.validate` again, for a job in RUN.
        m.update(id, "attributes.system.queue", "other").unwrap();
        let said = said(&m, "holds");
        assert!(said.contains(&"dependency_remove WrongState".to_owned()), "{said:?}");
        assert!(said.contains(&"dependency_add WrongState".to_owned()), "{said:?}");
    }
}

mod exceptions {
    use super::*;

    #[derive(Default)]
    struct Early;

    #[jobtap_plugin(name = "early")]
    impl Early {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) {
            note(&cx, "fatal", cx.raise(job, Exception::fatal("early", "")));
            let mild = Exception::new(Severity::new(3).unwrap(), "two words", "");
            note(&cx, "mild", cx.raise(job, mild));
        }
    }

    #[test]
    fn a_job_that_is_not_accepted_yet_cannot_be_ended_by_an_exception() {
        let mut m = with::<Early>();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(said(&m, "early"), ["fatal WrongState", "mild ok"]);
        m.assert_state(id, State::Run);
    }

    #[test]
    fn a_severity_is_from_0_to_7_and_a_type_is_one_word() {
        assert_eq!(Severity::new(8), None);
        assert_eq!(Exception::fatal("two words", "").kind(), "two-words");
    }
}

mod updates {
    use super::*;

    /// Changes the jobspec wherever it can.
    #[derive(Default)]
    struct Changes;

    #[jobtap_plugin(name = "changes")]
    impl Changes {
        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            cx.jobspec_update("attributes.system.a", 1)?;
            cx.jobspec_update_of(job, "attributes.system.b", 2)?;
            note(&cx, "elsewhere", cx.jobspec_update("nowhere", 1));
            let through = "attributes.system.duration.x";
            note(&cx, "through a number", cx.jobspec_update(through, 1));
            Ok(())
        }

        #[on("job.state.run")]
        fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) {
            let path = "attributes.system.a";
            note(&cx, "running", cx.jobspec_update_of(job, path, 2));
        }

        #[on("job.update")]
        fn updated(&self, job: &Job, cx: Cx<'_, JobUpdate>) {
            if job.state() == State::Run {
                let path = "attributes.system.a";
                note(&cx, "updated while it runs", cx.jobspec_update(path, 3));
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
        let context = serde_json::Value::Object(updates[0].context.clone().unwrap());
        assert_eq!(context, json!({"attributes.system.a": 1, "attributes.system.b": 2}));
    }

    #[test]
    fn a_path_that_leads_nowhere_is_refused_by_the_call() {
        let mut m = with::<Changes>();
        m.submit(TestJob::new().duration(60.0)).unwrap();
        assert_eq!(said(&m, "changes")[..2], ["elsewhere Jobspec", "through a number Jobspec"]);
    }

    #[test]
    fn a_job_that_is_allocated_keeps_its_jobspec() {
        let mut m = with::<Changes>();
        let id = m.submit(TestJob::new().duration(60.0)).unwrap();
        assert!(said(&m, "changes").contains(&"running WrongState".to_owned()));
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

    /// Gives each time that it is asked another core.
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
            Ok(cx.jobspec_update_of(job, "attributes.system.again", 1)?)
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

    /// Posts many events to the job, and counts those it is shown.
    #[derive(Default)]
    struct Talks {
        shown: u32,
    }

    fn name(n: u32) -> EventName {
        let long = "long-".repeat(50);
        EventName::new(Box::leak(format!("site.{long}{n}").into_boxed_str()))
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
        fn event(&self, cx: Cx<'_, JobEvent>) {
            cx.log(Level::Info, "heard");
        }
    }

    #[test]
    fn without_a_subscription_no_event_is_delivered() {
        let mut m = with::<Deaf>();
        m.submit(TestJob::new()).unwrap();
        assert!(said(&m, "deaf").is_empty());
        // What tells an author so: the counts of the handler.
        assert_eq!(m.plugin_stats("deaf")[0].calls, 0);
    }
}
