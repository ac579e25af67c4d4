//! No job waits for work that is gone, after a restart or when a plugin is removed; and nothing that
//! a plugin does twice, late or wrongly costs a job its place.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

mod common;

use common::ByUrgency;
use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

fn with<P: Plugin>() -> TestManager {
    TestManager::new()
        .plugin::<ByUrgency>()
        .plugin::<P>()
        .start()
}

fn notes(m: &TestManager, id: JobId) -> Vec<String> {
    let log = m.eventlog(id).into_iter();
    let notes = log.filter(|entry| entry.name == "exception");
    notes
        .map(|entry| entry.context.unwrap()["note"].as_str().unwrap().to_owned())
        .collect()
}

const ALLOC: &str = "submit validate depend priority alloc";

mod brackets {
    use super::*;

    /// Keeps its tokens for ever.
    #[derive(Default)]
    struct Keeper(Vec<Token>);

    #[jobtap_plugin(name = "keeper")]
    impl Keeper {
        #[on("job.state.run")]
        fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
            if job.jobspec().attribute("prolog").is_some() {
                self.0.push(cx.prolog_start("mount")?);
            }
            Ok(())
        }

        #[on("job.state.cleanup")]
        fn cleanup(&mut self, cx: Cx<'_, JobStateCleanup>) -> Result<(), HandlerError> {
            self.0.push(cx.epilog_start("umount")?);
            Ok(())
        }
    }

    /// Its handlers take for ever.
    #[derive(Default)]
    struct Endless;

    #[jobtap_plugin(name = "endless")]
    impl Endless {
        #[on("job.state.run")]
        async fn mount(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
            if job.jobspec.attribute("prolog").is_some() {
                remote.sleep(1e6).await?;
            }
            Ok(())
        }

        #[on("job.state.cleanup")]
        async fn umount(remote: Remote<Self>) -> Result<(), EpilogFailed> {
            Ok(remote.sleep(1e6).await?)
        }
    }

    /// A job in its prolog, and one in its epilog, must end when `leave` was done.
    fn ends_both(mut m: TestManager, leave: impl Fn(&mut TestManager), why: &str) {
        let starting = m.submit(TestJob::new().attribute("prolog", 1)).unwrap();
        let ending = m.submit(TestJob::new()).unwrap();
        m.finish(ending, 0);
        m.assert_state(starting, State::Run);
        m.assert_state(ending, State::Cleanup);
        leave(&mut m);
        m.assert_state(ending, State::Inactive);
        assert!(
            notes(&m, ending)[0].ends_with(why),
            "{:?}",
            notes(&m, ending)
        );
        // The prolog is over; after a restart the job has an epilog of its own.
        let _ = m.remove_plugin("keeper");
        let _ = m.remove_plugin("endless");
        m.assert_state(starting, State::Inactive);
        assert!(
            notes(&m, starting)[0].ends_with(why),
            "{:?}",
            notes(&m, starting)
        );
        assert!(!m.events(starting).contains(&"start".to_owned()));
    }

    #[test]
    fn what_was_open_at_a_crash_ends_as_failed() {
        let why = "the manager was restarted while it was open";
        ends_both(with::<Keeper>(), TestManager::crash_and_restart, why);
        ends_both(with::<Endless>(), TestManager::crash_and_restart, why);
    }

    #[test]
    fn what_a_removed_plugin_had_open_ends_as_failed() {
        let why = "its plugin was removed";
        let remove = |name: &'static str| move |m: &mut TestManager| m.remove_plugin(name).unwrap();
        ends_both(with::<Keeper>(), remove("keeper"), why);
        ends_both(with::<Endless>(), remove("endless"), why);
    }
}

mod gates {
    use super::*;

