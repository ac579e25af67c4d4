//! Configuration, plugins and the manager itself are reloaded again and again while jobs come, run and go: no
//! acknowledged job is lost, none runs twice, and no reload leaves anything open. The plugin has a prolog that fails when it
//! is reloaded or the manager restarts meanwhile, which is what a prolog does unless it says otherwise: such a job ends
//! with that reason and doesn't run.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use jobtap_tests::{Manager, probe_manager, temporary};

const LOADED: &str = "[job-manager]\nplugins = [{ load = \"probe\" }]\n";

/// How often each thing is reloaded, unless `RELOADS` says it.
const RELOADS: u32 = 20;

/// What a process has open, by what it is and not by its number.
fn open_files(pid: u32) -> Vec<String> {
    let entries = fs::read_dir(format!("/proc/{pid}/fd")).unwrap().flatten();
    let links = entries.filter_map(|entry| fs::read_link(entry.path()).ok());
    let mut files: Vec<String> = links.map(|link| link.display().to_string()).collect();
    files.sort();
    files
}

/// Submits jobs until the reloads are over, and returns those that were acknowledged.
fn submit_until(m: &Manager, over: &AtomicBool, ran: &str) -> Vec<String> {
    let mut acknowledged = Vec::new();
    while !over.load(Ordering::Relaxed) {
        let output = m.jobtap_args(&["submit", "sh", "-c", "echo $FLUX_JOB_ID >>\"$0\"", ran]);
        match output.code {
            0 => acknowledged.push(output.ok()),
            // While the manager restarts in place: nothing was promised.
            _ => assert!(output.code == 1 && !output.stderr.is_empty(), "{output:?}"),
        }
    }
    acknowledged
}

#[test]
fn reload_storms_lose_no_job_and_run_none_twice() {
    let reloads = std::env::var("RELOADS").map_or(RELOADS, |text| text.parse().unwrap());
    let m = Manager::start_with(probe_manager(), LOADED);
    let folder = temporary();
    let ran = folder.path().join("ran").display().to_string();
    let runs = m.submit("sleep 600");
    m.wait(&runs, "start");
    // What the first reload and the first prolog open stays open.
    m.jobtap("config reload").ok();
    m.jobtap("plugin reload probe").ok();
    m.jobtap("module reload job-manager").ok();
    let first = m.submit("true");
    m.wait(&first, "clean");
    let before = open_files(m.pid());

    let over = AtomicBool::new(false);
    let mut acknowledged = thread::scope(|scope| {
        let submitters = [(); 2].map(|()| scope.spawn(|| submit_until(&m, &over, &ran)));
        for round in 0..reloads {
            let limit = 10 + round % 3;
            m.configure(&format!("{LOADED}[plugins.probe]\nlongest-update = \"{limit}h\"\n"));
            m.jobtap("config reload").ok();
            m.jobtap(&format!("plugin reload probe greeting=round-{round}")).ok();
            if round % 5 == 4 {
                m.jobtap("module reload job-manager").ok();
            }
        }
        over.store(true, Ordering::Relaxed);
        submitters.map(|submitter| submitter.join().unwrap()).concat()
    });
    let all = acknowledged.len();
    acknowledged.retain(|id| {
        m.wait(id, "clean");
        let completed = m.field(id, "result") == "COMPLETED";
        let log = || m.jobtap(&format!("job eventlog {id}")).ok();
        assert!(completed || log().contains("note=\"prolog probe.prepare: "), "{}", log());
        completed
    });
    assert_eq!(m.field(&runs, "state"), "RUN");
    let mut ran: Vec<String> =
        fs::read_to_string(&ran).unwrap().lines().map(str::to_owned).collect();
    eprintln!("{reloads} reloads of each kind, {all} jobs, {} completed", acknowledged.len());
    ran.sort();
    assert!(ran.windows(2).all(|two| two[0] != two[1]), "a job ran twice: {ran:?}");
    // A job whose acknowledgement was cut off by a restart may have run, too.
    let lost: Vec<&String> = acknowledged.iter().filter(|id| !ran.contains(id)).collect();
    assert!(lost.is_empty(), "didn't run: {lost:?}");
    let after = open_files(m.pid());
    assert!(after.len() <= before.len(), "open before: {before:#?}, after: {after:#?}");
}
