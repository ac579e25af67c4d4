//! After a restart or the removal of a plugin, no job waits for work that no longer exists.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;
use crate::managers::{notes, with};

mod perilogs {
    use super::*;

    /// Keeps its tokens forever.
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

    /// Its handlers never finish.
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

    /// Asserts that a job in its prolog and a job in its epilog end after `leave`.
    fn ends_both(mut m: TestManager, leave: impl Fn(&mut TestManager), why: &str) {
        let starting = m.submit(TestJob::new().attribute("prolog", 1)).unwrap();
        let ending = m.submit(TestJob::new()).unwrap();
        m.finish(ending, 0);
        m.assert_state(starting, State::Run);
        m.assert_state(ending, State::Cleanup);
        leave(&mut m);
        m.assert_state(ending, State::Inactive);
        assert!(notes(&m, ending)[0].ends_with(why), "{:?}", notes(&m, ending));
        // The prolog has ended. After a restart the job is in an epilog of its own, which the
        // removal ends.
        let _ = m.remove_plugin("keeper");
        let _ = m.remove_plugin("endless");
        m.assert_state(starting, State::Inactive);
        assert!(notes(&m, starting)[0].ends_with(why), "{:?}", notes(&m, starting));
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
        TestManager::new().plugin::<ByUrgency>().plugin::<First>().plugin::<Second>().start()
    }

    #[test]
    fn one_yes_of_two_opens_no_gate() {
        let mut m = manager();
        let job = TestJob::new().attribute("first", 1.0).attribute("second", -2.0);
        let _ = m.submit(job);
        m.advance(1.5);
        assert!(m.late_responses().is_empty());
        m.advance(1.0);
        let [answer] = <[_; 1]>::try_from(m.late_responses()).unwrap();
        assert_eq!(answer.unwrap_err(), "second says no");
        let _ = m.submit(TestJob::new().attribute("second", 2.0));
        m.advance(3.0);
        assert!(m.late_responses()[0].is_ok());
    }

    #[test]
    fn a_submission_that_waits_for_a_removed_plugin_is_refused() {
        let mut m = manager();
        let _ = m.submit(TestJob::new());
        m.remove_plugin("second").unwrap();
        let [answer] = <[_; 1]>::try_from(m.late_responses()).unwrap();
        assert_eq!(answer.unwrap_err(), "plugin second was removed before it answered");
        m.advance(10.0);
        assert!(m.jobs().is_empty());
    }

    /// Counts the jobs for which it is called.
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
    fn a_job_that_is_not_accepted_yet_is_unknown() {
        let mut m =
            TestManager::new().plugin::<ByUrgency>().plugin::<First>().linked::<Counter>().start();
        let _ = m.submit(TestJob::new());
        m.load_plugin("counter", json!({})).unwrap();
        assert_eq!(m.cancel_all().unwrap(), 0);
        m.advance(2.0);
        assert!(m.late_responses()[0].is_ok());
        let shown = m.log().filter(|(_, text)| text.starts_with("counter:"));
        assert_eq!(shown.map(|(_, text)| text).collect::<Vec<_>>(), ["counter: 1 jobs"]);
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
            Ok(remote.sleep(if call.is_multiple_of(2) { 1.0 } else { 3.0 }).await?)
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
        assert_eq!(m.job(id).dependencies().collect::<Vec<_>>(), ["slow.wait=wait:b"]);
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
        assert!(last.starts_with("no loaded plugin decides priorities"), "{last}");
        let waits = m.submit(TestJob::new()).unwrap();
        m.assert_state(waits, State::Priority);
        m.load_plugin("slow", json!({})).unwrap();
        assert_eq!(m.job(waits).priority(), Some(42));
    }
}
