//! Allocations of a real Slurm: granted, refused, cancelled, expired, put back.

use jobtap_tests::until;

use crate::site::Site;

/// A table of allocations of one node.
const SMALL: &str = "[[allocation]]\nname = \"small\"\nengine = \"slurm\"\ncores = 2\nmax = 2\n\
                     time-limit = \"10m\"\nidle-time = \"2s\"\n";

/// The id in Slurm of the only job there.
#[track_caller]
fn only_job(site: &Site) -> String {
    let all = site.squeue();
    assert_eq!(all.len(), 1, "{all:?}");
    all[0].split(' ').next().unwrap().to_owned()
}

#[test]
fn a_pending_job_gets_an_allocation_which_is_given_back() {
    let Some(site) = Site::start(SMALL) else { return };
    assert_eq!(site.squeue(), [""; 0]);
    let ran = site.jobtap("run -n2 hostname");
    assert_eq!(ran.code, 0, "{ran:?}");
    let listed = site.jobtap("allocation list -no {table},{state},{nnodes}").ok();
    assert_eq!(listed, "small,running,1");
    let host = site.jobtap("allocation list -no {nodelist}").ok();
    assert_eq!(site.jobtap("resource list -s free -no {nodelist}").ok(), host);
    until("the allocation is given back", || site.squeue().is_empty());
    until("it is forgotten", || site.jobtap("allocation list -no {id}").ok().is_empty());
    assert_eq!(site.jobtap("resource list -s free -no {nnodes}").ok(), "0");
    let log = site.jobtap("kvs get allocation.eventlog").ok();
    assert!(log.contains("it isn't needed"), "{log}");
}

#[test]
fn jobs_run_across_the_nodes_of_an_allocation() {
    let table = SMALL.replace("name = \"small\"", "name = \"pair\"\nnodes = 2");
    let Some(site) = Site::start(&table) else { return };
    let ran = site.args(&["run", "-N2", "-n4", "sh", "-c", "echo $FLUX_TASK_RANK"]).ok();
    assert_eq!(ran.lines().count(), 4);
    let hosts = site.jobtap("allocation list -no {nodelist}").ok();
    assert!(hosts.starts_with("n["), "{hosts}");
    site.jobtap("allocation release 1").ok();
    until("it is given back", || site.squeue().is_empty());
}

#[test]
fn what_slurm_refuses_is_told_in_its_words_and_asked_seldom() {
    for (options, words) in
        [("--partition=no-such", "invalid partition"), ("--no-such-option", "unrecognized option")]
    {
        let table = format!("{SMALL}options = [\"{options}\"]\n");
        let Some(site) = Site::start(&table) else { return };
        let id = site.jobtap("submit -n1 true").ok();
        let refusal = || site.jobtap("allocation list --tables -no {refusal}").ok();
        until("the refusal is shown", || !refusal().is_empty());
        assert!(refusal().contains(words), "{}", refusal());
        let why = site.jobtap(&format!("job why {id}")).ok();
        assert!(why.contains(words), "{why}");
        std::thread::sleep(std::time::Duration::from_secs(4));
        let requests = site.jobtap("allocation list --tables -no {requests}").ok();
        assert!(requests.parse::<u32>().unwrap() <= 4, "{requests} requests");
        assert_eq!(site.squeue(), [""; 0]);
    }
}

#[test]
fn a_waiting_allocation_names_the_reason_and_can_be_released() {
    let table = format!("{SMALL}options = [\"--begin=now+1hour\"]\n");
    let Some(site) = Site::start(&table) else { return };
    let id = site.jobtap("submit -n1 true").ok();
    let reason = || site.jobtap("allocation list -no {reason}").ok();
    until("the reason is shown", || reason() == "BeginTime");
    let why = site.jobtap(&format!("job why {id}")).ok();
    assert!(why.contains("BeginTime"), "{why}");
    site.jobtap(&format!("cancel {id}")).ok();
    site.jobtap("allocation release 1").ok();
    until("it is cancelled", || site.squeue().is_empty());
    until("it is forgotten", || site.jobtap("allocation list -no {id}").ok().is_empty());
}

