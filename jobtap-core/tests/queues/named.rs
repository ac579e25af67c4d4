//! Named queues as users see them: what they accept, which jobs wait for them, and which changes by an administrator
//! outlive a reload and a restart.

use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
use jobtap_core::sched::{Scheduler, Turn};
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use crate::common::ByUrgency;

fn with(config: Value) -> TestManager {
    TestManager::new().plugin::<ByUrgency>().config(config).start()
}

/// A queue, its virtual queue, and another one.
fn day_night_debug() -> Value {
    json!({"queues": {"day": {}, "night": {"parent": "day"}, "debug": {}}})
}

fn to(queue: &str) -> TestJob {
    TestJob::new().queue(queue)
}

fn job(queue: &str, cores: u64, limit: f64) -> TestJob {
    to(queue).ntasks(cores).duration(limit).run_for(limit)
}

mod submission {
    use super::*;

    #[test]
    fn a_job_must_be_in_a_queue_that_is_there() {
        let mut m = with(day_night_debug());
        assert_eq!(m.submit(TestJob::new()).unwrap_err(), "no queue specified");
        assert_eq!(m.submit(to("x")).unwrap_err(), "Invalid queue 'x' specified");
        assert_eq!(
            m.submit(to("debgu")).unwrap_err(),
            "Invalid queue 'debgu' specified; did you mean 'debug'?"
        );
        let mut m = with(json!({}));
        assert_eq!(m.submit(to("x")).unwrap_err(), "'x' is not a valid queue");
        let off = json!({"ingest": {"frobnicator": {"disable": true}}, "queues": {"a": {}}});
        let mut m = with(off);
        assert_eq!(m.submit(TestJob::new()).unwrap_err(), "a named queue is required");
        assert_eq!(m.submit(to("x")).unwrap_err(), "'x' is not a valid queue");
    }

    #[test]
    fn a_disabled_queue_refuses_with_its_reason_and_the_others_go_on() {
        let mut m = with(day_night_debug());
        m.disable_queue("day", "full").unwrap();
        let text = "job submission to day is disabled: full";
        assert_eq!(m.submit(to("day")).unwrap_err(), text);
        // For submissions, a virtual queue is a queue of its own.
        m.submit(to("night")).unwrap();
        m.submit(to("debug")).unwrap();
        m.enable_queue("day").unwrap();
        m.submit(to("day")).unwrap();
        assert_eq!(m.disable_queue("x", "y").unwrap_err(), "'x' is not a valid queue");
    }

    #[test]
    fn what_a_job_leaves_open_comes_from_its_queue() {
        let mut m = with(json!({
            "policy": {"jobspec": {"defaults": {"system": {"queue": "day", "duration": "1h"}}}},
            "queues": {
                "day": {"requires": ["^gpu"], "policy": {"limits": {"duration": "1d"}}},
                "night": {"parent": "day"},
                "debug": {"policy": {"jobspec": {"defaults": {"system": {"duration": "5m"}}}}},
            },
        }));
        let mut told = |job: TestJob| {
            let id = m.submit(job).unwrap();
            let spec = m.job(id).jobspec().clone();
            let queue = spec.queue().map(str::to_owned);
            (queue.unwrap(), spec.duration(), spec.constraints().cloned())
        };
        let properties = |list: Value| Some(json!({ "properties": list }));
        assert_eq!(told(TestJob::new()), ("day".into(), 3600.0, properties(json!(["^gpu"]))));
        assert_eq!(told(to("night")), ("night".into(), 3600.0, properties(json!(["^gpu"]))));
        assert_eq!(told(to("debug")), ("debug".into(), 300.0, None));
        assert_eq!(told(to("debug").duration(60.0)), ("debug".into(), 60.0, None));
        let own = to("day").attribute("constraints", json!({"properties": ["^slow", "^gpu"]}));
        assert_eq!(told(own).2, properties(json!(["^slow", "^gpu"])));
        let own = to("day").attribute("constraints", json!({"not": [{"ranks": ["7"]}]}));
        let both = json!({"and": [{"not": [{"ranks": ["7"]}]}, {"properties": ["^gpu"]}]});
        assert_eq!(told(own).2, Some(both));
    }
}

mod scheduling {
    use super::*;

