//! What flux-accounting's own scripts ask of the plugin, in virtual time: a test for each script or group of scripts, by
//! the number that it has there.

use jobtap_core::prelude::*;
use jobtap_core::testing::TestManager;
use mf_priority::MfPriority;
use serde_json::{Value, json};

use crate::site::{OWNER, Site, association, job, queue};

#[test]
fn t1001_priorities_come_from_fair_share_and_urgency() {
    let mut site = Site::start(None, &[]);
    let none = site.0.call_service("mf_priority.rec_update", json!({})).unwrap_err();
    assert!(none.text().contains("Protocol error"), "{none:?}");
    site.0.assert_logged("failed to unpack custom_priority.trigger msg: Protocol error");
    site.send("rec_fac_update", json!([{"factor": "urgency", "weight": 1}]));
    let rows = json!([
        association(OWNER, "account3", json!({"fairshare": 0.45321, "def_bank": "account3"})),
        association(OWNER, "account2", json!({"fairshare": 0.11345, "def_bank": "account3"})),
    ]);
    site.send("rec_update", rows);
    site.0.hold_scheduling().unwrap();
    let mut with = |bank: Option<&str>, urgency: i64| {
        let mut job = job(OWNER).urgency(urgency);
        if let Some(bank) = bank {
            job = job.attribute("bank", bank);
        }
        let id = site.submit(job);
        site.priority(id)
    };
    assert_eq!(with(Some("account3"), 16), Some(45321));
    assert_eq!(with(Some("account3"), 15), Some(45320));
    assert_eq!(with(Some("account3"), 0), Some(0));
    assert_eq!(with(Some("account3"), 31), Some(u32::MAX));
    assert_eq!(with(Some("account2"), 16), Some(11345));
    assert_eq!(with(None, 16), Some(45321));
    let refused = site.refusal(job(OWNER).attribute("bank", "account9"));
    assert_eq!(refused, "cannot find user/bank or user/default bank entry for uid: 1000");
    // Jobtap's manager refuses it before the plugin is asked.
    let refused = site.refusal(job(OWNER).attribute("bank", 1));
    assert_eq!(refused, "attributes.system.bank must be a string");
    site.send("rec_update", json!([association(5012, "A", json!({"max_running_jobs": -1}))]));
    let marked = site.submit(job(5012));
    site.0.assert_exception(marked, "mf_priority", "job.state.depend: bank info is missing");
}

#[test]
fn t1005_jobs_beyond_the_limits_wait_or_are_refused() {
    let mut site = Site::with(json!([association(
        5001,
        "A",
        json!({
            "max_running_jobs": 2, "max_active_jobs": 4
        })
    )]));
    let ids: Vec<JobId> = (0..4).map(|_| site.submit(job(5001))).collect();
    assert_eq!(site.state(ids[1]), State::Run);
    assert_eq!(site.dependencies(ids[2]), ["max-running-jobs-user-limit"]);
    assert_eq!(site.refusal(job(5001)), "user has max active jobs");
    site.cancel(ids[0]);
    assert_eq!(site.state(ids[2]), State::Run, "it has the place of the first");
    assert_eq!(site.dependencies(ids[3]), ["max-running-jobs-user-limit"]);
    assert_eq!(site.counts(&["cur_run_jobs", "cur_active_jobs"]), [2, 3]);
    let again = site.submit(job(5001));
    assert_eq!(site.state(again), State::Depend);
    // A higher limit helps when priorities are computed again.
    site.send("rec_update", json!([association(5001, "A", json!({"max_running_jobs": 3}))]));
    assert_eq!(site.state(ids[3]), State::Depend);
    site.reprioritize();
    assert_eq!((site.state(ids[3]), site.state(again)), (State::Run, State::Depend));
}

