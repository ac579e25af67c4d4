//! When each topic is called, in which order, and what its outcome does.

use jobtap_core::engine::ExecEvent;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;
use crate::managers::with;

/// The words that a plugin wrote to the log, without its name.
fn words(m: &TestManager, plugin: &str) -> String {
    let prefix = format!("{plugin}: ");
    let own = m.log().filter_map(|(_, text)| text.strip_prefix(&prefix));
    own.collect::<Vec<_>>().join(" ")
}

mod wildcard {
    use super::*;

    #[derive(Default)]
    struct Recorder;

    #[jobtap_plugin(name = "recorder")]
    impl Recorder {
        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            cx.log(Level::Info, "NEW");
            Ok(cx.subscribe(job)?)
        }

        #[on("job.*")]
        fn any(&self, job: &Job, topic: JobTopic<'_>, cx: Cx<'_, JobAny>) {
            let word = match topic {
                JobTopic::Create => "create".to_owned(),
                JobTopic::Validate => "validate".to_owned(),
                JobTopic::Dependency(dependency) => format!("dependency.{}", dependency.scheme),
                JobTopic::New => "new".to_owned(),
                JobTopic::State(_) => format!("state.{}", job.state().long_name().to_lowercase()),
                JobTopic::Event(entry) => format!("ev.{}", entry.name),
                JobTopic::PriorityGet => "priority.get".to_owned(),
                JobTopic::UpdateKey(request) => format!("update.{}", request.key),
                JobTopic::Update(updates) => format!("update({})", updates.iter().count()),
                JobTopic::InactiveAdd => "inactive-add".to_owned(),
                JobTopic::InactiveRemove => "inactive-remove".to_owned(),
                JobTopic::Destroy => "destroy".to_owned(),
                _ => "unknown".to_owned(),
            };
            cx.log(Level::Info, word);
        }
    }

    #[test]
    fn a_job_passes_its_topics_in_fluxs_order() {
        let mut m = with::<Recorder>();
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        assert_eq!(
            words(&m, "recorder"),
            "create validate NEW ev.validate state.depend ev.depend state.priority ev.priority \
             state.sched ev.annotations ev.alloc state.run ev.start ev.finish state.cleanup \
             ev.release ev.free ev.clean state.inactive inactive-add destroy"
        );
        m.purge(id).unwrap();
        assert!(words(&m, "recorder").ends_with("destroy inactive-remove"));
        assert_eq!(m.job_stats()["inactive_purged"], 1);
    }

    #[test]
    fn what_only_watches_makes_no_scheme_and_no_key_supported() {
        let mut m = with::<Recorder>();
        let refused = m.submit(TestJob::new().dependency("license:matlab")).unwrap_err();
        assert_eq!(refused, "dependency scheme \"license\" not supported");
        let id = m.submit(TestJob::new().urgency(0)).unwrap();
        let refused = m.update(id, "attributes.system.duration", 5).unwrap_err();
        assert_eq!(refused, "update of attributes.system.duration not supported");
    }

    #[test]
    fn a_rejected_job_is_created_and_destroyed() {
        let mut m = with::<Recorder>();
        m.submit(TestJob::new().dependency("license:matlab")).unwrap_err();
        assert_eq!(words(&m, "recorder"), "create validate dependency.license destroy");
    }

    #[test]
    fn jobs_are_introduced_after_a_restart() {
        let mut m = with::<Recorder>();
        let over = m.submit(TestJob::new()).unwrap();
        m.finish(over, 0);
        m.submit(TestJob::new()).unwrap();
        let before = words(&m, "recorder").len();
        m.crash_and_restart();
        assert_eq!(words(&m, "recorder")[before..].trim(), "inactive-add destroy create NEW");
    }
}

mod over_before_the_restart {
    use super::*;

    #[derive(Default)]
    struct Adds;

    #[jobtap_plugin(name = "adds")]
    impl Adds {
        #[on("job.inactive-add")]
        fn add(&self, cx: Cx<'_, JobInactiveAdd>) {
            cx.log(Level::Info, "added");
        }
    }

    #[derive(Default)]
    struct Destroys;

    #[jobtap_plugin(name = "destroys")]
    impl Destroys {
        #[on("job.destroy")]
        fn destroy(&self, cx: Cx<'_, JobDestroy>) {
            cx.log(Level::Info, "destroyed");
        }
    }