    #[test]
    fn a_job_waits_until_its_queue_is_started_and_the_why_says_so() {
        let mut m = with(day_night_debug());
        let (day, night) = (m.submit(to("day")).unwrap(), m.submit(to("night")).unwrap());
        assert_eq!(m.why(day), ["queue day is stopped"]);
        assert_eq!(m.why(night), ["queue night is stopped"]);
        m.start_queue("night").unwrap();
        let text = "queue day, the parent of its queue night, is stopped";
        assert_eq!(m.why(night), [text]);
        m.assert_state(night, State::Sched);
        m.stop_queue("day", Some("repair")).unwrap();
        assert_eq!(m.why(night), [format!("{text}: repair")]);
        m.start_queue("day").unwrap();
        m.assert_state(day, State::Run);
        m.assert_state(night, State::Run);
    }

    #[test]
    fn stop_keeps_what_runs_and_withdraws_what_waits() {
        let mut m = with(day_night_debug());
        m.start_queues().unwrap();
        let runs = m.submit(job("day", 4, 10.0)).unwrap();
        let waits = m.submit(job("night", 4, 10.0)).unwrap();
        m.stop_queue("night", None).unwrap();
        m.assert_state(runs, State::Run);
        m.advance(20.0);
        m.assert_state(runs, State::Inactive);
        m.assert_state(waits, State::Sched);
        m.start_queue("night").unwrap();
        m.assert_state(waits, State::Run);
    }

    #[test]
    fn queues_that_are_started_together_compete_by_priority() {
        let mut m = with(json!({"queues": {"a": {}, "b": {}}}));
        let low = m.submit(job("a", 4, 10.0).urgency(10)).unwrap();
        let high = m.submit(job("b", 4, 10.0).urgency(20)).unwrap();
        m.start_queues().unwrap();
        m.assert_state(high, State::Run);
        m.assert_state(low, State::Sched);
    }

    #[test]
    fn a_blocked_job_holds_up_its_own_queue_alone() {
        let fifo = json!({"scheduler": {"queue-policy": "fifo"}});
        let mut m = with(json!({"policy": fifo, "queues": {"day": {}, "debug": {}}}));
        m.start_queues().unwrap();
        m.submit(job("day", 3, 100.0)).unwrap();
        let blocked = m.submit(job("day", 4, 100.0)).unwrap();
        let behind = m.submit(job("day", 1, 1.0)).unwrap();
        let other = m.submit(job("debug", 1, 1.0)).unwrap();
        m.assert_state(blocked, State::Sched);
        m.assert_state(behind, State::Sched);
        m.assert_state(other, State::Run);
    }

    #[test]
    fn each_queue_has_the_policy_that_it_says() {
        let easy = json!({"scheduler": {"queue-policy": "easy"}});
        let fifo = json!({"scheduler": {"queue-policy": "fifo"}});
        let mut m =
            with(json!({"policy": fifo, "queues": {"strict": {}, "back": {"policy": easy}}}));
        m.start_queues().unwrap();
        m.submit(job("strict", 2, 100.0)).unwrap();
        let passes = |m: &mut TestManager, queue: &str| {
            let head = m.submit(job(queue, 4, 100.0)).unwrap();
            let short = m.submit(job(queue, 1, 1.0)).unwrap();
            m.assert_state(head, State::Sched);
            m.job(short).state() == State::Run
        };
        assert!(passes(&mut m, "back"));
        assert!(!passes(&mut m, "strict"));
    }

    #[test]
    fn an_unknown_policy_is_told_with_its_place() {
        let table = json!({"scheduler": {"queue-policy": "fifi"}});
        let config = json!({"queues": {"a": {"policy": table}}});
        let error = TestManager::new().config(config).try_start().err().unwrap();
        assert!(error.text().contains("queues.a.policy.scheduler"), "{error}");
        assert!(error.text().contains("did you mean \"fifo\"?"), "{error}");
    }

    #[test]
    fn the_higher_priority_goes_first_where_queues_share_nodes() {
        let mut m = with(json!({"queues": {"a": {}, "b": {}}}));
        m.start_queues().unwrap();
        let runs = m.submit(job("a", 4, 10.0)).unwrap();
        let low = m.submit(job("a", 4, 10.0)).unwrap();
        let high = m.submit(job("b", 4, 10.0).urgency(20)).unwrap();
        m.advance(11.0);
        m.assert_state(runs, State::Inactive);
        m.assert_state(low, State::Sched);
        m.assert_state(high, State::Run);
    }