#[test]
fn t1012_t1014_t1022_jobs_wait_for_data() {
    let mut site = Site::start(None, &[]);
    let plain = site.submit(job(5001));
    let of_others = site.submit(job(5002).attribute("bank", "B"));
    assert_eq!((site.state(plain), site.state(of_others)), (State::Priority, State::Priority));
    let canceled = site.submit(job(5001));
    site.cancel(canceled);
    assert_eq!(site.state(canceled), State::Inactive);
    site.send(
        "rec_update",
        json!([association(5001, "A", json!({})), association(5002, "A", json!({}))]),
    );
    assert_eq!(site.state(plain), State::Priority, "data alone moves nothing");
    let later = site.submit(job(5001));
    assert_eq!(site.state(later), State::Run);
    site.reprioritize();
    assert_eq!(site.state(plain), State::Run);
    let text = "cannot find user/bank or user/default bank entry for uid: 5002";
    site.0.assert_exception(of_others, "mf_priority", text);
    assert_eq!(site.counts(&["cur_active_jobs", "cur_run_jobs"]), [2, 2]);
    let unknown = site.refusal(job(9999));
    assert_eq!(unknown, "cannot find user/bank or user/default bank entry for uid: 9999");
    // The jobspec has the bank and the project that the job didn't name.
    let jobspec = site.0.job(plain).jobspec();
    assert_eq!(jobspec.attribute("bank"), Some(&json!("A")));
    assert_eq!(jobspec.attribute("project"), Some(&json!("*")));
    let updates = site.0.events(plain).iter().filter(|name| *name == "jobspec-update").count();
    assert_eq!(updates, 1, "both in one event");
}

#[test]
fn t1013_t1097_queues_have_priorities_and_are_checked() {
    let names = ["bronze", "silver", "gold"];
    let mut site = Site::start(None, &names);
    site.send("rec_update", json!([association(5001, "A", json!({"queues": "bronze,silver"}))]));
    let queues = json!([
        queue("bronze", 100, json!({})),
        queue("silver", 200, json!({})),
        queue("gold", 300, json!({}))
    ]);
    site.send("rec_q_update", queues);
    let id = site.submit(job(5001).queue("bronze"));
    assert_eq!(site.priority(id), Some(1_050_000));
    let refused = site.refusal(job(5001).queue("gold"));
    assert_eq!(refused, "queue \"gold\" not valid for user; valid queues for user: bronze,silver");
    let incomplete =
        site.0.call_service("mf_priority.rec_q_update", json!({"data": [{"queue": "x"}]}));
    assert!(incomplete.unwrap_err().text().starts_with("mf_priority unpack: queues[0]: "));
    let again = site.refusal(job(5001).queue("gold"));
    assert_eq!(again, refused, "the table is as before");
    // Queues that the table doesn't name have no checks, unless unknown ones are denied.
    site.send("rec_q_update", json!([queue("bronze", 100, json!({}))]));
    let unknown = site.submit(job(5001).queue("gold"));
    assert_eq!(site.priority(unknown), Some(50_000));
    site.send("rec_config_update", json!({"deny_unknown_queues": true}));
    let denied = site.refusal(job(5001).queue("gold"));
    assert_eq!(
        denied,
        "queue \"gold\" is unknown to flux-accounting and deny-unknown-queues is enabled"
    );
    site.send("rec_config_update", json!({}));
    site.submit(job(5001).queue("gold"));
}

