use proptest::prelude::*;
use serde_json::{Map, json};

use super::*;
use crate::eventlog::decode_log;

const AT: Timestamp = Timestamp(1_700_000_000.25);

fn entry(name: &str, context: Value) -> EventEntry {
    EventEntry::new(AT, name.to_owned(), context.as_object().cloned())
}

/// Each event with the line that existing eventlogs have for it.
#[test]
fn each_event_has_the_text_that_it_always_had() {
    let (userid, urgency) = (Uid(1001), Urgency::new(16).unwrap());
    let submitted = Submitted { userid, urgency, flags: Flags::DEBUG, is_versioned: true };
    let raised =
        Raised { kind: "cancel", severity: 0, note: "", userid: Some(userid), wait_status: None };
    let updates = Context::from([("attributes.system.duration", 60.into())]);
    let annotations = Context::from([("annotations", json!({"sched": {"a": 1}}))]);
    let memo = Context::from([("uri", "x".into()), ("old", Value::Null)]);
    let description = "a=1";
    let all = [
        (
            Event::Submit(submitted),
            r#""submit","context":{"userid":1001,"urgency":16,"flags":2,"version":1}"#,
        ),
        (Event::Validate, r#""validate""#),
        (Event::Invalidate, r#""invalidate""#),
        (
            Event::DependencyAdd { description },
            r#""dependency-add","context":{"description":"a=1"}"#,
        ),
        (
            Event::DependencyRemove { description },
            r#""dependency-remove","context":{"description":"a=1"}"#,
        ),
        (Event::Depend, r#""depend""#),
        (Event::Priority { priority: 5 }, r#""priority","context":{"priority":5}"#),
        (
            Event::Urgency { userid: Some(userid), urgency },
            r#""urgency","context":{"userid":1001,"urgency":16}"#,
        ),
        (
            Event::JobspecUpdate(&updates),
            r#""jobspec-update","context":{"attributes.system.duration":60}"#,
        ),
        (
            Event::ResourceUpdate { expiration: 2.5 },
            r#""resource-update","context":{"expiration":2.5}"#,
        ),
        (
            Event::Alloc(Allocated { annotations: Some(&annotations), bypass: false }),
            r#""alloc","context":{"annotations":{"sched":{"a":1}}}"#,
        ),
        (
            Event::Alloc(Allocated { annotations: None, bypass: true }),
            r#""alloc","context":{"bypass":true}"#,
        ),
        (Event::Alloc(Allocated::default()), r#""alloc""#),
        (Event::PrologStart { description }, r#""prolog-start","context":{"description":"a=1"}"#),
        (
            Event::PrologFinish { description, status: 1 },
            r#""prolog-finish","context":{"description":"a=1","status":1}"#,
        ),
        (Event::Start, r#""start""#),
        (Event::Finish { status: 256 }, r#""finish","context":{"status":256}"#),
        (Event::EpilogStart { description }, r#""epilog-start","context":{"description":"a=1"}"#),
        (
            Event::EpilogFinish { description, status: -1 },
            r#""epilog-finish","context":{"description":"a=1","status":-1}"#,
        ),
        (
            Event::Release { ranks: "all", is_final: true },
            r#""release","context":{"ranks":"all","final":true}"#,
        ),
        (Event::Free, r#""free""#),
        (Event::Clean, r#""clean""#),
        (
            Event::Exception(raised),
            r#""exception","context":{"type":"cancel","severity":0,"note":"","userid":1001}"#,
        ),
        (
            Event::Exception(Raised { wait_status: Some(15), ..raised }),
            r#""exception","context":{"type":"cancel","severity":0,"note":"","userid":1001,"wait_status":15}"#,
        ),
        (Event::Memo(&memo), r#""memo","context":{"uri":"x","old":null}"#),
        (
            Event::SetFlags(vec![JobFlag::Debug, JobFlag::AllocBypass]),
            r#""set-flags","context":{"flags":["debug","alloc-bypass"]}"#,
        ),
        (Event::FluxRestart, r#""flux-restart""#),
        (
            Event::Annotations(&annotations),
            r#""annotations","context":{"annotations":{"sched":{"a":1}}}"#,
        ),
        (Event::DebugAllocRequest, r#""debug.alloc-request""#),
        (Event::DebugStartRequest, r#""debug.start-request""#),
        (Event::DebugExecReattachStart, r#""debug.exec-reattach-start""#),
        (Event::DebugExecReattachFinish, r#""debug.exec-reattach-finish""#),
        (Event::Requeue { id: JobId::new(7) }, r#""requeue","context":{"id":7}"#),
        (
            Event::Other { name: "site.seen", context: Some(&memo) },
            r#""site.seen","context":{"uri":"x","old":null}"#,
        ),
    ];
    for name in Name::KNOWN {
        assert!(all.iter().any(|(event, _)| event.at(AT).name == name), "{name} has no line");
    }
    for (event, text) in all {
        let line = format!("{{\"timestamp\":1700000000.25,\"name\":{text}}}\n");
        assert_eq!(event.at(AT).encode(), line);
        assert_eq!(EventEntry::decode(&line).unwrap().event(), Ok(event));
    }
}

#[test]
fn a_context_that_lacks_something_is_named() {
    for (name, context, text) in [
        ("priority", json!({}), "no number under \"priority\""),
        ("priority", json!({"priority": "5"}), "no number under \"priority\""),
        ("priority", json!({"priority": -1}), "priority is out of range"),
        ("dependency-add", Value::Null, "no text under \"description\""),
        ("finish", json!({"status": 1_i64 << 40}), "status is out of range"),
        ("urgency", json!({"urgency": 32}), "urgency value is out of range"),
        ("set-flags", json!({"flags": ["x"]}), "unknown flag \"x\""),
        ("set-flags", json!({}), "no list under \"flags\""),
        ("jobspec-update", Value::Null, "no context"),
        ("release", json!({"ranks": "all"}), "no true or false under \"final\""),
        ("submit", json!({"version": 2}), "eventlog v2 is unsupported"),
        ("submit", json!({"version": 1}), "no number under \"userid\""),
    ] {
        let error = entry(name, context).event().unwrap_err();
        assert_eq!(error.to_string(), text);
    }
}

#[test]
fn what_flux_may_leave_out_can_be_missing() {
    let bare = entry("exception", json!({"type": "x", "severity": 3}));
    let raised = Raised { kind: "x", severity: 3, note: "", userid: None, wait_status: None };
    assert_eq!(bare.event(), Ok(Event::Exception(raised)));
    assert_eq!(entry("alloc", Value::Null).event(), Ok(Event::Alloc(Allocated::default())));
    assert_eq!(entry("memo", Value::Null).event(), Ok(Event::Memo(&Context::default())));
    let old = entry("submit", json!({"userid": 1, "urgency": 0, "flags": 0}));
    let is_versioned = |event: &Event<'_>| match event {
        Event::Submit(submitted) => submitted.is_versioned,
        _ => unreachable!(),
    };
    assert!(!is_versioned(&old.event().unwrap()));
    assert_eq!(old.event().unwrap().at(AT), old);
}

/// Random values for the members of events. A generated [`Event`] borrows from them.
#[derive(Clone, Debug)]
struct Parts {
    text: String,
    other: String,
    context: Map<String, Value>,
    numbers: (i32, u32),
    seconds: f64,
    userid: Option<u32>,
    truth: bool,
    urgency: i64,
}

fn parts() -> impl Strategy<Value = Parts> {
    let keys = "[a-z]{1,3}|annotations|status|description|type";
    let values =
        prop_oneof![any::<i64>().prop_map(Value::from), any::<String>().prop_map(Value::from)];
    let context = prop::collection::hash_map(keys, values, 0..4);
    (
        any::<(String, (i32, u32), Option<u32>, bool)>(),
        "[a-z.]{0,8}",
        context,
        prop::num::f64::NORMAL,
        0..32_i64,
    )
        .prop_map(|((text, numbers, userid, truth), other, context, seconds, urgency)| Parts {
            text,
            other: format!("site.{other}"),
            context: context.into_iter().collect(),
            numbers,
            seconds,
            userid,
            truth,
            urgency,
        })
}

/// One event of each kind.
fn events<'e>(parts: &'e Parts, context: &'e Context) -> Vec<Event<'e>> {
    let (status, number) = parts.numbers;
    let (description, userid) = (parts.text.as_str(), parts.userid.map(Uid));
    let urgency = Urgency::new(parts.urgency).unwrap();
    // The event of an allocation by a plugin shows no annotations.
    let shows = Some(context).filter(|all| all.contains_key("annotations") && !parts.truth);
    let flags = [Flags::NONE, Flags::DEBUG | Flags::WAITABLE][usize::from(parts.truth)];
    vec![
        Event::Submit(Submitted { userid: Uid(number), urgency, flags, is_versioned: parts.truth }),
        Event::DependencyAdd { description },
        Event::DependencyRemove { description },
        Event::Priority { priority: number },
        Event::Urgency { userid, urgency },
        Event::JobspecUpdate(context),
        Event::ResourceUpdate { expiration: parts.seconds },
        Event::Alloc(Allocated { annotations: shows, bypass: parts.truth }),
        Event::PrologStart { description },
        Event::PrologFinish { description, status },
        Event::Finish { status },
        Event::EpilogStart { description },
        Event::EpilogFinish { description, status },
        Event::Release { ranks: description, is_final: parts.truth },
        Event::Exception(Raised {
            kind: description,
            severity: i64::from(status),
            note: &parts.other,
            userid,
            wait_status: parts.truth.then_some(status),
        }),
        Event::Memo(context),
        Event::SetFlags(vec![JobFlag::Immutable, JobFlag::Debug]),
        Event::Annotations(context),
        Event::Other { name: &parts.other, context: parts.truth.then_some(context) },
    ]
}

proptest! {
    #[test]
    fn an_event_that_is_written_is_read_as_it_was(parts in parts()) {
        let context = Context::from(parts.context.clone());
        for event in events(&parts, &context) {
            let line = event.at(AT).encode();
            let read = EventEntry::decode(&line).unwrap();
            prop_assert_eq!(read.event(), Ok(event));
            prop_assert_eq!(read.encode(), line);
        }
    }

    /// Even an entry with members that its event doesn't have, or one that lacks some.
    #[test]
    fn an_entry_keeps_its_text_whatever_its_event_is(
        parts in parts(),
        known in 0..Name::KNOWN.len() + 1,
        has_context: bool,
    ) {
        let name = Name::KNOWN.get(known).map_or(parts.other.clone(), |name| (*name).to_owned());
        let context = has_context.then_some(parts.context.clone());
        let line = EventEntry::new(AT, name.clone(), context).encode();
        let read = decode_log(&line).unwrap().remove(0);
        prop_assert_eq!(&read.name, &name);
        prop_assert_eq!(read.encode(), line);
        if let Ok(event) = read.event() {
            let rewritten = event.at(AT);
            prop_assert_eq!(&rewritten.name, &read.name);
            prop_assert_eq!(rewritten.event(), Ok(event));
        }
    }
}
