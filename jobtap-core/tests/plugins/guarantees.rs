//! What plugins can rely on: order of commands, prologs and epilogs, asynchronous handlers, data,
//! faults, events.

use jobtap_core::job::{JobId, State};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;
use crate::managers::with;

fn errors(m: &TestManager) -> Vec<String> {
    m.log().filter(|(level, _)| *level <= Level::Warning).map(|(_, text)| text.to_owned()).collect()
}

mod perilogs {
    use super::*;

    /// Opens a prolog and an epilog, which timers finish.
    #[derive(Default)]
    struct Perilogs {
        prologs: Vec<Token>,
    }

    #[jobtap_plugin(name = "perilogs")]
    impl Perilogs {
        #[on("job.state.run")]
        fn run(
            &mut self,
            cx: Cx<'_, JobStateRun>,
            remote: Remote<Self>,
        ) -> Result<(), HandlerError> {
            self.prologs.push(cx.prolog_start("mount")?);
            remote.at(cx.now() + 5.0, |plugin, _cx| {
                for token in plugin.prologs.drain(..) {
                    token.finish(0);
                }
            });
            Ok(())
        }

        #[on("job.state.cleanup")]
        fn cleanup(
            &self,
            cx: Cx<'_, JobStateCleanup>,
            remote: Remote<Self>,
        ) -> Result<(), HandlerError> {
            let token = cx.epilog_start("umount")?;
            remote.at(cx.now() + 5.0, |_plugin, _cx| token.finish(0));
            Ok(())
        }
    }

    #[test]
    fn a_prolog_holds_the_start_and_an_epilog_the_resources() {
        let mut m = with::<Perilogs>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit validate depend priority alloc prolog-start");
        m.advance(6.0);
        m.assert_events(
            id,
            "submit validate depend priority alloc prolog-start prolog-finish start",
        );
        m.finish(id, 0);
        m.advance(4.0);
        m.assert_state(id, State::Cleanup);
        m.advance(2.0);
        m.assert_events(
            id,
            "submit validate depend priority alloc prolog-start prolog-finish start finish \
             epilog-start release epilog-finish free clean",
        );
    }

    #[test]
    fn the_release_of_a_simulated_job_comes_after_what_its_end_caused() {
        let mut m = with::<Perilogs>();
        let id =
            m.submit(TestJob::new().attribute("exec.test", json!({"run_duration": "2s"}))).unwrap();
        m.advance(20.0);
        m.assert_events(
            id,
            "submit validate depend priority alloc prolog-start prolog-finish start finish \
             epilog-start release epilog-finish free clean",
        );
    }

    #[test]
    fn a_job_cancelled_in_its_prolog_waits_for_it_and_never_starts() {
        let mut m = with::<Perilogs>();
        let id = m.submit(TestJob::new()).unwrap();
        m.cancel(id).unwrap();
        m.assert_state(id, State::Cleanup);
        m.advance(6.0);
        m.assert_events(
            id,
            "submit validate depend priority alloc prolog-start exception epilog-start \
             prolog-finish epilog-finish free clean",
        );
    }
}

mod early_prolog {
    use std::collections::BTreeMap;

    use super::*;

    /// Starts a prolog before the job has resources, and asks for all priorities again whenever it is called for a job.
    /// So after a restart, a job gets its priority while its old prolog is being failed.
    #[derive(Default)]
    struct Early {
        prologs: BTreeMap<JobId, Token>,
    }

    #[jobtap_plugin(name = "early")]
    impl Early {
        #[on("job.new")]
        fn new_job(&self, cx: Cx<'_, JobNew>) {
            cx.reprioritize_all();
        }

        #[on("job.state.priority")]
        fn priority(&self) -> Priority {
            Priority::new(16)
        }

        #[on("job.priority.get")]
        fn again(&self) -> Priority {
            Priority::new(17)
        }

        #[on("job.state.sched")]
        fn sched(&mut self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
            self.prologs.insert(job.id(), cx.prolog_start("stage")?);
            Ok(())
        }

        #[on("job.state.cleanup")]
        fn cleanup(&mut self, job: &Job) {
            if let Some(prolog) = self.prologs.remove(&job.id()) {
                prolog.finish(0);
            }
        }
    }

