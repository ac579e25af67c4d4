//! PMI: how the tasks of an MPI job find each other.
//!
//! Each task has a socket to the shepherd (`PMI_FD`), over which its MPI library puts values into a store that the
//! job's tasks share, waits until all tasks have done so, and gets the others' values. Version 1 of the protocol is
//! what MPICH speaks and what Flux's job shell serves; of version 2, only the wireup commands are served. [`wireup`] is
//! the protocol without the sockets. An MPI library that doesn't speak it loads [`library`], whose path a variable
//! names.

#[cfg(feature = "fuzz")]
pub(crate) mod foreign;
mod library;
mod memory;
mod wireup;

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::job::JobId;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::net::unix::OwnedReadHalf;
use tokio::sync::mpsc::{Sender, UnboundedSender, channel};
use tokio::task::AbortHandle;

use self::memory::Memory;
use self::wireup::{Exchange, Outcome, WAITS, Wireup};
use super::files::jobdir;
use super::message::Message;
use super::option_error::{OptionError, OptionFault};
use super::placement::own_tasks;
use crate::exec::StartJob;
use crate::open_files::OpenFiles;
use crate::stderr;

/// The prefix of the variables that tell an MPI library about the socket.
const PREFIX: &str = "PMI_";

/// The variable with the path of the library that speaks PMI for an MPI library.
const LIBRARY: &str = "FLUX_PMI_LIBRARY_PATH";

/// The variable that tells Open MPI where the tasks of a node share memory. Open MPI names the files by host, user and
/// task, so without it two jobs, or two nodes that are one host, would share the same files.
const SHARED_MEMORY: &str = "OMPI_MCA_btl_vader_backing_directory";

/// The implementations that the shell option `pmi` may name, and the words for none.
const KNOWN: [&str; 3] = ["simple", "pmi1", "pmi2"];
const NONE: [&str; 2] = ["off", "none"];

/// The longest unfinished request, in bytes. A value has at most 1,024.
const LONGEST: usize = 16 * 1024;

/// The maximum number of responses that a task has not read, besides those that its threads wait for.
const UNREAD: usize = 8;

/// The maximum number of responses to a task that depend on other tasks: one for a barrier, and one for each value of
/// the host that it waits for.
const OWED: usize = 1 + WAITS;

/// The PMI state that all jobs share.
pub(super) struct Service {
    memory: Memory,
    library: Option<Arc<Path>>,
}

/// The PMI state that the tasks of one job share.
#[derive(Clone)]
pub(super) struct Pmi(Arc<Shared>);

struct Shared {
    job: JobId,
    size: u32,
    library: Option<Arc<Path>>,
    state: Mutex<State>,
    inbox: UnboundedSender<Message>,
}

struct State {
    wireup: Wireup,
    /// By rank, the channel for responses to a task.
    tasks: Vec<Option<Sender<Vec<u8>>>>,
}

/// Whether the options ask for PMI (`pmi=simple`) or for none (`pmi=off`); `None` if they don't say.
pub(super) fn is_requested(options: &Value) -> Result<Option<bool>, OptionError> {
    let fault = |fault| OptionError::new("pmi", fault);
    let Some(option) = options.get("pmi") else { return Ok(None) };
    let must = OptionFault::Must("a text: off or simple");
    let names = option.as_str().ok_or_else(|| fault(must))?;
    if NONE.contains(&names) {
        return Ok(Some(false));
    }
    match names.split(',').find(|name| !KNOWN.contains(name)) {
        Some(name) => Err(fault(OptionFault::Unknown {
            what: "implementation",
            name: (*name).to_owned(),
            known: Some("off or simple"),
        })),
        None => Ok(Some(true)),
    }
}

/// Whether a job has PMI. Without a request, a job with several tasks has it only if their sockets leave at least half
/// of the open files to other jobs.
pub(super) fn is_wanted(requested: Option<bool>, ntasks: u32, files: u64, most: u64) -> bool {
    let fits = || ntasks == 1 || (files + 1).saturating_mul(ntasks.into()) <= most / 2;
    requested.unwrap_or_else(fits)
}

/// Whether this variable is one of those that [`Pmi::variables`] sets. The variables of an enclosing job mean nothing
/// to other jobs.
pub(super) fn is_variable(name: &str) -> bool {
    name.starts_with(PREFIX) || name == LIBRARY
}

