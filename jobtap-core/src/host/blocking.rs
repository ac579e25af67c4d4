//! Work of plugins that computes for long, as a host runs it: on a thread that nothing else waits for.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};

use futures_channel::oneshot;

use super::failure::{Gone, panic_text};

/// Why the work of [`Remote::blocking`](crate::plugin::Remote::blocking) has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockingError {
    /// The work panicked, with this message.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The host has no thread for it; the text is the system's.
    #[error("no thread can be started: {0}")]
    NoThread(String),
    /// The plugin was removed or the manager stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A closure that a host runs on a thread of its own. Dropping it ends the wait for its result with
/// [`Gone`].
pub struct BlockingWork(Box<dyn Job>);

/// A closure, and the way back for its result.
trait Job: Send {
    fn is_awaited(&self) -> bool;
    fn run(self: Box<Self>);
    fn fail(self: Box<Self>, error: BlockingError);
}

struct Answered<W, R> {
    work: W,
    answer: oneshot::Sender<Result<R, BlockingError>>,
}

impl<R: Send, W: FnOnce() -> R + Send> Job for Answered<W, R> {
    fn is_awaited(&self) -> bool {
        !self.answer.is_canceled()
    }

    fn run(self: Box<Self>) {
        let Self { work, answer } = *self;
        // What the closure owns is dropped by the unwinding, and nothing else can be seen half changed.
        let result = catch_unwind(AssertUnwindSafe(work));
        let result = result.map_err(|panic| BlockingError::Panicked(panic_text(&*panic)));
        // Fails when nothing waits any more, which needs no result.
        let _ = answer.send(result);
    }

    fn fail(self: Box<Self>, error: BlockingError) {
        let _ = self.answer.send(Err(error));
    }
}

impl BlockingWork {
    /// Pairs the work with a future of its result.
    pub fn new<R: Send + 'static>(
        work: impl FnOnce() -> R + Send + 'static,
    ) -> (Self, impl Future<Output = Result<R, BlockingError>> + Send) {
        let (answer, result) = oneshot::channel();
        let result = async { result.await.map_err(|_| Gone)? };
        (Self(Box::new(Answered { work, answer })), result)
    }

    /// Whether the result is still waited for. A host leaves out work that isn't.
    pub fn is_awaited(&self) -> bool {
        self.0.is_awaited()
    }

    /// Does the work, and passes its result on. A panic is caught.
    pub fn run(self) {
        self.0.run();
    }

    /// Tells that there is no thread for the work.
    pub fn refuse(self, reason: impl Into<String>) {
        self.0.fail(BlockingError::NoThread(reason.into()));
    }
}

impl fmt::Debug for BlockingWork {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("BlockingWork")
    }
}

/// A host command about work on threads.
#[derive(Debug)]
pub enum BlockingCommand {
    /// Run this. A host may run as many at once as it has threads for, and the others later.
    Run(BlockingWork),
    /// Drop what the plugin has asked for and what has not begun: it was removed.
    DropAll,
}
