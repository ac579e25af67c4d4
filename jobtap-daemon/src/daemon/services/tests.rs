//! Who may send which request, and how requests are read.

use std::sync::Arc;

use jobtap_core::engine::{
    DrainMode, Effect, Engine, HostCheck, Input, NodeRequest, RaisedException, ReplyTo, Request,
    Setup, Submission,
};
use jobtap_core::host::{NoReturn, Registry, Ticks};
use jobtap_core::job::{Flags, JobId, StateSet, Timestamp, Uid};
use jobtap_core::jobspec::JobspecBuilder;
use jobtap_core::queue::Target;
use jobtap_core::resource::{Idset, ResourceSet};
use proptest::prelude::*;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::to_raw_value;

use super::*;
use crate::rpc::errno::EPROTO;
use crate::rpc::services::job_list::{self, List};
use crate::rpc::services::job_manager::{self, EventsJournal, Raise, RaiseAll, Update, Wait, user};
use crate::rpc::services::{queue, resource};
use crate::store::request;

const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };
const GUEST: Cred = Cred { userid: Uid::new(1001), owner: false };

/// Checks and decodes a request by the row of its topic, without a manager.
fn admit(topic: &str, payload: &Value, cred: Cred) -> Result<Box<dyn Decoded>, RpcError> {
    let row = Row::of_topic(topic)?;
    row.check(cred, false)?;
    (row.decode)(topic, Body::of_payload(payload).unwrap())
}

fn refusal(topic: &str, payload: &Value, cred: Cred) -> RpcError {
    match admit(topic, payload, cred) {
        Ok(_) => panic!("{topic} is not refused"),
        Err(error) => error,
    }
}

fn decode<S: Service>(payload: &Value) -> Result<S, RpcError> {
    payload::decode(S::TOPIC, &to_raw_value(payload).unwrap())
}

#[test]
fn each_topic_has_one_row() {
    let topics: Vec<_> = rows().iter().map(|row| row.topic).collect();
    assert_eq!(TABLE.len(), topics.len(), "a topic stands in two rows: {topics:?}");
    for topic in topics {
        assert_eq!(Row::of_topic(topic).unwrap().topic, topic);
    }
}

#[test]
fn an_unknown_topic_is_named() {
    let error = refusal("kvs.commit", &json!({}), OWNER);
    assert_eq!(error.errno, ENOSYS);
    assert_eq!(error.text, "Unknown service method 'kvs.commit'");
}

#[test]
fn topics_without_a_row_below_the_manager_are_plugins() {
    assert_eq!(Row::of_topic("job-manager.limits.mine").unwrap().responses, Responses::Plugin);
    assert!(admit("job-manager.limits.mine", &json!({"n": 1}), GUEST).is_ok());
}

#[test]
fn guests_may_not_call_services_of_the_owner() {
    let topics = [
        "config.load",
        "config.reload",
        "job-manager.jobtap",
        "job-manager.jobtap-stats",
        "job-manager.jobtap-schema",
        "job-manager.jobtap-shadow",
        "job-manager.jobtap-shadow-load",
        "job-manager.jobtap-promote",
        "job-manager.jobtap-demote",
        "job-manager.events-journal",
        "resource.journal",
        "log.dmesg",
        "kvs.dump",
    ];
    for topic in topics {
        let payload = json!({"name": "x", "file": "/x"});
        let error = refusal(topic, &payload, GUEST);
        assert_eq!(error, RpcError::new(EPERM, "Request requires owner credentials"), "{topic}");
        assert!(admit(topic, &payload, OWNER).is_ok(), "{topic}");
    }
}

#[test]
fn only_the_owner_runs_commands_on_nodes() {
    for (topic, payload) in [
        ("rexec.exec", json!({"rank": 1, "cmd": {"cmdline": ["id"], "cwd": "/"}})),
        ("rexec.write", json!({"key": 1, "eof": true})),
        ("rexec.kill", json!({"key": 1, "signum": 9})),
    ] {
        let error = refusal(topic, &payload, GUEST);
        assert_eq!(error, RpcError::new(EPERM, "Request requires owner credentials"), "{topic}");
        assert!(admit(topic, &payload, OWNER).is_ok(), "{topic}");
    }
}

