//! Processes of plugins on nodes: the node's side, which outlives its connections.
//!
//! What happens to a process has a number and is kept until the manager has confirmed it.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::plugin::{OutputLine, Process, Stream};
use rustix::process::Signal;
use tokio::sync::Notify;

use super::plugin_processes::{Happening, Order};
use super::wire::{FromNode, node_line};
use crate::exec::data::decode_data;
use crate::processes::Processes;

/// How many bytes of lines may wait for the manager. What is printed beyond is dropped; the ends of processes are not.
const MOST_WAITING: usize = 4 << 20;

/// The processes of all plugins have one owner on a node: the manager tells them apart.
const OWNER: PluginKey = PluginKey(0);

/// The processes of plugins on this node. Clones share them.
#[derive(Clone)]
pub(super) struct NodeProcesses {
    processes: Processes,
    state: Arc<Mutex<State>>,
    news: Arc<Notify>,
}

#[derive(Default)]
struct State {
    running: BTreeSet<u64>,
    last: u64,
    /// What the manager hasn't confirmed, by its number.
    unconfirmed: VecDeque<(u64, u64, Happening)>,
    waiting: usize,
    /// The number up to which the connection has all; `None` until the manager has said where it is. Something later than
    /// what was lost in a cut would make the manager take what was lost for known.
    sent: Option<u64>,
}

impl NodeProcesses {
    /// Runs processes on this runtime; `uri` is the manager's address for them.
    pub(super) fn new(uri: &str) -> Self {
        let processes = Processes::start(&tokio::runtime::Handle::current(), uri);
        Self { processes, state: Arc::default(), news: Arc::default() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn note(&self, key: u64, happening: Happening) {
        let mut state = self.lock();
        let weight = happening.weight();
        if weight > 0 && state.waiting + weight > MOST_WAITING {
            return;
        }
        state.waiting += weight;
        state.last += 1;
        let number = state.last;
        state.unconfirmed.push_back((number, key, happening));
        self.news.notify_one();
    }

    /// Begins a connection, which gets no news until [`keep`](Self::keep) is called.
    pub(super) fn connect(&self) {
        self.lock().sent = None;
    }

    /// Runs a process, unless it is known.
    pub(super) fn run(&self, key: u64, order: Order) {
        {
            let mut state = self.lock();
            let is_known = state.unconfirmed.iter().any(|(_, known, _)| *known == key);
            if is_known || !state.running.insert(key) {
                return;
            }
        }
        let Order { program, args, env, cwd, stdin, lines } = order;
        let stdin = decode_data(&stdin).unwrap_or_default();
        let process = Process { program, args, env, cwd, stdin, rank: None };
        let of_lines = self.clone();
        let sink = LineSink::new(move |line: OutputLine| {
            let is_stderr = line.stream == Stream::Stderr;
            of_lines.note(key, Happening::Line { is_stderr, text: line.text });
        });
        let of_start = self.clone();
        let started = move || of_start.note(key, Happening::Started);
        let (answer, end) = ProcessAnswer::with_start(started);
        let lines = lines.then_some(sink);
        let run = ProcessCommand::Run { key: ProcessKey(key), process, lines, answer };
        self.processes.send(OWNER, run);
        let of_end = self.clone();
        tokio::spawn(async move {
            let end = end.await;
            of_end.note(key, Happening::of_end(end));
            of_end.lock().running.remove(&key);
        });
    }

    pub(super) fn signal(&self, key: u64, signum: i32) {
        self.processes.send(OWNER, ProcessCommand::Signal { key: ProcessKey(key), signum });
    }

    /// Kills all processes that the manager doesn't know any more, and forgets what it has.
    pub(super) fn keep(&self, seen: u64, keys: &[u64]) {
        self.confirm(seen);
        let mut state = self.lock();
        state.unconfirmed.retain(|(_, key, _)| keys.contains(key));
        state.waiting = state.unconfirmed.iter().map(|(_, _, what)| what.weight()).sum();
        // To be said again.
        state.sent = Some(seen);
        let strays: Vec<u64> =
            state.running.iter().copied().filter(|key| !keys.contains(key)).collect();
        drop(state);
        strays.into_iter().for_each(|key| self.signal(key, Signal::KILL.as_raw()));
        self.news.notify_one();
    }

    pub(super) fn confirm(&self, seen: u64) {
        let mut state = self.lock();
        state.unconfirmed.retain(|(number, ..)| *number > seen);
        state.waiting = state.unconfirmed.iter().map(|(_, _, what)| what.weight()).sum();
    }

    /// Waits until there is something to say.
    pub(super) async fn has_news(&self) {
        self.news.notified().await;
    }

    /// What this connection hasn't been told yet, as lines.
    pub(super) fn news(&self) -> Vec<u8> {
        let mut state = self.lock();
        let Some(sent) = state.sent else { return Vec::new() };
        let new = state.unconfirmed.iter().filter(|(number, ..)| *number > sent);
        let lines = new.flat_map(|(seq, key, what)| {
            let (seq, key, happening) = (*seq, *key, what.clone());
            node_line(&FromNode::Process { seq, key, happening })
        });
        let lines = lines.collect();
        state.sent = Some(state.last.max(sent));
        lines
    }

    /// Ends all processes, as the instance ends.
    pub(super) fn close(&self) {
        self.processes.close();
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::time::Duration;

    use super::*;

    /// The processes of a node whose manager has nothing yet.
    fn connected() -> NodeProcesses {
        let processes = NodeProcesses::new("local:///nowhere");
        processes.connect();
        processes.keep(0, &[]);
        processes
    }

    fn order(script: &str) -> Order {
        let args = ["-c", script].map(str::to_owned).to_vec();
        let (program, env, cwd, stdin) = ("sh".to_owned(), BTreeMap::new(), None, String::new());
        Order { program, args, env, cwd, stdin, lines: true }
    }

    /// The numbers of what this connection is told, once there are as many.
    async fn told(processes: &NodeProcesses, count: usize) -> Vec<u64> {
        let mut numbers = Vec::new();
        while numbers.len() < count {
            let news = tokio::time::timeout(Duration::from_secs(20), processes.has_news());
            assert!(news.await.is_ok(), "only {numbers:?} were told");
            for line in
                processes.news().split(|byte| *byte == b'\n').filter(|line| !line.is_empty())
            {
                match serde_json::from_slice(&line[1..]).unwrap() {
                    FromNode::Process { seq, .. } => numbers.push(seq),
                    other => panic!("{other:?}"),
                }
            }
        }
        numbers
    }

    #[tokio::test]
    async fn what_the_manager_has_not_confirmed_is_said_again_and_first() {
        let processes = connected();
        processes.run(5, order("echo a; echo b"));
        // Its start, two lines and its end.
        assert_eq!(told(&processes, 4).await, [1, 2, 3, 4]);
        processes.confirm(2);
        processes.connect();
        processes.run(6, order("true"));
        while processes.lock().last < 6 {
            processes.has_news().await;
        }
        assert!(processes.news().is_empty(), "the manager has not said what it has");
        processes.keep(2, &[5, 6]);
        assert_eq!(told(&processes, 4).await, [3, 4, 5, 6]);
    }

    #[tokio::test]
    async fn a_process_runs_once_and_ends_when_the_manager_does_not_know_it() {
        let processes = connected();
        processes.run(5, order("echo a; exec sleep 1000"));
        processes.run(5, order("echo again"));
        assert_eq!(told(&processes, 2).await, [1, 2]);
        processes.keep(2, &[]);
        assert_eq!(told(&processes, 1).await, [3]);
        assert!(processes.lock().running.is_empty());
    }
}
