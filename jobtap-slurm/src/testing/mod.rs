//! A double of Slurm, for tests of plugins and of the adapter: the same calls, without a daemon.
//!
//! As hosts of [`jobtap_core::testing::TestHosts`] there are two, by the kind of file: [`TestSlurm`] is
//! slurmctld with a job_submit plugin, [`TestSlurmPrep`] slurmctld and slurmd with a PrEp plugin. What is
//! Slurm's alone, such as a change of a job, is tested with [`TestSlurm`] itself:
//!
//! ```
//! use jobtap_core::prelude::*;
//! use jobtap_core::slurm::{JobDescriptor, SlurmError, errno};
//! use jobtap_slurm::testing::TestSlurm;
//!
//! #[derive(Default)]
//! struct Limit;
//!
//! #[jobtap_plugin(name = "limit")]
//! impl Limit {
//!     #[on("slurm.job_submit")]
//!     fn submit(&self, mut desc: Descriptor<'_>) -> Result<(), SlurmError> {
//!         match desc.time_limit {
//!             Some(minutes) if minutes > 1440 => Err(errno::ESLURM_INVALID_TIME_LIMIT),
//!             _ => {
//!                 desc.comment = Some("seen".to_owned());
//!                 Ok(())
//!             }
//!         }
//!     }
//! }
//!
//! let slurm = TestSlurm::new().plugin::<Limit>().start().unwrap();
//! let submitted = slurm.submit(JobDescriptor::default());
//! assert_eq!(submitted.descriptor.comment.as_deref(), Some("seen"));
//! let refused = slurm.submit(JobDescriptor { time_limit: Some(2000), ..Default::default() });
//! assert_eq!(refused.decision.code, errno::ESLURM_INVALID_TIME_LIMIT.code());
//! ```

mod hosts;

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use jobtap_core::host::{HostKind, PluginDescriptor, ProcessCommand};
use jobtap_core::job::JobId;
use jobtap_core::plugin::{Level, Plugin};
use jobtap_core::slurm::{Field, JobDescriptor, JobRecord, Partition};
use jobtap_core::testing::TestProcesses;
use serde::Serialize;
use serde_json::Value as Json;

use crate::config::FILE;
use crate::daemon::{Daemon, Part, PrepEnd};
use crate::job_submit::{self, Decision, Surroundings};
use crate::prep::{self, Controller, NodeJob};
use crate::structure::{Kind, Slot, Structure, Value, WriteError, read};
use crate::worker::{LoadError, Plugins};

pub use hosts::TestSlurmPrep;

/// A structure in memory, which notes what is written.
#[derive(Debug)]
pub struct Record {
    slots: Vec<Slot>,
    values: Vec<Value<'static>>,
    written: Vec<&'static str>,
}

impl Record {
    /// A description of a request, as slurmctld would have it.
    pub fn descriptor(of: &JobDescriptor) -> Self {
        Self::of(of, JobDescriptor::FIELDS)
    }

    /// A structure with the fields of a table.
    pub fn of<T: Serialize + Default>(of: &T, table: &'static [Field<T>]) -> Self {
        let json = serde_json::to_value(of).unwrap_or_default();
        // The numbers of a table are of the widths of Slurm's members, but the table doesn't tell them. The
        // largest number that is accepted does.
        let (mut slots, mut values) = (Vec::new(), Vec::new());
        for field in table.iter().filter(|field| field.view_of.is_empty()) {
            let kind = kind(field);
            let Some(slot) = Slot::of(table, field.name, kind) else { continue };
            values.push(value(json.get(field.name).unwrap_or(&Json::Null), &slot));
            slots.push(slot);
        }
        Self { slots, values, written: Vec::new() }
    }

    /// Takes a field out, as in a version of Slurm that doesn't have it.
    pub fn remove(&mut self, name: &str) {
        if let Some(place) = self.slots.iter().position(|slot| slot.name == name) {
            self.slots.remove(place);
            self.values.remove(place);
        }
    }

