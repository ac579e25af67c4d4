//! A list of jobs that is read job by job. The manager writes such a list part by part, as fast as it is
//! read, and only one job is held here at a time: a list of a million jobs takes little memory at both ends.

use std::fmt;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Deserializer;
use serde::de::{DeserializeSeed, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::{ClientError, RpcError, connect_error, connection_lost, greeted, greeting};
use crate::rpc::HELLO;
use crate::rpc::message::{Body, Response, decode};
use crate::rpc::service::Service;
use crate::rpc::services::job_list::List;

/// Why a list of jobs was not read to its end. `E` is the error of the function that takes the jobs.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError<E> {
    /// There is no connection.
    #[error(transparent)]
    Connect(#[from] ClientError),
    /// The manager refused, or the connection was lost.
    #[error(transparent)]
    Refused(#[from] RpcError),
    /// The function that takes the jobs failed.
    #[error("{0}")]
    Stopped(E),
}

/// Asks the manager at this socket for jobs, and hands each to `take`, until `take` fails. It blocks, so a
/// slow reader of a command's output slows down the manager's writing, and nothing piles up.
pub(crate) fn list_jobs<E>(
    path: &Path,
    request: &List,
    take: impl FnMut(Value) -> Result<(), E>,
) -> Result<(), ListError<E>> {
    let mut socket = UnixStream::connect(path).map_err(|error| connect_error(path, error))?;
    let mut lines = BufReader::new(socket.try_clone().map_err(|_| connection_lost())?);
    send(&mut socket, 0, HELLO, greeting())?;
    let mut line = Vec::new();
    lines.read_until(b'\n', &mut line).map_err(|_| connection_lost())?;
    let response = decode::<Response>(&line).map_err(|_| connection_lost())?;
    greeted(path, response.result)?;
    send(&mut socket, 1, List::TOPIC, request)?;
    let mut jobs = Jobs { take, stopped: None };
    let mut json = serde_json::Deserializer::from_reader(lines);
    let read = Message(&mut jobs).deserialize(&mut json);
    match (jobs.stopped, read) {
        (Some(error), _) => Err(ListError::Stopped(error)),
        (None, Ok(None)) => Ok(()),
        (None, Ok(Some(refusal))) => Err(refusal.into()),
        // The manager's messages are valid JSON, so it has exited in the middle of one.
        (None, Err(_)) => Err(connection_lost().into()),
    }
}

fn send(
    socket: &mut UnixStream,
    id: u64,
    topic: &str,
    payload: impl serde::Serialize,
) -> Result<(), RpcError> {
    let body = Body::of_payload(&payload).map_err(|error| RpcError::proto(error.to_string()))?;
    let request = body.into_request(id, topic, false);
    socket.write_all(request.as_bytes()).map_err(|_| connection_lost())
}

/// The function that takes the jobs, and its error if it has failed.
struct Jobs<F, E> {
    take: F,
    stopped: Option<E>,
}

/// Reads the response: an object whose member `payload` has the jobs. Returns the refusal, if it is one.
struct Message<'a, F, E>(&'a mut Jobs<F, E>);

impl<'de, F: FnMut(Value) -> Result<(), E>, E> DeserializeSeed<'de> for Message<'_, F, E> {
    type Value = Option<RpcError>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Self::Value, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<(), E>, E> Visitor<'de> for Message<'_, F, E> {
    type Value = Option<RpcError>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a response")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Self::Value, A::Error> {
        let (mut errno, mut text) = (None, String::new());
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "payload" => members.next_value_seed(Payload(self.0))?,
                "errno" => errno = Some(members.next_value::<i32>()?),
                "error" => text = members.next_value()?,
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(errno.map(|errno| RpcError::new(errno, text)))
    }
}

/// Reads the payload: an object whose member `jobs` is the list.
struct Payload<'a, F, E>(&'a mut Jobs<F, E>);

impl<'de, F: FnMut(Value) -> Result<(), E>, E> DeserializeSeed<'de> for Payload<'_, F, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<(), E>, E> Visitor<'de> for Payload<'_, F, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of jobs")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<(), A::Error> {
        while let Some(name) = members.next_key::<String>()? {
            match name.as_str() {
                "jobs" => members.next_value_seed(Elements(self.0))?,
                _ => drop(members.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

/// Reads the list, and hands each job on.
struct Elements<'a, F, E>(&'a mut Jobs<F, E>);

impl<'de, F: FnMut(Value) -> Result<(), E>, E> DeserializeSeed<'de> for Elements<'_, F, E> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<(), D::Error> {
        json.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(Value) -> Result<(), E>, E> Visitor<'de> for Elements<'_, F, E> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("jobs")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut jobs: A) -> Result<(), A::Error> {
        while let Some(job) = jobs.next_element::<Value>()? {
            if let Err(error) = (self.0.take)(job) {
                self.0.stopped = Some(error);
                return Err(A::Error::custom("stopped"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Reads a response, and stops at the job 3.
    fn read(text: &str) -> (Vec<Value>, Option<&'static str>, Result<Option<RpcError>, ()>) {
        let mut seen = Vec::new();
        let take = |job: Value| {
            let stop = job["id"] == 3;
            seen.push(job["id"].clone());
            if stop { Err("stop") } else { Ok(()) }
        };
        let mut jobs = Jobs { take, stopped: None };
        let mut json = serde_json::Deserializer::from_reader(text.as_bytes());
        let read = Message(&mut jobs).deserialize(&mut json);
        let stopped = jobs.stopped;
        (seen, stopped, read.map_err(drop))
    }

    #[test]
    fn each_job_is_handed_on() {
        let text = r#"{"id":1,"payload":{"jobs":[{"id":1},{"id":2}],"more":[]},"x":null}"#;
        assert_eq!(read(text), (vec![json!(1), json!(2)], None, Ok(None)));
    }

    #[test]
    fn a_refusal_may_come_after_some_jobs() {
        let refused = read(r#"{"id":1,"payload":{"jobs":[{"id":1}]},"errno":22,"error":"no"}"#);
        assert_eq!(refused, (vec![json!(1)], None, Ok(Some(RpcError::new(22, "no")))));
        let refused = read(r#"{"id":1,"errno":22,"error":"no"}"#);
        assert_eq!(refused, (vec![], None, Ok(Some(RpcError::new(22, "no")))));
    }

    #[test]
    fn a_list_that_breaks_off_is_an_error() {
        assert_eq!(
            read(r#"{"id":1,"payload":{"jobs":[{"id":1},"#),
            (vec![json!(1)], None, Err(()))
        );
    }

    #[test]
    fn the_reader_can_stop() {
        let (seen, stopped, _) = read(r#"{"payload":{"jobs":[{"id":3},{"id":4}]}}"#);
        assert_eq!((seen, stopped), (vec![json!(3)], Some("stop")));
    }
}
