//! What the coming and going of a plugin means for the jobs that are there.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use super::frames::Then;
use super::plugins::{Bound, Loaded, glob};
use super::work::{Frame, Work};
use super::{Engine, Level, RequestError};
use crate::job::{JobId, State};
use crate::plugin::{PluginKey, panic_text};
use crate::topic::{JobNew, JobStateDepend, JobStatePriority, Topic};

const ENOENT: i32 = 2;

impl Engine {
    /// Introduces the active jobs to a plugin that was loaded later, then asks for all priorities.
    pub(super) fn introduce_jobs(&mut self, key: PluginKey) {
        self.reprioritize_all();
        // A submission that isn't accepted yet will be shown with the others by `job.new`.
        let accepted = |id: &&JobId| self.is_accepted(**id);
        let jobs = self.active.iter().filter(accepted).copied().collect();
        self.work.push(Work::Introduce(key, jobs));
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
        match state {
            State::Depend => {
                self.introduce(key, Frame::new(JobStateDepend::NAME, id, Then::Introduce));
                self.recheck_dependencies(id, Some(key));
            }
            // It waits for what this plugin may have to say.
            State::Priority => {
                self.introduce(key, Frame::new(JobStatePriority::NAME, id, Then::Notify));
            }
            _ => {}
        }
        self.introduce(key, Frame::new(JobNew::NAME, id, Then::Introduce));
    }

    /// Stacks a frame for one plugin alone.
    fn introduce(&mut self, key: PluginKey, frame: Frame) {
        let handlers = self.plugins.handlers(frame.topic).iter();
        let handlers: VecDeque<Bound> = handlers.filter(|b| b.plugin == key).cloned().collect();
        if !handlers.is_empty() {
            self.work
                .push(Work::Frame(Box::new(Frame { handlers, ..frame })));
        }
    }

    /// Removes by exact name, glob, or `all` (every one without a leading dot).
    pub(super) fn remove_plugins(&mut self, pattern: &str) -> Result<(), RequestError> {
        let matches = |plugin: &Loaded| match pattern {
            "all" => !plugin.name.starts_with('.'),
            pattern => glob(pattern.strip_suffix(".so").unwrap_or(pattern), &plugin.name),
        };
        let loaded = &mut self.plugins.loaded;
        let gone: Vec<Loaded> = loaded.extract_if(.., |plugin| matches(plugin)).collect();
        if gone.is_empty() && pattern != "all" {
            let text = "Failed to find plugin to remove".to_owned();
            return Err(RequestError {
                errno: ENOENT,
                text,
            });
        }
        self.plugins.bind();
        let names: Vec<(PluginKey, Arc<str>)> =
            gone.iter().map(|p| (p.key, Arc::clone(&p.name))).collect();
        for plugin in gone {
            self.drop_plugin(plugin);
        }
        self.settle_without(&names);
        Ok(())
    }

    /// Nothing may wait for a plugin that is gone, but its dependencies: they are conditions of the
    /// job, and the plugin takes them up again when it is loaded again.
    fn settle_without(&mut self, gone: &[(PluginKey, Arc<str>)]) {
        let keys: Vec<PluginKey> = gone.iter().map(|(key, _)| *key).collect();
        self.timers.forget(&keys);
        self.refuse_awaiting(gone, "was removed");
        let jobs: Vec<JobId> = self.active.iter().copied().collect();
        for id in jobs {
            let Some(record) = self.jobs.get_mut(&id) else {
                continue;
            };
            record.subscribers.retain(|key| !keys.contains(key));
            let waits = record.job.state == State::Priority;
            self.fail_opened(id, &keys);
            if waits {
                // The answer that it waits for may have been the plugin's.
                self.stack_frame(Frame::new(JobStatePriority::NAME, id, Then::Notify));
            }
        }
        if self.running {
            self.warn_without_priority();
        }
    }

    /// Drops an instance; what its `Drop` does wrong is not the manager's end.
    pub(super) fn drop_plugin(&mut self, plugin: Loaded) {
        let name = Arc::clone(&plugin.name);
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(plugin))) {
            let text = format!("{name}: drop: panicked: {}", panic_text(&*panic));
            self.log(Level::Error, text);
        }
    }
}
