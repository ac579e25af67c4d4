//! Drained, lost and reserved nodes: what happens to their jobs, and what a restart preserves.

use jobtap_core::engine::{DrainMode, ExecEvent, NodeRequest};
use jobtap_core::prelude::*;
use jobtap_core::resource::Children;
use jobtap_core::testing::{TestJob, TestManager, TestManagerBuilder};
use serde_json::{Value, json};

use crate::common::ByUrgency;

/// Four nodes of two cores.
fn nodes() -> ResourceSet {
    let node = Children::new(Idset::from(0..=1), Idset::new());
    ResourceSet::uniform(0, &"n[0-3]".parse().unwrap(), node)
}

fn cluster() -> TestManagerBuilder {
    TestManager::new().plugin::<ByUrgency>().resources(nodes())
}

/// A job of whole nodes.
fn job(nodes: u64) -> TestJob {
    TestJob::new().nodes(nodes).ntasks(nodes).exclusive()
}

fn hosts(m: &TestManager, id: JobId) -> String {
    m.job(id).resources().map(|r| r.nodelist().to_string()).unwrap_or_default()
}

fn drain(targets: &str, reason: Option<&str>, mode: DrainMode) -> NodeRequest {
    let (targets, reason) = (targets.to_owned(), reason.map(str::to_owned));
    NodeRequest::Drain { targets, reason, mode }
}

fn reserve(targets: &str, from: f64, to: f64, reason: &str) -> NodeRequest {
    let (targets, reason) = (targets.to_owned(), reason.to_owned());
    NodeRequest::AddMaintenance { targets, from: Some(from), to: Some(to), reason }
}

fn drained(m: &TestManager) -> Value {
    m.resource_status()["drain"].clone()
}

#[test]
fn drained_nodes_get_no_new_jobs_and_keep_those_they_have() {
    let mut m = cluster().start();
    let runs = m.submit(job(2)).unwrap();
    m.drain_nodes("n[1-3]", "bad disk").unwrap();
    m.assert_state(runs, State::Run);
    let waits = m.submit(job(1)).unwrap();
    let text = format!("its resources are held by {runs}");
    assert_eq!(m.why(waits), [text]);
    m.finish(runs, 0);
    assert_eq!(hosts(&m, waits), "n0");
    let more = m.submit(job(2)).unwrap();
    m.finish(waits, 0);
    assert_eq!(m.why(more), ["it waits for nodes that are drained: n[1-3] (bad disk)"]);
    m.undrain_nodes("2").unwrap();
    assert_eq!(hosts(&m, more), "n[0,2]");
}

#[test]
fn a_job_is_told_of_the_nodes_that_it_could_have_and_of_no_others() {
    let mut m = cluster().start();
    let runs = m.submit(job(1)).unwrap();
    m.drain_nodes("1", "fan").unwrap();
    m.drain_nodes("2-3", "disk").unwrap();
    let any = m.submit(job(2)).unwrap();
    let one = m.submit(job(1).attribute("constraints", json!({"ranks": ["3"]}))).unwrap();
    assert_eq!(m.why(any), ["it waits for nodes that are drained: n1 (fan), n[2-3] (disk)"]);
    assert_eq!(m.why(one)[0], "it waits for nodes that are drained: n3 (disk)");
    let all = m.submit(job(4)).unwrap();
    let jobs_too =
        "it waits for jobs to end, and for nodes that are drained: n1 (fan), n[2-3] (disk)";
    assert_eq!(m.why(all)[0], jobs_too);
    m.lose_nodes("3").unwrap();
    m.undrain_nodes("3").unwrap();
    assert_eq!(m.why(one)[0], "it waits for nodes that are offline: n3");
    m.finish(runs, 0);
    assert_eq!(
        m.why(all)[0],
        "it waits for nodes that are drained: n1 (fan), n2 (disk), n3 (offline)"
    );
}

#[test]
fn a_job_waits_for_no_job_that_only_leaves_it_a_drained_node() {
    let mut m = cluster().start();
    let runs: Vec<JobId> = (0..4).map(|_| m.submit(job(1)).unwrap()).collect();
    m.drain_nodes("0-1", "fan").unwrap();
    let waits = m.submit(job(1)).unwrap();
    assert_eq!(m.why(waits), [format!("its resources are held by {}", runs[2])]);
}

