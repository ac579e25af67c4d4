//! A node's side of the channel: it passes lines between the manager and the shepherd of this host, and sends the output
//! of jobs.
//!
//! The shepherd doesn't know that its manager is on another host. When the channel is cut, its jobs run on, and the node
//! connects again: the shepherd then has a new manager, to which it repeats what the old one may have missed.

use std::collections::BTreeMap;
use std::fs::File;
use std::future::pending;
use std::io::{self, Read, Seek, SeekFrom};
use std::net::SocketAddr;
use std::time::Duration;

use jobtap_core::engine::ExecEvent;
use jobtap_core::job::JobId;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, BufReader, WriteHalf};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout};
use tokio_rustls::client::TlsStream;

use super::absence::Absence;
use super::commands;
use super::dial::Manager;
use super::identity::{Identity, IdentityError};
use super::invitation::{Accepted, Invitation, InvitationError};
use super::leaving::Leaving;
use super::node_processes::NodeProcesses;
use super::relay;
use super::wire::{self, Frame, FromNode, NodeInfo, ToNode, VERSION, node_line, to_shepherd};
use crate::clock::now;
use crate::exec::local::{LocalConfig, find_or_start};
use crate::exec::protocol::{ShepherdMessage, decode_message};
use crate::stderr;
use crate::store::{GuestFiles, Key};

/// How often the output of running jobs is looked for.
const LOOK: Duration = Duration::from_millis(100);

/// The most output that is sent at once, in bytes.
const CHUNK: usize = 1 << 20;

/// How long the manager may be silent: it pings a node that has nothing to say.
const SILENCE: Duration = Duration::from_secs(20);

/// How long a connection may take until the node has joined.
const JOINING: Duration = Duration::from_secs(30);

/// The pause between two attempts to connect.
const PAUSE: Duration = Duration::from_millis(500);

/// How many lines may wait on their way through the node.
const MOST_WAITING: usize = 64;