/// The variable for Open MPI, unless the shell option `mpi` is `none`, as in Flux. The job's own environment takes
/// precedence.
pub(super) fn defaults(job: &StartJob, node: usize) -> Option<(&'static str, String)> {
    if job.shell_options.get("mpi").is_some_and(|mpi| mpi == "none") {
        return None;
    }
    let directory = jobdir::of_node(job, node)?.into_os_string().into_string().ok()?;
    Some((SHARED_MEMORY, directory))
}

impl Service {
    /// Prepares PMI for the jobs of a shepherd. If the library can't be written, the log says why, and jobs have only
    /// the socket.
    pub(super) fn new(state_dir: &Path) -> Self {
        let library = match library::unpack(state_dir) {
            Ok(path) => Some(Arc::from(path)),
            Err(error) => {
                let dir = state_dir.display();
                stderr::line(&format!("shepherd: no libpmi.so in {dir} for MPI programs: {error}"));
                None
            }
        };
        Self { memory: Memory::default(), library }
    }

    /// The state that the tasks of this job share.
    pub(super) fn job(&self, job: &StartJob, inbox: &UnboundedSender<Message>) -> Pmi {
        let tasks = (0..job.ntasks).map(|_| None).collect();
        let wireup = Wireup::new(job.id, &job.taskmap, self.memory.share(job.userid));
        let wireup = match job.part {
            Some(_) => wireup.for_part(own_tasks(job) as usize),
            None => wireup,
        };
        Pmi(Arc::new(Shared {
            job: job.id,
            size: job.ntasks,
            library: self.library.clone(),
            state: Mutex::new(State { wireup, tasks }),
            inbox: inbox.clone(),
        }))
    }
}

impl State {
    fn respond(&self, responses: Vec<(u32, Vec<u8>)>) {
        for (to, response) in responses {
            if let Some(Some(task)) = self.tasks.get(to as usize) {
                // Fails if the task has closed its socket. There is room for each response that a task waits for.
                let _ = task.try_send(response);
            }
        }
    }
}

impl Pmi {
    /// Passes the values of all hosts to the tasks that wait for them.
    pub(super) fn exchanged(&self, round: u32, values: Vec<(String, String)>) {
        let mut state = self.0.lock();
        let responses = state.wireup.exchanged(round, values);
        state.respond(responses);
    }

