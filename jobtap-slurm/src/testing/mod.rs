//! A double of Slurm, for tests of plugins and of the adapter: it makes the same calls without a daemon.
//!
//! There are two hosts for [`jobtap_core::testing::TestHosts`], one for each kind of Slurm plugin: [`TestSlurm`]
//! is slurmctld with a job_submit plugin, and [`TestSlurmPrep`] is slurmctld and slurmd with a PrEp plugin.
//! Features that only Slurm has, such as a modification of a job, are tested with [`TestSlurm`] itself:
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
use jobtap_core::slurm::{Field, JobDescriptor, JobRecord, Partition, Release, Releases};
use jobtap_core::testing::TestProcesses;
use serde::Serialize;
use serde_json::Value as Json;

use crate::config::FILE;
use crate::daemon::{Daemon, Part, PrepEnd};
use crate::job_submit::{self, Decision, Surroundings};
use crate::prep::{self, Controller, NodeJob};
use crate::structure::{Kind, Mismatch, Slot, Structure, Value, WriteError, read};
use crate::worker::{LoadError, Plugins};

pub use hosts::{TestSlurmError, TestSlurmPrep};

/// A structure in memory that records which fields are written.
#[derive(Debug)]
pub struct Record {
    slots: Vec<Slot>,
    values: Vec<Value<'static>>,
    written: Vec<&'static str>,
}

impl Record {
    /// Makes the description of a request, as slurmctld would pass it.
    pub fn descriptor(desc: &JobDescriptor) -> Self {
        Self::from_fields(desc, JobDescriptor::FIELDS)
    }

    /// Makes a structure with the fields of a table.
    pub fn from_fields<T: Serialize + Default>(fields: &T, table: &'static [Field<T>]) -> Self {
        let json = serde_json::to_value(fields).unwrap_or_default();
        // The table doesn't contain the widths of numbers in Slurm's structures. `kind` derives them from the
        // numbers that mean "not set".
        let (mut slots, mut values) = (Vec::new(), Vec::new());
        for field in table.iter().filter(|field| field.view_of.is_empty()) {
            let kind = kind(field);
            let Some(slot) = Slot::for_field(table, field.name, kind) else { continue };
            values.push(value(json.get(field.name).unwrap_or(&Json::Null), &slot));
            slots.push(slot);
        }
        Self { slots, values, written: Vec::new() }
    }

    /// Removes the fields that a release doesn't have.
    pub fn keep_fields_of(&mut self, release: Release) {
        let has = |slot: &Slot| Releases::of_field(slot.name).has(release);
        let rows =
            std::mem::take(&mut self.slots).into_iter().zip(std::mem::take(&mut self.values));
        (self.slots, self.values) = rows.filter(|(slot, _)| has(slot)).unzip();
    }

    /// Returns the value of a field.
    pub fn value(&self, name: &str) -> Option<Value<'static>> {
        let place = self.slots.iter().position(|slot| slot.name == name)?;
        self.values.get(place).cloned()
    }

    /// Returns the names of the written fields, in the order in which they were written.
    pub fn written(&self) -> &[&'static str] {
        &self.written
    }
}

/// Returns the type of a field in C. The width of a number is derived from the value that means "not set".
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

/// A daemon that records the calls.
#[derive(Debug, Default)]
pub struct Recorder {
    directory: PathBuf,
    prep_timeout: Option<Duration>,
    configured_at: AtomicI64,
    log: Mutex<Vec<(Level, String)>>,
    /// The messages about unsupported calls of plugins.
    unserved: Mutex<Vec<String>>,
    ended: Mutex<Vec<(Part, u32, PrepEnd)>>,
    /// The jobs that were canceled.
    cancelled: Mutex<BTreeSet<u32>>,
    /// Simulated processes, which end at once; `None` if real ones are run.
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

