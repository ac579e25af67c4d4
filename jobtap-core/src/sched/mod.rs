//! Scheduling: which job is next, and which resources it gets. Pure data structures.

mod asked;
mod choice;
mod conservative;
mod estimate;
mod maintenance;
mod policies;
mod pool;
mod queue;
mod registry;
mod turn;

pub use conservative::Conservative;
pub(crate) use estimate::{Ends, estimate};
pub use maintenance::Maintenance;
pub use policies::{Easy, Fifo, Reservation};
pub use pool::{Answer, Pool};
pub use queue::AllocQueue;
pub(crate) use registry::OWN;
pub use registry::SchedulerDescriptor;
pub use turn::{Decision, Running, Scheduler, Turn};
