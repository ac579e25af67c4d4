//! The events of RFC 21 that the manager posts, each with its context.

use std::borrow::Cow;

use serde_json::{Map, Value, json};

use crate::eventlog::{Context, EventEntry};
use crate::job::{Timestamp, Uid, Urgency};
use crate::resource::Idset;

/// An event without context.
pub(super) fn bare(now: Timestamp, name: &'static str) -> EventEntry {
    EventEntry { timestamp: now, name: name.into(), context: None }
}

/// An event whose context is complete.
pub(super) fn with_context(
    now: Timestamp,
    name: impl Into<Cow<'static, str>>,
    context: Option<Map<String, Value>>,
) -> EventEntry {
    EventEntry::new(now, name, context)
}

/// An event with these keys, in this order.
pub(super) fn with<const N: usize>(
    now: Timestamp,
    name: &'static str,
    context: [(&'static str, Value); N],
) -> EventEntry {
    EventEntry { timestamp: now, name: name.into(), context: Some(context.into()) }
}

pub(super) fn submit(now: Timestamp, userid: Uid, urgency: Urgency, flags: u32) -> EventEntry {
    with(
        now,
        "submit",
        [
            ("userid", json!(userid.0)),
            ("urgency", json!(urgency.value())),
            ("flags", json!(flags)),
            ("version", json!(1)),
        ],
    )
}

pub(super) fn dependency(now: Timestamp, name: &'static str, description: &str) -> EventEntry {
    with(now, name, [("description", json!(description))])
}

pub(super) fn priority(now: Timestamp, priority: u32) -> EventEntry {
    with(now, "priority", [("priority", json!(priority))])
}

pub(super) fn urgency(now: Timestamp, userid: Uid, urgency: Urgency) -> EventEntry {
    with(now, "urgency", [("userid", json!(userid.0)), ("urgency", json!(urgency.value()))])
}

/// The context has all [annotations](annotations) that the job has at that moment, those of its user included.
pub(super) fn alloc(now: Timestamp, context: Option<Context>) -> EventEntry {
    EventEntry { timestamp: now, name: "alloc".into(), context }
}

pub(super) fn perilog_start(now: Timestamp, name: &'static str, description: &str) -> EventEntry {
    with(now, name, [("description", json!(description))])
}

pub(super) fn perilog_finish(
    now: Timestamp,
    name: &'static str,
    description: &str,
    status: i32,
) -> EventEntry {
    with(now, name, [("description", json!(description)), ("status", json!(status))])
}

pub(super) fn exception(
    now: Timestamp,
    kind: &str,
    severity: u8,
    note: &str,
    userid: Uid,
) -> EventEntry {
    with(
        now,
        "exception",
        [
            ("type", json!(kind)),
            ("severity", json!(severity)),
            ("note", json!(note)),
            ("userid", json!(userid.0)),
        ],
    )
}

/// In the context of an exception: the status with which the job's tasks end for this reason.
pub(super) const WAIT_STATUS: &str = "wait_status";

/// An exception that says with which status the job's tasks end, beside its severity.
pub(super) fn deciding_exception(
    now: Timestamp,
    kind: &str,
    (severity, wait_status): (u8, i32),
    note: &str,
    userid: Uid,
) -> EventEntry {
    let mut entry = exception(now, kind, severity, note, userid);
    if let Some(context) = &mut entry.context {
        context.push(WAIT_STATUS, json!(wait_status));
    }
    entry
}

pub(super) fn finish(now: Timestamp, status: i32) -> EventEntry {
    with(now, "finish", [("status", json!(status))])
}

pub(super) fn release(now: Timestamp) -> EventEntry {
    with(now, "release", [("ranks", json!("all")), ("final", json!(true))])
}

/// The release of some of the job's ranks, before the rest.
pub(super) fn release_of(now: Timestamp, ranks: &Idset) -> EventEntry {
    with(now, "release", [("ranks", json!(ranks.to_string())), ("final", json!(false))])
}

pub(super) fn set_flags(now: Timestamp, flag: &str) -> EventEntry {
    with(now, "set-flags", [("flags", json!([flag]))])
}

/// All annotations of the job, for watchers. The context is what [`Annotations::show`](crate::job::Annotations::show)
/// returns.
pub(super) fn annotations(now: Timestamp, context: Context) -> EventEntry {
    EventEntry { timestamp: now, name: ANNOTATIONS.into(), context: Some(context) }
}

/// The one event that watchers of all jobs see and that is not in any eventlog (RFC 21).
pub(super) const ANNOTATIONS: &str = "annotations";

/// An allocation that a plugin made instead of the scheduler.
pub(super) fn alloc_bypass(now: Timestamp) -> EventEntry {
    with(now, "alloc", [("bypass", json!(true))])
}

/// A value in the context of an event.
pub(super) fn field<'e>(entry: &'e EventEntry, key: &str) -> Option<&'e Value> {
    entry.context.as_ref()?.get(key)
}

/// The text under a key of an event's context, or an empty text if the key is missing.
pub(super) fn text_field<'e>(entry: &'e EventEntry, key: &str) -> &'e str {
    field(entry, key).and_then(Value::as_str).unwrap_or_default()
}
