//! What a plugin's process prints, kept up to a limit.

use std::io;
use std::os::fd::OwnedFd;
use std::process::Stdio;

use tokio::net::unix::pipe::Receiver;

/// What is kept of one stream, in bytes; the rest is read and dropped, so that the process isn't
/// held up.
pub(super) const LIMIT: usize = 1 << 20;

/// What is read at once.
const CHUNK: usize = 8 * 1024;

/// What a pipe can hold at most, unless an administrator allows more.
const PIPE: usize = 1 << 20;

/// The reading end of a stream.
pub(super) struct Capture {
    pipe: Receiver,
    kept: Vec<u8>,
}

impl Capture {
    /// A stream with its other end.
    pub(super) fn pipe() -> io::Result<(Self, Stdio)> {
        let (reader, writer) = io::pipe()?;
        let pipe = Receiver::from_owned_fd(OwnedFd::from(reader))?;
        Ok((Self { pipe, kept: Vec::new() }, Stdio::from(writer)))
    }

    /// Reads until the last writer is gone.
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

    /// All that was kept, with what is in the pipe at this moment. Who still writes is not waited
    /// for.
    pub(super) fn finish(mut self) -> Vec<u8> {
        let mut chunk = [0; CHUNK];
        let mut left = PIPE;
        while left > 0 {
            // Not through the runtime, which may not have noticed yet that something came.
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
        let room = LIMIT.saturating_sub(self.kept.len()).min(bytes.len());
        self.kept.extend_from_slice(bytes.get(..room).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use std::io::Write;

    use super::*;

    fn capture() -> (Capture, io::PipeWriter) {
        let (reader, writer) = io::pipe().unwrap();
        let pipe = Receiver::from_owned_fd(OwnedFd::from(reader)).unwrap();
        (Capture { pipe, kept: Vec::new() }, writer)
    }

    fn runtime() -> tokio::runtime::Runtime {
        tokio::runtime::Builder::new_current_thread().enable_io().build().unwrap()
    }

    #[test]
    fn all_up_to_the_limit_is_kept_and_all_is_read() {
        runtime().block_on(async {
            let (mut capture, mut writer) = capture();
            // Ends only if everything is read.
            let writing = std::thread::spawn(move || writer.write_all(&[b'x'; 3 * LIMIT]));
            capture.read().await;
            writing.join().unwrap().unwrap();
            assert_eq!(capture.finish().len(), LIMIT);
        });
    }

    #[test]
    fn what_was_written_is_there_though_somebody_still_has_the_pipe() {
        runtime().block_on(async {
            let (capture, mut writer) = capture();
            writer.write_all(b"last words").unwrap();
            assert_eq!(capture.finish(), b"last words");
            drop(writer);
        });
    }
}
