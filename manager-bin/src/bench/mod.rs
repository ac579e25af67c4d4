//! `jobtap bench`: the time and memory that a job takes, on a site's own machine or on a developer's.
//!
//! The command prints figures of this binary, or of two binaries side by side.
//! `docs/src/performance-figures.md` explains each figure.
//!
//! | file | what it does |
//! |---|---|
//! | `measures` | the table of measurements, their sizes, and the disk space and memory that they need |
//! | `runner` | runs the measurements, each in a process of its own, and joins their rounds |
//! | `pair` | runs two binaries in turns and compares their figures |
//! | `process` | the processes that measure, and the manager that they measure |
//! | `figures`, `error` | the results, and their JSON form; why there are none |
//! | `connection`, `cpu`, `offline`, `fill`, `plugins` | what several measurements use |
//! | the others | one measurement each |

mod callbacks;
mod clients;
mod connection;
mod cpu;
mod error;
pub(crate) mod figures;
mod fill;
pub(crate) mod measures;
mod memory;
mod nodes;
mod offline;
pub(crate) mod pair;
mod plugins;
pub(crate) mod process;
mod queue;
mod restart;
pub(crate) mod roles;
mod run;
pub(crate) mod runner;
mod stages;
mod submit;
mod throughput;

use jobtap_core::jobspec::{Jobspec, JobspecBuilder, JobspecError};
use serde_json::{Value, json};

use crate::daemon::resources::hostname;

/// Cores of the host that the simulated jobs run on.
const CORES: u32 = 64;

/// Returns the configuration of this host with a fixed number of cores, whatever it really has.
fn one_host() -> Value {
    cluster(&hostname())
}

/// Returns the configuration of these hosts, each with the same number of cores.
fn cluster(hosts: &str) -> Value {
    let hosts = json!({ "hosts": hosts, "cores": format!("0-{}", CORES - 1) });
    json!({ "resource": { "noverify": true, "config": [hosts] } })
}

/// Returns the jobspec of [`document`].
fn jobspec(run_duration: f64, cores: u64, number: u64) -> Result<Jobspec, JobspecError> {
    Jobspec::from_value(document(run_duration, cores, number))
}

/// Returns the jobspec of a simulated job with this many cores that runs for this time; with zero, until it
/// is canceled. `number` makes its text differ from others, as the texts of users' jobs do.
fn document(run_duration: f64, cores: u64, number: u64) -> Value {
    let builder = JobspecBuilder::new(["app".to_owned(), format!("--input=case-{number}.dat")])
        .ntasks(cores)
        .duration(run_duration * 60.0)
        .cwd("/home/user/project/runs");
    let mut value = builder.to_value();
    if let Some(system) = value.pointer_mut("/attributes/system").and_then(Value::as_object_mut) {
        system.insert(
            "exec".to_owned(),
            json!({ "test": { "run_duration": format!("{run_duration}s") } }),
        );
        let environment =
            (0..40).map(|n| (format!("VARIABLE_{n}"), "/a/value/of/usual/length".into()));
        system.insert("environment".to_owned(), Value::Object(environment.collect()));
    }
    value
}

/// Returns the resident memory of a process in bytes. `process` is its id, or `self`.
///
/// # Errors
/// When the system doesn't report it.
fn resident_of(process: &str) -> std::io::Result<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/statm"))?;
    let pages = text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    let pages =
        pages.ok_or_else(|| std::io::Error::other(format!("/proc/{process}/statm: {text}")))?;
    Ok(pages * rustix::param::page_size() as u64)
}
