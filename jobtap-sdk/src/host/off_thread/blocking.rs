//! Long computations of plugins, which a host runs on a thread that nothing else waits for.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};

use futures_channel::oneshot;

use crate::host::careful::Careful;
use crate::host::errors::failure::{Gone, panic_text};

/// Why the work of [`Remote::blocking`](crate::plugin::Remote::blocking) has no result.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BlockingError {
    /// The work panicked, with this message.
    #[error("panicked: {0}")]
    Panicked(String),
    /// The host has no thread for it: the system refuses one, or none has become free for a long time. The
    /// text says which.
    #[error("no thread for it: {0}")]
    NoThread(String),
    /// The plugin was removed or the manager stopped.
    #[error(transparent)]
    Gone(#[from] Gone),
}

/// A closure that a host runs on a thread of its own. Dropping it ends the wait for its result with
/// [`Gone`].
pub struct BlockingWork {
    job: Box<dyn Job>,
    plugin: Arc<str>,
    awaited: Awaited,
}

/// Whether anything still waits for the result of some work. A host keeps this while the work runs: it
/// gives up a thread whose result nothing waits for, since it can't stop it.
#[derive(Debug, Clone)]
pub struct Awaited(Weak<()>);

impl Awaited {
    /// Whether anything still waits for the result.
    pub fn holds(&self) -> bool {
        self.0.strong_count() > 0
    }
}

/// A closure, and the channel for its result.
trait Job: Send {
    fn run(self: Box<Self>);
    fn fail(self: Box<Self>, error: BlockingError);
}

struct Answered<W, R> {
    work: Careful<W>,
    answer: oneshot::Sender<Result<R, BlockingError>>,
}

impl<R: Send, W: FnOnce() -> R + Send> Job for Answered<W, R> {
    fn run(self: Box<Self>) {
        let Self { work, answer } = *self;
        let Some(work) = work.take() else { return };
        // What the closure owns is dropped by the unwinding, and nothing else can be seen half changed.
        let result = catch_unwind(AssertUnwindSafe(work));
        let result = result.map_err(|panic| BlockingError::Panicked(panic_text(&*panic)));
        // Fails when nothing waits any more, which needs no result.
        if let Err(unread) = answer.send(result) {
            drop(Careful::new(unread));
        }
    }

    fn fail(self: Box<Self>, error: BlockingError) {
        let _ = self.answer.send(Err(error));
    }
}

impl BlockingWork {
    /// Pairs work of this plugin with a future of its result.
    pub fn new<R: Send + 'static>(
        plugin: Arc<str>,
        work: impl FnOnce() -> R + Send + 'static,
    ) -> (Self, impl Future<Output = Result<R, BlockingError>> + Send) {
        let (answer, result) = oneshot::channel();
        let waits = Arc::new(());
        let awaited = Awaited(Arc::downgrade(&waits));
        let result = async move {
            let _waits = waits;
            result.await.map_err(|_| Gone)?
        };
        (
            Self { job: Box::new(Answered { work: Careful::new(work), answer }), plugin, awaited },
            result,
        )
    }

    /// The name of the plugin whose work it is.
    pub fn plugin(&self) -> &Arc<str> {
        &self.plugin
    }

    /// Whether anything still waits for the result. If not, a host skips the work.
    pub fn awaited(&self) -> &Awaited {
        &self.awaited
    }

    /// Does the work, and passes its result on. A panic is caught.
    pub fn run(self) {
        self.job.run();
    }

    /// Reports that there is no thread for the work, and why.
    pub fn refuse(self, reason: impl Into<String>) {
        self.job.fail(BlockingError::NoThread(reason.into()));
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
    /// Drop the work of the plugin, which was removed, as far as it has not begun.
    DropAll,
}
