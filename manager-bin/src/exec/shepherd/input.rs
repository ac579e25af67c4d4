//! Standard input that clients send while a job runs.
//!
//! It is kept in a file of the state directory, in the form of `guest.input` (RFC 24), from which
//! every task is served at its own pace: a task that doesn't read costs disk, not memory.

use std::fs::File;
use std::io::{self, BufRead, BufReader, PipeWriter, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::pipe::Sender;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::output::private;
use super::timestamp;
use crate::exec::protocol::{decode_data, encode_data};

/// The rank that stands for all tasks.
const ALL: &str = "all";

#[derive(Serialize, Deserialize)]
struct Entry {
    timestamp: f64,
    name: String,
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

/// The input of one job.
pub(super) struct JobInput {
    path: PathBuf,
    file: File,
    grown: watch::Sender<()>,
}

impl JobInput {
    /// Makes the file that the input is kept in.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let file = private(path)?;
        Ok(Self { path: path.to_owned(), file, grown: watch::Sender::new(()) })
    }

    /// Adds input for one task, or for all.
    pub(super) fn add(&mut self, rank: Option<u32>, data: &[u8], eof: bool) -> io::Result<()> {
        let context = Context {
            stream: "stdin".to_owned(),
            rank: rank.map_or_else(|| ALL.to_owned(), |rank| rank.to_string()),
            encoding: "base64".to_owned(),
            data: encode_data(data),
            eof,
        };
        let entry = Entry { timestamp: timestamp(), name: "data".to_owned(), context };
        let mut line = serde_json::to_vec(&entry)?;
        line.push(b'\n');
        self.file.write_all(&line)?;
        self.grown.send_replace(());
        Ok(())
    }

    /// Serves the task ranked `rank`, whose input is read from the other end of `pipe`.
    pub(super) fn serve(&self, rank: u32, pipe: PipeWriter) -> io::Result<AbortHandle> {
        let mut pipe = Sender::from_owned_fd(OwnedFd::from(pipe))?;
        let mut entries = BufReader::new(File::open(&self.path)?);
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
                let Ok(entry) = serde_json::from_slice::<Entry>(&line) else {
                    continue;
                };
                let Context { rank: to, data, eof, .. } = entry.context;
                if to != ALL && to != rank {
                    continue;
                }
                // A task that closed its input or is gone wants nothing more.
                if pipe.write_all(&decode_data(&data).unwrap_or_default()).await.is_err() || eof {
                    return;
                }
            }
        });
        Ok(task.abort_handle())
    }
}