    /// The value of a field.
    pub fn value(&self, name: &str) -> Option<Value<'static>> {
        let place = self.slots.iter().position(|slot| slot.name == name)?;
        self.values.get(place).cloned()
    }

    /// The names of the fields that were written, in their order.
    pub fn written(&self) -> &[&'static str] {
        &self.written
    }
}

/// The type of a field in C, of which its table tells the width of numbers by the number for what is not set.
fn kind<T: Default>(field: &Field<T>) -> Kind {
    use jobtap_core::slurm::{Kind as Of, Value as Shown};
    match (field.kind, (field.get)(&T::default())) {
        (Of::Text, _) => Kind::Text,
        (Of::List { .. } | Of::Environment, _) => Kind::Texts,
        _ if field.unit == "seconds since 1970" => Kind::Time,
        (_, Shown::Number(254.0)) => Kind::Number(1),
        (_, Shown::Number(65534.0) | Shown::Nil) => Kind::Number(2),
        (_, Shown::Number(number)) if number > 5e9 => Kind::Number(8),
        _ if field.name == "bitflags" => Kind::Number(8),
        _ => Kind::Number(4),
    }
}

fn value(json: &Json, slot: &Slot) -> Value<'static> {
    let text = |json: &Json| Cow::Owned(json.as_str().unwrap_or_default().to_owned());
    match (slot.kind, json) {
        (Kind::Text, Json::Null) => Value::Text(None),
        (Kind::Text, json) => Value::Text(Some(text(json))),
        (Kind::Texts, Json::Object(variables)) => {
            let line =
                |(name, value): (&String, &Json)| Cow::Owned(format!("{name}={}", text(value)));
            Value::Texts(variables.iter().map(line).collect())
        }
        (Kind::Texts, json) => {
            Value::Texts(json.as_array().into_iter().flatten().map(text).collect())
        }
        (_, json) => Value::Number(json.as_u64().unwrap_or(slot.unset)),
    }
}

impl Structure for Record {
    fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn get(&self, slot: usize) -> Value<'_> {
        self.values.get(slot).cloned().unwrap_or(Value::Text(None))
    }

    fn set(&mut self, slot: usize, value: Value<'_>) -> Result<(), WriteError> {
        let (Some(row), Some(old)) = (self.slots.get(slot), self.values.get_mut(slot)) else {
            return Ok(());
        };
        let owned = |text: Cow<'_, str>| match text.contains('\0') {
            true => Err(WriteError::ZeroByte(row.name)),
            false => Ok(Cow::Owned(text.into_owned())),
        };
        *old = match value {
            Value::Text(text) => Value::Text(text.map(owned).transpose()?),
            Value::Texts(texts) => {
                Value::Texts(texts.into_iter().map(owned).collect::<Result<_, _>>()?)
            }
            Value::Number(number) => Value::Number(number),
        };
        self.written.push(row.name);
        Ok(())
    }
}

