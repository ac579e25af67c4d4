//! Where the answers of a shadow and of the live plugins to one call differ.

use std::collections::BTreeMap;

use crate::engine::dispatch::answer::{Answer, Kind, Said};
use crate::host::{PluginKey, Priority};
use crate::job::JobId;

/// One of both that are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Live,
    Shadow,
}

/// The answer of a live plugin.
#[derive(Debug)]
pub(super) struct LiveAnswer {
    pub(super) plugin: PluginKey,
    pub(super) answer: Answer,
}

/// A call that both have answered.
#[derive(Debug)]
pub(super) struct Compared<'a> {
    pub(super) job: Option<JobId>,
    /// The answers of the live plugins, in their order.
    pub(super) live: &'a [LiveAnswer],
    /// The live plugin of the shadow's name, if it was called.
    pub(super) own: Option<PluginKey>,
    pub(super) shadow: &'a Answer,
    /// A failure refuses.
    pub(super) is_gate: bool,
    /// What is refused since no live plugin supports it; the shadow does.
    pub(super) unsupported: Option<String>,
    /// The priority is not for plugins to decide, because of the job's urgency.
    pub(super) fixed_priority: bool,
}

/// A difference.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Difference {
    pub(super) kind: Kind,
    /// The job that it is about.
    pub(super) job: Option<JobId>,
    pub(super) live: String,
    pub(super) shadow: String,
    /// By how much two priorities differ.
    pub(super) distance: u32,
    /// Which of both refuses what the other accepts.
    pub(super) refuses: Option<Side>,
}

impl Difference {
    pub(super) fn new(kind: Kind, job: Option<JobId>, live: String, shadow: String) -> Self {
        Self { kind, job, live, shadow, distance: 0, refuses: None }
    }
}

/// The differences of one call.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    pub(super) differences: Vec<Difference>,
    /// A verdict is given later, so that it is not compared.
    pub(super) undecided: bool,
}

const ACCEPTS: &str = "accepts";
pub(super) const NOTHING: &str = "-";

/// Compares the answers.
pub(super) fn compare(call: &Compared<'_>) -> Comparison {
    let mut found = Comparison::default();
    compare_verdicts(call, &mut found);
    if !call.fixed_priority {
        found.differences.extend(compare_priorities(call));
    }
    compare_rest(call, &mut found);
    found
}

fn own<'a>(call: &Compared<'a>) -> Option<&'a Answer> {
    let own = |live: &&LiveAnswer| Some(live.plugin) == call.own;
    call.live.iter().find(own).map(|live| &live.answer)
}

/// Compares the shadow's verdict with that of the live plugin of its name. Without one it is compared with a
/// plugin that accepts, since the shadow is called only when all plugins have accepted.
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

/// Compares the priority that the job gets with the one that it would get with the shadow in its place.
fn compare_priorities(call: &Compared<'_>) -> Option<Difference> {
    let last = |priority: Priority, next: Priority| match next {
        Priority::Unchanged => priority,
        next => next,
    };
    let (mut live, mut shadow) = (Priority::Unchanged, Priority::Unchanged);
    for other in call.live {
        live = last(live, other.answer.priority);
        shadow = match Some(other.plugin) == call.own {
            true => last(shadow, call.shadow.priority),
            false => last(shadow, other.answer.priority),
        };
    }
    if own(call).is_none() {
        shadow = last(shadow, call.shadow.priority);
    }
    priorities(call.job?, live, shadow)
}

/// The difference of two priorities.
pub(super) fn priorities(job: JobId, live: Priority, shadow: Priority) -> Option<Difference> {
    if live == shadow {
        return None;
    }
    let distance = match (live, shadow) {
        (Priority::Set(live), Priority::Set(shadow)) => live.abs_diff(shadow),
        // The one lets the job wait for a priority.
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

/// What both have asked for of one kind.
#[derive(Default)]
struct Pair<'a> {
    live: Vec<&'a str>,
    shadow: Vec<&'a str>,
}

/// Compares all that was asked for. What the live plugin of the shadow's name asked for should be asked for by
/// the shadow. Without such a plugin, what another live plugin has asked for makes no difference.
fn compare_rest(call: &Compared<'_>, found: &mut Comparison) {
    let mut live: Vec<&Said> = match own(call) {
        Some(own) => own.said.iter().collect(),
        None => call.live.iter().flat_map(|live| &live.answer.said).collect(),
    };
    let mut more: Vec<&Said> = Vec::new();
    for said in &call.shadow.said {
        match live.iter().position(|other| *other == said) {
            Some(index) => {
                live.remove(index);
            }
            None => more.push(said),
        }
    }
    if own(call).is_none() {
        live.clear();
    }
    let mut pairs: BTreeMap<(Kind, Option<JobId>), Pair<'_>> = BTreeMap::new();
    for said in live {
        pairs.entry((said.kind, said.job)).or_default().live.push(&said.text);
    }
    for said in more {
        pairs.entry((said.kind, said.job)).or_default().shadow.push(&said.text);
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
pub(super) fn alone(said: Vec<Said>) -> Vec<Difference> {
    let difference =
        |Said { kind, job, text }| Difference::new(kind, job, NOTHING.to_owned(), text);
    said.into_iter().map(difference).collect()
}
