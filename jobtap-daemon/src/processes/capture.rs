//! The output of a plugin's process, kept up to a limit.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use jobtap_core::host::LineSink;
use jobtap_core::plugin::{OutputLine, Stream};
use tokio::net::unix::pipe::Receiver;

/// How many bytes of a stream are kept. The rest is read and dropped, so that the process does not block
/// on a full pipe.
pub(super) const LIMIT: usize = 1 << 20;

/// How many bytes are read at once.
const CHUNK: usize = 8 * 1024;

/// The capacity of a pipe in bytes, unless an administrator allows more.
const PIPE: usize = 1 << 20;

/// The reading end of a stream.
pub(super) struct Capture {
    pipe: Receiver,
    kept: Vec<u8>,
    lines: Option<Lines>,
}

/// A longer line is split into pieces of this many bytes.
const LINE: usize = 64 * 1024;

/// Splits the output of a stream into lines, for a plugin that handles them as they come.
pub(super) struct Lines {
    sink: LineSink,
    stream: Stream,
    begun: Vec<u8>,
}

impl Lines {
    /// Sends the lines of this stream to this sink.
    pub(super) fn new(sink: LineSink, stream: Stream) -> Self {
        Self { sink, stream, begun: Vec::new() }
    }

    fn feed(&mut self, bytes: &[u8]) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            match piece.strip_suffix(b"\n") {
                Some(end) => {
                    self.begun.extend_from_slice(end);
                    self.send();
                }
                None => self.begun.extend_from_slice(piece),
            }
            if self.begun.len() >= LINE {
                self.send();
            }
        }
    }

    fn send(&mut self) {
        let text = String::from_utf8_lossy(&self.begun).into_owned();
        self.begun.clear();
        self.sink.send(OutputLine { stream: self.stream, text });
    }
}

/// Hands over the last line, which may not end in a newline.
impl Drop for Lines {
    fn drop(&mut self) {
        if !self.begun.is_empty() {
            self.send();
        }
    }
}

impl Capture {
    /// Makes a stream. Returns its reading end, and the other end for the process.
    pub(super) fn pipe(lines: Option<Lines>) -> io::Result<(Self, Stdio)> {
        let (reader, writer) = io::pipe()?;
        let pipe = Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok((Self { pipe, kept: Vec::new(), lines }, Stdio::from(writer)))
    }

    /// Reads until the last writer has closed the pipe.
    pub(super) async fn read(&mut self) {
        while self.pipe.readable().await.is_ok() {
            let mut chunk = [0; CHUNK];
            match self.pipe.try_read(&mut chunk) {
                Ok(0) => return,
                Ok(n) => self.keep(chunk.get(..n).unwrap_or_default()),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(_) => return,
            }
        }
    }

    /// The bytes that were kept, with those in the pipe at this moment. Does not wait for processes that
    /// still have the pipe open.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let mut chunk = [0; CHUNK];
        let mut left = PIPE;
        while left > 0 {
            // Not through the runtime, which may not have seen yet that the pipe is readable.
            match rustix::io::read(&self.pipe, &mut chunk) {
                Ok(0) | Err(_) => break,
                Ok(n) => {
                    self.keep(chunk.get(..n).unwrap_or_default());
                    left = left.saturating_sub(n);
                }
            }
        }
        self.kept
    }

    fn keep(&mut self, bytes: &[u8]) {
        if let Some(lines) = &mut self.lines {
            lines.feed(bytes);
        }
        let room = LIMIT.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn capture() -> (Capture, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        let pipe = Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap();
        (Capture { pipe, kept: Vec::new(), lines: None }, writer)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap()
    }

    #[test]
    fn all_up_to_the_limit_is_kept_and_all_is_read() {
        runtime().block_on(async {
            let (mut capture, mut writer) = capture();
            // The writer can end only if everything is read.
            let writing = std::thread::spawn(move || writer.write_all(&[b'x'; 3 * LIMIT]));
            capture.read().await;
            writing.join().unwrap().unwrap();
            assert_eq!(capture.finish().len(), LIMIT);
        });
    }

    #[test]
    fn output_is_complete_though_a_process_still_has_the_pipe() {
        runtime().block_on(async {
            let (capture, mut writer) = capture();
            writer.write_all(b"last words").unwrap();
            assert_eq!(capture.finish(), b"last words");
            drop(writer);
        });
    }
}