    #[test]
    fn a_job_waits_for_a_queue_that_a_reload_took_away() {
        let mut m = with(day_night_debug());
        let waits = m.submit(to("debug")).unwrap();
        for left in [json!({"queues": {"day": {}}}), json!({})] {
            m.configure(left).unwrap();
            m.urgency(waits, 20).unwrap();
            m.crash_and_restart();
            m.assert_state(waits, State::Sched);
            let why = "'debug' is not a valid queue: it waits until its queue is configured, or it is moved";
            assert_eq!(m.why(waits), [why]);
        }
        let other = m.submit(TestJob::new()).unwrap();
        m.assert_state(other, State::Run);
        m.configure(day_night_debug()).unwrap();
        m.start_queues().unwrap();
        m.assert_state(waits, State::Run);
    }

    /// Submits jobs of one core, given by queue and urgency, and returns those that run.
    fn started(mut m: TestManager, jobs: &[(&'static str, i64)]) -> Vec<(&'static str, i64)> {
        let submit =
            |(queue, urgency): &(&str, i64)| m.submit(to(queue).urgency(*urgency)).unwrap();
        let ids: Vec<JobId> = jobs.iter().map(submit).collect();
        m.start_queues().unwrap();
        let jobs = ids.iter().zip(jobs).filter(|(id, _)| m.job(**id).state() == State::Run);
        jobs.map(|(_, job)| *job).collect()
    }

    #[test]
    fn jobs_of_queues_that_share_nodes_start_in_one_order() {
        let jobs = [("batch", 16), ("batch", 18), ("debug", 16), ("debug", 17), ("debug", 18)];
        for policy in ["easy", "conservative", "strict"] {
            let config = json!({
                "policy": {"scheduler": {"queue-policy": policy}},
                "queues": {"batch": {}, "debug": {}},
            });
            let of = |cores| {
                let builder = TestManager::new().plugin::<ByUrgency>().config(config.clone());
                builder.cores(cores).start()
            };
            assert_eq!(started(of(2), &jobs), [("batch", 18), ("debug", 18)], "{policy}");
            let three = [("batch", 18), ("debug", 17), ("debug", 18)];
            assert_eq!(started(of(3), &jobs), three, "{policy}");
            let by_id = [("batch", 16), ("debug", 16), ("batch", 16), ("debug", 16)];
            assert_eq!(started(of(2), &by_id), by_id[..2], "{policy}");
        }
    }

    #[test]
    fn a_queue_that_shares_no_nodes_goes_its_own_way() {
        let config = json!({"queues": {
            "batch": {"requires": ["batch"]}, "debug": {"requires": ["debug"]}, "all": {},
        }});
        let cores = Children::new(Idset::from(0..=1), Idset::new());
        let mut nodes = ResourceSet::uniform(0, &"n[0-1]".parse().unwrap(), cores);
        nodes.set_property("batch", &Idset::from(0)).unwrap();
        nodes.set_property("debug", &Idset::from(1)).unwrap();
        let builder = TestManager::new().plugin::<ByUrgency>().config(config);
        let jobs = [("batch", 16), ("debug", 17), ("all", 18), ("batch", 20), ("debug", 16)];
        // The job of queue `all` gets a core of the second node, which has more of them left.
        let runs = [("batch", 16), ("debug", 17), ("all", 18), ("batch", 20)];
        assert_eq!(started(builder.resources(nodes).start(), &jobs), runs);
    }
}

mod foreign_schedulers {
    use super::*;

    /// Starts what can start, in order, and panics at a job named `boom`.
    #[derive(Default)]
    struct Touchy;

    impl Scheduler for Touchy {
        fn name(&self) -> &'static str {
            "touchy"
        }

        fn turn(&mut self, turn: &mut Turn<'_>) {
            for id in turn.pending() {
                let name = turn.jobspec(id).and_then(|spec| spec.name());
                assert_ne!(name, Some("boom"), "no such jobs");
                turn.allocate(id, None);
            }
        }

        fn job_left(&mut self, _: JobId) {}
    }

    jobtap_core::scheduler! {
        static TOUCHY = "touchy", |table| match table.get("mood") {
            None => Ok(Box::<Touchy>::default()),
            Some(mood) => panic!("in a {mood} mood"),
        };
    }

    fn config(table: Value) -> Value {
        json!({"queues": {"a": {"policy": {"scheduler": table}}, "b": {}}})
    }

    fn touchy() -> TestManager {
        let config = config(json!({"queue-policy": "touchy"}));
        let builder = TestManager::new().plugin::<ByUrgency>().scheduler(&TOUCHY);
        let mut m = builder.config(config).start();
        m.start_queues().unwrap();
        m
    }

    #[test]
    fn one_that_panics_is_offline_until_the_configuration_is_loaded_again() {
        let mut m = touchy();
        m.scheduling(false).unwrap();
        let first = m.submit(to("a").urgency(20)).unwrap();
        let boom = m.submit(to("a").name("boom")).unwrap();
        m.scheduling(true).unwrap();
        // What it decided before the panic stands.
        m.assert_state(first, State::Run);
        let behind = m.submit(to("a")).unwrap();
        m.assert_state(behind, State::Sched);
        assert!(m.why(behind)[0].contains("config reload"), "{:?}", m.why(behind));
        let status = m.queue_status("a").unwrap();
        let expected = json!({"enable": true, "start": false, "blocked": "scheduler",
            "stop_reason": "Scheduler is offline"});
        assert_eq!(status, expected);
        let other = m.submit(to("b")).unwrap();
        m.assert_state(other, State::Run);
        m.cancel(boom).unwrap();
        m.configure(config(json!({"queue-policy": "touchy"}))).unwrap();
        m.assert_state(behind, State::Run);
    }

    #[test]
    fn one_that_cant_be_made_leaves_the_old_one_at_work() {
        let mut m = touchy();
        let moody = config(json!({"queue-policy": "touchy", "mood": "bad"}));
        let error = m.configure(moody).unwrap_err();
        assert_eq!(error, "queues.a.policy.scheduler: panicked: in a \"bad\" mood");
        let id = m.submit(to("a")).unwrap();
        m.assert_state(id, State::Run);
    }
}

mod reload {
    use super::*;

