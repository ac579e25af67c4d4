//! The parts of a jobspec that scheduling needs in every turn, which stay in memory when the document doesn't.

use memchr::memchr_iter;
use serde::Deserialize;
use serde_json::Value;

use super::members::Members;
use super::{Counts, path};
use crate::job::{Reach, Signal};

/// The default signal that warns a job before its end.
const SIGUSR1: i64 = 10;

/// How many seconds before its end a job is warned, by default.
const WARNING: f64 = 60.0;

/// Reads a number of seconds; 0 if the value isn't one.
pub(super) fn positive(value: Option<&Value>) -> f64 {
    let seconds = value.and_then(Value::as_f64);
    seconds.filter(|seconds| *seconds >= 0.0).unwrap_or_default()
}

/// The parts of a jobspec that scheduling needs in every turn.
#[derive(Clone, Default)]
pub(super) struct Facts {
    pub(super) counts: Counts,
    pub(super) duration: f64,
    pub(super) simulation: Simulation,
    pub(super) has_job: bool,
    pub(super) has_dependencies: bool,
    /// Boxed, since many jobs have none of them.
    pub(super) wishes: Option<Box<Wishes>>,
}

/// Whether a job asks for a simulated execution.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Simulation {
    /// The job asks for none.
    #[default]
    None,
    /// The job asks for one.
    Asked,
    /// The job asks for one, in these bytes of the text of a closed document.
    At { start: u32, len: u32 },
}

impl Simulation {
    /// Finds `words` in the text of a document. Any occurrence will do, since only these words are parsed.
    pub(super) fn within(text: &str, words: &str) -> Option<Self> {
        // The text has only a dozen objects: preparing a substring search for long words would take longer.
        let (bytes, words) = (text.as_bytes(), words.as_bytes());
        let is_there = |at: &usize| bytes.get(*at..).is_some_and(|rest| rest.starts_with(words));
        let start = memchr_iter(*words.first()?, bytes).find(is_there)?;
        let (start, len) = (u32::try_from(start).ok()?, u32::try_from(words.len()).ok()?);
        start.checked_add(len).map(|_| Self::At { start, len })
    }
}

/// The request for a simulated execution in a jobspec.
pub(super) fn simulation(value: &Value) -> Option<&Value> {
    value.member("attributes")?.member("system")?.member("exec")?.member("test")
}

/// The signal that a job wants before its end.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Warning {
    /// The signal.
    pub signal: Signal,
    /// How many seconds before the end it is sent.
    pub before: f64,
    /// Which processes get it.
    pub reach: Reach,
}

/// What a job may ask for besides resources.
#[derive(Clone, Default)]
pub(super) struct Wishes {
    pub(super) queue: Option<Box<str>>,
    pub(super) constraints: Option<Value>,
    pub(super) warning: Option<Warning>,
}

impl Wishes {
    /// The wishes of a job that asks for nothing but possibly a queue.
    pub(super) fn of_queue(queue: Option<&str>) -> Option<Box<Self>> {
        queue.map(|queue| Box::new(Self { queue: Some(queue.into()), ..Self::default() }))
    }
}

impl Facts {
    pub(super) fn from_jobspec(value: &Value, counts: Counts) -> Self {
        let system = |key: &str| value.member("attributes")?.member("system")?.member(key);
        let duration = path::get(value, "attributes.system.duration");
        let wishes = Wishes {
            queue: system("queue").and_then(Value::as_str).map(Into::into),
            constraints: system("constraints").cloned(),
            warning: system("shell")
                .and_then(|shell| warning(shell.member("options")?.member("signal")?)),
        };
        let none = matches!(wishes, Wishes { queue: None, constraints: None, warning: None });
        Self {
            counts,
            duration: positive(duration),
            simulation: match simulation(value) {
                Some(_) => Simulation::Asked,
                None => Simulation::None,
            },
            has_job: system("job").is_some(),
            has_dependencies: system("dependencies").is_some(),
            wishes: (!none).then(|| Box::new(wishes)),
        }
    }

    /// Whether the job is known to lack this system attribute. These are looked up for every job, and few jobs
    /// have them.
    pub(super) fn lack(&self, key: &str) -> bool {
        match key {
            "job" => !self.has_job,
            "dependencies" => !self.has_dependencies,
            _ => false,
        }
    }

    pub(super) fn queue(&self) -> Option<&str> {
        self.wishes.as_ref()?.queue.as_deref()
    }
}

/// What the shell option `signal` asks for.
fn warning(option: &Value) -> Option<Warning> {
    let option = option.as_object()?;
    let signum = option.member("signum").map_or(Some(SIGUSR1), Value::as_i64)?;
    let before = option.member("timeleft").map_or(Some(WARNING), Value::as_f64)?;
    let signal = Signal::from_number(signum)?;
    let reach = option.member("reach").map(Reach::deserialize);
    let reach = reach.and_then(Result::ok).unwrap_or_default();
    (before >= 0.0).then_some(Warning { signal, before, reach })
}
