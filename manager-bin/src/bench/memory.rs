//! The memory of pending, running and inactive jobs in the engine: in total, and beyond the text of their
//! jobspecs.
//!
//! Each is a measurement of its own, in a fresh process: memory that was freed and is used again would hide what
//! the jobs need.

use jobtap_core::host::Registry;

use super::error::BenchError;
use super::figures::Found;
use super::offline::Offline;
use super::{CORES, cluster, jobspec, one_host, resident_of};

/// How many jobs become inactive together.
const TOGETHER: u64 = 1000;

/// Fills an engine with jobs that wait for resources.
pub(super) fn pending(jobs: u64) -> Result<Found, BenchError> {
    let mut manager = Offline::new(one_host(), Registry::linked()?)?;
    // This job has all cores, so that all others wait.
    manager.submit(jobspec(0.0, u64::from(CORES), 0)?)?;
    manager.submit(jobspec(60.0, 1, 0)?)?;
    let found = filled(&mut manager, jobs, "pending", |manager, number| {
        manager.submit(jobspec(60.0, 1, number)?).map(drop)
    })?;
    manager.expect("sched", jobs + 1)?;
    Ok(found)
}

/// Fills an engine with jobs that run.
pub(super) fn running(jobs: u64) -> Result<Found, BenchError> {
    let hosts = (jobs + 1).div_ceil(u64::from(CORES));
    let config = cluster(&format!("n[0-{}]", hosts.saturating_sub(1)));
    let mut manager = Offline::new(config, Registry::linked()?)?;
    manager.submit(jobspec(0.0, 1, 0)?)?;
    let found = filled(&mut manager, jobs, "running", |manager, number| {
        manager.submit(jobspec(0.0, 1, number)?).map(drop)
    })?;
    manager.expect("run", jobs + 1)?;
    Ok(found)
}

/// Fills an engine with jobs that are inactive.
pub(super) fn inactive(jobs: u64) -> Result<Found, BenchError> {
    let mut manager = Offline::new(one_host(), Registry::linked()?)?;
    let finish = |manager: &mut Offline, number: u64| {
        manager.submit(jobspec(1.0, 1, number)?)?;
        if number.is_multiple_of(TOGETHER) || number == jobs {
            manager.pass(1.0 + TOGETHER.div_ceil(u64::from(CORES)) as f64, |_| Ok(()))?;
        }
        Ok(())
    };
    // The first jobs are not measured: they allocate the memory that active jobs need for a short time.
    (1..=jobs.min(TOGETHER)).try_for_each(|number| finish(&mut manager, number))?;
    let found = filled(&mut manager, jobs, "inactive", finish)?;
    manager.expect("inactive", jobs + jobs.min(TOGETHER))?;
    Ok(found)
}

fn filled(
    manager: &mut Offline,
    jobs: u64,
    state: &str,
    mut add: impl FnMut(&mut Offline, u64) -> Result<(), BenchError>,
) -> Result<Found, BenchError> {
    let before = resident_of("self")?;
    let mut text = 0;
    for number in 1..=jobs {
        text += jobspec(60.0, 1, number)?.redacted().value().to_string().len() as u64;
        add(manager, number)?;
    }
    let used = resident_of("self")?.saturating_sub(before);
    let mut found = Found::default();
    let each = |bytes: u64| bytes as f64 / jobs.max(1) as f64;
    let whole = format!("memory of each {state} job");
    found.less(&format!("memory.{state}"), jobs, each(used), "B/job", &whole);
    if state != "inactive" {
        // The jobspec of an inactive job is not kept.
        let beyond = format!("of that, beyond the {} bytes of its jobspec", text / jobs.max(1));
        let more = used.saturating_sub(text);
        found.less(&format!("memory.{state}.beyond"), jobs, each(more), "B/job", &beyond);
    }
    Ok(found)
}
