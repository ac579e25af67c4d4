//! The processes that plugins run, such as a prolog's script.
//!
//! Each has a process group of its own, and all signals go to the whole group. They are ended when their plugin is
//! removed and when the manager ends normally. When the manager is killed they continue to run and no manager waits for
//! them: a plugin whose handler says `on_restart = "rerun"` may meet a process that it started before.
//!
//! A process ends when the program that was started exits. Processes that it leaves in the background are
//! neither waited for nor ended.
//!
//! The number of processes that run at once is limited by the limit of open files; others wait in
//! `queue`.

mod capture;
mod queue;

use std::collections::HashMap;
use std::ffi::OsString;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use jobtap_core::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{Process, ProcessEnd, ProcessError, Stream};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use self::capture::{Capture, Lines};
use self::queue::{ProcessQueue, Slots};
use crate::limited;
use crate::open_files::OpenFiles;
use crate::rpc::errno::strerror;
use crate::rpc::uri;

/// How long a process has to exit when the manager ends, before it is killed.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that do not end a process. Any other signal also removes a process that waits to be started.
const PASSING: [Signal; 8] = [
    Signal::CHILD,
    Signal::CONT,
    Signal::STOP,
    Signal::TSTP,
    Signal::TTIN,
    Signal::TTOU,
    Signal::URG,
    Signal::WINCH,
];

/// Whether this signal also removes a process that waits to be started.
pub(crate) fn ends_processes(signum: i32) -> bool {
    PASSING.iter().all(|passing| passing.as_raw() != signum)
}

/// Runs processes. Clones share them.
#[derive(Clone)]
pub(crate) struct Processes {
    commands: UnboundedSender<(PluginKey, ProcessCommand)>,
    shared: Arc<Shared>,
}

struct Shared {
    /// The manager's address, for the environment of the processes.
    uri: String,
    /// The limit of open files of the processes, if it differs from the manager's.
    files: Option<i64>,
    /// Where the commands about processes on other nodes go, if this is the manager of several.
    others: OnceLock<OtherNodes>,
    table: Mutex<Table>,
    ended: Condvar,
}

/// Takes commands about processes on other nodes.
type OtherNodes = Box<dyn Fn(PluginKey, ProcessCommand) + Send + Sync>;

#[derive(Default)]
struct Table {
    /// The processes that run. A process is reaped under this lock, so the id of one that is found here
    /// cannot belong to another process.
    running: HashMap<ProcessKey, Running>,
    waiting: ProcessQueue<Waiting>,
    /// The manager ends: no process is started any more.
    closed: bool,
}

struct Waiting {
    process: Process,
    lines: Option<LineSink>,
    answer: ProcessAnswer,
}

struct Running {
    plugin: PluginKey,
    group: Pid,
    /// `None` once the end has been reported.
    answer: Option<ProcessAnswer>,
}

impl Processes {
    /// Carries out commands on this runtime. `uri` is the manager's address.
    pub(crate) fn start(runtime: &tokio::runtime::Handle, uri: &str) -> Self {
        Self::start_under(OpenFiles::of_this_process().to_lower(), runtime, uri)
    }

    fn start_under(files: Option<i64>, runtime: &tokio::runtime::Handle, uri: &str) -> Self {
        let (commands, inbox) = unbounded_channel();
        let (others, table, ended) = Default::default();
        let shared = Arc::new(Shared { uri: uri.to_owned(), files, others, table, ended });
        runtime.spawn(serve(inbox, Arc::clone(&shared)));
        Self { commands, shared }
    }

    /// Passes on the commands about processes on other nodes from now on.
    pub(crate) fn pass_on(
        &self,
        others: impl Fn(PluginKey, ProcessCommand) + Send + Sync + 'static,
    ) {
        // A manager has its nodes from its start on.
        let _ = self.shared.others.set(Box::new(others));
    }

    /// Sends a command. Commands are carried out in order.
    pub(crate) fn send(&self, plugin: PluginKey, command: ProcessCommand) {
        if let Some(others) = self.shared.others.get() {
            match &command {
                // The manager's own node has rank 0.
                ProcessCommand::Run { process, .. }
                    if process.rank.is_some_and(|rank| rank != 0) =>
                {
                    return others(plugin, command);
                }
                ProcessCommand::Run { .. } => {}
                // Who doesn't know the process ignores it.
                ProcessCommand::Signal { key, signum } => {
                    others(plugin, ProcessCommand::Signal { key: *key, signum: *signum });
                }
                ProcessCommand::KillAll => others(plugin, ProcessCommand::KillAll),
            }
        }
        let _ = self.commands.send((plugin, command));
    }

