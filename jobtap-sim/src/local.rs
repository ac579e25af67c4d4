//! The shepherd of the manager's own host, and the socket between the two: an instance of one node has no hub, and hands
//! short jobs over ahead of their turn.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobtap_core::engine::ExecEvent;
use jobtap_daemon::daemon::stepped::Report;
use jobtap_daemon::exec::protocol::{ShepherdMessage, ShepherdRequest, VERSION};
use jobtap_daemon::exec::{Executor, ExecutorReport, HeldJob, JobCommand, StartJob};

use crate::dice::Dice;
use crate::shepherd::Shepherd;

/// What the manager has written to the socket and the shepherd has not read.
#[derive(Clone, Default)]
struct Requests(Arc<Mutex<VecDeque<ShepherdRequest>>>);

impl Requests {
    fn lock(&self) -> MutexGuard<'_, VecDeque<ShepherdRequest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The executor that a manager gets.
struct ThisHost {
    requests: Requests,
    held: Vec<HeldJob>,
}

impl Executor for ThisHost {
    fn start(&self, job: StartJob) {
        self.requests.lock().push_back(ShepherdRequest::Start(Box::new(job)));
    }

    fn command(&self, command: JobCommand) {
        self.requests.lock().push_back(ShepherdRequest::Job(command));
    }

    fn held(&self) -> &[HeldJob] {
        &self.held
    }

    fn takes_jobs_ahead(&self) -> bool {
        true
    }

    fn shut_down(&self, _: Duration) -> bool {
        true
    }
}

/// A connection of a manager to its shepherd.
#[derive(Default)]
pub struct Socket {
    requests: Requests,
    report: Option<Report>,
    /// What the shepherd has written and the manager has not read.
    said: VecDeque<ShepherdMessage>,
}

impl Socket {
    /// Connects a manager, which learns what the shepherd holds.
    pub fn connect(shepherd: &mut Shepherd, now: u64, dice: &mut Dice) -> (Self, Vec<HeldJob>) {
        shepherd.request(ShepherdRequest::Hello { version: VERSION }, now, dice);
        shepherd.request(ShepherdRequest::List, now, dice);
        let list = shepherd.take_said().into_iter().find_map(|message| match message {
            ShepherdMessage::List { jobs } => Some(jobs),
            _ => None,
        });
        (Self::default(), list.unwrap_or_default())
    }

    /// The executor of the manager, which reports to `report`.
    pub fn executor(&mut self, held: Vec<HeldJob>, report: Report) -> Box<dyn Executor> {
        self.report = Some(report);
        Box::new(ThisHost { requests: self.requests.clone(), held })
    }

    /// Lets so many messages arrive in each direction. Returns whether any did.
    pub fn deliver(
        &mut self,
        shepherd: &mut Shepherd,
        most: usize,
        now: u64,
        dice: &mut Dice,
    ) -> bool {
        let mut any = false;
        for _ in 0..most {
            let request = self.requests.lock().pop_front();
            let Some(request) = request else { break };
            shepherd.request(request, now, dice);
            any = true;
        }
        self.said.extend(shepherd.take_said());
        let count = self.said.len().min(most);
        let mut events: Vec<ExecEvent> = Vec::new();
        for message in self.said.drain(..count) {
            any = true;
            match message {
                ShepherdMessage::Event(event) => events.push(event),
                ShepherdMessage::Tasks { id, tasks } => {
                    if let Some(report) = &self.report {
                        report(ExecutorReport::Tasks { id, tasks });
                    }
                }
                _ => {}
            }
        }
        if let Some(report) = self.report.as_ref().filter(|_| !events.is_empty()) {
            report(ExecutorReport::Events(events));
        }
        any
    }
}
