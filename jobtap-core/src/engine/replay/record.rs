//! The events of a job as what plugins can have asked for, in the same words as their commands.

use serde_json::Value;

use crate::engine::dispatch::answer::{Kind, Said};
use crate::engine::events::{field, text_field};
use crate::eventlog::{EventEntry, KNOWN_EVENTS};
use crate::job::{JobId, Timestamp};

/// One thing that an event records.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The place of the event in the log.
    pub(super) place: usize,
    pub(super) time: Timestamp,
    /// The name of the event.
    pub(super) event: String,
    pub(super) said: Said,
    /// Only plugins ask for this, so that one of them should.
    pub(super) is_of_plugins: bool,
    /// A plugin has asked for it.
    pub(super) used: bool,
}

/// The exceptions that the manager and users raise too.
const COMMON_EXCEPTIONS: [&str; 9] = [
    "alloc",
    "cancel",
    "epilog",
    "exec",
    "node-failure",
    "prolog",
    "scheduler-restart",
    "shutdown",
    "timeout",
];

/// What the events of a log record.
pub(super) fn recorded(id: JobId, log: &[&EventEntry]) -> Vec<Recorded> {
    let accepted = log.iter().position(|entry| entry.name == "validate").unwrap_or(0);
    let mut all = Vec::new();
    for (place, entry) in log.iter().enumerate() {
        // Users and the manager change a job only after it was accepted.
        let is_early = place < accepted;
        says(entry, |kind, text, only_plugins| {
            all.push(Recorded {
                place,
                time: entry.timestamp,
                event: entry.name.to_string(),
                said: Said { kind, job: Some(id), text },
                is_of_plugins: only_plugins || is_early,
                used: false,
            });
        });
    }
    all
}

/// Whether eventlogs tell of what a plugin asks for.
pub(super) const fn is_logged(kind: Kind) -> bool {
    matches!(
        kind,
        Kind::Priority
            | Kind::Dependency
            | Kind::Jobspec
            | Kind::Exception
            | Kind::Prolog
            | Kind::Epilog
            | Kind::Urgency
            | Kind::Expiration
            | Kind::Memo
            | Kind::Flag
            | Kind::Event
    )
}

fn says(entry: &EventEntry, mut add: impl FnMut(Kind, String, bool)) {
    let description = || text_field(entry, "description");
    let context = entry.context.as_ref();
    match &*entry.name {
        "dependency-add" => add(Kind::Dependency, format!("adds {}", description()), true),
        "dependency-remove" => add(Kind::Dependency, format!("removes {}", description()), false),
        "prolog-start" => add(Kind::Prolog, format!("starts {}", description()), true),
        "epilog-start" => add(Kind::Epilog, format!("starts {}", description()), true),
        "prolog-finish" => add(Kind::Prolog, finishes(description(), status(entry)), false),
        "epilog-finish" => add(Kind::Epilog, finishes(description(), status(entry)), false),
        "exception" => {
            if let Some(raised) = entry.exception() {
                let (kind, severity, note) = (raised.kind, raised.severity, raised.note);
                let is_own = !COMMON_EXCEPTIONS.contains(&kind);
                add(Kind::Exception, format!("{kind}, severity {severity}: {note}"), is_own);
            }
        }
        "jobspec-update" => {
            for (path, value) in context.into_iter().flat_map(|context| context.iter()) {
                add(Kind::Jobspec, format!("{path} = {value}"), false);
            }
        }
        "priority" => {
            if let Some(priority) = field(entry, "priority") {
                add(Kind::Priority, priority.to_string(), false);
            }
        }
        "urgency" => {
            if let Some(urgency) = field(entry, "urgency") {
                add(Kind::Urgency, urgency.to_string(), false);
            }
        }
        "resource-update" => {
            if let Some(at) = field(entry, "expiration").and_then(Value::as_f64) {
                add(Kind::Expiration, at.to_string(), false);
            }
        }
        "memo" => add(Kind::Memo, json_of(entry), false),
        "set-flags" => {
            let flags = field(entry, "flags").and_then(Value::as_array);
            for flag in flags.into_iter().flatten().filter_map(Value::as_str) {
                add(Kind::Flag, flag.to_owned(), false);
            }
        }
        name if !KNOWN_EVENTS.contains(&name) && !is_of_flux(name) => {
            let context = context.map(|_| format!(" {}", json_of(entry)));
            add(Kind::Event, format!("{name}{}", context.unwrap_or_default()), true);
        }
        _ => {}
    }
}

/// `debug.*` are events of Flux's own, which jobs with the flag `debug` have.
fn is_of_flux(name: &str) -> bool {
    name.starts_with("debug.")
}

fn json_of(entry: &EventEntry) -> String {
    entry
        .context
        .as_ref()
        .and_then(|context| serde_json::to_string(context).ok())
        .unwrap_or_default()
}

fn status(entry: &EventEntry) -> i64 {
    field(entry, "status").and_then(Value::as_i64).unwrap_or_default()
}

/// That a prolog or epilog finishes.
pub(super) fn finishes(description: &str, status: i64) -> String {
    format!("finishes {description} with {status}")
}