    macro_rules! gate {
        ($name:ident, $plugin:literal) => {
            #[derive(Default)]
            struct $name;

            #[jobtap_plugin(name = $plugin)]
            impl $name {
                #[on("job.validate")]
                async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
                    let answer = job.jobspec.attribute($plugin).and_then(|v| v.as_f64());
                    remote.sleep(answer.unwrap_or(1.0).abs()).await?;
                    match answer {
                        Some(answer) if answer < 0.0 => {
                            Err(Reject::new(concat!($plugin, " says no")))
                        }
                        _ => Ok(()),
                    }
                }
            }
        };
    }
    gate!(First, "first");
    gate!(Second, "second");

    fn manager() -> TestManager {
        TestManager::new()
            .plugin::<ByUrgency>()
            .plugin::<First>()
            .plugin::<Second>()
            .start()
    }

    #[test]
    fn one_yes_of_two_opens_no_gate() {
        let mut m = manager();
        let job = TestJob::new()
            .attribute("first", 1.0)
            .attribute("second", -2.0);
        let _ = m.submit(job);
        m.advance(1.5);
        assert!(m.late_answers().is_empty());
        m.advance(1.0);
        assert_eq!(m.late_answers(), [Err("second says no".to_owned())]);
        let _ = m.submit(TestJob::new().attribute("second", 2.0));
        m.advance(3.0);
        assert!(m.late_answers()[0].is_ok());
    }

    #[test]
    fn a_submission_that_waits_for_a_removed_plugin_is_refused() {
        let mut m = manager();
        let _ = m.submit(TestJob::new());
        m.remove_plugin("second").unwrap();
        let text = "plugin second was removed before it answered".to_owned();
        assert_eq!(m.late_answers(), [Err(text)]);
        m.advance(10.0);
        assert!(m.jobs().is_empty());
    }

    /// Counts the jobs that it is shown.
    #[derive(Default)]
    struct Counter(u32);

    #[jobtap_plugin(name = "counter", load = "by-name")]
    impl Counter {
        #[on("job.new")]
        fn new_job(&mut self, cx: Cx<'_, JobNew>) {
            self.0 += 1;
            cx.log(Level::Info, format!("{} jobs", self.0));
        }
    }

    #[test]
    fn nobody_knows_of_a_job_that_is_not_accepted_yet() {
        let mut m = TestManager::new()
            .plugin::<ByUrgency>()
            .plugin::<First>()
            .plugin::<Counter>()
            .start();
        let _ = m.submit(TestJob::new());
        m.load_plugin("counter", json!({})).unwrap();
        assert_eq!(m.cancel_all().unwrap(), 0);
        m.advance(2.0);
        assert!(m.late_answers()[0].is_ok());
        let shown = m.log().filter(|(_, text)| text.starts_with("counter:"));
        assert_eq!(
            shown.map(|(_, text)| text).collect::<Vec<_>>(),
            ["counter: 1 jobs"]
        );
    }
}

mod waiting {
    use super::*;

    #[derive(Default)]
    struct Slow;

    #[jobtap_plugin(name = "slow")]
    impl Slow {
        #[on("job.dependency.wait")]
        async fn wait(remote: Remote<Self>) -> Result<(), Reject> {
            // The later of two dependencies takes longer.
            static CALLS: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
            let call = CALLS.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            Ok(remote
                .sleep(if call.is_multiple_of(2) { 1.0 } else { 3.0 })
                .await?)
        }

        #[on("job.state.depend")]
        async fn stage(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
            if job.jobspec.attribute("stage").is_some() {
                remote.sleep(2.0).await?;
            }
            Ok(())
        }

        #[on("job.state.priority")]
        async fn priority(job: JobInfo, remote: Remote<Self>) -> Result<Priority, HandlerError> {
            if job.jobspec.attribute("ask").is_some() {
                remote.sleep(2.0).await?;
            }
            Ok(Priority::new(42))
        }
    }

    #[test]
    fn each_dependency_of_one_handler_holds_by_itself() {
        let mut m = with::<Slow>();
        let job = TestJob::new().dependency("wait:a").dependency("wait:b");
        let id = m.submit(job).unwrap();
        m.advance(2.0);
        assert_eq!(
            m.job(id).dependencies().collect::<Vec<_>>(),
            ["slow.wait=wait:b"]
        );
        m.advance(2.0);
        m.assert_state(id, State::Run);
    }

