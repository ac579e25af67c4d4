//! Nothing that plugins or the executor do twice, late or wrongly, and no restart, costs a job
//! its place, its time or its resources.

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;
use crate::managers::{notes, with};

const ALLOC: &str = "submit validate depend priority alloc";

mod careless {
    use super::*;

    #[derive(Default)]
    struct Twice;

    #[jobtap_plugin(name = "twice")]
    impl Twice {
        #[on("job.validate")]
        fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            cx.dependency_add("d")?;
            Ok(())
        }

        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            for held in [job.dependency("d"), job.dependency("d")].into_iter().flatten() {
                cx.dependency_remove(held);
            }
            if job.jobspec().attribute("end").is_some() {
                cx.fail("twice", "released and ended at once")?;
            }
            Ok(())
        }

        #[on("job.priority.get")]
        fn again(&self, cx: Cx<'_, JobPriorityGet>) -> Priority {
            cx.reprioritize_all();
            Priority::UNCHANGED
        }
    }

    impl Drop for Twice {
        fn drop(&mut self) {
            assert!(std::thread::panicking(), "a bug in drop");
        }
    }

    #[test]
    fn a_plugin_that_panics_when_it_is_dropped_is_removed_all_the_same() {
        let mut m = with::<Twice>();
        m.remove_plugin("twice").unwrap();
        assert!(m.log().any(|(_, text)| text == "twice: drop: panicked: a bug in drop"));
        assert_eq!(m.remove_plugin("twice").unwrap_err(), "Failed to find plugin to remove");
    }

    #[test]
    fn a_dependency_removed_twice_is_removed() {
        let mut m = with::<Twice>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(
            id,
            "submit dependency-add validate dependency-remove depend priority alloc start",
        );
        m.remove_plugin("twice").unwrap();
    }

    /// Adds a dependency and removes it in one callback.
    #[derive(Default)]
    struct Brief;

    #[jobtap_plugin(name = "brief")]
    impl Brief {
        #[on("job.state.depend")]
        fn depend(&self, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            let held = cx.dependency_add("brief")?;
            cx.dependency_remove(held);
            Ok(())
        }
    }

    #[test]
    fn a_dependency_can_be_removed_in_the_callback_that_adds_it() {
        let mut m = with::<Brief>();
        let id = m.submit(TestJob::new()).unwrap();
        let held = "submit validate dependency-add dependency-remove";
        m.assert_events(id, &format!("{held} depend priority alloc start"));
        assert!(!m.log().any(|(_, text)| text.contains("dropped")));
    }

    #[test]
    fn a_job_ended_in_the_callback_that_releases_it_goes_no_further() {
        let mut m = with::<Twice>();
        let id = m.submit(TestJob::new().attribute("end", 1)).unwrap();
        m.assert_events(id, "submit dependency-add validate dependency-remove exception clean");
        m.remove_plugin("twice").unwrap();
    }

    #[test]
    fn asking_for_all_priorities_while_they_are_asked_has_no_effect() {
        let mut m = with::<Twice>();
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        m.load_plugin("by-urgency", json!({})).unwrap_err();
        m.remove_plugin("by-urgency").unwrap();
        m.load_plugin("by-urgency", json!({})).unwrap();
        m.assert_state(id, State::Sched);
        m.remove_plugin("twice").unwrap();
    }
}

mod chains {
    use super::*;
    use std::collections::HashMap;

    /// When a job becomes inactive, ends the one that was submitted after it.
    #[derive(Default)]
    struct Domino {
        last: Option<JobId>,
        next: HashMap<JobId, JobId>,
    }

    #[jobtap_plugin(name = "domino")]
    impl Domino {
        #[on("job.new")]
        fn new_job(&mut self, job: &Job) {
            if let Some(last) = self.last.replace(job.id()) {
                self.next.insert(last, job.id());
            }
        }

        #[on("job.state.inactive")]
        fn over(&self, job: &Job, cx: Cx<'_, JobStateInactive>) -> Result<(), HandlerError> {
            if let Some(next) = self.next.get(&job.id()) {
                cx.fail_job(cx.active_job(*next)?, "domino", "");
            }
            Ok(())
        }
    }

    #[test]
    fn a_chain_of_any_length_takes_no_machine_stack() {
        let run = || {
            let mut m = with::<Domino>();
            let submit = |_| {
                m.advance(0.001);
                m.submit(TestJob::new().urgency(0)).unwrap()
            };
            let ids: Vec<JobId> = (0..10_000).map(submit).collect();
            m.cancel(ids[0]).unwrap();
            m.assert_state(ids[9_999], State::Inactive);
        };
        let thread = std::thread::Builder::new().stack_size(512 << 10);
        thread.spawn(run).unwrap().join().unwrap();
    }
}

