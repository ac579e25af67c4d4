//! The processes of plugins on a node: what happens to them is numbered, and said until the manager confirms it.

use std::collections::{BTreeMap, VecDeque};

use serde_json::{Value, json};

use crate::dice::Dice;

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// The wait status of a process that was killed.
const KILLED: i32 = 9;

/// The processes of a node, which outlive its connections.
#[derive(Default)]
pub struct Processes {
    /// When each ends, by its number, and with which status.
    running: BTreeMap<u64, (u64, i32)>,
    last: u64,
    unconfirmed: VecDeque<(u64, u64, Value)>,
    /// The number up to which the connection has all; `None` until the manager has said where it is.
    sent: Option<u64>,
}

impl Processes {
    /// A connection begins.
    pub fn connect(&mut self) {
        self.sent = None;
    }

    /// Carries out what the manager says. Returns the job and the name of a process that begins.
    pub fn take(&mut self, said: &Value, now: u64, dice: &mut Dice) -> Option<(u64, String)> {
        let number = |key: &str| said.get(key).and_then(Value::as_u64);
        match said.get("op").and_then(Value::as_str)? {
            "run" => return self.run(number("key")?, said.get("order")?, now, dice),
            "signal-process" => {
                if let Some((ends, status)) = self.running.get_mut(&number("key")?) {
                    (*ends, *status) = (now + dice.below(SECOND / 10), KILLED);
                }
            }
            "processes" => {
                let seen = number("seen")?;
                let keys = said.get("keys").and_then(Value::as_array)?;
                let keys: Vec<u64> = keys.iter().filter_map(Value::as_u64).collect();
                let is_known = |key: &u64| keys.contains(key);
                self.unconfirmed.retain(|(seq, key, _)| *seq > seen && is_known(key));
                self.sent = Some(seen);
                // They are killed, which may take a while.
                for (_, (ends, status)) in self.running.iter_mut().filter(|(key, _)| !is_known(key))
                {
                    (*ends, *status) = (now + dice.below(SECOND), KILLED);
                }
            }
            "seen" => {
                let seen = number("seq")?;
                self.unconfirmed.retain(|(seq, ..)| *seq > seen);
            }
            _ => {}
        }
        None
    }

    fn run(&mut self, key: u64, order: &Value, now: u64, dice: &mut Dice) -> Option<(u64, String)> {
        let is_told = self.unconfirmed.iter().any(|(_, known, _)| *known == key);
        if is_told || self.running.contains_key(&key) {
            return None;
        }
        let status = if dice.hits(1, 20) { 1 << 8 } else { 0 };
        self.running.insert(key, (now + dice.below(2 * SECOND), status));
        self.note(key, json!("started"));
        let job = order.pointer("/args/0").and_then(Value::as_str)?.parse().ok()?;
        Some((job, order.get("program").and_then(Value::as_str)?.to_owned()))
    }

    fn note(&mut self, key: u64, what: Value) {
        self.last += 1;
        self.unconfirmed.push_back((self.last, key, what));
    }

    /// Lets those end whose time has come. Returns whether any did.
    pub fn reap(&mut self, now: u64) -> bool {
        let over: Vec<(u64, (u64, i32))> =
            self.running.extract_if(.., |_, (ends, _)| *ends <= now).collect();
        for (key, (_, status)) in &over {
            let ended = json!({ "ended": { "status": status, "stdout": "", "stderr": "" } });
            self.note(*key, ended);
        }
        !over.is_empty()
    }

    /// What the connection hasn't been told, as lines.
    pub fn news(&mut self) -> Vec<String> {
        let Some(sent) = self.sent else { return Vec::new() };
        let new = self.unconfirmed.iter().filter(|(seq, ..)| *seq > sent);
        let lines = new.map(|(seq, key, what)| {
            let line = json!({ "op": "process", "seq": seq, "key": key, "happening": what });
            format!("n{line}\n")
        });
        let lines = lines.collect();
        self.sent = Some(self.last.max(sent));
        lines
    }
}