/// The ends of the events after which nothing more is printed.
const ENDS: [&[u8]; 2] =
    [br#"{"op":"event","event":"finished","#, br#"{"op":"event","event":"released","#];

/// Why a node has to end.
#[derive(Debug, thiserror::Error)]
pub enum NodeError {
    /// The manager doesn't take it.
    #[error("the manager refuses this node: {0}")]
    Refused(String),
    /// The identity can't be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// The invitation can't be used.
    #[error(transparent)]
    Invitation(#[from] InvitationError),
    /// No manager is there any more.
    #[error("the manager at {address} can't be reached for {seconds} s: {reason}")]
    Gone {
        /// Where it was.
        address: SocketAddr,
        /// How long the node has tried.
        seconds: u64,
        /// Why the last attempt failed.
        reason: io::Error,
    },
}

/// How a connection has ended.
pub(super) enum End {
    /// The instance ends.
    Instance,
    /// The channel was cut, or the shepherd has died.
    Cut(io::Error),
    /// Nothing comes through the channel, not even what shows that it works.
    Silent,
}

/// Runs a node until the instance ends. Its shepherd is that of `config`.
///
/// # Errors
/// The manager refuses the node, or can't be reached for as long as `patience` says.
pub async fn run(
    address: SocketAddr,
    identity: &Identity,
    info: &NodeInfo,
    config: &LocalConfig,
    patience: impl Fn() -> Duration,
) -> Result<(), NodeError> {
    let manager = Manager::new(address, identity, None)?;
    serve_manager(&manager, info, config, patience, None).await
}

/// Runs a node of an allocation until the allocation or the instance ends. Its rank is the manager's to choose. `ends_at`
/// is when the allocation ends (UNIX seconds), if it is known here; `leaving` says that the node is told to end.
///
/// # Errors
/// The invitation can't be used, or as [`run`].
pub async fn join(
    invitation: &Invitation,
    ends_at: Option<f64>,
    info: &NodeInfo,
    config: &LocalConfig,
    patience: impl Fn() -> Duration,
    leaving: &Leaving,
) -> Result<(), NodeError> {
    let Accepted { address, identity, pass } = invitation.accept(ends_at)?;
    let manager = Manager::new(address, &identity, Some(pass))?;
    serve_manager(&manager, info, config, patience, Some(leaving)).await
}

async fn serve_manager(
    manager: &Manager,
    info: &NodeInfo,
    config: &LocalConfig,
    patience: impl Fn() -> Duration,
    leaving: Option<&Leaving>,
) -> Result<(), NodeError> {
    let serving = async {
        let served = relay::serve(&config.state_dir, manager).await;
        if let Err(error) = served {
            let socket = relay::socket_in(&config.state_dir);
            stderr::line(&format!("{}: no client is served: {error}", socket.display()));
        }
        pending().await
    };
    tokio::select! {
        ended = stay_connected(manager, info, config, patience, leaving) => ended,
        never = serving => never,
    }
}

/// Serves connections to the manager, one after the other.
async fn stay_connected(
    manager: &Manager,
    info: &NodeInfo,
    config: &LocalConfig,
    patience: impl Fn() -> Duration,
    leaving: Option<&Leaving>,
) -> Result<(), NodeError> {
    let address = manager.address;
    let mut absence = Absence::begin(false);
    let processes = NodeProcesses::new(info.uri.as_deref().unwrap_or_default());
    let _closed = Closed(&processes);
    let remote = Remote { processes: processes.clone(), manager: manager.clone() };
    loop {
        let reason = match connect(manager, &mut absence).await {
            Ok(stream) => {
                let end = serve(stream, info, config, Some(&remote), leaving).await?;
                absence = Absence::begin(matches!(end, End::Silent));
                match end {
                    End::Instance => return Ok(()),
                    End::Cut(reason) => reason,
                    End::Silent => io::ErrorKind::TimedOut.into(),
                }
            }
            Err(reason) => reason,
        };
        if absence.is_over(patience()) {
            return Err(NodeError::Gone { address, seconds: absence.seconds(), reason });
        }
        if absence.is_long() {
            manager.note_vanished();
        }
        sleep(PAUSE).await;
    }
}

/// Makes a connection, and notes what can be learned from the attempt.
async fn connect(manager: &Manager, absence: &mut Absence) -> io::Result<TlsStream<TcpStream>> {
    let stream = manager.reach().await.inspect_err(|reason| absence.note_failure(reason))?;
    absence.note_listener();
    timeout(JOINING, manager.greet(stream)).await.map_err(io::Error::from)?
}

/// What a node has whose manager is on another host. On its own host, the manager runs processes itself.
#[derive(Clone)]
pub(super) struct Remote {
    /// The processes of plugins.
    processes: NodeProcesses,
    manager: Manager,
}

/// Serves one connection to the manager.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + 'static,
    info: &NodeInfo,
    config: &LocalConfig,
    remote: Option<&Remote>,
    leaving: Option<&Leaving>,
) -> Result<End, NodeError> {
    let (read, mut write) = tokio::io::split(stream);
    let mut read = BufReader::new(Box::pin(read));
    let joined = async {
        let (node, time) = (info.clone(), now().as_secs());
        let join = FromNode::Join { version: VERSION, node, time };
        write.write_all(&node_line(&join)).await?;
        write.flush().await?;
        match wire::read_first(&mut read).await? {
            Some(Frame::Node(line)) => Ok(serde_json::from_slice::<ToNode>(&line)?),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    };
    match timeout(JOINING, joined).await {
        Ok(Ok(ToNode::Welcome)) => {}
        Ok(Ok(ToNode::Refused { reason })) => return Err(NodeError::Refused(reason)),
        Ok(Ok(_)) => return Ok(End::Cut(io::ErrorKind::InvalidData.into())),
        Ok(Err(error)) => return Ok(End::Cut(error)),
        Err(_) => return Ok(End::Cut(io::ErrorKind::TimedOut.into())),
    }
    let shepherd = match connect_shepherd(config).await {
        Ok(shepherd) => shepherd,
        Err(error) => return Ok(End::Cut(error)),
    };
    let (lines, shepherd) = shepherd.into_split();
    let (from_manager, frames) = channel(MOST_WAITING);
    let (from_shepherd, lines_of_shepherd) = channel(MOST_WAITING);
    let readers = [
        tokio::spawn(read_frames(read, from_manager)).abort_handle(),
        tokio::spawn(read_lines(BufReader::new(lines), from_shepherd)).abort_handle(),
    ];
    if let Some(remote) = remote {
        remote.processes.connect();
    }
    let relay = Relay {
        files: GuestFiles::new(&config.state_dir),
        tails: BTreeMap::new(),
        write,
        shepherd,
        remote: remote.cloned(),
        ending: false,
        leaving: leaving.cloned(),
        is_leaving: false,
        _readers: Readers(readers),
    };
    Ok(relay.run(frames, lines_of_shepherd).await)
}

async fn connect_shepherd(config: &LocalConfig) -> io::Result<UnixStream> {
    let config = config.clone();
    let stream =
        spawn_blocking(move || find_or_start(&config)).await.map_err(io::Error::other)??;
    stream.set_nonblocking(true)?;
    UnixStream::from_std(stream)
}

/// Ends the processes of plugins when the node ends.
struct Closed<'a>(&'a NodeProcesses);

impl Drop for Closed<'_> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Waits until something has happened to a process.
async fn has_news(remote: &Option<Remote>) {
    match remote {
        Some(remote) => remote.processes.has_news().await,
        None => pending().await,
    }
}

/// Waits until a node of an allocation is told to end.
async fn is_told_to_end(leaving: &Option<Leaving>) {
    match leaving {
        Some(leaving) => leaving.begun().await,
        None => pending().await,
    }
}

/// Reading is not part of the loop below, since a read that is given up in the middle of a line loses it.
async fn read_frames(
    mut read: BufReader<impl AsyncRead + Unpin>,
    frames: Sender<io::Result<Option<Frame>>>,
) {
    loop {
        let frame = wire::read(&mut read).await;
        let is_last = !matches!(frame, Ok(Some(_)));
        if frames.send(frame).await.is_err() || is_last {
            return;
        }
    }
}

async fn read_lines(mut read: BufReader<impl AsyncRead + Unpin>, lines: Sender<Vec<u8>>) {
    use tokio::io::AsyncBufReadExt;
    loop {
        let mut line = Vec::new();
        let is_whole = matches!(read.read_until(b'\n', &mut line).await, Ok(1..))
            && line.last() == Some(&b'\n');
        if !is_whole || lines.send(line).await.is_err() {
            return;
        }
    }
}

/// Stops to read when the connection ends.
struct Readers([AbortHandle; 2]);

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.iter().for_each(AbortHandle::abort);
    }
}

