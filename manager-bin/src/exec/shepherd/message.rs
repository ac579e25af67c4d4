//! What the shepherd's loop reacts to.

use jobtap_core::job::JobId;
use tokio::sync::mpsc::UnboundedSender;

use super::claims::Claimed;
use crate::exec::protocol::{Reply, Request};

/// One thing that has happened.
pub(super) enum Message {
    /// A manager introduced itself.
    Hello { number: u64, outbox: UnboundedSender<Reply> },
    /// A manager wants something.
    Request { number: u64, request: Request },
    /// A connection ended.
    Closed { number: u64 },
    /// Jobs are claimed, or can't be.
    Claimed(Claimed),
    /// A captured stream of a job ended.
    StreamEnded { id: JobId },
    /// Output or input of a job could not be kept.
    OutputLost { id: JobId, note: String },
    /// A canceled job's time to end by itself is over.
    KillRound { id: JobId },
    /// A job has been killed for as long as it should be.
    GiveUp { id: JobId },
}
