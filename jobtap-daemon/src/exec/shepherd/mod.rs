//! The shepherd: the process that starts a manager's jobs, reaps them and outlives the manager.
//!
//! One shepherd holds all jobs of a manager. It is a child subreaper with a session of its own, so
//! neither the end of the manager nor the hangup of a terminal reaches the jobs, and processes that a job
//! leaves behind become children of the shepherd. Statuses are retained until the manager acknowledges
//! them.
//!
//! One shepherd for all jobs was chosen by measurement (`exec/tests/sharing.rs`, the table is in the guide's chapter on
//! nodes): a shepherd for each job launches a tenth of the jobs per second and takes 9 MiB a job; a shepherd for every
//! 32 jobs launches as many as one for all but takes 16 times its memory. What kills one shepherd usually kills the
//! others too, so more shepherds would save few jobs.
//!
//! [`ending`] describes when the shepherd exits, and how it ends the processes that jobs left behind.
//!
//! All state belongs to one loop, [`Shepherd::run`], which handles one [`Message`] after the other. A job of many tasks
//! is started in slices, between which the loop handles other messages.
//!
//! The [`forker`] starts the processes of tasks and is their parent, so that no job knows the shepherd by its `$PPID`.
//! If the forker dies the shepherd, as the subreaper, becomes the parent of its children; if the shepherd dies the
//! forker takes its place ([`succession`]).

mod affinity;
mod ahead;
mod claims;
mod connection;
mod deserted;
mod devices;
mod ending;
mod exchange;
mod files;
mod forker;
mod gpus;
mod held_output;
mod helpers;
mod host_name;
mod ignored_signals;
mod job;
mod job_user;
mod launch;
mod manager_process;
mod message;
mod nonce;
mod not_forked;
mod option_error;
mod option_shapes;
mod output_stream;
mod pids;
mod placement;
mod played;
pub(crate) mod pmi;
mod processes;
mod rlimits;
mod spawn;
mod start_error;
mod state;
mod streams;
mod succession;
mod system_error;
mod template;
mod unacknowledged;

use std::ffi::OsString;
use std::fs::File;
use std::future::ready;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixListener as StdUnixListener;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::Duration;

use jobtap_core::job::JobId;
use rustix::process::{Pid, getppid};
use rustix::stdio::dup2_stdin;
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

pub use self::ahead::Ahead;
use self::ending::MANAGER_PATROL;
use self::forker::process::End;
use self::forker::{ForkedJobs, Forker};
use self::ignored_signals::catch_ignored;
use self::job::Job;
use self::manager_process::ManagerProcess;
use self::message::Message;
use self::pids::token;
pub use self::played::PlayedJob;
use self::state::{Manager, Shepherd};
pub(super) use self::streams::input::{entry as input_entry, header as input_header};
pub(super) use self::streams::options::limits_others;
pub(crate) use self::streams::options::{MOST_FILES_PER_TASK, files_per_task};
pub(super) use self::streams::taskio::empties_shared_file;
use super::protocol::{ShepherdMessage, ShepherdRequest, VERSION};
use super::{HeldJob, JobCommand, TaskProcess, signals};
use crate::open_files::OpenFiles;
use crate::stderr;

/// The shortest interval between two checks that the state directory still exists.
const MIN_PATROL: Duration = Duration::from_secs(1);

/// The number of arguments of a shepherd. Its forker has one more, the shepherd's nonce.
const ARGUMENTS: usize = 4;

/// The maximum number of messages that are handled before processes are reaped and started again.
const MOST_TOGETHER: usize = 64;

/// Runs the shepherd until it exits; the module `ending` says when it does so.
///
/// `arguments` follow [`SHEPHERD_ARGUMENT`](super::SHEPHERD_ARGUMENT): the state directory, the idle time in
/// milliseconds, the tasks' limit of open files (-1 for no limit), and the process id of the manager of a temporary
/// instance (0 if the state is durable). Standard input is the listening socket, standard error the log. With a fifth
/// argument, the nonce of its shepherd, the process is the forker of a shepherd: standard input is then the socket to
/// the shepherd.
pub fn shepherd_main(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    match start(arguments.into_iter()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            stderr::line(&format!("shepherd: {error}"));
            stderr::flush();
            ExitCode::FAILURE
        }
    }
}

