//! The thread that owns the engine, and the handle by which other threads reach it.
//!
//! Each turn takes the messages that have arrived, lets the engine process them, and hands all writes and
//! effects of the turn to the store as one batch. Results of reads are delivered after that batch, too:
//! a response never shows what is not durable yet.

pub(super) mod intake;
pub(super) mod last_words;
pub(super) mod pulse;
pub(super) mod replies;
mod timers;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use jobtap_core::engine::{
    Cred, Effect, Effects, Engine, Gathered, Input, Request, TimerId, Write,
};
use jobtap_core::host::{RemoteCall, RemoteSink, panic_text};
use jobtap_core::job::Timestamp;
use serde_json::Value;
use tokio::sync::oneshot;

use self::intake::{Intake, Source};
use self::pulse::Pulse;
pub(super) use self::replies::refusal;
use self::replies::{Replies, Reply, ReplyStream, Respond, shutting_down};
use super::failure::Failure;
use super::log::Log;
use crate::rpc::{RpcError, RpcResult};
use crate::store::Op;

/// The maximum number of messages that one turn takes. Bounds the latency of the first of them.
const PER_TURN: usize = 1024;

/// The number of seconds after which a turn takes no more messages, for the same reason: a few messages may be as much
/// work as a thousand others.
const LONGEST_TURN: f64 = 0.010;

/// The number of seconds after which a turn ends if the committing thread is idle. Otherwise that thread would wait for
/// the engine's thread, which would wait for new requests afterwards. Still shorter turns would lead to more commits,
/// each of which costs a sync.
const SHORTEST_TURN: f64 = 0.001;

/// Delivers the result of a read once everything that it may show is durable.
pub(super) type Delivery = Box<dyn FnOnce() + Send>;

/// Reads something from the engine.
type Look = Box<dyn FnOnce(&Engine) -> Delivery + Send>;

/// A message to the engine's thread.
pub(super) enum Message {
    /// An input for the engine.
    Input(Input),
    /// A read from the engine.
    Read(Look),
    /// Operations to make durable, and what to do then.
    Store(Vec<Op>, Delivery),
    /// The last message: [finish](Engine::finish) the engine and end the thread.
    Stop,
}

/// The messages that wait for the engine's thread.
pub(super) type Messages = Intake<Message>;

/// What is done after the writes of a turn are durable.
pub(super) enum After {
    /// Effects of the engine, in order.
    Effects(Vec<Effect>),
    /// The result of a read.
    Deliver(Delivery),
}

/// The results of one turn.
#[derive(Default)]
pub(super) struct Turn {
    /// The writes of the engine, to be committed together.
    pub writes: Vec<Write>,
    /// Operations of other parts, to be committed with them.
    pub ops: Vec<Op>,
    /// What is done, in this order, once the writes are durable.
    pub after: Vec<After>,
    /// The number of events that watchers of all jobs would have received, if there were any.
    pub unpublished: u64,
}

/// Sends messages to the engine, from any thread. The messages of one handle are processed in the order
/// in which they are sent.
#[derive(Clone)]
pub(super) struct EngineHandle {
    messages: Arc<Messages>,
    source: Source,
    replies: Arc<Replies>,
}

impl EngineHandle {
    /// The handle of the manager's own parts.
    pub(super) fn new(messages: Arc<Messages>) -> Self {
        Self { messages, source: Source::Manager, replies: Arc::default() }
    }

    /// The handle of a client, which takes turns with other clients.
    pub(super) fn of_client(&self, source: Source) -> Self {
        Self { source, ..self.clone() }
    }

    /// Drops the requests of a client that has disconnected: those that the engine has not begun, and the responses to
    /// the others.
    pub(super) fn leave(&self) {
        for message in self.messages.take_messages_of(self.source) {
            if let Message::Input(Input::Request { reply, .. }) = message {
                // A task may still wait for the response, to record what was changed.
                self.replies.remove(reply);
            }
        }
        self.replies.forget(self.source);
    }

    /// Sends a request. The response comes when the events of the request are durable.
    pub(super) fn request(&self, cred: Cred, request: Request) -> Reply {
        let reply = self.replies.one();
        if !self.input(Input::Request { reply: reply.to, cred, request }) {
            self.replies.remove(reply.to);
        }
        reply
    }

    /// Sends a request whose response is given to `respond` when the events of the request are durable, unless
    /// the client has left by then.
    pub(super) fn request_then(&self, cred: Cred, request: Request, respond: Respond) {
        let reply = self.replies.direct(self.source, respond);
        if !self.input(Input::Request { reply, cred, request }) {
            self.replies.refuse(reply);
        }
    }

    /// Sends a request that may have many responses.
    pub(super) fn stream(&self, cred: Cred, request: Request) -> ReplyStream {
        let engine = Arc::clone(&self.messages);
        let answers = self.replies.many(move |to| {
            // On the manager's queue, since the client's queue is dropped when the client disconnects. When the engine
            // has ended there is nothing to abandon.
            engine.put(Source::Manager, Message::Input(Input::Abandoned(to)));
        });
        if !self.input(Input::Request { reply: answers.to, cred, request }) {
            self.replies.remove(answers.to);
        }
        answers
    }

