//! The protocol between manager and shepherd: one JSON object per line over a Unix socket.
//!
//! The shepherd outlives the manager that started it, so the two may be of different builds. The
//! manager's first message is [`ShepherdRequest::Hello`]; the shepherd responds with
//! [`ShepherdMessage::Hello`], or with [`ShepherdMessage::Refused`] if it can't serve that version.

use serde::{Deserialize, Serialize};

use jobtap_core::engine::ExecEvent;
use jobtap_core::eventlog::EventEntry;
use jobtap_core::job::JobId;

use super::{HeldJob, JobCommand, Seen, StartJob, TaskProcess};

/// Version of the protocol. It is raised when an older peer could misread a message.
pub const VERSION: u32 = 5;

/// A message from the manager.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ShepherdRequest {
    /// Opens the connection; the sender becomes the manager to which events are sent.
    Hello {
        /// [`VERSION`].
        version: u32,
    },
    /// Start a job, or send the events of it that the manager has not seen.
    Start(Box<StartJob>),
    /// Continue jobs whose start was requested from an earlier shepherd, on the connection that this one replaces.
    Resume {
        /// The jobs.
        jobs: Vec<Resumed>,
    },
    /// List the jobs that the shepherd holds; the response is [`ShepherdMessage::List`].
    List,
    /// Exit as soon as the shepherd holds no job.
    Shutdown,
    /// A request about one job, which has an `op` of its own.
    #[serde(untagged)]
    Job(JobCommand),
}

/// A job that a manager continues, and the events of the job that it already has.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Resumed {
    /// The job.
    pub id: JobId,
    /// What the manager has recorded.
    pub seen: Seen,
    /// Whether the manager has [`ExecEvent::Started`].
    pub started: bool,
}

/// A message from the shepherd.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "kebab-case")]
pub enum ShepherdMessage {
    /// The response to [`ShepherdRequest::Hello`].
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The shepherd's process.
        pid: u32,
    },
    /// The shepherd can't serve this manager and closes the connection.
    Refused {
        /// Why.
        reason: String,
    },
    /// The response to [`ShepherdRequest::List`].
    List {
        /// The jobs.
        jobs: Vec<HeldJob>,
    },
    /// An event of a job that this manager has sent a start request for.
    Event(ExecEvent),
    /// The tasks of this node wait for those of the job's other nodes, and have put these values into PMI's store; the
    /// response is [`JobCommand::Exchanged`]. It is repeated to another manager, also when it `is_over` here: other nodes
    /// may still wait.
    Exchange {
        /// The job.
        id: JobId,
        /// The number of the exchange.
        round: u32,
        /// The values by their keys.
        values: Vec<(String, String)>,
        /// Whether this node has the values of all.
        #[serde(default)]
        is_over: bool,
    },
    /// The processes of a job's tasks; the response to [`JobCommand::Tasks`].
    Tasks {
        /// The job.
        id: JobId,
        /// Its tasks that run.
        tasks: Vec<TaskProcess>,
    },
}

/// Encodes `message` as a line, with its newline.
///
/// # Errors
/// It has a key that is not a string.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, serde_json::Error> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

/// How the line of a [`ShepherdRequest::Start`] begins.
const START: &[u8] = br#"{"op":"start","#;

/// How the line of a [`ShepherdMessage::Event`] with an entry of an eventlog begins.
const LOG: &[u8] = br#"{"op":"event","event":"log","#;

/// How the line of a [`ShepherdMessage::Event`] with the output of a job begins.
const OUTPUT: &[u8] = br#"{"op":"event","event":"output","#;

/// An [`ExecEvent::Log`].
#[derive(Deserialize)]
struct LogEvent {
    id: JobId,
    entry: EventEntry,
}

/// An [`ExecEvent::Output`].
#[derive(Deserialize)]
struct OutputEvent {
    id: JobId,
    text: String,
}

/// Decodes a request from a line.
///
/// # Errors
/// It isn't one.
pub fn decode_request(line: &[u8]) -> Result<ShepherdRequest, serde_json::Error> {
    // Serde buffers a tagged message as a tree until it has found the tag, which may come last, and then builds the
    // message from the tree. For messages that every job needs that is most of the work, so their tags are looked for
    // where `encode` puts them.
    if line.starts_with(START) {
        return serde_json::from_slice(line).map(ShepherdRequest::Start);
    }
    // Of a message that is neither, serde only says that it matches no variant.
    let reason = |error| serde_json::from_slice::<JobCommand>(line).err().unwrap_or(error);
    serde_json::from_slice(line).map_err(reason)
}

