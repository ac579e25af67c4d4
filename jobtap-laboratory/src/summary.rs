//! The figures of a simulation, as JSON and for a terminal. They don't depend on how fast the simulation was, so
//! that the same trace gives the same bytes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use jobtap_core::host::HandlerStats;
use jobtap_core::simulation::{
    AllocationFigures, Counts, Distribution, Group, Metrics, RefusedJobs,
};
use jobtap_daemon::columns::{Column, Side, table};
use serde::{Deserialize, Serialize};

use crate::machine;
use crate::run::PolicyRun;
use crate::series::{Series, sparkline};
use crate::source::remarks;

/// `summary.json`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The name of the trace.
    pub trace: String,
    /// Each policy on this trace, in the order of the command line.
    pub policies: Vec<PolicySummary>,
}

/// The results of one policy.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PolicySummary {
    /// Its name.
    pub policy: String,
    /// The machine in words.
    pub machine: String,
    /// The cores of the machine.
    pub cores: usize,
    /// The schedulers of the queues.
    pub schedulers: Vec<String>,
    /// Whether the simulation was interrupted: the figures are then those so far.
    pub interrupted: bool,
    /// What was read, left out and changed.
    pub read: Counts,
    /// The figures.
    pub metrics: Metrics,
    /// What jobs waited for, in the words of lists of jobs, with the job hours.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub waited_for: BTreeMap<String, f64>,
    /// What the allocations of an elastic instance have had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<AllocationFigures>,
    /// Utilization and queue length over time.
    pub series: Series,
    /// What the plugins did.
    pub plugins: Vec<PluginSummary>,
    /// Why submissions were refused.
    pub refusals: Vec<RefusedJobs>,
    /// The wait reasons of the first few jobs that had not started at the end.
    pub left: Vec<String>,
    /// The first warnings of the manager.
    pub log: Vec<String>,
    /// The number of all warnings.
    pub log_lines: u64,
    /// Processes of plugins, which were not run.
    pub processes: u64,
}

/// What a plugin did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct PluginSummary {
    /// Its name.
    pub name: String,
    /// Calls of its handlers.
    pub calls: u64,
    /// Calls that returned an error; for a gate, refusals.
    pub errors: u64,
    /// Calls that panicked.
    pub panics: u64,
    /// Calls by topic.
    pub topics: BTreeMap<String, u64>,
}

impl Summary {
    /// The summary of these runs.
    pub fn from_runs(trace: String, runs: &[PolicyRun]) -> Self {
        Self { trace, policies: runs.iter().map(PolicySummary::from_run).collect() }
    }

    /// Returns the text of `summary.json`.
    pub fn to_json(&self) -> String {
        let mut text = serde_json::to_string_pretty(self).unwrap_or_default();
        text.push('\n');
        text
    }

    /// Returns the text for a terminal.
    pub fn to_text(&self) -> String {
        let mut text = format!("trace   {}\n", self.trace);
        for (index, policy) in self.policies.iter().enumerate() {
            if index > 0 {
                text.push('\n');
            }
            policy.write_text(&mut text);
        }
        if self.policies.len() > 1 {
            text.push('\n');
            text.push_str(&self.comparison());
        }
        text
    }

    /// The policies side by side.
    pub fn comparison(&self) -> String {
        let mut columns = vec![Column("", Side::Left)];
        columns.extend(self.policies.iter().map(|_| Column("", Side::Right)));
        let mut rows = vec![self.row("", |policy| policy.policy.clone())];
        for (name, value) in FIGURES {
            rows.push(self.row(name, |policy| value(&policy.metrics)));
        }
        // The heading is a row, since the names of the policies are known only at run time.
        table(&columns, rows.into_iter()).trim_start_matches('\n').to_owned()
    }

    fn row(&self, name: &str, of: impl Fn(&PolicySummary) -> String) -> Vec<String> {
        std::iter::once(name.to_owned()).chain(self.policies.iter().map(of)).collect()
    }
}

