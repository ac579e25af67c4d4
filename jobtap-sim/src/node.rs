//! A node of the instance: its channel to the manager, its shepherd, and its clock.

use jobtap_core::resource::Idset;
use jobtap_daemon::clock::PlayedProcess;
use jobtap_daemon::exec::nodes::NodeInfo;
use jobtap_daemon::exec::nodes::stepped::Port;
use jobtap_daemon::exec::protocol::{decode_request, encode};
use serde_json::{Value, json};

use crate::dice::Dice;
use crate::line::Line;
use crate::processes::Processes;
use crate::shepherd::{Shepherd, Started};

/// Microseconds of a second.
const SECOND: u64 = 1_000_000;

/// How long a manager may be silent.
const SILENCE: u64 = 20 * SECOND;

/// The pause between two attempts to connect.
const PAUSE: u64 = SECOND / 2;

/// The version of the program of the manager and its nodes.
pub const PROGRAM: &str = "1.0";

/// The name of the host of a rank.
#[must_use]
pub fn host(rank: u32) -> String {
    format!("n{rank}")
}

/// A node.
pub struct Node {
    /// Its rank.
    pub rank: u32,
    /// Whether the host runs.
    pub is_up: bool,
    /// Its channel to the manager, if it has one.
    pub line: Option<Line>,
    /// What runs the jobs.
    pub shepherd: Shepherd,
    /// By how many microseconds its clock is ahead of the manager's.
    pub ahead: i64,
    /// The clock of its processes.
    pub clock: PlayedProcess,
    /// The processes of plugins.
    processes: Processes,
    cores: u32,
    has_joined: bool,
    heard: u64,
    connects_at: u64,
}

/// What a node has done, for the oracle.
#[derive(Default)]
pub struct Done {
    /// Whether anything has happened.
    pub any: bool,
    /// The jobs whose processes were started.
    pub started: Vec<Started>,
    /// The processes of plugins that were started: on which rank, for which job, and what they are.
    pub processes: Vec<(u32, u64, String)>,
    /// Why the manager has refused the node.
    pub refused: Option<String>,
}

impl Node {
    /// The node of a rank.
    #[must_use]
    pub fn new(rank: u32, cores: u32) -> Self {
        let (line, shepherd, clock, processes) = Default::default();
        let (is_up, ahead, has_joined, heard, connects_at) = (true, 0, false, 0, 0);
        Self {
            rank,
            is_up,
            line,
            shepherd,
            ahead,
            clock,
            processes,
            cores,
            has_joined,
            heard,
            connects_at,
        }
    }

    /// What it says about itself.
    #[must_use]
    pub fn info(&self) -> NodeInfo {
        NodeInfo {
            rank: self.rank,
            host: host(self.rank),
            cores: (0..self.cores).collect::<Idset>(),
            gpus: Idset::new(),
            program: PROGRAM.to_owned(),
            uri: None,
        }
    }

    /// Connects if it is time. Must be called within the manager's runtime. `time` is what its clock shows.
    pub fn connect(&mut self, port: &Port, now: u64, time: f64) -> bool {
        if !self.is_up || self.line.is_some() || now < self.connects_at {
            return false;
        }
        let mut line = Line::new(port.connect());
        let join = json!({ "op": "join", "version": 1, "node": self.info(), "time": time });
        line.send(format!("n{join}\n").as_bytes());
        self.processes.connect();
        (self.line, self.has_joined, self.heard) = (Some(line), false, now);
        true
    }

    /// The channel is cut; the manager notices it at once, or by the silence if the line is kept.
    pub fn cut(&mut self, now: u64) {
        self.line = None;
        self.connects_at = now + PAUSE;
        self.shepherd.disconnect();
    }

    /// The host goes down, with all that runs there.
    pub fn go_down(&mut self, now: u64) {
        self.cut(now);
        self.is_up = false;
        self.shepherd.reboot();
        self.processes = Processes::default();
    }

    /// Lets bytes arrive here and at the manager.
    pub fn network(&mut self, most: usize, now: u64, dice: &mut Dice) -> Done {
        let mut done = Done::default();
        let Some(line) = &mut self.line else { return done };
        done.any |= line.deliver_up(most);
        match line.deliver_down(most) {
            None => {
                self.cut(now);
                done.any = true;
                return done;
            }
            Some(lines) => {
                for line in lines {
                    done.any = true;
                    self.heard = now;
                    self.take(&line, now, dice, &mut done);
                }
            }
        }
        if now > self.heard + SILENCE {
            self.cut(now);
            done.any = true;
        }
        self.pass_on();
        done
    }

    /// Passes on what the shepherd has said.
    fn pass_on(&mut self) {
        let Some(line) = &mut self.line else { return };
        if self.has_joined {
            self.processes.news().iter().for_each(|text| line.send(text.as_bytes()));
        }
        for message in self.shepherd.take_said() {
            if let Ok(text) = encode(&message) {
                line.send(b"s");
                line.send(&text);
            }
        }
    }

    fn take(&mut self, line: &str, now: u64, dice: &mut Dice, done: &mut Done) {
        match line.split_at_checked(1) {
            Some(("s", request)) => match decode_request(request.as_bytes()) {
                Ok(request) => self.shepherd.request(request, now, dice),
                Err(error) => done.refused = Some(format!("unreadable: {error}: {request}")),
            },
            Some(("n", text)) => {
                let message: Value = serde_json::from_str(text).unwrap_or_default();
                match message.get("op").and_then(Value::as_str) {
                    Some("welcome") => self.has_joined = true,
                    Some("refused") => done.refused = Some(text.to_owned()),
                    Some("run" | "signal-process" | "processes" | "seen") => {
                        let begun = self.processes.take(&message, now, dice);
                        done.processes.extend(begun.map(|(job, what)| (self.rank, job, what)));
                    }
                    Some("ping") => {
                        if let Some(line) = &mut self.line {
                            line.send(b"n{\"op\":\"pong\"}\n");
                        }
                    }
                    _ => {}
                }
            }
            _ => done.refused = Some(format!("no line of the protocol: {line}")),
        }
    }

    /// Lets the shepherd work: processes exit, claims become durable and jobs start.
    pub fn work(&mut self, now: u64, dice: &mut Dice) -> Done {
        let mut done = Done::default();
        if !self.is_up {
            return done;
        }
        done.any |= self.shepherd.reap(now);
        done.any |= self.processes.reap(now);
        done.started = self.shepherd.launch(self.rank, now, dice);
        done.any |= !done.started.is_empty();
        self.pass_on();
        done
    }
}