#[test]
fn only_the_owner_adds_a_service_or_asks_one_of_a_program() {
    for (topic, payload) in [
        ("service.add", json!({"service": "storage"})),
        ("service.respond", json!({"to": 7, "payload": {}})),
    ] {
        let error = refusal(topic, &payload, GUEST);
        assert_eq!(error, RpcError::new(EPERM, "Request requires owner credentials"), "{topic}");
        assert!(admit(topic, &payload, OWNER).is_ok(), "{topic}");
    }
    assert!(OF_PROGRAMS.check(GUEST, false).is_err() && OF_PROGRAMS.check(OWNER, false).is_ok());
    // A program can't take the place of the manager, nor that of a plugin.
    for name in ["job-manager", "job-list", "kvs", "service"] {
        assert!(Row::is_of_manager(name), "{name}");
    }
    assert!(!Row::is_of_manager("storage"));
}

#[test]
fn statistics_of_all_jobs_are_refused_where_jobs_are_hidden() {
    for topic in [
        "job-manager.stats-get",
        "job-manager.getinfo",
        "job-list.job-stats",
        "job-list.changes",
        "job-list.users",
        "job-manager.alloc-query",
        "job-manager.housekeeping.list",
    ] {
        let row = Row::of_topic(topic).unwrap();
        assert_eq!(row.check(GUEST, true).unwrap_err(), RpcError::new(EPERM, ""), "{topic}");
        assert!(row.check(GUEST, false).is_ok());
    }
}

#[test]
fn the_job_of_a_request_is_where_its_type_has_it() {
    let job = |topic, payload| admit(topic, &payload, GUEST).unwrap().job();
    let id = Some(JobId::new(5));
    assert_eq!(job("job-manager.kill", json!({"id": 5, "signum": 9})), id);
    assert_eq!(job("job-exec.override", json!({"jobid": 5, "event": "start"})), id);
    assert_eq!(job("job-manager.limits.why", json!(5)), id);
    assert_eq!(job("job-manager.licenses.list", json!({"id": 5})), None);
}

#[test]
fn changes_are_recorded_and_reads_are_not() {
    let recorded = |topic, payload: Value| admit(topic, &payload, OWNER).unwrap().change();
    let purge = |force| json!({"age_limit": 0.0, "num_limit": 0, "batch": 1, "force": force});
    assert!(recorded("job-manager.jobtap", json!({})).is_none());
    assert!(recorded("job-manager.jobtap", json!({"load": "x"})).is_some());
    assert!(recorded("job-manager.purge", purge(false)).is_none());
    assert!(recorded("job-manager.purge", purge(true)).is_some());
    let raise = json!({"id": 1, "type": "cancel", "severity": 0});
    assert!(recorded("job-manager.raise", raise).is_none());
}

#[test]
fn a_bad_field_is_named() {
    let error = refusal("job-manager.raise", &json!({"id": 1, "severity": 0}), OWNER);
    assert_eq!(error, RpcError::new(EPROTO, "job-manager.raise: 'type' is missing"));
    let payload = json!({"id": 1, "urgency": "high"});
    let error = refusal("job-manager.urgency", &payload, OWNER);
    assert!(error.text.starts_with("job-manager.urgency: 'urgency': "), "{}", error.text);
    let error = refusal("job-manager.kill", &json!(null), OWNER);
    assert_eq!(error.text, "job-manager.kill: 'id' is missing");
    let error = refusal("job-manager.kill", &json!({"signum": "x", "id": null}), OWNER);
    assert_eq!(error.text, "job-manager.kill: 'id' is missing");
}

#[test]
fn updates_are_an_object() {
    let payload = json!({"id": 1, "updates": {"attributes.system.duration": 60}});
    assert_eq!(decode::<Update>(&payload).unwrap().updates.len(), 1);
    let error = decode::<Update>(&json!({"id": 1, "updates": [1]})).unwrap_err();
    assert!(error.text.starts_with("job-manager.update: 'updates': "));
}

#[test]
fn a_note_may_be_left_out() {
    let raise: Raise = decode(&json!({"id": 1, "type": "cancel", "severity": 0})).unwrap();
    assert_eq!(raise, Raise::cancel(JobId::new(1), ""));
}

