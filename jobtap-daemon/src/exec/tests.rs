//! Tests of the executor with a real shepherd: this test binary, run again.

mod ahead;
mod claims;
mod end;
mod io;
mod pipes;
mod restart;
mod sharing;
mod silent;
mod slices;
mod speed;
mod start;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use jobtap_core::engine::RaisedException;
use jobtap_core::job::{Reach, Signal};
use rustix::process::{Pid, Signal as UnixSignal, kill_process};
use serde_json::{Value, json};

use super::data::decode_data;
use super::*;

/// The deadline of every wait; a test that passes never waits this long.
const PATIENCE: Duration = Duration::from_secs(30);

/// Not a test: the shepherd of the tests.
#[test]
fn shepherd_process() {
    let mut arguments = std::env::args_os().skip_while(|argument| argument != SHEPHERD_ARGUMENT);
    if arguments.next().is_some() {
        let _ = shepherd_main(arguments);
        std::process::exit(0);
    }
}

/// A manager's state directory, a directory for the jobs' files, and the settings of its managers.
struct Site {
    dir: tempfile::TempDir,
    kill: KillPolicy,
    idle_time: Duration,
    /// How long a shepherd may take to respond.
    patience: Duration,
    program: PathBuf,
    /// Whether its shepherd ends with this process. The default, so that a test that fails or is killed
    /// leaves no processes and no directory.
    temporary: bool,
}

/// Kills at once.
const IMPATIENT: KillPolicy = KillPolicy {
    kill_timeout: 0.001,
    kill_signal: Signal::KILL,
    max_kill_count: 8,
    max_kill_timeout: None,
    shortest_pause: 0.001,
    term_signal: Signal::TERM,
};

/// Kills at once with a signal that jobs can ignore, and gives up soon.
const FUTILE: KillPolicy = KillPolicy { kill_signal: Signal::TERM, max_kill_count: 2, ..IMPATIENT };

/// One process lifetime of a manager.
struct Manager {
    executor: LocalExecutor,
    /// How it kills jobs that it cancels.
    kill: KillPolicy,
    events: Receiver<ExecEvent>,
    warnings: Receiver<String>,
}

/// A process that is killed at the end of a test, even if the test fails.
struct Killed(Pid);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = kill_process(self.0, UnixSignal::KILL);
    }
}

/// The parent of a process. The shepherd is the parent of its forker, and the forker is the parent of
/// all tasks.
fn parent(pid: &str) -> String {
    let status = fs::read_to_string(format!("/proc/{}/status", pid.trim())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap();
    line.trim().to_owned()
}

/// Kills a shepherd and its forker, the parent of `task`, at once.
fn kill_both(shepherd: Pid, task: Pid) {
    let forker = pid(&parent(&task.to_string()));
    // So that the forker can't take the place of the shepherd meanwhile, and the shepherd doesn't continue the forker.
    kill_process(shepherd, UnixSignal::STOP).unwrap();
    kill_process(forker, UnixSignal::STOP).unwrap();
    kill_process(shepherd, UnixSignal::KILL).unwrap();
    kill_process(forker, UnixSignal::KILL).unwrap();
}

fn pid(text: &str) -> Pid {
    Pid::from_raw(text.trim().parse().unwrap()).unwrap()
}

impl Site {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("state")).unwrap();
        let kill = KillPolicy { kill_timeout: 60.0, ..KillPolicy::default() };
        let idle_time = Duration::from_secs(60);
        let program = std::env::current_exe().unwrap();
        Self { dir, kill, idle_time, patience: PATIENCE, program, temporary: true }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn manager(&self) -> Manager {
        self.connect().unwrap()
    }

    fn connect(&self) -> Result<Manager, ExecError> {
        let test = ["--exact", "exec::tests::shepherd_process", "--nocapture"];
        let program = self.program.clone().into_os_string();
        let config = LocalConfig {
            state_dir: self.path("state"),
            program: std::iter::once(program).chain(test.map(Into::into)).collect(),
            idle_time: self.idle_time,
            patience: self.patience,
            temporary: self.temporary,
        };
        let ((to_events, events), (to_warnings, warnings)) = (channel(), channel());
        let executor = LocalExecutor::connect(config, move |report| match report {
            ExecutorReport::Events(events) => {
                events.into_iter().for_each(|event| drop(to_events.send(event)));
            }
            ExecutorReport::Tasks { .. } => {}
            // One host has no nodes that could be lost.
            ExecutorReport::Node { .. } => {}
            ExecutorReport::Held(_) => {}
            ExecutorReport::Warning(text) => drop(to_warnings.send(text)),
        })?;
        Ok(Manager { executor, kill: self.kill, events, warnings })
    }

    /// Starts a job that sleeps, and returns the process ids of the shepherd and of the job's task.
    fn sleeper(&self, manager: &Manager, id: u64) -> (Pid, Pid) {
        let ready = self.fifo(&format!("ready-{id}"));
        let script = format!("echo run >>runs; echo $PPID $$ >ready-{id}; exec sleep 600");
        manager.executor.start(self.job(id, 1, &script));
        let text = self.read_fifo(&ready);
        let (forker, task) = text.trim().split_once(' ').unwrap();
        (pid(&parent(forker)), pid(task))
    }

    /// A job of `ntasks` tasks that run a script in `sh`.
    fn job(&self, id: u64, ntasks: u32, script: &str) -> StartJob {
        StartJob {
            userid: rustix::process::geteuid().as_raw(),
            command: ["sh", "-c", script].map(str::to_owned).to_vec(),
            ntasks,
            cwd: self.dir.path().to_owned(),
            env: vec![("PATH".to_owned(), "/usr/bin:/bin".to_owned())],
            nodes: vec![NodeTasks { rank: 0, ntasks }],
            kill: self.kill,
            ..StartJob::new(JobId::new(id))
        }
    }

    /// Creates a FIFO, by which a job and its test synchronize.
    fn fifo(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        path
    }

    /// Reads what a job writes to a FIFO. Opening a FIFO blocks until its other end is opened, which may
    /// never happen when a test fails, so it is done on a thread, with a deadline.
    fn read_fifo(&self, fifo: &Path) -> String {
        let (sender, text) = channel();
        let path = fifo.to_owned();
        thread::spawn(move || drop(sender.send(fs::read_to_string(path).unwrap())));
        text.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("nothing came by {}", fifo.display()))
    }

    /// The entries of a job's output log.
    fn log(&self, id: u64) -> Vec<Value> {
        let name = format!("0000.0000.0000.{id:04x}");
        let text = fs::read_to_string(self.path("state").join("output").join(name)).unwrap();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The output of one task to one stream, from the output log.
    fn output(&self, id: u64, stream: &str, rank: u32) -> String {
        let rank = rank.to_string();
        let ours =
            |context: &Value| context["stream"] == stream && context["rank"] == rank.as_str();
        let log = self.log(id);
        let data =
            log.iter().filter(|entry| entry["name"] == "data").map(|entry| &entry["context"]);
        let data = data.filter(|context| ours(context)).flat_map(|context| {
            let data = context["data"].as_str().unwrap_or_default();
            match context["encoding"] == "base64" {
                true => decode_data(data).unwrap(),
                false => data.as_bytes().to_vec(),
            }
        });
        String::from_utf8(data.collect()).unwrap()
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }
}

