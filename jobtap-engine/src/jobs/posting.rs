//! How events are posted to jobs. An event that is posted is applied in its turn, by way of the agenda.

use serde_json::{Map, Value};

use super::{Jobs, Phase};
use crate::agenda::{Agenda, Work};
use crate::eventlog::{Context, Event, EventEntry, Raised};
use crate::job::{Flags, JobId, State};
use crate::plugin::{Exception, Severity};
use crate::turn::Turn;

impl Jobs {
    /// Posts an event to a job, with the current time; see [`post_entry`](Self::post_entry).
    pub(crate) fn post(&mut self, turn: &mut Turn, id: JobId, event: Event<'_>) {
        self.post_entry(&mut turn.agenda, id, event.at(turn.clock.now));
    }

    /// Posts an entry to a job, such as an event with a time other than the current one. It is applied after the events
    /// that were posted before. An inactive job accepts no events.
    pub(crate) fn post_entry(&mut self, agenda: &mut Agenda, id: JobId, entry: EventEntry) {
        let Some(record) = self.records.get_mut(id) else {
            return;
        };
        if record.job.state() == State::Inactive {
            return;
        }
        record.pending_events.push(&mut self.spare_queues, entry);
        if !record.pending_events.busy {
            record.pending_events.busy = true;
            agenda.push(Work::ApplyNextEvent(id));
        } else if record.execution.phase == Phase::Ahead {
            agenda.push(Work::Recall(id));
        }
    }

    /// Posts an event that only jobs with the `debug` flag have.
    pub(crate) fn post_debug(&mut self, turn: &mut Turn, id: JobId, event: Event<'_>) {
        if self.get(id).is_some_and(|record| record.job.kept().flags.contains(Flags::DEBUG)) {
            self.post(turn, id, event);
        }
    }

    /// Posts an exception in the name of the instance's owner.
    pub(crate) fn raise(&mut self, turn: &mut Turn, id: JobId, exception: &Exception) {
        let severity = exception.severity().get();
        let (kind, note) = (exception.kind(), exception.note());
        let raised = Raised::new(kind, severity, note, turn.owner);
        self.post(turn, id, Event::Exception(raised));
    }

    /// Posts a fatal exception in the name of the instance's owner.
    pub(crate) fn raise_fatal(&mut self, turn: &mut Turn, id: JobId, kind: &str, note: &str) {
        self.raise(turn, id, &Exception::new(Severity::FATAL, kind, note));
    }

    /// Merges annotations into the job's, and shows the result to watchers of all jobs and to subscribed
    /// plugins. The event is not logged (RFC 21). Returns its context.
    pub(crate) fn post_annotations(
        &mut self,
        turn: &mut Turn,
        id: JobId,
        notes: Map<String, Value>,
    ) -> Option<Context> {
        let context = self.annotate(id, notes)?.show();
        self.post(turn, id, Event::Annotations(&context));
        Some(context)
    }
}