/// A connection of a node that has joined.
struct Relay<S> {
    files: GuestFiles,
    tails: BTreeMap<JobId, Tail>,
    write: WriteHalf<S>,
    shepherd: tokio::net::unix::OwnedWriteHalf,
    remote: Option<Remote>,
    /// Whether the instance ends: the shepherd then exits, too.
    ending: bool,
    /// Of a node of an allocation.
    leaving: Option<Leaving>,
    /// Whether the manager knows that the node is told to end.
    is_leaving: bool,
    _readers: Readers,
}

/// The file with the output of a job, which is sent as it grows.
struct Tail {
    file: Option<File>,
    at: u64,
}

impl<S: AsyncRead + AsyncWrite + Send + 'static> Relay<S> {
    async fn run(
        mut self,
        mut frames: Receiver<io::Result<Option<Frame>>>,
        mut lines: Receiver<Vec<u8>>,
    ) -> End {
        let mut look = interval(LOOK);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut heard = Instant::now();
        loop {
            let passed = tokio::select! {
                frame = frames.recv() => {
                    heard = Instant::now();
                    self.take(frame, &mut frames).await
                }
                line = lines.recv() => match line {
                    Some(line) => self.pass(line, &mut lines).await,
                    None if self.ending => return End::Instance,
                    None => Err(io::Error::other("the shepherd has ended")),
                },
                () = is_told_to_end(&self.leaving), if !self.is_leaving => {
                    self.is_leaving = true;
                    self.send(&node_line(&FromNode::Leaving)).await
                }
                () = has_news(&self.remote) => self.send_news().await,
                _ = look.tick(), if !self.tails.is_empty() => self.send_outputs().await,
                () = sleep_until(heard + SILENCE) => {
                    return if self.ending { End::Instance } else { End::Silent };
                }
            };
            if let Err(error) = passed {
                return if self.ending { End::Instance } else { End::Cut(error) };
            }
        }
    }

    /// Handles this frame of the manager, and those that have come with it. Lines for the shepherd are written together.
    async fn take(
        &mut self,
        first: Option<io::Result<Option<Frame>>>,
        more: &mut Receiver<io::Result<Option<Frame>>>,
    ) -> io::Result<()> {
        let (mut next, mut lines) = (first, Vec::new());
        loop {
            match next.ok_or(io::ErrorKind::UnexpectedEof)?? {
                Some(Frame::Shepherd(line)) => lines.extend(line),
                Some(Frame::Node(line)) => self.handle(&line).await?,
                None => return Err(io::ErrorKind::UnexpectedEof.into()),
            }
            next = match more.try_recv() {
                Ok(frame) if lines.len() < CHUNK => Some(frame),
                Ok(frame) => {
                    self.shepherd.write_all(&std::mem::take(&mut lines)).await?;
                    Some(frame)
                }
                Err(_) => return self.shepherd.write_all(&lines).await,
            };
        }
    }

    async fn handle(&mut self, line: &[u8]) -> io::Result<()> {
        match serde_json::from_slice(line)? {
            ToNode::Follow { id, from } => {
                self.tails.insert(id, Tail { file: None, at: from });
            }
            ToNode::Unfollow { id } => {
                self.tails.remove(&id);
                // The manager has all of it.
                self.files.remove(id.as_u64());
            }
            ToNode::Run { key, order } => {
                if let Some(remote) = &self.remote {
                    remote.processes.run(key, order);
                }
            }
            ToNode::SignalProcess { key, signum } => {
                if let Some(remote) = &self.remote {
                    remote.processes.signal(key, signum);
                }
            }
            ToNode::Processes { seen, keys } => {
                if let Some(remote) = &self.remote {
                    remote.processes.keep(seen, &keys);
                }
            }
            ToNode::Seen { seq } => {
                if let Some(remote) = &self.remote {
                    remote.processes.confirm(seq);
                }
            }
            ToNode::Command { number } => {
                if let Some(Remote { manager, .. }) = self.remote.clone() {
                    tokio::spawn(async move {
                        manager.until_vanished(commands::answer(&manager, number)).await;
                    });
                }
            }
            ToNode::Ping => self.send(&node_line(&FromNode::Pong)).await?,
            ToNode::End => self.ending = true,
            ToNode::Welcome | ToNode::Refused { .. } => {}
        }
        Ok(())
    }

    /// Passes on this line of the shepherd, and those that have come with it.
    async fn pass(&mut self, first: Vec<u8>, more: &mut Receiver<Vec<u8>>) -> io::Result<()> {
        let mut next = Some(first);
        let mut text = Vec::new();
        while let Some(line) = next {
            if ENDS.iter().any(|end| line.starts_with(end))
                && let Ok(ShepherdMessage::Event(event)) = decode_message(&line)
            {
                if let Some(leaving) = &self.leaving
                    && leaving.explains(&event).await
                {
                    break;
                }
                // All output comes before the end, so that a client that sees the end can read it.
                self.send(&std::mem::take(&mut text)).await?;
                self.send_all(&event).await?;
            }
            text.extend(to_shepherd(&line));
            next = if text.len() < CHUNK { more.try_recv().ok() } else { None };
        }
        self.send(&text).await
    }

    /// Says what has happened to processes.
    async fn send_news(&mut self) -> io::Result<()> {
        let news = self.remote.as_ref().map(|remote| remote.processes.news()).unwrap_or_default();
        if news.is_empty() {
            return Ok(());
        }
        self.send(&news).await
    }

    async fn send(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write.write_all(bytes).await?;
        self.write.flush().await
    }

    /// Sends all output of the job that this event is about.
    async fn send_all(&mut self, event: &ExecEvent) -> io::Result<()> {
        let id = event.id();
        while let Some(line) = self.more_of(id) {
            self.send(&line).await?;
        }
        Ok(())
    }

    /// Sends what the jobs have printed since the last look, not more than a piece of each.
    async fn send_outputs(&mut self) -> io::Result<()> {
        let ids: Vec<JobId> = self.tails.keys().copied().collect();
        for id in ids {
            if let Some(line) = self.more_of(id) {
                self.send(&line).await?;
            }
        }
        Ok(())
    }

    /// The next piece of a job's output: whole entries.
    fn more_of(&mut self, id: JobId) -> Option<Vec<u8>> {
        let tail = self.tails.get_mut(&id)?;
        let (at, text) = tail.next(&self.files, id)?;
        Some(node_line(&FromNode::Output { id, at, text }))
    }
}