/// Starts a job, lets `end` end the Slurm job of its allocation in this state, and waits until the job runs again.
fn runs_again_after(site: &Site, state: &str, end: impl FnOnce(&str)) {
    let script = "echo run >>runs; exec sleep 3";
    let id = site.args(&["submit", "-n1", "--wait-event=start", "sh", "-c", script]).ok();
    let job = only_job(site);
    end(&job);
    site.jobtap(&format!("job wait-event -q -t 60s {id} exception")).ok();
    let log = site.jobtap(&format!("job eventlog {id}")).ok();
    assert!(log.contains("node-failure"), "{log}");
    let runs = || std::fs::read_to_string(site.directory().join("runs")).unwrap_or_default();
    until("it runs again", || runs().lines().count() == 2);
    let log = site.jobtap("kvs get allocation.eventlog").ok();
    assert!(log.contains(&format!("Slurm job {job}: {state}")), "{log}");
    site.jobtap("job wait --all").ok();
}

#[test]
fn an_allocation_that_is_cancelled_takes_its_job_with_it_which_runs_again() {
    let Some(site) = Site::start(SMALL) else { return };
    runs_again_after(&site, "CANCELLED", |job| drop(site.client("scancel", &[job]).ok()));
}

#[test]
fn an_allocation_that_slurm_preempts_takes_its_job_with_it_which_runs_again() {
    let preempts = "PreemptType=preempt/partition_prio\nPreemptMode=CANCEL\n\
                    PartitionName=urgent Nodes=n[1-4] PriorityTier=10 MaxTime=INFINITE State=UP";
    let Some(site) = Site::beside(preempts, SMALL) else { return };
    let words = ["-p", "urgent", "-N4", "--exclusive", "-o", "/dev/null", "--wrap", "sleep 1"];
    runs_again_after(&site, "PREEMPTED", |_| drop(site.client("sbatch", &words).ok()));
}

#[test]
fn a_limit_of_the_partition_is_named_while_the_allocation_waits() {
    let short = "PartitionName=short Nodes=n[1-4] MaxTime=1 State=UP";
    let table = format!("{SMALL}options = [\"--partition=short\"]\n");
    let Some(site) = Site::beside(short, &table) else { return };
    let id = site.jobtap("submit -n1 true").ok();
    let reason = || site.jobtap("allocation list -no {reason}").ok();
    until("the reason is shown", || reason() == "PartitionTimeLimit");
    let why = site.jobtap(&format!("job why {id}")).ok();
    assert!(why.contains("PartitionTimeLimit"), "{why}");
    site.jobtap(&format!("cancel {id}")).ok();
    site.jobtap("allocation release 1").ok();
    until("it is cancelled", || site.squeue().is_empty());
}

#[test]
fn a_node_with_less_than_the_table_says_is_refused_in_words() {
    let table = format!("{SMALL}options = [\"--cpus-per-task=1\"]\n");
    let Some(site) = Site::start(&table) else { return };
    let id = site.jobtap("submit -n1 true").ok();
    let log = || site.jobtap("kvs get allocation.eventlog").stdout;
    let words = "has 1 core for jobs, and the table says 2 cores";
    until("the reason is known", || log().contains(words));
    site.jobtap(&format!("cancel {id}")).ok();
    until("no allocation is left", || site.squeue().is_empty());
}

#[test]
fn an_allocation_that_is_put_back_is_given_up() {
    let Some(site) = Site::start(SMALL) else { return };
    let id = site.jobtap("submit -n1 --wait-event=start sleep 5").ok();
    let job = only_job(&site);
    let refused = site.client("scontrol", &["requeue", &job]);
    assert_ne!(refused.code, 0, "it asks not to be put back: {refused:?}");
    site.client("scontrol", &["update", &format!("JobId={job}"), "Requeue=1"]).ok();
    site.client("scontrol", &["requeue", &job]).ok();
    site.jobtap(&format!("job wait-event -q -t 60s {id} exception")).ok();
    until("the job is gone", || !site.squeue().iter().any(|line| line.starts_with(&job)));
    until("another one is there", || site.squeue().len() == 1);
}

#[test]
fn an_allocation_that_reaches_its_limit_ends_its_jobs() {
    let table = SMALL.replace("10m", "1m").replace("max = 2", "max = 2\non-loss = \"fail\"");
    let Some(site) = Site::start(&table) else { return };
    let id = site.jobtap("submit -n1 --wait-event=start sleep 600").ok();
    // It is given back before Slurm kills the job, which would have failed then.
    site.jobtap(&format!("job wait-event -q -t 90s {id} clean")).ok();
    let log = site.jobtap("kvs get allocation.eventlog").ok();
    assert!(log.contains("it has reached its time limit"), "{log}");
    let log = site.jobtap(&format!("job eventlog {id}")).ok();
    assert!(log.contains("node-failure"), "{log}");
    until("no allocation is left", || site.squeue().is_empty());
}
