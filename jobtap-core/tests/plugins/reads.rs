//! A callback sees the changes that it has asked for, and changes that are dropped are not visible after it.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};

use crate::common::ByUrgency;

/// Runs `job.state.depend` of a plugin for one job and returns the messages of the plugin.
fn said<P: jobtap_core::plugin::Plugin>(job: TestJob) -> (TestManager, JobId, Vec<String>) {
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<P>().start();
    let id = m.submit(job).unwrap();
    let said = m.log().filter_map(|(_, text)| text.strip_prefix("reads: ").map(str::to_owned));
    let said = said.collect();
    (m, id, said)
}

mod own_calls {
    use super::*;

    const SEEN: EventName = event_name!("site.seen");

    #[derive(Default)]
    struct Reads;

    impl Reads {
        fn show(job: &Job) -> String {
            let dependencies: Vec<&str> = job.dependencies().collect();
            format!(
                "{} {} {} {:?} {} {}",
                job.urgency().value(),
                job.flags().contains(Flags::DEBUG),
                job.event_posted("site.seen"),
                dependencies,
                job.annotations().get("user").is_some_and(|user| user["why"] == "late"),
                job.jobspec().duration(),
            )
        }
    }

    #[jobtap_plugin(name = "reads")]
    impl Reads {
        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            let before = job.jobspec();
            cx.log(Level::Info, Self::show(job));
            cx.urgency(job, Urgency::new(7)?);
            cx.set_flag(job, JobFlag::Debug)?;
            cx.post_event(job, SEEN, ())?;
            let (a, b) = (cx.dependency_add("a")?, cx.dependency_add("b")?);
            cx.memo(job, "why", "late")?;
            cx.jobspec_update(path!("attributes.system.duration"), 60)?;
            cx.log(Level::Info, Self::show(job));
            cx.dependency_remove(a);
            cx.jobspec_update(path!("attributes.system.duration"), 90)?;
            cx.log(Level::Info, Self::show(job));
            cx.dependency_remove(b);
            // A reference taken before the updates shows the old jobspec.
            cx.log(Level::Info, before.duration().to_string());
            Ok(())
        }

        #[on("job.state.priority")]
        fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) {
            cx.log(Level::Info, Self::show(job));
        }
    }

    #[test]
    fn a_callback_reads_what_it_has_asked_for() {
        let (m, id, said) = said::<Reads>(TestJob::new().duration(30.0).debug());
        let expected = [
            "16 true false [] false 30",
            "7 true true [\"a\", \"b\"] true 60",
            "7 true true [\"b\"] true 90",
            "30",
            "7 true true [] true 90",
        ];
        assert_eq!(said, expected, "{:?}", m.events(id));
    }
}

mod a_failed_handler {
    use super::*;

    /// Changes the jobspec, and fails.
    #[derive(Default)]
    struct Reads;

    #[jobtap_plugin(name = "reads")]
    impl Reads {
        #[on("job.state.depend")]
        fn depend(&self, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            cx.jobspec_update(path!("attributes.system.duration"), 60)?;
            Err(HandlerError::new("no"))
        }

        #[on("job.state.priority")]
        fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) {
            cx.log(Level::Info, job.jobspec().duration().to_string());
        }
    }

    #[test]
    fn a_dropped_update_is_not_shown_later() {
        let (_, _, said) = said::<Reads>(TestJob::new().duration(30.0));
        assert_eq!(said.last().unwrap(), "30");
    }
}

mod updates {
    use super::*;

    #[derive(Default)]
    struct Reads;

    #[derive(Deserialize)]
    struct Extend {
        id: JobId,
    }

    #[jobtap_plugin(name = "reads")]
    impl Reads {
        #[on("job.state.depend")]
        fn depend(&self, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            cx.jobspec_update(path!("attributes.user.site"), 5)?;
            let inner = cx.jobspec_update(path!("attributes.user.site.share"), 1);
            cx.log(Level::Info, inner.is_err().to_string());
            Ok(())
        }

        #[service("extend")]
        fn extend(
            &self,
            request: Request<Extend>,
            cx: Cx<'_, Service>,
        ) -> Result<(), ServiceError> {
            let job = cx.active_job(request.id)?.pending();
            let job = job.ok_or_else(|| ServiceError::invalid("too late"))?;
            cx.jobspec_update_of(job, path!("attributes.system.duration"), 7200)?;
            Err(ServiceError::invalid("no"))
        }
    }

    #[test]
    fn an_update_is_checked_with_those_before_it() {
        let (m, id, said) = said::<Reads>(TestJob::new());
        assert_eq!(said, ["true"]);
        assert_eq!(m.job(id).jobspec().attribute("user.site"), Some(&5.into()));
    }

