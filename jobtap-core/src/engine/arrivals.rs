//! What the coming and going of a plugin means for the jobs that are there.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::Arc;

use super::callback::{Callback, Subject};
use super::frames::{Frame, Then};
use super::notices::Cause;
use super::plugins::names;
use super::restart::Orphans;
use super::work::Work;
use super::{Engine, Level, RequestError};
use crate::host::{Detail, Fault, Handlers, Instance, LoadOrder, PluginKey, panic_text};
use crate::job::{Job, JobId, State};
use crate::topic::TopicId;

const ENOENT: i32 = 2;

impl Engine {
    /// Introduces the jobs to a plugin that was loaded later: the active ones, then those that are
    /// over to one that keeps account of them; then asks for all priorities.
    pub(super) fn introduce_jobs(&mut self, key: PluginKey) {
        self.reprioritize_all();
        self.introduce_inactive(key);
        // A submission that isn't accepted yet will be shown with the others by `job.new`.
        let accepted = |id: &&JobId| self.is_accepted(**id);
        let mut jobs: Vec<JobId> = self.active.iter().filter(accepted).copied().collect();
        let order = self.plugins.stack.get(key).map(|plugin| plugin.descriptor().load_order);
        let state = |id: &JobId| self.seen(*id).map(Job::state);
        // Both sorts are stable: ids break ties.
        match order.unwrap_or_default() {
            LoadOrder::None => {}
            LoadOrder::State => jobs.sort_by_key(state),
            LoadOrder::StateReversed => jobs.sort_by_key(|id| std::cmp::Reverse(state(id))),
        }
        self.work.push(Work::Introduce(key, jobs.into()));
    }

    fn introduce_inactive(&mut self, key: PluginKey) {
        let handlers = self.plugins.stack.handlers(TopicId::JobInactiveAdd);
        if handlers.is_none_or(|list| list.iter().all(|bound| bound.plugin() != key)) {
            return;
        }
        let over = self.jobs.active().filter(|record| record.job.state == State::Inactive);
        let mut jobs: Vec<JobId> = over.map(|record| record.job.id).collect();
        jobs.extend(self.jobs.ids_over());
        jobs.sort_unstable();
        self.work.push(Work::IntroduceInactive(key, jobs.into()));
    }

    pub(super) fn next_past(&mut self, key: PluginKey, mut jobs: VecDeque<JobId>) {
        let Some(id) = jobs.pop_front() else { return };
        self.work.push(Work::IntroduceInactive(key, jobs));
        self.introduce(key, Frame::new(TopicId::JobInactiveAdd, id, Then::Introduce));
    }

    /// Shows the next job, in the state that it is in by now.
    pub(super) fn next_introduction(&mut self, key: PluginKey, mut jobs: VecDeque<JobId>) {
        let Some(id) = jobs.pop_front() else { return };
        self.work.push(Work::Introduce(key, jobs));
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let state = record.job.state;
        if state == State::Inactive {
            return;
        }
        self.work.push(Work::Action(id));
        self.work.push(Work::Orphans(id, Orphans::Rerun));
        match state {
            State::Depend => {
                self.introduce(key, Frame::new(TopicId::JobStateDepend, id, Then::Introduce));
                self.recheck_dependencies(id, Some(key));
            }
            // It waits for what this plugin may have to say.
            State::Priority => {
                self.introduce(key, Frame::new(TopicId::JobStatePriority, id, Then::Notify));
            }
            _ => {}
        }
        self.introduce(key, Frame::new(TopicId::JobNew, id, Then::Introduce));
        self.introduce(key, Frame::new(TopicId::JobCreate, id, Then::Introduce));
    }

    /// Stacks a frame for one plugin alone.
    fn introduce(&mut self, key: PluginKey, frame: Frame) {
        let handlers = self.plugins.stack.handlers(frame.topic);
        let handlers = handlers.into_iter().flat_map(|list| list.iter());
        let handlers: Handlers = handlers.filter(|b| b.plugin() == key).cloned().collect();
        self.stack_frame_of(frame, handlers);
    }

