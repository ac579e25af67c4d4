//! One table of all topics. For each row a plugin is generated whose handler names the topic by its
//! string and takes the context of its type. Each plugin then sees the same jobs, and its handler must
//! have been called exactly when the topic was due, and for no other topic.

use std::collections::BTreeSet;

use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use jobtap_core::topic::{EVENT_TOPICS, TOPICS, TopicInfo};
use serde_json::json;

use crate::common::ByUrgency;

/// Logs the topics for which plugins are called: its handlers see everything that happens to a job, and its name puts
/// it just before the row's plugin.
#[derive(Default)]
struct Reference;

#[jobtap_plugin(name = "every-topic")]
impl Reference {
    /// The plugins of rows subscribe here too, so that both see the same events.
    #[on("job.create")]
    fn create(&self, job: &Job, cx: Cx<'_, JobCreate>) -> Result<(), Reject> {
        cx.log(Level::Info, "job.create");
        cx.subscribe(job).map_err(|error| Reject::new(error.to_string()))
    }

    #[on("job.*")]
    fn any(&self, job: &Job, topic: JobTopic<'_>, cx: Cx<'_, JobAny>) {
        let topic = match topic {
            JobTopic::Create => "job.create".to_owned(),
            JobTopic::Validate => "job.validate".to_owned(),
            JobTopic::Dependency(dependency) => format!("job.dependency.{}", dependency.scheme),
            JobTopic::New => "job.new".to_owned(),
            JobTopic::State(_) => format!("job.state.{}", job.state().long_name().to_lowercase()),
            JobTopic::Event(entry) => format!("job.event.{}", entry.name),
            JobTopic::PriorityGet => "job.priority.get".to_owned(),
            JobTopic::UpdateKey(request) => format!("job.update.{}", request.key),
            JobTopic::Update(_) => "job.update".to_owned(),
            JobTopic::InactiveAdd => "job.inactive-add".to_owned(),
            JobTopic::InactiveRemove => "job.inactive-remove".to_owned(),
            JobTopic::Destroy => "job.destroy".to_owned(),
            _ => panic!("a topic that this test doesn't know"),
        };
        cx.log(Level::Info, topic);
    }
}

/// Supports dependencies and updates and asks for all priorities again, so that these topics are called.
#[derive(Default)]
struct Support;

#[jobtap_plugin(name = "support")]
impl Support {
    #[on("job.dependency.first", "job.dependency.second")]
    fn dependency(&self) {}

    #[on("job.update.attributes.system.duration", "job.update.attributes.system.job.name")]
    fn update(&self) -> Update {
        Update::allow()
    }

    #[service("again")]
    fn again(cx: Cx<'_, Service>) {
        cx.reprioritize_all();
    }
}

/// A row's plugin, and the topics for which its handler is due.
struct Row {
    topic: &'static str,
    type_name: &'static str,
    start: fn() -> TestManager,
    wants_events: bool,
}

macro_rules! table {
    ($( $module:ident: $topic:literal as $type:ident -> $out:ty = $value:expr; )*) => {
        $( table!(@plugin $module $topic $type $out, $value, [Own]); )*
        const ROWS: &[Row] = &[ $( table!(@row $module $topic $type, false), )* ];
    };
    (@events $( $module:ident: $topic:literal as $type:ident; )*) => {
        $( table!(@plugin $module $topic $type (), (), [Subscribes]); )*
        const EVENT_ROWS: &[Row] = &[ $( table!(@row $module $topic $type, true), )* ];
    };
    (@row $module:ident $topic:literal $type:ident, $events:literal) => {
        Row {
            topic: $topic,
            type_name: stringify!($type),
            start: start::<$module::OneTopic>,
            wants_events: $events,
        }
    };
    (@plugin $module:ident $topic:literal $type:ident $out:ty, $value:expr, [Own]) => {
        mod $module {
            use super::*;

            #[derive(Default)]
            pub(super) struct OneTopic;

            #[jobtap_plugin(name = "one-topic")]
            impl OneTopic {
                #[on($topic)]
                fn called(&self, cx: Cx<'_, $type>) -> $out {
                    cx.log(Level::Info, "called");
                    $value
                }
            }
        }
    };
    (@plugin $module:ident $topic:literal $type:ident $out:ty, $value:expr, [Subscribes]) => {
        mod $module {
            use super::*;

            #[derive(Default)]
            pub(super) struct OneTopic;

            #[jobtap_plugin(name = "one-topic")]
            impl OneTopic {
                #[on("job.create")]
                fn create(&self, job: &Job, cx: Cx<'_, JobCreate>) -> Result<(), Reject> {
                    cx.subscribe(job).map_err(|error| Reject::new(error.to_string()))
                }

                #[on($topic)]
                fn called(&self, cx: Cx<'_, $type>) {
                    cx.log(Level::Info, "called");
                }
            }
        }
    };
}

