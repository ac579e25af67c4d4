//! What is shown about a shadow.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::RequestError;
use crate::core::Core;
use crate::host::errno::ENOENT;
use crate::host::{HandlerEntry, Stack};
use crate::job::{JobId, Timestamp};
use crate::plugins::Plugins;
use crate::shadows::Shadow;
use crate::shadows::compare::Difference;
use crate::shadows::findings::{Finding, KEPT};
use crate::topic::TopicId;
use crate::transcript::Kind;

/// What a shadow would have done differently from the live plugins.
///
/// Counts begin when the shadow is loaded.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, rename_all = "kebab-case")]
pub struct ShadowReport {
    /// The plugin's name.
    pub name: String,
    /// Whether a live plugin of this name is loaded, with which the shadow is compared. Otherwise it is compared with a
    /// manager without the plugin.
    pub live: bool,
    /// When it was loaded, in seconds since the UNIX epoch.
    pub since: f64,
    /// Why it is no longer called.
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
    /// The number of differences of each kind, such as `verdict` or `priority`.
    pub kinds: BTreeMap<String, u64>,
    /// Verdicts that are given later: by an asynchronous handler, which a shadow doesn't run.
    pub undecided: u64,
    /// What one side has asked for outside of calls, such as in a timer, and the other has not yet. It is not counted,
    /// since the other may ask for it until the job's end.
    pub open: Vec<ShadowDifference>,
    /// Calls of its handlers, including those for timers and services.
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
    /// The number of differences that are no longer listed.
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
    /// The topic at which the shadow was called; `later` outside any topic.
    pub topic: String,
    /// What differs.
    pub kind: String,
    /// What live plugins have answered or asked for; `-` for nothing.
    pub live: String,
    /// What the shadow has answered or asked for; `-` for nothing.
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
    /// The number of differences.
    pub differences: u64,
    /// What only the shadow refuses.
    pub refuses: u64,
    /// What only live plugins refuse.
    pub accepts: u64,
}

/// The topic of what is asked for outside of dispatches.
const LATER: &str = "later";

/// The report on the shadow of this name.
pub(crate) fn report(core: &Core, name: &str) -> Result<ShadowReport, RequestError> {
    let plugins = &core.plugins;
    let name = name.strip_suffix(".so").unwrap_or(name);
    let shadow = plugins.shadows.find(name).ok_or_else(|| unknown(plugins, name))?;
    Ok(report_of(shadow, &plugins.stack, core.turn.clock.now))
}

/// The error for a name that no shadow has.
pub(super) fn unknown(plugins: &Plugins, name: &str) -> RequestError {
    let text = match plugins.stack.find(name).is_some() {
        true => format!("{name} is live and has no shadow"),
        false => format!("{name}: no shadow of this name is loaded"),
    };
    RequestError::new(ENOENT, text)
}

/// Topics at which a shadow is not called: requests that each plugin passes on to the next, own topics of plugins, and
/// Slurm's prologs and epilogs if no live plugin handles them.
fn unseen(shadow: &Shadow, live: &Stack) -> Vec<String> {
    let entries = shadow.plugin.descriptor().handlers.iter();
    let is_unseen = |entry: &&HandlerEntry| match entry.id {
        TopicId::SlurmJobSubmit | TopicId::SlurmJobModify => true,
        TopicId::SlurmPrologSlurmctld
        | TopicId::SlurmProlog
        | TopicId::SlurmEpilogSlurmctld
        | TopicId::SlurmEpilog => !live.handles(entry.id),
        TopicId::Unlisted => entry.topic != "service",
        _ => false,
    };
    entries.filter(is_unseen).map(HandlerEntry::full_name).collect()
}

fn report_of(shadow: &Shadow, live_stack: &Stack, now: Timestamp) -> ShadowReport {
    let live = live_stack.find(shadow.plugin.name()).is_some();
    let findings = &shadow.findings;
    let stats = shadow.plugin.stats();
    let open = shadow.later.open(now);
    let users = findings.worst_users().into_iter().map(|(user, counts)| ShadowUser {
        user: user.0,
        differences: counts.differences,
        refuses: counts.refused,
        accepts: counts.accepted,
    });
    let kinds = findings.counts.iter();
    ShadowReport {
        name: shadow.plugin.name().to_string(),
        live,
        since: shadow.loaded_at.as_secs(),
        stopped: shadow.stopped.clone(),
        compared: findings.compared,
        different: findings.different,
        jobs: findings.jobs,
        refuses: findings.refused,
        accepts: findings.accepted,
        kinds: kinds.map(|(kind, count)| (Kind::word(*kind).to_owned(), *count)).collect(),
        undecided: findings.undecided,
        open: open.map(|(at, found)| waiting(at, found)).take(KEPT).collect(),
        calls: stats.iter().map(|handler| handler.calls).sum(),
        errors: stats.iter().map(|handler| handler.errors).sum(),
        panics: stats.iter().map(|handler| handler.panics).sum(),
        seconds: shadow.budget.used(),
        worst: findings.worst().iter().map(difference).collect(),
        users: users.collect(),
        differences: findings.kept().map(difference).collect(),
        dropped: findings.dropped,
        unseen: unseen(shadow, live_stack),
    }
}

fn difference(finding: &Finding) -> ShadowDifference {
    ShadowDifference {
        job: finding.job,
        user: finding.user.map(|user| user.0),
        topic: finding.topic.clone(),
        kind: finding.kind.word().to_owned(),
        live: finding.live.clone(),
        shadow: finding.shadow.clone(),
        times: finding.times,
        last: finding.last.as_secs(),
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
