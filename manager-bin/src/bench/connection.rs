//! A client that costs little: requests are lines from a template, and of a response no more is read than is
//! needed. A measured rate is that of the manager, not that of the measuring program, which shares its processors.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{BenchError, document};
use crate::rpc::message::{Request, encode};
use crate::rpc::service::Service;
use crate::rpc::services::ingest::Submit;
use crate::rpc::services::job_list::GetStats;
use crate::rpc::services::job_list::States;
use crate::rpc::{HELLO, PROTOCOL};

/// A manager that doesn't respond within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(300);

/// How often the number of jobs in a state is asked for.
const POLL: Duration = Duration::from_millis(5);

/// How many requests are written together.
const TOGETHER: u64 = 32;

/// The key of a refusal, and where it is looked for: `{"id":18446744073709551615,"errno":`.
const ERRNO: &[u8] = b",\"errno\":";
const HEAD: usize = 36;

/// Numbers that stand for others in a template. They are in no other part of it.
const ID: u64 = 8_765_432_109;
pub(super) const NUMBER: u64 = 9_876_543_210;

/// The lines of submissions, which differ in the id of the request and in one argument of the job.
#[derive(Clone)]
pub(super) struct Submissions {
    before_id: String,
    before_number: String,
    end: String,
}

impl Submissions {
    /// Jobs of one core with this time of simulated execution.
    pub(super) fn simulated(run_duration: f64) -> Result<Self, BenchError> {
        Self::of(document(run_duration, 1, NUMBER))
    }

    /// Jobs of this jobspec.
    pub(super) fn of(jobspec: Value) -> Result<Self, BenchError> {
        Self::with_urgency(jobspec, None)
    }

    /// Jobs of this jobspec and urgency.
    pub(super) fn with_urgency(jobspec: Value, urgency: Option<i64>) -> Result<Self, BenchError> {
        let payload = Submit { jobspec: Some(jobspec.into()), urgency, ..Submit::default() };
        let line = line(ID, Submit::TOPIC, payload, false)?;
        let malformed = || BenchError::other("the template of submissions is malformed");
        let (before_id, rest) = line.split_once(&ID.to_string()).ok_or_else(malformed)?;
        let (before_number, end) =
            rest.split_once(&NUMBER.to_string()).unwrap_or((rest.trim_end(), ""));
        let (before_id, before_number) = (before_id.to_owned(), before_number.to_owned());
        Ok(Self { before_id, before_number, end: end.to_owned() })
    }

    /// Adds the line of a submission.
    pub(super) fn write(&self, number: u64, text: &mut String) {
        use std::fmt::Write as _;
        text.push_str(&self.before_id);
        // Writing to a text can't fail.
        let _ = write!(text, "{number}");
        text.push_str(&self.before_number);
        if self.end.is_empty() {
            text.push('\n');
        } else {
            let _ = write!(text, "{number}");
            text.push_str(&self.end);
        }
    }
}

/// A connection to a manager.
pub(super) struct Connection {
    socket: BufReader<UnixStream>,
    line: String,
    next: u64,
}

impl Connection {
    /// Connects as a client does.
    pub(super) fn open(socket: &Path) -> Result<Self, BenchError> {
        let socket = UnixStream::connect(socket)?;
        socket.set_read_timeout(Some(PATIENCE))?;
        socket.set_write_timeout(Some(PATIENCE))?;
        let socket = BufReader::with_capacity(1 << 16, socket);
        let mut connection = Self { socket, line: String::new(), next: 0 };
        connection.ask(HELLO, json!({ "protocol": PROTOCOL }))?;
        Ok(connection)
    }

    /// Sends a request and returns the payload of its response.
    pub(super) fn ask(&mut self, topic: &str, payload: Value) -> Result<Value, BenchError> {
        self.ask_line(topic, payload)?;
        let mut response: Value = serde_json::from_str(&self.line)
            .map_err(|error| BenchError::other(error.to_string()))?;
        Ok(response.get_mut("payload").map(Value::take).unwrap_or_default())
    }

    /// Sends a request and returns how many bytes its response has.
    pub(super) fn ask_line(&mut self, topic: &str, payload: Value) -> Result<usize, BenchError> {
        self.next += 1;
        let line = line(self.next, topic, payload, false)?;
        self.send(&line)?;
        self.response()?;
        Ok(self.line.len())
    }