    /// Removes by exact name, glob, or `all` (every one without a leading dot).
    pub(super) fn remove_plugins(&mut self, pattern: &str) -> Result<(), RequestError> {
        let gone = self.take_out(pattern)?;
        self.settle_without(&gone, true);
        Ok(())
    }

    /// Takes plugins off the stack and drops them; what they had on jobs is still there.
    pub(super) fn take_out(
        &mut self,
        pattern: &str,
    ) -> Result<Vec<(PluginKey, Arc<str>)>, RequestError> {
        let matches = |plugin: &Instance| names(pattern, plugin.name(), plugin.listed_as());
        let leaving = self.plugins.stack.plugins().iter().filter(|plugin| matches(plugin));
        let leaving: Vec<Rc<Instance>> = leaving.cloned().collect();
        if leaving.is_empty() && pattern != "all" {
            let text = "Failed to find plugin to remove".to_owned();
            return Err(RequestError { errno: ENOENT, text });
        }
        for plugin in &leaving {
            self.say_goodbye(plugin);
        }
        drop(leaving);
        let gone = self.plugins.stack.remove(matches);
        let names = gone.iter().map(|p| (p.key(), Arc::clone(p.name()))).collect();
        for plugin in gone {
            self.plugins.conducts.remove(&plugin.key());
            self.drop_plugin(plugin);
        }
        Ok(names)
    }

    /// `unload`, for one plugin; what it asks for is done at once, as long as it is still known.
    pub(super) fn say_goodbye(&mut self, plugin: &Rc<Instance>) {
        let Some(bound) = plugin.unload().filter(|_| !plugin.is_faulted()) else { return };
        let subject = Subject { topic: TopicId::Unload, job: None, detail: Detail::None };
        let Callback { result, commands, panicked, .. } = self.callback(&bound, subject);
        self.note_panics(panicked);
        let problem = match result {
            Ok(_) | Err(Fault::Busy) => None,
            Err(Fault::Failure(failure)) => Some(failure.text().to_owned()),
            Err(Fault::Panic(text)) => Some(format!("panicked: {text}")),
        };
        if let Some(text) = problem {
            self.log(Level::Error, format!("{}: unload: {text}", plugin.name()));
        }
        for queued in commands {
            self.do_command(TopicId::Unload.name(), queued);
        }
    }

    /// Nothing may wait for a plugin that is gone, but its dependencies: they are conditions of the
    /// job, and the plugin takes them up again when it is loaded again. With `fail` its prologs and
    /// epilogs have failed; else they are left for the plugin that takes its place.
    pub(super) fn settle_without(&mut self, gone: &[(PluginKey, Arc<str>)], fail: bool) {
        let keys: Vec<PluginKey> = gone.iter().map(|(key, _)| *key).collect();
        self.timers.forget(&keys);
        self.refuse_awaiting(gone, "was removed");
        self.refuse_services(gone);
        self.kill_processes(&keys);
        self.give_back_all(&keys);
        let jobs: Vec<JobId> = self.active.iter().copied().collect();
        for id in jobs {
            self.abort_work(id, &keys);
            let Some(record) = self.jobs.get_mut(&id) else {
                continue;
            };
            record.subscribers.retain(|key| !keys.contains(key));
            let waits = record.job.state == State::Priority;
            if !fail {
                record.opened.retain(|open| !keys.contains(&open.plugin));
                continue;
            }
            self.fail_opened(id, &keys);
            if waits {
                // The answer that it waits for may have been the plugin's.
                self.notify(TopicId::JobStatePriority, id, Cause::None);
            }
        }
        if self.running {
            self.warn_without_priority();
        }
    }

    /// Drops an instance; what its `Drop` does wrong is not the manager's end.
    pub(super) fn drop_plugin(&mut self, plugin: Rc<Instance>) {
        let name = Arc::clone(plugin.name());
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(plugin))) {
            let text = format!("{name}: drop: panicked: {}", panic_text(&*panic));
            self.log(Level::Error, text);
        }
    }
}
