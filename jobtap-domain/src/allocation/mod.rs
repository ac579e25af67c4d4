//! Allocations on demand: what the tables `[[allocation]]` of an elastic instance say, and which ranks each of their
//! allocations has.
//!
//! Rank 0 is the manager's own host. Every table has a fixed range of ranks after it, in the order of the tables: as many
//! *slots* as the table allows allocations at once, each with the ranks of one allocation's nodes. All of these ranks
//! belong to the instance's resources from the start, and are offline until a node has joined in their place.

mod error;
mod id;
mod table;
mod tables;

pub use error::TableError;
pub use id::AllocationId;
pub use table::{OnLoss, OuterEngine, Table};
pub use tables::Tables;
