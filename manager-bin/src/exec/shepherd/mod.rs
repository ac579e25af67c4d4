//! The shepherd: the process that starts a manager's jobs, reaps them and outlives the manager.
//!
//! One shepherd holds all jobs of a manager. It is a child subreaper with a session of its own, so
//! neither the end of the manager nor that of a terminal reaches the jobs, and what a job leaves
//! behind comes to it. Statuses are kept until the manager says that it has recorded them.
//!
//! All, because that was measured (`exec/tests/sharing.rs`, the table is in the book's chapter on nodes): a
//! shepherd for each job launches a tenth of the jobs per second and takes 9 MiB a job, one for each 32
//! launches as many as one for all but takes 16 times its memory. What kills one shepherd rarely spares
//! the next, and any loss drains the node, so that smaller shares would save few jobs.
//!
//! When it exits, and that it leaves no process of a job behind then, is in [`ending`].
//!
//! All state belongs to one loop, [`Shepherd::run`], that takes one [`Message`] after the other.
//! Starting and reaping happen in that loop too: a process can't be reaped before it is known. A job
//! of many tasks is started in slices, between which the loop serves everything else.

mod capture;
mod claims;
mod connection;
mod ending;
mod input;
mod job;
mod jobdir;
mod kept_ends;
mod launch;
mod lines;
mod options;
mod output;
mod reap;
mod spawn;
mod sweep;
mod taskio;
mod template;
mod token;

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ffi::OsString;
use std::future::ready;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixListener as StdUnixListener;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jobtap_core::job::JobId;
use rustix::process::{Pid, Signal};
use tokio::net::UnixListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::{Instant, MissedTickBehavior, sleep_until};

use self::claims::{Claimed, Claims};
use self::ending::{Ending, OWNER_PATROL};
use self::job::Job;
use self::jobdir::JobDirs;
pub(crate) use self::options::files_per_task;
use super::protocol::{Reply, Request, VERSION};
use super::{HeldJob, TaskProcess};
use crate::open_files::OpenFiles;
use crate::stderr;

/// How often at most to look whether the state directory is still there.
const MIN_PATROL: Duration = Duration::from_secs(1);

/// What the main loop reacts to.
enum Message {
    /// A manager introduced itself.
    Hello { number: u64, outbox: UnboundedSender<Reply> },
    /// A manager wants something.
    Request { number: u64, request: Request },
    /// A connection ended.
    Closed { number: u64 },
    /// Jobs are claimed, or can't be.
    Claimed(Claimed),
    /// A captured stream of a job ended.
    StreamEnded { id: JobId },
    /// Output or input of a job could not be kept.
    OutputLost { id: JobId, note: String },
    /// A canceled job's time to end by itself is over.
    KillRound { id: JobId },
    /// A job has been killed for as long as it should be.
    GiveUp { id: JobId },
}

/// The connection that events go to.
struct Manager {
    number: u64,
    outbox: UnboundedSender<Reply>,
}

struct Shepherd {
    state_dir: PathBuf,
    /// The process with which a temporary instance ends; none if its state outlives the manager.
    owner: Option<Pid>,
    job_dirs: JobDirs,
    /// Tells processes started by this shepherd from those of another, by their environment.
    nonce: String,
    limits: &'static OpenFiles,
    inbox: UnboundedSender<Message>,
    manager: Option<Manager>,
    claims: Claims,
    jobs: BTreeMap<JobId, Job>,
    /// Claimed jobs whose tasks are being started, in turns.
    starting: VecDeque<JobId>,
    /// The first tasks of those of which some tasks run already.
    leaders: HashMap<JobId, Pid>,
    /// Tasks not yet reaped, with their jobs.
    tasks: HashMap<Pid, JobId>,
    /// When to look for processes that jobs left behind.
    sweep_at: Option<Instant>,
    /// Processes that were killed because no job needs them, and are not reaped yet.
    swept: HashSet<Pid>,
    shutdown: bool,
    ending: Ending,
}