/// Records what is asked of the daemon.
#[derive(Debug, Default)]
pub struct Recorder {
    directory: PathBuf,
    prep_timeout: Option<Duration>,
    configured_at: AtomicI64,
    log: Mutex<Vec<(Level, String)>>,
    /// The calls of plugins that aren't served, in words.
    unserved: Mutex<Vec<String>>,
    ended: Mutex<Vec<(Part, u32, PrepEnd)>>,
    /// The jobs that were cancelled.
    cancelled: Mutex<BTreeSet<u32>>,
    /// Processes that end at once, in place of real ones.
    processes: Option<Mutex<TestProcesses>>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Daemon for Recorder {
    fn log(&self, level: Level, text: &str) {
        lock(&self.log).push((level, text.to_owned()));
    }

    fn unserved(&self, text: &str) {
        self.log(Level::Error, text);
        lock(&self.unserved).push(text.to_owned());
    }

    fn config_file(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    fn configured_at(&self) -> i64 {
        self.configured_at.load(Ordering::Relaxed)
    }

    fn prep_timeout(&self) -> Option<Duration> {
        self.prep_timeout
    }

    fn prepare_thread(&self) {}

    fn controller_ended(&self, part: Part, job: u32, end: &PrepEnd) {
        lock(&self.ended).push((part, job, end.clone()));
    }

    fn is_over(&self, job: u32) -> bool {
        lock(&self.cancelled).contains(&job)
    }

    fn run_process(&self, command: ProcessCommand) -> Option<ProcessCommand> {
        let Some(processes) = &self.processes else { return Some(command) };
        lock(processes).follow(command);
        None
    }
}

/// Makes a [`TestSlurm`].
#[derive(Debug, Default)]
#[must_use]
pub struct TestSlurmBuilder {
    prep: bool,
    plugins: Vec<&'static PluginDescriptor>,
    config: String,
    prep_timeout: Option<Duration>,
    partitions: Vec<Partition>,
    simulates_processes: bool,
}

impl TestSlurmBuilder {
    /// Adds a plugin. Plugins are called in the order in which they are added.
    pub fn plugin<P: Plugin>(mut self) -> Self {
        self.plugins.push(P::DESCRIPTOR);
        self
    }

    /// Puts the plugins into a PrEp plugin, instead of a job_submit plugin.
    pub fn prep(mut self) -> Self {
        self.prep = true;
        self
    }

    /// Sets the text of `jobtap.toml`.
    pub fn config(mut self, text: impl Into<String>) -> Self {
        self.config = text.into();
        self
    }

    /// Sets `PrologEpilogTimeout`.
    pub fn prep_timeout(mut self, limit: Duration) -> Self {
        self.prep_timeout = Some(limit);
        self
    }

    /// Adds a partition that users may use.
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partitions.push(partition);
        self
    }

    /// Lets the processes of plugins end at once, instead of running their programs.
    pub fn simulated_processes(mut self) -> Self {
        self.simulates_processes = true;
        self
    }

    /// Loads the plugins.
    ///
    /// # Errors
    /// As the daemon would refuse to start.
    pub fn start(self) -> Result<TestSlurm, LoadError> {
        let other = |error: std::io::Error| LoadError::Config(error.to_string());
        let scratch = Scratch::new().map_err(other)?;
        fs::write(scratch.0.join(FILE), &self.config).map_err(other)?;
        let recorder = Arc::new(Recorder {
            directory: scratch.0.clone(),
            prep_timeout: self.prep_timeout,
            processes: self.simulates_processes.then(Mutex::default),
            ..Recorder::default()
        });
        let daemon: Arc<dyn Daemon> = recorder.clone();
        let kind = if self.prep { HostKind::SlurmPrep } else { HostKind::SlurmSubmit };
        let plugins = Plugins::start(kind, Arc::clone(&daemon), self.plugins)?;
        let controller = Controller::start(daemon).map_err(other)?;
        Ok(TestSlurm {
            recorder,
            plugins,
            controller,
            partitions: self.partitions,
            jobs: BTreeMap::new(),
            messages: Vec::new(),
            _scratch: scratch,
        })
    }
}

/// A directory that no other has, removed with this value. The recorder only knows its path, since the plugins'
/// thread may keep the recorder for longer than the test lasts.
#[derive(Debug)]
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> std::io::Result<Self> {
        static NEXT: AtomicI64 = AtomicI64::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("jobtap-slurm-{}-{next}", std::process::id());
        let directory = std::env::temp_dir().join(name);
        fs::create_dir(&directory)?;
        Ok(Self(directory))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What became of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// What slurmctld is told.
    pub decision: Decision,
    /// The description as slurmctld goes on with it.
    pub descriptor: JobDescriptor,
    /// The fields that were written.
    pub written: Vec<&'static str>,
}

/// A Slurm without Slurm: calls plugins as slurmctld and slurmd do.
#[derive(Debug)]
pub struct TestSlurm {
    recorder: Arc<Recorder>,
    plugins: Plugins,
    controller: Controller,
    partitions: Vec<Partition>,
    /// The jobs that were submitted to it as a host of the test kit.
    jobs: BTreeMap<JobId, JobDescriptor>,
    messages: Vec<String>,
    _scratch: Scratch,
}

impl TestSlurm {
    /// Without plugins.
    #[allow(clippy::new_ret_no_self, reason = "a builder, as `TestManager::new`")]
    pub fn new() -> TestSlurmBuilder {
        TestSlurmBuilder::default()
    }

