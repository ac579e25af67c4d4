//! The requests that wait for a response from the engine.

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll};

use jobtap_core::engine::{ReplyTo, RequestError};
use rustc_hash::FxHashMap;
use serde_json::Value;
use tokio::sync::{mpsc, oneshot};

use super::intake::Source;
use crate::rpc::errno::{EAGAIN, ENODATA, EOVERFLOW};
use crate::rpc::{RpcError, RpcResult};

/// The maximum number of responses of a stream that may wait for a slow client. They take up the manager's memory, so
/// the stream of a client that is slower still is ended.
const WAITING_RESPONSES: usize = 64 * 1024;
/// The approximate maximum of their bytes.
const WAITING_BYTES: usize = 4 << 20;

/// Requests that wait for a response from the engine.
#[derive(Default)]
pub(in crate::daemon) struct Replies {
    next: AtomicU64,
    waiting: Mutex<FxHashMap<ReplyTo, Waiting>>,
    /// Requests whose responses go to their connections without a task that waits for them.
    direct: Mutex<FxHashMap<ReplyTo, Direct>>,
}

/// Takes the one response to a request. Called on the committing thread, so it must not wait.
pub(in crate::daemon) type Respond = Box<dyn FnOnce(RpcResult) + Send>;

/// A request whose response goes straight to its connection.
struct Direct {
    connection: Source,
    respond: Respond,
}

enum Waiting {
    One(oneshot::Sender<RpcResult>),
    Many(mpsc::Sender<Step>, Arc<AtomicUsize>),
}

/// What a stream carries.
enum Step {
    One(Value),
    Last(RpcResult),
}

impl Replies {
    /// Registers a request that gets one response.
    pub(in crate::daemon) fn one(self: &Arc<Self>) -> Reply {
        let (sender, response) = oneshot::channel();
        Reply { to: self.insert(Waiting::One(sender)), response, replies: Arc::clone(self) }
    }

    /// Registers a request whose one response is given to `respond`, unless the connection [ends](Self::forget) before.
    pub(in crate::daemon) fn direct(&self, connection: Source, respond: Respond) -> ReplyTo {
        let to = ReplyTo(self.next.fetch_add(1, Ordering::Relaxed));
        lock(&self.direct).insert(to, Direct { connection, respond });
        to
    }

    /// Fails a direct request, since the engine has ended.
    pub(in crate::daemon) fn refuse(&self, to: ReplyTo) {
        let direct = lock(&self.direct).remove(&to);
        if let Some(direct) = direct {
            (direct.respond)(Err(shutting_down()));
        }
    }

    /// Drops the direct requests of a connection that has ended.
    pub(in crate::daemon) fn forget(&self, connection: Source) {
        let mut direct = lock(&self.direct);
        // Each command opens a connection, and most have no open request when they close it.
        if direct.is_empty() {
            return;
        }
        let dropped = direct.extract_if(|_, request| request.connection == connection);
        let dropped: Vec<_> = dropped.collect();
        // Outside of the lock, since `respond` may own anything.
        drop(direct);
        drop(dropped);
    }

    /// Registers a request that gets any number of responses. Dropping the [`ReplyStream`] removes it, and calls
    /// `abandoned` if more responses could have come.
    pub(in crate::daemon) fn many(
        self: &Arc<Self>,
        abandoned: impl Fn(ReplyTo) + Send + 'static,
    ) -> ReplyStream {
        let (sender, steps) = mpsc::channel(WAITING_RESPONSES);
        let bytes = Arc::<AtomicUsize>::default();
        let to = self.insert(Waiting::Many(sender, Arc::clone(&bytes)));
        let (replies, abandoned) = (Arc::clone(self), Box::new(abandoned));
        ReplyStream { to, steps, bytes, last: None, replies, abandoned }
    }

    fn insert(&self, waiting: Waiting) -> ReplyTo {
        let to = ReplyTo(self.next.fetch_add(1, Ordering::Relaxed));
        self.lock().insert(to, waiting);
        to
    }

    /// Removes a request, and returns whether it still waited for a response.
    pub(in crate::daemon) fn remove(&self, to: ReplyTo) -> bool {
        self.lock().remove(&to).is_some()
    }

    /// Sends one response of a stream.
    pub(in crate::daemon) fn respond(&self, to: ReplyTo, payload: Value) {
        let mut waiting = self.lock();
        let Some(Waiting::Many(sender, bytes)) = waiting.get(&to) else {
            return;
        };
        let before = bytes.fetch_add(size(&payload), Ordering::AcqRel);
        // The last free place is reserved for the error that ends the stream.
        let fits = sender.capacity() > 1 && before < WAITING_BYTES;
        let step = if fits { Step::One(payload) } else { Step::Last(Err(too_slow())) };
        if sender.try_send(step).is_err() || !fits {
            waiting.remove(&to);
        }
    }

    /// Sends the last or only response, if the request still waits for it.
    pub(in crate::daemon) fn finish(&self, to: ReplyTo, result: Result<Value, RequestError>) {
        let result = result.map_err(refusal);
        // In a statement of its own, so that the lock is released before the response is given.
        let direct = lock(&self.direct).remove(&to);
        if let Some(direct) = direct {
            return (direct.respond)(result);
        }
        match self.lock().remove(&to) {
            Some(Waiting::One(sender)) => drop(sender.send(result)),
            Some(Waiting::Many(sender, _)) => drop(sender.try_send(Step::Last(result))),
            None => {}
        }
    }

