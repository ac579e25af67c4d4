//! Resources that a plugin keeps after the end of their job, and plugins that a table loads.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use common::ByUrgency;
use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

/// Keeps what every job frees, until somebody says which ranks to give back.
#[derive(Default)]
struct Keeper {
    kept: Vec<Retained>,
}

#[jobtap_plugin(name = "keeper")]
impl Keeper {
    #[on("job.new")]
    fn watch(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    #[on("job.event.free")]
    fn freed(&mut self, cx: Cx<'_, JobEventFree>) -> Result<(), HandlerError> {
        self.kept.push(cx.retain_resources()?);
        Ok(())
    }

    #[service("give-back")]
    fn give_back(&mut self, ranks: Request<Idset>) {
        for kept in &mut self.kept {
            kept.free(&ranks);
        }
        self.kept.retain(|kept| kept.resources().nnodes() > 0);
    }

    #[service("panic")]
    fn panics(&self) {
        panic!("as asked");
    }
}

/// Another one, which gives all back at once.
#[derive(Default)]
struct Other {
    kept: Vec<Retained>,
}

#[jobtap_plugin(name = "other")]
impl Other {
    #[on("job.new")]
    fn watch(&self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        Ok(cx.subscribe(job)?)
    }

    #[on("job.event.free")]
    fn freed(&mut self, cx: Cx<'_, JobEventFree>) -> Result<(), HandlerError> {
        self.kept.push(cx.retain_resources()?);
        Ok(())
    }

