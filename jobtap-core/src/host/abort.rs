//! Work that is dropped when nothing waits for it any more.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// Ends a future from outside. Dropping this does nothing.
#[derive(Debug, Clone, Default)]
pub struct AbortHandle(Arc<Mutex<Abort>>);

#[derive(Debug, Default)]
struct Abort {
    asked: bool,
    waker: Option<Waker>,
}

impl AbortHandle {
    /// Drops the future the next time that it would be polled, which is soon.
    pub fn abort(&self) {
        let waker = {
            let mut abort = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            abort.asked = true;
            abort.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    /// Whether it is to be dropped; else `waker` is called when that is so.
    fn is_asked(&self, waker: &Waker) -> bool {
        let mut abort = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !abort.asked {
            abort.waker = Some(waker.clone());
        }
        abort.asked
    }
}

/// A future that an [`AbortHandle`] can end.
pub(crate) struct Abortable<F> {
    future: Option<Pin<Box<F>>>,
    handle: AbortHandle,
}

impl<F: Future> Abortable<F> {
    pub(crate) fn new(future: F, handle: AbortHandle) -> Self {
        Self { future: Some(Box::pin(future)), handle }
    }
}

impl<F: Future> Future for Abortable<F> {
    /// `None` when it was ended from outside.
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.handle.is_asked(cx.waker()) {
            self.future = None;
        }
        match self.future.as_mut() {
            None => Poll::Ready(None),
            Some(future) => future.as_mut().poll(cx).map(Some),
        }
    }
}
