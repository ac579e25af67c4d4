//! What each of the plugins that come with Slurm does to requests.

use jobtap_builtins::{
    AllPartitions, Defaults, Logging, Partition, PriorityDefault, RequireTimelimit, Throttle,
};
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::slurm::{JobDescriptor, errno};
use jobtap_core::testing::{Refused, TestJob, TestManager};
use serde_json::{Value, json};

/// A manager with one of the plugins, its table, and three queues.
fn manager<P: Plugin>(table: Value) -> TestManager {
    let name = P::DESCRIPTOR.name;
    let config = json!({
        "job-manager": {"plugins": [{"load": name}]},
        "plugins": {(name): table},
        "queues": {"batch": {}, "debug": {}, "long": {}},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "batch"}}}},
    });
    TestManager::new().plugin::<PriorityDefault>().linked::<P>().config(config).start()
}

fn queue(m: &TestManager, id: JobId) -> &str {
    m.job(id).jobspec().queue().unwrap_or_default()
}

fn logged<'m>(m: &'m TestManager, what: &str) -> Vec<&'m str> {
    m.log().map(|(_, text)| text).filter(|text| text.starts_with(what)).collect()
}

#[test]
fn they_are_loaded_only_by_name() {
    let mut m = TestManager::new().plugin::<PriorityDefault>().linked::<RequireTimelimit>().start();
    m.submit(TestJob::new()).unwrap();
    m.load_plugin("require_timelimit", json!({})).unwrap();
    assert!(m.submit(TestJob::new()).is_err());
}

mod all_partitions {
    use super::*;

    fn manager() -> TestManager {
        let config = json!({
            "job-manager": {"plugins": [{"load": "all_partitions"}]},
            "queues": {"batch": {}, "debug": {}, "long": {}},
        });
        let builder = TestManager::new().plugin::<PriorityDefault>();
        builder.linked::<AllPartitions>().config(config).start()
    }

    fn partition(m: &TestManager, id: JobId) -> String {
        let described = JobDescriptor::from_jobspec(m.job(id).jobspec().value());
        described.partition.unwrap_or_default()
    }

    #[test]
    fn a_job_without_a_partition_gets_all_that_accept_jobs() {
        let mut m = manager();
        m.disable_queue("debug", "closed").unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(partition(&m, id), "batch,long");
        assert_eq!(queue(&m, id), "batch");
    }

    #[test]
    fn a_partition_that_was_given_stays() {
        let mut m = manager();
        let id = m.submit(TestJob::new().queue("long")).unwrap();
        assert_eq!(partition(&m, id), "long");
        assert_eq!(queue(&m, id), "long");
    }
}

mod defaults {
    use super::*;

    #[test]
    fn open_fields_get_the_values_of_the_table() {
        let mut m =
            manager::<Defaults>(json!({"time_limit": 90, "partition": "long", "name": "job"}));
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(m.job(id).jobspec().duration(), 5400.0);
        assert_eq!((queue(&m, id), m.job(id).jobspec().name()), ("long", Some("job")));
        let id = m.submit(TestJob::new().duration(60.0).queue("debug").name("mine")).unwrap();
        assert_eq!(m.job(id).jobspec().duration(), 60.0);
        assert_eq!((queue(&m, id), m.job(id).jobspec().name()), ("debug", Some("mine")));
    }

    #[test]
    fn an_empty_table_changes_nothing() {
        let mut m = manager::<Defaults>(json!({}));
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!((queue(&m, id), m.job(id).jobspec().duration()), ("batch", 0.0));
    }

    #[test]
    fn a_table_that_fits_no_field_is_refused() {
        let refusal = |table: Value| {
            let config = json!({
                "job-manager": {"plugins": [{"load": "defaults"}]}, "plugins": {"defaults": table},
            });
            let builder = TestManager::new().linked::<Defaults>().config(config);
            builder.try_start().err().unwrap().text()
        };
        let unknown = refusal(json!({"timelimit": 5}));
        assert!(unknown.contains("did you mean \"time_limit\"?"), "{unknown}");
        let read_only = refusal(json!({"alloc_node": "n0"}));
        assert!(read_only.contains("alloc_node"), "{read_only}");
        let text = refusal(json!({"time_limit": "soon"}));
        assert!(text.contains("time_limit: number expected"), "{text}");
    }
}

mod logging {
    use super::*;