mod restarts {
    use super::*;

    /// When it is introduced to a job that asks for this, ends the job with the next id.
    #[derive(Default)]
    struct Eager;

    #[jobtap_plugin(name = "eager")]
    impl Eager {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            let target = job.jobspec().attribute("target").and_then(|v| v.as_u64());
            let target = target.map(|_| JobId::new(job.id().as_u64() + 1));
            if let Some(Ok(target)) = target.map(|id| cx.active_job(id)) {
                cx.fail_job(target, "eager", "");
            }
            Ok(())
        }
    }

    #[test]
    fn a_job_is_found_again_before_another_one_can_end_it() {
        let mut m = with::<Eager>();
        let first = m.submit(TestJob::new().attribute("target", 1)).unwrap();
        let second = m.submit(TestJob::new()).unwrap();
        assert_eq!(second.as_u64(), first.as_u64() + 1);
        m.crash_and_restart();
        m.assert_events(second, &format!("{ALLOC} start exception finish release free clean"));
    }

    /// Delays every start by half a minute.
    #[derive(Default)]
    struct Delay;

    #[jobtap_plugin(name = "delay")]
    impl Delay {
        #[on("job.state.run")]
        async fn wait(remote: Remote<Self>) -> Result<(), PrologFailed> {
            Ok(remote.sleep(30.0).await?)
        }
    }

    #[test]
    fn a_job_that_started_late_keeps_its_time_across_a_restart() {
        let mut m = with::<Delay>();
        let limited = m.submit(TestJob::new().duration(60.0)).unwrap();
        let simulated = m.submit(TestJob::new().run_for(60.0)).unwrap();
        m.advance(40.0);
        m.crash_and_restart();
        m.advance(45.0);
        m.assert_state(limited, State::Run);
        m.assert_state(simulated, State::Run);
        m.advance(10.0);
        m.assert_state(limited, State::Inactive);
        m.assert_state(simulated, State::Inactive);
    }

    #[test]
    fn a_job_whose_resources_are_gone_is_ended_and_told_so() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        let small = m.submit(TestJob::new()).unwrap();
        let large = m.submit(TestJob::new().ntasks(3)).unwrap();
        m.set_cores(2);
        m.crash_and_restart();
        m.assert_state(small, State::Run);
        m.assert_events(large, &format!("{ALLOC} start exception finish release free clean"));
        assert_eq!(notes(&m, large), ["failed to reallocate R for running job"]);
        assert_eq!(m.free_resources().unwrap().ncores(), 1);
    }

    #[test]
    fn a_stopped_queue_stays_stopped_across_a_crash() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        m.scheduling(false).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.crash_and_restart();
        m.assert_state(id, State::Sched);
        m.scheduling(true).unwrap();
        m.crash_and_restart();
        m.assert_state(id, State::Run);
    }

    #[test]
    fn no_kind_of_exception_loses_resources() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        let id = m.submit(TestJob::new().ntasks(4)).unwrap();
        m.raise(id, "scheduler-restart", 0, "").unwrap();
        m.assert_state(id, State::Inactive);
        assert_eq!(m.free_resources().unwrap().ncores(), 4);
    }
}

mod scheduling {
    use super::*;

    /// Reduces jobs of urgency 20 to one core.
    #[derive(Default)]
    struct Shrink;

    #[jobtap_plugin(name = "shrink")]
    impl Shrink {
        #[on("job.state.priority")]
        fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<(), HandlerError> {
            if job.urgency().value() == 20 {
                let core = json!([{"type": "core", "count": 1}]);
                let slot = json!([{"type": "slot", "count": 1, "label": "task", "with": core}]);
                cx.jobspec_update(path!("resources"), slot)?;
            }
            Ok(())
        }
    }

    #[test]
    fn a_blocked_head_that_asks_for_less_gets_it_at_once() {
        let mut m = with::<Shrink>();
        m.submit(TestJob::new()).unwrap();
        let head = m.submit(TestJob::new().ntasks(4)).unwrap();
        m.assert_state(head, State::Sched);
        m.urgency(head, 20).unwrap();
        m.assert_state(head, State::Run);
    }
}

mod execution {
    use super::*;

    #[test]
    fn execution_that_ends_without_a_status_ends_the_job() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        let id = m.submit(TestJob::new()).unwrap();
        m.report(ExecEvent::Released { id });
        m.assert_events(id, &format!("{ALLOC} start exception release free clean"));
    }

    #[test]
    fn the_log_of_a_simulated_execution_holds_its_status() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        let job = TestJob::new().run_for(5.0).wait_status(256);
        let id = m.submit(job).unwrap();
        m.advance(6.0);
        let log = m.exec_eventlog(id);
        let complete = log.iter().find(|entry| entry.name == "complete").unwrap();
        assert_eq!(complete.context.as_ref().unwrap()["status"], 256);
    }
}

