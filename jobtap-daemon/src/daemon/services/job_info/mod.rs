//! `job-info.*`: what the store has about a job.

mod lookup;
mod merge;
pub(in crate::daemon) mod watch;

use jobtap_core::job::JobId;

use super::{Context, Handle, PendingResponse, written};
use crate::rpc::RpcError;
use crate::rpc::service::Service;
use crate::rpc::services::job_info::{self as wire, Lookup};

impl Handle for Lookup {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let (records, cred) = (context.parts.records.clone(), context.cred);
        PendingResponse::one(
            async move { written::<Self>(&lookup::values(&records, cred, &self)?) },
        )
    }
}

/// A request for an eventlog as it grows.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) struct Watch {
    /// The job.
    id: JobId,
    /// Which eventlog.
    path: Path,
    /// Whether to wait for a log that does not exist yet.
    waitcreate: bool,
    /// Whether a response without a line follows the lines that exist already.
    sentinel: bool,
    /// Whether many lines come in one response.
    batch: bool,
}

/// The eventlogs that can be watched.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Path {
    /// `eventlog`: the job's life.
    Main,
    /// `guest.exec.eventlog`: its execution.
    Exec,
    /// `guest.output`: what its tasks print.
    Output,
    /// `guest.input`: their input.
    Input,
    /// A name that no log has.
    Unknown,
}

impl From<wire::Watch> for Watch {
    fn from(request: wire::Watch) -> Self {
        let path = match request.path.as_str() {
            "eventlog" => Path::Main,
            "guest.exec.eventlog" => Path::Exec,
            "guest.output" => Path::Output,
            "guest.input" => Path::Input,
            _ => Path::Unknown,
        };
        let flag = |flag| request.flags & flag != 0;
        let waitcreate = flag(wire::Watch::WAITCREATE);
        let sentinel = flag(wire::Watch::INITIAL_SENTINEL);
        Self { id: request.id, path, waitcreate, sentinel, batch: request.batch }
    }
}

impl Handle for wire::Watch {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        if !context.streaming {
            let text = format!("{} requires streaming RPC flag", Self::TOPIC);
            return Err(RpcError::proto(text));
        }
        Ok(PendingResponse::Eventlog(self.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watched_paths_are_those_of_flux() {
        let path = |name: &str| {
            let id = JobId::new(1);
            let request = wire::Watch { id, path: name.to_owned(), flags: 0, batch: false };
            Watch::from(request).path
        };
        assert_eq!(path("eventlog"), Path::Main);
        assert_eq!(path("guest.exec.eventlog"), Path::Exec);
        assert_eq!(path("guest.output"), Path::Output);
        assert_eq!(path("nosuch"), Path::Unknown);
    }
}