    /// How often a line is in the log: after the job's end, and after a restart.
    fn lines<P: Plugin>(line: &str) -> [usize; 2] {
        let mut m = with::<P>();
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, 0);
        let count = |m: &TestManager| m.log().filter(|(_, text)| *text == line).count();
        let before = count(&m);
        m.crash_and_restart();
        [before, count(&m)]
    }

    #[derive(Default)]
    struct Ids;

    #[jobtap_plugin(name = "ids")]
    impl Ids {
        #[on("job.inactive-add")]
        fn add(&self, job: &Job, cx: Cx<'_, JobInactiveAdd>) {
            cx.log(Level::Info, format!("over {}", job.id()));
        }

        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) {
            cx.log(Level::Info, format!("active {}", job.id()));
        }
    }

    /// A plugin that counts a user's jobs must know the inactive ones when it is called for a pending one.
    #[test]
    fn the_jobs_that_are_over_come_before_the_active_ones_in_the_order_of_their_ids() {
        let mut m = with::<Ids>();
        let [waits, first, second] = [0; 3].map(|_| m.submit(TestJob::new()).unwrap());
        m.finish(second, 0);
        m.finish(first, 0);
        let before = m.log().count();
        m.crash_and_restart();
        let lines: Vec<String> = m
            .log()
            .skip(before)
            .filter_map(|(_, text)| text.strip_prefix("ids: "))
            .map(str::to_owned)
            .collect();
        assert_eq!(
            lines,
            [format!("over {first}"), format!("over {second}"), format!("active {waits}")]
        );
    }

    /// At a restart, ends the active jobs before it is introduced to them.
    #[derive(Default)]
    struct Ends {
        is_introduced: bool,
    }

    #[jobtap_plugin(name = "ends")]
    impl Ends {
        #[on("job.new")]
        fn new_job(&mut self) {
            self.is_introduced = true;
        }

        #[on("job.inactive-add")]
        fn add(&self, cx: Cx<'_, JobInactiveAdd>) {
            if !self.is_introduced {
                for active in cx.active_jobs().filter_map(|job| cx.active_job(job.id()).ok()) {
                    cx.fail_job(active, "limit", "too many jobs");
                }
            }
        }
    }

    /// The tasks of such a job may still run, so its nodes must not be allocated to another job.
    #[test]
    fn an_active_job_that_is_ended_then_is_taken_up_again_before_that() {
        let mut m = with::<Ends>();
        let [runs, over] = [0; 2].map(|_| m.submit(TestJob::new()).unwrap());
        m.finish(over, 0);
        let before = m.events(runs).len();
        m.crash_and_restart();
        let later = m.events(runs).split_off(before);
        assert_eq!(later.join(" "), "exception finish release free clean");
    }

    #[test]
    fn a_plugin_sees_a_job_that_is_over_at_the_one_topic_that_it_has() {
        assert_eq!(lines::<Adds>("adds: added"), [1, 2]);
        assert_eq!(lines::<Destroys>("destroys: destroyed"), [1, 2]);
    }
}

mod configured_before_the_jobs {
    use super::*;

    /// Asks for new priorities when it gets its configuration.
    #[derive(Default)]
    struct Asks;

    #[jobtap_plugin(name = "asks")]
    impl Asks {
        #[on("conf.update")]
        fn update(&self, cx: Cx<'_, ConfUpdate>) {
            cx.reprioritize_all();
        }

        #[on("job.new")]
        fn new_job(&self, cx: Cx<'_, JobNew>) {
            cx.log(Level::Info, "new");
        }

        #[on("job.priority.get")]
        fn priority(&self, cx: Cx<'_, JobPriorityGet>) -> Priority {
            cx.log(Level::Info, "asked");
            Priority::new(5)
        }
    }

    #[test]
    fn what_a_plugin_asks_for_with_its_configuration_waits_for_the_jobs() {
        let mut m = with::<Asks>();
        m.hold_scheduling().unwrap();
        m.submit(TestJob::new()).unwrap();
        m.submit(TestJob::new()).unwrap();
        let before = words(&m, "asks").len();
        m.crash_and_restart();
        assert_eq!(words(&m, "asks")[before..].trim(), "new new asked asked");
    }
}

mod state_wildcard {
    use super::*;

    #[derive(Default)]
    struct States;

    #[jobtap_plugin(name = "states")]
    impl States {
        #[on("job.state.run")]
        fn run(&self, cx: Cx<'_, JobStateRun>) {
            cx.log(Level::Info, "run-of-its-own");
        }

        #[on("job.state.*")]
        fn any(
            &self,
            job: &Job,
            prev: PrevState,
            entry: Option<&EventEntry>,
            cx: Cx<'_, JobState>,
        ) {
            let from = prev.0.map_or("-", |state| state.long_name());
            let event = entry.map_or("-", |entry| &entry.name);
            cx.log(Level::Info, format!("{from}-{event}-{}", job.state().long_name()));
        }
    }

    #[test]
    fn the_specific_handler_beats_the_wildcard() {
        let mut m = with::<States>();
        m.submit(TestJob::new()).unwrap();
        assert_eq!(
            words(&m, "states"),
            "NEW-validate-DEPEND DEPEND-depend-PRIORITY PRIORITY-priority-SCHED run-of-its-own"
        );
    }
}