mod half_done {
    use super::*;

    /// Asks for something, then panics, in each kind of call.
    #[derive(Default)]
    struct Half;

    fn ask_and_panic<T: TopicSet>(id: JobId, cx: &Cx<'_, T>) -> ! {
        if let Ok(job) = cx.active_job(id) {
            cx.fail_job(job, "half", "asked for before the panic");
        }
        cx.log(Level::Info, "half done");
        panic!("on purpose")
    }

    #[jobtap_plugin(name = "half")]
    impl Half {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) {
            if job.jobspec().attribute("panic").is_some() {
                ask_and_panic(job.id(), &cx);
            }
        }

        #[service("now")]
        fn now(&self, request: Request<JobId>, cx: Cx<'_, Service>) {
            ask_and_panic(request.into_inner(), &cx);
        }

        #[service("run")]
        fn run(&self, request: Request<JobId>, remote: Remote<Self>) {
            let id = request.into_inner();
            remote.run(move |_, cx| ask_and_panic(id, &cx));
        }

        #[service("at")]
        fn at(&self, request: Request<JobId>, cx: Cx<'_, Service>, remote: Remote<Self>) {
            let id = request.into_inner();
            remote.at(cx.now() + 5.0, move |_, cx| ask_and_panic(id, &cx));
        }

        #[service("call")]
        async fn call(request: Request<JobId>, remote: Remote<Self>) -> Result<(), ServiceError> {
            let id = request.into_inner();
            Ok(remote.call(move |_, cx| ask_and_panic(id, &cx)).await?)
        }

        #[service("asynchronous")]
        async fn asynchronous(request: Request<JobId>, remote: Remote<Self>) {
            let id = request.into_inner();
            if remote.sleep(5.0).await.is_ok() {
                remote.run(move |_, cx| ask_and_panic(id, &cx));
            }
        }
    }

    /// Asserts that nothing that was asked for is done, and that the panic is logged.
    #[track_caller]
    fn nothing_is_done(m: &TestManager, id: JobId) {
        m.assert_state(id, State::Run);
        assert_eq!(notes(m, id), [""; 0]);
        m.assert_logged("panicked: on purpose");
        assert!(!m.log().any(|(_, text)| text.ends_with("half done")));
    }

    #[test]
    fn a_handler_that_panics_has_asked_for_nothing() {
        let mut m = with::<Half>();
        let id = m.submit(TestJob::new().attribute("panic", 1)).unwrap();
        nothing_is_done(&m, id);
    }

    #[test]
    fn nor_has_a_service_a_later_call_or_a_timer() {
        for service in ["now", "run", "at", "call", "asynchronous"] {
            let mut m = with::<Half>();
            let id = m.submit(TestJob::new()).unwrap();
            let stream = m.open_stream(&format!("half.{service}"), json!(id));
            m.advance(10.0);
            assert!(m.read_stream(stream).1.is_some(), "{service} isn't answered");
            nothing_is_done(&m, id);
        }
    }
}

mod faulted {
    use super::*;

    /// Panics where the job says so.
    #[derive(Default)]
    struct Unsound;

    #[jobtap_plugin(name = "unsound")]
    impl Unsound {
        #[on("job.validate")]
        fn validate(&self, job: &Job) -> Result<(), Reject> {
            assert!(job.jobspec().attribute("gate").is_none(), "in the gate");
            Ok(())
        }

        #[on("job.update.attributes.system.duration")]
        fn duration(&self) -> Update {
            panic!("at an update")
        }

        #[on("job.state.priority", "job.priority.get")]
        fn priority(&self) -> Priority {
            Priority::new(77)
        }

        #[on("job.state.run")]
        async fn prolog(remote: Remote<Self>) -> Result<(), PrologFailed> {
            Ok(remote.sleep(1000.0).await?)
        }
    }

    fn breaks(m: &mut TestManager) -> String {
        m.submit(TestJob::new().attribute("gate", 1)).unwrap_err().text()
    }

    #[test]
    fn three_panics_in_a_minute_close_its_gates_and_end_its_prologs() {
        let mut m = with::<Unsound>();
        let in_prolog = m.submit(TestJob::new()).unwrap();
        for _ in 0..3 {
            assert!(breaks(&mut m).contains("plugin unsound failed"));
        }
        // The gate stays closed for everybody, also for a job that it would have let pass.
        let refusal = m.submit(TestJob::new()).unwrap_err().text();
        assert!(refusal.starts_with("plugin unsound has failed repeatedly"), "{refusal}");
        m.assert_state(in_prolog, State::Inactive);
        assert_eq!(notes(&m, in_prolog).len(), 1);
        // An administrator can load the plugin again.
        m.remove_plugin("unsound").unwrap();
        m.load_plugin("unsound", json!({})).unwrap();
        m.submit(TestJob::new()).unwrap();
    }