    /// Reads from the engine. Everything that the result shows is durable when it arrives.
    pub(super) fn read<T, F>(&self, look: F) -> oneshot::Receiver<Result<T, RpcError>>
    where
        T: Send + 'static,
        F: FnOnce(&Engine) -> Result<T, RpcError> + Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let look: Look = Box::new(move |engine| {
            // A read may be long; it is skipped when its client has left.
            let result = (!sender.is_closed()).then(|| look(engine));
            Box::new(move || drop(result.map(|result| sender.send(result))))
        });
        self.messages.put(self.source, Message::Read(look));
        receiver
    }

    /// Makes these operations durable. The response is null and comes when they are durable.
    pub(super) fn store(&self, ops: Vec<Op>) -> oneshot::Receiver<RpcResult> {
        let (sender, receiver) = oneshot::channel();
        let done = Box::new(move || drop(sender.send(Ok(Value::Null))));
        self.messages.put(self.source, Message::Store(ops, done));
        receiver
    }

    /// Sends an input. Returns false when the engine has ended.
    pub(super) fn input(&self, input: Input) -> bool {
        self.messages.put(self.source, Message::Input(input))
    }

    /// Sends several inputs, which the engine takes together. Returns false when the engine has ended.
    pub(super) fn inputs(&self, inputs: impl Iterator<Item = Input>) -> bool {
        self.messages.put_all(self.source, inputs.map(Message::Input))
    }

    /// Sends the timer to the engine at this time, or soon if the time is past.
    pub(super) fn set_timer(&self, id: TimerId, at: Timestamp) {
        self.messages.set_timer(id, at);
    }

    /// Ends the engine's thread after the messages that the manager's own parts have sent so far.
    pub(super) fn stop(&self) {
        self.messages.put(self.source, Message::Stop);
    }

    /// The requests that wait for responses.
    pub(super) fn replies(&self) -> &Replies {
        &self.replies
    }
}

impl RemoteSink for EngineHandle {
    fn send(&self, call: RemoteCall) {
        self.input(Input::Remote(call));
    }
}

/// Waits for a result. Returns the refusal of a manager that is shutting down if none comes.
pub(super) async fn answered<T>(
    receiver: impl Future<Output = Result<Result<T, RpcError>, oneshot::error::RecvError>>,
) -> Result<T, RpcError> {
    receiver.await.unwrap_or_else(|_| Err(shutting_down()))
}

/// What the engine's thread uses besides the engine.
pub(super) struct ThreadContext<'a> {
    /// Where its log lines go.
    pub log: &'a Log,
    /// Where a failure of the engine is reported.
    pub failure: &'a Failure,
    /// The clocks by which handlers are metered.
    pub pulse: &'a Pulse,
    /// Whether anything watches jobs.
    pub is_watched: &'a dyn Fn() -> bool,
    /// Whether no turn is being committed.
    pub is_commit_idle: &'a dyn Fn() -> bool,
}

/// Runs the engine until it is stopped. `turns` commits each turn; its second argument is true if the engine has
/// nothing else to do: the turn had one message, and no other one waits. A panic is reported as a failure.
pub(super) fn run(
    mut engine: Engine,
    messages: &Messages,
    context: &ThreadContext<'_>,
    mut turns: impl FnMut(Turn, bool),
) {
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        loop {
            let first = messages.take(crate::clock::now, of_timer);
            if take_turn(&mut engine, first, messages, context, &mut turns) == TurnEnd::Stop {
                return;
            }
        }
    }));
    // Requests that are sent from now on are refused, since the manager is ending.
    messages.close();
    if let Err(panic) = outcome {
        context.failure.report(format!("the engine failed: {}", panic_text(&*panic)));
    }
}

/// Takes one turn, if a message waits or a timer is due.
pub(super) fn step(
    engine: &mut Engine,
    messages: &Messages,
    context: &ThreadContext<'_>,
    mut turns: impl FnMut(Turn, bool),
) -> Option<TurnEnd> {
    let first = messages.take_due(crate::clock::now, of_timer)?;
    Some(take_turn(engine, first, messages, context, &mut turns))
}

/// The message of a timer.
fn of_timer(id: TimerId) -> Message {
    Message::Input(Input::Timer(id))
}

/// Takes one turn, which begins with a message, and hands it to `turns`.
fn take_turn(
    engine: &mut Engine,
    first: Message,
    messages: &Messages,
    context: &ThreadContext<'_>,
    turns: &mut impl FnMut(Turn, bool),
) -> TurnEnd {
    let (turn, end) = one_turn(engine, first, messages, context, turns);
    context.pulse.rests();
    turns(turn, end == TurnEnd::Single && messages.is_empty());
    if end == TurnEnd::Stop {
        let mut last = Turn::default();
        last.add(engine.finish(crate::clock::now()), context.log);
        turns(last, false);
    }
    end
}