mod forced_resources {
    use super::*;

    #[derive(Default)]
    struct Bypass;

    #[jobtap_plugin(name = "bypass")]
    impl Bypass {
        #[on("job.state.sched")]
        fn sched(&self, spec: &Jobspec) -> Result<Option<ResourceSet>, HandlerError> {
            let given = spec.attribute("given-R").map(|r| r.to_string().parse());
            Ok(given.transpose()?)
        }
    }

    fn r() -> serde_json::Value {
        json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0", "children": {"core": "0-63"}}],
            "nodelist": ["elsewhere"], "starttime": 0, "expiration": 0}})
    }

    #[test]
    fn resources_from_a_plugin_go_past_the_scheduler() {
        let mut m = with::<Bypass>();
        let free = m.free_resources().unwrap().clone();
        let id = m.submit(TestJob::new().attribute("given-R", r())).unwrap();
        m.assert_events(id, "submit validate depend priority set-flags alloc start");
        assert_eq!(m.eventlog(id)[5].context.clone().unwrap()["bypass"], true);
        assert_eq!(m.job(id).resources().unwrap().ncores(), 64);
        assert_eq!(m.free_resources(), Some(&free));
        m.crash_and_restart();
        m.finish(id, 0);
        m.assert_state(id, State::Inactive);
        assert_eq!(m.free_resources(), Some(&free));
    }

    #[test]
    fn what_such_a_job_gives_back_early_is_not_given_to_others() {
        let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Bypass>();
        let mut m = builder.hosts(2).cores(4).start();
        let owner = m.submit(TestJob::new().nodes(1).exclusive()).unwrap();
        let rank = m.job(owner).resources().unwrap().ranks();
        let free = m.free_resources().unwrap().clone();
        // The plugin gives a second job both nodes, one of which the first job holds exclusively.
        let both = json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-1", "children": {"core": "0-3"}}],
            "nodelist": ["testhost[0-1]"], "starttime": 0, "expiration": 0}});
        m.hold_execution();
        let id = m.submit(TestJob::new().attribute("given-R", both)).unwrap();
        m.started(id);
        m.report(ExecEvent::PartlyReleased { id, ranks: rank });
        assert!(m.job(id).event_posted("release"));
        assert_eq!(m.free_resources(), Some(&free));
        let waits = m.submit(TestJob::new().nodes(2).exclusive()).unwrap();
        m.assert_state(waits, State::Sched);
    }

    #[test]
    fn a_job_without_them_is_scheduled_as_ever() {
        let mut m = with::<Bypass>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit validate depend priority alloc start");
    }
}

mod calls {
    use super::*;

    const SEEN: EventName = event_name!("site.seen");

    #[derive(Default)]
    struct Caller;

    #[jobtap_plugin(name = "caller")]
    impl Caller {
        #[on("job.state.run")]
        fn run(&self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
            cx.set_flag(job, JobFlag::Debug)?;
            cx.post_event(job, SEEN, json!({"by": "caller"}))?;
            let refused = cx.post_event(job, SEEN, 7).unwrap_err();
            cx.log(Level::Info, refused.to_string());
            Ok(())
        }

        #[on("job.state.inactive")]
        fn over(&self, job: &Job, cx: Cx<'_, JobStateInactive>) {
            let refused = cx.active_job(job.id()).map(drop).unwrap_err();
            cx.log(Level::Info, refused.to_string());
        }

        /// Adds a memo, which outlives the manager, and a prolog at the event.
        #[on("job.event.alloc")]
        fn allocated(&self, job: &Job, cx: Cx<'_, JobEventAlloc>) -> Result<(), HandlerError> {
            cx.memo(job, "site", "seen")?;
            cx.prolog_start("at the event")?.finish(0);
            Ok(())
        }

        #[on("job.event.finish")]
        fn finished(cx: Cx<'_, JobEventFinish>) -> Result<(), HandlerError> {
            cx.epilog_start("at the event")?.finish(0);
            Ok(())
        }

        #[on("job.new")]
        fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
            match job.jobspec().name() {
                Some("watched") => Ok(cx.subscribe(job)?),
                _ => Ok(()),
            }
        }

