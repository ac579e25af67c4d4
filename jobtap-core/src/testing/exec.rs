//! The executor of a manager under test: starts jobs at once, ends them when told to, and keeps their
//! status until the manager acknowledges it. It outlives the manager.

use std::collections::BTreeMap;

use crate::engine::{ExecCommand, ExecEvent, ExecStart, Input};
use crate::eventlog::EventEntry;
use crate::job::{JobId, Timestamp, WaitStatus};

/// The jobs of the executor, with the status of those that have finished and the time of their end.
#[derive(Debug, Default)]
pub(super) struct Execution {
    jobs: BTreeMap<JobId, Option<(i32, Timestamp)>>,
    /// Whether starts are reported only when the test asks for it.
    pub(super) hold: bool,
    /// Whether events of reattached jobs are reported only when the test asks for it.
    pub(super) hold_missed: bool,
    missed: Vec<ExecEvent>,
    /// The signals that were sent to the tasks of each job.
    pub(super) signals: BTreeMap<JobId, Vec<i32>>,
}

impl Execution {
    /// Carries out a command and returns the resulting events.
    pub(super) fn execute(&mut self, now: Timestamp, command: &ExecCommand) -> Vec<Input> {
        let reports = match *command {
            ExecCommand::Start(ExecStart { id, reattach, .. }) => self.start(id, reattach),
            ExecCommand::Cancel { id, signal } => match self.jobs.get(&id) {
                Some(None) => self.end(now, id, WaitStatus::from_signal(signal.number()).as_raw()),
                Some(Some(_)) => Vec::new(),
                None => vec![ExecEvent::Released { id }],
            },
            ExecCommand::Ack { id } => {
                self.jobs.remove(&id);
                Vec::new()
            }
            ExecCommand::Signal { id, signal, .. } => {
                self.signals.entry(id).or_default().push(signal.number());
                Vec::new()
            }
        };
        reports.into_iter().map(Input::Exec).collect()
    }

    /// Ends all tasks of a job, and reports that even for a job that the executor doesn't have.
    pub(super) fn end(&mut self, now: Timestamp, id: JobId, status: i32) -> Vec<ExecEvent> {
        if let Some(ended) = self.jobs.get_mut(&id) {
            *ended = Some((status, now));
        }
        vec![ExecEvent::Finished { id, status }, ExecEvent::Released { id }]
    }

    fn start(&mut self, id: JobId, reattach: bool) -> Vec<ExecEvent> {
        if reattach && !self.jobs.contains_key(&id) {
            let (note, reason) = ("job is lost".to_owned(), "lost".to_owned());
            return vec![ExecEvent::Lost { id, note, reason }, ExecEvent::Released { id }];
        }
        let ended = *self.jobs.entry(id).or_insert(None);
        let mut reports = Vec::new();
        if !self.hold {
            reports.push(ExecEvent::Started { id });
        }
        if let Some((status, timestamp)) = ended {
            // The job finished without a manager, so only this log entry says when.
            let entry = EventEntry { timestamp, name: "complete".into(), context: None };
            reports.push(ExecEvent::Log { id, entry });
            reports.extend([ExecEvent::Finished { id, status }, ExecEvent::Released { id }]);
        }
        if reattach {
            reports.push(ExecEvent::CaughtUp { id });
            if self.hold_missed {
                self.missed.append(&mut reports);
            }
            reports.insert(0, ExecEvent::Reattached { id });
        }
        reports
    }

    /// Takes the events that were held back.
    pub(super) fn missed(&mut self) -> Vec<ExecEvent> {
        std::mem::take(&mut self.missed)
    }
}
