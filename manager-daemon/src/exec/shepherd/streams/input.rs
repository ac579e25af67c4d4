//! Standard input that clients send while a job runs.
//!
//! It is stored in a file of the state directory, in the form of `guest.input` (RFC 24), from which
//! each task is served at its own pace: input that a task doesn't read takes disk space, not memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::os::fd::{AsRawFd, OwnedFd};

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
    file: File,
    redirected: bool,
    grown: watch::Sender<()>,
}

impl JobInput {
    /// The input of `ntasks` tasks, in a new file.
    pub(in crate::exec::shepherd) fn new(mut file: File, ntasks: u32) -> io::Result<Self> {
        let context = json!({
            "version": 1,
            "encoding": {"stdin": "base64"},
            "count": {"stdin": ntasks},
            "options": {},
        });
        file.write_all(&line("header", context)?)?;
        Ok(Self { file, redirected: false, grown: watch::Sender::new(()) })
    }

    /// Records that all tasks read the file `path` themselves.
    pub(in crate::exec::shepherd) fn redirect(&mut self, path: &str) -> io::Result<()> {
        self.redirected = true;
        let context = json!({"stream": "stdin", "rank": ALL, "path": path});
        self.file.write_all(&line("redirect", context)?)
    }

    /// Adds input for one task, or for all if `rank` is `None`. Ignored if the tasks read a file.
    pub(in crate::exec::shepherd) fn add(
        &mut self,
        rank: Option<u32>,
        data: &[u8],
        eof: bool,
    ) -> io::Result<()> {
        if self.redirected {
            return Ok(());
        }
        let context = Context {
            stream: "stdin".to_owned(),
            rank: rank.map_or_else(|| ALL.to_owned(), |rank| rank.to_string()),
            encoding: "base64".to_owned(),
            data: encode_data(data),
            eof,
        };
        self.file.write_all(&line("data", context)?)?;
        self.grown.send_replace(());
        Ok(())
    }

    /// Serves the task with rank `rank`, which reads from the other end of `pipe`.
    pub(in crate::exec::shepherd) fn serve(
        &self,
        rank: u32,
        pipe: PipeWriter,
    ) -> io::Result<AbortHandle> {
        let mut pipe = Sender::from_owned_fd(OwnedFd::from(pipe))?;
        // Opened through the descriptor: the name may refer to another file by now. The new description
        // has its own offset.
        let same = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let file = OpenFiles::of_this_process().apart(File::open(same)?);
        let mut entries = BufReader::new(file);
        let mut grown = self.grown.subscribe();
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
}
