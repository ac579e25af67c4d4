//! Timers of plugins, and what plugins do when they fire.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::Value;

use crate::common::ByUrgency;

fn said(m: &TestManager, plugin: &str) -> Vec<String> {
    let prefix = format!("{plugin}: ");
    m.log().filter_map(|(_, text)| text.strip_prefix(&*prefix).map(str::to_owned)).collect()
}

mod periods {
    use super::*;

    #[derive(Default)]
    struct Ticks {
        timer: Option<Timer>,
        ticks: u32,
    }

    #[jobtap_plugin(name = "ticks")]
    impl Ticks {
        #[init]
        fn init(remote: Remote<Self>) -> Self {
            let timer = remote.every(10.0, |ticks, cx| {
                ticks.ticks += 1;
                cx.log(Level::Info, format!("{} at {}", ticks.ticks, cx.now().as_secs() % 1000.0));
            });
            remote.after(5.0, |_, cx| cx.log(Level::Info, "after five"));
            Self { timer: Some(timer), ticks: 0 }
        }

        #[service("stop")]
        fn stop(&mut self) {
            if let Some(timer) = self.timer.take() {
                timer.cancel();
            }
        }

        #[service("fail")]
        fn fail(&self, remote: Remote<Self>) {
            remote.every(1.0, |_, _| panic!("in a timer"));
        }
    }

    #[test]
    fn a_timer_runs_again_until_it_is_canceled() {
        let mut m = TestManager::new().plugin::<Ticks>().start();
        m.advance(35.0);
        assert_eq!(said(&m, "ticks"), ["after five", "1 at 10", "2 at 20", "3 at 30"]);
        m.call_service("ticks.stop", json!({})).unwrap();
        m.advance(100.0);
        assert_eq!(said(&m, "ticks").len(), 4);
    }

    #[test]
    fn a_timer_ends_with_a_panic_and_is_counted() {
        let mut m = TestManager::new().plugin::<Ticks>().start();
        m.call_service("ticks.stop", json!({})).unwrap();
        m.call_service("ticks.fail", json!({})).unwrap();
        m.advance(30.0);
        let stats = m.plugin_stats("ticks");
        let later = stats.iter().find(|stats| stats.topic == "later").unwrap();
        // Arming each of the two periodic timers counts as a call.
        assert_eq!((later.calls, later.panics), (4, 1));
    }
}

mod annotations {
    use super::*;

    #[derive(Default)]
    struct Notes;

    #[jobtap_plugin(name = "notes")]
    impl Notes {
        #[on("job.state.sched")]
        fn sched(&self, job: &Job, remote: Remote<Self>) -> Annotations {
            let id = job.id();
            remote.after(60.0, move |_, cx| {
                let job = cx.active_job(id).unwrap();
                let notes = Annotations::new().with("site", json!({"waits": "for matlab", "n": 1}));
                cx.annotate(job, notes).unwrap();
                cx.annotate(job, Annotations::new().with("site", json!({"n": Value::Null})))
                    .unwrap();
                assert_eq!(job.annotations()["site"], json!({"waits": "for matlab"}));
            });
            Annotations::new().with("guess", 1)
        }
    }

    #[test]
    fn annotations_from_a_timer_outlive_a_restart() {
        let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Notes>().start();
        m.hold_scheduling().unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(60.0);
        let all = |m: &TestManager| Value::Object(m.job(id).annotations().clone());
        assert_eq!(all(&m), json!({"guess": 1, "site": {"waits": "for matlab"}}));
        m.crash_and_restart();
        // The handler is called again after the restart.
        assert_eq!(all(&m), json!({"guess": 1, "site": {"waits": "for matlab"}}));
        m.assert_state(id, State::Sched);
    }

    /// Annotates a job until it runs, by returned annotations and by a call.
    #[derive(Default)]
    struct Waits;