    #[test]
    fn one_that_fails_at_a_restart_is_not_taken_over_by_the_next_of_its_name() {
        let mut m = TestManager::new().plugin::<Early>().start();
        m.scheduling(false).unwrap();
        m.submit(TestJob::new()).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit validate depend priority prolog-start");
        m.crash_and_restart();
        m.assert_events(
            id,
            "submit validate depend priority prolog-start flux-restart priority priority \
             exception prolog-finish prolog-start prolog-finish clean",
        );
    }
}

mod failed_prolog {
    use super::*;

    /// Its prolog fails, and what it did is undone by an epilog that takes five seconds.
    #[derive(Default)]
    struct Undoes;

    #[jobtap_plugin(name = "undoes")]
    impl Undoes {
        #[on("job.state.sched")]
        fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
            let early = cx.fail_job_with_epilog(cx.active_job(job.id())?, "undo", "early", "no");
            cx.log(Level::Info, early.err().map(|error| error.to_string()).unwrap_or_default());
            Ok(())
        }

        #[on("job.state.run")]
        fn run(
            &self,
            job: &Job,
            remote: Remote<Self>,
            cx: Cx<'_, JobStateRun>,
        ) -> Result<(), HandlerError> {
            let (id, prolog) = (job.id(), cx.prolog_start("do")?);
            let later = remote.clone();
            remote.at(cx.now() + 5.0, move |_, cx| {
                let undo =
                    cx.fail_job_with_epilog(cx.active_job(id).unwrap(), "undo", "site", "no");
                let undo = undo.unwrap();
                prolog.finish(1);
                later.at(cx.now() + 5.0, |_, _| undo.finish(0));
            });
            Ok(())
        }
    }

    #[test]
    fn its_job_ends_and_waits_for_the_epilog_that_came_with_that() {
        let mut m = with::<Undoes>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_logged("a job has something to clean up once it has resources");
        m.advance(6.0);
        let open = "submit validate depend priority alloc prolog-start epilog-start exception \
                    prolog-finish";
        m.assert_events(id, open);
        m.assert_state(id, State::Cleanup);
        m.advance(6.0);
        m.assert_events(id, &format!("{open} epilog-finish free clean"));
    }

    #[test]
    fn an_epilog_that_came_with_the_end_has_failed_after_a_restart() {
        let mut m = with::<Undoes>();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(6.0);
        m.crash_and_restart();
        m.assert_exception(id, "epilog", "the manager was restarted while it was open");
        // The job never started, so the executor is not asked about it, and its node is not drained.
        let open = "submit validate depend priority alloc prolog-start epilog-start exception \
                    prolog-finish";
        m.assert_events(id, &format!("{open} exception epilog-finish free clean"));
        assert_eq!(m.resource_status()["drain"], json!({}));
    }
}

mod dropped_token {
    use super::*;

    #[derive(Default)]
    struct Careless;

    #[jobtap_plugin(name = "careless")]
    impl Careless {
        #[on("job.state.run")]
        fn run(&self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
            let _token = cx.prolog_start("mount")?;
            Ok(())
        }
    }

    #[test]
    fn a_forgotten_prolog_ends_the_job_with_the_reason() {
        let mut m = with::<Careless>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(
            id,
            "submit validate depend priority alloc prolog-start exception prolog-finish free clean",
        );
        let context = m.eventlog(id)[6].context.clone().unwrap();
        assert_eq!(context["note"], "mount of plugin careless ended without a result");
    }
}

mod asynchronous {
    use super::*;

    #[derive(Default)]
    struct Slow;

    #[jobtap_plugin(name = "slow")]
    impl Slow {
        #[on("job.validate")]
        async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
            if job.jobspec.attribute("ask").is_some() {
                remote.sleep(3.0).await?;
                return Err(Reject::new("the license server says no"));
            }
            Ok(())
        }

        #[on("job.state.depend")]
        async fn stage_in(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
            if job.jobspec.attribute("stage").is_some() {
                remote.sleep(2.0).await?;
            }
            Ok(())
        }