impl Tail {
    fn next(&mut self, files: &GuestFiles, id: JobId) -> Option<(u64, String)> {
        if self.file.is_none() {
            let path = files.path(id.as_u64(), Key::OUTPUT)?;
            // A job that has printed nothing yet has no file.
            self.file = GuestFiles::open(&path).ok();
        }
        let file = self.file.as_mut()?;
        file.seek(SeekFrom::Start(self.at)).ok()?;
        let mut bytes = Vec::new();
        file.take(CHUNK as u64).read_to_end(&mut bytes).ok()?;
        let end = bytes.iter().rposition(|byte| *byte == b'\n')?;
        bytes.truncate(end + 1);
        let at = self.at;
        self.at += bytes.len() as u64;
        // JSON is UTF-8.
        String::from_utf8(bytes).ok().map(|text| (at, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::protocol::encode;

    /// Lines are told apart by how they begin: decoding all of them is most of the work for a short job.
    #[test]
    fn events_begin_as_they_are_looked_for() {
        let id = JobId::new(1);
        for (event, begins) in [
            (ExecEvent::Finished { id, status: 0 }, ENDS[0]),
            (ExecEvent::Released { id }, ENDS[1]),
        ] {
            let line = encode(&ShepherdMessage::Event(event)).unwrap();
            assert!(line.starts_with(begins), "{}", String::from_utf8_lossy(&line));
        }
    }
}
