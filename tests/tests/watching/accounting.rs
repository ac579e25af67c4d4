//! `jobtap accounting`: what finished jobs have used, for programs and for people.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use jobtap_tests::{Manager, clean, jobtap, run, spawn, temporary, workspace};
use serde_json::Value;

/// A manager with a job that succeeded, one that failed, one that was cancelled and one that runs, in this order.
fn with_jobs(config: &str) -> (Manager, [String; 4]) {
    let m = Manager::start_with(jobtap(), &format!("[queues.a]\n[queues.b]\n{config}"));
    m.jobtap("queue start --all --quiet").ok();
    let good = m.submit_args(&["--queue=a", "--job-name=x\x1b[2J|\u{9b}y", "-t1m", "-n2", "true"]);
    m.wait(&good, "clean");
    let bad = m.submit_args(&["--queue=b", "sh", "-c", "exit 3"]);
    m.wait(&bad, "clean");
    let gone = m.submit("--queue=a --urgency=hold true");
    m.jobtap(&format!("cancel {gone}")).ok();
    m.wait(&gone, "clean");
    let runs = m.submit("--queue=a sleep 600");
    m.wait(&runs, "start");
    (m, [good, bad, gone, runs])
}

/// The exported jobs, in the order in which they ended.
fn exported(m: &Manager, options: &str) -> Vec<Value> {
    let text = m.jobtap(&format!("accounting export {options}")).ok();
    assert!(!text.contains(|c: char| c.is_control() && c != '\n'), "{text:?}");
    let mut jobs: Vec<Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    jobs.reverse();
    jobs
}

fn ids(jobs: &[Value]) -> Vec<&str> {
    jobs.iter().map(|job| job["jobid"].as_str().unwrap()).collect()
}

#[test]
fn each_finished_job_is_a_line_of_json() {
    let (m, [good, bad, gone, _]) = with_jobs("");
    let jobs = exported(&m, "");
    assert_eq!(ids(&jobs), [&good, &bad, &gone]);
    let first = &jobs[0];
    assert_eq!(first["name"], "x\x1b[2J|\u{9b}y");
    assert_eq!((&first["ncores"], &first["queue"]), (&2.into(), &"a".into()));
    assert_eq!((&first["time_limit"], &first["result"]), (&60.0.into(), &"COMPLETED".into()));
    let seconds = |name: &str| first[name].as_f64().unwrap();
    assert!((seconds("core_seconds") - 2.0 * seconds("runtime")).abs() < 1e-6, "{first}");
    assert!((seconds("waited") - (seconds("t_run") - seconds("t_submit"))).abs() < 1e-6);
    assert_eq!((&jobs[1]["returncode"], &jobs[1]["success"]), (&3.into(), &false.into()));
    assert_eq!((&jobs[2]["t_run"], &jobs[2]["core_seconds"]), (&Value::Null, &0.0.into()));
    // The guide describes each member, and no other.
    let guide = std::fs::read_to_string(workspace().join("docs/src/accounting.md")).unwrap();
    let rows = guide.lines().skip_while(|line| *line != "| member | |").skip(2);
    let described: Vec<&str> = rows
        .take_while(|line| line.starts_with('|'))
        .flat_map(|line| line.split('|').nth(1).unwrap().split(", "))
        .map(|name| name.trim().trim_matches('`'))
        .collect();
    for job in &jobs {
        let members: Vec<&str> = job.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(members, described);
    }
}

#[test]
fn options_select_jobs() {
    let (m, [good, bad, gone, _]) = with_jobs("");
    assert_eq!(ids(&exported(&m, "--queue=b")), [&bad]);
    assert_eq!(ids(&exported(&m, "-s failed,CA")), [&bad, &gone]);
    assert_eq!(exported(&m, "-u 4000000123"), Vec::<Value>::new());
    let own = m.jobtap("getattr security.owner").ok();
    assert_eq!(exported(&m, &format!("-u {own}")).len(), 3);
    // A span includes its beginning and not its end, so that no job is in two adjacent spans or in none.
    let end = exported(&m, "")[1]["t_inactive"].to_string();
    assert_eq!(ids(&exported(&m, &format!("--until {end}"))), [&good]);
    assert_eq!(ids(&exported(&m, &format!("--since {end}"))), [&bad, &gone]);
    let refused = m.jobtap("accounting export --since nosuch");
    refused.says(2, "jobtap-accounting: ERROR: --since: invalid time: 'nosuch'");
}