#[test]
fn all_users_is_minus_one_as_in_flux() {
    for (given, expected) in [(-1, None), (i64::from(u32::MAX), None), (7, Some(Uid::new(7)))] {
        let payload = json!({"dry_run": false, "userid": given, "states": 62, "severity": 0, "type": "cancel"});
        assert_eq!(user(decode::<RaiseAll>(&payload).unwrap().userid), expected);
    }
}

#[test]
fn any_job_is_waited_for_by_no_id_or_by_all_bits() {
    let wait = |payload: Value| decode::<Wait>(&payload).unwrap().job();
    for any in [json!({}), json!({"id": null}), json!({"id": -1}), json!({"id": u64::MAX})] {
        assert_eq!(wait(any), Ok(None));
    }
    assert_eq!(wait(json!({"id": 7})), Ok(Some(JobId::new(7))));
    assert_eq!(wait(json!({"id": []})), Err(RpcError::new(EPROTO, "malformed wait request")));
}

#[test]
fn names_of_events_are_an_object() {
    let wanted = |payload: Value| {
        events_journal::Wanted::from_request(decode::<EventsJournal>(&payload).unwrap())
    };
    assert!(wanted(json!({"allow": {"submit": 1}, "deny": null})).is_ok());
    let error = wanted(json!({"deny": ["submit"]})).unwrap_err();
    assert_eq!(error.text, "job-manager.events deny should be an object");
}

#[test]
fn a_malformed_limit_of_a_list_counts_as_not_given() {
    let list: List = decode(&json!({"max_entries": "5", "since": [], "attrs": 7})).unwrap();
    assert_eq!(list, List::default());
    assert_eq!(decode::<List>(&json!("x")).unwrap(), List::default());
}

/// Asserts that the type of a response reads what the engine returns, and has no other keys.
fn reads<S: Service>(raw: &Value) {
    let answer =
        S::Response::deserialize(raw).unwrap_or_else(|error| panic!("{}: {error}", S::TOPIC));
    contains(S::TOPIC, raw, &serde_json::to_value(answer).unwrap());
}

fn contains(place: &str, raw: &Value, typed: &Value) {
    match (raw, typed) {
        (Value::Object(raw), Value::Object(typed)) => {
            // To an optional field, a missing value and `null` are the same.
            for (key, typed) in typed.iter().filter(|(_, typed)| !typed.is_null()) {
                let place = format!("{place}: {key}");
                contains(&place, raw.get(key).unwrap_or_else(|| panic!("{place}")), typed);
            }
        }
        (Value::Array(raw), Value::Array(typed)) => {
            assert_eq!(raw.len(), typed.len(), "{place}");
            raw.iter().zip(typed).for_each(|(raw, typed)| contains(place, raw, typed));
        }
        (raw, typed) if raw.is_number() => assert_eq!(raw.as_f64(), typed.as_f64(), "{place}"),
        (raw, typed) => assert_eq!(raw, typed, "{place}"),
    }
}

