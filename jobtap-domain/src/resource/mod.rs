//! The resources of a cluster and of jobs: id sets (RFC 22), host lists (RFC 29), resource sets (R,
//! RFC 20) and constraints on nodes (RFC 31).
//!
//! All of them are stored as runs of consecutive, equal elements and never per core, so that the
//! inventory of a cluster with 10,000 equal nodes takes a few hundred bytes.

mod children;
mod constraint;
mod error;
mod host_run;
mod hostlist;
mod idset;
mod nodes;
mod rank_map;
#[cfg(test)]
mod sample;
mod set;
mod set_json;
mod splice;

pub use children::Children;
pub use constraint::{Constraint, ConstraintError, ConstraintFault, Property, QueryError};
pub use error::{HostlistError, IdsetError, ResourceError};
pub use hostlist::Hostlist;
pub use idset::Idset;
pub use set::{RankResources, ResourceSet, Selection};
use splice::splice;
