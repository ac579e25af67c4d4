//! Work of plugins that comes back to the engine's thread: timers, completions, commands.

use super::call::{Called, call_back};
use super::faulted;
use crate::engine::agenda::Queued;
use crate::engine::api::Level;
use crate::engine::core::Core;
use crate::engine::shadow;
use crate::host::{Fault, PluginKey, RemoteCall, RemoteWork};

/// Handles [`Input::Remote`](crate::engine::Input::Remote): work of a plugin has come back.
pub(crate) fn receive(core: &mut Core, call: RemoteCall) {
    resume(core, call.plugin, call.work);
}

/// Does what has come back to a plugin, unless it was removed.
pub(crate) fn resume(core: &mut Core, plugin: PluginKey, work: RemoteWork) {
    if core.plugins.shadows.contains(plugin) {
        return shadow::resume(core, plugin, work);
    }
    let Some(instance) = core.plugins.stack.get(plugin).cloned() else {
        return;
    };
    let commands = match work {
        RemoteWork::Commands(commands) => {
            commands.into_iter().map(|command| Queued { plugin, command }).collect()
        }
        RemoteWork::Call(_) if instance.is_faulted() => return,
        RemoteWork::Call(call) => {
            // `None` if the plugin is being called: never here, since no callback is under way while the
            // engine takes an input or carries out commands.
            let Some(Called { result, commands }) = call_back(core, &instance, call) else {
                return;
            };
            if let Err(Fault::Panic(text)) = result {
                let text = format!("{}: later: panicked: {text}", instance.name());
                core.log(Level::Error, text);
                faulted::note_panic(core, plugin);
            }
            commands
        }
    };
    if !core.plugins.shadows.is_empty() {
        shadow::notes::note_live(core, instance.name(), &commands);
    }
    core.agenda.push_commands("later", commands);
}