#[test]
fn a_job_is_told_of_the_maintenance_that_it_waits_for() {
    let mut m = cluster().start();
    let now = m.now().as_secs();
    m.nodes(reserve("0-1", now, now + 100.0, "firmware")).unwrap();
    m.nodes(reserve("3", now + 60.0, now + 200.0, "")).unwrap();
    let on = |rank: &str| job(1).attribute("constraints", json!({"ranks": [rank]}));
    let under_way = m.submit(on("0")).unwrap();
    let to_come = m.submit(on("3")).unwrap();
    let text = "it could still run when a maintenance begins, so it waits until that is over: ";
    assert_eq!(m.why(under_way), [format!("{text}n0 now (firmware)")]);
    assert_eq!(m.why(to_come)[1], format!("{text}n3 in 1 min 0 s"));
    // A job that would end before the maintenance begins is not held up by it.
    let both = json!({"ranks": ["0,3"]});
    let short = m.submit(job(2).duration(30.0).attribute("constraints", both)).unwrap();
    let why = m.why(short);
    assert_eq!(why.last().unwrap(), &format!("{text}n0 now (firmware)"), "{why:?}");
}

#[test]
fn reasons_are_kept_updated_or_overwritten_as_asked() {
    let mut m = cluster().start();
    let (new, update) = (DrainMode::New, DrainMode::Update);
    m.nodes(drain("0", None, new)).unwrap();
    let refused = |m: &mut TestManager, request| m.nodes(request).unwrap_err();
    m.nodes(drain("2", Some("x"), new)).unwrap();
    assert_eq!(refused(&mut m, drain("1-2", Some("x"), new)), "rank 2 already drained");
    assert_eq!(refused(&mut m, drain("", Some("x"), new)), "idset is empty");
    assert_eq!(refused(&mut m, drain("0-9", Some("x"), new)), "idset is out of range");
    assert_eq!(refused(&mut m, drain("n8", Some("x"), new)), "invalid targets: invalid hosts: n8");
    assert_eq!(m.undrain_nodes("0-1").unwrap_err(), "rank 1 not drained");
    let reason = Some("looked at".to_owned());
    let mode = DrainMode::Overwrite;
    m.nodes(NodeRequest::Undrain { targets: "1-2".to_owned(), reason, mode }).unwrap();
    let context = m.resource_log().last().unwrap().context.clone();
    let shown = ["idset", "overwrite", "reason"].map(|key| context.as_ref().unwrap()[key].clone());
    assert_eq!(shown, [json!("1-2"), json!(1), json!("looked at")]);
    m.advance(10.0);
    m.nodes(drain("0", Some("fan"), new)).unwrap();
    m.nodes(drain("0-1", Some("fan"), update)).unwrap();
    m.nodes(drain("0-1", Some("disk"), update)).unwrap();
    let status = drained(&m);
    assert_eq!((&status["0"]["reason"], &status["1"]["reason"]), (&json!("fan"), &json!("fan")));
    let age = |status: &Value| status["1"]["timestamp"].as_f64().unwrap();
    assert_eq!(age(&status) - status["0"]["timestamp"].as_f64().unwrap(), 10.0);
    m.advance(5.0);
    m.nodes(drain("1", Some("disk"), DrainMode::Overwrite)).unwrap();
    assert_eq!(drained(&m)["1"]["reason"], "disk");
    assert_eq!(age(&drained(&m)), age(&status));
    m.nodes(drain("1", Some("disk"), DrainMode::Restamp)).unwrap();
    assert_eq!(age(&drained(&m)), age(&status) + 5.0);
    assert_eq!(drained(&m)["1"]["userid"], TestJob::OWNER.as_u32());
}