#[test]
fn a_reader_may_stop() {
    let (m, _) = with_jobs("");
    let mut command = m.command(["accounting", "export"]);
    let mut export = spawn(command.stdout(Stdio::piped()).stderr(Stdio::piped()));
    let mut line = String::new();
    BufReader::new(export.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with('{'), "{line}");
    let ended = export.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
    let missing =
        run(clean(jobtap()).args(["accounting", "export"]).env("JOBTAP_URI", "local:///x"));
    assert!(missing.code == 1 && missing.stderr.contains("no manager listens"), "{missing:?}");
}

#[test]
fn a_guest_in_private_mode_exports_no_jobs_of_others() {
    let (m, _) = with_jobs("[access]\nallow-guest-user = true\nprivate-mode = true\n");
    assert_eq!(m.as_guest("accounting export").ok(), "");
    assert_eq!(m.as_guest("accounting report -a -n").ok(), "");
    assert_eq!(m.jobtap("accounting report -a -n --since=-1h").ok().lines().count(), 4);
}

#[test]
fn the_report_has_the_form_of_sacct() {
    let (m, [good, bad, gone, runs]) = with_jobs("");
    let report = |words: &str| m.jobtap(&format!("accounting report --since=-1h {words}")).ok();
    let lines = report("-s completed,failed --format JobID,jobname%6,State,ExitCode,User%-8");
    let lines: Vec<&str> = lines.lines().map(str::trim_end).collect();
    assert_eq!(
        lines,
        [
            "       JobID JobNam      State ExitCode User",
            "------------ ------ ---------- -------- --------",
            &format!("{bad:>12}     sh     FAILED      3:0 root"),
            &format!("{good:>12} x\\u00+  COMPLETED      0:0 root"),
        ]
    );
    let parsed = report("-P --format=jobid,state,alloccpus,partition");
    let lines: Vec<&str> = parsed.lines().collect();
    let wanted = [
        "JobID|State|AllocCPUS|Partition".to_owned(),
        format!("{runs}|RUNNING|1|a"),
        format!("{gone}|CANCELLED|0|a"),
        format!("{bad}|FAILED|1|b"),
        format!("{good}|COMPLETED|2|a"),
    ];
    assert_eq!(lines, wanted);
    assert_eq!(report("-n -p --delimiter , --format=state -q b"), "FAILED,");
    assert_eq!(report("-n --state=TO"), "");
    let none = m.jobtap("accounting report --since now -n --state=CD").ok();
    assert_eq!(none, "");
    let refused = m.jobtap("accounting report --format nosuch");
    let text = "there is no column 'nosuch'; --helpformat lists them";
    refused.says(1, &format!("jobtap-accounting: ERROR: {text}"));
    assert!(report("--helpformat").lines().any(|name| name == "CPUTimeRAW"));
}

#[test]
fn totals_are_by_user_and_queue() {
    let (m, _) = with_jobs("");
    let totals = m.jobtap("accounting report -P --by user,queue --since=-1h --until now").ok();
    let lines: Vec<Vec<&str>> = totals.lines().map(|line| line.split('|').collect()).collect();
    let heading = ["User", "Partition", "Jobs", "Completed", "Failed", "Cancelled", "Timeout"];
    assert_eq!(lines[0][..7], heading);
    assert_eq!(lines[1][..7], ["root", "a", "2", "1", "0", "1", "0"]);
    assert_eq!(lines[2][..7], ["root", "b", "1", "0", "1", "0", "0"]);
    assert_eq!(lines[3][..7], ["all", "", "3", "1", "1", "1", "0"]);
    let table = m.jobtap("accounting report --by queue --since=-1h").ok();
    assert!(table.starts_with(" Partition     Jobs Completed"), "{table}");
}

#[test]
fn a_report_is_a_trace_for_the_laboratory() {
    let (m, _) = with_jobs("");
    let trace = m
        .jobtap(
            "accounting report -a -P --since=-1h --until now --format \
             JobIDRaw,UID,Partition,Submit,Start,End,TimelimitRaw,NNodes,AllocCPUS,ReqCPUS",
        )
        .ok();
    let directory = temporary();
    let file = directory.path().join("trace");
    std::fs::write(&file, trace).unwrap();
    let mut simulate = clean(jobtap());
    simulate.args(["simulate", "--json", "--strict", "--nodes=1x4", "--trace"]).arg(&file);
    let summary: Value = serde_json::from_str(&run(&mut simulate).ok()).unwrap();
    let text = summary.to_string();
    assert!(text.contains("\"jobs\":2") || text.contains("\"completed\":2"), "{text}");
}