    #[test]
    fn present_queues_keep_their_state_and_new_ones_begin_stopped() {
        let mut m = with(json!({"queues": {"a": {}, "b": {}}}));
        m.start_queue("a").unwrap();
        m.disable_queue("a", "closed").unwrap();
        let lost = m.submit(to("b")).unwrap();
        m.configure(json!({"queues": {"a": {"requires": ["^x"]}, "c": {}}})).unwrap();
        let queues = m.queues().unwrap();
        let a = queues.get("a").unwrap();
        assert!(a.is_started() && a.disable_reason() == Some("closed"));
        assert_eq!(a.requires(), ["^x"]);
        let c = queues.get("c").unwrap();
        assert!(c.is_enabled() && !c.is_started());
        assert!(queues.get("b").is_none());
        let text =
            "'b' is not a valid queue: it waits until its queue is configured, or it is moved";
        assert_eq!(m.why(lost), [text]);
        m.start_queues().unwrap();
        m.assert_state(lost, State::Sched);
        m.configure(json!({"queues": {"b": {}}})).unwrap();
        m.start_queue("b").unwrap();
        m.assert_state(lost, State::Run);
    }

    #[test]
    fn a_mistake_leaves_everything_as_it_was() {
        let mut m = with(json!({"queues": {"a": {}}}));
        m.start_queue("a").unwrap();
        let error = m.configure(json!({"queues": {"a": {"parent": "x"}}})).unwrap_err();
        let text = "error parsing [queues.a] config table: parent queue 'x' is not configured";
        assert_eq!(error, text);
        let table = json!({"scheduler": {"queue-policy": "nosuch"}});
        m.configure(json!({"queues": {"a": {"policy": table}}})).unwrap_err();
        assert!(m.queues().unwrap().get("a").unwrap().is_started());
        let id = m.submit(to("a")).unwrap();
        m.assert_state(id, State::Run);
    }