#[test]
fn t1018_t1040_t1063_what_an_association_may_not_do_is_refused() {
    let mut site = Site::with(json!([
        association(5001, "A", json!({"active": 0})),
        association(
            5002,
            "A",
            json!({"projects": "projectA,projectB,*", "def_project": "projectA"})
        ),
        association(5003, "A", json!({"max_nodes": 2, "max_cores": 3})),
    ]));
    site.send(
        "rec_proj_update",
        json!([{"project": "*"}, {"project": "projectA"}, {"project": "projectC"}]),
    );
    assert_eq!(
        site.refusal(job(5001)),
        "user/bank entry has been disabled from flux-accounting DB"
    );
    for project in ["projectB", "projectC", "none"] {
        let text = format!(
            "project \"{project}\" not valid for user; valid projects for user: projectA,projectB,*"
        );
        assert_eq!(site.refusal(job(5002).attribute("project", project)), text);
    }
    let id = site.submit(job(5002));
    assert_eq!(site.0.job(id).jobspec().attribute("project"), Some(&json!("projectA")));
    let association =
        "is greater than max resources limits configured for association (2 node(s), 3 core(s))";
    let refused = site.refusal(job(5003).nodes(3).ntasks(3));
    assert_eq!(refused, format!("job size (3 node(s), 3 core(s)) {association}"));
    let refused = site.refusal(job(5003).ntasks(4));
    assert_eq!(refused, format!("job size (1 node(s), 4 core(s)) {association}"));
}

#[test]
fn t1030_t1032_queue_and_bank_of_a_job_change() {
    let mut site = Site::start(None, &["bronze", "silver", "gold"]);
    site.send(
        "rec_update",
        json!([
            association(5001, "A", json!({"queues": "bronze,silver"})),
            association(5001, "B", json!({"queues": "bronze,silver", "max_active_jobs": 1})),
        ]),
    );
    site.send(
        "rec_q_update",
        json!([
            queue("bronze", 100, json!({})),
            queue("silver", 200, json!({})),
            queue("gold", 300, json!({})),
        ]),
    );
    site.0.hold_scheduling().unwrap();
    let id = site.submit(job(5001).queue("bronze"));
    let update = |site: &mut Site, key: &str, value: &str| {
        let key = format!("attributes.system.{key}");
        site.0.update(id, &key, value).map_err(|refused| refused.text())
    };
    update(&mut site, "queue", "silver").unwrap();
    assert_eq!(site.priority(id), Some(2_050_000));
    let refused = update(&mut site, "queue", "gold").unwrap_err();
    assert_eq!(refused, "mf_priority: queue not valid for user: gold");
    update(&mut site, "bank", "B").unwrap();
    assert_eq!(site.counts(&["cur_active_jobs"]), [0], "A has no job any more");
    let refused = update(&mut site, "bank", "C").unwrap_err();
    assert_eq!(refused, "update_bank: cannot find flux-accounting entry for uid/bank: 5001/C");
    let other = site.submit(job(5001).queue("bronze"));
    let moved = site.0.update(other, "attributes.system.bank", "B").unwrap_err().text();
    assert_eq!(moved, "new bank is already at max-active-jobs limit");
}

#[test]
fn a_held_job_that_moves_to_another_bank_is_held_by_that_banks_limits() {
    let terms = json!({"max_running_jobs": 1});
    let mut site =
        Site::with(json!([association(5001, "A", terms.clone()), association(5001, "B", terms)]));
    let of_a = site.submit(job(5001));
    let of_b = site.submit(job(5001).attribute("bank", "B"));
    let moved = site.submit(job(5001));
    let stays = site.submit(job(5001));
    site.cancel(of_b);
    site.0.update(moved, "attributes.system.bank", "B").unwrap();
    assert_eq!(site.state(moved), State::Run, "there is room in B");
    assert_eq!(site.dependencies(stays), ["max-running-jobs-user-limit"]);
    site.cancel(of_a);
    assert_eq!(site.state(stays), State::Run);
}

