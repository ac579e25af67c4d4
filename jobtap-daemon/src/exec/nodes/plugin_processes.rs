//! Processes of plugins on nodes, such as the prolog of a job on each of its nodes: the manager's side.
//!
//! Neither a cut of the connection nor the order in which its ends notice it may lose one or run it twice. So the manager
//! asks again for what a node hasn't confirmed, and the node says again what the manager hasn't confirmed.

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::path::PathBuf;

use jobtap_core::host::{LineSink, PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{OutputLine, Process, ProcessEnd, ProcessError, ProcessResult, Stream};
use serde::{Deserialize, Serialize};

use super::wire::{ToNode, node_line};
use crate::clock;
use crate::exec::data::{decode_data, encode_data};
use crate::processes::ends_processes;

/// The number of the first process of a plugin that a manager starts on its nodes; the next ones count up. Nodes outlive
/// their manager, and may still have a process of the last one: with its number, they would take a process of this one for
/// known, and report the other's end.
///
/// It grows by a million each millisecond, which is more than the processes that any manager starts.
pub(super) fn first_number() -> u64 {
    let millis = (clock::now().as_secs() * 1000.0) as u64;
    millis << 20
}

/// A process, as it goes to a node.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) program: String,
    pub(super) args: Vec<String>,
    pub(super) env: BTreeMap<String, String>,
    pub(super) cwd: Option<PathBuf>,
    /// In base64.
    pub(super) stdin: String,
    /// Whether the lines that it prints are wanted as they come.
    pub(super) lines: bool,
}

/// What happens to a process.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Happening {
    Started,
    Line {
        is_stderr: bool,
        text: String,
    },
    Ended {
        status: i32,
        stdout: String,
        stderr: String,
    },
    /// It could not be run; `missing` if there is no such program.
    Failed {
        reason: String,
        missing: bool,
    },
}

impl Happening {
    pub(super) fn of_end(result: ProcessResult) -> Self {
        match result {
            Ok(ProcessEnd { status, stdout, stderr }) => Self::Ended {
                status: status.as_raw(),
                stdout: encode_data(&stdout),
                stderr: encode_data(&stderr),
            },
            Err(ProcessError::Start { reason, kind, .. }) => {
                Self::Failed { reason, missing: kind == ErrorKind::NotFound }
            }
            Err(ProcessError::Gone(gone)) => {
                Self::Failed { reason: gone.to_string(), missing: false }
            }
        }
    }

    /// The bytes that it takes while it waits, if it may be dropped.
    pub(super) fn weight(&self) -> usize {
        match self {
            Self::Line { text, .. } => text.len(),
            Self::Started | Self::Ended { .. } | Self::Failed { .. } => 0,
        }
    }
}

/// The manager's side: the processes on one node.
#[derive(Default)]
pub(super) struct Ordered {
    all: BTreeMap<u64, Running>,
    /// The number of the last happening.
    seen: u64,
}

struct Running {
    plugin: PluginKey,
    program: String,
    /// Until the node has confirmed it.
    order: Option<Order>,
    /// Whether the node may have got the order.
    is_sent: bool,
    /// The last signal, which is sent again to a node that was away.
    signal: Option<i32>,
    lines: Option<LineSink>,
    answer: ProcessAnswer,
}

impl Running {
    fn fail(self, reason: String, kind: ErrorKind) {
        self.answer.send(Err(ProcessError::Start { program: self.program, reason, kind }));
    }
}

impl Ordered {
    /// Carries out a command, and returns the lines for the node, which are sent if it `is_there`.
    pub(super) fn command(
        &mut self,
        plugin: PluginKey,
        command: ProcessCommand,
        is_there: bool,
    ) -> Vec<Vec<u8>> {
        let lines = self.lines(plugin, command, is_there);
        if is_there { lines } else { Vec::new() }
    }

