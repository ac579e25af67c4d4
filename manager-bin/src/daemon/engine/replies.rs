//! Who waits for which answer of the engine.

use std::collections::HashMap;
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use jobtap_core::engine::{ReplyTo, RequestError};
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use crate::rpc::errno::{EAGAIN, ENODATA, EOVERFLOW};
use crate::rpc::{RpcError, RpcResult};

/// Answers of a stream that may wait for a slow reader. One that is slower still is cut off: what
/// waits is in the manager's memory.
const WAITING_ANSWERS: usize = 64 * 1024;
/// The same in bytes, about.
const WAITING_BYTES: usize = 4 << 20;

/// Requests that wait for the engine's answer.
#[derive(Default)]
pub(in crate::daemon) struct Replies {
    next: AtomicU64,
    waiting: Mutex<HashMap<ReplyTo, Waiting>>,
}

enum Waiting {
    One(oneshot::Sender<RpcResult>),
    Many(mpsc::Sender<Step>, Arc<AtomicUsize>),
}

/// What comes in a stream.
enum Step {
    One(Value),
    Last(RpcResult),
}

impl Replies {
    /// Somebody waits for one answer.
    pub(in crate::daemon) fn one(self: &Arc<Self>) -> Reply {
        let (sender, answer) = oneshot::channel();
        Reply { to: self.insert(Waiting::One(sender)), answer, replies: Arc::clone(self) }
    }

    /// Somebody waits for many answers. He is forgotten when he drops the [`Answers`]; if more could
    /// have come, `abandoned` is told.
    pub(in crate::daemon) fn many(
        self: &Arc<Self>,
        abandoned: impl Fn(ReplyTo) + Send + 'static,
    ) -> Answers {
        let (sender, steps) = mpsc::channel(WAITING_ANSWERS);
        let bytes = Arc::<AtomicUsize>::default();
        let to = self.insert(Waiting::Many(sender, Arc::clone(&bytes)));
        let (replies, abandoned) = (Arc::clone(self), Box::new(abandoned));
        Answers { to, steps, bytes, last: None, replies, abandoned }
    }