    #[test]
    fn a_waiting_job_follows_its_virtual_queue_to_another_parent() {
        let mut m = with(day_night_debug());
        m.start_queues().unwrap();
        m.submit(job("day", 4, 10.0)).unwrap();
        let waits = m.submit(job("night", 4, 10.0)).unwrap();
        let parent = json!({"parent": "debug"});
        m.configure(json!({"queues": {"day": {}, "night": parent, "debug": {}}})).unwrap();
        m.stop_queue("debug", None).unwrap();
        m.advance(11.0);
        m.assert_state(waits, State::Sched);
        m.start_queue("debug").unwrap();
        m.assert_state(waits, State::Run);
    }
}

mod restart {
    use super::*;

    #[test]
    fn state_and_reasons_outlive_a_crash() {
        let mut m = with(day_night_debug());
        m.start_queue("night").unwrap();
        m.stop_queue("debug", Some("repair")).unwrap();
        m.disable_queue("day", "full").unwrap();
        let waits = m.submit(to("night")).unwrap();
        m.crash_and_restart();
        let queues = m.queues().unwrap();
        let (day, night) = (queues.get("day").unwrap(), queues.get("night").unwrap());
        assert_eq!((day.disable_reason(), day.is_started()), (Some("full"), false));
        assert_eq!(night.blocked_by(), Some("day"));
        assert_eq!(queues.get("debug").unwrap().stop_reason().as_deref(), Some("repair"));
        m.assert_state(waits, State::Sched);
        m.start_queue("day").unwrap();
        m.assert_state(waits, State::Run);
    }

    #[test]
    fn queues_can_be_stopped_at_a_restart() {
        let mut config = day_night_debug();
        config["job-manager"] = json!({"stop-queues-on-restart": true});
        let mut m = with(config);
        m.start_queue("day").unwrap();
        m.stop_queue("debug", Some("repair")).unwrap();
        m.crash_and_restart();
        let reason = |name| m.queues().unwrap().get(name).unwrap().stop_reason();
        assert_eq!(reason("day").as_deref(), Some("Automatically stopped due to restart"));
        assert_eq!(reason("debug").as_deref(), Some("repair"));
    }
}

#[test]
fn jobs_are_counted_by_queue() {
    let mut m = with(day_night_debug());
    m.start_queue("debug").unwrap();
    let waits = m.submit(to("day")).unwrap();
    let over = m.submit(job("debug", 1, 1.0)).unwrap();
    m.advance(2.0);
    m.cancel(waits).unwrap();
    let runs = m.submit(to("debug")).unwrap();
    let expected = |m: &TestManager| {
        let stats = m.job_stats();
        let of = |name: &str, what: &str| {
            let queues = stats["queues"].as_array().unwrap();
            let queue = queues.iter().find(|queue| queue["name"] == name).unwrap();
            queue.pointer(what).unwrap().as_u64().unwrap()
        };
        assert_eq!((of("day", "/canceled"), of("day", "/job_states/total")), (1, 1));
        assert_eq!((of("debug", "/successful"), of("debug", "/job_states/run")), (1, 1));
        assert_eq!(stats["job_states"]["inactive"], 2);
    };
    expected(&m);
    m.crash_and_restart();
    expected(&m);
    m.assert_state(runs, State::Run);
    m.purge(over).unwrap();
    let stats = m.job_stats();
    let queues = stats["queues"].as_array().unwrap();
    let debug = queues.iter().find(|queue| queue["name"] == "debug").unwrap();
    assert_eq!((&debug["inactive_purged"], &debug["successful"]), (&json!(1), &json!(0)));
}

#[test]
fn queues_are_listed_in_the_order_of_the_configuration() {
    let m = with(json!({"queues": {"night": {}, "batch": {}, "debug": {}}}));
    let queues = m.queues().unwrap();
    let names: Vec<_> = queues.iter().filter_map(|queue| queue.name()).collect();
    assert_eq!(names, ["night", "batch", "debug"]);
    let stats = m.job_stats();
    let told: Vec<_> = stats["queues"].as_array().unwrap().iter().map(|q| &q["name"]).collect();
    assert_eq!(told, ["batch", "debug", "night"], "by name, and those without jobs, too");
}
