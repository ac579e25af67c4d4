//! `[policy]` and `[queues.NAME.policy]`: defaults of jobs, limits, the choice of a scheduler.

use serde_json::{Map, Value};

use super::error::QueueConfigError;
use super::table::{Table, kind};
use crate::job::Fsd;

/// What one policy table says; what it doesn't say is that of the table above it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Policy {
    /// `jobspec.defaults.system.duration`: the time limit of jobs that ask for none.
    pub default_duration: Option<Fsd>,
    /// `jobspec.defaults.system.queue`: the queue of jobs that name none. In `[policy]` alone.
    pub default_queue: Option<String>,
    /// `limits`.
    pub limits: Limits,
    /// `scheduler`, which is the scheduler's own.
    pub scheduler: Option<Value>,
}

/// What jobs may ask for.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Limits {
    /// The longest time limit; zero is no limit.
    pub duration: Option<Fsd>,
    /// The most.
    pub max: JobSize,
    /// The least.
    pub min: JobSize,
}

/// A limit of each kind of resource; -1 is no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JobSize {
    /// Nodes.
    pub nnodes: Option<i64>,
    /// Cores.
    pub ncores: Option<i64>,
    /// GPUs.
    pub ngpus: Option<i64>,
}

impl Limits {
    /// These limits, and those of `general` where nothing is said here.
    #[must_use]
    pub fn or(self, general: Self) -> Self {
        Self {
            duration: self.duration.or(general.duration),
            max: self.max.or(general.max),
            min: self.min.or(general.min),
        }
    }
}

impl JobSize {
    fn or(self, general: Self) -> Self {
        Self {
            nnodes: self.nnodes.or(general.nnodes),
            ncores: self.ncores.or(general.ncores),
            ngpus: self.ngpus.or(general.ngpus),
        }
    }
}

impl Policy {
    /// Reads a policy table; `prefix` is what stands before `policy` in the names of tables.
    pub(super) fn read(prefix: &str, value: &Value) -> Result<Self, QueueConfigError> {
        let name = |table: &str| format!("{prefix}policy{table}");
        let keys = ["jobspec", "limits", "access", "scheduler"];
        let table = Table::read(name(""), value, &keys)?;
        let mut policy = Self { scheduler: table.get("scheduler").cloned(), ..Self::default() };
        if let Some(jobspec) = table.inner("jobspec", name(".jobspec"), &["defaults"])? {
            policy.read_defaults(&jobspec)?;
        }
        if let Some(limits) = table.inner("limits", name(".limits"), &["duration", "job-size"])? {
            policy.limits = read_limits(&limits)?;
        }
        let keys = ["allow-user", "allow-group"];
        if let Some(access) = table.inner("access", name(".access"), &keys)? {
            for key in keys {
                access.strings(key, &format!("'{key}' must be a string array"))?;
            }
        }
        Ok(policy)
    }

    fn read_defaults(&mut self, jobspec: &Table<'_>) -> Result<(), QueueConfigError> {
        // Flux names the outer table in all of these.
        let name = &jobspec.name;
        let Some(defaults) = jobspec.inner("defaults", name, &["system"])? else {
            return Ok(());
        };
        let Some(system) = defaults.inner("system", name, &["duration", "queue"])? else {
            return Ok(());
        };
        let text = "'defaults.system.duration' is not a valid FSD";
        self.default_duration = read_fsd(&system, text)?;
        self.default_queue = match system.get("queue") {
            None => None,
            Some(Value::String(queue)) => Some(queue.clone()),
            Some(_) => return Err(jobspec.refuse("'defaults.system.queue' is not a string")),
        };
        Ok(())
    }

    /// The scheduler's table: that of `general`, with what this one says over it, key by key.
    #[must_use]
    pub fn scheduler_over(&self, general: &Self) -> Value {
        match (&self.scheduler, &general.scheduler) {
            (Some(Value::Object(own)), Some(Value::Object(general))) => {
                let mut whole = general.clone();
                whole.extend(own.clone());
                Value::Object(whole)
            }
            (Some(own), _) => own.clone(),
            (None, Some(general)) => general.clone(),
            (None, None) => Value::Object(Map::new()),
        }
    }
}

fn read_fsd(table: &Table<'_>, text: &str) -> Result<Option<Fsd>, QueueConfigError> {
    let Some(value) = table.get("duration") else { return Ok(None) };
    let fsd = value.as_str().and_then(|text| text.parse().ok());
    fsd.map(Some).ok_or_else(|| table.refuse(text))
}

fn read_limits(limits: &Table<'_>) -> Result<Limits, QueueConfigError> {
    let duration = read_fsd(limits, "'duration' is not a valid FSD")?;
    let name = format!("{}.job-size", limits.name);
    let Some(sizes) = limits.inner("job-size", name, &["max", "min"])? else {
        return Ok(Limits { duration, ..Limits::default() });
    };
    let size = |key: &str| -> Result<JobSize, QueueConfigError> {
        let name = format!("{}.{key}", limits.name);
        let size = sizes.inner(key, name, &["nnodes", "ncores", "ngpus"])?;
        size.map_or(Ok(JobSize::default()), |size| read_size(&size))
    };
    Ok(Limits { duration, max: size("max")?, min: size("min")? })
}

fn read_size(table: &Table<'_>) -> Result<JobSize, QueueConfigError> {
    let number = |key: &str| {
        let Some(value) = table.get(key) else { return Ok(None) };
        match value.as_i64() {
            Some(number) if number >= -1 => Ok(Some(number)),
            Some(_) => Err(table.refuse("values must be >= -1")),
            None => Err(table.refuse(format!("Expected integer, got {}", kind(value)))),
        }
    };
    Ok(JobSize { nnodes: number("nnodes")?, ncores: number("ncores")?, ngpus: number("ngpus")? })
}