impl Manager {
    fn next(&self) -> ExecEvent {
        self.events.recv_timeout(PATIENCE).expect("an event")
    }

    /// The names of all events of the job until one satisfies `last`.
    fn until(&self, id: u64, last: impl Fn(&ExecEvent) -> bool) -> Vec<String> {
        let mut names = Vec::new();
        loop {
            let event = self.next();
            if event.id() == JobId::new(id) {
                names.push(name(&event));
                if last(&event) {
                    return names;
                }
            }
        }
    }

    /// The names of all events up to the job's release.
    fn to_end(&self, id: u64) -> Vec<String> {
        self.until(id, |event| matches!(event, ExecEvent::Released { .. }))
    }

    fn signal(&self, id: u64, signal: Signal) {
        self.executor.command(JobCommand::Signal {
            id: JobId::new(id),
            signal,
            reach: Reach::Group,
        });
    }

    fn cancel(&self, id: u64, signal: Signal) {
        let (id, kill) = (JobId::new(id), self.kill);
        self.executor.command(JobCommand::Cancel { id, signal, kill });
    }

    fn stdin(&self, id: u64, rank: Option<u32>, data: Vec<u8>, eof: bool) {
        self.executor.command(JobCommand::Stdin { id: JobId::new(id), rank, data, eof });
    }

    fn ack(&self, id: u64) {
        self.executor.command(JobCommand::Ack { id: JobId::new(id) });
    }

    /// Runs a job and returns the names of its events.
    fn run(&self, job: StartJob) -> Vec<String> {
        let id = job.id;
        self.executor.start(job);
        let events = self.to_end(id.as_u64());
        self.executor.command(JobCommand::Ack { id });
        events
    }

    /// Runs a job and returns the status that it finished with.
    fn status(&self, job: StartJob) -> i32 {
        status(&self.run(job))
    }

    /// Shuts the shepherd down, which must hold no job any more.
    fn end(self) {
        self.executor.shut_down(Duration::ZERO);
    }
}

fn name(event: &ExecEvent) -> String {
    match event {
        ExecEvent::Log { entry, .. } => entry.name.to_string(),
        ExecEvent::Begun { .. } => "BEGUN".to_owned(),
        ExecEvent::Recalled { .. } => "RECALLED".to_owned(),
        ExecEvent::Output { .. } => "OUTPUT".to_owned(),
        ExecEvent::Started { .. } => "START".to_owned(),
        ExecEvent::Exception { exception: RaisedException { severity, note, .. }, .. } => {
            format!("EXCEPTION {severity} {note}")
        }
        ExecEvent::Lost { note, reason, .. } => format!("LOST {note} ({reason})"),
        ExecEvent::Unkillable { ranks, reason, .. } => format!("UNKILLABLE {ranks} {reason}"),
        ExecEvent::Reattached { .. } => "REATTACHED".to_owned(),
        ExecEvent::CaughtUp { .. } => "CAUGHT-UP".to_owned(),
        ExecEvent::Finished { status, .. } => format!("FINISH {status}"),
        ExecEvent::PartlyReleased { ranks, .. } => format!("RELEASE {ranks}"),
        ExecEvent::Released { .. } => "RELEASE".to_owned(),
    }
}

fn status(events: &[String]) -> i32 {
    let finishes: Vec<i32> =
        events.iter().filter_map(|event| event.strip_prefix("FINISH ")?.parse().ok()).collect();
    assert_eq!(finishes.len(), 1, "{events:?}");
    finishes[0]
}

fn has_started(event: &ExecEvent) -> bool {
    matches!(event, ExecEvent::Log { entry, .. } if entry.name == "shell.start")
}

/// Waits until `condition` holds.
fn wait_for(what: &str, mut condition: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !condition() {
        assert!(begin.elapsed() < PATIENCE, "{what}");
        thread::yield_now();
    }
}

/// Waits until a process is gone.
fn wait_gone(pid: &str) {
    let proc = Path::new("/proc").join(pid.trim());
    wait_for(&format!("process {pid} is gone"), || !proc.exists());
}
