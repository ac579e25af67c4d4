//! What a manager stores can be read, dumped, and restored into another manager, also from an archive of Flux.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use jobtap_tests::{Manager, Output, clean, jobtap, run, spawn, temporary};

/// Runs `kvs restore` of an archive.
fn restore(file: &Path, state: &Path) -> Output {
    let mut command = clean(jobtap());
    run(command.args(["kvs", "restore", "-v", "--state-dir"]).arg(state).arg(file))
}

/// Makes an archive of a job that Flux ran (RFC 16), packed by `tar`.
fn archive_of_flux(dir: &Path, without: &str) -> std::path::PathBuf {
    let job = dir.join("job/0000/0001/e100/0000");
    std::fs::create_dir_all(job.join("guest/exec")).unwrap();
    let events = [
        r#""submit","context":{"userid":0,"urgency":16,"flags":0}"#,
        r#""validate""#,
        r#""depend""#,
        r#""priority","context":{"priority":16}"#,
        r#""alloc","context":{"annotations":{"sched":{"resource_summary":"rank0/core0"}}}"#,
        r#""start""#,
        r#""finish","context":{"status":0}"#,
        r#""release","context":{"ranks":"all","final":true}"#,
        r#""free""#,
        r#""clean""#,
    ];
    let log = events.map(|event| format!("{{\"timestamp\":1657300307.5,\"name\":{event}}}\n"));
    let header = r#"{"timestamp":1657300307.5,"name":"header","context":{"version":1,"encoding":{"stdout":"UTF-8","stderr":"UTF-8"},"count":{"stdout":1,"stderr":1},"options":{}}}"#;
    let data = r#"{"timestamp":1657300307.5,"name":"data","context":{"stream":"stdout","rank":"0","data":"from flux\n"}}"#;
    let files = [
        ("eventlog", log.concat()),
        ("jobspec", r#"{"resources":[{"type":"slot","count":1,"with":[{"type":"core","count":1}],"label":"task"}],"tasks":[{"command":["/bin/true"],"slot":"task","count":{"per_slot":1}}],"attributes":{"system":{"duration":0}},"version":1}"#.into()),
        ("R", r#"{"version":1,"execution":{"R_lite":[{"rank":"0","children":{"core":"0"}}],"starttime":0.0,"expiration":0.0,"nodelist":["elsewhere"]}}"#.into()),
        ("guest/exec/eventlog", "{\"timestamp\":1657300307.5,\"name\":\"init\"}\n".into()),
        ("guest/output", format!("{header}\n{data}\n")),
    ];
    for (name, text) in files.into_iter().filter(|(name, _)| *name != without) {
        std::fs::write(job.join(name), text).unwrap();
    }
    std::fs::create_dir(dir.join("checkpoint")).unwrap();
    std::fs::write(dir.join("checkpoint/job-manager"), "{\"max_jobid\": 8069840896}").unwrap();
    let file = dir.join("flux.tar");
    let mut tar = Command::new("tar");
    run(tar.arg("-C").arg(dir).arg("-cf").arg(&file).args(["job", "checkpoint"])).ok();
    file
}

#[test]
fn what_a_short_job_prints_is_stored_with_its_end() {
    let mut m = Manager::start(jobtap());
    let id = m.submit_args(&["sh", "-c", "echo hello; echo no >&2"]);
    // This client waits for output while the job runs.
    let attached = m.jobtap(&format!("job attach {id}"));
    assert_eq!((attached.stdout.trim(), attached.stderr.trim()), ("hello", "no"));
    m.wait(&id, "clean");
    let files = std::fs::read_dir(m.statedir.join("output")).map_or(0, Iterator::count);
    assert_eq!(files, 0, "it needs no file");
    m.kill();
    m.start_again();
    assert_eq!(m.jobtap(&format!("job attach {id}")).stdout.trim(), "hello");
    let log = m.jobtap(&format!("job eventlog -p output {id}")).ok();
    assert!(log.contains(" header ") && log.contains("data=\"hello\\n\""), "{log}");
    assert!(m.jobtap(&format!("job info {id} guest.output")).ok().contains("hello"));
    let dir = m.jobtap(&format!("job id --to=kvs {id}")).ok();
    m.jobtap(&format!("job purge --force {id}")).ok();
    assert_ne!(m.jobtap(&format!("kvs get {dir}.guest.output")).code, 0);
}

#[test]
fn keys_are_those_of_rfc_16() {
    let m = Manager::start(jobtap());
    let id = m.submit_args(&["sh", "-c", "echo hello"]);
    m.wait(&id, "clean");
    let dir = m.jobtap(&format!("job id --to=kvs {id}")).ok();
    let names = m.jobtap(&format!("kvs ls {dir}")).ok();
    assert_eq!(names, "J\nR\neventlog\nguest\njobspec");
    assert_eq!(m.jobtap("kvs ls -F").ok(), "admin.\njob.\nresource.");
    let log = m.jobtap(&format!("kvs get {dir}.eventlog")).ok();
    assert_eq!(log, m.jobtap(&format!("job info {id} eventlog")).ok());
    let exec = m.jobtap(&format!("kvs get --raw {dir}.guest.exec.eventlog")).ok();
    assert!(exec.contains("\"name\":\"done\""), "{exec}");
    let output = m.jobtap(&format!("kvs get {dir}.guest.output")).ok();
    assert!(output.contains("hello"), "{output}");
    let all = m.jobtap(&format!("kvs dir -R {dir}")).ok();
    assert!(all.contains(&format!("{dir}.R = {{")), "{all}");
    let missing = m.jobtap("kvs get nosuch");
    assert_eq!(
        (missing.code, missing.stderr.as_str()),
        (1, "jobtap-kvs: nosuch: No such file or directory\n")
    );
    let directory = m.jobtap("kvs get job");
    assert_eq!(directory.stderr, "jobtap-kvs: job: Is a directory\n");
    let resources =
        |words: &str| -> serde_json::Value { serde_json::from_str(&m.jobtap(words).ok()).unwrap() };
    assert_eq!(resources("kvs get resource.R"), resources("resource R"));
    let listed = m.jobtap("kvs ls resource nosuch resource.R");
    assert_eq!(listed.stdout, "resource.R\n\nresource:\nR\neventlog\n");
    assert_eq!((listed.code, &*listed.stderr), (1, "nosuch: No such file or directory\n"));
    assert_eq!(m.jobtap("kvs ls -dF . resource").ok(), "..\nresource.");
    let refused = m.as_guest("kvs ls");
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (1, "jobtap-kvs: Request requires owner credentials\n")
    );
    assert_eq!(m.as_guest(&format!("kvs get {dir}.jobspec")).code, 1);
}

#[test]
fn a_job_dumped_by_flux_can_be_restored() {
    let dir = temporary();
    let file = archive_of_flux(dir.path(), "");
    let state = dir.path().join("state");
    let said = restore(&file, &state);
    assert_eq!((said.code, said.stderr.as_str()), (0, "jobtap-kvs: restored 1 job with 6 keys\n"));
    assert_eq!(restore(&file, &state).code, 1);
    let m = Manager::start_in(jobtap(), &state, &[]);
    let listed =
        m.jobtap_args(&["jobs", "-aAno", "{id.f58} {status} {returncode} {nodelist}"]).ok();
    assert_eq!(listed, "fDJ73Ys COMPLETED 0 elsewhere");
    assert!(m.events("fDJ73Ys").ends_with("finish release free clean"));
    assert_eq!(m.jobtap("job attach fDJ73Ys").ok(), "from flux");
    let next = m.submit("true");
    let newer: u64 = m.jobtap(&format!("job id {next}")).ok().parse().unwrap();
    assert!(newer > 8_069_840_896);
}

#[test]
fn a_damaged_job_is_set_aside_and_reported() {
    let dir = temporary();
    let file = archive_of_flux(dir.path(), "eventlog");
    let state = dir.path().join("state");
    restore(&file, &state).ok();
    let mut m = Manager::start_in(jobtap(), &state, &[]);
    let lost = m.jobtap("kvs ls -R job-lost+found").ok();
    assert!(lost.contains("job-lost+found.job.ƒDJ73Ys:\nR\nguest\njobspec"), "{lost}");
    assert_eq!(m.jobtap("jobs -aAn").ok(), "");
    let id = m.submit("true");
    m.wait(&id, "clean");
    let (status, _) = m.stop();
    assert!(status.success());
}

#[test]
fn a_dump_moves_jobs_queues_and_output_to_an_instance() {
    let dir = temporary();
    let (first, second) = (dir.path().join("first.tar.bz2"), dir.path().join("second.tgz"));
    let content_dump = format!("content.dump={}", second.display());
    let m = Manager::start(jobtap());
    let done = m.submit_args(&["sh", "-c", "echo kept"]);
    m.wait(&done, "clean");
    m.jobtap("queue stop -m maintenance").ok();
    let pending = m.submit("true");
    m.wait(&pending, "priority");
    let words = format!("dump {}", first.display());
    m.jobtap(&words).ok();
    let state = dir.path().join("state");
    restore(&first, &state).ok();
    let options = ["-S".as_ref(), content_dump.as_ref()];
    let mut other = Manager::start_in(jobtap(), &state, &options);
    assert_eq!(other.field(&done, "status"), "COMPLETED");
    assert_eq!(other.jobtap(&format!("job attach {done}")).ok(), "kept");
    assert_eq!(other.field(&pending, "state"), "SCHED");
    assert!(other.jobtap("queue status").ok().contains("Scheduling is stopped: maintenance"));
    other.jobtap("queue start").ok();
    other.wait(&pending, "clean");
    other.stop();
    let mut command = clean(jobtap());
    let restored = format!("-Scontent.restore={}", second.display());
    let shown = run(command.args(["start", &restored, "jobtap", "jobs", "-ano", "{status}"])).ok();
    assert_eq!(shown, "COMPLETED\nCOMPLETED");
}

#[test]
fn a_damaged_archive_restores_nothing() {
    let dir = temporary();
    let file = archive_of_flux(dir.path(), "");
    let bytes = std::fs::read(&file).unwrap();
    std::fs::write(&file, bytes.get(..bytes.len() / 3).unwrap()).unwrap();
    let state = dir.path().join("state");
    let refused = restore(&file, &state);
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.starts_with("jobtap-kvs: "), "{refused:?}");
    assert!(refused.stderr.contains("flux.tar"), "{refused:?}");
    assert!(!state.join("store").exists());
    let m = Manager::start_in(jobtap(), &state, &[]);
    assert_eq!(m.jobtap("jobs -aAn").ok(), "");
}