/// Decodes a message from a line.
///
/// # Errors
/// It isn't one.
pub fn decode_message(line: &[u8]) -> Result<ShepherdMessage, serde_json::Error> {
    // As in `decode_request`. Entries of the eventlog are the most frequent events of a job, and the output is the
    // longest.
    if line.starts_with(LOG) {
        let LogEvent { id, entry } = serde_json::from_slice(line)?;
        return Ok(ShepherdMessage::Event(ExecEvent::Log { id, entry }));
    }
    if line.starts_with(OUTPUT) {
        let OutputEvent { id, text } = serde_json::from_slice(line)?;
        return Ok(ShepherdMessage::Event(ExecEvent::Output { id, text }));
    }
    serde_json::from_slice(line)
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::{Reach, Signal, Timestamp};
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::exec::KillPolicy;

    fn any_signal() -> impl Strategy<Value = Signal> {
        (1..=64_i64).prop_map(|number| Signal::from_number(number).unwrap())
    }

    fn any_id() -> impl Strategy<Value = JobId> {
        any::<u64>().prop_map(JobId::new)
    }

    fn any_command() -> impl Strategy<Value = JobCommand> {
        prop_oneof![
            (
                any_id(),
                any_signal(),
                prop_oneof![Just(Reach::Group), Just(Reach::Task), Just(Reach::Steps)]
            )
                .prop_map(|(id, signal, reach)| JobCommand::Signal {
                    id,
                    signal,
                    reach
                }),
            (any_id(), any::<Option<u32>>(), any::<Vec<u8>>(), any::<bool>())
                .prop_map(|(id, rank, data, eof)| JobCommand::Stdin { id, rank, data, eof }),
            (any_id(), any_signal(), any_signal(), any::<u32>(), any::<Option<u32>>()).prop_map(
                |(id, signal, kill_signal, max_kill_count, limit)| {
                    let max_kill_timeout = limit.map(f64::from);
                    let default = KillPolicy::default();
                    let kill =
                        KillPolicy { kill_signal, max_kill_count, max_kill_timeout, ..default };
                    JobCommand::Cancel { id, signal, kill }
                }
            ),
            (any_id(), any::<u16>(), any::<u16>())
                .prop_map(|(id, rows, columns)| JobCommand::Resize { id, rows, columns }),
            any_id().prop_map(|id| JobCommand::Tasks { id }),
            any_id().prop_map(|id| JobCommand::Recall { id }),
            (any_id(), any::<u32>(), any::<Vec<(String, String)>>())
                .prop_map(|(id, round, values)| JobCommand::Exchanged { id, round, values }),
            (any_id(), any::<u32>(), any::<i32>(), any::<String>()).prop_map(
                |(id, rank, status, host)| JobCommand::FirstExit { id, rank, status, host }
            ),
            any_id().prop_map(|id| JobCommand::Ack { id }),
        ]
    }

    fn any_request() -> impl Strategy<Value = ShepherdRequest> {
        let start = (any_id(), any::<u32>(), any::<Vec<String>>(), any::<Vec<(String, String)>>())
            .prop_map(|(id, ntasks, command, env)| {
                let shell_options = json!({"output": {"mode": "append"}});
                let after = (ntasks > 1).then_some(id);
                let job =
                    StartJob { ntasks, command, env, shell_options, after, ..StartJob::new(id) };
                ShepherdRequest::Start(Box::new(job))
            });
        prop_oneof![
            any::<u32>().prop_map(|version| ShepherdRequest::Hello { version }),
            start,
            any_command().prop_map(ShepherdRequest::Job),
            Just(ShepherdRequest::List),
            Just(ShepherdRequest::Shutdown),
        ]
    }

    fn any_reply() -> impl Strategy<Value = ShepherdMessage> {
        prop_oneof![
            any::<String>().prop_map(|reason| ShepherdMessage::Refused { reason }),
            (any_id(), any::<bool>()).prop_map(|(id, ended)| ShepherdMessage::List {
                jobs: vec![HeldJob { id, ended, after: ended.then_some(id) }]
            }),
            (any_id(), any::<i32>()).prop_map(|(id, status)| ShepherdMessage::Event(
                ExecEvent::Finished { id, status }
            )),
            (any_id(), any::<String>()).prop_map(|(id, note)| {
                let context = json!({"data": note}).as_object().cloned();
                let entry = EventEntry::new(Timestamp::from_secs(1.5), "log", context);
                ShepherdMessage::Event(ExecEvent::Log { id, entry })
            }),
            (any_id(), any::<String>())
                .prop_map(|(id, text)| { ShepherdMessage::Event(ExecEvent::Output { id, text }) }),
        ]
    }

    /// The same message as a peer of another build might write it.
    fn with_tags_last(line: &[u8]) -> Vec<u8> {
        let mut message: serde_json::Map<String, serde_json::Value> =
            serde_json::from_slice(line).unwrap();
        for tag in ["event", "op"] {
            if let Some(kind) = message.shift_remove(tag) {
                message.insert(tag.to_owned(), kind);
            }
        }
        serde_json::to_vec(&message).unwrap()
    }

    /// Makes sure that the tests below cover both ways to decode.
    #[test]
    fn what_each_job_needs_begins_with_its_tags() {
        let start = ShepherdRequest::Start(Box::new(StartJob::new(JobId::new(1))));
        assert!(encode(&start).unwrap().starts_with(START));
        let entry = EventEntry::new(Timestamp::from_secs(1.5), "init", None);
        let log = ShepherdMessage::Event(ExecEvent::Log { id: JobId::new(1), entry });
        assert!(encode(&log).unwrap().starts_with(LOG));
        let output = ExecEvent::Output { id: JobId::new(1), text: "{}".to_owned() };
        assert!(encode(&ShepherdMessage::Event(output)).unwrap().starts_with(OUTPUT));
    }

    proptest! {
        #[test]
        fn requests_round_trip(request in any_request()) {
            let line = encode(&request).unwrap();
            prop_assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1);
            prop_assert_eq!(decode_request(&line).unwrap(), request.clone());
            prop_assert_eq!(decode_request(&with_tags_last(&line)).unwrap(), request);
        }

        #[test]
        fn replies_round_trip(reply in any_reply()) {
            let line = encode(&reply).unwrap();
            prop_assert_eq!(decode_message(&line).unwrap(), reply.clone());
            prop_assert_eq!(decode_message(&with_tags_last(&line)).unwrap(), reply);
        }

        #[test]
        fn junk_is_an_error(line in any::<Vec<u8>>()) {
            prop_assert!(decode_request(&line).is_err());
            prop_assert!(decode_message(&line).is_err());
        }
    }

    #[test]
    fn the_encoding_of_messages_is_fixed() {
        let line = |request: &ShepherdRequest| String::from_utf8(encode(request).unwrap()).unwrap();
        let (id, signal) = (JobId::new(3), Signal::TERM);
        let stdin = |rank| JobCommand::Stdin { id, rank, data: b"\0xyz".to_vec(), eof: true };
        for (request, expected) in [
            (ShepherdRequest::Hello { version: 1 }, r#"{"op":"hello","version":1}"#),
            (ShepherdRequest::List, r#"{"op":"list"}"#),
            (ShepherdRequest::Shutdown, r#"{"op":"shutdown"}"#),
            (
                ShepherdRequest::Job(JobCommand::Signal { id, signal, reach: Reach::Group }),
                r#"{"op":"signal","id":3,"signum":15}"#,
            ),
            (
                ShepherdRequest::Job(JobCommand::Cancel {
                    id,
                    signal,
                    kill: KillPolicy::default(),
                }),
                concat!(
                    r#"{"op":"cancel","id":3,"signum":15,"kill_timeout":5.0,"#,
                    r#""kill_signal":"SIGKILL","max_kill_count":8}"#,
                ),
            ),
            (
                ShepherdRequest::Job(stdin(Some(2))),
                r#"{"op":"stdin","id":3,"rank":2,"data":"AHh5eg==","eof":true}"#,
            ),
            (
                ShepherdRequest::Job(stdin(None)),
                r#"{"op":"stdin","id":3,"rank":null,"data":"AHh5eg==","eof":true}"#,
            ),
            (
                ShepherdRequest::Job(JobCommand::Resize { id, rows: 24, columns: 80 }),
                r#"{"op":"resize","id":3,"rows":24,"columns":80}"#,
            ),
            (ShepherdRequest::Job(JobCommand::Tasks { id }), r#"{"op":"tasks","id":3}"#),
            (ShepherdRequest::Job(JobCommand::Ack { id }), r#"{"op":"ack","id":3}"#),
        ] {
            assert_eq!(line(&request), format!("{expected}\n"));
            assert_eq!(decode_request(expected.as_bytes()).unwrap(), request);
        }
        let event = ShepherdMessage::Event(ExecEvent::Released { id: JobId::new(3) });
        assert_eq!(
            String::from_utf8(encode(&event).unwrap()).unwrap(),
            "{\"op\":\"event\",\"event\":\"released\",\"id\":3}\n"
        );
    }
}