    /// Makes the socket of a task. Returns the task's end, and the handle of the work that serves the other end.
    pub(super) fn connect(&self, rank: u32) -> io::Result<(OwnedFd, AbortHandle)> {
        let (own, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
        let own = std::os::unix::net::UnixStream::from(OpenFiles::of_this_process().apart(own));
        own.set_nonblocking(true)?;
        let (read, mut write) = UnixStream::from_std(own)?.into_split();
        let (sender, mut responses) = channel::<Vec<u8>>(UNREAD + OWED);
        if let Some(task) = self.0.lock().tasks.get_mut(rank as usize) {
            *task = Some(sender.clone());
        }
        let shared = Arc::clone(&self.0);
        let serving = tokio::spawn(async move {
            let writing = async {
                while let Some(response) = responses.recv().await {
                    if write.write_all(&response).await.is_err() {
                        break;
                    }
                }
            };
            // Ends with the task: it closes the socket, or the job's work is aborted.
            tokio::join!(shared.read(rank, read, sender), writing);
        });
        Ok((theirs, serving.abort_handle()))
    }

    /// The variables of a task that has a socket. Its number, `PMI_FD`, is known only in the task's process.
    pub(super) fn variables(&self, rank: u32) -> Vec<(&'static str, String)> {
        let mut variables =
            vec![("PMI_RANK", rank.to_string()), ("PMI_SIZE", self.0.size.to_string())];
        let path = self.0.library.as_ref().and_then(|path| path.to_str());
        variables.extend(path.map(|path| (LIBRARY, path.to_owned())));
        variables
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Serves the requests of a task until it closes the socket or sends something else.
    async fn read(&self, rank: u32, mut socket: OwnedReadHalf, responses: Sender<Vec<u8>>) {
        let mut pending = Vec::new();
        let mut chunk = [0; 4096];
        loop {
            match self.serve(rank, &mut pending) {
                // The next request waits until the task has read most responses, since unread responses take memory.
                Ok(true) => match responses.reserve_many(1 + OWED).await {
                    Ok(_) => continue,
                    Err(_) => break,
                },
                Ok(false) if pending.len() <= LONGEST => {}
                Ok(false) | Err(_) => break,
            }
            match socket.read(&mut chunk).await {
                Ok(0) | Err(_) => break,
                Ok(size) => pending.extend_from_slice(chunk.get(..size).unwrap_or_default()),
            }
        }
        // Ends the writing, too.
        if let Some(task) = self.lock().tasks.get_mut(rank as usize) {
            *task = None;
        }
    }

    /// Serves the first complete request and removes it from `pending`; `false` if there is no complete one. The error
    /// means that the bytes are not a request.
    fn serve(&self, rank: u32, pending: &mut Vec<u8>) -> Result<bool, wireup::Malformed> {
        let mut state = self.lock();
        let Some(Outcome { used, responses, abort, exchange }) =
            state.wireup.next(rank, pending)?
        else {
            return Ok(false);
        };
        pending.drain(..used);
        state.respond(responses);
        if let Some(Exchange { round, values }) = exchange {
            let _ = self.inbox.send(Message::Exchange { id: self.job, round, values });
        }
        if let Some(why) = abort {
            let _ = self.inbox.send(Message::Aborted { id: self.job, why });
        }
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::TaskMap;
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_have_pmi_unless_it_is_off() {
        let wanted = |options: Value, ntasks, most| {
            Ok::<_, OptionError>(is_wanted(is_requested(&options)?, ntasks, 2, most))
        };
        assert_eq!(wanted(json!({}), 2, 1000), Ok(true));
        assert_eq!(wanted(json!({}), 1, 0), Ok(true));
        for none in ["off", "none"] {
            assert_eq!(wanted(json!({ "pmi": none }), 1, 1000), Ok(false));
            assert_eq!(wanted(json!({ "pmi": none }), 2, 1000), Ok(false));
        }
        let text = "pmi: unknown implementation 'x': use off or simple";
        let refused = wanted(json!({"pmi": "simple,x"}), 2, 1000).unwrap_err();
        assert_eq!(refused.to_string(), text);
        assert!(wanted(json!({"pmi": 1}), 2, 1000).is_err());
        // Three files for each of ten tasks.
        assert_eq!(wanted(json!({}), 10, 60), Ok(true));
        assert_eq!(wanted(json!({}), 10, 58), Ok(false));
        assert_eq!(wanted(json!({"pmi": "simple,pmi2"}), 10, 58), Ok(true));
    }

    #[test]
    fn a_task_that_reads_no_responses_is_not_served_on() {
        use std::io::{ErrorKind, Write};
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (inbox, _messages) = tokio::sync::mpsc::unbounded_channel();
            let taskmap = TaskMap::block(&[2]);
            let job = StartJob { ntasks: 2, taskmap, ..StartJob::new(JobId::new(1)) };
            let pmi = Service { memory: Memory::default(), library: None }.job(&job, &inbox);
            let (task, _serving) = pmi.connect(0).unwrap();
            let mut task = std::os::unix::net::UnixStream::from(task);
            task.set_nonblocking(true).unwrap();
            let requests = "cmd=get kvsname=1 key=PMI_process_mapping\n".repeat(1000);
            let (mut sent, mut full) = (0, 0);
            while full < 100 {
                assert!(sent < 64 << 20, "each request has a response that takes memory");
                match task.write(requests.as_bytes()) {
                    Ok(size) => (sent, full) = (sent + size, 0),
                    Err(error) if error.kind() == ErrorKind::WouldBlock => full += 1,
                    Err(error) => panic!("{error}"),
                }
                tokio::task::yield_now().await;
            }
            // The task reads its responses in the order of its requests, and is served again.
            let mut task = tokio::io::BufReader::new(UnixStream::from_std(task).unwrap());
            let mut line = String::new();
            for _ in 0..sent / requests.len() * 1000 {
                line.clear();
                let read = tokio::io::AsyncBufReadExt::read_line(&mut task, &mut line);
                tokio::time::timeout(std::time::Duration::from_secs(30), read)
                    .await
                    .unwrap()
                    .unwrap();
                assert!(line.ends_with("value=(vector,(0,1,2))\n"), "{line}");
            }
        });
    }
}