table! {
    slurm_submit: "slurm.job_submit" as SlurmJobSubmit -> () = ();
    slurm_prepare: "slurm.prolog_slurmctld" as SlurmPrologSlurmctld -> () = ();
    slurm_prolog: "slurm.prolog" as SlurmProlog -> () = ();
    slurm_epilog: "slurm.epilog" as SlurmEpilog -> () = ();
    slurm_conclude: "slurm.epilog_slurmctld" as SlurmEpilogSlurmctld -> () = ();
    slurm_modify: "slurm.job_modify" as SlurmJobModify -> () = ();
    conf_update: "conf.update" as ConfUpdate -> () = ();
    create: "job.create" as JobCreate -> () = ();
    validate: "job.validate" as JobValidate -> () = ();
    one_scheme: "job.dependency.first" as JobDependency -> () = ();
    any_scheme: "job.dependency.*" as JobDependency -> () = ();
    new: "job.new" as JobNew -> () = ();
    depend: "job.state.depend" as JobStateDepend -> () = ();
    priority: "job.state.priority" as JobStatePriority -> () = ();
    sched: "job.state.sched" as JobStateSched -> () = ();
    run: "job.state.run" as JobStateRun -> () = ();
    cleanup: "job.state.cleanup" as JobStateCleanup -> () = ();
    inactive: "job.state.inactive" as JobStateInactive -> () = ();
    any_state: "job.state.*" as JobState -> () = ();
    priority_get: "job.priority.get" as JobPriorityGet -> Priority = Priority::UNCHANGED;
    one_key: "job.update.attributes.system.duration" as JobUpdateKey -> Update = Update::allow();
    any_key: "job.update.*" as JobUpdateKey -> Update = Update::allow();
    update: "job.update" as JobUpdate -> () = ();
    inactive_add: "job.inactive-add" as JobInactiveAdd -> () = ();
    destroy: "job.destroy" as JobDestroy -> () = ();
    inactive_remove: "job.inactive-remove" as JobInactiveRemove -> () = ();
    any: "job.*" as JobAny -> () = ();
    plan: "allocation.plan" as AllocationPlan -> Plan = Plan::new();
    query: "plugin.query" as PluginQuery -> QueryData = QueryData::new();
    unload: "unload" as Unload -> () = ();
}

table! {@events
    event_validate: "job.event.validate" as JobEvent;
    event_depend: "job.event.depend" as JobEvent;
    event_priority: "job.event.priority" as JobEvent;
    event_start: "job.event.start" as JobEvent;
    event_release: "job.event.release" as JobEvent;
    event_alloc: "job.event.alloc" as JobEventAlloc;
    event_finish: "job.event.finish" as JobEventFinish;
    event_free: "job.event.free" as JobEventFree;
    event_clean: "job.event.clean" as JobEventClean;
    any_event: "job.event.*" as JobEventAny;
}

fn start<P: Plugin>() -> TestManager {
    // The manager's own host takes jobs here, so that nothing has to be planned for them.
    let config =
        json!({"allocation": [{"engine": "slurm", "cores": 1}], "resource": {"exclude": ""}});
    let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Support>().config(config);
    builder.plugin::<Reference>().plugin::<P>().start()
}

/// Makes every topic happen at least once, some of them for two jobs.
fn live(m: &mut TestManager) {
    let job = TestJob::new().dependency("first:1").dependency("second:2").urgency(0);
    let id = m.submit(job).unwrap();
    m.call_service("support.again", json!({})).unwrap();
    m.update(id, "attributes.system.duration", 60).unwrap();
    m.update(id, "attributes.system.job.name", "renamed").unwrap();
    m.urgency(id, 16).unwrap();
    m.finish(id, 0);
    let canceled = m.submit(TestJob::new()).unwrap();
    m.cancel(canceled).unwrap();
    m.query_plugin("one-topic").unwrap();
    m.purge(id).unwrap();
    // Everything above happens at one time, and is planned for together.
    m.advance(1.0);
    m.remove_plugin("one-topic").unwrap();
}

/// Whether a handler on `wanted` is due when `topic` happens.
fn is_due(wanted: &str, topic: &str) -> bool {
    match wanted.strip_suffix('*') {
        Some(family) => topic.starts_with(family),
        None => topic == wanted,
    }
}

#[test]
fn each_topic_calls_its_handlers_and_no_other() {
    for row in ROWS.iter().chain(EVENT_ROWS) {
        let mut m = (row.start)();
        live(&mut m);
        let about_jobs = row.topic.starts_with("job.");
        let mut expected = Vec::new();
        let mut calls = 0;
        // The topic that the reference has just logged, until the row's plugin has been called for it.
        let mut due = None;
        for (_, text) in m.log() {
            if let Some(topic) = text.strip_prefix("every-topic: ") {
                assert_eq!(due, None, "{}: not called", row.topic);
                let is_event = topic.starts_with("job.event.");
                if is_due(row.topic, topic) && (row.wants_events || !is_event) {
                    due = Some(topic);
                    expected.push(topic);
                }
            } else if text == "one-topic: called" {
                calls += 1;
                assert!(!about_jobs || due.take().is_some(), "{}: called too often", row.topic);
            }
        }
        assert_eq!(due, None, "{}: not called", row.topic);
        let expected = match row.topic {
            _ if about_jobs => expected.len(),
            // Two submissions, two changes of a jobspec and one of an urgency.
            "slurm.job_submit" => 2,
            "slurm.job_modify" => 3,
            // Two jobs get resources, on the one node.
            "slurm.prolog" | "slurm.epilog" => 2,
            "slurm.prolog_slurmctld" | "slurm.epilog_slurmctld" => 2,
            _ => 1,
        };
        assert!(expected > 0, "{} never happens in this test", row.topic);
        assert_eq!(calls, expected, "{}", row.topic);
    }
}

#[test]
fn the_table_has_every_topic_under_its_own_string() {
    let known = |topics: &'static [TopicInfo]| topics.iter().map(|t| (t.type_name, t.name));
    let mut rows: BTreeSet<(&str, &str)> = BTreeSet::new();
    for row in ROWS.iter().chain(EVENT_ROWS) {
        // A member of a family stands for the family.
        let family = match row.type_name {
            "JobDependency" => "job.dependency.*",
            "JobUpdateKey" => "job.update.*",
            "JobEvent" => "job.event.*",
            _ => row.topic,
        };
        rows.insert((row.type_name, family));
    }
    let all: BTreeSet<(&str, &str)> = known(TOPICS).chain(known(EVENT_TOPICS)).collect();
    assert_eq!(rows, all);
}
