//! Plugins that keep panicking, and the removal of all plugins.
//!
//! One panic is a fault of one callback. Several in a short time mean that the plugin's own state can't be
//! trusted any more: until it is reloaded, its gates refuse and its other topics are skipped. Its open prologs
//! and epilogs end with an exception. Dependencies that it hasn't removed and priorities that it hasn't set
//! stay open: no job passes a policy because the policy is broken.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use jobtap_core::host::{
    BlockingCommand, Detail, Fault, LoadedPlugin, PluginKey, ProcessCommand, panic_text,
};
use jobtap_core::plugin::Level;
use jobtap_core::topic::TopicId;

use super::Adapter;
use super::frame::{Called, Subject};
use crate::flux::Flux;

/// The number of panics within [`PERIOD`] that make a plugin faulted, unless `job-manager.plugin-panic-limit` sets
/// another.
const LIMIT: u64 = 3;

/// In seconds.
const PERIOD: f64 = 60.0;

impl<F: Flux> Adapter<F> {
    /// Counts a panic of a plugin, which has been logged, and makes the plugin faulted if the limit is reached.
    pub(super) fn note_panic(&self, key: PluginKey) {
        let limit = {
            let instance = self.instance.borrow();
            let limit = instance.config.pointer("/job-manager/plugin-panic-limit");
            limit.and_then(serde_json::Value::as_u64).unwrap_or(LIMIT).max(1)
        };
        let plugin = self.stack.borrow().get(key).map(Rc::clone);
        let Some(plugin) = plugin else { return };
        let count = {
            let now = self.flux.now();
            let mut open = self.open.borrow_mut();
            let times = open.panics.entry(key).or_default();
            times.retain(|time| now - *time < PERIOD);
            times.push(now);
            times.len() as u64
        };
        if plugin.is_faulted() || count < limit {
            return;
        }
        plugin.set_faulted();
        let name = plugin.name();
        self.log(
            Level::Error,
            &format!(
                "{name}: faulted after {limit} panics within {PERIOD} s: its gates reject and its other topics \
                 are skipped until it is removed and loaded again"
            ),
        );
        self.close_open(&plugin, "failed", "failed repeatedly");
    }

    /// Logs and counts the panics of plugins whose own topics another plugin has called.
    pub(super) fn note_panics(&self, panicked: Vec<(PluginKey, String)>) {
        for (plugin, text) in panicked {
            let name = self.name(plugin);
            self.log(Level::Error, &format!("{name}: panicked: {text}"));
            self.note_panic(plugin);
        }
    }

    /// Ends everything that a plugin has open: aborts its work and fails its prologs and epilogs.
    fn close_open(&self, plugin: &LoadedPlugin, became: &str, why: &str) {
        let (key, name) = (plugin.key(), plugin.name());
        self.timers.borrow_mut().cancel_all_of(key);
        self.cancel_rpcs_of(key);
        self.refuse_requests(key, &format!("plugin {name} {became} before it answered"));
        if let Some(runtime) = self.runtime.get() {
            runtime.process(key, ProcessCommand::KillAll);
            runtime.blocking(key, BlockingCommand::DropAll);
        }
        self.mirror.borrow_mut().abort_work_of(key);
        let jobs = self.mirror.borrow().ids();
        for id in jobs {
            let lost = self.mirror.borrow_mut().disown_all(key, id);
            for (kind, what) in lost {
                let note = format!("{} {what}: its plugin {why}", kind.word());
                self.finish_lost(id, kind, &what, Some(note));
            }
        }
    }

    /// Called when Flux removes the file, or when its job manager ends.
    ///
    /// A removal ends everything that the plugins have open. At the end of the job manager everything stays open and
    /// is continued after the next start. Flux has no jobs any more then, so no call for a job would succeed.
    pub fn unload(&self) {
        let nested = self.nested();
        let seen = self.open.borrow().seen;
        let is_removal = seen.is_none_or(|id| {
            let active = self.mirror.borrow().ids();
            let any = active.first().copied().unwrap_or(id);
            self.flux.job_lookup(any).is_ok()
        });
        let plugins = self.stack.borrow().plugins().to_vec();
        if is_removal {
            for plugin in &plugins {
                self.call_unload(plugin);
            }
            for plugin in &plugins {
                self.close_open(plugin, "was removed", "was removed");
            }
        }
        self.stack.borrow_mut().remove(|_| true);
        if let Some(runtime) = self.runtime.get() {
            for plugin in &plugins {
                runtime.process(plugin.key(), ProcessCommand::KillAll);
            }
            // If a handler blocks the thread, the thread and the file stay in memory.
            runtime.stop();
        }
        drop(nested);
        self.store_all_data();
        for plugin in plugins {
            let name = std::sync::Arc::clone(plugin.name());
            if let Err(panic) = catch_unwind(AssertUnwindSafe(|| drop(plugin))) {
                let text = panic_text(&*panic);
                self.log(Level::Error, &format!("{name}: drop: panicked: {text}"));
            }
        }
    }

    fn call_unload(&self, plugin: &Rc<LoadedPlugin>) {
        let Some(bound) = plugin.unload_handler().filter(|_| !plugin.is_faulted()) else { return };
        let Called { result, commands, .. } =
            self.call_one(&bound, TopicId::Unload, Subject::None, Detail::None);
        let problem = match result {
            Ok(_) | Err(Fault::Busy) => None,
            Err(Fault::Failure(failure)) => Some(failure.text().to_owned()),
            // The panic isn't counted, since the plugin is being removed anyway.
            Err(Fault::Panic(text)) => Some(format!("panicked: {text}")),
        };
        if let Some(text) = problem {
            self.log(Level::Error, &format!("{}: unload: {text}", plugin.name()));
        }
        self.carry_out(TopicId::Unload.name(), commands);
    }
}
