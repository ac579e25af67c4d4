//! Standard input that clients send while a job runs.
//!
//! It is stored in a file of the state directory, in the form of `guest.input` (RFC 24), from which
//! each task is served at its own pace: input that a task doesn't read takes disk space, not memory. The file is made
//! with the first input, since nobody sends any to most jobs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use crate::clock::now;
use crate::exec::protocol::{decode_data, encode_data};
use crate::open_files::OpenFiles;

/// The rank that stands for all tasks.
const ALL: &str = "all";

#[derive(Serialize)]
struct Entry<C> {
    timestamp: f64,
    name: &'static str,
    context: C,
}

/// An entry with input for tasks; entries of other kinds have no such context.
#[derive(Deserialize)]
struct DataEntry {
    context: Context,
}

#[derive(Serialize, Deserialize)]
struct Context {
    stream: String,
    rank: String,
    encoding: String,
    data: String,
    eof: bool,
}

/// Encodes an entry of the log, with its newline.
fn line(name: &'static str, context: impl Serialize) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(&Entry { timestamp: now().as_secs(), name, context })?;
    line.push(b'\n');
    Ok(line)
}

/// The input of one job.
pub(in crate::exec::shepherd) struct JobInput {
    ntasks: u32,
    state: State,
}

enum State {
    /// Nobody has sent any. The tasks wait for it at the other ends of these pipes.
    Awaited(Vec<(u32, PipeWriter)>),
    /// It is in this file, from which the tasks are served as it grows.
    Kept { file: File, reader: Arc<File>, grown: watch::Sender<()> },
    /// All tasks read a file themselves.
    Redirected,
}

impl JobInput {
    /// The input of `ntasks` tasks, which clients send.
    pub(in crate::exec::shepherd) fn of_clients(ntasks: u32) -> Self {
        Self { ntasks, state: State::Awaited(Vec::new()) }
    }

    /// Records in `file`, which is new, that all of `ntasks` tasks read the file `path` themselves.
    pub(in crate::exec::shepherd) fn redirected(
        mut file: File,
        ntasks: u32,
        path: &str,
    ) -> io::Result<Self> {
        file.write_all(&header(ntasks)?)?;
        let context = json!({"stream": "stdin", "rank": ALL, "path": path});
        file.write_all(&line("redirect", context)?)?;
        Ok(Self { ntasks, state: State::Redirected })
    }

    /// Adds input for one task, or for all if `rank` is `None`. Ignored if the tasks read a file. `make` makes the file
    /// for it. Returns what serves tasks from now on.
    pub(in crate::exec::shepherd) fn add(
        &mut self,
        rank: Option<u32>,
        data: &[u8],
        eof: bool,
        make: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Vec<AbortHandle>> {
        let mut pumps = Vec::new();
        if let State::Awaited(pipes) = &mut self.state {
            let mut file = make()?;
            file.write_all(&header(self.ntasks)?)?;
            // Opened through the descriptor: the name may refer to another file by now.
            let reader = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            let reader = Arc::new(OpenFiles::of_this_process().apart(reader));
            let (pipes, grown) = (std::mem::take(pipes), watch::Sender::new(()));
            for (rank, pipe) in pipes {
                pumps.push(serve(&reader, &grown, rank, pipe)?);
            }
            self.state = State::Kept { file, reader, grown };
        }
        if let State::Kept { file, grown, .. } = &mut self.state {
            let context = Context {
                stream: "stdin".to_owned(),
                rank: rank.map_or_else(|| ALL.to_owned(), |rank| rank.to_string()),
                encoding: "base64".to_owned(),
                data: encode_data(data),
                eof,
            };
            file.write_all(&line("data", context)?)?;
            grown.send_replace(());
        }
        Ok(pumps)
    }

    /// Serves the task with rank `rank`, which reads from the other end of `pipe`. Returns what does so, if there is
    /// input already.
    pub(in crate::exec::shepherd) fn serve(
        &mut self,
        rank: u32,
        pipe: PipeWriter,
    ) -> io::Result<Option<AbortHandle>> {
        match &mut self.state {
            State::Awaited(pipes) => {
                pipes.push((rank, pipe));
                Ok(None)
            }
            State::Kept { reader, grown, .. } => serve(reader, grown, rank, pipe).map(Some),
            State::Redirected => Ok(None),
        }
    }
}

fn header(ntasks: u32) -> io::Result<Vec<u8>> {
    let context = json!({
        "version": 1,
        "encoding": {"stdin": "base64"},
        "count": {"stdin": ntasks},
        "options": {},
    });
    line("header", context)
}

/// Reads a file that others write to, from its beginning.
struct Follow {
    file: Arc<File>,
    at: u64,
}

impl Read for Follow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(buffer, self.at)?;
        self.at += read as u64;
        Ok(read)
    }
}

/// Serves a task from the file, as that grows.
fn serve(
    file: &Arc<File>,
    grown: &watch::Sender<()>,
    rank: u32,
    pipe: PipeWriter,
) -> io::Result<AbortHandle> {
    let mut pipe = Sender::from_owned_fd(OwnedFd::from(pipe))?;
    let mut entries = BufReader::new(Follow { file: Arc::clone(file), at: 0 });
    let mut grown = grown.subscribe();
    let rank = rank.to_string();
    let task = tokio::spawn(async move {
        let mut line = Vec::new();
        loop {
            line.clear();
            match entries.read_until(b'\n', &mut line) {
                Err(_) => return,
                Ok(0) if grown.changed().await.is_err() => return,
                Ok(0) => continue,
                Ok(_) => {}
            }
            let Ok(entry) = serde_json::from_slice::<DataEntry>(&line) else {
                continue;
            };
            let Context { rank: to, data, eof, .. } = entry.context;
            if to != ALL && to != rank {
                continue;
            }
            // A write fails if the task has closed its input or exited.
            if pipe.write_all(&decode_data(&data).unwrap_or_default()).await.is_err() || eof {
                return;
            }
        }
    });
    Ok(task.abort_handle())
}
