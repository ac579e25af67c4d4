//! What a cluster has, what a job was given and which nodes it may run on: id sets (RFC 22), host
//! lists (RFC 29), resource sets (RFC 20) and constraints (RFC 31).
//!
//! Everything here is stored as runs of equal neighbours, never per core, so that the inventory of a
//! 10,000-node cluster is a few hundred bytes when its nodes are alike.

mod children;
mod constraint;
mod error;
mod host_map;
mod host_run;
mod host_segment;
mod hostlist;
mod hostlist_parse;
mod idset;
mod idset_ops;
mod idset_text;
mod nodes;
mod rank_map;
#[cfg(test)]
mod sample;
mod selection;
mod set;
mod set_json;
mod set_ops;
mod set_parse;
mod set_rerank;

pub use children::Children;
pub use constraint::{Constraint, ConstraintError, ConstraintFault, Property, QueryError};
pub use error::{HostlistError, IdsetError, ResourceError};
pub use hostlist::Hostlist;
pub use idset::Idset;
pub use selection::Selection;
pub use set::{RankResources, ResourceSet};