/// The time of an event: seconds since the UNIX epoch.
fn timestamp() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |since| since.as_secs_f64())
}

/// Runs the shepherd until it has nothing left to do.
///
/// `arguments` follow [`SHEPHERD_ARGUMENT`](super::SHEPHERD_ARGUMENT): the state directory, the idle
/// time in milliseconds, the tasks' limit of open files, -1 for none, and the process id of the manager
/// of a temporary instance, 0 if the state is durable. Standard input is the listening socket, standard
/// error the log.
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
    let owner = arguments.next().and_then(|text| text.to_str()?.parse().ok()).ok_or_else(usage)?;
    // Refused only to a leader of a process group, which has its own session or was started by hand.
    let _ = rustix::process::setsid();
    let own = rustix::process::getpid();
    rustix::process::set_child_subreaper(Some(own))?;
    let listener = StdUnixListener::from(io::stdin().as_fd().try_clone_to_owned()?);
    listener.set_nonblocking(true)?;
    let (inbox, messages) = unbounded_channel();
    let nonce = format!("{}-{:x}", own.as_raw_pid(), timestamp().to_bits());
    let limits = OpenFiles::in_place_of_the_manager(files);
    let mut shepherd = Shepherd::new(state_dir, nonce, limits, inbox)?;
    shepherd.owner = Pid::from_raw(owner);
    shepherd.jobs =
        kept_ends::read(&shepherd.state_dir).into_iter().map(|job| (job.id, job)).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(shepherd.run(listener, messages, Duration::from_millis(idle)))
}

impl Shepherd {
    fn new(
        state_dir: PathBuf,
        nonce: String,
        limits: &'static OpenFiles,
        inbox: UnboundedSender<Message>,
    ) -> io::Result<Self> {
        let told = inbox.clone();
        let tell = move |claimed| drop(told.send(Message::Claimed(claimed)));
        Ok(Self {
            claims: Claims::start(&state_dir, tell)?,
            job_dirs: JobDirs::open(&state_dir)?,
            state_dir,
            owner: None,
            nonce,
            limits,
            inbox,
            manager: None,
            jobs: BTreeMap::new(),
            starting: VecDeque::new(),
            leaders: HashMap::new(),
            tasks: HashMap::new(),
            sweep_at: None,
            swept: HashSet::new(),
            shutdown: false,
            ending: Ending::default(),
        })
    }