        #[on("job.state.run")]
        async fn mount(
            job: JobInfo,
            r: ResourceSet,
            remote: Remote<Self>,
        ) -> Result<(), PrologFailed> {
            remote.sleep(1.0).await?;
            match job.jobspec.attribute("mount").and_then(|m| m.as_str()) {
                Some("fail") => Err(PrologFailed::new(format!("no disk on {}", r.nodelist()))),
                Some("panic") => panic!("a bug"),
                _ => Ok(()),
            }
        }
    }

    const START: &str = "submit validate dependency-add dependency-remove depend priority alloc \
                         prolog-start";

    #[test]
    fn work_off_the_thread_holds_the_job_at_each_topic() {
        let mut m = with::<Slow>();
        let id = m.submit(TestJob::new().attribute("stage", 1)).unwrap();
        m.assert_events(id, "submit validate dependency-add");
        m.advance(2.5);
        m.assert_events(id, START);
        m.advance(1.0);
        m.assert_events(id, &format!("{START} prolog-finish start"));
    }

    #[test]
    fn an_asynchronous_verdict_is_the_answer_to_the_submitter() {
        let mut m = with::<Slow>();
        let waits = m.submit(TestJob::new().attribute("ask", 1)).unwrap_err();
        assert_eq!(waits, "the submission waits for an answer");
        m.advance(4.0);
        let [answer] = <[_; 1]>::try_from(m.late_responses()).unwrap();
        assert_eq!(answer.unwrap_err(), "the license server says no");
    }

    #[test]
    fn failure_and_panic_end_the_job_with_the_reason() {
        for (how, note) in
            [("fail", "no disk on testhost"), ("panic", "slow.mount panicked: a bug")]
        {
            let mut m = with::<Slow>();
            let id = m.submit(TestJob::new().attribute("mount", how)).unwrap();
            m.advance(2.0);
            m.assert_events(id, &format!("{START} exception prolog-finish free clean"));
            let context = m.eventlog(id)[8].context.clone().unwrap();
            assert_eq!(context["note"], note);
        }
    }
}

mod faults {
    use super::*;

    #[derive(Default)]
    struct Buggy;

    #[jobtap_plugin(name = "buggy")]
    impl Buggy {
        #[on("job.validate")]
        fn validate(&self, job: &Job) -> Result<(), Reject> {
            assert!(job.jobspec().attribute("gate").is_none(), "a bug in the gate");
            Ok(())
        }

        #[on("job.state.run")]
        fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
            let _token = cx.prolog_start("never")?;
            assert!(job.jobspec().attribute("state").is_none(), "a bug in a state");
            Err(HandlerError::new("something failed"))
        }
    }

    #[test]
    fn a_panic_in_a_gate_closes_it() {
        let mut m = with::<Buggy>();
        let refusal = m.submit(TestJob::new().attribute("gate", 1)).unwrap_err().text();
        assert!(refusal.contains("plugin buggy failed"), "{refusal}");
        assert!(errors(&m)[0].starts_with("buggy: job.validate: job"), "{:?}", errors(&m));
    }

    #[test]
    fn a_panic_in_a_state_discards_its_commands_and_the_job_goes_on() {
        let mut m = with::<Buggy>();
        let id = m.submit(TestJob::new().attribute("state", 1)).unwrap();
        m.assert_events(id, "submit validate depend priority alloc start");
        assert!(errors(&m)[0].contains("panicked: a bug in a state"), "{:?}", errors(&m));
    }
}

mod data {
    use super::*;

    #[derive(Debug, Default, PartialEq, Serialize, Deserialize)]
    struct Seen {
        events: Vec<String>,
    }

    #[derive(Default)]
    struct Recorder;

    #[jobtap_plugin(name = "recorder", data = Seen)]
    impl Recorder {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            Ok(cx.subscribe(job)?)
        }

        #[on("job.event.*")]
        fn event(&self, entry: &EventEntry, seen: Data<'_, Seen>) -> Result<(), HandlerError> {
            seen.update(|seen| seen.events.push(entry.name.to_string()))?;
            assert!(seen.get()?.events.last().is_some_and(|last| *last == entry.name));
            Ok(())
        }

