//! A cheap client: requests are made from a template, and responses are parsed only as far as needed. So a
//! measured rate is the manager's, not that of the measuring program, which shares its processors.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::document;
use super::error::BenchError;
use crate::rpc::message::Body;
use crate::rpc::service::Service;
use crate::rpc::services::ingest::Submit;
use crate::rpc::services::job_list::{GetStats, States, Tally};
use crate::rpc::{HELLO, PROTOCOL};

/// A manager that doesn't respond within this time is stuck.
const PATIENCE: Duration = Duration::from_secs(300);

/// The interval between requests for the number of jobs in each state.
const POLL: Duration = Duration::from_millis(5);

/// The number of requests that are written together.
const TOGETHER: u64 = 32;

/// The key of a refusal, and the length of the head of a line in which it is looked for:
/// `{"id":18446744073709551615,"errno":`.
const ERRNO: &[u8] = b",\"errno\":";
const HEAD: usize = 36;

/// Placeholders for numbers in a template. They occur nowhere else in it. All numbers are written with as many digits,
/// so that the sizes in the header stay the same.
const ID: u64 = 8_765_432_109;
pub(super) const NUMBER: u64 = 9_876_543_210;

/// The requests of submissions, which differ in the id of the request and in one argument of the job.
#[derive(Clone)]
pub(super) struct Submissions {
    before_id: String,
    before_number: String,
    end: Option<String>,
}

impl Submissions {
    /// Jobs of one core with this time of simulated execution.
    pub(super) fn simulated(run_duration: f64) -> Result<Self, BenchError> {
        Self::from_jobspec(document(run_duration, 1, NUMBER))
    }

    /// Jobs of this jobspec.
    pub(super) fn from_jobspec(jobspec: Value) -> Result<Self, BenchError> {
        Self::with_urgency(jobspec, None)
    }

    /// Jobs of this jobspec and urgency.
    pub(super) fn with_urgency(jobspec: Value, urgency: Option<i64>) -> Result<Self, BenchError> {
        let submit = Submit { jobspec: Some(jobspec.into()), urgency, ..Submit::default() };
        let body = Body::of_request(submit)?;
        let request = body.into_request(ID, Submit::TOPIC, false);
        let malformed = || BenchError::Template;
        let (before_id, rest) = request.split_once(&ID.to_string()).ok_or_else(malformed)?;
        let (before_number, end) = match rest.split_once(&NUMBER.to_string()) {
            Some((before_number, end)) => (before_number, Some(end.to_owned())),
            None => (rest, None),
        };
        Ok(Self { before_id: before_id.to_owned(), before_number: before_number.to_owned(), end })
    }

    /// Adds a submission.
    pub(super) fn write(&self, number: u64, requests: &mut String) {
        use std::fmt::Write as _;
        requests.push_str(&self.before_id);
        // Writing to a `String` can't fail.
        let _ = write!(requests, "{number}");
        requests.push_str(&self.before_number);
        if let Some(end) = &self.end {
            let _ = write!(requests, "{number:010}");
            requests.push_str(end);
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
        let mut response: Value = serde_json::from_str(&self.line)?;
        Ok(response.get_mut("payload").map(Value::take).unwrap_or_default())
    }

    /// Sends a request and returns the length of its response in bytes.
    pub(super) fn ask_line(&mut self, topic: &str, payload: Value) -> Result<usize, BenchError> {
        self.next += 1;
        let request = request(self.next, topic, payload, false)?;
        self.send(&request)?;
        self.response()?;
        Ok(self.line.len())
    }

    /// Sends requests.
    pub(super) fn send(&mut self, requests: &str) -> Result<(), BenchError> {
        Ok(self.socket.get_mut().write_all(requests.as_bytes())?)
    }

    /// Begins a stream of responses, which [`response`](Self::response) reads.
    pub(super) fn stream(&mut self, topic: &str, payload: Value) -> Result<(), BenchError> {
        self.next += 1;
        let request = request(self.next, topic, payload, true)?;
        self.send(&request)
    }

    /// Reads the next response.
    pub(super) fn response(&mut self) -> Result<&str, BenchError> {
        self.line.clear();
        if self.socket.read_line(&mut self.line)? == 0 {
            return Err(BenchError::Closed);
        }
        // A refusal has the key right after its id. A payload may have such a key, too, but later in the
        // line.
        let head = self.line.as_bytes().get(..HEAD).unwrap_or(self.line.as_bytes());
        if head.windows(ERRNO.len()).any(|part| part == ERRNO) {
            return Err(BenchError::Answer(self.line.trim_end().to_owned()));
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
            // The thread may be blocked on a manager that no longer reads.
            let _ = self.socket.get_ref().shutdown(Shutdown::Both);
        }
        let written = writer.join();
        read?;
        written.map_err(|_| BenchError::Panicked("the thread that submits"))??;
        Ok(())
    }

    /// How many jobs are in each state.
    pub(super) fn states(&mut self) -> Result<States, BenchError> {
        Ok(self.tally()?.job_states)
    }

    fn tally(&mut self) -> Result<Tally, BenchError> {
        let stats = self.ask(GetStats::TOPIC, json!({}))?;
        let stats: <GetStats as Service>::Response = serde_json::from_value(stats)?;
        Ok(stats.all)
    }

    /// Waits until this many jobs are inactive. All of them must have succeeded, since a job that fails may
    /// take less time.
    pub(super) fn wait_inactive(&mut self, jobs: u64) -> Result<(), BenchError> {
        let (mut found, mut since) = (0, Instant::now());
        loop {
            let tally = self.tally()?;
            let inactive = tally.job_states.inactive;
            if inactive >= jobs {
                let succeeded = tally.successful;
                return match inactive == succeeded {
                    true => Ok(()),
                    false => Err(BenchError::Lost {
                        what: "successful",
                        expected: inactive,
                        found: succeeded,
                    }),
                };
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
fn request(
    id: u64,
    topic: &str,
    payload: impl serde::Serialize,
    stream: bool,
) -> Result<String, BenchError> {
    let body = Body::of_payload(&payload)?;
    Ok(body.into_request(id, topic, stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rpc::message::{Header, decode};

    /// The header of the first request, its jobspec, and what follows.
    fn first(requests: &str) -> (Header<'_>, Value, &str) {
        let (header, rest) = requests.split_once('\n').unwrap();
        let header: Header<'_> = decode(header.as_bytes()).unwrap();
        let (jobspec, rest) = rest[header.size..].split_at(header.jobspec_size);
        (header, serde_json::from_str(jobspec).unwrap(), rest)
    }

    #[test]
    fn each_submission_has_its_own_id_and_argument() {
        let submissions = Submissions::simulated(1.0).unwrap();
        let mut requests = String::new();
        submissions.write(7, &mut requests);
        submissions.write(12, &mut requests);
        let mut rest = &*requests;
        for number in [7, 12] {
            let (header, jobspec, after) = first(rest);
            assert_eq!((header.id, &*header.topic), (number, "job-ingest.submit"));
            let argument = &jobspec["tasks"][0]["command"][1];
            assert_eq!(argument, &json!(format!("--input=case-{number:010}.dat")));
            rest = after;
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn jobs_without_a_number_have_ids_of_their_own() {
        let submissions = Submissions::from_jobspec(json!({"version": 1})).unwrap();
        let mut requests = String::new();
        submissions.write(7, &mut requests);
        let (header, jobspec, rest) = first(&requests);
        assert_eq!((header.id, jobspec, rest), (7, json!({"version": 1}), ""));
    }
}
