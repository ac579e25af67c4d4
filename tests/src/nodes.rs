//! A launcher that starts an instance of several nodes on this host, as `srun` does in an allocation: a process for each
//! node, with a name of its own, and PMI between them.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use tempfile::TempDir;

use crate::cable::Cable;
use crate::{Output, Process, clean, jobtap, run, serve, temporary, until};

/// Puts the socket of a task, its standard input, where PMI has it. The task may run by another program.
const WITH_PMI: &str = "exec 3<&0 </dev/null; PMI_FD=3 exec $NODE_WRAPPER \"$@\"";

/// The key under which the first task hands over its address.
const ADDRESS: &str = "jobtap.address.0";

/// The store of a step, and its barrier.
#[derive(Default)]
struct Step {
    values: HashMap<String, String>,
    waiting: u32,
    passed: u64,
    /// The cables by which the nodes reach the manager, by rank.
    cables: HashMap<u32, Cable>,
}

impl Step {
    /// The address of the manager for a node: that of a cable of its own.
    fn address_for(&mut self, rank: u32) -> Option<String> {
        let manager: SocketAddr = self.values.get(ADDRESS)?.parse().ok()?;
        if !manager.ip().is_loopback() {
            // The cables of hosts with a network of their own are those of that network.
            return Some(manager.to_string());
        }
        let cable = match self.cables.get(&rank) {
            Some(cable) => cable.clone(),
            None => Cable::to(manager).ok()?,
        };
        let address = cable.address.to_string();
        self.cables.insert(rank, cable);
        Some(address)
    }
}

/// Serves PMI to one task, as far as a launcher of MPI does.
fn serve_pmi(
    stream: UnixStream,
    (rank, size): (u32, u32),
    step: &(Mutex<Step>, Condvar),
) -> std::io::Result<()> {
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
            Some("get") if key == ADDRESS => match lock().address_for(rank) {
                Some(value) => format!("cmd=get_result rc=0 value={value}"),
                None => "cmd=get_result rc=-1 msg=no_address".to_owned(),
            },
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

/// The cables between the nodes of a step and their manager.
pub struct Cables(Arc<(Mutex<Step>, Condvar)>);

/// An instance of several nodes.
pub struct Nodes {
    /// The processes, by rank.
    processes: Vec<Process>,
    cables: Cables,
    uri: String,
    dir: TempDir,
}

impl Nodes {
    /// Starts an instance of so many nodes, `n1` and so on.
    #[track_caller]
    pub fn start(size: u32) -> Self {
        Self::start_with(size, "5s", &[])
    }

    /// Starts an instance of so many nodes, which are lost when they are away for this time, with these options of its
    /// manager.
    #[track_caller]
    pub fn start_with(size: u32, grace: &str, options: &[&str]) -> Self {
        Self::start_by(size, grace, options, |_| None)
    }

    /// As [`start_with`](Self::start_with), where nodes are started by the programs that `wrapper` names for their ranks.
    #[track_caller]
    pub fn start_by(
        size: u32,
        grace: &str,
        options: &[&str],
        wrapper: impl Fn(u32) -> Option<PathBuf>,
    ) -> Self {
        let dir = temporary();
        let state = dir.path().join("state");
        let names: Vec<String> = (1..=size).map(|number| format!("n{number}")).collect();
        let grace = format!("-Stbon.torpid_max={grace}");
        let (processes, cables) = launch(&names, &["start", &grace], |rank, command| {
            // So that what is left of the instance is known by it.
            command.env("TMPDIR", dir.path());
            command.envs(wrapper(rank).map(|program| ("NODE_WRAPPER", program)));
            if rank == 0 {
                command.arg("--state-dir").arg(&state).args(options);
            }
        });
        let socket = state.join("local-0");
        let uri = format!("local://{}", socket.display());
        let nodes = Self { processes, cables, uri, dir };
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
    pub fn signal(&self, rank: u32, signal: &str) {
        let pid = self.pid(rank).to_string();
        run(Command::new("kill").args(["-s", signal, &pid])).ok();
    }

    /// The cable between a node and the manager.
    #[track_caller]
    pub fn cable(&self, rank: u32) -> Cable {
        let step = self.cables.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        match step.cables.get(&rank) {
            Some(cable) => cable.clone(),
            None => panic!("rank {rank} has no cable"),
        }
    }

    /// The process of a node.
    #[track_caller]
    pub fn pid(&self, rank: u32) -> u32 {
        match self.processes.get(rank as usize) {
            Some(process) => process.id(),
            None => panic!("no rank {rank}"),
        }
    }

    /// Kills the manager, and starts it again without the launcher.
    #[track_caller]
    pub fn restart_manager(&mut self) {
        self.kill(0);
        let mut command = clean(jobtap());
        command.arg("start").arg("--state-dir").arg(self.dir.path().join("state"));
        command.env("TMPDIR", self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        if let Some(manager) = self.processes.first_mut() {
            *manager = serve(&mut command);
        }
        until("the next manager listens", || self.jobtap("resource list -no {nnodes}").code == 0);
    }

    /// Kills the process of a node, unless it has ended, and waits for its end.
    pub fn kill(&mut self, rank: u32) {
        if let Some(process) = self.processes.get_mut(rank as usize) {
            let _ = process.kill();
            let _ = process.wait();
        }
    }

    /// Ends the instance, and returns the exit codes of its processes by rank.
    #[track_caller]
    pub fn end(mut self) -> Vec<Option<i32>> {
        self.signal(0, "TERM");
        (0..).take(self.processes.len()).map(|rank| self.wait(rank)).collect()
    }

    /// Waits for the end of the process of a node, and returns its exit code.
    #[track_caller]
    pub fn wait(&mut self, rank: u32) -> Option<i32> {
        self.processes.get_mut(rank as usize)?.wait().ok()?.code()
    }
}

/// Starts a process of jobtap for each of these nodes, with these words and what `with` adds.
#[track_caller]
pub fn launch(
    names: &[String],
    words: &[&str],
    with: impl Fn(u32, &mut Command),
) -> (Vec<Process>, Cables) {
    let size = u32::try_from(names.len()).unwrap_or(u32::MAX);
    let step: Arc<(Mutex<Step>, Condvar)> = Arc::default();
    let start = |(rank, name): (u32, &String)| {
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
        std::thread::spawn(move || serve_pmi(launcher, (rank, size), &step));
        process
    };
    let processes = (0..).zip(names).map(start).collect();
    (processes, Cables(step))
}
