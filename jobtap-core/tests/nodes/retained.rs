//! Resources that a plugin retains after its job is inactive, and plugins that a table of the
//! configuration loads.

use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

use crate::common::ByUrgency;
use crate::keeper::{self, Keeper};

/// A second plugin that retains what every job frees. Its service frees everything at once.
#[derive(Default)]
struct Other {
    retained: Vec<Retained>,
}

#[jobtap_plugin(name = "other")]
impl Other {
    #[on("job.new")]
    fn watch(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    #[on("job.event.free")]
    fn freed(&mut self, cx: Cx<'_, JobEventFree>) -> Result<(), HandlerError> {
        self.retained.push(cx.retain_resources()?);
        Ok(())
    }

    #[service("free")]
    fn free_ranks(&mut self) {
        self.retained.clear();
    }
}

/// Returns a manager with three nodes of two cores, to be started.
fn cluster() -> TestManagerBuilder {
    let node = Children::new(Idset::from(0..=1), Idset::new());
    let nodes = ResourceSet::uniform(0, &"n[0-2]".parse().unwrap(), node);
    TestManager::new().plugin::<ByUrgency>().plugin::<Keeper>().resources(nodes)
}

/// Returns a job of whole nodes that are retained until a request frees them.
fn job(nodes: u64) -> TestJob {
    TestJob::new().nodes(nodes).ntasks(nodes).exclusive().attribute("h.free", 3)
}

fn hosts(m: &TestManager, id: JobId) -> String {
    m.job(id).resources().map(|r| r.nodelist().to_string()).unwrap_or_default()
}

fn free_ranks(m: &mut TestManager, ranks: &str) {
    m.call_service("keeper.free", json!(ranks)).unwrap();
}

/// Starts a manager in which a job of all nodes is inactive, and its nodes are retained.
fn retained() -> (TestManager, JobId) {
    let mut m = cluster().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    m.assert_state(first, State::Inactive);
    assert_eq!(keeper::retained().len(), 1);
    (m, first)
}

#[test]
fn a_job_is_inactive_while_others_wait_for_its_resources() {
    let (mut m, first) = retained();
    let next = m.submit(job(1)).unwrap();
    m.assert_state(next, State::Sched);
    let text = format!("its resources are held by plugin keeper since the end of {first}");
    assert_eq!(m.why(next), [text]);
    assert_eq!(m.resource_status()["housekeeping"], "0-2");
    free_ranks(&mut m, "1-2");
    assert_eq!(m.resource_status()["housekeeping"], "0");
    assert_eq!(hosts(&m, next), "n1");
    let more = m.submit(job(2)).unwrap();
    m.assert_state(more, State::Sched);
    free_ranks(&mut m, "0");
    assert_eq!(hosts(&m, more), "n[0,2]");
}

#[test]
fn retained_nodes_are_reserved_for_the_first_pending_job() {
    let (mut m, _) = retained();
    free_ranks(&mut m, "2");
    let first = m.submit(job(3)).unwrap();
    let long = m.submit(job(1).duration(3600.0)).unwrap();
    m.assert_state(long, State::Sched);
    free_ranks(&mut m, "0-1");
    m.assert_state(first, State::Run);
}

#[test]
fn ranks_are_free_when_all_plugins_have_freed_them() {
    let mut m = cluster().plugin::<Other>().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    let next = m.submit(job(3)).unwrap();
    free_ranks(&mut m, "0-2");
    m.assert_state(next, State::Sched);
    m.call_service("other.free", json!({})).unwrap();
    m.assert_state(next, State::Run);
}

#[test]
fn two_plugins_retain_their_parts_across_a_restart() {
    let mut m = cluster().plugin::<Other>().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    free_ranks(&mut m, "1-2");
    m.crash_and_restart();
    let (next, more) = (m.submit(job(2)).unwrap(), m.submit(job(1)).unwrap());
    m.assert_state(next, State::Sched);
    // Now only the first plugin retains its part, rank 0.
    m.call_service("other.free", json!({})).unwrap();
    assert_eq!(hosts(&m, next), "n[1-2]");
    m.assert_state(more, State::Sched);
    free_ranks(&mut m, "0-2");
    assert_eq!(hosts(&m, more), "n0");
}

#[test]
fn only_remaining_resources_are_retained() {
    let mut m = cluster().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    let node = Children::new(Idset::from(0..=1), Idset::new());
    m.set_resources(ResourceSet::uniform(0, &"n[0-1]".parse().unwrap(), node));
    m.crash_and_restart();
    let next = m.submit(job(2)).unwrap();
    m.assert_state(next, State::Sched);
    free_ranks(&mut m, "0-2");
    assert_eq!(hosts(&m, next), "n[0-1]");
}

#[test]
fn resources_of_a_removed_plugin_are_freed() {
    for reason in ["removed", "reloaded", "faulted"] {
        let (mut m, _) = retained();
        let next = m.submit(job(3)).unwrap();
        m.assert_state(next, State::Sched);
        match reason {
            "removed" => m.remove_plugin("keeper").unwrap(),
            "reloaded" => m.reload_plugin("keeper", json!({})).unwrap(),
            _ => (0..3).for_each(|_| drop(m.call_service("keeper.panic", json!({})))),
        }
        m.assert_state(next, State::Run);
    }
}

/// A plugin of the same name that retains nothing.
#[derive(Default)]
struct Forgetful;

#[jobtap_plugin(name = "keeper")]
impl Forgetful {}

#[test]
fn resources_stay_retained_if_the_plugin_retains_them_again() {
    let (mut m, _) = retained();
    free_ranks(&mut m, "2");
    m.crash_and_restart();
    let (small, big) = (m.submit(job(1)).unwrap(), m.submit(job(2)).unwrap());
    assert_eq!(hosts(&m, small), "n2");
    m.assert_state(big, State::Sched);
    free_ranks(&mut m, "0-1");
    m.assert_state(big, State::Run);
    m.crash_and_restart();
    m.assert_state(big, State::Run);
}

#[test]
fn a_restart_without_the_plugin_frees_its_resources() {
    let replaced: [fn(&mut TestManager); 2] =
        [|m| m.replace_plugin::<Keeper, Forgetful>(), |m| m.replace_plugin::<Keeper, Other>()];
    for replace in replaced {
        let (mut m, _) = retained();
        replace(&mut m);
        m.crash_and_restart();
        let next = m.submit(job(3)).unwrap();
        m.assert_state(next, State::Run);
        m.crash_and_restart();
        m.assert_state(next, State::Run);
    }
}

/// Loaded when the configuration has a table for it.
#[derive(Default)]
struct Scrub;

#[jobtap_plugin(name = "scrub", load = "configured")]
impl Scrub {
    #[on("conf.update")]
    fn configured(&self, conf: InstanceConf<Value>) -> Result<(), ConfError> {
        match conf.pointer("/job-manager/scrub/depth") {
            Some(Value::Number(_)) | None => Ok(()),
            Some(_) => Err(ConfError::new("depth must be a number")),
        }
    }
}

fn loaded(m: &mut TestManager) -> bool {
    m.query_plugin("scrub").is_ok()
}

fn manager(config: Value) -> TestManager {
    TestManager::new().plugin::<ByUrgency>().linked::<Scrub>().config(config).start()
}

#[test]
fn a_table_loads_its_plugin() {
    assert!(!loaded(&mut manager(json!({"job-manager": {}}))));
    assert!(loaded(&mut manager(json!({"job-manager": {"scrub": {}}}))));
    assert!(loaded(&mut manager(json!({"plugins": {"scrub": {}}}))));
    let removed = json!({"job-manager": {"scrub": {}, "plugins": [{"remove": "scrub"}]}});
    assert!(!loaded(&mut manager(removed)));
}

#[test]
fn a_table_that_is_added_loads_its_plugin() {
    let mut m = manager(json!({}));
    let refused =
        m.configure(json!({"job-manager": {"scrub": {"depth": "x"}}})).unwrap_err().text();
    assert!(refused.contains("depth must be a number"), "{refused}");
    assert!(!loaded(&mut m));
    let config = json!({"job-manager": {"scrub": {"depth": 1}}});
    m.configure(config.clone()).unwrap();
    assert!(loaded(&mut m));
    // A removal by an administrator lasts until the table changes again.
    m.remove_plugin("scrub").unwrap();
    m.configure(config.clone()).unwrap();
    assert!(!loaded(&mut m));
    m.configure(json!({})).unwrap();
    m.configure(config).unwrap();
    assert!(loaded(&mut m));
}