    #[service("give-back")]
    fn give_back(&mut self) {
        self.kept.clear();
    }
}

/// Three nodes of two cores.
fn cluster() -> TestManagerBuilder {
    let node = Children::new(Idset::from(0..=1), Idset::new());
    let nodes = ResourceSet::uniform(0, &"n[0-2]".parse().unwrap(), node);
    TestManager::new().plugin::<ByUrgency>().plugin::<Keeper>().resources(nodes)
}

fn job(nodes: u64) -> TestJob {
    TestJob::new().nodes(nodes).ntasks(nodes).exclusive()
}

fn hosts(m: &TestManager, id: JobId) -> String {
    m.job(id).resources().map(|r| r.nodelist().to_string()).unwrap_or_default()
}

fn give_back(m: &mut TestManager, ranks: &str) {
    m.call_service("keeper.give-back", json!(ranks)).unwrap();
}

/// A manager in which a job of all nodes is over, and they are kept.
fn kept() -> (TestManager, JobId) {
    let mut m = cluster().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    m.assert_state(first, State::Inactive);
    (m, first)
}

#[test]
fn a_job_is_over_while_others_wait_for_what_it_had() {
    let (mut m, first) = kept();
    let next = m.submit(job(1)).unwrap();
    m.assert_state(next, State::Sched);
    let text = format!("its resources are held by plugin keeper since the end of {first}");
    assert_eq!(m.why(next), [text]);
    assert_eq!(m.resource_status()["housekeeping"], "0-2");
    give_back(&mut m, "1-2");
    assert_eq!(m.resource_status()["housekeeping"], "0");
    assert_eq!(hosts(&m, next), "n1");
    let more = m.submit(job(2)).unwrap();
    m.assert_state(more, State::Sched);
    give_back(&mut m, "0");
    assert_eq!(hosts(&m, more), "n[0,2]");
}

#[test]
fn what_is_kept_is_reserved_for_the_first_that_waits_for_it() {
    let (mut m, _) = kept();
    give_back(&mut m, "2");
    let first = m.submit(job(3)).unwrap();
    let long = m.submit(job(1).duration(3600.0)).unwrap();
    m.assert_state(long, State::Sched);
    give_back(&mut m, "0-1");
    m.assert_state(first, State::Run);
}

#[test]
fn ranks_come_back_when_all_who_keep_them_have_given_them_back() {
    let mut m = cluster().plugin::<Other>().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    let next = m.submit(job(3)).unwrap();
    give_back(&mut m, "0-2");
    m.assert_state(next, State::Sched);
    m.call_service("other.give-back", json!({})).unwrap();
    m.assert_state(next, State::Run);
}

#[test]
fn two_who_keep_different_parts_have_them_after_a_restart() {
    let mut m = cluster().plugin::<Other>().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    give_back(&mut m, "1-2");
    m.crash_and_restart();
    let (next, more) = (m.submit(job(2)).unwrap(), m.submit(job(1)).unwrap());
    m.assert_state(next, State::Sched);
    // Now only the first one keeps something, which is its part and no more.
    m.call_service("other.give-back", json!({})).unwrap();
    assert_eq!(hosts(&m, next), "n[1-2]");
    m.assert_state(more, State::Sched);
    give_back(&mut m, "0-2");
    assert_eq!(hosts(&m, more), "n0");
}

#[test]
fn what_is_left_of_the_resources_is_kept() {
    let mut m = cluster().start();
    let first = m.submit(job(3)).unwrap();
    m.finish(first, 0);
    let node = Children::new(Idset::from(0..=1), Idset::new());
    m.set_resources(ResourceSet::uniform(0, &"n[0-1]".parse().unwrap(), node));
    m.crash_and_restart();
    let next = m.submit(job(2)).unwrap();
    m.assert_state(next, State::Sched);
    give_back(&mut m, "0-2");
    assert_eq!(hosts(&m, next), "n[0-1]");
}

#[test]
fn nothing_stays_kept_for_a_plugin_that_is_gone() {
    for gone in ["removed", "reloaded", "faulted"] {
        let (mut m, _) = kept();
        let next = m.submit(job(3)).unwrap();
        m.assert_state(next, State::Sched);
        match gone {
            "removed" => m.remove_plugin("keeper").unwrap(),
            "reloaded" => m.reload_plugin("keeper", json!({})).unwrap(),
            _ => (0..3).for_each(|_| drop(m.call_service("keeper.panic", json!({})))),
        }
        m.assert_state(next, State::Run);
    }
}

/// What takes its place does not know that it kept something.
#[derive(Default)]
struct Forgetful;

#[jobtap_plugin(name = "keeper")]
impl Forgetful {}

#[test]
fn what_was_kept_before_a_restart_is_kept_on_if_the_plugin_says_so_again() {
    let (mut m, _) = kept();
    give_back(&mut m, "2");
    m.crash_and_restart();
    let (small, big) = (m.submit(job(1)).unwrap(), m.submit(job(2)).unwrap());
    assert_eq!(hosts(&m, small), "n2");
    m.assert_state(big, State::Sched);
    give_back(&mut m, "0-1");
    m.assert_state(big, State::Run);
    m.crash_and_restart();
    m.assert_state(big, State::Run);
}

#[test]
fn after_a_restart_without_its_plugin_nothing_is_kept() {
    let replaced: [fn(&mut TestManager); 2] =
        [|m| m.replace_plugin::<Keeper, Forgetful>(), |m| m.replace_plugin::<Keeper, Other>()];
    for replace in replaced {
        let (mut m, _) = kept();
        replace(&mut m);
        m.crash_and_restart();
        let next = m.submit(job(3)).unwrap();
        m.assert_state(next, State::Run);
        m.crash_and_restart();
        m.assert_state(next, State::Run);
    }
}

/// Loaded when the configuration says something of it.
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
    TestManager::new().plugin::<ByUrgency>().plugin::<Scrub>().config(config).start()
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
fn a_table_that_comes_later_loads_it_too_and_one_that_is_wrong_is_refused() {
    let mut m = manager(json!({}));
    let refused = m.configure(json!({"job-manager": {"scrub": {"depth": "x"}}})).unwrap_err();
    assert!(refused.contains("depth must be a number"), "{refused}");
    assert!(!loaded(&mut m));
    let config = json!({"job-manager": {"scrub": {"depth": 1}}});
    m.configure(config.clone()).unwrap();
    assert!(loaded(&mut m));
    // An administrator's word stands until the table is another one's again.
    m.remove_plugin("scrub").unwrap();
    m.configure(config.clone()).unwrap();
    assert!(!loaded(&mut m));
    m.configure(json!({})).unwrap();
    m.configure(config).unwrap();
    assert!(loaded(&mut m));
}