    fn insert(&self, waiting: Waiting) -> ReplyTo {
        let to = ReplyTo(self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(to, waiting);
        to
    }

    /// Nobody will answer any more; says whether an answer was still owed.
    pub(in crate::daemon) fn forget(&self, to: ReplyTo) -> bool {
        self.lock().remove(&to).is_some()
    }

    /// One answer of a stream.
    pub(in crate::daemon) fn respond(&self, to: ReplyTo, payload: Value) {
        let mut waiting = self.lock();
        let Some(Waiting::Many(sender, bytes)) = waiting.get(&to) else {
            return;
        };
        let before = bytes.fetch_add(size(&payload), Ordering::AcqRel);
        // The last free place is for the reason why no more will come.
        let fits = sender.capacity() > 1 && before < WAITING_BYTES;
        let step = if fits { Step::One(payload) } else { Step::Last(Err(too_slow())) };
        if sender.try_send(step).is_err() || !fits {
            waiting.remove(&to);
        }
    }

    /// The last or only answer, to the one who waits, if he still does.
    pub(in crate::daemon) fn answer(&self, to: ReplyTo, result: Result<Value, RequestError>) {
        let result = result.map_err(|error| RpcError::new(error.errno, error.text));
        match self.lock().remove(&to) {
            Some(Waiting::One(sender)) => drop(sender.send(result)),
            Some(Waiting::Many(sender, _)) => drop(sender.try_send(Step::Last(result))),
            None => {}
        }
    }

    /// The engine has ended: those who still wait hear that.
    pub(in crate::daemon) fn close(&self) {
        self.lock().clear();
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ReplyTo, Waiting>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The one answer to a request. Dropped, it is not waited for any more.
pub(in crate::daemon) struct Reply {
    pub(in crate::daemon) to: ReplyTo,
    answer: oneshot::Receiver<RpcResult>,
    replies: Arc<Replies>,
}

impl Future for Reply {
    type Output = Result<RpcResult, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.answer).poll(cx)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.replies.forget(self.to);
    }
}

/// The answers to one request, as they come.
pub(in crate::daemon) struct Answers {
    pub(in crate::daemon) to: ReplyTo,
    steps: mpsc::Receiver<Step>,
    /// Of the answers that wait.
    bytes: Arc<AtomicUsize>,
    last: Option<RpcError>,
    replies: Arc<Replies>,
    abandoned: Box<dyn Fn(ReplyTo) + Send>,
}

impl Answers {
    /// The next answer; the error that ends them is ENODATA when all is well.
    pub(in crate::daemon) async fn next(&mut self) -> RpcResult {
        if let Some(last) = &self.last {
            return Err(last.clone());
        }
        match self.steps.recv().await {
            Some(Step::One(answer)) => {
                self.bytes.fetch_sub(size(&answer), Ordering::AcqRel);
                Ok(answer)
            }
            Some(Step::Last(Err(error))) => Err(error),
            // A service that answers once does so to those too who would take more.
            Some(Step::Last(Ok(answer))) => {
                self.last = Some(RpcError::new(ENODATA, ""));
                Ok(answer)
            }
            None => Err(shutting_down()),
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        if self.replies.forget(self.to) {
            (self.abandoned)(self.to);
        }
    }
}

/// About what a value takes in memory.
fn size(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inside + size_of::<Value>()
}

/// The answer of a manager that ends.
pub(in crate::daemon) fn shutting_down() -> RpcError {
    RpcError::new(EAGAIN, "the manager is shutting down")
}

fn too_slow() -> RpcError {
    RpcError::new(EOVERFLOW, "answers were lost: they came faster than they were read")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drain(answers: &mut Answers) -> Vec<RpcResult> {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let mut all = Vec::new();
        loop {
            let next = runtime.block_on(answers.next());
            let last = next.is_err();
            all.push(next);
            if last {
                return all;
            }
        }
    }

    fn end() -> RpcResult {
        Err(RpcError::new(ENODATA, ""))
    }

    #[test]
    fn a_stream_has_its_answers_in_order_and_ends() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        replies.respond(answers.to, json!(1));
        replies.respond(answers.to, json!(2));
        let over = RequestError { errno: ENODATA, text: String::new() };
        replies.answer(answers.to, Err(over));
        replies.respond(answers.to, json!("too late"));
        assert_eq!(drain(&mut answers), [Ok(json!(1)), Ok(json!(2)), end()]);
    }

    #[test]
    fn a_single_answer_is_a_stream_of_one() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        replies.answer(answers.to, Ok(json!(1)));
        assert_eq!(drain(&mut answers), [Ok(json!(1)), end()]);
    }

    #[test]
    fn who_waits_for_an_engine_that_ended_hears_it() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        let one = replies.one();
        replies.close();
        assert_eq!(drain(&mut answers), [Err(shutting_down())]);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        assert!(runtime.block_on(one).is_err());
    }

    #[test]
    fn who_has_left_is_forgotten() {
        let replies = Arc::<Replies>::default();
        let (answers, one) = (replies.many(|_| ()), replies.one());
        let to = answers.to;
        drop(answers);
        drop(one);
        assert!(replies.lock().is_empty());
        replies.respond(to, json!(1));
        replies.answer(to, Ok(json!(2)));
        assert!(replies.lock().is_empty());
    }

    #[test]
    fn who_reads_too_slowly_is_told_so() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        for number in 0..2 * WAITING_ANSWERS {
            replies.respond(answers.to, json!(number));
        }
        assert!(replies.lock().is_empty());
        let all = drain(&mut answers);
        assert!(all.len() <= WAITING_ANSWERS);
        assert_eq!(all.last().unwrap().as_ref().unwrap_err().errno, EOVERFLOW);
    }

    #[test]
    fn long_answers_wait_up_to_a_bound_of_bytes() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        let long = "x".repeat(1 << 20);
        let mut read = |count: usize| {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            (0..count).map(|_| runtime.block_on(answers.next())).filter(Result::is_ok).count()
        };
        // Read as they come, any number arrives.
        for _ in 0..4 {
            (0..3).for_each(|_| replies.respond(ReplyTo(0), json!({ "text": long })));
            assert_eq!(read(3), 3);
        }
        (0..100).for_each(|_| replies.respond(ReplyTo(0), json!([[long]])));
        assert!(read(100) <= 5);
    }
}
