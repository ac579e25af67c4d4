//! Standard input that clients send while a job runs.
//!
//! It is stored in a file of the state directory, in the form of `guest.input` (RFC 24), from which
//! each task is served at its own pace: input that a task doesn't read takes disk space, not memory. The file is made
//! with the first input, since nobody sends any to most jobs.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::Arc;

use jobtap_core::job::JobId;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::super::message::Message;
use super::task_pipe::{End, Writer};
use crate::clock::now;
use crate::exec::data::{decode_data, encode_data};
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
    id: JobId,
    ntasks: u32,
    state: State,
    inbox: UnboundedSender<Message>,
}

enum State {
    /// Nobody has sent input yet. The tasks wait for it at the other ends of these pipes.
    Awaited(Vec<TaskInput>),
    /// The input is in this file, from which the tasks are served as it grows, from `begin` on.
    Kept { file: File, reader: Arc<File>, begin: u64, grown: watch::Sender<()> },
    /// All tasks read a file themselves.
    Redirected,
}

/// The input of one task.
struct TaskInput {
    rank: u32,
    /// The pipe that is the standard input of the task.
    pipe: End<PipeWriter>,
}

impl JobInput {
    /// The input of `ntasks` tasks, which clients send.
    pub(in crate::exec::shepherd) fn of_clients(
        id: JobId,
        ntasks: u32,
        inbox: UnboundedSender<Message>,
    ) -> Self {
        Self { id, ntasks, state: State::Awaited(Vec::new()), inbox }
    }

    /// The input of a job that another shepherd has started. Its tasks already have what is in `file`, if there is one.
    pub(in crate::exec::shepherd) fn resumed(
        file: Option<File>,
        id: JobId,
        ntasks: u32,
        inbox: UnboundedSender<Message>,
    ) -> Self {
        let kept = |file: File| {
            let begin = file.metadata()?.len();
            let reader = Arc::new(file.try_clone()?);
            Ok(State::Kept { file, reader, begin, grown: watch::Sender::new(()) })
        };
        let kept = file.map(kept).and_then(io::Result::ok);
        let state = kept.unwrap_or_else(|| State::Awaited(Vec::new()));
        Self { id, ntasks, state, inbox }
    }

    /// Records in `file`, which is new, that all of `ntasks` tasks read the file `path` themselves.
    pub(in crate::exec::shepherd) fn redirected(
        mut file: File,
        id: JobId,
        ntasks: u32,
        path: &str,
        inbox: UnboundedSender<Message>,
    ) -> io::Result<Self> {
        file.write_all(&header(ntasks)?)?;
        let context = json!({"stream": "stdin", "rank": ALL, "path": path});
        file.write_all(&line("redirect", context)?)?;
        Ok(Self { id, ntasks, state: State::Redirected, inbox })
    }

    /// Adds input for one task, or for all if `rank` is `None`. Ignored if the tasks read a file. `make` makes the file
    /// for it. Returns the handles of the work that serves tasks from now on.
    pub(in crate::exec::shepherd) fn add(
        &mut self,
        rank: Option<u32>,
        data: &[u8],
        eof: bool,
        make: impl FnOnce() -> io::Result<File>,
    ) -> io::Result<Vec<AbortHandle>> {
        let mut pumps = Vec::new();
        if let State::Awaited(inputs) = &mut self.state {
            let mut file = make()?;
            file.write_all(&header(self.ntasks)?)?;
            // Opened through the descriptor: the name may refer to another file by now.
            let reader = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
            let reader = Arc::new(OpenFiles::of_this_process().apart(reader));
            let (inputs, grown) = (std::mem::take(inputs), watch::Sender::new(()));
            for input in inputs {
                pumps.push(input.serve(&reader, 0, &grown, self.id, &self.inbox)?);
            }
            self.state = State::Kept { file, reader, begin: 0, grown };
        }
        if let State::Kept { file, grown, .. } = &mut self.state {
            file.write_all(&entry(rank, data, eof)?)?;
            grown.send_replace(());
        }
        Ok(pumps)
    }

    /// Serves the task with rank `rank`, which reads from the other end of `pipe`. Returns the handle of this work, if
    /// there is input already.
    pub(in crate::exec::shepherd) fn serve(
        &mut self,
        rank: u32,
        pipe: End<PipeWriter>,
    ) -> io::Result<Option<AbortHandle>> {
        let input = TaskInput { rank, pipe };
        match &mut self.state {
            State::Awaited(inputs) => {
                inputs.push(input);
                Ok(None)
            }
            State::Kept { reader, begin, grown, .. } => {
                input.serve(reader, *begin, grown, self.id, &self.inbox).map(Some)
            }
            State::Redirected => Ok(None),
        }
    }
}

/// The first entry of the log of a job with so many tasks, as a line.
pub(in crate::exec) fn header(ntasks: u32) -> io::Result<Vec<u8>> {
    let context = json!({
        "version": 1,
        "encoding": {"stdin": "base64"},
        "count": {"stdin": ntasks},
        "options": {},
    });
    line("header", context)
}

/// The entry of input for one task, or for all if `rank` is `None`, as a line.
pub(in crate::exec) fn entry(rank: Option<u32>, data: &[u8], eof: bool) -> io::Result<Vec<u8>> {
    let context = Context {
        stream: "stdin".to_owned(),
        rank: rank.map_or_else(|| ALL.to_owned(), |rank| rank.to_string()),
        encoding: "base64".to_owned(),
        data: encode_data(data),
        eof,
    };
    line("data", context)
}

/// Reads a file that others write to.
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

impl TaskInput {
    /// Serves the task of the job `id` from `file` as it grows, from the offset `at` on. `inbox` is told when the input has
    /// ended.
    fn serve(
        self,
        file: &Arc<File>,
        at: u64,
        grown: &watch::Sender<()>,
        id: JobId,
        inbox: &UnboundedSender<Message>,
    ) -> io::Result<AbortHandle> {
        let Self { rank, pipe } = self;
        let pipe = Writer::new(pipe)?;
        let ended = Message::InputEnded { id, rank };
        let inbox = inbox.clone();
        let mut entries = BufReader::new(Follow { file: Arc::clone(file), at });
        let mut grown = grown.subscribe();
        let rank = rank.to_string();
        let task = tokio::spawn(async move {
            let mut line = Vec::new();
            loop {
                line.clear();
                match entries.read_until(b'\n', &mut line) {
                    Err(_) => break,
                    Ok(0) if grown.changed().await.is_err() => break,
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
                if pipe.write_all(decode_data(&data).unwrap_or_default()).await.is_err() || eof {
                    break;
                }
            }
            drop(pipe);
            // Fails only if the shepherd has ended.
            let _ = inbox.send(ended);
        });
        Ok(task.abort_handle())
    }
}
