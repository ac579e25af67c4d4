//! Asynchronous handlers at work on jobs, and when nothing waits for them any more.

use thin_vec::ThinVec;

use super::held::Working;
use super::{Effect, Engine};
use crate::eventlog::EventEntry;
use crate::host::{JobWork, Perilog, PluginKey, ProcessCommand, Work as RemoteWork};
use crate::job::{JobId, State};

impl Engine {
    pub(super) fn begin_work(&mut self, plugin: PluginKey, work: JobWork) {
        let JobWork { job, what, hold, run_on, abort, task } = work;
        if let Some(record) = self.jobs.get_mut(&job) {
            record.working.push(Working { plugin, what, hold, run_on, abort });
        }
        self.effects.after.push(Effect::Spawn(task));
    }

    pub(super) fn end_work(&mut self, plugin: PluginKey, job: JobId, what: &str) {
        if let Some(record) = self.jobs.get_mut(&job) {
            let ended = |work: &Working| work.plugin == plugin && work.what == what;
            if let Some(index) = record.working.iter().position(ended) {
                record.working.remove(index);
            }
        }
    }

    /// Drops the work on a job that nothing waits for any more, and tells those who wait for its end.
    pub(super) fn end_void_work(&mut self, id: JobId, ended: bool) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let state = record.job.state;
        let void: Vec<Working> =
            record.working.extract_if(.., |work| work.is_void(state)).collect();
        let told = if ended || state == State::Inactive {
            std::mem::take(&mut record.awaiting_end)
        } else {
            ThinVec::new()
        };
        for work in void {
            work.abort.abort();
            let bracket = Perilog::Prolog;
            if self.close_own(work.plugin, id, bracket, &work.what) {
                self.finish_of(id, bracket, &work.what, 1, None);
            }
        }
        for (plugin, work) in told {
            self.plugin_work(plugin, work);
        }
    }

    /// Drops the work of plugins that are gone.
    pub(super) fn abort_work(&mut self, id: JobId, gone: &[PluginKey]) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        for work in record.working.extract_if(.., |work| gone.contains(&work.plugin)) {
            work.abort.abort();
        }
        record.awaiting_end.retain(|(plugin, _)| !gone.contains(plugin));
    }

    pub(super) fn await_end(&mut self, plugin: PluginKey, job: JobId, work: RemoteWork) {
        let ending = |end: &EventEntry| end.name == "exception";
        match self.jobs.get_mut(&job) {
            Some(record)
                if record.job.state != State::Inactive
                    && !record.job.end_event.as_deref().is_some_and(ending) =>
            {
                record.awaiting_end.push((plugin, work));
            }
            _ => self.plugin_work(plugin, work),
        }
    }

    /// Drops all work on a job that is over, or rejected.
    pub(super) fn abort_all_work(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        for work in record.working.drain(..) {
            work.abort.abort();
        }
    }

    /// Ends the processes of plugins that are gone.
    pub(super) fn kill_processes(&mut self, gone: &[PluginKey]) {
        for plugin in gone {
            let command = ProcessCommand::KillAll;
            self.effects.after.push(Effect::Process { plugin: *plugin, command });
        }
    }
}
