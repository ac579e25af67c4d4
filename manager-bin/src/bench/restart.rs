//! How long a start takes with many jobs in the store: with inactive jobs only, and with a tenth as many
//! pending jobs besides.

use super::error::BenchError;
use super::figures::Found;
use super::one_host;
use super::process::{Manager, ManagerSetup};

/// Fills a store, starts a manager on it, and counts its jobs.
pub(super) fn measure(jobs: u64) -> Result<Found, BenchError> {
    let mut found = Found::default();
    let text = format!("until all of {jobs} inactive jobs are there and requests are answered");
    let inactive = start(jobs, 0)?;
    found.less("restart.inactive.time", jobs, inactive.seconds, "s", &text);
    let each = inactive.seconds * 1e6 / jobs.max(1) as f64;
    found.less("restart.inactive.each", jobs, each, "us/job", "the same for each job");
    let each = inactive.resident as f64 / jobs.max(1) as f64;
    let text = "resident memory of the whole manager for each job";
    found.less("restart.inactive.memory", jobs, each, "B/job", text);
    let pending = (jobs / 10).max(1);
    let both = start(jobs, pending)?;
    let text = format!("the same with {pending} pending jobs beside them");
    found.less("restart.pending.time", jobs, both.seconds, "s", &text);
    Ok(found)
}

struct Start {
    seconds: f64,
    resident: u64,
}

fn start(inactive: u64, pending: u64) -> Result<Start, BenchError> {
    let manager =
        Manager::start(&ManagerSetup { inactive, pending, ..ManagerSetup::with(one_host()) })?;
    let states = manager.connect()?.states()?;
    let start = Start { seconds: manager.ready().started, resident: manager.resident()? };
    manager.end()?;
    let found =
        [("inactive", inactive, states.inactive), ("waiting for resources", pending, states.sched)];
    for (what, expected, found) in found {
        if expected != found {
            return Err(BenchError::Lost { what, expected, found });
        }
    }
    Ok(start)
}