    #[test]
    fn each_submission_and_change_is_a_line() {
        let mut m = manager::<Logging>(json!({}));
        let id =
            m.submit(TestJob::new().user(1001).duration(90.0).queue("long").name("x")).unwrap();
        let line = "logging: job_submit: account=- begin_time=- dependency=- name=x partition=long qos=- \
                    submit_uid=1001 time_limit=2 user_id=1001";
        assert_eq!(logged(&m, "logging: "), [line]);
        m.hold_scheduling().unwrap();
        m.urgency(id, 0).unwrap();
        let change = format!("logging: job_modify: job_id={id} account=- ");
        assert_eq!(logged(&m, &change).len(), 1);
    }
}

mod partition {
    use super::*;

    #[test]
    fn the_open_partition_of_the_highest_tier_is_chosen() {
        let mut m = manager::<Partition>(json!({"priority_tier": {"debug": 5, "batch": 0}}));
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(queue(&m, id), "debug");
        m.disable_queue("debug", "closed").unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(queue(&m, id), "long");
        let id = m.submit(TestJob::new().queue("batch")).unwrap();
        assert_eq!(queue(&m, id), "batch");
    }

    #[test]
    fn the_first_by_name_is_chosen_of_equal_tiers() {
        let mut m = manager::<Partition>(json!({}));
        let id = m.submit(TestJob::new()).unwrap();
        assert_eq!(queue(&m, id), "batch");
    }
}

mod require_timelimit {
    use super::*;

    const DURATION: &str = "attributes.system.duration";

    /// A plugin that allows changes of time limits.
    #[derive(Default)]
    struct Durations;

    #[jobtap_plugin(name = "durations")]
    impl Durations {
        #[on("job.update.attributes.system.duration")]
        fn update() -> Update {
            Update::allow().validated()
        }
    }

    #[test]
    fn a_job_without_a_time_limit_is_refused() {
        let mut m = manager::<RequireTimelimit>(json!({}));
        let refused = m.submit(TestJob::new()).unwrap_err();
        assert_eq!(refused, errno::ESLURM_MISSING_TIME_LIMIT.to_string());
        m.submit(TestJob::new().duration(60.0)).unwrap();
    }

    #[test]
    fn a_time_limit_can_be_changed_but_not_removed() {
        let config = json!({"job-manager": {"plugins": [{"load": "require_timelimit"}]}});
        let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<Durations>();
        let mut m = builder.linked::<RequireTimelimit>().config(config).start();
        let id = m.submit(TestJob::new().duration(60.0).urgency(0)).unwrap();
        m.update(id, DURATION, 120.0).unwrap();
        let refused = m.update(id, DURATION, 0).unwrap_err();
        assert_eq!(refused, errno::ESLURM_INVALID_TIME_LIMIT.to_string());
        assert_eq!(m.job(id).jobspec().duration(), 120.0);
    }
}

mod throttle {
    use super::*;

    fn submit(m: &mut TestManager, user: u32) -> Result<JobId, Refused> {
        m.submit(TestJob::new().user(user))
    }

    #[test]
    fn a_user_waits_after_the_limit_and_gets_a_tenth_every_six_minutes() {
        let mut m = manager::<Throttle>(json!({"jobs_per_user_per_hour": 20}));
        for _ in 0..20 {
            submit(&mut m, 1001).unwrap();
        }
        assert_eq!(submit(&mut m, 1001).unwrap_err(), errno::ESLURM_ACCOUNTING_POLICY.to_string());
        assert_eq!(m.messages(), ["Reached jobs per hour limit"]);
        submit(&mut m, 1002).unwrap();
        m.advance(359.0);
        submit(&mut m, 1001).unwrap_err();
        m.advance(1.0);
        submit(&mut m, 1001).unwrap();
        submit(&mut m, 1001).unwrap();
        submit(&mut m, 1001).unwrap_err();
        m.advance(3600.0);
        for _ in 0..20 {
            submit(&mut m, 1001).unwrap();
        }
        submit(&mut m, 1001).unwrap_err();
    }

    #[test]
    fn a_small_limit_recovers_too() {
        let mut m = manager::<Throttle>(json!({"jobs_per_user_per_hour": 1}));
        submit(&mut m, 1001).unwrap();
        for _ in 0..9 {
            m.advance(360.0);
            submit(&mut m, 1001).unwrap_err();
        }
        m.advance(360.0);
        submit(&mut m, 1001).unwrap();
    }

    #[test]
    fn zero_is_no_limit_and_counts_are_lost_at_a_restart() {
        let mut m = manager::<Throttle>(json!({}));
        for _ in 0..50 {
            submit(&mut m, 1001).unwrap();
        }
        let mut m = manager::<Throttle>(json!({"jobs_per_user_per_hour": 1}));
        submit(&mut m, 1001).unwrap();
        submit(&mut m, 1001).unwrap_err();
        m.crash_and_restart();
        submit(&mut m, 1001).unwrap();
    }
}
