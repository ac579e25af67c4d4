//! What the manager asks of a job that it has handed to an executor.
//!
//! A request is the same value on its whole way, from the engine's command or a client to the shepherd. It says which
//! job and which task it is about in the terms of the whole job, by the job's id and the task's rank, and not in those
//! of a host.

use jobtap_core::job::{JobId, Reach, Signal};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use super::KillPolicy;
use super::data::{decode_data, encode_data};

/// A request about a job that was handed to an executor. Written as JSON, it is a line of the shepherd's protocol.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum JobCommand {
    /// Send a signal to processes of the job.
    Signal {
        /// The job.
        id: JobId,
        /// The signal.
        #[serde(rename = "signum", with = "by_number")]
        signal: Signal,
        /// Which of them get it.
        #[serde(default, skip_serializing_if = "Reach::is_group")]
        reach: Reach,
    },
    /// End the job: send `signal`, then kill it as `kill` says until none of its processes is left, even if the manager
    /// dies meanwhile. Further requests to cancel it do nothing.
    Cancel {
        /// The job.
        id: JobId,
        /// The first signal: SIGTERM, or SIGALRM for a job that exceeded its time limit.
        #[serde(rename = "signum", with = "by_number")]
        signal: Signal,
        /// How it is killed.
        #[serde(flatten)]
        kill: KillPolicy,
    },
    /// Pass input to tasks of a job whose standard input comes from its clients (shell option `input.stdin.type` is
    /// `service`).
    Stdin {
        /// The job.
        id: JobId,
        /// The task that gets the input; `None` for all tasks.
        rank: Option<u32>,
        /// The bytes.
        #[serde(with = "as_text")]
        data: Vec<u8>,
        /// Whether the input ends there.
        eof: bool,
    },
    /// Set the size of the terminals of the job's tasks (shell option `pty`).
    Resize {
        /// The job.
        id: JobId,
        /// The number of rows.
        rows: u16,
        /// The number of columns.
        columns: u16,
    },
    /// List the processes of the job's tasks; [`ExecutorReport::Tasks`](super::ExecutorReport::Tasks) is the response.
    Tasks {
        /// The job.
        id: JobId,
    },
    /// The values that the tasks of all of the job's nodes have put into PMI's store by this round of their exchange.
    Exchanged {
        /// The job.
        id: JobId,
        /// The number of the round, from 1.
        round: u32,
        /// Keys and values.
        values: Vec<(String, String)>,
    },
    /// The first task of the job that has exited did so on another node, which may limit the time of the others
    /// (`exit-timeout`).
    FirstExit {
        /// The job.
        id: JobId,
        /// The task.
        rank: u32,
        /// Its wait status.
        status: i32,
        /// The name of its host.
        host: String,
    },
    /// Give back a job that was handed over ahead of its turn, unless it is begun.
    Recall {
        /// The job.
        id: JobId,
    },
    /// The end of the job is durable, so that the record of the job can be deleted.
    Ack {
        /// The job.
        id: JobId,
    },
}

impl JobCommand {
    /// The job that the request is about.
    pub fn id(&self) -> JobId {
        match *self {
            Self::Signal { id, .. }
            | Self::Cancel { id, .. }
            | Self::Stdin { id, .. }
            | Self::Resize { id, .. }
            | Self::Tasks { id }
            | Self::Exchanged { id, .. }
            | Self::FirstExit { id, .. }
            | Self::Recall { id }
            | Self::Ack { id } => id,
        }
    }
}

/// Signals as the protocol has them: a [`Signal`] itself is written by its name.
mod by_number {
    use super::*;

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
    pub(super) fn serialize<S: Serializer>(
        signal: &Signal,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        signal.number().serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Signal, D::Error> {
        let number = i64::deserialize(deserializer)?;
        let unknown = || de::Error::custom(format_args!("{number} is not a signal"));
        Signal::from_number(number).ok_or_else(unknown)
    }
}

/// Bytes as the protocol has them.
mod as_text {
    use super::*;

    pub(super) fn serialize<S: Serializer>(data: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        encode_data(data).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<u8>, D::Error> {
        decode_data(&String::deserialize(deserializer)?).map_err(de::Error::custom)
    }
}