type Row = (&'static str, fn(&Metrics) -> String);

/// The figures of a comparison.
pub(crate) const FIGURES: [Row; 12] = [
    ("completed", |metrics| metrics.completed.to_string()),
    ("timeouts", |metrics| metrics.timeout.to_string()),
    ("refused", |metrics| metrics.refused.to_string()),
    ("mean wait", |metrics| duration(metrics.wait.mean)),
    ("median wait", |metrics| duration(metrics.wait.median)),
    ("p99 wait", |metrics| duration(metrics.wait.p99)),
    ("mean turnaround", |metrics| duration(metrics.turnaround.mean)),
    ("mean bounded slowdown", |metrics| ratio(metrics.slowdown.mean)),
    ("utilization", |metrics| percent(metrics.utilization)),
    ("backfill rate", |metrics| percent(metrics.backfill_rate)),
    ("fairness (Jain)", |metrics| format!("{:.3}", metrics.fairness)),
    ("makespan", |metrics| duration(metrics.makespan)),
];

/// Hours, from seconds.
fn hours_waited(seconds: &[(&'static str, f64)]) -> BTreeMap<String, f64> {
    seconds.iter().map(|(word, seconds)| ((*word).to_owned(), seconds / 3600.0)).collect()
}

impl PolicySummary {
    fn from_run(run: &PolicyRun) -> Self {
        let results = &run.results;
        Self {
            policy: run.policy.clone(),
            machine: machine::described(&run.resources),
            cores: results.cores,
            schedulers: results.scheduler.clone(),
            interrupted: run.interrupted,
            read: run.counts.clone(),
            metrics: results.metrics(),
            waited_for: hours_waited(&results.waited_for),
            allocations: results.allocations.clone(),
            series: Series::from_results(results),
            plugins: results.plugins.iter().map(PluginSummary::from_handlers).collect(),
            refusals: results.refusals.clone(),
            left: results.left.clone(),
            log: results.log.clone(),
            log_lines: results.log_lines,
            processes: results.processes,
        }
    }

    fn write_text(&self, text: &mut String) {
        let metrics = &self.metrics;
        let interrupted = if self.interrupted { " (interrupted: figures so far)" } else { "" };
        let _ = writeln!(text, "policy  {}{interrupted}", self.policy);
        let schedulers = self.schedulers.join(", ");
        let _ = writeln!(text, "machine {}; scheduler {schedulers}", self.machine);
        let called = self.plugins.iter().filter(|plugin| plugin.calls > 0);
        let called: Vec<&str> = called.map(|plugin| plugin.name.as_str()).collect();
        let _ = writeln!(text, "plugins {}", called.join(", "));
        let _ = writeln!(text, "jobs    {}", jobs(metrics));
        text.push('\n');
        let columns = [
            Column("", Side::Left),
            Column("MEAN", Side::Right),
            Column("MEDIAN", Side::Right),
            Column("P90", Side::Right),
            Column("P99", Side::Right),
            Column("MAX", Side::Right),
        ];
        let row = |name: &str, of: &Distribution, shown: fn(f64) -> String| {
            let values = [of.mean, of.median, of.p90, of.p99, of.max].map(shown);
            std::iter::once(name.to_owned()).chain(values).collect()
        };
        let rows: [Vec<String>; 3] = [
            row("wait", &metrics.wait, duration),
            row("turnaround", &metrics.turnaround, duration),
            row("bounded slowdown", &metrics.slowdown, ratio),
        ];
        text.push_str(&table(&columns, rows.into_iter()));
        text.push('\n');
        let line = sparkline(&self.series.utilization, Some(1.0), WIDTH);
        let _ = writeln!(text, "utilization {:>7}  {line}", percent(metrics.utilization));
        let longest = self.series.pending.iter().copied().fold(0.0, f64::max);
        let line = sparkline(&self.series.pending, None, WIDTH);
        let _ = writeln!(text, "queue   max {longest:>7.0}  {line}");
        let _ = writeln!(
            text,
            "backfilled  {:>7}  fairness over {} users {:.3}  makespan {}",
            percent(metrics.backfill_rate),
            metrics.users.len(),
            metrics.fairness,
            duration(metrics.makespan)
        );
        self.write_waits(text);
        self.write_allocations(text);
        self.write_users(text);
        self.write_remarks(text);
    }

    fn write_waits(&self, text: &mut String) {
        if self.waited_for.is_empty() {
            return;
        }
        let shares = self.shares_waited();
        let shares = shares.iter().map(|(word, share)| format!("{word} {}", percent(*share)));
        let _ = writeln!(text, "waited for  {}", shares.collect::<Vec<_>>().join(", "));
    }

    /// What jobs waited for, as shares of all their waiting, the greatest first.
    pub(crate) fn shares_waited(&self) -> Vec<(&str, f64)> {
        let all: f64 = self.waited_for.values().sum();
        let words = self.waited_for.iter();
        let mut shares: Vec<(&str, f64)> =
            words.map(|(word, hours)| (word.as_str(), hours / all)).collect();
        shares.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        shares
    }

    fn write_allocations(&self, text: &mut String) {
        let Some(figures) = &self.allocations else { return };
        let used: f64 =
            self.metrics.users.iter().map(|user| user.core_seconds).sum::<f64>() / 3600.0;
        let share = if figures.core_hours > 0.0 { used / figures.core_hours } else { 0.0 };
        let _ = writeln!(
            text,
            "allocations {:>7} asked for, {} started after {} on average; jobs used {:.1} of {:.1} core hours ({})",
            figures.asked,
            figures.started,
            duration(figures.mean_wait),
            used,
            figures.core_hours,
            percent(share)
        );
    }

    fn write_users(&self, text: &mut String) {
        let mut users: Vec<&Group> = self.metrics.users.iter().collect();
        if users.len() < 2 {
            return;
        }
        users.sort_by(|a, b| b.slowdown.mean.total_cmp(&a.slowdown.mean));
        let columns = [
            Column("USER", Side::Left),
            Column("JOBS", Side::Right),
            Column("CORE HOURS", Side::Right),
            Column("MEAN WAIT", Side::Right),
            Column("MEDIAN WAIT", Side::Right),
            Column("SLOWDOWN", Side::Right),
        ];
        let row = |user: &&Group| {
            vec![
                user.name.clone(),
                user.jobs.to_string(),
                format!("{:.1}", user.core_seconds / 3600.0),
                duration(user.wait.mean),
                duration(user.wait.median),
                ratio(user.slowdown.mean),
            ]
        };
        let _ = writeln!(text, "\nusers with the greatest mean bounded slowdown:");
        text.push_str(&table(&columns, users.iter().take(SHOWN).map(row)));
    }

    fn write_remarks(&self, text: &mut String) {
        let mut lines = remarks(&self.read);
        lines.extend(self.unusual(SHOWN));
        if self.processes > 0 {
            let count = self.processes;
            lines.push(format!("processes of plugins, taken to succeed at once: {count}"));
        }
        if self.log_lines > 0 {
            lines.push(format!("warnings of the manager: {}, first:", self.log_lines));
            lines.extend(self.log.iter().take(3).map(|line| format!("  {line}")));
        }
        if !lines.is_empty() {
            let _ = writeln!(text, "\n{}", lines.join("\n"));
        }
    }

    /// The first few reasons for refusals and for jobs that had not started at the end.
    pub fn unusual(&self, most: usize) -> Vec<String> {
        let shown = || self.refusals.iter().take(most);
        let refused = shown().map(|of| format!("jobs refused: {} ({})", of.jobs, of.text));
        let mut lines: Vec<String> = refused.collect();
        let named = shown().map(|of| of.jobs).sum();
        let others = self.metrics.refused.saturating_sub(named);
        if others > 0 {
            lines.push(format!("jobs refused for other reasons: {others}"));
        }
        let how = if self.interrupted { "still waiting" } else { "never started" };
        lines.extend(self.left.iter().map(|why| format!("{how}: {why}")));
        lines
    }
}

/// How many users and refusals are shown.
const SHOWN: usize = 5;

/// The width of a sparkline.
const WIDTH: usize = 60;

/// What became of the jobs, in words.
fn jobs(metrics: &Metrics) -> String {
    let parts = [
        (metrics.completed, "completed"),
        (metrics.timeout, "reached their time limit"),
        (metrics.failed, "failed"),
        (metrics.canceled, "canceled"),
        (metrics.refused, "refused"),
        (metrics.running, "running"),
        (metrics.pending, "pending"),
    ];
    let known = parts.iter().filter(|(count, _)| *count > 0);
    let known: Vec<String> = known.map(|(count, what)| format!("{count} {what}")).collect();
    format!("{} submitted: {}", metrics.submitted, known.join(", "))
}

impl PluginSummary {
    fn from_handlers((name, handlers): &(String, Vec<HandlerStats>)) -> Self {
        let mut topics = BTreeMap::new();
        for handler in handlers {
            *topics.entry(handler.topic.clone()).or_default() += handler.calls;
        }
        Self {
            name: name.clone(),
            calls: handlers.iter().map(|handler| handler.calls).sum(),
            errors: handlers.iter().map(|handler| handler.errors).sum(),
            panics: handlers.iter().map(|handler| handler.panics).sum(),
            topics,
        }
    }
}

/// Formats a time for people: `17s`, `3.5m`, `2.1h`, `9.0d`.
pub(crate) fn duration(seconds: f64) -> String {
    match seconds {
        s if s < 99.95 => format!("{s:.1}s"),
        s if s < 5970.0 => format!("{:.1}m", s / 60.0),
        s if s < 48.0 * 3600.0 => format!("{:.1}h", s / 3600.0),
        s => format!("{:.1}d", s / 86_400.0),
    }
}

fn ratio(value: f64) -> String {
    format!("{value:.2}")
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{:.2} %", share * 100.0)
}