    /// Fails all requests that wait, since the engine has ended.
    pub(in crate::daemon) fn close(&self) {
        self.lock().clear();
        let direct = std::mem::take(&mut *lock(&self.direct));
        direct.into_values().for_each(|direct| (direct.respond)(Err(shutting_down())));
    }

    fn lock(&self) -> MutexGuard<'_, FxHashMap<ReplyTo, Waiting>> {
        lock(&self.waiting)
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The one response to a request. Dropping it removes the request.
pub(in crate::daemon) struct Reply {
    pub(in crate::daemon) to: ReplyTo,
    response: oneshot::Receiver<RpcResult>,
    replies: Arc<Replies>,
}

impl Future for Reply {
    type Output = Result<RpcResult, oneshot::error::RecvError>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut self.response).poll(cx)
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        self.replies.remove(self.to);
    }
}

/// The responses to a request, as they come.
pub(in crate::daemon) struct ReplyStream {
    pub(in crate::daemon) to: ReplyTo,
    steps: mpsc::Receiver<Step>,
    /// Bytes of the responses that wait.
    bytes: Arc<AtomicUsize>,
    last: Option<RpcError>,
    replies: Arc<Replies>,
    abandoned: Box<dyn Fn(ReplyTo) + Send>,
}

impl ReplyStream {
    /// The next response. An error is the last one; ENODATA ends a stream that has not failed.
    pub(in crate::daemon) async fn next(&mut self) -> RpcResult {
        if let Some(last) = &self.last {
            return Err(last.clone());
        }
        match self.steps.recv().await {
            Some(Step::One(response)) => {
                self.bytes.fetch_sub(size(&response), Ordering::AcqRel);
                Ok(response)
            }
            Some(Step::Last(Err(error))) => Err(error),
            // A service that responds only once can be called as a stream, too; the stream ends after that.
            Some(Step::Last(Ok(response))) => {
                self.last = Some(RpcError::new(ENODATA, ""));
                Ok(response)
            }
            None => Err(shutting_down()),
        }
    }
}

impl Drop for ReplyStream {
    fn drop(&mut self) {
        if self.replies.remove(self.to) {
            (self.abandoned)(self.to);
        }
    }
}

/// About how many bytes a value takes in memory.
pub(in crate::daemon) fn size(value: &Value) -> usize {
    let inside = match value {
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(size).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + size(value)).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
    };
    inside + size_of::<Value>()
}

/// Converts an engine's refusal for the wire.
pub(in crate::daemon) fn refusal(error: RequestError) -> RpcError {
    let RequestError { errno, text, messages } = error;
    RpcError { errno, text, messages }
}

/// The refusal of a manager that is shutting down.
pub(in crate::daemon) fn shutting_down() -> RpcError {
    RpcError::new(EAGAIN, "the manager is shutting down")
}

fn too_slow() -> RpcError {
    RpcError::new(EOVERFLOW, "answers were lost: they came faster than they were read")
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::Uid;
    use serde_json::json;

    use super::*;

    fn drain(answers: &mut ReplyStream) -> Vec<RpcResult> {
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
        let over = RequestError::new(ENODATA, "");
        replies.finish(answers.to, Err(over));
        replies.respond(answers.to, json!("too late"));
        assert_eq!(drain(&mut answers), [Ok(json!(1)), Ok(json!(2)), end()]);
    }

    #[test]
    fn a_single_answer_is_a_stream_of_one() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        replies.finish(answers.to, Ok(json!(1)));
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
    fn a_direct_response_goes_to_its_connection_while_that_lasts() {
        let replies = Arc::<Replies>::default();
        let (sender, responses) = std::sync::mpsc::channel();
        let client = |connection| Source::Client { user: Uid::new(1), connection };
        let [first, gone, last] = [1, 2, 1].map(|connection| {
            let sender = sender.clone();
            let respond = Box::new(move |result| drop(sender.send((connection, result))));
            replies.direct(client(connection), respond)
        });
        replies.forget(client(2));
        for (to, number) in [(gone, 0), (first, 7), (first, 8)] {
            replies.finish(to, Ok(json!(number)));
        }
        replies.close();
        replies.finish(last, Ok(json!(9)));
        let all: Vec<_> = responses.try_iter().collect();
        assert_eq!(all, [(1, Ok(json!(7))), (1, Err(shutting_down()))]);
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
        replies.finish(to, Ok(json!(2)));
        assert!(replies.lock().is_empty());
    }

    #[test]
    fn who_reads_too_slowly_is_told_so() {
        let replies = Arc::<Replies>::default();
        let mut answers = replies.many(|_| ());
        for number in 0..2 * WAITING_RESPONSES {
            replies.respond(answers.to, json!(number));
        }
        assert!(replies.lock().is_empty());
        let all = drain(&mut answers);
        assert!(all.len() <= WAITING_RESPONSES);
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
        // Any number of responses arrives when they are read as they come.
        for _ in 0..4 {
            (0..3).for_each(|_| replies.respond(ReplyTo(0), json!({ "text": long })));
            assert_eq!(read(3), 3);
        }
        (0..100).for_each(|_| replies.respond(ReplyTo(0), json!([[long]])));
        assert!(read(100) <= 5);
    }
}