    fn prep_timeout(&self, _part: Part) -> Option<Duration> {
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

/// Builds a [`TestSlurm`].
#[derive(Debug, Default)]
#[must_use]
pub struct TestSlurmBuilder {
    prep: bool,
    plugins: Vec<&'static PluginDescriptor>,
    config: String,
    prep_timeout: Option<Duration>,
    partitions: Vec<Partition>,
    simulates_processes: bool,
    release: Option<Release>,
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

    /// Makes it a Slurm of this release; without this call it is of the newest.
    pub fn release(mut self, release: Release) -> Self {
        self.release = Some(release);
        self
    }

    /// Adds a partition that users may use.
    pub fn partition(mut self, partition: Partition) -> Self {
        self.partitions.push(partition);
        self
    }

    /// Makes the processes of plugins end at once instead of running their programs.
    pub fn simulated_processes(mut self) -> Self {
        self.simulates_processes = true;
        self
    }

    /// Loads the plugins.
    ///
    /// # Errors
    /// When the daemon would refuse to start.
    pub fn start(self) -> Result<TestSlurm, LoadError> {
        let scratch = Scratch::new().map_err(LoadError::Double)?;
        fs::write(scratch.0.join(FILE), &self.config).map_err(LoadError::Double)?;
        let recorder = Arc::new(Recorder {
            directory: scratch.0.clone(),
            prep_timeout: self.prep_timeout,
            processes: self.simulates_processes.then(Mutex::default),
            ..Recorder::default()
        });
        let daemon: Arc<dyn Daemon> = recorder.clone();
        let kind = if self.prep { HostKind::SlurmPrep } else { HostKind::SlurmSubmit };
        let plugins = Plugins::start(kind, Arc::clone(&daemon), self.plugins)?;
        let controller = Controller::start(daemon).map_err(LoadError::Double)?;
        Ok(TestSlurm {
            recorder,
            plugins,
            controller,
            partitions: self.partitions,
            release: self.release.unwrap_or(Release::V26_05),
            jobs: BTreeMap::new(),
            messages: Vec::new(),
            _scratch: scratch,
        })
    }
}

/// A unique directory that is removed when this value is dropped. The recorder stores only its path, since the plugins'
/// thread may keep the recorder alive for longer than the test runs.
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

/// The result of a request.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The decision that slurmctld gets.
    pub decision: Decision,
    /// The description with which slurmctld continues.
    pub descriptor: JobDescriptor,
    /// The fields that were written.
    pub written: Vec<&'static str>,
}

/// A double of Slurm: calls plugins as slurmctld and slurmd do.
#[derive(Debug)]
pub struct TestSlurm {
    recorder: Arc<Recorder>,
    plugins: Plugins,
    controller: Controller,
    partitions: Vec<Partition>,
    release: Release,
    /// The jobs that were submitted through the test kit.
    jobs: BTreeMap<JobId, JobDescriptor>,
    messages: Vec<String>,
    _scratch: Scratch,
}

impl TestSlurm {
    /// Returns a builder without plugins.
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
        record.keep_fields_of(self.release);
        let decision = job_submit::submit(&self.plugins, &mut record, user, self);
        Submitted { decision, descriptor: read(&record), written: record.written }
    }

    /// Requests a modification of a job as user 1000.
    pub fn modify(&self, job: JobRecord, changes: JobDescriptor) -> Submitted {
        let mut record = Record::descriptor(&changes);
        record.keep_fields_of(self.release);
        let decision = job_submit::modify(&self.plugins, &mut record, || Ok(job), 1000, self);
        Submitted { decision, descriptor: read(&record), written: record.written }
    }

    /// Runs a prolog or epilog of a node and returns its wait status.
    pub fn on_node(&self, part: Part, job: NodeJob) -> i32 {
        prep::on_node(&self.plugins, part, job)
    }

    /// Begins a prolog or epilog of the controller and returns whether slurmctld would wait for its end.
    pub fn in_controller(&self, part: Part, job: JobRecord) -> bool {
        self.controller.begin(&self.plugins, part, || Ok(job)).is_ok_and(|begun| begun)
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

    /// Rewrites `jobtap.toml` and acts as `scontrol reconfigure`: the next call takes over the new configuration.
    ///
    /// # Panics
    /// When the file can't be written.
    pub fn reconfigure(&self, text: &str) {
        let written = fs::write(self.recorder.directory.join(FILE), text);
        assert!(written.is_ok(), "{written:?}");
        self.recorder.configured_at.fetch_add(1, Ordering::Relaxed);
    }

    /// Stops the plugins, as the daemon does when it ends.
    pub fn stop(&self) {
        self.controller.stop();
        self.plugins.stop();
    }

    /// Returns the lines of the log with this level.
    pub fn log(&self, level: Level) -> Vec<String> {
        let log = lock(&self.recorder.log);
        log.iter().filter(|(of, _)| *of == level).map(|(_, text)| text.clone()).collect()
    }
}

impl Surroundings for TestSlurm {
    fn release(&self) -> Release {
        self.release
    }

    fn partitions(&self) -> Result<Vec<Partition>, Mismatch> {
        Ok(self.partitions.clone())
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