    #[jobtap_plugin(name = "waits")]
    impl Waits {
        #[on("job.state.sched")]
        fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<Annotations, HandlerError> {
            cx.annotate(job, Annotations::new().with("called", 1))?;
            Ok(Annotations::new().with("returned", 1))
        }

        #[on("job.state.run")]
        fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<Annotations, HandlerError> {
            cx.annotate(job, Annotations::new().with("called", Value::Null))?;
            Ok(Annotations::new().with("returned", Value::Null))
        }
    }

    #[test]
    fn a_restart_brings_no_removed_annotation_back() {
        let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Waits>().start();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_state(id, State::Run);
        for _ in 0..2 {
            let names: Vec<&String> = m.job(id).annotations().keys().collect();
            assert_eq!(names, ["sched"]);
            m.crash_and_restart();
        }
    }
}

mod times {
    use super::*;

    #[derive(Default)]
    struct Bills;

    #[jobtap_plugin(name = "bills")]
    impl Bills {
        #[on("job.state.run", "job.state.inactive")]
        fn times(&self, job: &Job, cx: Cx<'_, (JobStateRun, JobStateInactive)>) {
            let since = |time: Option<Timestamp>| time.map(|time| (time - job.t_submit()).round());
            let times = [job.t_alloc(), job.t_start(), job.t_cleanup(), job.t_inactive()];
            cx.log(Level::Info, format!("{:?}", times.map(since)));
        }
    }

    #[test]
    fn a_job_tells_when_it_was_allocated_started_and_ended() {
        let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Bills>().cores(1).start();
        let first = m.submit(TestJob::new().run_for(40.0)).unwrap();
        let second = m.submit(TestJob::new().user(7).run_for(10.0)).unwrap();
        m.advance(41.0);
        m.crash_and_restart();
        m.advance(10.0);
        m.assert_state(first, State::Inactive);
        m.assert_state(second, State::Inactive);
        let times = said(&m, "bills");
        assert_eq!(times.first().unwrap(), "[Some(0.0), None, None, None]");
        assert_eq!(times.last().unwrap(), "[Some(40.0), Some(40.0), Some(50.0), Some(50.0)]");
    }
}

mod ends {
    use super::*;

    /// Doubles the time limit of each new job, and extends a job by a minute when its service is
    /// called.
    #[derive(Default)]
    struct Mercy;

    #[jobtap_plugin(name = "mercy")]
    impl Mercy {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            cx.subscribe(job)?;
            if job.state() == State::New {
                let twice = job.jobspec().duration() * 2.0;
                cx.jobspec_update(path!("attributes.system.duration"), twice)?;
            }
            Ok(())
        }

        #[on("job.event.resource-update")]
        fn moved(&self, event: &EventEntry, cx: Cx<'_, JobEvent>) {
            cx.log(Level::Info, event.name.to_string());
        }

        #[service("extend")]
        fn extend(&self, request: Request<JobId>, cx: Cx<'_, Service>) -> Result<(), ServiceError> {
            let job = cx.active_job(request.into_inner())?;
            let end = job.resources().and_then(ResourceSet::expiration).unwrap_or_default();
            Ok(cx.set_expiration(job, Timestamp::from_secs(end + 60.0))?)
        }
    }

    #[test]
    fn a_plugin_moves_the_end_of_a_job() {
        let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Mercy>().start();
        m.hold_scheduling().unwrap();
        let id = m.submit(TestJob::new().duration(50.0)).unwrap();
        assert_eq!(m.job(id).jobspec().duration(), 100.0);
        let refused = m.call_service("mercy.extend", json!(id)).unwrap_err().text();
        assert!(refused.contains("only a job that runs has an end that can be moved"), "{refused}");
        m.allocate(id);
        m.call_service("mercy.extend", json!(id)).unwrap();
        assert_eq!(said(&m, "mercy"), ["resource-update"]);
        m.crash_and_restart();
        m.advance(150.0);
        m.assert_state(id, State::Run);
        m.advance(11.0);
        assert_eq!(m.job(id).result(), Some(JobResult::Timeout));
    }
}
