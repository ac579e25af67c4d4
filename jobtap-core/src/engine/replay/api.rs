//! What a replay takes and returns.

use serde::Serialize;

use crate::job::JobId;

/// A job as a manager has stored it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordedJob {
    /// The job.
    pub id: JobId,
    /// Text under `eventlog`.
    pub eventlog: String,
    /// Text under `jobspec`.
    pub jobspec: String,
    /// Text under `R`, once allocated.
    pub resources: Option<String>,
}

/// What a plugin has answered to the recorded jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Replayed {
    /// The plugin's name.
    pub plugin: String,
    /// How many jobs were replayed.
    pub jobs: u64,
    /// Their events.
    pub events: u64,
    /// The calls of the plugin.
    pub calls: u64,
    /// The topics that the plugin handles and that a replay never calls, since eventlogs don't hold what leads to
    /// them, such as requests to change a job.
    pub not_called: Vec<String>,
    /// Answers that are as recorded.
    pub same: u64,
    /// Answers that differ, and what was recorded and no loaded plugin asks for.
    pub different: u64,
    /// Answers that eventlogs don't tell of.
    pub not_compared: u64,
    /// All answers in the order of time.
    pub answers: Vec<ReplayedAnswer>,
    /// How many jobs and single events could not be replayed.
    pub left_out: u64,
    /// The first of them, each with the reason.
    pub first_left_out: Vec<String>,
}

/// An answer beside what was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayedAnswer {
    /// When, in seconds since the UNIX epoch.
    pub time: f64,
    /// The job that it is about.
    pub job: Option<JobId>,
    /// The topic at which the plugin was called, `later` outside of any; of what the plugin didn't ask for, the
    /// name of the event.
    pub topic: String,
    /// What it is about, such as `priority` or `dependency`.
    pub kind: &'static str,
    /// What the plugin has answered or asked for.
    pub answer: Option<String>,
    /// What was recorded.
    pub recorded: Option<String>,
    /// How both compare.
    pub verdict: ReplayVerdict,
}

/// How an answer and the record compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayVerdict {
    /// It was recorded so.
    Same,
    /// It was recorded otherwise, or not at all.
    Differs,
    /// Eventlogs don't tell of it, or something else than the plugin decided.
    NotCompared,
}

impl Replayed {
    /// How many reasons are kept.
    const REASONS: usize = 20;

    /// Counts a job or an event that could not be replayed.
    pub fn leave_out(&mut self, reason: String) {
        self.left_out += 1;
        if self.first_left_out.len() < Self::REASONS {
            self.first_left_out.push(reason);
        }
    }
}

/// How a replay is made.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Don't take it as a difference when no loaded plugin asks for what was recorded: another one has, that
    /// isn't loaded here.
    pub ignore_missing: bool,
}
