//! One prolog or epilog of a job at work: its processes by rank, and what it comes to.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{ProcessError, ProcessResult, Signals, Timer};
use jobtap_core::prelude::*;
use jobtap_core::resource::{Hostlist, Idset};
use serde_json::{Value, json};

use super::conf::Script;

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;
/// What a shell says of a command that can't be run.
const NOT_FOUND: u8 = 127;

/// See the module.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) script: Arc<Script>,
    pub(super) phase: Phase,
    pub(super) token: Token,
    /// The host of each rank on which it runs, or ran.
    hosts: BTreeMap<u32, String>,
    active: BTreeMap<u32, Signals>,
    failed: BTreeMap<u32, WaitStatus>,
    /// Those that were not done in time.
    late: Idset,
    /// Those that were killed, since SIGTERM had not ended them.
    killed: Idset,
    deadline: Option<Timestamp>,
    timer: Option<Timer>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Running,
    /// The job had a fatal exception: its processes were asked to end.
    Canceled,
    /// It took too long: its processes were asked to end.
    TimedOut,
    /// It ended with the last manager.
    Lost,
}

impl Run {
    pub(super) fn new(script: Arc<Script>, token: Token, hosts: BTreeMap<u32, String>) -> Self {
        Self {
            script,
            phase: Phase::Running,
            token,
            hosts,
            active: BTreeMap::new(),
            failed: BTreeMap::new(),
            late: Idset::new(),
            killed: Idset::new(),
            deadline: None,
            timer: None,
        }
    }

    /// A prolog that ended with the last manager.
    pub(super) fn lost(script: Arc<Script>, token: Token) -> Self {
        Self { phase: Phase::Lost, ..Self::new(script, token, BTreeMap::new()) }
    }

    pub(super) fn started(&mut self, rank: u32, signals: Signals) {
        self.active.insert(rank, signals);
    }

    pub(super) fn is_active(&self) -> bool {
        !self.active.is_empty()
    }

    /// It has until then; a timer that was set before is off.
    pub(super) fn time(&mut self, deadline: Option<Timestamp>, timer: Option<Timer>) {
        self.deadline = deadline;
        if let Some(before) = std::mem::replace(&mut self.timer, timer) {
            before.cancel();
        }
    }

    /// The process of a rank has ended. Gives why it could not be started, if so.
    pub(super) fn ended(&mut self, rank: u32, end: ProcessResult) -> Option<String> {
        self.active.remove(&rank);
        let (status, reason) = match end {
            Ok(end) => (end.status, None),
            Err(error @ ProcessError::Start { .. }) => {
                (WaitStatus::from_exit_code(NOT_FOUND), Some(error.to_string()))
            }
            Err(ProcessError::Gone(_)) => return None,
        };
        if !status.is_success() {
            self.failed.insert(rank, status);
        }
        reason
    }

    /// Asks what still runs to end.
    pub(super) fn stop(&mut self, phase: Phase) {
        self.phase = phase;
        self.late = self.active.keys().copied().collect();
        self.active.values().for_each(|process| process.send(SIGTERM));
    }

    /// Ends what still runs, and waits for it no longer.
    pub(super) fn kill(&mut self) {
        for (rank, process) in std::mem::take(&mut self.active) {
            process.send(SIGKILL);
            self.killed.insert(rank);
            self.failed.insert(rank, WaitStatus::from_signal(SIGKILL));
        }
    }

    /// The status for the eventlog: the worst.
    pub(super) fn status(&self) -> i32 {
        let worst = self.failed.values().map(|status| status.as_raw()).max();
        worst.unwrap_or(i32::from(self.phase == Phase::Lost))
    }

    /// What went wrong, for the job's exception; nothing when all is well, or the job was ended before.
    pub(super) fn complaint(&self) -> Option<String> {
        let word = self.script.bracket.word();
        let failed = || self.failed.keys().copied().collect();
        let (what, ranks) = match self.phase {
            Phase::TimedOut => ("timed out".to_owned(), self.late.clone()),
            Phase::Canceled if !self.killed.is_empty() => {
                ("canceled then timed out".to_owned(), failed())
            }
            Phase::Canceled | Phase::Lost => return None,
            Phase::Running => {
                let worst = self.failed.values().max_by_key(|status| status.as_raw())?;
                // Shells tell of a signal by 128 and its number.
                let code = worst.exit_code().unwrap_or(u8::MAX);
                let what = match code.checked_sub(128) {
                    Some(signal @ 1..) => format!("killed by signal {signal}"),
                    _ => format!("exited with code={code}"),
                };
                (what, failed())
            }
        };
        Some(format!("{word} {what} on {}", self.place(&ranks)))
    }

    /// The nodes that jobs should keep off, and why: where something hangs, and of a script that is run
    /// on each rank, where it failed.
    pub(super) fn unfit(&self) -> Option<(Idset, String)> {
        let what = match self.phase {
            Phase::Running => "failed",
            Phase::TimedOut => "timed out",
            Phase::Canceled if !self.killed.is_empty() => "canceled then timed out",
            Phase::Canceled | Phase::Lost => return None,
        };
        let unfit = |rank: &&u32| self.script.per_rank || self.killed.contains(**rank);
        let ranks: Idset = self.failed.keys().filter(unfit).copied().collect();
        let reason = format!("{} {what}", self.script.bracket.word());
        (!ranks.is_empty()).then_some((ranks, reason))
    }

    /// `HOSTS (rank RANKS)`.
    fn place(&self, ranks: &Idset) -> String {
        let mut hosts = Hostlist::new();
        for host in ranks.iter().filter_map(|rank| self.hosts.get(&rank)) {
            // A name that came from a list of hosts is good in one.
            let _ = hosts.push(host);
        }
        hosts.uniq();
        format!("{hosts} (rank {ranks})")
    }

    pub(super) fn query(&self, now: Timestamp) -> Value {
        let active: Idset = self.active.keys().copied().collect();
        let mut told = json!({
            "name": self.script.bracket.word(),
            "state": match self.phase {
                Phase::Running | Phase::Lost => "running",
                Phase::Canceled => "canceled",
                Phase::TimedOut => "timeout",
            },
            "total": self.hosts.len(),
            "active": active.len(),
            "active_ranks": active.to_string(),
        });
        if let (Some(deadline), Some(told)) = (self.deadline, told.as_object_mut()) {
            told.insert("remaining_time".to_owned(), (deadline - now).max(0.0).into());
        }
        told
    }
}
