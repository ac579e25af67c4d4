//! The test kit: a whole manager in memory and in virtual time, for tests of plugins.
//!
//! It runs the same engine as the daemon, with a store in memory and an executor that starts jobs at once
//! and ends them when the test tells it to. There are no processes, sockets or sleeps.
//!
//! ```
//! use jobtap_core::prelude::*;
//! use jobtap_core::testing::{TestJob, TestManager};
//!
//! #[derive(Default)]
//! struct NightOnly;
//!
//! #[jobtap_plugin(name = "night-only")]
//! impl NightOnly {
//!     #[on("job.validate")]
//!     fn validate(&self, job: &Job) -> Result<(), Reject> {
//!         match job.jobspec().attribute("night") {
//!             Some(_) => Ok(()),
//!             None => Err(Reject::new("this cluster computes at night: set attribute night")),
//!         }
//!     }
//!
//!     #[on("job.state.priority", "job.priority.get")]
//!     fn priority(&self) -> Priority {
//!         Priority::new(7)
//!     }
//! }
//!
//! let mut manager = TestManager::new().plugin::<NightOnly>().start();
//! assert!(manager.submit(TestJob::new()).unwrap_err().text().contains("at night"));
//! let job = manager.submit(TestJob::new().attribute("night", 1).run_for(60.0)).unwrap();
//! assert_eq!(manager.job(job).priority(), Some(7));
//! manager.advance(61.0);
//! manager.assert_state(job, State::Inactive);
//! ```

mod builder;
mod config;
mod exec;
mod hang;
mod host;
mod hosts;
mod inspect;
mod job;
mod manager;
mod outer;
mod processes;
mod refused;
mod replay;
mod requests;
mod services;
mod store;
mod tasks;

pub use builder::TestManagerBuilder;
pub(crate) use config::with_kit_defaults;
pub use hosts::{HostSetup, TestHost, TestHosts, TestProcesses};
pub use job::TestJob;
pub use manager::TestManager;
pub use outer::OuterJob;
pub(crate) use outer::OuterManager;
pub use refused::{ManagerStartError, Refused, RunError};
pub use requests::TestStream;
pub use services::{SentRequest, TestServices};
pub use tasks::TestTasks;