#[test]
fn a_restart_keeps_what_is_known_of_nodes_also_when_their_ranks_change() {
    let mut m = cluster().start();
    m.drain_nodes("1-2", "bad disk").unwrap();
    m.lose_nodes("3").unwrap();
    let before = drained(&m);
    m.crash_and_restart();
    assert_eq!(drained(&m), before);
    assert_eq!(m.resource_status()["offline"], "3");
    let node = Children::new(Idset::from(0..=1), Idset::new());
    m.set_resources(ResourceSet::uniform(0, &"n[2-3],x".parse().unwrap(), node));
    m.crash_and_restart();
    let status = m.resource_status();
    assert_eq!(status["drain"]["0"]["reason"], "bad disk");
    assert_eq!(status["drain"]["1"]["reason"], "node failure");
    assert_eq!(status["offline"], "1");
}

#[test]
fn a_lost_node_ends_its_jobs_and_no_others() {
    let mut m = cluster().start();
    let two = m.submit(job(2)).unwrap();
    let simulated = m.submit(job(1).run_for(100.0)).unwrap();
    let other = m.submit(job(1)).unwrap();
    m.lose_nodes("n1-2,n[1-2]").unwrap_err();
    m.lose_nodes("n[1-2]").unwrap();
    m.assert_exception(two, "node-failure", "node failure on n1 (rank 1)");
    m.assert_exception(simulated, "node-failure", "node failure on n2 (rank 2)");
    m.assert_state(two, State::Inactive);
    m.assert_state(other, State::Run);
    let waits = m.submit(job(2)).unwrap();
    let back = NodeRequest::Online { targets: "1-2".to_owned() };
    m.nodes(back).unwrap();
    m.assert_state(waits, State::Sched);
    m.undrain_nodes("1").unwrap();
    assert_eq!(hosts(&m, waits), "n[0-1]");
}

#[test]
fn a_job_that_execution_lost_drains_its_nodes_before_it_gives_them_back() {
    let mut m = cluster().start();
    let other = m.submit(job(1)).unwrap();
    let lost = m.submit(job(2)).unwrap();
    let waits = m.submit(job(2)).unwrap();
    let (note, reason) = ("job is lost".to_owned(), "its shepherd died".to_owned());
    m.report(ExecEvent::Lost { id: lost, note: note.clone(), reason: reason.clone() });
    m.report(ExecEvent::Released { id: lost });
    m.assert_exception(lost, "exec", "job is lost");
    m.assert_state(other, State::Run);
    m.assert_state(waits, State::Sched);
    assert_eq!(drained(&m)["1-2"]["reason"], "its shepherd died");
    // A repeated report, or one about a job that ended well, changes nothing.
    m.undrain_nodes("1-2").unwrap();
    m.finish(other, 0);
    for id in [lost, other] {
        m.report(ExecEvent::Lost { id, note: note.clone(), reason: reason.clone() });
    }
    assert_eq!(drained(&m), json!({}));
    assert_eq!(hosts(&m, waits), "n[1-2]");
}

#[test]
fn excluded_nodes_are_not_there() {
    let mut m = cluster().config(json!({"resource": {"exclude": "n[0-1]"}})).start();
    let three = m.submit(job(3)).unwrap();
    let note = "unsatisfiable request: need 3 exclusive node(s), only 2 eligible";
    m.assert_exception(three, "alloc", note);
    assert_eq!(m.nodes(drain("1-2", None, DrainMode::New)).unwrap_err(), "rank 1 excluded");
    m.configure(json!({"resource": {"exclude": "2"}})).unwrap();
    let three = m.submit(job(3)).unwrap();
    assert_eq!(hosts(&m, three), "n[0-1,3]");
    m.configure(json!({"resource": {"exclude": "0-3"}})).unwrap();
    m.configure(json!({})).unwrap();
    let one = m.submit(job(1)).unwrap();
    assert_eq!(hosts(&m, one), "n2");
    let wrong = m.configure(json!({"resource": {"exclude": "x"}})).unwrap_err();
    assert_eq!(wrong, "resource.exclude: invalid targets: invalid hosts: x");
}

