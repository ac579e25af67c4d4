//! The executor of a manager under test: starts jobs at once, ends them when told to, and keeps their
//! status until the manager acknowledges it. It outlives the manager.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::engine::{ExecCommand, ExecEvent, ExecStart, Input};
use crate::eventlog::EventEntry;
use crate::job::{JobId, Timestamp, WaitStatus};

/// The jobs of the executor, with the status of those that have finished and the time of their end.
#[derive(Debug, Default)]
pub(super) struct Execution {
    jobs: BTreeMap<JobId, Option<(i32, Timestamp)>>,
    /// The jobs that begin when another one has ended, by that one.
    next: BTreeMap<JobId, JobId>,
    /// The jobs that were begun like this, each with the job before it.
    begun: Vec<(JobId, JobId)>,
    /// Whether starts are reported only when the test asks for it.
    pub(super) hold: bool,
    /// Whether events of reattached jobs are reported only when the test asks for it.
    pub(super) hold_missed: bool,
    missed: Vec<ExecEvent>,
    /// What is on its way between the manager and the executor, if the test says when it arrives.
    delayed: Option<Delayed>,
    /// The signals that were sent to the tasks of each job.
    pub(super) signals: BTreeMap<JobId, Vec<i32>>,
}

/// What is on its way between the manager and the executor.
#[derive(Debug, Default)]
struct Delayed {
    commands: VecDeque<ExecCommand>,
    reports: VecDeque<ExecEvent>,
    /// The jobs that this manager has asked for.
    attached: BTreeSet<JobId>,
}

impl Execution {
    /// Lets commands and reports arrive only when the test says so.
    pub(super) fn delay(&mut self) {
        self.delayed.get_or_insert_default();
    }

    /// Carries out the oldest command that is on its way.
    pub(super) fn arrive(&mut self, now: Timestamp) {
        let command = self.delayed.as_mut().and_then(|delayed| delayed.commands.pop_front());
        if let Some(command) = command {
            let reports = self.carry_out(now, &command);
            self.send(reports);
        }
    }

    /// Takes the oldest report that is on its way.
    pub(super) fn take_report(&mut self) -> Option<ExecEvent> {
        self.delayed.as_mut()?.reports.pop_front()
    }

    /// Sends reports to the manager. Returns those that arrive at once.
    pub(super) fn send(&mut self, reports: Vec<ExecEvent>) -> Vec<ExecEvent> {
        match &mut self.delayed {
            Some(delayed) => {
                let attached = &delayed.attached;
                let said = reports.into_iter().filter(|report| attached.contains(&report.id()));
                delayed.reports.extend(said);
                Vec::new()
            }
            None => reports,
        }
    }

    /// The jobs that run.
    pub(super) fn running(&self) -> impl Iterator<Item = JobId> {
        self.jobs.iter().filter(|(_, ended)| ended.is_none()).map(|(id, _)| *id)
    }

    /// Carries out a command and returns the resulting events.
    pub(super) fn execute(&mut self, now: Timestamp, command: ExecCommand) -> Vec<Input> {
        if let Some(delayed) = &mut self.delayed {
            delayed.commands.push_back(command);
            return Vec::new();
        }
        self.carry_out(now, &command).into_iter().map(Input::Exec).collect()
    }

    fn carry_out(&mut self, now: Timestamp, command: &ExecCommand) -> Vec<ExecEvent> {
        match *command {
            ExecCommand::Start(ExecStart { id, after: Some(after), .. }) => {
                match self.jobs.get(&after) {
                    Some(None) => {
                        self.next.insert(after, id);
                        Vec::new()
                    }
                    Some(Some(_)) => self.begin(id, after),
                    None if self.next.values().any(|next| *next == after) => {
                        self.next.insert(after, id);
                        Vec::new()
                    }
                    None => Vec::new(),
                }
            }
            ExecCommand::Start(ExecStart { id, reattach, .. }) => self.start(id, reattach),
            ExecCommand::Recall { id } => vec![self.recall(id)],
            ExecCommand::Cancel { id, signal } => match self.jobs.get(&id) {
                Some(None) => self.end(now, id, WaitStatus::from_signal(signal.number()).as_raw()),
                Some(Some(_)) => Vec::new(),
                None => {
                    self.attach(id);
                    vec![ExecEvent::Released { id }]
                }
            },
            ExecCommand::Ack { id } => {
                self.jobs.remove(&id);
                self.begun.retain(|(begun, _)| *begun != id);
                Vec::new()
            }
            ExecCommand::Signal { id, signal, .. } => {
                self.signals.entry(id).or_default().push(signal.number());
                Vec::new()
            }
        }
    }

    /// Ends all tasks of a job, and reports that even for a job that the executor doesn't have.
    pub(super) fn end(&mut self, now: Timestamp, id: JobId, status: i32) -> Vec<ExecEvent> {
        if let Some(ended) = self.jobs.get_mut(&id) {
            *ended = Some((status, now));
        }
        let mut next = self.next.remove(&id).map(|next| self.begin(next, id)).unwrap_or_default();
        let after = next.split_off(next.len().min(1));
        let mut reports = vec![ExecEvent::Finished { id, status }];
        reports.extend(next);
        reports.push(ExecEvent::Released { id });
        reports.extend(after);
        reports
    }

    /// Begins a job ahead of its turn.
    fn begin(&mut self, id: JobId, after: JobId) -> Vec<ExecEvent> {
        self.begun.push((id, after));
        let mut reports = vec![ExecEvent::Begun { id }];
        reports.extend(self.start(id, false));
        reports
    }

    /// Gives back a job that is to begin after another one.
    fn recall(&mut self, id: JobId) -> ExecEvent {
        self.attach(id);
        if self.jobs.contains_key(&id) {
            return ExecEvent::Begun { id };
        }
        let before = self.next.iter().find(|(_, next)| **next == id).map(|(before, _)| *before);
        let after = self.next.remove(&id);
        if let Some(before) = before {
            self.next.remove(&before);
            self.next.extend(after.map(|after| (before, after)));
        }
        ExecEvent::Recalled { id }
    }

    /// Forgets the jobs that were to begin after others: the manager has gone. Returns those that have begun.
    pub(super) fn disconnect(&mut self) -> &[(JobId, JobId)] {
        self.next.clear();
        if self.delayed.is_some() {
            self.delayed = Some(Delayed::default());
        }
        &self.begun
    }

    fn attach(&mut self, id: JobId) {
        if let Some(delayed) = &mut self.delayed {
            delayed.attached.insert(id);
        }
    }

    fn start(&mut self, id: JobId, reattach: bool) -> Vec<ExecEvent> {
        if reattach && !self.jobs.contains_key(&id) {
            self.attach(id);
            let (note, reason) = ("job is lost".to_owned(), "lost".to_owned());
            return vec![ExecEvent::Lost { id, note, reason }, ExecEvent::Released { id }];
        }
        self.attach(id);
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
