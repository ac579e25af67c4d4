//! One table `[[allocation]]`: from whom allocations are asked for, what they have, and within which bounds.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::error::TableError;
use crate::job::Fsd;
use crate::resource::{Children, Idset, ResourceSet};
use crate::suggest::nearest;

/// The keys of a table.
const KEYS: [&str; 16] = [
    "name",
    "engine",
    "options",
    "command",
    "nodes",
    "cores",
    "gpus",
    "properties",
    "min",
    "max",
    "time-limit",
    "idle-time",
    "backlog",
    "core-hours-per-day",
    "on-loss",
    "requests-per-hour",
];

/// The largest number of cores or GPUs of a node.
const MOST_CHILDREN: u32 = 65_536;

/// The largest number of nodes, allocations and the like.
const MOST: u32 = 1_000_000;

/// The idle time of a table that doesn't say one.
const IDLE_TIME: Duration = Duration::from_secs(300);

/// The requests in an hour of a table that doesn't limit them otherwise.
const REQUESTS_PER_HOUR: u32 = 60;

/// The other job manager, from whom allocations are asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OuterEngine {
    /// Slurm, by `sbatch`.
    Slurm,
    /// Flux, by `flux batch`.
    Flux,
    /// A program of the site that submits a script, asks for its state and cancels it: the words of its command.
    Command(Vec<String>),
}

impl OuterEngine {
    /// The value of the key `engine`.
    #[must_use]
    pub const fn word(&self) -> &'static str {
        match self {
            Self::Slurm => "slurm",
            Self::Flux => "flux",
            Self::Command(_) => "command",
        }
    }
}

/// What becomes of jobs whose nodes are gone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnLoss {
    /// They are submitted again, if they allow it.
    #[default]
    Requeue,
    /// They have failed.
    Fail,
}

impl OnLoss {
    /// The value of the key `on-loss`.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Requeue => "requeue",
            Self::Fail => "fail",
        }
    }
}

/// A table `[[allocation]]`.
#[derive(Debug, Clone, PartialEq)]
pub struct Table {
    /// Its name, which no other table has.
    pub name: String,
    /// From whom allocations are asked for.
    pub engine: OuterEngine,
    /// What is passed on to the outer job manager, word by word.
    pub options: Vec<String>,
    /// The nodes of one allocation.
    pub nodes: u32,
    /// The cores of each node.
    pub cores: u32,
    /// The GPUs of each node.
    pub gpus: u32,
    /// The properties of each node.
    pub properties: Vec<String>,
    /// The allocations that are kept even if no job is pending.
    pub min: u32,
    /// The most allocations at once.
    pub max: u32,
    /// The time limit of an allocation; `None` leaves it to the outer job manager.
    pub time_limit: Option<Fsd>,
    /// An allocation that has had no job for this time is given back.
    pub idle_time: Fsd,
    /// The pending jobs before an allocation is asked for.
    pub backlog: u32,
    /// The most core hours that may be granted within 24 hours.
    pub core_hours_per_day: Option<f64>,
    /// What becomes of the jobs of an allocation that ends.
    pub on_loss: OnLoss,
    /// The most requests to the outer job manager within an hour.
    pub requests_per_hour: u32,
    /// The first of its ranks.
    pub first_rank: u32,
}

impl Table {
    /// Reads the table at an index. Its ranks begin at `first_rank`.
    pub(super) fn read(index: usize, first_rank: u32, value: &Value) -> Result<Self, TableError> {
        let keys = Keys { index, table: value.as_object().ok_or(TableError::NotTables)? };
        keys.refuse_unknown()?;
        let engine = keys.engine()?;
        let name = keys.name(&engine)?;
        let cores = keys.required("cores", "it says how many cores a node has")?;
        let max = keys.number("max", 1..=MOST)?.unwrap_or(1);
        let min = keys.number("min", 0..=MOST)?.unwrap_or(0);
        if min > max {
            return Err(TableError::MinAboveMax { key: keys.path("min"), min, max });
        }
        let table = Self {
            name,
            engine,
            options: keys.get("options")?.unwrap_or_default(),
            nodes: keys.number("nodes", 1..=MOST)?.unwrap_or(1),
            cores,
            gpus: keys.number("gpus", 0..=MOST_CHILDREN)?.unwrap_or(0),
            properties: keys.properties()?,
            min,
            max,
            time_limit: keys.duration("time-limit")?,
            idle_time: keys.duration("idle-time")?.unwrap_or_else(|| IDLE_TIME.into()),
            backlog: keys.number("backlog", 1..=MOST)?.unwrap_or(1),
            core_hours_per_day: keys.core_hours()?,
            on_loss: keys.get("on-loss")?.unwrap_or_default(),
            requests_per_hour: keys
                .number("requests-per-hour", 1..=MOST)?
                .unwrap_or(REQUESTS_PER_HOUR),
            first_rank,
        };
        let needed = table.time_limit.map_or(0.0, |limit| table.core_hours(limit.as_secs()));
        match table.core_hours_per_day {
            Some(most) if needed > most => {
                let key = keys.path("core-hours-per-day");
                Err(TableError::CapBelowOne { key, most, needed })
            }
            _ => Ok(table),
        }
    }

    /// All ranks of the table.
    #[must_use]
    pub fn ranks(&self) -> Idset {
        self.span(self.first_rank, self.nodes.saturating_mul(self.max))
    }