#[test]
fn t1044_resources_of_an_association_are_limited() {
    let mut site = Site::with(json!([association(
        5001,
        "A",
        json!({
            "max_nodes": 2, "max_cores": 4, "max_running_jobs": 2, "max_active_jobs": 9
        })
    )]));
    let of_a_node = || job(5001).nodes(1).ntasks(1);
    let ids: Vec<JobId> = (0..3).map(|_| site.submit(of_a_node())).collect();
    assert_eq!(site.counts(&["cur_nodes", "cur_cores"]), [2, 2]);
    let both = ["max-running-jobs-user-limit", "max-resources-user-limit"];
    assert_eq!(site.dependencies(ids[2]), both);
    let held = site.first()["held_jobs"][ids[2].as_u64().to_string()].clone();
    assert_eq!(held, json!({"nnodes": 1, "ncores": 1, "queue": "", "deps": both}));
    // Room for jobs alone removes only that dependency.
    site.send(
        "rec_update",
        json!([association(
            5001,
            "A",
            json!({
                "max_nodes": 2, "max_cores": 4, "max_running_jobs": 3, "max_active_jobs": 9
            })
        )]),
    );
    site.reprioritize();
    assert_eq!(site.dependencies(ids[2]), ["max-resources-user-limit"]);
    site.cancel(ids[0]);
    assert_eq!(site.state(ids[2]), State::Run);
    assert_eq!(site.first()["held_jobs"], json!({}));
    ids.iter().skip(1).for_each(|id| site.cancel(*id));
    assert_eq!(site.counts(&["cur_nodes", "cur_cores", "cur_run_jobs", "cur_active_jobs"]), [0; 4]);
}

#[test]
fn t1052_t1062_queues_have_limits_of_their_own() {
    let mut site = Site::start(None, &["bronze", "silver"]);
    site.send(
        "rec_update",
        json!([association(
            5001,
            "A",
            json!({
                "queues": "bronze,silver", "max_running_jobs": 9, "max_active_jobs": 20
            })
        )]),
    );
    site.send(
        "rec_q_update",
        json!([
            queue("bronze", 0, json!({"max_nodes_per_assoc": 1})),
            queue("silver", 0, json!({"max_running_jobs": 2})),
        ]),
    );
    let silver: Vec<JobId> = (0..3).map(|_| site.submit(job(5001).queue("silver"))).collect();
    assert_eq!(site.dependencies(silver[2]), ["max-run-jobs-queue"]);
    assert_eq!(site.counts(&["queue_usage/silver/cur_run_jobs"]), [2]);
    let bronze: Vec<JobId> =
        (0..2).map(|_| site.submit(job(5001).queue("bronze").nodes(1).ntasks(1))).collect();
    assert_eq!(site.dependencies(bronze[1]), ["max-resources-queue"]);
    site.cancel(silver[0]);
    assert_eq!((site.state(silver[2]), site.state(bronze[1])), (State::Run, State::Depend));
    site.cancel(bronze[0]);
    assert_eq!(site.state(bronze[1]), State::Run);
    let refused = site.refusal(job(5001).queue("bronze").nodes(2).ntasks(2));
    assert_eq!(
        refused,
        "job size (2 node(s)) is greater than max resources limit configured for queue (1 node(s))"
    );
}

#[test]
fn t1054_t1056_t1034_weights_of_factors() {
    let mut site =
        Site::with(json!(
            [association(OWNER, "A", json!({})), association(OWNER, "B", json!({})),]
        ));
    let weights = |site: &mut Site, all: [i64; 4]| {
        let names = ["fairshare", "queue", "bank", "urgency"];
        let rows: Vec<Value> = names
            .iter()
            .zip(all)
            .map(|(name, weight)| json!({"factor": name, "weight": weight}))
            .collect();
        site.send("rec_fac_update", json!(rows));
    };
    site.0.hold_scheduling().unwrap();
    site.send(
        "rec_bank_update",
        json!([{"bank": "A", "priority": 1}, {"bank": "B", "priority": 3.5}]),
    );
    weights(&mut site, [0, 0, 100, 0]);
    let (a, b) = (site.submit(job(OWNER)), site.submit(job(OWNER).attribute("bank", "B")));
    assert_eq!((site.priority(a), site.priority(b)), (Some(100), Some(350)));
    weights(&mut site, [100, 0, 0, 1000]);
    let of = |site: &mut Site, urgency: i64| {
        let id = site.submit(job(OWNER).urgency(urgency));
        site.priority(id)
    };
    assert_eq!(
        (of(&mut site, 18), of(&mut site, 17), of(&mut site, 15)),
        (Some(2050), Some(1050), Some(0))
    );
    site.reprioritize();
    assert_eq!(site.priority(a), Some(50));
}

