//! Watches one of a job's eventlogs: yields its events as they are added.

use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;

use crate::cli::common::message::CliError;
use crate::client::{Client, Responses, RpcError};
use crate::rpc::errno::{ENOENT, EPROTO};
use crate::rpc::services::job_info::Watch;

/// The key of an eventlog that the user named by a key or an abbreviation.
pub(in crate::cli) fn path_key(path: &str) -> &str {
    match path {
        "exec" => "guest.exec.eventlog",
        "output" => "guest.output",
        "input" => "guest.input",
        other => other,
    }
}

/// A watched eventlog.
pub(in crate::cli) struct EventStream {
    stream: Responses<Watch>,
}

impl EventStream {
    /// Watches the eventlog with the key `path`. With `waitcreate`, the log doesn't have to exist yet.
    pub(in crate::cli) async fn open(
        client: &Client,
        id: JobId,
        path: &str,
        waitcreate: bool,
    ) -> Result<Self, RpcError> {
        let flags = if waitcreate { Watch::WAITCREATE } else { 0 };
        Self::open_request(client, Watch::new(id, path, flags)).await
    }

    /// Watches a job's main eventlog. Only events with these names are sent; an empty list means all events.
    pub(in crate::cli) async fn open_only(
        client: &Client,
        id: JobId,
        only: Vec<String>,
    ) -> Result<Self, RpcError> {
        Self::open_request(client, Watch { only, ..Watch::new(id, "eventlog", 0) }).await
    }

    async fn open_request(client: &Client, request: Watch) -> Result<Self, RpcError> {
        let stream = match request.path.as_str() {
            // These logs may be long.
            "guest.output" | "guest.input" => client.stream(request).await?,
            // Commands that watch a job send other requests meanwhile.
            _ => client.stream_ahead(request).await?,
        };
        Ok(Self { stream })
    }

    /// Reads the events that exist already, however many: they are read from the connection as they are consumed.
    pub(in crate::cli) async fn open_stored(
        client: &Client,
        id: JobId,
        path: &str,
    ) -> Result<Self, RpcError> {
        let flags = Watch::INITIAL_SENTINEL;
        let request = Watch::new(id, path, flags);
        Ok(Self { stream: client.stream(request).await? })
    }

    /// The next event; `None` at the end of the log.
    pub(in crate::cli) async fn next(&mut self) -> Option<Result<EventEntry, RpcError>> {
        match self.stream.next().await? {
            // The sentinel, which follows the events that existed already.
            Ok(response) if response.event.is_empty() => None,
            Ok(response) => {
                let event = EventEntry::decode(&response.event);
                Some(event.map_err(|error| RpcError::new(EPROTO, error.to_string())))
            }
            Err(error) => Some(Err(error)),
        }
    }
}

/// The message about an eventlog that can't be read, with the id and path as the user typed them.
pub(in crate::cli) fn not_found(error: RpcError, typed: &str, path: &str) -> CliError {
    if error.errno != ENOENT {
        return error.into();
    }
    if path_key(path) == "eventlog" {
        CliError::failure(format!("job {typed} not found"))
    } else {
        CliError::failure(format!("eventlog path {} not found", path_key(path)))
    }
}

/// Returns true if the context has the key with this value, which is written as JSON or as a bare string.
pub(in crate::cli) fn has_context(event: &EventEntry, (key, wanted): (&str, &str)) -> bool {
    let value = event.context.as_ref().and_then(|context| context.get(key));
    value.is_some_and(|value| {
        let json = value.to_string();
        value.as_str() == Some(wanted) || json == wanted
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn context_values_match_as_json_or_bare_string() {
        let event = EventEntry::decode(concat!(
            r#"{"timestamp":1.0,"name":"e","context":{"type":"cancel","a.b":7}}"#,
            "\n"
        ))
        .unwrap();
        assert!(has_context(&event, ("type", "cancel")));
        assert!(has_context(&event, ("type", "\"cancel\"")));
        assert!(has_context(&event, ("a.b", "7")));
        assert!(!has_context(&event, ("a.b", "8")));
        assert!(!has_context(&event, ("none", "7")));
    }
}