        /// Shortens the time limit of the pending job that this job names.
        #[on("job.state.cleanup")]
        fn shorten(&self, job: &Job, cx: Cx<'_, JobStateCleanup>) -> Result<(), HandlerError> {
            let Some(other) = job.jobspec().attribute("shorten") else { return Ok(()) };
            let other = cx.active_job(other.as_str().unwrap_or_default().parse()?)?;
            let Some(other) = other.pending() else { return Ok(()) };
            Ok(cx.jobspec_update_of(other, path!("attributes.system.duration"), 60.0)?)
        }
    }

    #[test]
    fn flags_and_own_events_are_in_the_log() {
        let mut m = with::<Caller>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit validate depend priority alloc set-flags site.seen start");
        assert!(m.job(id).event_posted("site.seen"));
        m.finish(id, 0);
        let said = words(&m, "caller");
        assert!(said.contains("the context must be an object or null"), "{said}");
        assert!(said.contains("is inactive or not accepted yet"), "{said}");
    }

    #[test]
    fn prologs_and_epilogs_can_begin_at_the_event_and_notes_stay() {
        let mut m = with::<Caller>();
        let id = m.submit(TestJob::new().name("watched")).unwrap();
        m.finish(id, 0);
        m.assert_events(
            id,
            "submit validate depend priority alloc memo prolog-start set-flags site.seen \
             prolog-finish debug.start-request start finish epilog-start epilog-finish release \
             free clean",
        );
        m.crash_and_restart();
        assert_eq!(m.job(id).annotations()["user"]["site"], "seen");
    }

    #[test]
    fn another_jobs_jobspec_can_be_changed_until_it_is_allocated() {
        let mut m = with::<Caller>();
        let waits = m.submit(TestJob::new().urgency(0)).unwrap();
        let first = m.submit(TestJob::new().attribute("shorten", waits.to_string())).unwrap();
        m.finish(first, 0);
        assert_eq!(m.job(waits).jobspec().duration(), 60.0);
        m.assert_events(waits, "submit validate depend priority jobspec-update priority");
    }
}

mod holding {
    use super::*;

    /// Holds every job, as Flux's submit-hold does.
    #[derive(Default)]
    struct Hold;

    #[jobtap_plugin(name = "hold")]
    impl Hold {
        #[on("job.state.depend")]
        fn hold(&self, job: &Job, cx: Cx<'_, JobStateDepend>) {
            cx.urgency(job, Urgency::HOLD);
        }
    }

    #[test]
    fn a_plugin_sets_the_urgency_of_a_job_that_waits() {
        let mut m = with::<Hold>();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, "submit validate urgency depend priority");
        m.assert_priority(id, 0);
        m.urgency(id, 16).unwrap();
        m.assert_state(id, State::Run);
    }
}

mod load_order {
    use super::*;

    #[derive(Default)]
    struct Late;

    #[jobtap_plugin(name = "late", load = "by-name", load_order = "-state")]
    impl Late {
        #[on("job.create", "job.new")]
        fn seen(&self, job: &Job, cx: Cx<'_, (JobCreate, JobNew)>) {
            cx.log(Level::Info, job.state().long_name());
        }

        #[on("unload")]
        fn unload(&self, cx: Cx<'_, Unload>) {
            cx.log(Level::Info, "goodbye");
        }
    }

    #[test]
    fn a_plugin_loaded_later_sees_the_jobs_in_its_order_and_is_told_that_it_goes() {
        let mut m = TestManager::new().plugin::<ByUrgency>().linked::<Late>().start();
        m.submit(TestJob::new().urgency(0)).unwrap();
        m.submit(TestJob::new()).unwrap();
        m.load_plugin("late", json!({})).unwrap();
        assert_eq!(words(&m, "late"), "RUN RUN SCHED SCHED");
        m.remove_plugin("late").unwrap();
        assert!(words(&m, "late").ends_with("goodbye"));
    }
}

mod query {
    use super::*;

    #[derive(Default)]
    struct Counter {
        jobs: u64,
    }

    #[jobtap_plugin(name = "counter")]
    impl Counter {
        #[on("job.new")]
        fn new_job(&mut self) {
            self.jobs += 1;
        }

        #[on("plugin.query")]
        fn query(&self) -> Result<QueryData, HandlerError> {
            if self.jobs > 1 {
                return Err(HandlerError::new("lost count"));
            }
            Ok(QueryData::new().with("jobs", self.jobs))
        }
    }

    #[test]
    fn a_query_is_answered_with_what_the_plugin_tells() {
        let mut m = with::<Counter>();
        m.submit(TestJob::new()).unwrap();
        let told = m.query_plugin("counter").unwrap();
        assert_eq!(told["name"], "counter");
        let package = concat!(env!("CARGO_PKG_NAME"), " ", env!("CARGO_PKG_VERSION"));
        assert_eq!(told["path"], package);
        assert_eq!(told["jobs"], 1);
        m.submit(TestJob::new()).unwrap();
        let refused = m.query_plugin("counter").unwrap_err();
        assert_eq!(refused, "plugin.query failed: lost count");
        assert_eq!(m.query_plugin("nobody").unwrap_err(), "nobody: plugin not found");
        // For a plugin without a handler, only its name and its package are returned.
        assert_eq!(m.query_plugin("by-urgency").unwrap().as_object().unwrap().len(), 2);
    }
}