#[test]
fn t1078_t1083_t1088_a_place_in_sched_releases_exactly_one() {
    let mut site = Site::start(None, &["debug", "batch"]);
    site.send(
        "rec_update",
        json!([association(
            5001,
            "A",
            json!({
                "queues": "debug,batch", "max_running_jobs": 99, "max_active_jobs": 99
            })
        )]),
    );
    site.send(
        "rec_q_update",
        json!([
            queue("debug", 0, json!({"max_sched_jobs": 1})),
            queue("batch", 0, json!({"max_sched_jobs": 1})),
        ]),
    );
    site.0.hold_scheduling().unwrap();
    let submit = |site: &mut Site, queue: &str| site.submit(job(5001).queue(queue));
    let debug: Vec<JobId> = (0..3).map(|_| submit(&mut site, "debug")).collect();
    let batch: Vec<JobId> = (0..2).map(|_| submit(&mut site, "batch")).collect();
    let limit = "max-sched-jobs-queue-limit";
    assert_eq!(site.state(debug[0]), State::Sched);
    assert!([debug[1], debug[2], batch[1]].iter().all(|id| site.dependencies(*id) == [limit]));
    assert_eq!(site.counts(&["cur_sched_jobs", "queue_usage/debug/cur_sched_jobs"]), [2, 1]);
    site.0.allocate(debug[0]);
    assert_eq!(site.state(debug[1]), State::Sched);
    assert_eq!(site.dependencies(debug[2]), [limit]);
    assert_eq!(site.dependencies(batch[1]), [limit], "the place is one of the other queue");
    site.cancel(debug[1]);
    assert_eq!(site.state(debug[2]), State::Sched);
}

#[test]
fn t1092_a_job_with_a_dependency_of_its_own_gives_its_place_to_nobody_in_that_pass() {
    let mut site = Site::with(json!([association(
        5001,
        "A",
        json!({
            "max_sched_jobs": 1, "max_running_jobs": 99, "max_active_jobs": 99
        })
    )]));
    site.0.hold_scheduling().unwrap();
    let first = site.submit(job(5001));
    let second = site.submit(job(5001).dependency(&format!("afterany:{}", first.as_u64())));
    let third = site.submit(job(5001));
    let limit = "max-sched-jobs-user-limit";
    assert!(site.dependencies(second).contains(&limit));
    assert_eq!(site.dependencies(third), [limit]);
    site.0.allocate(first);
    assert!(!site.dependencies(second).contains(&limit), "it waits only for the first job");
    assert_eq!(site.state(second), State::Depend);
    assert_eq!(site.dependencies(third), [limit]);
}

#[test]
fn t1095_nodes_and_cores_in_sched_are_limited() {
    let mut site = Site::start(None, &["debug"]);
    site.send(
        "rec_update",
        json!([association(
            5001,
            "A",
            json!({
                "queues": "debug", "max_running_jobs": 99, "max_active_jobs": 99
            })
        )]),
    );
    site.send(
        "rec_q_update",
        json!([queue(
            "debug",
            0,
            json!({
                "max_sched_nodes_per_assoc": 4, "max_sched_cores_per_assoc": 4
            })
        )]),
    );
    site.0.hold_scheduling().unwrap();
    let of = |site: &mut Site, nodes: u64| {
        site.submit(job(5001).queue("debug").nodes(nodes).ntasks(nodes))
    };
    let first = of(&mut site, 4);
    let others = [of(&mut site, 2), of(&mut site, 2), of(&mut site, 2)];
    let limits = ["max-sched-nodes-queue-limit", "max-sched-cores-queue-limit"];
    assert!(others.iter().all(|id| site.dependencies(*id) == limits));
    assert_eq!(
        site.counts(&["queue_usage/debug/cur_sched_nodes", "queue_usage/debug/cur_sched_cores"]),
        [4, 4]
    );
    site.cancel(first);
    let states = others.map(|id| site.state(id));
    assert_eq!(states, [State::Sched, State::Sched, State::Depend], "room for two of them");
}

