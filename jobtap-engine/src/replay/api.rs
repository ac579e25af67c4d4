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

/// What a plugin has answered in a replay of recorded jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub struct Replayed {
    /// The plugin's name.
    pub plugin: String,
    /// The number of jobs that were replayed.
    pub jobs: u64,
    /// The number of their events.
    pub events: u64,
    /// The number of calls of the plugin.
    pub calls: u64,
    /// The topics that the plugin handles and that a replay never calls, since eventlogs don't hold what leads to
    /// them, such as requests to change a job.
    pub not_called: Vec<String>,
    /// The number of answers that are as recorded.
    pub same: u64,
    /// The number of answers that differ, and of records that no loaded plugin asks for.
    pub different: u64,
    /// The number of answers that eventlogs don't record.
    pub not_compared: u64,
    /// All answers in the order of time.
    pub answers: Vec<ReplayedAnswer>,
    /// The number of jobs and single events that could not be replayed.
    pub left_out: u64,
    /// The first of them, each with the reason.
    pub first_left_out: Vec<String>,
}

/// An answer, compared with what was recorded.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ReplayedAnswer {
    /// When, in seconds since the UNIX epoch.
    pub time: f64,
    /// The job that it is about.
    pub job: Option<JobId>,
    /// The topic at which the plugin was called, or `later` outside any topic. If the plugin didn't ask for it, the
    /// name of the recorded event.
    pub topic: String,
    /// What it is about, such as `priority` or `dependency`.
    pub kind: &'static str,
    /// What the plugin has answered or asked for.
    pub answer: Option<String>,
    /// What was recorded.
    pub recorded: Option<String>,
    /// How the two compare.
    #[serde(rename = "verdict")]
    pub comparison: ReplayComparison,
}

/// How an answer and the record compare.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum ReplayComparison {
    /// The record says the same.
    Same,
    /// The record says something else, or nothing.
    Differs,
    /// Eventlogs don't record it, or something other than the plugin decided.
    NotCompared,
}

impl Replayed {
    /// The maximum number of reasons that are kept.
    const REASONS: usize = 20;

    /// Counts a job or an event that could not be replayed.
    pub fn leave_out(&mut self, reason: String) {
        self.left_out += 1;
        if self.first_left_out.len() < Self::REASONS {
            self.first_left_out.push(reason);
        }
    }
}

/// The options of a replay.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReplayOptions {
    /// Don't count a record as a difference if no loaded plugin asks for it: a plugin that isn't loaded here has.
    pub ignore_missing: bool,
}