    /// Sends lines that are requests.
    pub(super) fn send(&mut self, lines: &str) -> Result<(), BenchError> {
        Ok(self.socket.get_mut().write_all(lines.as_bytes())?)
    }

    /// Begins a stream of responses, which [`response`](Self::response) reads.
    pub(super) fn stream(&mut self, topic: &str, payload: Value) -> Result<(), BenchError> {
        self.next += 1;
        let line = line(self.next, topic, payload, true)?;
        self.send(&line)
    }

    /// Reads the next response.
    pub(super) fn response(&mut self) -> Result<&str, BenchError> {
        self.line.clear();
        if self.socket.read_line(&mut self.line)? == 0 {
            return Err(BenchError::other("the manager has closed the connection"));
        }
        // A refusal has it beside its id. A payload may have such a key, too, but further behind.
        let head = self.line.as_bytes().get(..HEAD).unwrap_or(self.line.as_bytes());
        if head.windows(ERRNO.len()).any(|part| part == ERRNO) {
            return Err(BenchError::Refused(self.line.trim_end().to_owned()));
        }
        Ok(&self.line)
    }

    /// Submits jobs as fast as the manager takes them in: a thread writes while this one reads the responses.
    pub(super) fn submit_all(
        &mut self,
        submissions: &Submissions,
        jobs: u64,
    ) -> Result<(), BenchError> {
        let (mut requests, submissions) = (self.socket.get_ref().try_clone()?, submissions.clone());
        let writer =
            std::thread::Builder::new().name("submissions".to_owned()).spawn(move || {
                let mut text = String::new();
                let mut number = 0;
                while number < jobs {
                    text.clear();
                    for _ in 0..TOGETHER.min(jobs - number) {
                        number += 1;
                        submissions.write(number, &mut text);
                    }
                    requests.write_all(text.as_bytes())?;
                }
                Ok::<(), std::io::Error>(())
            })?;
        let read = (0..jobs).try_for_each(|_| self.response().map(drop));
        if read.is_err() {
            // The thread may wait for a manager that reads no more.
            let _ = self.socket.get_ref().shutdown(Shutdown::Both);
        }
        let written = writer.join();
        read?;
        written.map_err(|_| BenchError::other("the thread that submits has panicked"))??;
        Ok(())
    }

    /// How many jobs are in each state.
    pub(super) fn states(&mut self) -> Result<States, BenchError> {
        let stats = self.ask(GetStats::TOPIC, json!({}))?;
        let stats: <GetStats as Service>::Response =
            serde_json::from_value(stats).map_err(|error| BenchError::other(error.to_string()))?;
        Ok(stats.all.job_states)
    }

    /// Waits until so many jobs are inactive.
    pub(super) fn wait_inactive(&mut self, jobs: u64) -> Result<(), BenchError> {
        let (mut found, mut since) = (0, Instant::now());
        loop {
            let inactive = self.states()?.inactive;
            if inactive >= jobs {
                return Ok(());
            }
            if inactive > found {
                (found, since) = (inactive, Instant::now());
            } else if since.elapsed() > PATIENCE {
                return Err(BenchError::Lost { what: "inactive", expected: jobs, found });
            }
            std::thread::sleep(POLL);
        }
    }
}

/// A request as it goes over the wire.
fn line(
    id: u64,
    topic: &str,
    payload: impl serde::Serialize,
    stream: bool,
) -> Result<String, BenchError> {
    let topic = topic.to_owned();
    encode(&Request { id, topic, payload, stream })
        .map_err(|error| BenchError::other(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::message::decode;

    #[test]
    fn each_submission_has_its_own_id_and_argument() {
        let lines = Submissions::simulated(1.0).unwrap();
        let mut text = String::new();
        lines.write(7, &mut text);
        lines.write(12, &mut text);
        for (line, number) in text.lines().zip([7, 12]) {
            let request: Request = decode(line.as_bytes()).unwrap();
            assert_eq!((request.id, request.topic.as_str()), (number, "job-ingest.submit"));
            let argument = &request.payload["jobspec"]["tasks"][0]["command"][1];
            assert_eq!(argument, &json!(format!("--input=case-{number}.dat")));
        }
    }

    #[test]
    fn jobs_without_a_number_have_ids_of_their_own() {
        let lines = Submissions::of(json!({"version": 1})).unwrap();
        let mut text = String::new();
        lines.write(7, &mut text);
        let request: Request = decode(text.as_bytes()).unwrap();
        assert_eq!((request.id, text.lines().count()), (7, 1));
    }
}
