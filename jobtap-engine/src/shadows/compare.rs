//! Where the answers of a shadow and of the live plugins to one call differ.

use std::collections::BTreeMap;

use crate::host::PluginKey;
use crate::job::JobId;
use crate::plugin::Priority;
use crate::transcript::{Action, Kind, Transcript};

/// One of the two sides that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Live,
    Shadow,
}

/// The transcript of a live plugin.
#[derive(Debug)]
pub(crate) struct LiveTranscript {
    pub(crate) plugin: PluginKey,
    pub(crate) transcript: Transcript,
}

/// A call that both sides have answered.
#[derive(Debug)]
pub(crate) struct Compared<'a> {
    pub(crate) job: Option<JobId>,
    /// The answers of the live plugins, in their order.
    pub(crate) live: &'a [LiveTranscript],
    /// The live plugin of the shadow's name, if it was called.
    pub(crate) own: Option<PluginKey>,
    pub(crate) shadow: &'a Transcript,
    /// A failure is a refusal.
    pub(crate) is_gate: bool,
    /// The refusal of something that no live plugin supports, but the shadow does.
    pub(crate) unsupported: Option<String>,
    /// The job's urgency decides its priority, and no plugin does.
    pub(crate) fixed_priority: bool,
}

/// A difference.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) kind: Kind,
    /// The job that it is about.
    pub(crate) job: Option<JobId>,
    pub(crate) live: String,
    pub(crate) shadow: String,
    /// By how much two priorities differ.
    pub(crate) distance: u32,
    /// The side that refuses what the other accepts.
    pub(crate) refuses: Option<Side>,
}

impl Difference {
    pub(crate) fn new(kind: Kind, job: Option<JobId>, live: String, shadow: String) -> Self {
        Self { kind, job, live, shadow, distance: 0, refuses: None }
    }
}

/// The differences of one call.
#[derive(Debug, Default)]
pub(crate) struct Comparison {
    pub(crate) differences: Vec<Difference>,
    /// A verdict is given later, so that it is not compared.
    pub(crate) undecided: bool,
}

const ACCEPTS: &str = "accepts";
pub(crate) const NOTHING: &str = "-";

/// Compares the answers.
pub(crate) fn compare(call: &Compared<'_>) -> Comparison {
    let mut found = Comparison::default();
    compare_verdicts(call, &mut found);
    if !call.fixed_priority {
        found.differences.extend(compare_priorities(call));
    }
    compare_rest(call, &mut found);
    found
}

fn own<'a>(call: &Compared<'a>) -> Option<&'a Transcript> {
    let own = |live: &&LiveTranscript| Some(live.plugin) == call.own;
    call.live.iter().find(own).map(|live| &live.transcript)
}

/// Compares the shadow's verdict with the verdict of the live plugin of its name. Without such a plugin it is compared
/// with one that accepts, since the shadow is called only when all plugins have accepted.
fn compare_verdicts(call: &Compared<'_>, found: &mut Comparison) {
    let (shadow, live) = (call.shadow, own(call));
    if shadow.deferred || live.is_some_and(|live| live.deferred) {
        found.undecided = true;
        return;
    }
    let refusal = live.and_then(|live| live.failed.clone()).or_else(|| call.unsupported.clone());
    if refusal.is_some() == shadow.failed.is_some() {
        return;
    }
    let refuses = if refusal.is_some() { Side::Live } else { Side::Shadow };
    let (kind, good, bad, refuses) = match call.is_gate {
        true => (Kind::Verdict, ACCEPTS, "refuses: ", Some(refuses)),
        false => (Kind::Failure, NOTHING, "fails: ", None),
    };
    let text = |failed: &Option<String>| match failed {
        None => good.to_owned(),
        Some(text) => format!("{bad}{text}"),
    };
    let (live, shadow) = (text(&refusal), text(&shadow.failed));
    let difference = Difference::new(kind, call.job, live, shadow);
    found.differences.push(Difference { refuses, ..difference });
}

/// Compares the priority that the job gets with the one that it would get if the shadow were live.
fn compare_priorities(call: &Compared<'_>) -> Option<Difference> {
    let last = |priority: Priority, next: Priority| match next {
        Priority::Unchanged => priority,
        next => next,
    };
    let (mut live, mut shadow) = (Priority::Unchanged, Priority::Unchanged);
    for other in call.live {
        live = last(live, other.transcript.priority);
        shadow = match Some(other.plugin) == call.own {
            true => last(shadow, call.shadow.priority),
            false => last(shadow, other.transcript.priority),
        };
    }
    if own(call).is_none() {
        shadow = last(shadow, call.shadow.priority);
    }
    priorities(call.job?, live, shadow)
}

/// The difference of two priorities.
pub(crate) fn priorities(job: JobId, live: Priority, shadow: Priority) -> Option<Difference> {
    if live == shadow {
        return None;
    }
    let distance = match (live, shadow) {
        (Priority::Set(live), Priority::Set(shadow)) => live.abs_diff(shadow),
        // One of them lets the job wait for a priority.
        _ => u32::MAX,
    };
    let text = |priority| match priority {
        Priority::Set(value) => value.to_string(),
        Priority::Unavailable => "not yet".to_owned(),
        Priority::Unchanged => NOTHING.to_owned(),
    };
    let (live, shadow) = (text(live), text(shadow));
    Some(Difference { distance, ..Difference::new(Kind::Priority, Some(job), live, shadow) })
}

/// What both sides have asked for, of one kind.
#[derive(Default)]
struct Pair<'a> {
    live: Vec<&'a str>,
    shadow: Vec<&'a str>,
}

/// Compares everything that was asked for. The shadow should ask for what the live plugin of its name asks for. Without
/// such a plugin, what another live plugin has asked for makes no difference.
fn compare_rest(call: &Compared<'_>, found: &mut Comparison) {
    let mut live: Vec<&Action> = match own(call) {
        Some(own) => own.actions.iter().collect(),
        None => call.live.iter().flat_map(|live| &live.transcript.actions).collect(),
    };
    let mut more: Vec<&Action> = Vec::new();
    for action in &call.shadow.actions {
        match live.iter().position(|other| *other == action) {
            Some(index) => {
                live.remove(index);
            }
            None => more.push(action),
        }
    }
    if own(call).is_none() {
        live.clear();
    }
    let mut pairs: BTreeMap<(Kind, Option<JobId>), Pair<'_>> = BTreeMap::new();
    for action in live {
        pairs.entry((action.kind, action.job)).or_default().live.push(&action.text);
    }
    for action in more {
        pairs.entry((action.kind, action.job)).or_default().shadow.push(&action.text);
    }
    let text = |texts: Vec<&str>| match texts.is_empty() {
        true => NOTHING.to_owned(),
        false => texts.join(", "),
    };
    found.differences.extend(
        pairs.into_iter().map(|((kind, job), pair)| {
            Difference::new(kind, job, text(pair.live), text(pair.shadow))
        }),
    );
}

/// What a shadow without a live plugin of its name has asked for outside of calls.
pub(crate) fn alone(actions: Vec<Action>) -> Vec<Difference> {
    let difference =
        |Action { kind, job, text }| Difference::new(kind, job, NOTHING.to_owned(), text);
    actions.into_iter().map(difference).collect()
}
