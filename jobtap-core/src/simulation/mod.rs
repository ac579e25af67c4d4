//! Simulation: a trace of jobs replayed through the engine in virtual time, and the metrics of the resulting
//! schedule.
//!
//! The engine, the plugins and the schedulers are those of a manager; only time, the executor and the store are
//! replaced. So a month of a site's jobs passes in seconds, and shows what a change of policy would have done.
//!
//! ```
//! use jobtap_core::prelude::*;
//! use jobtap_core::simulation::{Rules, Simulation, Trace};
//!
//! /// Short jobs go first.
//! #[derive(Default)]
//! struct ShortFirst;
//!
//! #[jobtap_plugin(name = "short-first")]
//! impl ShortFirst {
//!     #[on("job.state.priority", "job.priority.get")]
//!     fn priority(&self, job: &Job) -> Priority {
//!         Priority::clamped(1e9 - job.jobspec().duration())
//!     }
//! }
//!
//! // Number, submit time, wait, run time, processors, .., requested time, ..: the fields of SWF.
//! let text = "\
//! 1 0 -1 100 4 -1 -1 4 100 -1 1 7 1 -1 -1 -1 -1 -1
//! 2 1 -1 100 4 -1 -1 4 100 -1 1 8 1 -1 -1 -1 -1 -1
//! 3 2 -1  10 4 -1 -1 4  10 -1 1 9 1 -1 -1 -1 -1 -1
//! ";
//! let trace = Trace::from_swf(text, &Rules::default());
//! let results = Simulation::new().plugin::<ShortFirst>().cores(4).run(&trace).unwrap();
//! let metrics = results.metrics();
//! assert_eq!(metrics.wait.max, 109.0);
//! assert_eq!(results.jobs[2].start, Some(100.0));
//! ```
//!
//! Two things differ from a manager. Processes of plugins are not run; they count as successful at once. And a
//! plugin that asks for a user's name gets the name in the trace.
//!
//! | file | contents |
//! |---|---|
//! | `trace` | the jobs of a trace, and the rules for data that it lacks |
//! | `swf` | the Standard Workload Format |
//! | `simulator` | the engine with an executor in virtual time |
//! | `order` | the order of pending jobs, which shows which of them are backfilled |
//! | `fixture` | a simulation of a trace in memory, for tests of policies |
//! | `results` | what became of each job |
//! | `waits` | what jobs waited for
//! | `metrics` | wait, turnaround, bounded slowdown, utilization, fairness |

mod fixture;
mod metrics;
mod order;
mod results;
mod simulator;
mod swf;
mod trace;
mod waits;

pub use fixture::{Simulation, SimulationError, machine};
pub use metrics::{Distribution, Group, Metrics};
pub use results::{AllocationFigures, RefusedJobs, Results, SLOWDOWN_BOUND, SimulatedJob, Span};
pub use simulator::{Setup, Simulator};
pub use swf::{Header, SwfError, SwfRecord};
pub use trace::{Counts, Oversized, Reader, Rules, TimeLimits, Trace, TraceJob};