#[test]
fn ranks_given_back_early_are_given_to_others_also_after_a_restart() {
    let mut m = cluster().start();
    let first = m.submit(job(3)).unwrap();
    let second = m.submit(job(2)).unwrap();
    let ranks = Idset::from(1..=1);
    m.report(ExecEvent::PartlyReleased { id: first, ranks: ranks.clone() });
    assert_eq!(hosts(&m, second), "n[1,3]");
    m.report(ExecEvent::PartlyReleased { id: first, ranks });
    m.crash_and_restart();
    let third = m.submit(job(2)).unwrap();
    m.assert_state(second, State::Run);
    m.finish(first, 0);
    // After this restart, the inactive job is read from its summary.
    m.crash_and_restart();
    assert_eq!(hosts(&m, third), "n[0,2]");
    let names = m.events(first).join(" ");
    assert!(names.ends_with("start release finish release free clean"), "{names}");
}

#[test]
fn jobs_stay_clear_of_a_maintenance_and_start_when_it_is_over() {
    for policy in ["easy", "conservative", "fifo"] {
        let config = json!({"policy": {"scheduler": {"queue-policy": policy}}});
        let mut m = cluster().config(config).start();
        let now = m.now().as_secs();
        let maintenance = |from: f64, to: f64| NodeRequest::AddMaintenance {
            targets: "n[1-3]".into(),
            from: Some(now + from),
            to: Some(now + to),
            reason: "new memory".into(),
        };
        m.nodes(maintenance(1000.0, 2000.0)).unwrap();
        let short = m.submit(job(2).duration(1000.0)).unwrap();
        assert_eq!(hosts(&m, short), "n[0-1]", "{policy}");
        let endless = m.submit(job(1)).unwrap();
        m.assert_state(endless, State::Sched);
        m.finish(short, 0);
        assert_eq!(hosts(&m, endless), "n0", "{policy}");
        let long = m.submit(job(2).duration(1001.0)).unwrap();
        m.assert_state(long, State::Sched);
        assert!(m.why(long)[0].contains("maintenance"), "{policy}: {:?}", m.why(long));
        m.crash_and_restart();
        m.advance(1990.0);
        m.assert_state(long, State::Sched);
        m.advance(20.0);
        assert_eq!(hosts(&m, long), "n[1-2]", "{policy}");
    }
}

#[test]
fn a_maintenance_is_ended_by_its_number_and_no_other() {
    let mut m = cluster().start();
    let now = m.now().as_secs();
    let mut add = |targets: &str, from: f64| {
        let (targets, reason) = (targets.into(), "r".into());
        m.nodes(NodeRequest::AddMaintenance {
            targets,
            from: Some(from),
            to: Some(now + 9.0),
            reason,
        })
    };
    // The beginning may be long ago, but must be a valid time.
    let first = add("n0", 0.0).unwrap()["id"].as_u64().unwrap();
    let second = add("n1", now).unwrap()["id"].as_u64().unwrap();
    assert_eq!(add("n2", -1.0).unwrap_err(), "the beginning must be a time");
    assert_eq!(add("n2", now + 9.0).unwrap_err(), "the end must be after the beginning");
    let unknown = second + 1;
    let refusal = m.nodes(NodeRequest::RemoveMaintenance { id: unknown }).unwrap_err();
    assert_eq!(refusal, format!("maintenance {unknown} not found"));
    m.nodes(NodeRequest::RemoveMaintenance { id: first }).unwrap();
    let next = m.submit(job(3)).unwrap();
    assert_eq!(hosts(&m, next), "n[0,2-3]");
}

#[test]
fn nodes_of_a_job_that_is_late_are_not_taken_for_free() {
    let config = json!({"policy": {"scheduler": {"queue-policy": "conservative"}}});
    let mut m = cluster().config(config).start();
    m.hold_execution();
    let late = m.submit(job(1).duration(10.0)).unwrap();
    m.advance(20.0);
    m.assert_state(late, State::Run);
    let next = m.submit(job(1)).unwrap();
    assert_eq!(hosts(&m, next), "n1");
}

/// Lets users change durations.
#[derive(Default)]
struct Longer;

#[jobtap_plugin(name = "longer")]
impl Longer {
    #[on("job.update.attributes.system.duration")]
    fn duration() -> Update {
        Update::allow().validated()
    }
}