        #[on("job.state.inactive")]
        fn over(
            &self,
            seen: Data<'_, Seen>,
            cx: Cx<'_, JobStateInactive>,
        ) -> Result<(), HandlerError> {
            cx.log(Level::Info, seen.get()?.events.join(" "));
            Ok(())
        }
    }

    #[test]
    fn data_and_subscriptions_survive_a_crash() {
        let mut m = with::<Recorder>();
        let id = m.submit(TestJob::new()).unwrap();
        m.crash_and_restart();
        m.finish(id, 0);
        let last = m.log().filter(|(_, text)| text.starts_with("recorder:")).last().unwrap().1;
        assert_eq!(
            last,
            "recorder: validate depend priority annotations alloc start finish release free clean"
        );
    }
}

mod updates {
    use super::*;

    #[derive(Default)]
    struct Rewriter;

    #[jobtap_plugin(name = "rewriter")]
    impl Rewriter {
        #[on("job.validate")]
        fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
            cx.jobspec_update(path!("attributes.system.project"), "batch")?;
            cx.jobspec_update(path!("attributes.system.duration"), 60.0)?;
            if job.jobspec().attribute("reject").is_some() {
                return Err(Reject::new("no"));
            }
            let through = path!("attributes.system.duration.unit");
            let wrong = cx.jobspec_update(through, "s").unwrap_err();
            assert!(wrong.to_string().contains("jobspec update of job"), "{wrong}");
            Ok(())
        }
    }

    #[test]
    fn all_changes_of_a_callback_are_one_event() {
        let mut m = with::<Rewriter>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit jobspec-update validate depend priority alloc start");
        let context = m.eventlog(id)[1].context.clone().unwrap();
        let want =
            json!({"attributes.system.project": "batch", "attributes.system.duration": 60.0});
        assert_eq!(serde_json::Value::from(context), want);
        let project = m.job(id).jobspec().attribute("project").cloned();
        assert_eq!(project, Some(json!("batch")));
    }

    #[test]
    fn nothing_of_a_rejected_job_is_left() {
        let mut m = with::<Rewriter>();
        assert_eq!(m.submit(TestJob::new().attribute("reject", 1)).unwrap_err(), "no");
        m.crash_and_restart();
        assert_eq!(m.cancel_all().unwrap(), 0);
    }
}

mod order {
    use super::*;

    macro_rules! last_word {
        ($name:ident, $plugin:literal, $priority:literal) => {
            #[derive(Default)]
            struct $name;

            #[jobtap_plugin(name = $plugin)]
            impl $name {
                #[on("job.state.priority")]
                fn priority(&self) -> Priority {
                    Priority::new($priority)
                }
            }
        };
    }
    last_word!(Zebra, "zebra", 100);
    last_word!(Aardvark, "aardvark", 200);

    #[test]
    fn the_last_plugin_that_sets_a_priority_wins() {
        let mut m = TestManager::new().plugin::<Zebra>().plugin::<Aardvark>().start();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(m.job(id).priority(), Some(100));
    }
}

mod restart {
    use super::*;

    fn states(m: &TestManager, ids: &[JobId]) -> Vec<State> {
        ids.iter().map(|id| m.job(*id).state()).collect()
    }

    #[test]
    fn a_crash_at_any_point_keeps_every_acknowledged_job() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        let run = m.submit(TestJob::new().ntasks(4)).unwrap();
        let sched = m.submit(TestJob::new().run_for(1.0)).unwrap();
        let held = m.submit(TestJob::new().urgency(0)).unwrap();
        let ids = [run, sched, held];
        let before = states(&m, &ids);
        m.crash_and_restart();
        assert_eq!(states(&m, &ids), before);
        m.assert_events(sched, "submit validate depend priority flux-restart priority");
        m.finish(run, 0);
        m.assert_state(sched, State::Run);
        m.crash_and_restart();
        m.advance(2.0);
        m.assert_state(sched, State::Inactive);
        m.assert_state(held, State::Sched);
    }

    #[test]
    fn a_second_restart_changes_nothing_more_than_the_first() {
        let mut m = TestManager::new().plugin::<ByUrgency>().start();
        let run = m.submit(TestJob::new().duration(100.0)).unwrap();
        for _ in 0..3 {
            m.crash_and_restart();
        }
        m.assert_events(run, "submit validate depend priority alloc start");
        m.advance(101.0);
        m.assert_state(run, State::Inactive);
    }
}
