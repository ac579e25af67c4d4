//! Allocations on demand: what the engine wants to have is ordered from outer job managers, and what becomes of it is
//! reported.
//!
//! | file | what it holds |
//! |---|---|
//! | `program` | runs commands of an outer job manager, within bounds |
//! | `outer` | what is asked of an outer job manager, and what it says |
//! | `script`, `private_file` | what runs on the nodes, and how they get their invitation |
//! | `slurm`, `flux`, `command` | the outer job managers |
//! | `desk` | the loop that deals with one of them |
//!
//! All of this is done on one thread, which waits for nothing but commands.

mod command;
mod desk;
mod flux;
#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
mod outer;
mod private_file;
mod program;
mod script;
mod slurm;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobtap_core::allocation::{OuterEngine, Table, Tables};
use jobtap_core::engine::{AllocationCommand, AllocationEvent, AllocationId, Level};
use jobtap_core::resource::Idset;
use rustc_hash::FxHashMap;
use tokio::runtime::Handle;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::oneshot;
use tokio::time::timeout;

use self::command::SiteCommand;
use self::desk::{Desk, Message, Shared};
use self::flux::Flux;
use self::private_file::PrivateFiles;
use self::slurm::Slurm;
use crate::exec::nodes::{Expected, Guests, Nodes, Notice};

/// What allocations are ordered with.
pub struct Surroundings {
    /// The nodes of the instance, and who may join.
    pub nodes: Arc<Nodes>,
    /// Where nodes join.
    pub guests: Guests,
    /// How long nodes wait for a manager that is gone.
    pub wait: Duration,
    /// Takes what happens to allocations, in its order for each of them.
    pub report: Arc<dyn Fn(AllocationEvent) + Send + Sync>,
    /// Takes lines for the manager's log.
    pub log: Arc<dyn Fn(Level, String) + Send + Sync>,
}

/// The allocations of an elastic instance.
pub struct Allocations {
    desks: Arc<Desks>,
    _thread: oneshot::Sender<()>,
}

/// The loops, one for each outer job manager.
struct Desks {
    tables: Mutex<Tables>,
    open: Mutex<Open>,
    shared: Shared,
    files: PrivateFiles,
    runtime: Handle,
}

#[derive(Default)]
struct Open {
    desks: Vec<(OuterEngine, UnboundedSender<Message>)>,
    /// The loop that has an allocation.
    of: FxHashMap<AllocationId, usize>,
}

impl Allocations {
    /// Starts the thread. `tables` are those of the configuration.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn start(
        tables: Tables,
        state_dir: &Path,
        surroundings: Surroundings,
    ) -> std::io::Result<Self> {
        let Surroundings { nodes, guests, wait, report, log } = surroundings;
        let (named, invited) = (Arc::clone(&nodes), nodes);
        let shared = Shared {
            report,
            log,
            guests: guests.clone(),
            name: Arc::new(move |id| named.name_of(id)),
            invitation: Arc::new(move |id| invited.invitation(id, wait)),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        std::thread::Builder::new()
            .name("allocations".to_owned())
            .spawn(move || drop(runtime.block_on(stopped)))?;
        let files = PrivateFiles::new(state_dir);
        let (tables, open) = (Mutex::new(tables), Mutex::default());
        let desks = Arc::new(Desks { tables, open, shared, files, runtime: handle });
        let to_desks = Arc::downgrade(&desks);
        guests.begin(move |notice| {
            if let Some(desks) = to_desks.upgrade() {
                desks.notice(notice);
            }
        });
        Ok(Self { desks, _thread: stop })
    }

    /// Uses these tables for what is ordered from now on.
    pub fn configure(&self, tables: Tables) {
        *lock(&self.desks.tables) = tables;
    }

    /// Carries out a command of the engine. Doesn't wait for it.
    pub fn command(&self, command: AllocationCommand) {
        self.desks.command(command);
    }

    /// Cancels all allocations, and waits until none is left, but no longer than this time.
    pub async fn end_all(&self, limit: Duration) {
        let (done, mut ended) = unbounded_channel::<()>();
        for (_, desk) in &lock(&self.desks.open).desks {
            let _ = desk.send(Message::EndAll { done: done.clone() });
        }
        drop(done);
        // Each loop drops its end when it has no allocation any more.
        let _ = timeout(limit, ended.recv()).await;
    }
}

