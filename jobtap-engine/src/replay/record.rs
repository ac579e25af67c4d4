//! What plugins can have asked for, as the events of a job record it, in the same words as their
//! commands.

use crate::eventlog::{Context, Event, EventEntry, Name, Raised};
use crate::job::{JobId, Timestamp};
use crate::transcript::{Action, Kind};

/// One thing that an event records.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The place of the event in the log.
    pub(super) place: usize,
    pub(super) time: Timestamp,
    /// The name of the event.
    pub(super) event: String,
    pub(super) action: Action,
    /// Only plugins ask for this, so one of the loaded ones should.
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

/// What the events of a log record. An event that lacks something records nothing.
pub(super) fn recorded(id: JobId, log: &[&EventEntry]) -> Vec<Recorded> {
    let accepted = log.iter().position(|entry| entry.name == Name::Validate).unwrap_or(0);
    let mut all = Vec::new();
    for (place, entry) in log.iter().enumerate() {
        // Users and the manager change a job only after it was accepted.
        let is_early = place < accepted;
        let Ok(event) = entry.event() else { continue };
        says(&event, |kind, text, only_plugins| {
            all.push(Recorded {
                place,
                time: entry.timestamp,
                event: entry.name.to_string(),
                action: Action { kind, job: Some(id), text },
                is_of_plugins: only_plugins || is_early,
                used: false,
            });
        });
    }
    all
}

/// Whether eventlogs record what a plugin asks for.
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

/// Adds what an event records, in the words of commands.
fn says(event: &Event<'_>, mut add: impl FnMut(Kind, String, bool)) {
    match event {
        Event::DependencyAdd { description } => {
            add(Kind::Dependency, format!("adds {description}"), true);
        }
        Event::DependencyRemove { description } => {
            add(Kind::Dependency, format!("removes {description}"), false);
        }
        Event::PrologStart { description } => {
            add(Kind::Prolog, format!("starts {description}"), true);
        }
        Event::EpilogStart { description } => {
            add(Kind::Epilog, format!("starts {description}"), true);
        }
        Event::PrologFinish { description, status } => {
            add(Kind::Prolog, finishes(description, i64::from(*status)), false);
        }
        Event::EpilogFinish { description, status } => {
            add(Kind::Epilog, finishes(description, i64::from(*status)), false);
        }
        Event::Exception(Raised { kind, severity, note, .. }) => {
            let is_own = !COMMON_EXCEPTIONS.contains(kind);
            add(Kind::Exception, format!("{kind}, severity {severity}: {note}"), is_own);
        }
        Event::JobspecUpdate(updates) => {
            for (path, value) in updates.iter() {
                add(Kind::Jobspec, format!("{path} = {value}"), false);
            }
        }
        Event::Priority { priority } => add(Kind::Priority, priority.to_string(), false),
        Event::Urgency { urgency, .. } => add(Kind::Urgency, urgency.to_string(), false),
        Event::ResourceUpdate { expiration } => {
            add(Kind::Expiration, expiration.to_string(), false);
        }
        Event::Memo(memo) => add(Kind::Memo, json_of(memo), false),
        Event::SetFlags(flags) => {
            for flag in flags {
                add(Kind::Flag, flag.name().to_owned(), false);
            }
        }
        // A debug event that only Flux has.
        Event::Other { name, .. } if name.starts_with("debug.") => {}
        Event::Other { name, context } => {
            let context = context.map(|context| format!(" {}", json_of(context)));
            add(Kind::Event, format!("{name}{}", context.unwrap_or_default()), true);
        }
        // No plugin asks for these.
        Event::Submit(_)
        | Event::Validate
        | Event::Invalidate
        | Event::Depend
        | Event::Alloc(_)
        | Event::Start
        | Event::Finish { .. }
        | Event::Release { .. }
        | Event::Free
        | Event::Clean
        | Event::FluxRestart
        | Event::Annotations(_)
        | Event::DebugAllocRequest
        | Event::DebugStartRequest
        | Event::DebugExecReattachStart
        | Event::DebugExecReattachFinish
        | Event::Requeue { .. } => {}
    }
}

fn json_of(context: &Context) -> String {
    serde_json::to_string(context).unwrap_or_default()
}

/// The text that says that a prolog or epilog finishes.
pub(super) fn finishes(description: &str, status: i64) -> String {
    format!("finishes {description} with {status}")
}
