//! The one thread that owns the engine, and the handle by which others reach it.
//!
//! Each turn takes what has arrived, lets the engine work on it, and hands all writes and effects of
//! the turn to the store as one batch. What was read in a turn is delivered with that batch too: an
//! answer never shows what is not durable yet.

pub(super) mod intake;
pub(super) mod pulse;
pub(super) mod replies;
pub(super) mod timers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use jobtap_core::engine::{Cred, Effect, Effects, Engine, Input, Request, RequestError, Write};
use jobtap_core::host::{RemoteCall, RemoteSink};
use serde_json::Value;
use tokio::sync::oneshot;

use self::intake::{Intake, Source};
use self::pulse::Pulse;
use self::replies::{Answers, Replies, Reply, shutting_down};
use super::Failure;
use super::log::Log;
use crate::rpc::{RpcError, RpcResult};
use crate::store::Op;

/// Inputs taken into one turn at most: bounds the latency of the first of them.
const PER_TURN: usize = 1024;

/// A turn that has lasted so long takes nothing more, for the same reason: a few inputs may be as much
/// work as a thousand others.
const LONGEST_TURN: Duration = Duration::from_millis(10);

/// A result that is delivered when everything it may show is durable.
pub(super) type Delivery = Box<dyn FnOnce() + Send>;

/// A look at the engine.
type Look = Box<dyn FnOnce(&Engine) -> Delivery + Send>;

/// What the engine thread is told.
pub(super) enum Message {
    /// For the engine.
    Input(Input),
    /// Somebody looks at it.
    Read(Look),
    /// Something to be made durable, and who waits for that.
    Store(Vec<Op>, Delivery),
    /// The last message: [unload](Engine::unload) and end.
    Stop,
}

/// What waits for the engine's thread.
pub(super) type Messages = Intake<Message>;

/// What follows a turn's writes.
pub(super) enum After {
    /// Something that the engine wants done.
    Effect(Effect),
    /// Something that was read.
    Deliver(Delivery),
}

/// Everything that one turn leads to.
#[derive(Default)]
pub(super) struct Turn {
    /// To be committed together.
    pub writes: Vec<Write>,
    /// More, which isn't the engine's.
    pub ops: Vec<Op>,
    /// To be done in this order once the writes are durable.
    pub after: Vec<After>,
}

/// The way to the engine, for any thread. What is handed in by one handle, or by a client's, is taken
/// in the order of the calls.
#[derive(Clone)]
pub(super) struct EngineHandle {
    messages: Arc<Messages>,
    source: Source,
    replies: Arc<Replies>,
}

impl EngineHandle {
    /// The manager's own handle.
    pub(super) fn new(messages: Arc<Messages>) -> Self {
        Self { messages, source: Source::Manager, replies: Arc::default() }
    }

    /// The handle of a client, who takes turns with the others.
    pub(super) fn of_client(&self, source: Source) -> Self {
        Self { source, ..self.clone() }
    }

    /// The client has left: what it asked for and the engine has not begun is not done.
    pub(super) fn leave(&self) {
        self.messages.forget(self.source);
    }

    /// Hands in a request; the answer comes when its events are durable.
    pub(super) fn request(&self, cred: Cred, request: Request) -> Reply {
        let reply = self.replies.one();
        if !self.input(Input::Request { reply: reply.to, cred, request }) {
            self.replies.forget(reply.to);
        }
        reply
    }

    /// Hands in a request that may be answered many times.
    pub(super) fn stream(&self, cred: Cred, request: Request) -> Answers {
        let engine = Arc::clone(&self.messages);
        let answers = self.replies.many(move |to| {
            // The engine may have ended.
            engine.put(Source::Manager, Message::Input(Input::Abandoned(to)));
        });
        if !self.input(Input::Request { reply: answers.to, cred, request }) {
            self.replies.forget(answers.to);
        }
        answers
    }