    /// Submits a job as user 1000.
    pub fn submit(&self, descriptor: JobDescriptor) -> Submitted {
        self.submit_as(1000, descriptor)
    }

    /// Submits a job.
    pub fn submit_as(&self, user: u32, mut descriptor: JobDescriptor) -> Submitted {
        descriptor.user_id = user;
        let mut record = Record::descriptor(&descriptor);
        let decision = job_submit::submit(&self.plugins, &mut record, user, self);
        Submitted { decision, descriptor: read(&record), written: record.written }
    }

    /// Requests a change of a job as user 1000.
    pub fn modify(&self, job: JobRecord, changes: JobDescriptor) -> Submitted {
        let mut record = Record::descriptor(&changes);
        let decision = job_submit::modify(&self.plugins, &mut record, || job, 1000, self);
        Submitted { decision, descriptor: read(&record), written: record.written }
    }

    /// Runs a prolog or epilog of a node, and returns its wait status.
    pub fn on_node(&self, part: Part, job: NodeJob) -> i32 {
        prep::on_node(&self.plugins, part, job)
    }

    /// Begins a prolog or epilog of the controller, and returns whether it is waited for.
    pub fn in_controller(&self, part: Part, job: JobRecord) -> bool {
        self.controller.begin(&self.plugins, part, || job)
    }

    /// Cancels a job of the controller, which drops its prolog within a second or two.
    pub fn cancel(&self, job: u32) {
        lock(&self.recorder.cancelled).insert(job);
    }

    /// Waits until this many prologs and epilogs of the controller have ended, and returns them.
    ///
    /// # Panics
    /// When that takes too long.
    #[track_caller]
    pub fn ended(&self, count: usize) -> Vec<(Part, u32, PrepEnd)> {
        let until = Instant::now() + Duration::from_secs(20);
        loop {
            let ended = lock(&self.recorder.ended).clone();
            if ended.len() >= count {
                return ended;
            }
            assert!(Instant::now() < until, "only {ended:?} have ended");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Changes `jobtap.toml`, as of the next call: `scontrol reconfigure`.
    ///
    /// # Panics
    /// When the file can't be written.
    pub fn reconfigure(&self, text: &str) {
        let written = fs::write(self.recorder.directory.join(FILE), text);
        assert!(written.is_ok(), "{written:?}");
        self.recorder.configured_at.fetch_add(1, Ordering::Relaxed);
    }

    /// Ends the plugins, as the daemon does when it ends.
    pub fn stop(&self) {
        self.controller.stop();
        self.plugins.stop();
    }

    /// The lines of the log that have this severity.
    pub fn log(&self, level: Level) -> Vec<String> {
        let log = lock(&self.recorder.log);
        log.iter().filter(|(of, _)| *of == level).map(|(_, text)| text.clone()).collect()
    }
}

impl Surroundings for TestSlurm {
    fn partitions(&self) -> Vec<Partition> {
        self.partitions.clone()
    }

    fn user_name(&self, user: u32) -> Option<String> {
        Some(format!("user{user}"))
    }
}

impl Drop for TestSlurm {
    fn drop(&mut self) {
        self.stop();
        let _ = fs::remove_dir_all(&self.recorder.directory);
    }
}