    /// The ranks of one of its slots, which count from 0.
    #[must_use]
    pub fn slot(&self, slot: u32) -> Idset {
        self.span(self.first_rank.saturating_add(slot.saturating_mul(self.nodes)), self.nodes)
    }

    fn span(&self, first: u32, count: u32) -> Idset {
        Idset::from(first..=first.saturating_add(count.saturating_sub(1)))
    }

    /// The name by which a rank of the table is shown while no node has joined in its place.
    #[must_use]
    pub fn placeholder(&self, rank: u32) -> String {
        format!("{}-{}", self.name, rank.saturating_sub(self.first_rank))
    }

    /// What one node has.
    #[must_use]
    pub fn children(&self) -> Children {
        let ids = |count: u32| count.checked_sub(1).map(|last| Idset::from(0..=last));
        Children::new(ids(self.cores).unwrap_or_default(), ids(self.gpus).unwrap_or_default())
    }

    /// The core hours of one allocation that lasts this many seconds.
    #[must_use]
    pub fn core_hours(&self, seconds: f64) -> f64 {
        f64::from(self.nodes) * f64::from(self.cores) * seconds.max(0.0) / 3600.0
    }
}

/// The keys of the table that is being read.
struct Keys<'a> {
    index: usize,
    table: &'a Map<String, Value>,
}

impl Keys<'_> {
    /// The full name of a key.
    fn path(&self, key: &str) -> String {
        format!("allocation[{}].{key}", self.index)
    }

    fn refuse_unknown(&self) -> Result<(), TableError> {
        let Some(unknown) = self.table.keys().find(|key| !KEYS.contains(&key.as_str())) else {
            return Ok(());
        };
        let nearest = nearest(unknown, KEYS).map(str::to_owned);
        Err(TableError::UnknownKey { key: self.path(unknown), nearest })
    }

    fn get<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, TableError> {
        let read = self.table.get(key).map(T::deserialize).transpose();
        read.map_err(|reason| TableError::Type { key: self.path(key), reason })
    }

    fn number(&self, key: &str, range: RangeInclusive<u32>) -> Result<Option<u32>, TableError> {
        let Some(value) = self.get::<u64>(key)? else { return Ok(None) };
        match u32::try_from(value).ok().filter(|number| range.contains(number)) {
            Some(number) => Ok(Some(number)),
            None => {
                let (least, most) = range.into_inner();
                Err(TableError::Range { key: self.path(key), value, least, most })
            }
        }
    }

    fn required(&self, key: &str, why: &'static str) -> Result<u32, TableError> {
        let number = self.number(key, 1..=MOST_CHILDREN)?;
        number.ok_or_else(|| TableError::Missing { key: self.path(key), why })
    }

    fn engine(&self) -> Result<OuterEngine, TableError> {
        /// The values of the key.
        #[derive(Deserialize)]
        #[serde(rename_all = "lowercase")]
        enum Word {
            Slurm,
            Flux,
            Command,
        }
        let why = "it says from whom allocations are asked for: \"slurm\", \"flux\" or \"command\"";
        let word = self.get::<Word>("engine")?;
        let word = word.ok_or_else(|| TableError::Missing { key: self.path("engine"), why })?;
        let command = self.get::<Vec<String>>("command")?;
        match (word, command) {
            (Word::Slurm, None) => Ok(OuterEngine::Slurm),
            (Word::Flux, None) => Ok(OuterEngine::Flux),
            (Word::Command, Some(words)) if !words.is_empty() => Ok(OuterEngine::Command(words)),
            _ => Err(TableError::Command { key: self.path("command") }),
        }
    }

    fn name(&self, engine: &OuterEngine) -> Result<String, TableError> {
        let Some(name) = self.get::<String>("name")? else { return Ok(engine.word().to_owned()) };
        let other = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
        let begins = name.starts_with(|c: char| c.is_ascii_alphabetic());
        match begins && name.len() <= 60 && !name.contains(other) {
            true => Ok(name),
            false => Err(TableError::Name { key: self.path("name"), name }),
        }
    }

    fn properties(&self) -> Result<Vec<String>, TableError> {
        let properties: Vec<String> = self.get("properties")?.unwrap_or_default();
        // The resource set knows which names are allowed.
        let mut node = ResourceSet::new();
        node.insert(0..=0, Children::new(Idset::from(0), Idset::new()));
        for (place, property) in properties.iter().enumerate() {
            let set = node.set_property(property, &Idset::from(0));
            let key = || self.path(&format!("properties[{place}]"));
            set.map_err(|reason| TableError::Property { key: key(), reason })?;
        }
        Ok(properties)
    }

    /// A finite time above zero.
    fn duration(&self, key: &str) -> Result<Option<Fsd>, TableError> {
        // Read as text first, so that the error of a text that is no duration says so.
        let time = match self.table.get(key) {
            Some(Value::String(text)) => Some(
                text.parse::<Fsd>()
                    .map_err(|reason| TableError::NoDuration { key: self.path(key), reason })?,
            ),
            _ => self.get::<Fsd>(key)?,
        };
        match time {
            Some(time) if time.is_infinite() || time.as_secs() <= 0.0 => {
                Err(TableError::NoTime { key: self.path(key) })
            }
            time => Ok(time),
        }
    }

    fn core_hours(&self) -> Result<Option<f64>, TableError> {
        let hours = self.get::<f64>("core-hours-per-day")?;
        match hours.is_none_or(|hours| hours > 0.0) {
            true => Ok(hours),
            false => Err(TableError::NotAboveZero { key: self.path("core-hours-per-day") }),
        }
    }
}
