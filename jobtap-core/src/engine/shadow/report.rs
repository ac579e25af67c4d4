//! What is shown of a shadow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::compare::Difference;
use super::record::{KEPT, Kept};
use super::shadows::Shadow;
use crate::engine::api::RequestError;
use crate::engine::core::Core;
use crate::engine::dispatch::answer::Kind;
use crate::engine::dispatch::plugins::Plugins;
use crate::host::errno::ENOENT;
use crate::host::{HandlerEntry, Stack};
use crate::job::{JobId, Timestamp};
use crate::topic::TopicId;

/// What a shadow would have done otherwise than the live plugins.
///
/// Counts begin when the shadow is loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub struct ShadowReport {
    /// The plugin's name.
    pub name: String,
    /// Whether a live plugin of this name is loaded, with which the shadow is compared. Otherwise it is
    /// compared with a manager without it.
    pub live: bool,
    /// When it was loaded, in seconds since the UNIX epoch.
    pub since: f64,
    /// Why it is not called any more.
    pub stopped: Option<String>,
    /// Calls that were compared.
    pub compared: u64,
    /// Calls whose answers differ.
    pub different: u64,
    /// Jobs with a difference.
    pub jobs: u64,
    /// Submissions and updates that only the shadow refuses.
    pub refuses: u64,
    /// Submissions and updates that only live plugins refuse.
    pub accepts: u64,
    /// How many differences there are of each kind, such as `verdict` or `priority`.
    pub kinds: BTreeMap<String, u64>,
    /// Verdicts that are given later: by an asynchronous handler, which a shadow doesn't run.
    pub undecided: u64,
    /// What one of both has asked for outside of calls, such as in a timer, and the other has not yet. It is not
    /// in the counts, since the other may ask for it until the job's end.
    pub open: Vec<ShadowDifference>,
    /// Calls of its handlers, of timers and of services too.
    pub calls: u64,
    /// Calls that returned an error, including refusals.
    pub errors: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Seconds that its calls took, by a clock that ticks every few milliseconds.
    pub seconds: f64,
    /// The priorities that differ most.
    pub worst: Vec<ShadowDifference>,
    /// The users with the most refusals, then the most differences.
    pub users: Vec<ShadowUser>,
    /// The newest differences, the oldest of them first. The same difference of a job is listed once.
    pub differences: Vec<ShadowDifference>,
    /// How many differences are not listed any more.
    pub dropped: u64,
    /// Topics that the plugin handles and at which a shadow is not called.
    pub unseen: Vec<String>,
}

/// A difference.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ShadowDifference {
    /// The job that it is about.
    pub job: Option<JobId>,
    /// The job's user.
    pub user: Option<u32>,
    /// The topic at which the shadow was called; `later` outside of any.
    pub topic: String,
    /// What differs.
    pub kind: String,
    /// What live plugins have answered or asked for; `-` for nothing.
    pub live: String,
    /// What the shadow has.
    pub shadow: String,
    /// How often this differed; the texts are those of the last time.
    pub times: u64,
    /// When it differed last, in seconds since the UNIX epoch.
    pub last: f64,
}

/// What differs for a user.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ShadowUser {
    /// The user.
    pub user: u32,
    /// How many differences there are.
    pub differences: u64,
    /// What only the shadow refuses.
    pub refuses: u64,
    /// What only live plugins refuse.
    pub accepts: u64,
}

/// The topic of what is asked for outside of dispatches.
const LATER: &str = "later";

/// The report on the shadow of this name.
pub(in crate::engine) fn report(core: &Core, name: &str) -> Result<ShadowReport, RequestError> {
    let plugins = &core.plugins;
    let name = name.strip_suffix(".so").unwrap_or(name);
    let shadow = plugins.shadows.find(name).ok_or_else(|| unknown(plugins, name))?;
    Ok(report_of(shadow, &plugins.stack, core.clock.now))
}

/// The error for a name that is not that of a shadow.
pub(super) fn unknown(plugins: &Plugins, name: &str) -> RequestError {
    let text = match plugins.stack.find(name).is_some() {
        true => format!("{name} is live and has no shadow"),
        false => format!("{name}: no shadow of this name is loaded"),
    };
    RequestError::new(ENOENT, text)
}

/// Topics at which a shadow is not called: requests that are passed from plugin to plugin, questions of live
/// plugins, and what is done on nodes only for a live plugin.
fn unseen(shadow: &Shadow, live: &Stack) -> Vec<String> {
    let entries = shadow.plugin.descriptor().handlers.iter();
    let is_unseen = |entry: &&HandlerEntry| match entry.id {
        TopicId::SlurmJobSubmit | TopicId::SlurmJobModify => true,
        TopicId::SlurmPrologSlurmctld
        | TopicId::SlurmProlog
        | TopicId::SlurmEpilogSlurmctld
        | TopicId::SlurmEpilog => !live.handles(entry.id),
        TopicId::Own => entry.topic != "service",
        _ => false,
    };
    entries.filter(is_unseen).map(HandlerEntry::full_name).collect()
}

fn report_of(shadow: &Shadow, live_stack: &Stack, now: Timestamp) -> ShadowReport {
    let live = live_stack.find(shadow.plugin.name()).is_some();
    let record = &shadow.record;
    let stats = shadow.plugin.stats();
    let open = shadow.later.open(now);
    let users = record.worst_users().into_iter().map(|(user, counts)| ShadowUser {
        user: user.0,
        differences: counts.differences,
        refuses: counts.refused,
        accepts: counts.accepted,
    });
    let kinds = record.counts.iter();
    ShadowReport {
        name: shadow.plugin.name().to_string(),
        live,
        since: shadow.loaded_at.as_secs(),
        stopped: shadow.stopped.clone(),
        compared: record.compared,
        different: record.different,
        jobs: record.jobs,
        refuses: record.refused,
        accepts: record.accepted,
        kinds: kinds.map(|(kind, count)| (Kind::word(*kind).to_owned(), *count)).collect(),
        undecided: record.undecided,
        open: open.map(|(at, found)| waiting(at, found)).take(KEPT).collect(),
        calls: stats.iter().map(|handler| handler.calls).sum(),
        errors: stats.iter().map(|handler| handler.errors).sum(),
        panics: stats.iter().map(|handler| handler.panics).sum(),
        seconds: shadow.budget.used(),
        worst: record.worst().iter().map(difference).collect(),
        users: users.collect(),
        differences: record.kept().map(difference).collect(),
        dropped: record.dropped,
        unseen: unseen(shadow, live_stack),
    }
}

fn difference(kept: &Kept) -> ShadowDifference {
    ShadowDifference {
        job: kept.job,
        user: kept.user.map(|user| user.0),
        topic: kept.topic.clone(),
        kind: kept.kind.word().to_owned(),
        live: kept.live.clone(),
        shadow: kept.shadow.clone(),
        times: kept.times,
        last: kept.last.as_secs(),
    }
}

fn waiting(at: Timestamp, found: Difference) -> ShadowDifference {
    ShadowDifference {
        job: found.job,
        user: None,
        topic: LATER.to_owned(),
        kind: found.kind.word().to_owned(),
        live: found.live,
        shadow: found.shadow,
        times: 1,
        last: at.as_secs(),
    }
}
