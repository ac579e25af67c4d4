//! `accounting report --by`: what the jobs of a user or of a queue have used together.

use std::collections::BTreeMap;

use jobtap_core::job::JobResult;

use super::columns::{cpu_seconds, span, waited};
use crate::cli::jobs::row::JobRow;

/// By what jobs are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(in crate::cli) enum By {
    User,
    Queue,
}

/// The sums of one group of jobs.
#[derive(Debug, Clone, Default)]
struct Sum {
    jobs: u64,
    completed: u64,
    failed: u64,
    canceled: u64,
    timeout: u64,
    cpu_seconds: f64,
    node_seconds: f64,
    waited: f64,
}

/// The sums of all groups. Their number depends on the users and queues, not on the number of jobs.
#[derive(Debug, Default)]
pub(super) struct Totals {
    by: Vec<By>,
    groups: BTreeMap<Vec<String>, Sum>,
}

impl Totals {
    pub(super) fn new(by: &[By]) -> Self {
        Self { by: by.to_vec(), groups: BTreeMap::new() }
    }

    /// Adds a job.
    pub(super) fn add(&mut self, row: &JobRow<'_>) {
        let value = |by: &By| match by {
            By::User => row.username().unwrap_or_default(),
            By::Queue => crate::shown::in_line(row.text("queue")).into_owned(),
        };
        let sum = self.groups.entry(self.by.iter().map(value).collect()).or_default();
        sum.jobs += 1;
        match row.final_result() {
            Some(JobResult::Completed) => sum.completed += 1,
            Some(JobResult::Failed) => sum.failed += 1,
            Some(JobResult::Canceled) => sum.canceled += 1,
            Some(JobResult::Timeout) => sum.timeout += 1,
            None => {}
        }
        sum.cpu_seconds += cpu_seconds(row);
        sum.node_seconds += row.int("nnodes").unwrap_or(0) as f64 * row.runtime();
        sum.waited += waited(row);
    }

    /// The headings with their widths.
    pub(super) fn headings(&self) -> Vec<(&'static str, usize)> {
        let groups = self.by.iter().map(|by| match by {
            By::User => ("User", 9),
            By::Queue => ("Partition", 10),
        });
        let sums = [
            ("Jobs", 8),
            ("Completed", 9),
            ("Failed", 8),
            ("Cancelled", 9),
            ("Timeout", 8),
            ("CPUHours", 12),
            ("NodeHours", 12),
            ("MeanWait", 11),
        ];
        groups.chain(sums).collect()
    }

    /// The lines in the order of their groups, then the line of all jobs if there is more than one group.
    pub(super) fn lines(&self) -> Vec<Vec<String>> {
        let line = |group: &[String], sum: &Sum| {
            let counts = [sum.jobs, sum.completed, sum.failed, sum.canceled, sum.timeout];
            let mut cells = group.to_vec();
            cells.extend(counts.iter().map(u64::to_string));
            cells.push(format!("{:.2}", sum.cpu_seconds / 3600.0));
            cells.push(format!("{:.2}", sum.node_seconds / 3600.0));
            cells.push(span(sum.waited / sum.jobs.max(1) as f64));
            cells
        };
        let mut lines: Vec<Vec<String>> =
            self.groups.iter().map(|(group, sum)| line(group, sum)).collect();
        if self.groups.len() > 1 {
            let mut all = Sum::default();
            for sum in self.groups.values() {
                all.jobs += sum.jobs;
                all.completed += sum.completed;
                all.failed += sum.failed;
                all.canceled += sum.canceled;
                all.timeout += sum.timeout;
                all.cpu_seconds += sum.cpu_seconds;
                all.node_seconds += sum.node_seconds;
                all.waited += sum.waited;
            }
            let mut group = vec![String::new(); self.by.len()];
            if let Some(first) = group.first_mut() {
                "all".clone_into(first);
            }
            lines.push(line(&group, &all));
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::cli::accounting::finished::display;

    #[test]
    fn jobs_are_added_up_by_queue() {
        let display = display();
        let mut totals = Totals::new(&[By::Queue]);
        for (queue, result, cores, start) in
            [("a", 1, 4, 100.0), ("a", 2, 2, 200.0), ("b", 8, 1, 0.0)]
        {
            let job = json!({"id": 1, "state": 64, "result": result, "queue": queue, "ncores": cores,
                "nnodes": 1, "t_submit": 90.0, "t_run": start, "t_cleanup": start + 3600.0,
                "t_inactive": 5000.0});
            totals.add(&JobRow::from_json(job, &display).unwrap());
        }
        let lines: Vec<String> = totals.lines().iter().map(|line| line.join(" ")).collect();
        assert_eq!(
            lines,
            [
                "a 2 1 1 0 0 6.00 2.00 00:01:00",
                "b 1 0 0 0 1 0.00 0.00 01:21:50",
                "all 3 1 1 0 1 6.00 2.00 00:27:56",
            ]
        );
        assert_eq!(totals.headings().len(), 9);
    }
}
