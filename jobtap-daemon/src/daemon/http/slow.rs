//! A socket whose client must read: the connection ends if the client reads nothing for too long.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// How long a client may go without reading anything of what is written to it.
const PATIENCE: Duration = Duration::from_secs(60);

/// A socket that gives up on a client that does not read, and notes when anything is read or written.
pub(super) struct Patient<S, F> {
    socket: S,
    moved: F,
    /// Runs while a write waits for the client.
    waiting: Option<Pin<Box<Sleep>>>,
}

impl<S, F: Fn()> Patient<S, F> {
    pub(super) fn new(socket: S, moved: F) -> Self {
        Self { socket, moved, waiting: None }
    }

    /// Returns the result of an attempt to write, or an error if the client has not read for too long.
    fn outcome<T>(
        &mut self,
        context: &mut Context<'_>,
        attempt: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if attempt.is_ready() {
            self.waiting = None;
            (self.moved)();
            return attempt;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
        ready!(waiting.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin, F: Fn() + Unpin> AsyncRead for Patient<S, F> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.socket).poll_read(context, buffer);
        if read.is_ready() {
            (self.moved)();
        }
        read
    }
}

impl<S: AsyncWrite + Unpin, F: Fn() + Unpin> AsyncWrite for Patient<S, F> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.socket).poll_write(context, bytes);
        self.outcome(context, attempt)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let attempt = Pin::new(&mut self.socket).poll_write_vectored(context, bytes);
        self.outcome(context, attempt)
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Says nothing about the client: a socket has nothing to flush.
        Pin::new(&mut self.socket).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let attempt = Pin::new(&mut self.socket).poll_shutdown(context);
        self.outcome(context, attempt)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    fn paused() -> tokio::runtime::Runtime {
        let mut builder = tokio::runtime::Builder::new_current_thread();
        builder.enable_all().build().unwrap()
    }

    #[test]
    fn a_client_that_does_not_read_is_given_up() {
        paused().block_on(async {
            let (here, _there) = tokio::io::duplex(4);
            let mut patient = Patient::new(here, || {});
            let written = patient.write_all(b"more than four bytes");
            // Before the time is up, nothing happens.
            let early = tokio::time::timeout(Duration::from_millis(20), written).await;
            assert!(early.is_err());
            assert!(patient.waiting.is_some());
            patient.waiting = Some(Box::pin(sleep(Duration::ZERO)));
            let error = patient.write_all(b"x").await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        });
    }
}
