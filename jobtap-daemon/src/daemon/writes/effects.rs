//! Carries out the effects of the engine, on the committing thread, once the events that caused them are durable.
//! Nothing here may wait: the next commit would wait for it.

use std::sync::Arc;

use jobtap_core::engine::{Effect, ExecCommand, Input, JobLog};
use jobtap_core::eventlog::EventEntry;
use jobtap_core::host::BlockingCommand;
use jobtap_core::job::JobId;

use super::resubmit;
use crate::allocations::Allocations;
use crate::daemon::engine::{After, EngineHandle};
use crate::daemon::execution::Execution;
use crate::daemon::failure::Failure;
use crate::daemon::plugin_threads::blocking::BlockingThreads;
use crate::daemon::plugin_threads::futures::FutureThreads;
use crate::daemon::plugin_threads::requests::PluginRequests;
use crate::daemon::records::Records;
use crate::daemon::watchers::hub::Hub;
use crate::daemon::watchers::journal::JournalWatchers;
use crate::processes::Processes;
use crate::users;

/// The parts of the manager that effects go to.
pub(in crate::daemon) struct Effector {
    /// The engine: the requests that wait for its responses, and the inputs that come back to it.
    pub engine: EngineHandle,
    /// The watchers of eventlogs.
    pub hub: Arc<Hub>,
    /// The streams of the events of all jobs.
    pub journal: Arc<JournalWatchers>,
    /// The files of jobs outside the store.
    pub records: Records,
    /// The executor.
    pub execution: Execution,
    /// The allocations of an elastic instance.
    pub allocations: Option<Arc<Allocations>>,
    /// The runtime on which users are looked up.
    pub runtime: tokio::runtime::Handle,
    /// The threads for the futures of plugins.
    pub futures: FutureThreads,
    /// The processes of plugins.
    pub processes: Processes,
    /// The requests of plugins to services.
    pub requests: PluginRequests,
    /// The threads for work of plugins that computes for long.
    pub blocking: BlockingThreads,
    /// Where a failure to make something durable is reported.
    pub failure: Failure,
}

impl Effector {
    /// Carries out the effects of one turn, in order.
    pub(in crate::daemon) fn run(&self, after: Vec<After>) {
        // Sent together: each message by itself would wake the thread of the executor.
        let mut commands = Vec::new();
        for what in after {
            match what {
                After::Deliver(deliver) => deliver(),
                After::Effects(effects) => {
                    effects.into_iter().for_each(|effect| self.carry_out(effect, &mut commands));
                }
            }
        }
        if !commands.is_empty() {
            self.execution.send(commands);
        }
    }

    fn carry_out(&self, effect: Effect, commands: &mut Vec<ExecCommand>) {
        match effect {
            Effect::Reply { to, result } => self.engine.replies().finish(to, result),
            Effect::Respond { to, payload } => self.engine.replies().respond(to, payload),
            Effect::Process { plugin, command } => self.processes.send(plugin, *command),
            Effect::Rpc { plugin, command } => self.requests.send(plugin, command),
            Effect::Blocking { plugin, command } => {
                if matches!(command, BlockingCommand::DropAll) {
                    self.futures.remove(plugin);
                }
                self.blocking.send(plugin, command);
            }
            Effect::Publish { id, log, seq, entry } => {
                publish(&self.hub, &self.journal, id, log, seq, &entry);
            }
            Effect::Announce { id, entry } => self.journal.publish(id, None, &entry),
            Effect::Exec(command) => commands.push(command),
            Effect::Allocation(command) => {
                // Without them, as for an inspection, nothing is ordered.
                if let Some(allocations) = &self.allocations {
                    allocations.command(command);
                }
            }
            Effect::Timer { id, at } => self.engine.set_timer(id, at),
            Effect::LookUp { user } => {
                let engine = self.engine.clone();
                drop(self.runtime.spawn(async move {
                    let requester = users::requester(user.as_u32()).await;
                    engine.input(Input::Requester { user, requester });
                }));
            }
            Effect::Resubmit(job) => resubmit::resubmit(&self.engine, &self.records, *job),
            Effect::Spawn(future) => self.futures.spawn(future),
        }
    }
}

/// Sends an event to the watchers of its job, and to those of all jobs.
pub(in crate::daemon) fn publish(
    hub: &Hub,
    journal: &JournalWatchers,
    id: JobId,
    log: JobLog,
    seq: u64,
    entry: &Arc<EventEntry>,
) {
    hub.publish(id, log, seq, entry);
    if log == JobLog::Main {
        journal.publish(id, Some(seq), entry);
    }
}
