//! The messages that the shepherd's loop handles.

use jobtap_core::job::JobId;
use rustix::io::Errno;
use rustix::process::Pid;
use tokio::sync::mpsc::UnboundedSender;

use super::claims::Claimed;
use super::start_error::StartError;
use crate::exec::protocol::{ShepherdMessage, ShepherdRequest};

/// A message to the shepherd's loop.
pub(super) enum Message {
    /// A manager sent its hello.
    Hello { number: u64, outbox: UnboundedSender<ShepherdMessage> },
    /// A manager sent a request.
    Request { number: u64, request: ShepherdRequest },
    /// A connection ended.
    Closed { number: u64 },
    /// Jobs were claimed, or could not be claimed.
    Claimed(Claimed),
    /// The FIFOs of a job that is being launched are open, or can't be opened.
    FifosOpened { id: JobId, result: Result<(), StartError> },
    /// It is now known whether a new process of a job executes its program.
    Executed { id: JobId, pid: Pid, result: ExecResult },
    /// A captured stream of a job ended.
    StreamEnded { id: JobId },
    /// The input of the task with this rank has ended.
    InputEnded { id: JobId, rank: u32 },
    /// Output of a job could not be written.
    OutputLost { id: JobId, note: String },
    /// The pause before the next kill signal to a canceled job is over.
    KillRound { id: JobId },
    /// The time limit for the other tasks after the exit of the first one is over.
    ExitTimeout { id: JobId },
    /// The tasks of this host wait for those of the job's other nodes, having put these values into the job's store.
    Exchange { id: JobId, round: u32, values: Vec<(String, String)> },
    /// A task has asked to end its whole job, as MPI_Abort does, and says why.
    Aborted { id: JobId, why: String },
    /// The time limit for killing a job (`exec.max-kill-timeout`) is exceeded.
    GiveUp { id: JobId },
}

/// Whether a new process executes its program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ExecResult {
    /// It does, or was killed.
    Done,
    /// The system refuses to.
    Refused(Errno),
    /// It has not done so in time.
    Late,
}