    /// Ends all processes: sends SIGTERM, and SIGKILL to those that still run after a short time.
    pub(crate) fn close(&self) {
        let mut table = self.shared.lock();
        table.closed = true;
        let unstarted = std::mem::take(&mut table.waiting);
        table.signal_all(Signal::TERM);
        let waited = self
            .shared
            .ended
            .wait_timeout_while(table, GRACE, |table| !table.running.is_empty())
            .unwrap_or_else(PoisonError::into_inner);
        waited.0.signal_all(Signal::KILL);
        drop(waited);
        // Outside of the lock: this wakes plugins, which may send commands.
        drop(unstarted);
    }
}

async fn serve(mut inbox: UnboundedReceiver<(PluginKey, ProcessCommand)>, shared: Arc<Shared>) {
    while let Some((plugin, command)) = inbox.recv().await {
        match command {
            ProcessCommand::Run { key, process, lines, answer } => {
                if shared.wait_for_turn(plugin, key, Waiting { process, lines, answer }) {
                    start_waiting(&shared);
                }
            }
            ProcessCommand::Signal { key, signum } => shared.signal(key, signum),
            ProcessCommand::KillAll => shared.kill_all(plugin),
        }
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a process. Returns false when no process is started any more; then the dropped sender tells the plugin.
    fn wait_for_turn(&self, plugin: PluginKey, key: ProcessKey, process: Waiting) -> bool {
        let mut table = self.lock();
        let open = !table.closed;
        if open {
            table.waiting.push(plugin, key, process);
        }
        open
    }

    fn signal(&self, key: ProcessKey, signum: i32) {
        let Some(signal) = Signal::from_named_raw(signum) else { return };
        let mut table = self.lock();
        if let Some(running) = table.running.get(&key) {
            running.signal(signal);
        } else if !PASSING.contains(&signal)
            && let Some(waiting) = table.waiting.take(key)
        {
            drop(table);
            let status = WaitStatus::from_signal(signum);
            let (stdout, stderr) = Default::default();
            waiting.answer.send(Ok(ProcessEnd { status, stdout, stderr }));
        }
    }

    fn kill_all(&self, plugin: PluginKey) {
        let mut table = self.lock();
        let theirs = table.running.values_mut().filter(|running| running.plugin == plugin);
        let unanswered: Vec<_> = theirs
            .map(|running| {
                running.signal(Signal::KILL);
                running.answer.take()
            })
            .collect();
        let unstarted = table.waiting.take_all(plugin);
        drop(table);
        // Outside of the lock: this wakes plugins, which may send commands.
        drop((unanswered, unstarted));
    }
}

impl Table {
    fn signal_all(&self, signal: Signal) {
        self.running.values().for_each(|running| running.signal(signal));
    }
}

impl Running {
    fn signal(&self, signal: Signal) {
        // Fails when all processes of the group have exited and wait to be reaped, which is harmless.
        let _ = kill_process_group(self.group, signal);
    }
}

/// Starts processes that wait, as far as there is room.
fn start_waiting(shared: &Arc<Shared>) {
    let room = OpenFiles::of_this_process().processes();
    let mut table = shared.lock();
    while !table.closed {
        let slots = Slots::new(room, table.running.values().map(|running| running.plugin));
        let Some((plugin, key, next)) = table.waiting.next(&slots) else { return };
        run(table, shared, plugin, key, next);
        table = shared.lock();
    }
}

/// Starts a process, and a task that waits for its end.
fn run(
    mut table: MutexGuard<'_, Table>,
    shared: &Arc<Shared>,
    plugin: PluginKey,
    key: ProcessKey,
    waiting: Waiting,
) {
    let Waiting { process, lines, mut answer } = waiting;
    match Started::new(&process, shared, lines) {
        Ok((started, group)) => {
            // Called under the lock. It only sends, and takes no lock itself.
            answer.started();
            table.running.insert(key, Running { plugin, group, answer: Some(answer) });
            drop(table);
            tokio::spawn(attend(Arc::clone(shared), key, started, process));
        }
        Err(error) => {
            drop(table);
            let (reason, kind) = (reason(&process, &error), error.kind());
            answer.send(Err(ProcessError::Start { program: process.program, reason, kind }));
        }
    }
}

/// A process with the ends of its pipes.
struct Started {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Capture,
    stderr: Capture,
}

impl Started {
    fn new(process: &Process, shared: &Shared, lines: Option<LineSink>) -> io::Result<(Self, Pid)> {
        let spawned = Self::spawn(process, shared, lines)?;
        let pid = spawned.child.id().and_then(|pid| i32::try_from(pid).ok());
        let no_id = || io::Error::other("it has no process id");
        let group = pid.and_then(Pid::from_raw).ok_or_else(no_id)?;
        Ok((spawned, group))
    }

    fn spawn(process: &Process, shared: &Shared, lines: Option<LineSink>) -> io::Result<Self> {
        let (stdout, out) =
            Capture::pipe(lines.clone().map(|sink| Lines::new(sink, Stream::Stdout)))?;
        let (stderr, err) = Capture::pipe(lines.map(|sink| Lines::new(sink, Stream::Stderr)))?;
        let path = process.env.get("PATH").map(OsString::from);
        let path = path.or_else(|| std::env::var_os("PATH"));
        let program = limited::Program {
            name: process.program.as_ref(),
            directory: process.cwd.as_deref(),
            path: path.as_deref(),
        };
        let mut command = Command::from(limited::command(&program, shared.files)?);
        command.env(uri::VARIABLE, &shared.uri).env(uri::FLUX_VARIABLE, &shared.uri);
        command.args(&process.args).envs(&process.env).stdout(out).stderr(err).process_group(0);
        if let Some(directory) = &process.cwd {
            command.current_dir(directory);
        }
        command.stdin(if process.stdin.is_empty() { Stdio::null() } else { Stdio::piped() });
        let mut child = command.spawn()?;
        let stdin = child.stdin.take();
        Ok(Self { child, stdin, stdout, stderr })
    }
}

/// Waits for the end of a process and reports it.
async fn attend(shared: Arc<Shared>, key: ProcessKey, mut started: Started, process: Process) {
    let Process { program, stdin, .. } = process;
    let ended = {
        let Started { child, stdin: pipe, stdout, stderr } = &mut started;
        let streams = async {
            tokio::join!(feed(pipe.take(), &stdin), stdout.read(), stderr.read());
            // The streams may end before the process does.
            std::future::pending().await
        };
        tokio::select! {
            ended = end(&shared, key, child) => ended,
            never = streams => never,
        }
    };
    let (status, running) = ended;
    start_waiting(&shared);
    let Some(answer) = running.and_then(|running| running.answer) else {
        return;
    };
    let error = |error: io::Error| ProcessError::Start {
        program,
        reason: format!("its end can't be waited for: {}", system_text(&error)),
        kind: error.kind(),
    };
    answer.send(status.map_err(error).map(|status| ProcessEnd {
        status: WaitStatus(status.into_raw()),
        stdout: started.stdout.finish(),
        stderr: started.stderr.finish(),
    }));
}

/// Waits until the process has ended. It is reaped and removed from the table under one lock: in between,
/// its id could be given to another process, which would then get its signals.
async fn end(
    shared: &Shared,
    key: ProcessKey,
    child: &mut Child,
) -> (io::Result<ExitStatus>, Option<Running>) {
    let mut wait = std::pin::pin!(child.wait());
    std::future::poll_fn(|cx| {
        let mut table = shared.lock();
        wait.as_mut().poll(cx).map(|status| {
            let running = table.running.remove(&key);
            shared.ended.notify_all();
            (status, running)
        })
    })
    .await
}

/// Writes the input of a process. A process that closes it without reading all is no error.
async fn feed(pipe: Option<ChildStdin>, bytes: &[u8]) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(bytes).await;
    }
}