#[test]
fn the_events_journal_streams_past_and_new_events() {
    use std::io::{BufRead, BufReader};
    use std::process::Stdio;
    let mut m = Manager::start(jobtap());
    let done = m.submit("true");
    m.wait(&done, "clean");
    let held = m.submit("--urgency=hold true");
    m.wait(&held, "priority");
    let names = |line: &str| -> String {
        let answer: serde_json::Value = serde_json::from_str(line).unwrap();
        let events = answer["events"].as_array().unwrap().iter();
        let names: Vec<&str> = events.map(|event| event["name"].as_str().unwrap()).collect();
        let extra = ["jobspec", "R"].map(|key| if answer.get(key).is_some() { key } else { "" });
        format!("{} {}", names.join(" "), extra.join("")).trim().to_owned()
    };
    let past = m.jobtap("job journal --past").ok();
    assert_eq!(
        past.lines().map(names).collect::<Vec<_>>(),
        ["submit validate depend priority jobspec"]
    );
    let past = m.jobtap("job journal --full --past --allow=alloc,submit --deny=submit").ok();
    assert_eq!(past.lines().map(names).collect::<Vec<_>>(), ["alloc R"]);
    let refused = m.as_guest("job journal");
    assert_eq!(refused.stderr, "jobtap-job: Request requires owner credentials\n");

    let mut follow = m.command(["job", "journal", "--deny=release"]);
    let mut follow = spawn(follow.stdin(Stdio::null()).stdout(Stdio::piped()));
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines().map(Result::unwrap);
    assert_eq!(names(&lines.next().unwrap()), "submit validate depend priority jobspec");
    assert!(lines.next().unwrap().contains("18446744073709551615"));
    m.jobtap(&format!("job memo --volatile {held} a=1")).ok();
    let next = m.submit("true");
    m.wait(&next, "clean");
    m.stop();
    let live: Vec<String> = lines.map(|line| names(&line)).collect();
    let wanted = [
        "annotations",
        "submit jobspec",
        "validate",
        "depend",
        "priority",
        "annotations",
        "alloc R",
        "start",
        "finish",
        "free",
        "clean",
    ];
    assert_eq!(live, wanted);
    assert!(follow.wait().unwrap().success());
}
