//! A manager shuts down in bounded time: waiting clients get a response, the jobs of a temporary instance are
//! canceled, and nothing of the instance is left.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

use jobtap_tests::leftovers::processes_with;
use jobtap_tests::rpc::{PROTOCOL, request, stream};
use jobtap_tests::{Manager, PATIENCE, clean, jobtap, run, send, temporary, until};
use serde_json::{Value, json};

/// A connection to the manager.
struct Connection(BufReader<UnixStream>);

impl Connection {
    fn new(m: &Manager) -> Self {
        let socket = UnixStream::connect(m.statedir.join("local-0")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(socket))
    }

    fn ask(&mut self, id: u64, topic: &str, payload: &Value) {
        let text = if id > 9 { stream } else { request }(id, topic, payload);
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
    }

    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        Some(self.0.read_line(&mut line).unwrap()).filter(|read| *read > 0)?;
        Some(serde_json::from_str(&line).unwrap())
    }
}

#[test]
fn waiting_clients_are_answered_at_shutdown() {
    let mut m = Manager::start(jobtap());
    let id = m.submit("--urgency=hold --flags=waitable true");
    let id: u64 = m.jobtap(&format!("job id {id}")).ok().parse().unwrap();
    let mut connection = Connection::new(&m);
    connection.ask(0, "hello", &json!({ "protocol": PROTOCOL }));
    connection.ask(1, "job-manager.drain", &json!({}));
    connection.ask(2, "job-manager.wait", &json!({ "id": id }));
    connection.ask(10, "job-info.eventlog-watch", &json!({"id": id, "path": "eventlog"}));
    // Requests of a connection are taken in order: this response shows that the others wait.
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

/// Runs a script in an instance on this state directory, and returns what it prints.
fn instance(statedir: &Path, keep: bool, script: &str) -> String {
    let mut command = clean(jobtap());
    if keep {
        command.env("FLUX_DISABLE_JOB_CLEANUP", "1");
    }
    let option = format!("-Sstatedir={}", statedir.display());
    run(command.args(["start", &option, "sh", "-c", script])).ok()
}

#[test]
fn running_jobs_are_canceled_when_the_initial_program_ends() {
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

/// Returns `start sh -c` without the script, for an instance that kills canceled jobs soon.
fn start_script(folder: &Path) -> Command {
    let mut command = clean(jobtap());
    let start = ["start", "--conf=exec.kill-timeout=0.2", "sh", "-c"];
    command.env("TMPDIR", folder).args(start);
    command
}

#[test]
fn a_killed_temporary_instance_leaves_nothing_behind() {
    let directory = temporary();
    let mut command = start_script(directory.path());
    let job = "trap '' TERM; touch $TMPDIR/ready; sleep 600; sleep 600";
    // The initial program ends with the manager; otherwise it would count as left behind.
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
fn shutdown_takes_bounded_time_if_jobs_ignore_signals() {
    let config = "[exec]\nkill-timeout = 0.2\n";
    let job = ["sh", "-c", "trap '' TERM; sleep 600; sleep 600"];
    // A manager without an initial program leaves running jobs to the next manager.
    let mut m = Manager::start_with(jobtap(), config);
    let id = m.submit_args(&job);
    m.wait(&id, "start");
    assert!(m.stop().0.success());
    m.start_again();
    assert_eq!(m.field(&id, "state"), "RUN");
    m.jobtap(&format!("cancel {id}")).ok();
    m.wait(&id, "clean");
    // An instance with an initial program ends its jobs.
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

#[test]
fn sighup_reloads_the_configuration_and_ends_nothing() {
    let folder = temporary();
    let config = folder.path().join("config.toml");
    std::fs::write(&config, "[site]\ncolor = \"blue\"\n").unwrap();
    let script = format!(
        "id=$(jobtap submit sleep 600)
         jobtap job wait-event -q $id start
         printf '[site]\ncolor = \"red\"\n' > {}
         kill -HUP $PPID
         until jobtap config get site.color | grep -q red; do sleep 0.1; done
         jobtap jobs -no {{state}} $id",
        config.display()
    );
    let start = ["start", "--config-path", config.to_str().unwrap(), "sh", "-c", &script];
    let output = run(clean(jobtap()).args(start));
    assert_eq!((output.code, output.stdout.trim()), (0, "RUN"), "{output:?}");
}