    /// Looks at the engine; what it shows is durable when the answer arrives.
    pub(super) fn read<T, F>(&self, look: F) -> oneshot::Receiver<Result<T, RpcError>>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> Result<T, RpcError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let look: Look = Box::new(move |engine| {
            // Not for a client that has left.
            let result = (!sender.is_closed()).then(|| look(engine));
            Box::new(move || drop(result.map(|result| sender.send(result))))
        });
        self.messages.put(self.source, Message::Read(look));
        receiver
    }

    /// Has this made durable; the answer, which says nothing more, comes when it is.
    pub(super) fn store(&self, ops: Vec<Op>) -> oneshot::Receiver<RpcResult> {
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move || drop(sender.send(Ok(Value::Null))));
        self.messages.put(self.source, Message::Store(ops, done));
        receiver
    }

    /// Hands in what happened; false when the engine has ended.
    pub(super) fn input(&self, input: Input) -> bool {
        self.messages.put(self.source, Message::Input(input))
    }

    /// Asks the thread to end after what the manager itself sent before.
    pub(super) fn stop(&self) {
        self.messages.put(self.source, Message::Stop);
    }

    /// Those who wait for answers.
    pub(super) fn replies(&self) -> &Replies {
        &self.replies
    }
}

impl RemoteSink for EngineHandle {
    fn send(&self, call: RemoteCall) {
        self.input(Input::Remote(call));
    }
}

/// The answer, or the refusal of a manager that ends.
pub(super) async fn answered<T>(
    receiver: impl Future<Output = Result<Result<T, RpcError>, oneshot::error::RecvError>>,
) -> Result<T, RpcError> {
    receiver.await.unwrap_or_else(|_| Err(shutting_down()))
}

/// An engine's refusal as it goes over the wire.
pub(super) fn refusal(error: RequestError) -> RpcError {
    RpcError::new(error.errno, error.text)
}

/// What the engine's thread works with beside the engine.
pub(super) struct Surroundings<'a> {
    /// Where its log lines go.
    pub log: &'a Log,
    /// Where its end is reported.
    pub failure: &'a Failure,
    /// Its clocks.
    pub pulse: &'a Pulse,
}

/// Runs the engine until it is stopped; `turns` commits each turn. A panic becomes a failure in words.
pub(super) fn run(
    mut engine: Engine,
    messages: &Messages,
    around: &Surroundings<'_>,
    mut turns: impl FnMut(Turn),
) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        loop {
            let first = messages.take();
            let (turn, stop) = one_turn(&mut engine, first, messages, around);
            around.pulse.rests();
            turns(turn);
            if stop {
                let mut last = Turn::default();
                last.add(engine.unload(super::now()), around.log);
                turns(last);
                return;
            }
        }
    }));
    // Who asks from now on hears that the manager ends.
    messages.close();
    if let Err(panic) = outcome {
        around.failure.report(format!("the engine failed: {}", super::panic_text(&*panic)));
    }
}

fn one_turn(
    engine: &mut Engine,
    first: Message,
    messages: &Messages,
    around: &Surroundings<'_>,
) -> (Turn, bool) {
    let begun = Instant::now();
    let mut turn = Turn::default();
    let mut next = Some(first);
    let mut taken = 0;
    while let Some(message) = next {
        around.pulse.works();
        match message {
            Message::Input(input) => turn.add(engine.handle(super::now(), input), around.log),
            Message::Read(look) => turn.after.push(After::Deliver(look(engine))),
            Message::Store(ops, done) => {
                turn.ops.extend(ops);
                turn.after.push(After::Deliver(done));
            }
            Message::Stop => return (turn, true),
        }
        taken += 1;
        let more = taken < PER_TURN && begun.elapsed() < LONGEST_TURN;
        next = if more { messages.try_take() } else { None };
    }
    (turn, false)
}

impl Turn {
    /// Adds what one call of the engine leads to; its log lines are written at once.
    pub(super) fn add(&mut self, effects: Effects, log: &Log) {
        for line in effects.log {
            log.write(line.level, &line.text);
        }
        self.writes.extend(effects.writes);
        self.after.extend(effects.after.into_iter().map(After::Effect));
    }
}