    #[test]
    fn a_service_that_fails_changes_no_jobspec() {
        let (mut m, id, _) = said::<Reads>(TestJob::new().urgency(0).duration(30.0));
        let refused = m.call_service("reads.extend", serde_json::json!({ "id": id }));
        assert!(refused.unwrap_err().text().contains("no"));
        assert_eq!(m.job(id).jobspec().duration(), 30.0);
    }
}

mod dependencies {
    use super::*;

    #[derive(Default)]
    struct Reads;

    #[jobtap_plugin(name = "reads")]
    impl Reads {
        #[on("job.state.depend")]
        fn depend(&self, job: &Job, cx: Cx<'_, JobStateDepend>) -> Result<(), HandlerError> {
            let first = cx.dependency_add("token")?;
            cx.dependency_add("token")?;
            if job.jobspec().attribute("again").is_some() {
                cx.dependency_remove(first);
                let again = cx.dependency_add("token");
                cx.log(Level::Info, again.unwrap_err().to_string());
            }
            Ok(())
        }
    }

    #[test]
    fn a_dependency_that_is_added_twice_is_one() {
        let (m, id, _) = said::<Reads>(TestJob::new());
        let added = m.events(id).iter().filter(|event| **event == "dependency-add").count();
        assert_eq!(added, 1, "{:?}", m.events(id));
        m.assert_state(id, State::Depend);
    }

    #[test]
    fn to_add_a_removed_dependency_again_is_an_error() {
        let (m, id, said) = said::<Reads>(TestJob::new().attribute("again", true));
        let text = format!(
            "job {id} has had the dependency \"token\", which was removed: a description works once per \
             job, so add one of another description"
        );
        assert_eq!(said, [text], "{:?}", m.events(id));
    }
}

mod volatile_data {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[data(volatile)]
    #[derive(Debug, Default, Serialize, Deserialize)]
    struct Seen(u32);

    #[derive(Default)]
    struct Reads;

    #[jobtap_plugin(name = "reads", data = Seen)]
    impl Reads {
        #[on("job.state.run")]
        fn run(&self, seen: Data<'_, Seen>) -> Result<(), HandlerError> {
            Ok(seen.set(&Seen(7))?)
        }

        #[on("job.inactive-remove")]
        fn destroy(
            &self,
            seen: Data<'_, Seen>,
            cx: Cx<'_, JobInactiveRemove>,
        ) -> Result<(), HandlerError> {
            cx.log(Level::Info, seen.get()?.0.to_string());
            Ok(())
        }
    }

    #[test]
    fn volatile_data_of_an_inactive_job_ends_with_the_manager() {
        let config = serde_json::json!({"job-manager": {"inactive-age-limit": "1m"}});
        let start = || {
            TestManager::new()
                .plugin::<ByUrgency>()
                .plugin::<Reads>()
                .config(config.clone())
                .start()
        };
        let job = || TestJob::new().user(7).run_for(1.0);
        let said = |m: &TestManager| -> Vec<String> {
            m.log()
                .filter_map(|(_, text)| text.strip_prefix("reads: ").map(str::to_owned))
                .collect()
        };
        let mut m = start();
        m.submit(job()).unwrap();
        m.advance(1000.0);
        assert_eq!(said(&m), ["7"], "without a restart it is there until the job is purged");
        let mut m = start();
        m.submit(job()).unwrap();
        m.advance(2.0);
        m.crash_and_restart();
        m.advance(1000.0);
        assert_eq!(said(&m), ["0"]);
    }
}

mod resources {
    use super::*;
    use jobtap_core::resource::Children;

    #[derive(Default)]
    struct Reads;

    #[jobtap_plugin(name = "reads")]
    impl Reads {
        #[on("job.state.run")]
        fn run(&self, r: &ResourceSet, cx: Cx<'_, JobStateRun>) {
            cx.log(Level::Info, format!("{} {:?}", r.nnodes(), r.scheduling()));
        }
    }

    #[test]
    fn the_schedulers_part_of_r_is_not_shown() {
        let cores = Children::new(Idset::from(0..=3), Idset::new());
        let mut all = ResourceSet::uniform(0, &"node[0-1]".parse().unwrap(), cores);
        all.set_scheduling(Some(serde_json::json!({"graph": [1, 2, 3]})));
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Reads>().resources(all);
        let mut m = builder.start();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_logged("reads: 1 None");
        m.crash_and_restart();
        assert_eq!(m.job(id).resources().and_then(ResourceSet::scheduling), None);
    }
}
