//! The processes that plugins run, such as a prolog's script.
//!
//! Each has a process group of its own, and all signals go to the whole group. They end with their
//! plugin and with the manager's regular end. When the manager is killed they run on and nobody waits
//! for them: a plugin whose handler says `on_restart = "rerun"` may meet what it started before.
//!
//! The end of a process is the end of the program that was started. What it leaves behind in the
//! background is neither waited for nor ended.
//!
//! Only as many run at once as the limit of open files has room for; the others wait for their turn.

use std::collections::HashMap;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jobtap_core::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{Process, ProcessEnd, ProcessError, Stream};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::capture::{Capture, Lines};
use super::process_queue::{ProcessQueue, Slots};
use crate::limited;
use crate::open_files::OpenFiles;
use crate::rpc::errno::strerror;
use crate::rpc::uri;

/// What a process has to end by itself when the manager ends.
const GRACE: Duration = Duration::from_secs(2);

/// Signals that end no process; any other one ends what has not begun yet.
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

/// Runs them; clones are the same.
#[derive(Clone)]
pub(super) struct Processes {
    commands: UnboundedSender<(PluginKey, ProcessCommand)>,
    shared: Arc<Shared>,
}

struct Shared {
    /// The manager's address, for those that are started.
    uri: String,
    /// The limit of open files that they are to have, if it isn't the manager's.
    files: Option<i64>,
    table: Mutex<Table>,
    ended: Condvar,
}

#[derive(Default)]
struct Table {
    /// A process is here exactly as long as its id is its own: it is reaped under the lock.
    running: HashMap<ProcessKey, Running>,
    waiting: ProcessQueue<Waiting>,
    /// The manager ends: nothing is started any more.
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
    /// `None` once nobody waits for the end.
    answer: Option<ProcessAnswer>,
}

impl Processes {
    /// Serves commands on this runtime. `uri` is where the processes find the manager.
    pub(super) fn start(runtime: &tokio::runtime::Handle, uri: &str) -> Self {
        Self::start_under(OpenFiles::of_this_process().to_lower(), runtime, uri)
    }

    fn start_under(files: Option<i64>, runtime: &tokio::runtime::Handle, uri: &str) -> Self {
        let (commands, inbox) = unbounded_channel();
        let (table, ended) = Default::default();
        let shared = Arc::new(Shared { uri: uri.to_owned(), files, table, ended });
        runtime.spawn(serve(inbox, Arc::clone(&shared)));
        Self { commands, shared }
    }

    /// Hands over a command; they are followed in order.
    pub(super) fn send(&self, plugin: PluginKey, command: ProcessCommand) {
        let _ = self.commands.send((plugin, command));
    }

    /// Ends all processes: they are asked to, and killed if they still run a little later.
    pub(super) fn close(&self) {
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
        drop(unstarted);
    }
}

async fn serve(mut inbox: UnboundedReceiver<(PluginKey, ProcessCommand)>, shared: Arc<Shared>) {
    while let Some((plugin, command)) = inbox.recv().await {
        match command {
            ProcessCommand::Run { key, process, lines, answer } => {
                if shared.wait_for_turn((plugin, key), Waiting { process, lines, answer }) {
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

    /// False when nothing is started any more: who waits for this one learns it from the dropped answer.
    fn wait_for_turn(&self, (plugin, key): (PluginKey, ProcessKey), process: Waiting) -> bool {
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
        // Wakes those who wait, who may send commands of their own.
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
        // All of the group may have ended and wait to be reaped: no harm in that.
        let _ = kill_process_group(self.group, signal);
    }
}

/// Starts what waits, as far as there is room.
fn start_waiting(shared: &Arc<Shared>) {
    let room = OpenFiles::of_this_process().processes();
    let mut table = shared.lock();
    while !table.closed {
        let slots = Slots::new(room, table.running.values().map(|running| running.plugin));
        let Some((plugin, key, next)) = table.waiting.next(&slots) else { return };
        run(table, shared, (plugin, key), next);
        table = shared.lock();
    }
}

/// Starts a process, and a task that waits for its end.
fn run(
    mut table: MutexGuard<'_, Table>,
    shared: &Arc<Shared>,
    (plugin, key): (PluginKey, ProcessKey),
    waiting: Waiting,
) {
    let Waiting { process, lines, mut answer } = waiting;
    match Started::new(&process, shared, lines) {
        Ok((started, group)) => {
            // It only sends, as all that waits for processes does: it takes no lock that waits for this one.
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
        let mut command = match shared.files {
            Some(limit) => Command::from(limited::command(process, limit)?),
            None => Command::new(&process.program),
        };
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

/// Waits for the end of a process and tells it.
async fn attend(shared: Arc<Shared>, key: ProcessKey, mut started: Started, process: Process) {
    let Process { program, stdin, .. } = process;
    let ended = {
        let Started { child, stdin: pipe, stdout, stderr } = &mut started;
        let streams = async {
            tokio::join!(feed(pipe.take(), &stdin), stdout.read(), stderr.read());
            // That the streams have ended says nothing of the process.
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

/// Waits until the process has ended. It is reaped and taken off the table at one stroke: in between
/// its id could be given to another process, which a signal would hit.
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

/// Gives a process its input. One that doesn't want all of it is free not to read on.
async fn feed(pipe: Option<ChildStdin>, bytes: &[u8]) {
    if let Some(mut pipe) = pipe {
        let _ = pipe.write_all(bytes).await;
    }
}

/// Why it did not start. The system doesn't say which of the two it misses.
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

    /// What becomes of a process that is asked for.
    fn ask(processes: &Processes, process: Process) -> impl Future<Output = ProcessResult> {
        let (answer, end) = ProcessAnswer::pair();
        let run = ProcessCommand::Run { key: ProcessKey(1), process, lines: None, answer };
        processes.send(PluginKey(1), run);
        end
    }

    #[test]
    fn who_asks_after_the_end_learns_that_nothing_is_started_any_more() {
        let runtime = Builder::new_current_thread().enable_all().build().unwrap();
        let processes = Processes::start_under(None, runtime.handle(), "local:///nowhere");
        let ran = runtime.block_on(ask(&processes, Process::new("true")));
        assert_eq!(ran.unwrap().success(), Ok(()));
        processes.close();
        let late = runtime.block_on(ask(&processes, Process::new("true")));
        assert!(matches!(late, Err(ProcessError::Gone(_))), "{late:?}");
    }
}