/// Returns why a process was not started. The system doesn't say whether the program or the directory is missing.
fn reason(process: &Process, error: &io::Error) -> String {
    match &process.cwd {
        Some(directory) if !directory.is_dir() => {
            format!("its directory {}: {}", directory.display(), system_text(error))
        }
        _ => system_text(error),
    }
}

fn system_text(error: &io::Error) -> String {
    error.raw_os_error().map_or_else(|| error.to_string(), |errno| strerror(errno).into_owned())
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ProcessResult;
    use tokio::runtime::Builder;

    use super::*;

    /// Starts a process, and returns its result.
    fn ask(processes: &Processes, process: Process) -> impl Future<Output = ProcessResult> {
        let (answer, end) = ProcessAnswer::pair();
        let run = ProcessCommand::Run { key: ProcessKey(1), process, lines: None, answer };
        processes.send(PluginKey(1), run);
        end
    }

    #[test]
    fn no_process_is_started_after_the_end() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let processes = Processes::start_under(None, runtime.handle(), "local:///nowhere");
        let ran = runtime.block_on(ask(&processes, Process::new("true")));
        assert_eq!(ran.unwrap().success(), Ok(()));
        processes.close();
        let late = runtime.block_on(ask(&processes, Process::new("true")));
        assert!(matches!(late, Err(ProcessError::Gone(_))), "{late:?}");
    }
}
