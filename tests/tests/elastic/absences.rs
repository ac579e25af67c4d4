//! What happens while the manager or slurmctld isn't there: nothing is forgotten, and nothing is ordered twice.

use std::time::Duration;

use jobtap_tests::chance::{Random, number};
use jobtap_tests::slurm::Installation;
use jobtap_tests::until;

use crate::site::Site;

/// A table of allocations of one node.
const TABLE: &str = "[[allocation]]\nname = \"small\"\nengine = \"slurm\"\ncores = 2\nmax = 2\n\
                     time-limit = \"10m\"\nidle-time = \"2s\"\n";

fn pause(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

#[test]
fn a_manager_that_is_killed_finds_its_order_again() {
    let table = format!("{TABLE}options = [\"--begin=now+1hour\"]\n");
    let Some(mut site) = Site::start(&table) else { return };
    site.jobtap("submit -n1 true").ok();
    until("it is on order", || site.squeue().len() == 1);
    let before = site.squeue();
    site.kill_manager();
    site.start_manager();
    until("it is known", || site.jobtap("allocation list -no {reason}").ok() == "BeginTime");
    pause(3.0);
    assert_eq!(site.squeue(), before);
    site.jobtap("cancel --all").ok();
    site.jobtap("allocation release 1").ok();
    until("it is cancelled", || site.squeue().is_empty());
}

#[test]
fn nodes_outlive_their_manager_and_their_jobs_go_on() {
    let Some(mut site) = Site::start(TABLE) else { return };
    let script = "for i in 1 2 3 4 5 6 7 8; do echo $i; sleep 1; done; exit 3";
    let id = site.args(&["submit", "-n1", "--wait-event=start", "sh", "-c", script]).ok();
    let before = site.squeue();
    site.kill_manager();
    pause(1.0);
    site.start_manager();
    pause(1.0);
    // As a service that is stopped and started.
    site.stop_manager();
    site.start_manager();
    pause(1.0);
    site.jobtap("module reload job-manager").ok();
    let printed = site.jobtap(&format!("job attach {id}"));
    assert_eq!((printed.code, printed.stdout.lines().count()), (3, 8), "{printed:?}");
    let log = site.jobtap(&format!("job eventlog {id}")).ok();
    assert_eq!(log.matches(" start").count(), 1, "{log}");
    let of_it = |lines: &[String]| lines.iter().filter(|line| before.contains(line)).count();
    assert!(of_it(&site.squeue()) <= 1);
    until("it is given back", || site.squeue().is_empty());
}

#[test]
fn an_allocation_that_ends_while_no_manager_is_there_is_over() {
    let Some(mut site) = Site::start(TABLE) else { return };
    let id = site.jobtap("submit -n1 --wait-event=start sleep 30").ok();
    let job = site.squeue()[0].split(' ').next().unwrap().to_owned();
    site.kill_manager();
    site.client("scancel", &[&job]).ok();
    until("it has ended", || site.squeue().is_empty());
    site.start_manager();
    site.jobtap(&format!("job wait-event -q -t 60s {id} exception")).ok();
    let log = site.jobtap("kvs get allocation.eventlog").ok();
    assert!(log.contains("CANCELLED"), "{log}");
    site.jobtap("cancel --all").ok();
    until("no allocation is left", || site.squeue().is_empty());
}

#[test]
fn orders_and_their_ends_wait_for_slurmctld() {
    let Some(mut site) = Site::start(TABLE) else { return };
    let first = site.jobtap("submit -n2 --wait-event=start sleep 20").ok();
    site.slurm().stop_controller();
    let second = site.jobtap("submit -n2 true").ok();
    let why = || site.jobtap(&format!("job why {second}")).stdout;
    until("the reason is known", || why().contains("Unable to contact"));
    pause(10.0);
    // The nodes are there, and have run their job meanwhile.
    assert_eq!(site.jobtap(&format!("job status {first}")).code, 0);
    site.slurm().go_on_with(&Installation::system());
    assert_eq!(site.jobtap(&format!("job status {second}")).code, 0);
    until("all is given back", || site.squeue().is_empty());
    until("all is forgotten", || site.jobtap("allocation list -no {id}").ok().is_empty());
}

#[test]
#[allow(clippy::print_stdout)]
fn random_kills_of_the_manager_leave_no_orphan() {
    let table =
        TABLE.replace("idle-time = \"2s\"", "idle-time = \"1s\"\nrequests-per-hour = 100000");
    let Some(mut site) = Site::start(&table) else { return };
    let mut chance = Random::from_seed();
    let mut jobs = Vec::new();
    for _ in 0..number("KILLS").unwrap_or(6) {
        for _ in 0..chance.below(3) {
            jobs.push(site.jobtap("submit -n1 sh -c 'sleep 0.3'").ok());
        }
        pause(chance.below(3000) as f64 / 1000.0);
        site.kill_manager();
        pause(chance.below(500) as f64 / 1000.0);
        site.start_manager();
        let named: Vec<String> = site
            .squeue()
            .iter()
            .filter_map(|line| line.split(' ').nth(2).map(str::to_owned))
            .collect();
        let mut unique = named.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), named.len(), "ordered twice: {named:?}");
    }
    for id in &jobs {
        site.jobtap(&format!("job wait-event -q -t 120s {id} clean")).ok();
    }
    until("all is given back", || site.squeue().is_empty());
    until("all is forgotten", || site.jobtap("allocation list -no {id}").ok().is_empty());
    let log = site.jobtap("kvs get allocation.eventlog").ok();
    println!("{} jobs, {} orders", jobs.len(), log.matches("\"order\"").count());
}