impl Desks {
    fn command(&self, command: AllocationCommand) {
        let id = command.id();
        match command {
            AllocationCommand::Order { table, ranks, time_limit, again, .. } => {
                self.send(id, &table, |table| {
                    self.expect(id, &table, ranks, Vec::new());
                    Message::Order { id, table: Box::new(table), time_limit, again }
                });
            }
            AllocationCommand::Follow { table, ranks, job, started, joined, .. } => {
                self.send(id, &table, |table| {
                    self.expect(id, &table, ranks, joined);
                    Message::Follow { id, job, started }
                });
            }
            AllocationCommand::End { table, .. } => self.send(id, &table, |_| Message::End(id)),
        }
    }

    /// Its nodes may join. Those of an earlier manager are known before any job is started there again: nothing of this
    /// waits for a loop.
    fn expect(&self, id: AllocationId, table: &Table, ranks: Idset, joined: Vec<(u32, String)>) {
        let Table { cores, gpus, .. } = *table;
        self.shared.guests.expect(id, Expected { ranks, cores, gpus, joined });
    }

    /// Sends a message to the loop of a table's outer manager.
    fn send(&self, id: AllocationId, name: &str, message: impl FnOnce(Table) -> Message) {
        let mut open = lock(&self.open);
        let table = lock(&self.tables).get(name).cloned();
        let Some(table) = table else {
            let text = format!(
                "allocation {id} is of the table {name:?}, which isn't configured any more: if the job {} is still \
                 there, cancel it",
                (self.shared.name)(id)
            );
            (self.shared.log)(Level::Error, text);
            let reason = format!("the table {name:?} isn't configured any more");
            return (self.shared.report)(AllocationEvent::Ended { id, reason });
        };
        let place = match open.of.get(&id) {
            Some(place) => *place,
            None => {
                let place = open.place_for(&table.engine, |engine| self.open_desk(engine));
                open.of.insert(id, place);
                place
            }
        };
        if let Some((_, desk)) = open.desks.get(place) {
            // The loop runs as long as the sender is there.
            let _ = desk.send(message(table));
        }
    }

    /// Starts the loop for an outer manager.
    fn open_desk(&self, engine: &OuterEngine) -> UnboundedSender<Message> {
        let (to_desk, inbox) = unbounded_channel();
        let (shared, files) = (self.shared.clone(), self.files.clone());
        match engine {
            OuterEngine::Slurm => drop(self.runtime.spawn(Desk::new(Slurm, shared, inbox).run())),
            OuterEngine::Flux => {
                drop(self.runtime.spawn(Desk::new(Flux { files }, shared, inbox).run()));
            }
            OuterEngine::Command(words) => {
                let command = SiteCommand { words: words.clone(), files };
                drop(self.runtime.spawn(Desk::new(command, shared, inbox).run()));
            }
        }
        to_desk
    }

    fn notice(&self, notice: Notice) {
        let open = lock(&self.open);
        let desk = open.of.get(&notice.id()).and_then(|place| open.desks.get(*place));
        if let Some((_, desk)) = desk {
            let _ = desk.send(Message::Notice(notice));
        }
    }
}

impl Open {
    /// The place of the loop for an outer manager.
    fn place_for(
        &mut self,
        engine: &OuterEngine,
        open: impl FnOnce(&OuterEngine) -> UnboundedSender<Message>,
    ) -> usize {
        match self.desks.iter().position(|(known, _)| known == engine) {
            Some(place) => place,
            None => {
                self.desks.push((engine.clone(), open(engine)));
                self.desks.len() - 1
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