fn start(mut arguments: impl Iterator<Item = OsString>) -> io::Result<()> {
    let usage = || {
        let text = "usage: STATEDIR IDLE-MILLISECONDS OPEN-FILES MANAGER";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    };
    let state_dir = PathBuf::from(arguments.next().ok_or_else(usage)?);
    let idle = arguments.next().and_then(|text| text.to_str()?.parse().ok()).ok_or_else(usage)?;
    let files = arguments.next().and_then(|text| text.to_str()?.parse().ok()).ok_or_else(usage)?;
    let manager =
        arguments.next().and_then(|text| text.to_str()?.parse().ok()).ok_or_else(usage)?;
    let own = rustix::process::getpid();
    let open_files = OpenFiles::in_place_of_the_manager(files);
    let manager = Pid::from_raw(manager);
    let mut manager_process = manager.map(ManagerProcess::open).transpose()?;
    let (listener, nonce, forked) = match arguments.next() {
        None => {
            // Fails only for the leader of a process group: such a process has its own session, or was started by hand.
            let _ = rustix::process::setsid();
            // The manager has started the shepherd. Another parent means that the manager has ended, and its id may
            // belong to another process.
            if manager.is_some() && getppid() != manager {
                manager_process = Some(ManagerProcess::Gone);
            }
            let listener = io::stdin().as_fd().try_clone_to_owned()?;
            (listener, nonce::for_state_dir(&state_dir)?, None)
        }
        Some(nonce) => {
            let nonce = nonce.into_string().map_err(|_| usage())?;
            match forker::process::serve(take_standard_input()?.into())? {
                End::Dismissed => return Ok(()),
                End::Orphaned(forked, listener) => (listener, nonce, Some(forked)),
            }
        }
    };
    rustix::process::set_child_subreaper(Some(own))?;
    let forker =
        Forker::new(forker_command(&nonce), token::of_forker(&nonce), listener.try_clone()?);
    let listener = StdUnixListener::from(listener);
    listener.set_nonblocking(true)?;
    let (inbox, messages) = unbounded_channel();
    let mut shepherd = Shepherd::new(state_dir, nonce, open_files, forker, inbox)?;
    shepherd.manager_process = manager_process;
    shepherd.jobs =
        unacknowledged::read(&shepherd.state_dir).into_iter().map(|job| (job.id, job)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    // As a task of its own: to wake the future that blocks the thread takes a system call each time, to wake a task of the
    // same thread none.
    let idle = Duration::from_millis(idle);
    let running = async { tokio::spawn(shepherd.run(forked, listener, messages, idle)).await };
    runtime.block_on(running).map_err(io::Error::other)?
}

/// The command of this process with the argument that makes it a forker.
fn forker_command(nonce: &str) -> Vec<OsString> {
    let own: Vec<OsString> = std::env::args_os().collect();
    let named = own.iter().position(|word| word == super::SHEPHERD_ARGUMENT);
    let words = named.map_or(own.len(), |at| at + 1 + ARGUMENTS);
    own.into_iter().take(words).chain([nonce.into()]).collect()
}

/// Takes the file that is standard input, and leaves `/dev/null` in its place.
fn take_standard_input() -> io::Result<OwnedFd> {
    let taken = io::stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    Ok(taken)
}

impl Shepherd {
    async fn run(
        mut self,
        forked: Option<ForkedJobs>,
        listener: StdUnixListener,
        mut messages: UnboundedReceiver<Message>,
        idle_time: Duration,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(listener)?;
        let mut children = signal(SignalKind::child())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let _caught = catch_ignored()?;
        self.start_forker();
        if let Some(forked) = forked {
            self.take_over(forked);
        }
        self.kill_lost();
        self.job_dirs.sweep(&self.jobs.values().filter_map(Job::dir_name).collect::<Vec<_>>());
        self.reap();
        let mut together = Vec::new();
        let mut connections = 0;
        let mut idle_since = Instant::now();
        let mut patrol = tokio::time::interval(idle_time.max(MIN_PATROL));
        let mut manager_patrol = tokio::time::interval(MANAGER_PATROL);
        manager_patrol.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            // Of the jobs that were requested together, or that come after those that have ended together.
            self.send_claims();
            if !self.is_idle() {
                idle_since = Instant::now();
            }
            if self.is_done() {
                break;
            }
            tokio::select! {
                1.. = messages.recv_many(&mut together, MOST_TOGETHER) => {
                    together.drain(..).for_each(|message| self.handle(message));
                }
                _ = children.recv() => self.reap(),
                () = self.forker.ready() => self.take_forker_reports(),
                _ = terminate.recv() => self.end(),
                Ok((stream, _)) = listener.accept() => {
                    connections += 1;
                    let unhurried = self.ahead.any();
                    connection::serve(stream, connections, self.inbox.clone(), unhurried);
                }
                () = ready(()), if !self.starting.is_empty() => {
                    self.next_slice();
                    // Streams of other jobs are copied by asynchronous tasks of the same thread.
                    tokio::task::yield_now().await;
                }
                () = at(self.sweep_at) => self.sweep(),
                () = at(self.end_of_holding()) => self.write_held_output(),
                () = sleep_until(idle_since + idle_time), if self.is_idle() => break,
                _ = patrol.tick() => if self.has_lost_its_state() { break },
                _ = manager_patrol.tick(), if self.must_check_manager_process() => {
                    if self.is_manager_gone() {
                        self.end();
                    }
                }
                // `is_done`, at the top of the loop, evaluates the deadline.
                () = at(self.ending.deadline) => {}
            }
        }
        self.clean_up(&mut children).await;
        Ok(())
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Hello { number, outbox } => self.greet(number, outbox),
            Message::Request { number, request } => {
                // Only the newest manager's requests count; an older one may not know yet that it was
                // replaced.
                if self.manager.as_ref().is_some_and(|manager| manager.number == number) {
                    self.request(request);
                }
            }
            Message::Closed { number } => {
                if self.manager.as_ref().is_some_and(|manager| manager.number == number) {
                    self.detach_manager();
                }
            }
            Message::Claimed(claimed) => self.claimed(claimed),
            Message::FifosOpened { id, result } => self.fifos_opened(id, result),
            Message::Executed { id, pid, result } => self.executed(id, pid, result),
            Message::StreamEnded { id } => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.streams.one_ended();
                }
                self.end_if_done(id);
            }
            Message::OutputLost { id, note } => {
                if let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.has_ended()) {
                    job.journal.inform(note);
                }
            }
            Message::KillRound { id } => self.kill_round(id),
            Message::ExitTimeout { id } => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.exit_timed_out();
                }
            }
            Message::InputEnded { id, rank } => {
                if let Some(pid) = self.jobs.get(&id).and_then(|job| job.tasks.process(rank)) {
                    self.forker.close_input(pid);
                }
            }
            Message::Exchange { id, round, values } => self.ask_for_exchange(id, round, values),
            Message::Aborted { id, why } => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.aborted(&why);
                }
            }
            Message::GiveUp { id } => self.give_up(id),
        }
    }

    fn greet(&mut self, number: u64, outbox: UnboundedSender<ShepherdMessage>) {
        self.detach_manager();
        let pid = std::process::id();
        let _ = outbox.send(ShepherdMessage::Hello { version: VERSION, pid });
        self.manager = Some(Manager { number, outbox });
    }

    fn detach_manager(&mut self) {
        self.manager = None;
        self.forget_ahead();
        self.jobs.values_mut().for_each(|job| job.journal.detach());
    }

    /// Asks the manager for the values of a job's other nodes.
    fn ask_for_exchange(&mut self, id: JobId, round: u32, values: Vec<(String, String)>) {
        let outbox = self.outbox();
        let exchange = self.jobs.get_mut(&id).and_then(|job| job.exchange.as_mut());
        let Some(exchange) = exchange else { return };
        let asked = exchange.begin(id, round, values);
        if let Some(outbox) = outbox {
            let _ = outbox.send(asked);
        }
    }

    fn send_tasks(&self, id: JobId) {
        let running = self.jobs.get(&id).into_iter().flat_map(|job| job.tasks.running());
        let process = |(pid, rank): (Pid, u32)| TaskProcess { rank, pid: pid.as_raw_pid() };
        let mut tasks: Vec<TaskProcess> = running.map(process).collect();
        tasks.sort_by_key(|task| task.rank);
        if let Some(outbox) = self.outbox() {
            let _ = outbox.send(ShepherdMessage::Tasks { id, tasks });
        }
    }

    fn request(&mut self, request: ShepherdRequest) {
        match request {
            // Handled by the connection.
            ShepherdRequest::Hello { .. } => {}
            ShepherdRequest::Start(job) => {
                if let Some(known) = self.jobs.get_mut(&job.id) {
                    known.kill = job.kill;
                } else if let Some(before) = job.after {
                    return self.start_after(before, job);
                }
                self.start_or_attach(*job);
            }
            ShepherdRequest::Resume { jobs } => {
                self.resume(&jobs);
            }
            ShepherdRequest::Job(command) => self.command(command),
            ShepherdRequest::List => {
                let held =
                    |job: &Job| HeldJob { id: job.id, ended: job.has_ended(), after: job.after };
                let claimed = self.claims.earlier().filter(|id| !self.jobs.contains_key(id));
                let lost = claimed.map(|id| HeldJob::new(id, true));
                let jobs = self.jobs.values().map(held).chain(lost).collect();
                if let Some(outbox) = self.outbox() {
                    let _ = outbox.send(ShepherdMessage::List { jobs });
                }
            }
            ShepherdRequest::Shutdown => {
                self.shutdown = true;
                // No other manager will connect for the jobs of a temporary instance.
                if self.manager_process.is_some() {
                    self.end();
                }
            }
        }
    }

    fn command(&mut self, command: JobCommand) {
        match command {
            JobCommand::Signal { id, signal, reach } => match signals::to_processes(signal) {
                Some(signal) => self.signal_when_launched(id, signal, reach),
                None => {
                    let number = signal.number();
                    stderr::line(&format!("shepherd: job {id}: signal {number} can't be sent"));
                }
            },
            JobCommand::Cancel { id, signal, kill } => self.cancel(id, signal, kill),
            JobCommand::Stdin { id, rank, data, eof } => self.add_input(id, rank, &data, eof),
            JobCommand::Resize { id, rows, columns } => {
                if let Some(job) = self.jobs.get(&id) {
                    job.streams.resize(rows, columns);
                }
            }
            JobCommand::Tasks { id } => self.send_tasks(id),
            JobCommand::Exchanged { id, round, values } => {
                if let Some(exchange) = self.jobs.get_mut(&id).and_then(|job| job.exchange.as_mut())
                {
                    exchange.end(round, values);
                }
            }
            JobCommand::FirstExit { id, rank, status, host } => {
                let status = ExitStatus::from_raw(status);
                let job = self.jobs.get_mut(&id);
                let timeout = job.and_then(|job| job.exited_elsewhere(rank, status, host));
                self.time_others(id, timeout);
            }
            JobCommand::Recall { id } => self.recall(id),
            JobCommand::Ack { id } => match self.jobs.get_mut(&id) {
                Some(job) => {
                    job.acknowledged = true;
                    self.remove_if_acknowledged(id);
                }
                None => self.claims.forget(id),
            },
        }
    }
}

/// Waits until `moment`, or forever if it is `None`.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
