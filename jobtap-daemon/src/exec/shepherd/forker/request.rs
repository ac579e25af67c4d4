//! The protocol between the shepherd and its forker, over a socket that both have from their start.
//!
//! The shepherd sends [`ForkerRequest`]s: the length of a body in four bytes, then the body as postcard writes it. The
//! files of a new process are passed with the first byte. The forker sends [`ForkerReport`]s of a fixed size.

use std::path::PathBuf;

use jobtap_core::job::{JobId, Reach};
use rustix::process::Signal;
use serde::{Deserialize, Serialize};

use super::super::files::user_file::Purpose;
use super::super::job_user::Identity;
use super::super::output_stream::Stream;

/// A request of the shepherd.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum ForkerRequest {
    /// The first request. The files that come along are the socket at which a manager finds the shepherd, and the
    /// [`Progress`](super::progress::Progress).
    Begin,
    /// Start the process of a task, and report it with this number. `files` describes the files that come along.
    Spawn { number: u64, files: Vec<FileUse>, task: Box<Spawn> },
    /// Send a signal to the process of a task, and possibly to its process group, unless it was reported as exited.
    Signal {
        pid: i32,
        #[serde(with = "crate::exec::signals::by_number")]
        signal: Signal,
        #[serde(default)]
        reach: Reach,
    },
    /// Close the end of this task's input, since the input has ended.
    CloseInput { pid: i32 },
    /// Forget these jobs: they have ended.
    Forget(Vec<JobId>),
    /// Exit: the shepherd ends normally.
    Leave,
}

/// The process of a task.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::exec::shepherd) struct Spawn {
    pub(in crate::exec::shepherd) job: JobId,
    pub(in crate::exec::shepherd) rank: u32,
    /// With the first task of a job: what a successor of the shepherd has to know about the job.
    pub(in crate::exec::shepherd) record: Option<String>,
    pub(in crate::exec::shepherd) program: PathBuf,
    pub(in crate::exec::shepherd) directory: PathBuf,
    /// They begin with the name of the program.
    pub(in crate::exec::shepherd) args: Vec<String>,
    /// The variables, each as `NAME=VALUE`.
    pub(in crate::exec::shepherd) env: Vec<String>,
    /// The CPUs that the process may run on. Without a list it may run on all.
    pub(in crate::exec::shepherd) cpus: Option<Vec<u32>>,
    pub(in crate::exec::shepherd) limits: Vec<Limit>,
    /// The user to become.
    pub(in crate::exec::shepherd) user: Option<Identity>,
    /// Standard streams that the process opens itself.
    pub(in crate::exec::shepherd) opens: Vec<Open>,
}

impl Spawn {
    /// Whether the process needs no steps of its own before it executes its program.
    pub(super) fn is_plain(&self, mut files: impl Iterator<Item = FileUse>) -> bool {
        let Self { cpus, limits, user, opens, .. } = self;
        let has_terminal = files.any(|used| used == FileUse::Terminal);
        cpus.is_none() && limits.is_empty() && user.is_none() && opens.is_empty() && !has_terminal
    }
}

/// A soft and a hard limit of a resource; `None` is unlimited.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::exec::shepherd) struct Limit {
    /// The name in [`RESOURCES`](crate::rlimits::RESOURCES).
    pub(in crate::exec::shepherd) resource: String,
    pub(in crate::exec::shepherd) soft: Option<u64>,
    pub(in crate::exec::shepherd) hard: Option<u64>,
}

/// A standard stream that the process of a task opens.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::exec::shepherd) struct Open {
    pub(in crate::exec::shepherd) stream: Standard,
    pub(in crate::exec::shepherd) path: PathBuf,
    pub(in crate::exec::shepherd) purpose: Purpose,
}

/// A standard stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec::shepherd) enum Standard {
    Input,
    Output,
    Error,
}

/// The use of a file that comes with the request for a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec::shepherd) enum FileUse {
    /// The pipe by which the process reports whether it executes its program, unless it is [plain](Spawn::is_plain).
    Report,
    /// A standard stream of the process.
    Stream(Standard),
    /// The socket of the task's PMI.
    Pmi,
    /// The terminal that becomes the controlling one.
    Terminal,
    /// The shepherd's end of a stream, for a successor.
    ShepherdEnd(ShepherdEnd),
}

