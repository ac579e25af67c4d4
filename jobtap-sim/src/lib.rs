//! A simulator that breaks the whole manager.
//!
//! One process and one thread run a manager with its engine, plugins, committer, store, services, connections, execution and
//! hub, up to eight nodes with shepherds, and the clients. The clock, the disk, the network and the processes are
//! simulated. A seed decides in which order everything happens, and what fails; the same seed does the same again, on any
//! machine. A second, small description of what the manager promises (`oracle`) looks at each step.

pub mod client;
pub mod dice;
pub mod disk;
#[path = "../../jobtap-core/tests/histories/hostile.rs"]
mod hostile;
pub mod line;
pub mod local;
#[path = "../../jobtap-core/tests/histories/model.rs"]
mod model;
pub mod node;
pub mod oracle;
pub mod plugins;
pub mod processes;
pub mod profile;
mod prolog;
pub mod requests;
pub mod run;
pub mod shepherd;
pub mod world;
