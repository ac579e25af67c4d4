//! What requests are taken for, and who may send them.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::rpc::errno::EPROTO;

const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };
const GUEST: Cred = Cred { userid: Uid::new(1001), owner: false };

#[test]
fn an_unknown_topic_is_named() {
    let error = decode("kvs.commit", &json!({}), OWNER).unwrap_err();
    assert_eq!(error.errno, ENOSYS);
    assert_eq!(error.text, "Unknown service method 'kvs.commit'");
}

#[test]
fn what_the_manager_does_not_know_a_plugin_may_know() {
    match decode("job-manager.limits.mine", &json!({"n": 1}), GUEST).unwrap() {
        Call::Service(service) => {
            assert_eq!(service.topic, "job-manager.limits.mine");
            assert_eq!(service.payload, json!({"n": 1}));
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn guests_read_neither_the_configuration_nor_what_plugins_cost() {
    let topics = [
        "config.get",
        "config.load",
        "config.reload",
        "job-manager.jobtap-stats",
        "job-manager.jobtap-schema",
    ];
    for topic in topics {
        let payload = json!({"name": "x"});
        assert_eq!(decode(topic, &payload, GUEST).unwrap_err().errno, EPERM, "{topic}");
        assert!(decode(topic, &payload, OWNER).is_ok(), "{topic}");
    }
}

#[test]
fn updates_are_a_table() {
    let payload = json!({"id": 1, "updates": {"attributes.system.duration": 60}});
    assert!(matches!(
        decode("job-manager.update", &payload, GUEST),
        Ok(Call::Engine(Request::Update { updates, .. })) if updates.len() == 1
    ));
    let error = decode("job-manager.update", &json!({"id": 1, "updates": [1]}), OWNER);
    assert!(error.unwrap_err().text.starts_with("job-manager.update: 'updates': "));
}

#[test]
fn a_bad_field_is_named() {
    let error = decode("job-manager.raise", &json!({"id": 1, "severity": 0}), OWNER).unwrap_err();
    assert_eq!(error.errno, EPROTO);
    assert_eq!(error.text, "job-manager.raise: 'type' is missing");
    let payload = json!({"id": 1, "urgency": "high"});
    let error = decode("job-manager.urgency", &payload, OWNER).unwrap_err();
    assert!(error.text.starts_with("job-manager.urgency: 'urgency': "), "{}", error.text);
    let error = decode("job-manager.kill", &json!(null), OWNER).unwrap_err();
    assert_eq!(error.text, "job-manager.kill: 'id' is missing");
}

#[test]
fn all_users_is_minus_one_as_in_flux() {
    for (given, expected) in
        [(json!(-1), None), (json!(u32::MAX), None), (json!(7), Some(Uid::new(7)))]
    {
        let payload = json!({"dry_run": false, "userid": given, "states": 62, "severity": 0, "type": "cancel"});
        match decode("job-manager.raiseall", &payload, OWNER).unwrap() {
            Call::Engine(Request::RaiseAll { userid, exception, .. }) => {
                assert_eq!(userid, expected);
                assert_eq!(exception.note, "");
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
fn any_job_is_waited_for_by_no_id_or_by_all_bits() {
    let wait = |payload: Value| decode("job-manager.wait", &payload, OWNER);
    for any in [json!({}), json!({"id": null}), json!({"id": -1}), json!({"id": u64::MAX})] {
        let call = wait(any).unwrap();
        assert!(matches!(call, Call::Waiting(Request::Wait { id: None })), "{call:?}");
    }
    let one = wait(json!({"id": 7})).unwrap();
    assert!(matches!(one, Call::Waiting(Request::Wait { id: Some(id) }) if id.as_u64() == 7));
    let error = wait(json!({"id": []})).unwrap_err();
    assert_eq!((error.errno, error.text.as_str()), (EPROTO, "malformed wait request"));
}

#[test]
fn plugins_are_listed_for_the_owner_only() {
    let list = |cred| decode("job-manager.jobtap", &json!({"query_only": true}), cred);
    assert!(matches!(list(OWNER), Ok(Call::Read(Read::Plugins))));
    assert_eq!(list(GUEST).unwrap_err().text, "Request requires owner credentials");
}

#[test]
fn the_watched_paths_are_those_of_flux() {
    let path = |name: &str| match decode(
        "job-info.eventlog-watch",
        &json!({"id": 1, "path": name}),
        OWNER,
    ) {
        Ok(Call::Watch(watch)) => watch.path,
        other => panic!("{other:?}"),
    };
    assert_eq!(path("eventlog"), Path::Main);
    assert_eq!(path("guest.exec.eventlog"), Path::Exec);
    assert_eq!(path("guest.output"), Path::Output);
    assert_eq!(path("nosuch"), Path::Unknown("nosuch".into()));
}

proptest! {
    #[test]
    fn a_refused_payload_is_refused_in_words(id in any::<i64>(), text in ".*", which in 0usize..16) {
        let topics = [
            "job-manager.raise", "job-manager.raiseall", "job-manager.kill", "job-manager.urgency",
            "job-manager.jobtap", "job-info.lookup", "job-info.eventlog-watch",
            "job-manager.update", "job-manager.jobtap-query", "job-manager.jobtap-reload", "job-manager.x", "job-manager.wait",
            "job-manager.memo", "job-manager.purge", "job-manager.purge-id", "job-manager.killall",
        ];
        let payload = json!({
            "id": id, "type": text, "severity": id, "userid": id, "states": id, "dry_run": true,
            "signum": id, "urgency": id, "load": text, "keys": [text], "path": text, "flags": id, "name": text, "conf": text, "updates": text,
            "memo": {text.as_str(): id}, "age_limit": id, "num_limit": id, "batch": id, "force": true,
        });
        for payload in [payload, json!(text)] {
            if let Err(error) = decode(topics[which], &payload, GUEST) {
                prop_assert!(error.errno > 0 && !error.text.is_empty(), "{:?}", error);
            }
        }
    }
}