    async fn run(
        mut self,
        listener: StdUnixListener,
        mut messages: UnboundedReceiver<Message>,
        idle_time: Duration,
    ) -> io::Result<()> {
        let listener = UnixListener::from_std(listener)?;
        self.job_dirs.sweep();
        let mut children = signal(SignalKind::child())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut connections = 0;
        let mut idle_since = Instant::now();
        let mut patrol = tokio::time::interval(idle_time.max(MIN_PATROL));
        let mut owner_patrol = tokio::time::interval(OWNER_PATROL);
        owner_patrol.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if !self.is_idle() {
                idle_since = Instant::now();
            }
            if self.is_done() {
                break;
            }
            tokio::select! {
                Some(message) = messages.recv() => self.handle(message),
                _ = children.recv() => self.reap(),
                _ = terminate.recv() => self.end(),
                Ok((stream, _)) = listener.accept() => {
                    connections += 1;
                    connection::serve(stream, connections, self.inbox.clone());
                }
                () = ready(()), if !self.starting.is_empty() => {
                    self.start_some();
                    // Streams of other jobs are carried by tasks of the same thread.
                    tokio::task::yield_now().await;
                }
                () = at(self.sweep_at) => self.sweep(),
                () = sleep_until(idle_since + idle_time), if self.is_idle() => break,
                _ = patrol.tick() => if self.is_forsaken() { break },
                _ = owner_patrol.tick(), if self.may_be_abandoned() => {
                    if self.is_abandoned() {
                        self.end();
                    }
                }
                // Looked at above.
                () = at(self.ending.deadline()) => {}
            }
        }
        self.leave(&mut children).await;
        Ok(())
    }

    fn handle(&mut self, message: Message) {
        match message {
            Message::Hello { number, outbox } => self.greet(number, outbox),
            Message::Request { number, request } => {
                // Only the newest manager counts; an older one may not know that it was replaced.
                if self.manager.as_ref().is_some_and(|manager| manager.number == number) {
                    self.request(request);
                }
            }
            Message::Closed { number } => {
                if self.manager.as_ref().is_some_and(|manager| manager.number == number) {
                    self.forget_manager();
                }
            }
            Message::Claimed(claimed) => self.claimed(claimed),
            Message::StreamEnded { id } => {
                if let Some(job) = self.jobs.get_mut(&id) {
                    job.open_streams = job.open_streams.saturating_sub(1);
                }
                self.end_if_done(id);
            }
            Message::OutputLost { id, note } => {
                if let Some(job) = self.jobs.get_mut(&id).filter(|job| !job.ended()) {
                    job.inform(note);
                }
            }
            Message::KillRound { id } => self.kill_round(id),
            Message::GiveUp { id } => self.give_up(id),
        }
    }

    fn greet(&mut self, number: u64, outbox: UnboundedSender<Reply>) {
        self.forget_manager();
        let pid = std::process::id();
        let _ = outbox.send(Reply::Hello { version: VERSION, pid });
        self.manager = Some(Manager { number, outbox });
    }

    fn forget_manager(&mut self) {
        self.manager = None;
        self.jobs.values_mut().for_each(Job::detach);
    }

    fn tell_tasks(&self, id: JobId) {
        let running = self.jobs.get(&id).map(|job| job.running.as_slice()).unwrap_or_default();
        let process = |(pid, rank): &(Pid, u32)| TaskProcess { rank: *rank, pid: pid.as_raw_pid() };
        let mut tasks: Vec<TaskProcess> = running.iter().map(process).collect();
        tasks.sort_by_key(|task| task.rank);
        if let Some(outbox) = self.outbox() {
            let _ = outbox.send(Reply::Tasks { id, tasks });
        }
    }

    fn outbox(&self) -> Option<UnboundedSender<Reply>> {
        self.manager.as_ref().map(|manager| manager.outbox.clone())
    }

    fn request(&mut self, request: Request) {
        match request {
            // Taken care of by the connection.
            Request::Hello { .. } => {}
            Request::Start(job) => {
                if let Some(known) = self.jobs.get_mut(&job.id) {
                    known.kill = job.kill;
                }
                self.start_or_attach(*job);
            }
            Request::Signal { id, signum } => match Signal::from_named_raw(signum) {
                Some(signal) => self.signal_when_launched(id, signal),
                None => {
                    stderr::line(&format!("shepherd: job {id}: signal {signum} can't be sent"));
                }
            },
            Request::Cancel { id, signum, kill } => {
                let signal = Signal::from_named_raw(signum).unwrap_or(Signal::TERM);
                self.cancel(id, signal, kill);
            }
            Request::Stdin { id, rank, data, eof } => self.add_input(id, rank, &data, eof),
            Request::Tasks { id } => self.tell_tasks(id),
            Request::Ack { id } => match self.jobs.get_mut(&id) {
                Some(job) => {
                    job.acknowledged = true;
                    self.forget_if_over(id);
                }
                None => self.claims.forget(id),
            },
            Request::List => {
                let held = |job: &Job| HeldJob { id: job.id, ended: job.ended() };
                let claimed = self.claims.earlier().filter(|id| !self.jobs.contains_key(id));
                let lost = claimed.map(|id| HeldJob { id, ended: true });
                let jobs = self.jobs.values().map(held).chain(lost).collect();
                if let Some(outbox) = self.outbox() {
                    let _ = outbox.send(Reply::List { jobs });
                }
            }
            Request::Shutdown => {
                self.shutdown = true;
                // Nobody will come for what a temporary instance still runs.
                if self.owner.is_some() {
                    self.end();
                }
            }
        }
    }
}

/// Waits for a moment that may not be set.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}