#[test]
fn t1103_fair_share_is_told_once() {
    let mut site = Site::with(json!([association(5001, "A", json!({}))]));
    site.0.hold_scheduling().unwrap();
    let id = site.submit(job(5001));
    let memos = |site: &Site| site.0.events(id).iter().filter(|name| *name == "memo").count();
    assert_eq!(memos(&site), 1);
    site.reprioritize();
    assert_eq!(memos(&site), 1);
    site.send("rec_update", json!([association(5001, "A", json!({"fairshare": 0.7}))]));
    site.reprioritize();
    assert_eq!(memos(&site), 2);
    assert_eq!(site.0.annotations(id)["user"]["fairshare"], 0.7);
}

#[test]
fn t1073_t1074_t1078_jobs_are_counted_again_after_a_restart() {
    let tables = json!({
        "associations": [association(5001, "A", json!({
            "queues": "debug", "max_running_jobs": 1, "max_active_jobs": 9
        }))],
        "queues": [queue("debug", 10, json!({}))],
        "projects": [{"project": "*"}],
    });
    let mut site = Site::start(Some(tables), &["debug"]);
    let first = site.submit(job(5001).queue("debug").nodes(2).ntasks(2));
    let second = site.submit(job(5001).queue("debug"));
    assert_eq!(site.priority(first), Some(150_000));
    assert_eq!(site.dependencies(second), ["max-running-jobs-user-limit"]);
    site.0.crash_and_restart();
    let keys = [
        "cur_active_jobs",
        "cur_run_jobs",
        "cur_nodes",
        "cur_cores",
        "queue_usage/debug/cur_run_jobs",
    ];
    assert_eq!(site.counts(&keys), [2, 1, 2, 2, 1]);
    assert_eq!(site.dependencies(second), ["max-running-jobs-user-limit"]);
    let held = site.first()["held_jobs"].as_object().unwrap().len();
    assert_eq!(held, 1, "the restart keeps it among those that are held");
    site.cancel(first);
    assert_eq!(site.state(second), State::Run);
    site.cancel(second);
    assert_eq!(site.counts(&keys), [0; 5]);
}

#[test]
fn jobs_are_counted_when_data_comes_after_a_restart() {
    let terms = json!([association(5001, "A", json!({"max_running_jobs": 2}))]);
    let mut site = Site::with(terms.clone());
    let ids: Vec<JobId> = (0..3).map(|_| site.submit(job(5001))).collect();
    site.0.crash_and_restart();
    site.send("rec_update", terms);
    assert_eq!(site.counts(&["cur_active_jobs", "cur_run_jobs"]), [3, 2]);
    let more = site.submit(job(5001));
    for held in [ids[2], more] {
        assert_eq!(site.dependencies(held), ["max-running-jobs-user-limit"]);
    }
    site.cancel(ids[0]);
    assert_eq!((site.state(ids[2]), site.state(more)), (State::Run, State::Depend));
}

#[test]
fn data_that_cannot_be_used_keeps_the_plugin_from_loading() {
    let tables = json!({"associations": [{"userid": "x"}]});
    let config = json!({
        "job-manager": {"plugins": [{"load": "mf_priority"}]},
        "plugins": {"mf_priority": {"config": tables}},
    });
    let Err(refused) = TestManager::new().plugin::<MfPriority>().config(config).try_start() else {
        panic!("it starts");
    };
    let text = refused.to_string();
    assert!(
        text.contains("error initializing plugin with JSON object: associations[0]: "),
        "{text}"
    );
}
