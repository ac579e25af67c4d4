//! A running prolog or epilog of one job, and its failures.

use std::sync::Arc;

use jobtap_core::job::WaitStatus;
use jobtap_core::plugin::{BulkControl, BulkEnd, BulkStop};
use jobtap_core::prelude::*;
use serde_json::{Value, json};

use super::conf::Script;

/// A running prolog or epilog of one job.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) script: Arc<Script>,
    pub(super) token: Token,
    pub(super) bulk: BulkControl,
}

impl Run {
    pub(super) fn query(&self, now: Timestamp) -> Value {
        let waiting = self.bulk.queued();
        let active = self.bulk.active().difference(&waiting);
        let mut data = json!({
            "name": self.script.perilog.word(),
            "state": match self.bulk.stopped() {
                None if active.is_empty() && !waiting.is_empty() => "waiting",
                None => "running",
                Some(BulkStop::Requested) => "canceled",
                Some(BulkStop::TimedOut) => "timeout",
            },
            "total": self.bulk.total(),
            "active": active.len(),
            "active_ranks": active.to_string(),
            "waiting": waiting.len(),
            "waiting_ranks": waiting.to_string(),
        });
        if let (Some(deadline), Some(data)) = (self.bulk.deadline(), data.as_object_mut()) {
            data.insert("remaining_time".to_owned(), (deadline - now).max(0.0).into());
        }
        data
    }
}

/// How a prolog or epilog failed.
pub(super) struct Trouble {
    /// The text and the ranks for the exception of the job.
    pub(super) note: String,
    pub(super) ranks: Idset,
    /// The reason and the ranks to drain: those where a process had to be killed and, for per-rank
    /// scripts, those where it failed.
    pub(super) reason: &'static str,
    pub(super) unfit: Idset,
}

impl Trouble {
    /// The failure; `None` if there was none or if the processes were stopped on request.
    pub(super) fn from_end(script: &Script, end: &BulkEnd) -> Option<Self> {
        let failed = end.failed();
        let unfit = if script.per_rank { failed.clone() } else { end.killed.clone() };
        let (reason, note, ranks) = match end.stopped {
            None if failed.is_empty() => return None,
            None => ("failed", ending(end.status()), failed),
            Some(BulkStop::TimedOut) => ("timed out", "timed out".to_owned(), end.late.clone()),
            Some(BulkStop::Requested) if end.killed.is_empty() => return None,
            Some(BulkStop::Requested) => {
                ("canceled then timed out", "canceled then timed out".to_owned(), failed)
            }
        };
        Some(Self { note, ranks, reason, unfit })
    }
}

/// Describes the worst status. An exit code above 128 is a signal, by the convention of shells.
fn ending(status: WaitStatus) -> String {
    match status.exit_code().unwrap_or(u8::MAX) {
        code @ 129.. => format!("killed by signal {}", code - 128),
        code => format!("exited with code={code}"),
    }
}
