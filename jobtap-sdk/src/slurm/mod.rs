//! Slurm's vocabulary: what a job asks for, as Slurm's plugins and scripts see it.
//!
//! Sites that come from Slurm bring policies that use `time_limit` in minutes, `NO_VAL` and
//! `ESLURM_ACCESS_DENIED`. [`JobDescriptor`] is the description of a request with Slurm's names, units
//! and unset values, [`JobRecord`], [`Partition`] and [`Reservation`] are what a policy can look at, and
//! [`errno`] has the errors with which it refuses.
//!
//! Everything is declared in tables of [fields](Field), so that Lua, the mapping to jobspecs and the
//! guide use the same names, types and descriptions. [`CONSTANTS`] are the numbers that scripts know as
//! `slurm.NAME`.

mod constants;
mod descriptor;
mod environment;
pub mod errno;
mod fields_of_some;
mod functions;
mod jobs;
mod mapping;
mod partitions;
mod record;
mod release;
pub mod shown;
mod table;
mod time;
mod value;

pub use constants::*;
pub use descriptor::{FIELDS, JobDescriptor};
pub use environment::{Environment, VariableError, check_variable};
pub use errno::SlurmError;
pub use functions::{FUNCTIONS, Function};
pub use mapping::{Place, TresError, apply_changes, check_tres, updates_between};
pub use record::{JobRecord, Partition, Reservation};
pub use release::{Release, Releases, UnknownRelease};
pub use table::{Field, SetField};
pub use time::{minutes_of, minutes_text};
pub use value::{Kind, SetError, Value};

#[cfg(test)]
mod tests;
