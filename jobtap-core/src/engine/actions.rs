//! What the manager itself does for a job in each state. An action may run any number of times; it
//! does what is still to do.

use super::notices::Cause;
use super::record::Exec;
use super::work::Work;
use super::{Engine, events};
use crate::job::{JobId, State};
use crate::topic::TopicId;

impl Engine {
    /// Does what the job's state asks for.
    pub(super) fn action(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        match record.job.state {
            State::New => {}
            State::Depend => self.depend_action(id),
            State::Priority => self.priority_action(id),
            State::Sched => self.sched_action(id),
            State::Run => self.run_action(id),
            State::Cleanup => self.cleanup_action(id),
            State::Inactive => self.inactive_action(id),
        }
    }

    fn depend_action(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let held = record.job.dependencies().next().is_some() || record.is_queued("dependency-add");
        if !held && !record.is_queued("depend") {
            self.post(id, events::bare(self.now, "depend"));
        }
    }

    fn priority_action(&mut self, id: JobId) {
        self.lanes.leave(id);
    }

    fn sched_action(&mut self, id: JobId) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        match record.job.priority {
            Some(priority) if priority > 0 && record.bypass => self.bypass_alloc(id),
            _ => self.enqueue(id),
        }
    }

    fn run_action(&mut self, id: JobId) {
        self.lanes.leave(id);
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let held = !record.prologs.is_empty() || record.is_queued("prolog-start");
        if record.exec == Exec::Idle && !held && !record.is_queued("exception") {
            self.execute_job(id, false);
        }
    }

    fn cleanup_action(&mut self, id: JobId) {
        self.lanes.leave(id);
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let expiry = record.expiry.take();
        let bracketed = !record.prologs.is_empty()
            || !record.epilogs.is_empty()
            || record.is_queued("prolog-start")
            || record.is_queued("epilog-start");
        let executing = matches!(record.exec, Exec::Open | Exec::Ending);
        let next = match record.holds {
            _ if bracketed || executing => None,
            true => Some("free"),
            false => Some("clean"),
        };
        let due = next.filter(|name| !record.is_queued(name));
        self.stop_timer(expiry);
        if let Some(name) = due {
            self.post(id, events::bare(self.now, name));
        }
    }

    /// Posts `alloc` for a job that has its resources from a plugin.
    fn bypass_alloc(&mut self, id: JobId) {
        self.lanes.leave(id);
        let given = |record: &super::record::Record| record.job.resources.is_some();
        let due = |record: &super::record::Record| given(record) && !record.is_queued("alloc");
        if self.jobs.get(&id).is_some_and(due) {
            self.post(id, events::alloc_bypass(self.now));
        }
    }

    /// The job is over: what only a live job needs goes, and the plugins hear of it.
    fn inactive_action(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        record.subscribers = Vec::new();
        record.holders = Vec::new();
        record.simulated = None;
        record.queue = Default::default();
        let end = record.times.inactive.unwrap_or(self.now);
        self.abort_all_work(id);
        if let Some(mut frame) = self.suspended.remove(&id) {
            // An update whose validation was still waited for.
            frame.refusal = Some("job is inactive".to_owned());
            self.work.push(Work::Frame(frame.into()));
        }
        if self.active.remove(&id) {
            self.inactive.add(id, end);
            self.wait_ends(id);
            self.show_inactive(id);
        }
    }

    /// `job.inactive-add`, then `job.destroy`.
    pub(super) fn show_inactive(&mut self, id: JobId) {
        self.visit(id);
        self.notify(TopicId::JobDestroy, id, Cause::None);
        self.notify(TopicId::JobInactiveAdd, id, Cause::None);
    }
}
