//! Schedulers by name: those of jobtap and those of linked crates.

use std::fmt;

use serde_json::Value;

use super::conservative::Conservative;
use super::policies::{Easy, Fifo};
use super::turn::Scheduler;
use crate::SDK_VERSION;

/// Makes the scheduler of a queue from the table `policy.scheduler`, or says what is wrong in that table.
type NewScheduler = fn(&Value) -> Result<Box<dyn Scheduler>, TableError>;

/// What is wrong in the table of a scheduler, for the administrator. The manager prefixes the place of the table.
///
/// `?` converts any [`std::error::Error`] into it.
///
/// ```
/// use jobtap_core::sched::TableError;
/// use serde_json::Value;
///
/// fn most(table: &Value) -> Result<u64, TableError> {
///     match table.get("most").and_then(Value::as_str) {
///         None => Err(TableError::new("most: must be a number of tasks, as text")),
///         Some(most) => Ok(most.parse()?),
///     }
/// }
/// let wrong = most(&serde_json::json!({"most": "x"})).unwrap_err();
/// assert_eq!(wrong.to_string(), "invalid digit found in string");
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableError(String);

impl TableError {
    /// Makes the error; the text names the key and says what it must be.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl fmt::Display for TableError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// This is why `TableError` isn't a `std::error::Error`: the conversion would overlap with that of the standard library.
impl<E: std::error::Error> From<E> for TableError {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// Describes a scheduler that a configuration can name. Made by [`scheduler!`](crate::scheduler!).
pub struct SchedulerDescriptor {
    /// The name in the configuration.
    pub name: &'static str,
    /// The crate that defines it.
    pub crate_name: &'static str,
    /// The version of that crate.
    pub crate_version: &'static str,
    /// The version of the SDK that it was compiled with.
    pub sdk: &'static str,
    /// Makes the scheduler of a queue from the table `policy.scheduler`.
    pub new: NewScheduler,
}

impl fmt::Debug for SchedulerDescriptor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SchedulerDescriptor")
            .field("name", &self.name)
            .field("crate_name", &self.crate_name)
            .field("crate_version", &self.crate_version)
            .finish_non_exhaustive()
    }
}

const fn own(name: &'static str, new: NewScheduler) -> SchedulerDescriptor {
    // The crate by which authors know this one.
    let (crate_name, crate_version) = ("jobtap-core", env!("CARGO_PKG_VERSION"));
    SchedulerDescriptor { name, crate_name, crate_version, sdk: SDK_VERSION, new }
}

/// The schedulers of jobtap. `strict` and `fcfs` (Fluxion's name) are other names of `fifo`.
pub(crate) static OWN: [SchedulerDescriptor; 5] = [
    own("easy", |_| Ok(Box::<Easy>::default())),
    own("conservative", |_| Ok(Box::<Conservative>::default())),
    own("fifo", |_| Ok(Box::new(Fifo::named("fifo")))),
    own("strict", |_| Ok(Box::new(Fifo::named("strict")))),
    own("fcfs", |_| Ok(Box::new(Fifo::named("fcfs")))),
];

/// Registers a scheduler, which `policy.scheduler.queue-policy` can then name in every manager that the
/// crate is linked into.
///
/// The expression is a function from the table `policy.scheduler` to the boxed scheduler, or to a
/// [`TableError`](crate::sched::TableError) about that table. It is called once for each queue.
///
/// ```
/// use jobtap_core::job::JobId;
/// use jobtap_core::sched::{Scheduler, Turn};
///
/// /// The jobs with the shortest time limits first.
/// #[derive(Default)]
/// struct ShortestFirst;
///
/// impl Scheduler for ShortestFirst {
///     fn name(&self) -> &'static str {
///         "shortest-first"
///     }
///
///     fn turn(&mut self, turn: &mut Turn<'_>) {
///         let mut jobs: Vec<JobId> = turn.pending().collect();
///         let limit = |id: &JobId| turn.jobspec(*id).map_or(f64::INFINITY, |job| job.duration());
///         jobs.sort_by(|a, b| limit(a).total_cmp(&limit(b)));
///         for id in jobs {
///             if !turn.allocate(id, None) && !turn.pass_over(id) {
///                 break;
///             }
///         }
///     }
///
///     fn job_left(&mut self, _: JobId) {}
/// }
///
/// jobtap_core::scheduler! {
///     /// `queue-policy = "shortest-first"`.
///     pub static SHORTEST_FIRST = "shortest-first", |_| Ok(Box::<ShortestFirst>::default());
/// }
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use jobtap_core::testing::TestManager;
///
/// let config = serde_json::json!({"policy": {"scheduler": {"queue-policy": "shortest-first"}}});
/// TestManager::new().scheduler(&SHORTEST_FIRST).config(config).try_start()?;
/// # Ok(())
/// # }
/// ```
#[macro_export]
macro_rules! scheduler {
    ($(#[$attribute:meta])* $vis:vis static $id:ident = $name:literal, $new:expr $(;)?) => {
        $(#[$attribute])*
        $vis static $id: $crate::sched::SchedulerDescriptor = $crate::sched::SchedulerDescriptor {
            name: $name,
            crate_name: ::core::env!("CARGO_PKG_NAME"),
            crate_version: ::core::env!("CARGO_PKG_VERSION"),
            sdk: $crate::__private::SDK_VERSION,
            new: $new,
        };
        $crate::__jobtap_register_scheduler!(&$id);
    };
}