#[test]
fn the_types_of_responses_read_what_the_engine_returns() {
    let config = json!({
        "queues": {"batch": {"policy": {"limits": {"duration": "1h"}}}, "debug": {}},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "batch"}}}},
        "resource": {"maintenance": [{"nodes": "0", "from": 10.0, "to": 20.0, "reason": "disks"}]},
    });
    let setup = Setup {
        owner: Uid::new(0),
        resources: ResourceSet::single_host("host", Idset::from_iter([0, 1])).unwrap(),
        config,
        config_directory: None,
        registry: Registry::default(),
        remote: Arc::new(NoReturn),
        ticks: Ticks::default(),
        host_check: HostCheck::default(),
    };
    let mut engine = Engine::new(Timestamp::from_secs(2.0), setup).unwrap();
    let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
    let submission = Submission {
        signed: request::unsigned(OWNER.userid.as_u32(), jobspec.value().to_string()),
        jobspec,
        urgency: 16,
        flags: Flags::WAITABLE.bits(),
        elements: None,
    };
    let requests = [
        Request::Submit(Box::new(submission)),
        Request::QueueStart {
            target: Target { name: Some("batch".to_owned()), all: false },
            start: false,
            reason: Some("repair".to_owned()),
            nocheckpoint: false,
        },
        Request::Nodes(NodeRequest::Drain {
            targets: "0".to_owned(),
            reason: Some("disks".to_owned()),
            mode: DrainMode::New,
        }),
    ];
    for request in requests {
        ask(&mut engine, request);
    }
    reads::<queue::List>(&engine.queue_names());
    reads::<queue::GetStatus>(&engine.queue_status(Some("batch")).unwrap());
    reads::<queue::GetOverview>(&engine.queue_overview());
    reads::<queue::AllocQuery>(&engine.alloc_query());
    reads::<job_manager::GetInfo>(&engine.getinfo());
    reads::<job_list::GetStats>(&engine.job_stats());
    reads::<resource::GetStatus>(&engine.resource_status());
    reads::<resource::GetSchedStatus>(&engine.sched_resource_status());
    let status = resource::Status::deserialize(engine.resource_status()).unwrap();
    assert_eq!((status.drain.len(), status.maintenance.len()), (1, 1));
    let id = engine.active_jobs()[0];
    reads::<job_list::ListId>(&engine.list_id(id).unwrap());
    reads::<job_manager::Why>(&engine.why(id, OWNER).unwrap());
    reads::<job_manager::SetUrgency>(&ask(&mut engine, Request::Urgency { id, urgency: 20 }));
    let cancel = || RaisedException::new("cancel", 0, "no more");
    let exception = cancel();
    let (dry_run, userid, states) = (true, None, StateSet::ACTIVE);
    let raise = Request::RaiseAll { dry_run, userid, states, exception };
    reads::<RaiseAll>(&ask(&mut engine, raise));
    let kill = Request::KillAll { dry_run, userid, signum: 15 };
    reads::<job_manager::KillAll>(&ask(&mut engine, kill));
    reads::<queue::Idle>(&ask(&mut engine, Request::Idle));
    let maintenance = NodeRequest::AddMaintenance {
        targets: "0".to_owned(),
        from: Some(100.0),
        to: None,
        reason: "disks".to_owned(),
    };
    reads::<resource::AddMaintenance>(&ask(&mut engine, Request::Nodes(maintenance)));
    ask(&mut engine, Request::Raise { id, exception: cancel() });
    reads::<Wait>(&ask(&mut engine, Request::Wait { id: Some(id) }));
    let (age_limit, num_limit, batch) = (-1.0, 0, 100);
    let purge = Request::Purge { age_limit, num_limit, batch, force: false };
    reads::<job_manager::Purge>(&ask(&mut engine, purge));
    reads::<job_manager::PurgeId>(&ask(&mut engine, Request::PurgeId { id, force: true }));
    // Last, since its stream has the events of later requests.
    reads::<resource::Journal>(&ask(&mut engine, Request::Nodes(NodeRequest::Journal)));
}

/// The first response of the engine to a request.
fn ask(engine: &mut Engine, request: Request) -> Value {
    let input = Input::Request { reply: ReplyTo(1), cred: OWNER, request };
    let effects = engine.handle(Timestamp::from_secs(3.0), input);
    let response = effects.after.into_iter().find_map(|effect| match effect {
        Effect::Reply { result, .. } => Some(result.unwrap()),
        Effect::Respond { payload, .. } => Some(payload),
        _ => None,
    });
    response.unwrap()
}

proptest! {
    #[test]
    fn a_refused_payload_is_refused_in_words(id in any::<i64>(), text in ".*") {
        let payload = json!({
            "id": id, "type": text, "severity": id, "userid": id, "states": id, "dry_run": true,
            "signum": id, "urgency": id, "load": text, "keys": [text], "path": text, "flags": id, "name": text, "conf": text, "updates": text,
            "memo": {text.as_str(): id}, "age_limit": id, "num_limit": id, "batch": id, "force": true,
        });
        for payload in [payload, json!(text)] {
            for row in rows() {
                let body = Body::of_payload(&payload).unwrap();
                if let Err(error) = (row.decode)(row.topic, body) {
                    prop_assert!(error.errno > 0 && !error.text.is_empty(), "{:?}", error);
                }
            }
        }
    }
}
