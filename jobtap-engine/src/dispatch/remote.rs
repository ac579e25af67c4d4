//! Work of plugins that comes back to the engine's thread: timers, completions, commands.

use super::call::{Called, call_back};
use super::faulted;
use super::shadow;
use crate::agenda::Queued;
use crate::api::Level;
use crate::core::Core;
use crate::host::{Fault, PluginKey, RemoteWork};

/// Does the work that has come back to a plugin, unless the plugin was removed.
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
                core.turn.effects.log(Level::Error, text);
                faulted::note_panic(&mut core.turn, &mut core.plugins, plugin);
            }
            commands
        }
    };
    if !core.plugins.shadows.is_empty() {
        let (shadows, now) = (&mut core.plugins.shadows, core.turn.clock.now);
        shadow::notes::note_live(now, &core.jobs, shadows, instance.name(), &commands);
    }
    core.turn.agenda.push_commands("later", commands);
}
