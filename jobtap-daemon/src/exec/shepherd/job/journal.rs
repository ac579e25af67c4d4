//! The events of a job, and which of them were sent to the manager.
//!
//! All events are retained until the manager has acknowledged the job's end, so that a restarted manager gets those
//! that it has not recorded.

use jobtap_core::engine::{ExecEvent, RaisedException};
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;
use serde_json::{Map, Value};
use tokio::sync::mpsc::UnboundedSender;

use crate::clock::now;
use crate::exec::protocol::ShepherdMessage;
use crate::exec::{INFORMATIONAL, Seen};

/// Why a job is attached to a manager.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::exec::shepherd) enum Attach {
    /// The manager requests its start once more, so it gets the events of a start: `Started`, and neither `Reattached`
    /// nor `CaughtUp`.
    Again,
    /// The manager has been restarted.
    Reattach,
    /// The same manager continues with another shepherd. It already has the event `Started` if `started` is set.
    Resume { started: bool },
}

/// The events of one job.
pub(in crate::exec::shepherd) struct Journal {
    id: JobId,
    /// The channel to the manager, once it has sent a start request for this job.
    outbox: Option<UnboundedSender<ShepherdMessage>>,
    /// Whether there ever was one.
    was_attached: bool,
    events: Vec<ExecEvent>,
    /// The number of events that were sent, or skipped because no manager was connected.
    sent: usize,
    /// Whether events are held back until the next [`send`](Self::send).
    held_back: bool,
}

impl Journal {
    pub(super) fn new(id: JobId, outbox: Option<UnboundedSender<ShepherdMessage>>) -> Self {
        let was_attached = outbox.is_some();
        Self { id, outbox, was_attached, events: Vec::new(), sent: 0, held_back: false }
    }

    /// The events of a job that ended under an earlier shepherd.
    pub(super) fn ended_earlier(id: JobId, events: Vec<ExecEvent>) -> Self {
        Self { sent: events.len(), events, ..Self::new(id, None) }
    }

    pub(in crate::exec::shepherd) fn events(&self) -> &[ExecEvent] {
        &self.events
    }

    /// Holds back the events that follow until the next [`send`](Self::send).
    pub(in crate::exec::shepherd) fn hold_back(&mut self) {
        self.held_back = true;
    }

    /// Sends the events that were held back.
    pub(in crate::exec::shepherd) fn send(&mut self) {
        self.held_back = false;
        let unsent = self.events.get(self.sent..).unwrap_or_default();
        if let Some(outbox) = &self.outbox {
            for event in unsent {
                // Fails only if the manager is gone. The next one gets the event when the job is attached to it.
                let _ = outbox.send(ShepherdMessage::Event(event.clone()));
            }
        }
        self.sent = self.events.len();
    }

    pub(super) fn add(&mut self, event: ExecEvent) {
        self.events.push(event);
        if !self.held_back {
            self.send();
        }
    }

    /// Adds an entry to the job's exec eventlog.
    pub(in crate::exec::shepherd) fn log(
        &mut self,
        name: &'static str,
        context: Option<Map<String, Value>>,
    ) {
        let entry = EventEntry::new(now(), name, context);
        self.add(ExecEvent::Log { id: self.id, entry });
    }

    /// Reports an exception of the type `exec`.
    pub(super) fn raise(&mut self, exception: RaisedException) {
        self.add(ExecEvent::Exception { id: self.id, exception });
    }

    /// Reports a problem that does not end the job, as a non-fatal exception.
    pub(in crate::exec::shepherd) fn inform(&mut self, note: String) {
        self.raise(RaisedException::new("exec", INFORMATIONAL, note));
    }

    /// Attaches the job, which may have `ended`, to a manager, and sends the events that the manager has not seen.
    pub(super) fn attach(
        &mut self,
        outbox: Option<UnboundedSender<ShepherdMessage>>,
        how: Attach,
        seen: Seen,
        ended: bool,
    ) {
        let reattach = how == Attach::Reattach;
        if let Some(outbox) = outbox.as_ref().filter(|_| reattach) {
            let _ = outbox.send(ShepherdMessage::Event(ExecEvent::Reattached { id: self.id }));
        }
        let (mut entries, mut exceptions) = (0, 0);
        let unseen = self.events.iter().filter(|event| match event {
            ExecEvent::Log { .. } => {
                entries += 1;
                entries > seen.log_entries
            }
            ExecEvent::Exception { .. } | ExecEvent::Lost { .. } => {
                exceptions += 1;
                exceptions > seen.exceptions
            }
            ExecEvent::Started { .. } => {
                matches!(how, Attach::Again | Attach::Resume { started: false })
            }
            // The finish is stored after the output, or with it.
            ExecEvent::Output { .. } | ExecEvent::Finished { .. } => !seen.finished,
            ExecEvent::Released { .. } => true,
            // Repeated even if the earlier manager handled it: the processes still run.
            ExecEvent::Unkillable { .. } => !ended,
            // These concern the connection to a manager, or are sent by other executors only.
            ExecEvent::Reattached { .. }
            | ExecEvent::CaughtUp { .. }
            | ExecEvent::Begun { .. }
            | ExecEvent::Recalled { .. }
            | ExecEvent::PartlyReleased { .. } => false,
        });
        if let Some(outbox) = &outbox {
            for event in unseen {
                let _ = outbox.send(ShepherdMessage::Event(event.clone()));
            }
            if reattach {
                let _ = outbox.send(ShepherdMessage::Event(ExecEvent::CaughtUp { id: self.id }));
            }
        }
        self.was_attached |= outbox.is_some();
        self.outbox = outbox;
        self.sent = self.events.len();
        self.held_back = false;
        if reattach && !ended {
            self.log("reattach", None);
        }
    }

    /// Whether a manager gets the job's events.
    pub(in crate::exec::shepherd) fn is_attached(&self) -> bool {
        self.outbox.is_some()
    }

    /// Whether any manager has got events of the job.
    pub(in crate::exec::shepherd) fn was_attached(&self) -> bool {
        self.was_attached
    }

    /// Stops sending events: the manager is gone.
    pub(in crate::exec::shepherd) fn detach(&mut self) {
        self.outbox = None;
    }
}