    #[test]
    fn work_that_holds_a_dependency_or_priority_begins_again_after_a_crash() {
        let mut m = with::<Slow>();
        let staged = m.submit(TestJob::new().attribute("stage", 1)).unwrap();
        let asked = m.submit(TestJob::new().attribute("ask", 1)).unwrap();
        m.advance(1.0);
        m.assert_state(staged, State::Depend);
        m.assert_state(asked, State::Priority);
        m.crash_and_restart();
        m.advance(3.0);
        m.assert_state(staged, State::Run);
        m.assert_state(asked, State::Run);
        assert_eq!(m.job(asked).priority(), Some(42));
    }

    #[test]
    fn a_job_without_priority_goes_to_the_other_plugins_when_one_is_removed_or_loaded() {
        let mut m = with::<Slow>();
        let asked = m.submit(TestJob::new().attribute("ask", 1)).unwrap();
        m.remove_plugin("slow").unwrap();
        assert_eq!(m.job(asked).priority(), Some(16));
        m.remove_plugin("by-urgency").unwrap();
        let last = m.log().last().unwrap().1;
        assert!(
            last.starts_with("no loaded plugin handles job.state.priority"),
            "{last}"
        );
        let waits = m.submit(TestJob::new()).unwrap();
        m.assert_state(waits, State::Priority);
        m.load_plugin("slow", json!({})).unwrap();
        assert_eq!(m.job(waits).priority(), Some(42));
    }
}

mod careless {
    use super::*;

    #[derive(Default)]
    struct Twice;

    #[jobtap_plugin(name = "twice")]
    impl Twice {
        #[on("job.validate")]
        fn validate(&self, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            Ok(cx.dependency_add("d")?)
        }

        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            cx.dependency_remove(job, "d")?;
            cx.dependency_remove(job, "d")?;
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
    fn a_dependency_removed_twice_is_removed() {
        let mut m = with::<Twice>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(
            id,
            "submit dependency-add validate dependency-remove depend priority alloc start",
        );
        // The plugin doesn't survive its removal, the manager does.
        m.remove_plugin("twice").unwrap();
        assert!(
            m.log()
                .any(|(_, text)| text == "twice: drop: panicked: a bug in drop")
        );
    }

    #[test]
    fn a_job_ended_in_the_callback_that_releases_it_goes_no_further() {
        let mut m = with::<Twice>();
        let id = m.submit(TestJob::new().attribute("end", 1)).unwrap();
        m.assert_events(
            id,
            "submit dependency-add validate dependency-remove exception clean",
        );
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

    /// Each job's end ends the one that was submitted after it.
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
                cx.raise(cx.job(*next)?, Exception::fatal("domino", ""))?;
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

    /// Ends the job of the highest id when a job is shown to it after a restart.
    #[derive(Default)]
    struct Eager;

    #[jobtap_plugin(name = "eager")]
    impl Eager {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            let target = job.jobspec().attribute("target").and_then(|v| v.as_u64());
            let target = target.map(|_| JobId::new(job.id().as_u64() + 1));
            if let Some(Ok(target)) = target.map(|id| cx.job(id)) {
                cx.raise(target, Exception::fatal("eager", ""))?;
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
        m.assert_events(
            second,
            &format!("{ALLOC} start exception finish release free clean"),
        );
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
        m.assert_events(
            large,
            &format!("{ALLOC} start exception finish release free clean"),
        );
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

    /// Makes jobs of urgency 20 as small as a job can be.
    #[derive(Default)]
    struct Shrink;

    #[jobtap_plugin(name = "shrink")]
    impl Shrink {
        #[on("job.state.priority")]
        fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<(), HandlerError> {
            if job.urgency().value() == 20 {
                let core = json!([{"type": "core", "count": 1}]);
                let slot = json!([{"type": "slot", "count": 1, "label": "task", "with": core}]);
                cx.jobspec_update("resources", slot)?;
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
