//! A launcher that starts an instance of several nodes on this host, as `srun` does in an allocation: a process for each
//! node, with a name of its own, and PMI between them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tempfile::TempDir;

use crate::{Output, Process, clean, jobtap, run, serve, temporary, until};

/// Puts the socket of a task, its standard input, where PMI has it.
const WITH_PMI: &str = "exec 3<&0 </dev/null; PMI_FD=3 exec \"$@\"";

/// The store of a step, and its barrier.
#[derive(Default)]
struct Step {
    values: HashMap<String, String>,
    waiting: u32,
    passed: u64,
}

/// Serves PMI to one task, as far as a launcher of MPI does.
fn serve_pmi(stream: UnixStream, size: u32, step: &(Mutex<Step>, Condvar)) -> std::io::Result<()> {
    let lock = || step.0.lock().unwrap_or_else(PoisonError::into_inner);
    let mut write = stream.try_clone()?;
    for line in BufReader::new(stream).lines() {
        let line = line?;
        let field = |name: &str| {
            let fields = line.split_whitespace().filter_map(|word| word.split_once('='));
            fields.into_iter().find(|(key, _)| *key == name).map(|(_, value)| value.to_owned())
        };
        let key = field("key").unwrap_or_default();
        let response = match field("cmd").as_deref() {
            Some("init") => "cmd=response_to_init rc=0 pmi_version=1 pmi_subversion=1".to_owned(),
            Some("get_maxes") => {
                "cmd=maxes rc=0 kvsname_max=64 keylen_max=64 vallen_max=1024".into()
            }
            Some("get_my_kvsname") => "cmd=my_kvsname rc=0 kvsname=1".to_owned(),
            Some("put") => {
                lock().values.insert(key, field("value").unwrap_or_default());
                "cmd=put_result rc=0".to_owned()
            }
            Some("get") => match lock().values.get(&key) {
                Some(value) => format!("cmd=get_result rc=0 value={value}"),
                None => "cmd=get_result rc=-1 msg=key_not_found".to_owned(),
            },
            Some("barrier_in") => {
                let mut step_now = lock();
                step_now.waiting += 1;
                let passed = step_now.passed;
                if step_now.waiting == size {
                    step_now.waiting = 0;
                    step_now.passed += 1;
                    step.1.notify_all();
                }
                let waits = |step: &mut Step| step.passed == passed;
                drop(step.1.wait_while(step_now, waits).unwrap_or_else(PoisonError::into_inner));
                "cmd=barrier_out rc=0".to_owned()
            }
            Some("finalize") => "cmd=finalize_ack rc=0".to_owned(),
            _ => return Ok(()),
        };
        writeln!(write, "{response}")?;
    }
    Ok(())
}

/// An instance of several nodes.
pub struct Nodes {
    /// The processes, by rank. Taken are those that have ended.
    processes: Vec<Process>,
    uri: String,
    dir: TempDir,
}

impl Nodes {
    /// Starts an instance with a node for each of these names, `n1` and so on.
    #[track_caller]
    pub fn start(size: u32) -> Self {
        let dir = temporary();
        let state = dir.path().join("state");
        let names: Vec<String> = (1..=size).map(|number| format!("n{number}")).collect();
        let processes = launch(&names, &["start", "-Stbon.torpid_max=5s"], |rank, command| {
            if rank == 0 {
                command.arg("--state-dir").arg(&state);
            }
        });
        let socket = state.join("local-0");
        let uri = format!("local://{}", socket.display());
        let nodes = Self { processes, uri, dir };
        until("the manager listens", || nodes.jobtap("resource list -no {nnodes}").code == 0);
        nodes
    }

    /// Runs a command against the manager; words are split at blanks.
    #[track_caller]
    pub fn jobtap(&self, words: &str) -> Output {
        self.args(&words.split_whitespace().collect::<Vec<_>>())
    }

    /// Runs a command given as separate words.
    #[track_caller]
    pub fn args(&self, words: &[&str]) -> Output {
        run(&mut self.command(words))
    }

    /// A command that connects to the manager. It runs in the directory of the test.
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = clean(jobtap());
        command.env("JOBTAP_URI", &self.uri).args(words).current_dir(self.dir.path());
        command
    }

    /// A directory for files of jobs.
    pub fn directory(&self) -> &Path {
        self.dir.path()
    }

    /// Sends a signal to the process of a node.
    #[track_caller]
    pub fn signal(&self, rank: usize, signal: &str) {
        let pid = self.pid(rank).to_string();
        run(Command::new("kill").args(["-s", signal, &pid])).ok();
    }

    /// The process of a node.
    #[track_caller]
    pub fn pid(&self, rank: usize) -> u32 {
        match self.processes.get(rank) {
            Some(process) => process.id(),
            None => panic!("no rank {rank}"),
        }
    }

    /// Kills the manager, and starts it again without the launcher.
    #[track_caller]
    pub fn restart_manager(&mut self) {
        self.signal(0, "KILL");
        let mut command = clean(jobtap());
        command.arg("start").arg("--state-dir").arg(self.dir.path().join("state"));
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let next = serve(&mut command);
        if let Some(manager) = self.processes.first_mut() {
            let _ = manager.wait();
            *manager = next;
        }
        until("the next manager listens", || self.jobtap("resource list -no {nnodes}").code == 0);
    }

    /// Ends the instance, and returns the exit codes of its processes by rank.
    #[track_caller]
    pub fn end(mut self) -> Vec<Option<i32>> {
        self.signal(0, "TERM");
        let codes = self.processes.iter_mut().map(|process| process.wait().ok()?.code());
        codes.collect()
    }
}

/// Starts a process of jobtap for each of these nodes, with these words and what `with` adds.
#[track_caller]
pub fn launch(
    names: &[String],
    words: &[&str],
    with: impl Fn(usize, &mut Command),
) -> Vec<Process> {
    let size = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let step: Arc<(Mutex<Step>, Condvar)> = Arc::default();
    let start = |(rank, name): (usize, &String)| {
        let (task, launcher) = match UnixStream::pair() {
            Ok(pair) => pair,
            Err(error) => panic!("socketpair: {error}"),
        };
        let mut command = clean(Path::new("/bin/sh"));
        command.args(["-c", WITH_PMI, "sh"]).arg(jobtap()).args(words);
        with(rank, &mut command);
        command.env("PMI_RANK", rank.to_string()).env("PMI_SIZE", size.to_string());
        command.env("SLURMD_NODENAME", name).env("SLURM_CPUS_ON_NODE", "2");
        command
            .stdin(Stdio::from(OwnedFd::from(task)))
            .stdout(Stdio::null())
            .stderr(Stdio::piped());
        let process = serve(&mut command);
        let step = Arc::clone(&step);
        std::thread::spawn(move || serve_pmi(launcher, size, &step));
        process
    };
    names.iter().enumerate().map(start).collect()
}