#[test]
fn a_maintenance_of_the_configuration_names_dates() {
    let entry = |to: &str| {
        json!({"resource": {"maintenance": [
            {"nodes": "0-3", "from": "2023-11-14T22:15:00Z", "to": to, "reason": "r"},
        ]}})
    };
    // Virtual time begins at 22:13:20 of that day.
    let mut m = cluster().plugin::<Longer>().config(entry("2023-11-14T23:00:00Z")).start();
    let waits = m.submit(job(1).duration(101.0)).unwrap();
    let runs = m.submit(job(1).duration(100.0)).unwrap();
    m.assert_state(waits, State::Sched);
    m.assert_state(runs, State::Run);
    let refusal = m.update(runs, "attributes.system.duration", 200.0).unwrap_err();
    assert_eq!(refusal, "job would run into the maintenance of n[0-3] (r)");
    m.configure(json!({})).unwrap();
    m.assert_state(waits, State::Run);
    assert!(cluster().config(entry("2023-11-14")).try_start().is_err());
}

/// Drains the nodes of each job when it starts.
#[derive(Default)]
struct Inspector;

#[jobtap_plugin(name = "inspector")]
impl Inspector {
    #[on("job.state.run")]
    fn run(&self, r: &ResourceSet, cx: Cx<'_, JobStateRun>) {
        cx.drain(&r.ranks(), "to be inspected");
    }
}

#[test]
fn a_plugin_drains_nodes() {
    let mut m = cluster().plugin::<Inspector>().start();
    m.drain_nodes("1", "fan").unwrap();
    m.undrain_nodes("1").unwrap();
    let id = m.submit(job(1)).unwrap();
    m.assert_state(id, State::Run);
    assert_eq!(drained(&m)["0"]["reason"], "to be inspected");
    let names: Vec<String> = m.resource_log().iter().map(|e| e.name.to_string()).collect();
    // The events of a start, `restart` and `online`, are sent to watchers and not stored.
    assert_eq!(names, ["resource-define", "drain", "undrain", "drain"]);
}

#[test]
fn jobs_without_an_end_live_as_long_as_the_instance_whose_end_may_move() {
    let mut m = cluster().lifetime(1000.0).start();
    let start = m.now().as_secs();
    let ends = |m: &TestManager, id| m.job(id).resources().and_then(ResourceSet::expiration);
    let unlimited = m.submit(job(1)).unwrap();
    let limited = m.submit(job(1).duration(5000.0)).unwrap();
    let before = (Some(start + 1000.0), Some(start + 5000.0));
    assert_eq!((ends(&m, unlimited), ends(&m, limited)), before);
    let mut instance = nodes();
    instance.set_expiration(start + 2000.0).unwrap();
    m.define_resources(instance.clone()).unwrap();
    let after = (Some(start + 2000.0), Some(start + 5000.0));
    assert_eq!((ends(&m, unlimited), ends(&m, limited)), after);
    m.assert_logged("resource expiration updated from ");
    m.assert_logged(&format!("updated expiration of {unlimited} from "));
    m.crash_and_restart();
    m.advance(1999.0);
    m.assert_state(unlimited, State::Run);
    m.advance(1.0);
    m.assert_exception(unlimited, "timeout", "resource allocation expired");
    instance.set_expiration(start + 1.0).unwrap();
    assert_eq!(m.define_resources(instance).unwrap_err(), "R has expired");
}

#[test]
fn an_instance_in_a_job_whose_end_moves_has_the_new_one() {
    let mut m = cluster().lifetime(1000.0).start();
    let start = m.now().as_secs();
    let end = |m: &TestManager, id| m.job(id).resources().and_then(ResourceSet::expiration);
    let id = m.submit(job(1)).unwrap();
    m.drain_nodes("1", "fan").unwrap();
    m.nodes(NodeRequest::End(start + 2000.0)).unwrap();
    assert_eq!(end(&m, id), Some(start + 2000.0));
    assert!(m.resource_status()["drain"]["1"].is_object(), "nodes stay as they are");
    let later = m.submit(job(1)).unwrap();
    assert_eq!(end(&m, later), Some(start + 2000.0));
    let past = m.nodes(NodeRequest::End(start - 1.0));
    assert_eq!(past.unwrap_err(), "R has expired");
    m.nodes(NodeRequest::End(0.0)).unwrap();
    m.advance(5000.0);
    m.assert_state(id, State::Run);
}
