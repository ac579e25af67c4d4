//! Scheduling: the order of pending jobs, and the resources that they get. Plain data structures without
//! I/O and without a clock.

mod choice;
mod conservative;
mod policies;
mod pool;
pub(crate) mod queue;
mod registry;
pub(crate) mod turn;

pub use choice::Shortage;
pub use conservative::Conservative;
pub use policies::{Easy, Fifo, Reservation};
pub use pool::{Answer, Infeasible, Maintenance, Pool};
pub use queue::AllocQueue;
pub(crate) use registry::OWN;
pub use registry::{SchedulerDescriptor, TableError};
pub use turn::{Decision, Running, Scheduler, Turn};