    fn lines(
        &mut self,
        plugin: PluginKey,
        command: ProcessCommand,
        is_there: bool,
    ) -> Vec<Vec<u8>> {
        match command {
            ProcessCommand::Run { key: ProcessKey(key), process, lines, answer } => {
                let Process { program, args, env, cwd, stdin, rank: _ } = process;
                let (wants, stdin) = (lines.is_some(), encode_data(&stdin));
                let name = program.clone();
                let order = Order { program, args, env, cwd, stdin, lines: wants };
                let line = node_line(&ToNode::Run { key, order: order.clone() });
                let order = Some(order);
                let (program, is_sent) = (name, is_there);
                let running =
                    Running { plugin, program, order, is_sent, signal: None, lines, answer };
                self.all.insert(key, running);
                vec![line]
            }
            ProcessCommand::Signal { key: ProcessKey(key), signum } => {
                let Some(running) = self.all.get_mut(&key) else { return Vec::new() };
                if !running.is_sent && ends_processes(signum) {
                    // It hasn't begun, and never will: its job may be over when the node is back.
                    if let Some(running) = self.all.remove(&key) {
                        let status = WaitStatus::from_signal(signum);
                        running.answer.send(Ok(ProcessEnd::new(status)));
                    }
                    return Vec::new();
                }
                running.signal = Some(signum);
                vec![node_line(&ToNode::SignalProcess { key, signum })]
            }
            ProcessCommand::KillAll => {
                self.all.retain(|_, running| running.plugin != plugin);
                vec![self.state()]
            }
        }
    }

    /// Whether a process is one of these.
    pub(super) fn knows(&self, key: ProcessKey) -> bool {
        self.all.contains_key(&key.0)
    }

    /// What a node that has joined again needs to know.
    pub(super) fn resume(&mut self) -> Vec<Vec<u8>> {
        self.all.values_mut().for_each(|running| running.is_sent = true);
        let unconfirmed = self.all.iter().filter_map(|(key, running)| {
            let order = running.order.clone()?;
            Some(node_line(&ToNode::Run { key: *key, order }))
        });
        let signals = self.all.iter().filter_map(|(key, running)| {
            let signum = running.signal?;
            Some(node_line(&ToNode::SignalProcess { key: *key, signum }))
        });
        [self.state()].into_iter().chain(unconfirmed).chain(signals).collect()
    }

    fn state(&self) -> Vec<u8> {
        node_line(&ToNode::Processes { seen: self.seen, keys: self.all.keys().copied().collect() })
    }

    /// Takes what the node says. Returns the confirmation, if one is due.
    pub(super) fn take(&mut self, seq: u64, key: u64, happening: Happening) -> Option<Vec<u8>> {
        if seq <= self.seen {
            return None;
        }
        self.seen = seq;
        // Lines are confirmed with what follows them.
        let is_due = !matches!(happening, Happening::Line { .. }) || seq.is_multiple_of(64);
        if let Some(running) = self.all.get_mut(&key) {
            running.order = None;
            match happening {
                Happening::Started => running.answer.started(),
                Happening::Line { is_stderr, text } => {
                    let stream = if is_stderr { Stream::Stderr } else { Stream::Stdout };
                    if let Some(sink) = &running.lines {
                        sink.send(OutputLine { stream, text });
                    }
                }
                Happening::Ended { status, stdout, stderr } => {
                    let bytes = |text: String| decode_data(&text).unwrap_or_default();
                    let end = ProcessEnd {
                        status: WaitStatus(status),
                        stdout: bytes(stdout),
                        stderr: bytes(stderr),
                    };
                    if let Some(running) = self.all.remove(&key) {
                        running.answer.send(Ok(end));
                    }
                }
                Happening::Failed { reason, missing } => {
                    let kind = if missing { ErrorKind::NotFound } else { ErrorKind::Other };
                    if let Some(running) = self.all.remove(&key) {
                        running.fail(reason, kind);
                    }
                }
            }
        }
        is_due.then(|| node_line(&ToNode::Seen { seq }))
    }

    /// The node is lost, and what ran there with it.
    pub(super) fn lose(&mut self, reason: &str) {
        for (_, running) in std::mem::take(&mut self.all) {
            running.fail(reason.to_owned(), ErrorKind::HostUnreachable);
        }
    }
}

/// A process that can't be asked for, since there is no such node or it is lost.
pub(super) fn refuse(command: ProcessCommand, reason: &str) {
    if let ProcessCommand::Run { process, answer, .. } = command {
        let (program, reason) = (process.program, reason.to_owned());
        answer.send(Err(ProcessError::Start { program, reason, kind: ErrorKind::HostUnreachable }));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn the_next_manager_counts_from_beyond_all_numbers_of_the_last() {
        clock::play(Duration::from_secs(1_800_000_000));
        let last = first_number();
        clock::play_on(Duration::from_millis(1), 0);
        assert!(first_number() >= last + 1_000_000);
        clock::play_on(Duration::from_secs(10 * 365 * 24 * 3600), 0);
        assert!(first_number().checked_mul(2).is_some(), "there is room for centuries");
    }
}
