//! A connection over a network that delays, stalls and cuts: bytes arrive in their order, when the simulator lets them.

use std::collections::VecDeque;

use futures_util::FutureExt;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};

/// How many bytes are read from the other end at once.
const READ: usize = 1 << 16;

/// One end of a connection to the manager, with what is on its way.
pub struct Line {
    stream: DuplexStream,
    /// What this end has sent and the manager hasn't got.
    up: VecDeque<u8>,
    /// What the manager has sent and this end hasn't got.
    down: VecDeque<u8>,
    /// What this end has got of a line that isn't whole.
    partial: Vec<u8>,
    /// Whether the manager's end is closed, which this end sees when it has got all before.
    ended: bool,
    /// Whether nothing arrives, in either direction.
    pub stalled: bool,
}

impl Line {
    /// The connection with this end.
    #[must_use]
    pub fn new(stream: DuplexStream) -> Self {
        let (up, down, partial) = Default::default();
        Self { stream, up, down, partial, ended: false, stalled: false }
    }

    /// Sends bytes.
    pub fn send(&mut self, bytes: &[u8]) {
        self.up.extend(bytes);
    }

    /// How many bytes are on their way to the manager.
    #[must_use]
    pub fn unsent(&self) -> usize {
        self.up.len()
    }

    /// Lets at most so many bytes arrive at the manager. Returns whether any did.
    pub fn deliver_up(&mut self, most: usize) -> bool {
        if self.stalled {
            return false;
        }
        let bytes: Vec<u8> = self.up.iter().take(most).copied().collect();
        if bytes.is_empty() {
            return false;
        }
        match self.stream.write(&bytes).now_or_never() {
            Some(Ok(written)) => {
                self.up.drain(..written);
                written > 0
            }
            Some(Err(_)) => {
                self.up.clear();
                self.ended = true;
                false
            }
            None => false,
        }
    }

    /// Takes what the manager has sent into the network.
    fn take_in(&mut self) {
        let mut buffer = vec![0; READ];
        while !self.ended {
            match self.stream.read(&mut buffer).now_or_never() {
                Some(Ok(0) | Err(_)) => self.ended = true,
                Some(Ok(read)) => self.down.extend(buffer.iter().take(read)),
                None => return,
            }
        }
    }

    /// Lets at most so many bytes arrive at this end. Returns the lines that are whole, without their newlines; `None` if
    /// the manager's end is closed and all before has arrived.
    pub fn deliver_down(&mut self, most: usize) -> Option<Vec<String>> {
        if self.stalled {
            return Some(Vec::new());
        }
        self.take_in();
        if self.ended && self.down.is_empty() {
            return None;
        }
        let count = self.down.len().min(most);
        self.partial.extend(self.down.drain(..count));
        let mut lines = Vec::new();
        while let Some(end) = self.partial.iter().position(|byte| *byte == b'\n') {
            let rest = self.partial.split_off(end + 1);
            let line = std::mem::replace(&mut self.partial, rest);
            lines.push(String::from_utf8_lossy(&line).trim_end().to_owned());
        }
        Some(lines)
    }
}
