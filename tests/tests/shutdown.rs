//! The end of a manager as those hear it whose requests wait for something, on their connection.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_tests::leftovers::processes_with;
use jobtap_tests::{Manager, PATIENCE, clean, jobtap, run, send, temporary, until};
use serde_json::{Value, json};

/// A connection as the commands have it: a line a request, a line an answer.
struct Connection(BufReader<UnixStream>);

impl Connection {
    fn new(m: &Manager) -> Self {
        let socket = UnixStream::connect(m.statedir.join("local-0")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(socket))
    }

    fn ask(&mut self, id: u64, topic: &str, payload: &Value) {
        let line = json!({"id": id, "topic": topic, "payload": payload, "stream": id > 9});
        writeln!(self.0.get_mut(), "{line}").unwrap();
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        Some(self.0.read_line(&mut line).unwrap()).filter(|read| *read > 0)?;
        Some(serde_json::from_str(&line).unwrap())
    }
}

#[test]
fn who_waits_for_jobs_is_answered_when_the_manager_ends() {
    let mut m = Manager::start(jobtap());
    let id = m.submit("--urgency=hold --flags=waitable true");
    let id: u64 = m.jobtap(&format!("job id {id}")).ok().parse().unwrap();
    let mut connection = Connection::new(&m);
    connection.ask(0, "hello", &json!({"protocol": 1}));
    connection.ask(1, "job-manager.drain", &json!({}));
    connection.ask(2, "job-manager.wait", &json!({ "id": id }));
    connection.ask(10, "job-info.eventlog-watch", &json!({"id": id, "path": "eventlog"}));
    // Taken in after the others: its answer says that they wait.
    connection.ask(3, "job-list.job-stats", &json!({}));
    while connection.answer().unwrap()["id"] != 3 {}
    m.stop();
    let mut last = [Value::Null, Value::Null, Value::Null];
    while let Some(answer) = connection.answer() {
        let at = answer["id"].as_u64().unwrap().min(3);
        last[usize::try_from(at).unwrap() - 1] = json!([answer["errno"], answer["error"]]);
    }
    let unloading = json!([38, "job-manager is unloading"]);
    assert_eq!(last[..2], [unloading.clone(), unloading]);
    assert_eq!(last[2], json!([11, "the manager is shutting down"]));
}

/// What a script prints in an instance on this state.
fn instance(statedir: &Path, keep: bool, script: &str) -> String {
    let mut command = clean(jobtap());
    if keep {
        command.env("FLUX_DISABLE_JOB_CLEANUP", "1");
    }
    let option = format!("-Sstatedir={}", statedir.display());
    run(command.args(["start", &option, "sh", "-c", script])).ok()
}

#[test]
fn what_runs_is_canceled_when_the_command_of_the_instance_ends() {
    let statedir = temporary();
    let long = "--setattr=exec.test.run_duration=1h";
    let begin = format!(
        "jobtap submit {long} --wait-event=start true; jobtap submit --urgency=hold true >/dev/null"
    );
    let id = instance(statedir.path(), true, &begin);
    let state = "jobtap jobs -ano {status} --sort=id";
    assert_eq!(instance(statedir.path(), false, state), "RUN\nSCHED");
    assert_eq!(instance(statedir.path(), false, state), "CANCELED\nSCHED");
    let names = format!("jobtap job eventlog -f json {} | jq -r .name | paste -sd ' '", id.trim());
    assert_eq!(
        instance(statedir.path(), false, &names),
        "submit validate depend priority alloc start exception finish release free clean"
    );
}

/// `start` with a shell script, still to be given, in an instance that kills canceled jobs soon.
fn start_script(folder: &Path) -> Command {
    let mut command = clean(jobtap());
    let start = ["start", "--conf=exec.kill-timeout=0.2", "sh", "-c"];
    command.env("TMPDIR", folder).args(start);
    command
}

#[test]
fn nothing_is_left_of_a_temporary_instance_that_is_killed() {
    let directory = temporary();
    let mut command = start_script(directory.path());
    let job = "trap '' TERM; touch $TMPDIR/ready; sleep 600; sleep 600";
    // The command itself ends when the manager does, or it would be what is left.
    command.arg(format!("jobtap submit sh -c \"{job}\"; while jobtap uptime; do sleep 0.1; done"));
    let mut manager = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    until("the job runs", || directory.path().join("ready").exists());
    manager.kill().unwrap();
    manager.wait().unwrap();
    until("no process is left", || processes_with(directory.path()).is_empty());
    let left: Vec<_> = std::fs::read_dir(directory.path()).unwrap().flatten().collect();
    assert_eq!(left.len(), 1, "only the job's own file is left: {left:?}");
}

#[test]
fn a_manager_with_a_job_that_ignores_signals_ends_in_bounded_time() {
    let config = "[exec]\nkill-timeout = 0.2\n";
    let job = ["sh", "-c", "trap '' TERM; sleep 600; sleep 600"];
    // A manager without a command leaves the job to the next one.
    let mut m = Manager::start_with(jobtap(), config);
    let id = m.submit_args(&job);
    m.wait(&id, "start");
    assert!(m.stop().0.success());
    m.start_again();
    assert_eq!(m.field(&id, "state"), "RUN");
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    // With its command an instance ends its jobs.
    let directory = temporary();
    let mut command = start_script(directory.path());
    command.arg(format!(
        "jobtap submit --wait-event=start sh -c \"{}\"; touch $TMPDIR/ready; exec sleep 600",
        job[2]
    ));
    let mut manager = command.stdout(Stdio::null()).spawn().unwrap();
    until("the job runs", || directory.path().join("ready").exists());
    send("TERM", manager.id());
    until("the manager ends", || manager.try_wait().unwrap().is_some());
    until("no process is left", || processes_with(directory.path()).is_empty());
}
