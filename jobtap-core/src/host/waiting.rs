//! What futures of plugins wait with, without an async runtime: one value from the manager's thread,
//! and the first of two.

use std::fmt;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

/// The plugin was unloaded, or the manager stopped, before the answer came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the plugin was unloaded or the manager stopped")]
pub struct Gone;

/// Which of two futures was first.
pub(crate) enum Either<A, B> {
    First(A),
    Second(B),
}

/// Waits for the first of two futures; the other one is dropped.
pub(crate) async fn race<A: Future, B: Future>(a: A, b: B) -> Either<A::Output, B::Output> {
    let (mut a, mut b) = (pin!(a), pin!(b));
    std::future::poll_fn(move |cx| {
        if let Poll::Ready(output) = a.as_mut().poll(cx) {
            return Poll::Ready(Either::First(output));
        }
        b.as_mut().poll(cx).map(Either::Second)
    })
    .await
}

/// One value from the manager's thread to a waiting future, without an async runtime.
pub(crate) fn oneshot<R>() -> (Answer<R>, Waiting<R>) {
    let shared = Arc::new(Mutex::new(Slot { value: None, closed: false, waker: None }));
    (Answer(Arc::clone(&shared)), Waiting(shared))
}

struct Slot<R> {
    value: Option<R>,
    closed: bool,
    waker: Option<Waker>,
}

pub(crate) struct Answer<R>(Arc<Mutex<Slot<R>>>);

impl<R> Answer<R> {
    pub(crate) fn send(self, value: R) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).value = Some(value);
    }
}

impl<R> Drop for Answer<R> {
    fn drop(&mut self) {
        let waker = {
            let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            slot.closed = true;
            slot.waker.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

pub(crate) struct Waiting<R>(Arc<Mutex<Slot<R>>>);

impl<R> Future for Waiting<R> {
    type Output = Result<R, Gone>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut slot = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(value) = slot.value.take() {
            return Poll::Ready(Ok(value));
        }
        if slot.closed {
            return Poll::Ready(Err(Gone));
        }
        slot.waker = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl<R> fmt::Debug for Waiting<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Waiting")
    }
}