/// How a turn ended.
#[derive(Debug, PartialEq)]
pub(super) enum TurnEnd {
    /// After its only message.
    Single,
    /// After several.
    Several,
    /// With `Stop`, the last message.
    Stop,
}

fn one_turn(
    engine: &mut Engine,
    first: Message,
    messages: &Messages,
    context: &ThreadContext<'_>,
    turns: &mut impl FnMut(Turn, bool),
) -> (Turn, TurnEnd) {
    let (begun, skipped) = crate::clock::now_and_step();
    let mut turn = Turn::default();
    // Told first: what is taken next may be a timer that became due by seconds that have not passed.
    if let Some(by) = skipped {
        gather(engine, begun, Input::WentForward { by }, &mut turn, context, turns);
    }
    // The clock is read once for each message, both for the engine and for the length of the turn: reading it takes a
    // good part of the time of a short message. If the clock is set back meanwhile, `PER_TURN` ends the turn.
    let mut now = begun;
    let mut next = Some(first);
    let mut taken = 0;
    while let Some(message) = next {
        context.pulse.works();
        // A later watcher misses none of the events that are left out here: it first reads from the engine, and so it
        // reads the store when all earlier turns are durable.
        engine.set_watched((context.is_watched)());
        match message {
            Message::Input(input) => {
                gather(engine, now, input, &mut turn, context, turns);
                context.log.write_all(engine.take_log());
            }
            Message::Read(look) => {
                turn.add(engine.take_effects(), context.log);
                turn.after.push(After::Deliver(look(engine)));
            }
            Message::Store(ops, done) => {
                turn.add(engine.take_effects(), context.log);
                turn.ops.extend(ops);
                turn.after.push(After::Deliver(done));
            }
            Message::Stop => {
                turn.add(engine.take_effects(), context.log);
                return (turn, TurnEnd::Stop);
            }
        }
        taken += 1;
        now = crate::clock::now();
        let more = takes_more(taken, now.as_secs() - begun.as_secs(), context.is_commit_idle);
        next = if more { messages.try_take() } else { None };
    }
    turn.add(engine.take_effects(), context.log);
    (turn, if taken == 1 { TurnEnd::Single } else { TurnEnd::Several })
}

/// Lets the engine work for an input. If that is a lot of work, the writes of its first parts are committed while
/// the engine goes on.
fn gather(
    engine: &mut Engine,
    now: Timestamp,
    input: Input,
    turn: &mut Turn,
    context: &ThreadContext<'_>,
    turns: &mut impl FnMut(Turn, bool),
) {
    let mut gathered = engine.gather(now, input);
    while gathered == Gathered::Part {
        turn.add(engine.take_effects(), context.log);
        turns(turn.split_off(), false);
        gathered = engine.go_on();
    }
}

/// Whether a turn that has `taken` this many messages and `lasted` this many seconds takes one more.
fn takes_more(taken: usize, lasted: f64, is_commit_idle: &dyn Fn() -> bool) -> bool {
    let awaited = || lasted >= SHORTEST_TURN && is_commit_idle();
    taken < PER_TURN && lasted < LONGEST_TURN && !awaited()
}

impl Turn {
    /// Takes what may be durable before the rest of the turn. What is done afterwards stays, since it may be a response
    /// to all of the turn.
    fn split_off(&mut self) -> Self {
        let after = std::mem::take(&mut self.after);
        std::mem::replace(self, Self { after, ..Self::default() })
    }

    /// Adds effects of the engine. Its log lines are written at once.
    pub(super) fn add(&mut self, effects: Effects, log: &Log) {
        log.write_all(effects.log);
        self.unpublished += effects.unpublished;
        // Most turns add once: then the writes are taken over and not copied.
        let mut writes = effects.writes.into_list();
        match self.writes.is_empty() {
            true => self.writes = writes,
            false => self.writes.append(&mut writes),
        }
        if !effects.after.is_empty() {
            self.after.push(After::Effects(effects.after));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_a_turn_is_durable_before_anything_is_answered() {
        let write = Write::PutInstance { key: "key".to_owned(), value: "value".to_owned() };
        let after = vec![After::Deliver(Box::new(|| ()))];
        let mut turn = Turn { writes: vec![write], unpublished: 1, after, ..Turn::default() };
        let part = turn.split_off();
        assert_eq!((part.writes.len(), part.unpublished, part.after.len()), (1, 1, 0));
        assert_eq!((turn.writes.len(), turn.unpublished, turn.after.len()), (0, 0, 1));
    }

    #[test]
    fn a_turn_ends_when_it_is_long_or_the_committing_thread_waits_for_it() {
        let (idle, busy) = (|| true, || false);
        assert!(takes_more(1, 0.0, &idle) && takes_more(1, SHORTEST_TURN, &busy));
        assert!(!takes_more(1, SHORTEST_TURN, &idle));
        assert!(!takes_more(1, LONGEST_TURN, &busy) && !takes_more(PER_TURN, 0.0, &busy));
    }
}