/// A shepherd's end of a stream of a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::exec::shepherd) enum ShepherdEnd {
    /// A pipe with what the task prints to this stream.
    Printed(Stream),
    /// A pipe to the task's standard input.
    Input,
    /// The other side of the task's terminal.
    Terminal,
}

/// A report of the forker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ForkerReport {
    /// The process of a request was started. A plain task executes its program; for any other task, the process's own
    /// report says whether it does.
    Started { number: u64, pid: i32 },
    /// The system refused to start a process, with this error number.
    NotForked { number: u64, errno: i32 },
    /// A process has ended with this wait status. Its id isn't the task's any more.
    Exited { pid: i32, status: i32 },
}

impl ForkerReport {
    /// The size of each report in bytes.
    pub(super) const SIZE: usize = 16;

    pub(super) fn encode(self) -> [u8; Self::SIZE] {
        let (kind, value, number) = match self {
            Self::Started { number, pid } => (0_u32, pid, number),
            Self::NotForked { number, errno } => (1, errno, number),
            Self::Exited { pid, status } => (2, pid, u64::from(status.cast_unsigned())),
        };
        let words = kind.to_ne_bytes().into_iter().chain(value.to_ne_bytes());
        let mut bytes = [0; Self::SIZE];
        for (byte, word) in bytes.iter_mut().zip(words.chain(number.to_ne_bytes())) {
            *byte = word;
        }
        bytes
    }

    /// Returns `None` for bytes that no forker writes.
    pub(super) fn decode(bytes: [u8; Self::SIZE]) -> Option<Self> {
        let [a, b, c, d, e, f, g, h, rest @ ..] = bytes;
        let value = i32::from_ne_bytes([e, f, g, h]);
        let number = u64::from_ne_bytes(rest);
        match u32::from_ne_bytes([a, b, c, d]) {
            0 => Some(Self::Started { number, pid: value }),
            1 => Some(Self::NotForked { number, errno: value }),
            2 => {
                let status = u32::try_from(number).ok()?.cast_signed();
                Some(Self::Exited { pid: value, status })
            }
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn any_limit() -> impl Strategy<Value = Limit> {
        (any::<String>(), any::<Option<u64>>(), any::<Option<u64>>())
            .prop_map(|(resource, soft, hard)| Limit { resource, soft, hard })
    }

    fn any_spawn() -> impl Strategy<Value = Spawn> {
        let words = (any::<String>(), any::<Vec<String>>(), any::<Vec<String>>());
        let limits = proptest::collection::vec(any_limit(), 0..4);
        let rest = (any::<u64>(), any::<Option<String>>(), any::<Option<Vec<u32>>>(), limits);
        (words, rest).prop_map(|((program, args, env), (job, record, cpus, limits))| Spawn {
            job: JobId::new(job),
            rank: 7,
            record,
            program: program.into(),
            directory: "/".into(),
            args,
            env,
            cpus,
            limits,
            user: None,
            opens: vec![Open {
                stream: Standard::Input,
                path: "/proc/self/maps".into(),
                purpose: Purpose::Read,
            }],
        })
    }

    proptest! {
        #[test]
        fn requests_are_read_as_written(number: u64, spawn in any_spawn()) {
            let files = vec![FileUse::Report, FileUse::ShepherdEnd(ShepherdEnd::Printed(Stream::Stderr))];
            let ended = vec![JobId::new(number), spawn.job];
            for request in [
                ForkerRequest::Spawn { number, files, task: Box::new(spawn) },
                ForkerRequest::Forget(ended),
                ForkerRequest::Leave,
            ] {
                let bytes = postcard::to_stdvec(&request).unwrap();
                let read: ForkerRequest = postcard::from_bytes(&bytes).unwrap();
                prop_assert_eq!(format!("{read:?}"), format!("{request:?}"));
            }
        }

        #[test]
        fn records_are_read_as_written(number: u64, value: i32, status: i32) {
            for report in [
                ForkerReport::Started { number, pid: value },
                ForkerReport::NotForked { number, errno: value },
                ForkerReport::Exited { pid: value, status },
            ] {
                prop_assert_eq!(ForkerReport::decode(report.encode()), Some(report));
            }
        }
    }

    #[test]
    fn what_no_forker_writes_is_no_record() {
        assert_eq!(ForkerReport::decode([255; ForkerReport::SIZE]), None);
    }
}
