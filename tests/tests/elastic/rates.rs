//! How long it takes from a pending job to its start in an allocation that didn't exist before.

use jobtap_tests::until;
use serde_json::Value;

use crate::site::Site;

const TABLE: &str = "[[allocation]]\nname = \"small\"\nengine = \"slurm\"\ncores = 2\nmax = 2\n\
                     time-limit = \"10m\"\nidle-time = \"1s\"\n";

/// The time of the last event of this name in an eventlog, in seconds of the day (UTC).
fn time_of(log: &str, name: &str) -> f64 {
    let time = |line: &str| {
        let entry: Value = serde_json::from_str(line).ok()?;
        (entry["name"] == name).then(|| entry["timestamp"].as_f64())?
    };
    log.lines().rev().find_map(time).unwrap() % 86_400.0
}

/// When slurmctld says that it has given a job its nodes.
fn granted(site: &Site, job: &str) -> f64 {
    let log = site.slurm_log();
    let says = format!(" JobId={job} ");
    let line = log.lines().find(|line| line.contains("Allocate") && line.contains(&says)).unwrap();
    let clock = line.split(['T', ']']).nth(1).unwrap();
    clock.split(':').fold(0.0, |sum, part| sum * 60.0 + part.parse::<f64>().unwrap())
}

#[test]
#[ignore = "a measurement"]
#[allow(clippy::print_stdout)]
fn the_times_from_a_pending_job_to_its_start() {
    let Some(site) = Site::start(TABLE) else { return };
    for _ in 0..8 {
        let id = site.jobtap("submit -n1 --wait-event=start true").ok();
        let of_job = site.jobtap(&format!("job info {id} eventlog")).ok();
        let of_allocation = site.jobtap("kvs get allocation.eventlog").ok();
        let ordered: Value = of_allocation
            .lines()
            .rev()
            .filter_map(|line| serde_json::from_str(line).ok())
            .find(|entry: &Value| entry["name"] == "ordered")
            .unwrap();
        let granted = granted(&site, ordered["context"]["job"].as_str().unwrap());
        let (submitted, start) = (time_of(&of_job, "submit"), time_of(&of_job, "start"));
        let ordered = time_of(&of_allocation, "ordered");
        println!(
            "submitted to ordered: {:.3} s; ordered to granted by Slurm: {:.3} s; granted to the job's start: {:.3} s",
            ordered - submitted,
            granted - ordered,
            start - granted
        );
        until("it is given back", || site.squeue().is_empty());
        until("it is forgotten", || site.jobtap("allocation list -no {id}").ok().is_empty());
    }
}