    #[test]
    fn pending_jobs_keep_waiting_for_what_it_owes_them() {
        let mut m = with::<Unsound>();
        m.scheduling(false).unwrap();
        let held = m.submit(TestJob::new()).unwrap();
        for _ in 0..3 {
            breaks(&mut m);
        }
        // The faulted plugin's priority is missing now, and another plugin's priority doesn't
        // replace it.
        m.urgency(held, 20).unwrap();
        m.assert_state(held, State::Priority);
        m.remove_plugin("unsound").unwrap();
        m.assert_state(held, State::Sched);
    }

    #[test]
    fn a_job_that_has_its_priority_gets_a_new_one_from_others() {
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Unsound>();
        let mut m = builder.linked::<Late>().start();
        m.scheduling(false).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_priority(id, 77);
        for _ in 0..3 {
            breaks(&mut m);
        }
        // Loading a plugin asks for all priorities again.
        m.load_plugin("late", json!({})).unwrap();
        m.assert_priority(id, 16);
    }

    #[test]
    fn another_plugin_that_is_loaded_releases_no_job_past_it() {
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Unsound>();
        let mut m = builder.linked::<Late>().start();
        m.scheduling(false).unwrap();
        for _ in 0..2 {
            breaks(&mut m);
        }
        let held = m.submit(TestJob::new()).unwrap();
        breaks(&mut m);
        m.urgency(held, 20).unwrap();
        m.assert_state(held, State::Priority);
        m.load_plugin("late", json!({})).unwrap();
        m.assert_state(held, State::Priority);
        m.remove_plugin("unsound").unwrap();
        m.assert_state(held, State::Sched);
    }

    /// Sets priorities, after a while.
    #[derive(Default)]
    struct Slow;

    #[jobtap_plugin(name = "slow")]
    impl Slow {
        #[on("job.state.priority")]
        async fn priority(remote: Remote<Self>) -> Result<Priority, HandlerError> {
            remote.sleep(1000.0).await?;
            Ok(Priority::new(7))
        }
    }

    #[test]
    fn nor_past_one_that_is_at_work_on_its_priority() {
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Slow>();
        let mut m = builder.linked::<Late>().start();
        m.scheduling(false).unwrap();
        let held = m.submit(TestJob::new()).unwrap();
        m.load_plugin("late", json!({})).unwrap();
        m.assert_state(held, State::Priority);
        m.advance(1001.0);
        m.assert_priority(held, 7);
    }

    /// Watches the states of jobs, and panics at those of a job with the attribute `watch`.
    #[derive(Default)]
    struct Watcher;

    #[jobtap_plugin(name = "watcher")]
    impl Watcher {
        #[on("job.state.*")]
        fn watch(&self, job: &Job) {
            assert!(job.jobspec().attribute("watch").is_none(), "at a state");
        }
    }

    #[test]
    fn a_faulted_plugin_that_only_watches_holds_no_job() {
        let mut m = with::<Watcher>();
        m.submit(TestJob::new().attribute("watch", 1)).unwrap();
        assert!(m.log().any(|(_, text)| text.starts_with("watcher: faulted after 3 panics")));
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_state(id, State::Run);
    }

    /// Does nothing.
    #[derive(Default)]
    struct Late;

    #[jobtap_plugin(name = "late", load = "by-name")]
    impl Late {}

    #[test]
    fn who_asks_for_an_update_is_not_told_of_a_submission() {
        let mut m = with::<Unsound>();
        m.scheduling(false).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        let update =
            |m: &mut TestManager| m.update(id, "attributes.system.duration", 60).unwrap_err();
        let text = "plugin unsound failed; what was asked is refused, please report it";
        assert_eq!(update(&mut m), text);
        breaks(&mut m);
        breaks(&mut m);
        let text = "plugin unsound has failed repeatedly: what it decides about is refused until an \
                    administrator reloads it";
        assert_eq!(update(&mut m), text);
    }

    #[test]
    fn panics_far_apart_are_forgiven() {
        let mut m = with::<Unsound>();
        for _ in 0..6 {
            breaks(&mut m);
            m.advance(31.0);
        }
        m.submit(TestJob::new()).unwrap();
    }

    #[test]
    fn the_limit_can_be_set() {
        let config = json!({"job-manager": {"plugin-panic-limit": 1}});
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Unsound>().config(config);
        let mut m = builder.start();
        breaks(&mut m);
        assert!(m.submit(TestJob::new()).unwrap_err().text().contains("has failed repeatedly"));
    }
}
