//! The requests of a connection, one on each line. The bytes that are read are bounded, and a line that
//! is no request is refused with its id, if that can be found.

use std::ops::Range;
use std::sync::Arc;

use memchr::memchr;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::sync::Semaphore;

use super::shares::{Charge, Share};
use crate::daemon::services::is_large;
use crate::rpc::errno::{EMSGSIZE, EPROTO};
use crate::rpc::received::Received;
use crate::rpc::{MAX_LINE, RpcError};

/// A payload of more bytes than this is refused, unless the service's row says that its payloads are large.
pub(in crate::daemon) const MAX_PAYLOAD: usize = 1 << 20;
/// A line up to this length is short. The charge of a longer one grows in steps of as many bytes.
const STEP: usize = 64 * 1024;
/// Bytes of short requests that a connection may have in flight. No other connection uses them: there
/// is room for short requests however many long ones the user's other connections send.
const SHORT_BYTES: usize = 1 << 20;
/// Bytes that are read at once: several submissions, which have a few thousand each. Each connection has a buffer of this
/// size.
const READ: usize = 16 * 1024;
/// How much of a malformed line is searched for an id.
const HEAD: usize = 256;

/// A request as it was received. Its payload is decoded by the service, at once into the service's own type:
/// a [`Value`](serde_json::Value) in between would cost as much again.
#[derive(Debug)]
pub(in crate::daemon) struct Request {
    pub(super) id: u64,
    pub(super) topic: String,
    pub(in crate::daemon) payload: Received,
    pub(super) stream: bool,
}

impl Request {
    /// The request as its whole line gives it, if its payload isn't JSON. `None` if it is.
    pub(super) fn reread(&self) -> Option<Result<Self, Refused>> {
        match self.payload.json() {
            Ok(_) => None,
            Err(_) => Some(decode_whole(self.payload.line().as_bytes())),
        }
    }
}

/// A request, with the bytes that it takes of its user's share until they are freed.
pub(super) struct RequestLine {
    pub(super) request: Request,
    pub(super) charge: Charge,
}

/// A line that is no request. Nothing after it can be understood.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) struct Refused {
    /// The request's id, 0 if it cannot be found.
    pub(super) id: u64,
    pub(in crate::daemon) error: RpcError,
}

/// The requests that a client sends.
pub(super) struct RequestLines<R> {
    from: BufReader<R>,
    line: Vec<u8>,
    short: Arc<Semaphore>,
}

impl<R: AsyncRead + Unpin> RequestLines<R> {
    pub(super) fn new(from: R) -> Self {
        let short = Arc::new(Semaphore::new(SHORT_BYTES));
        let from = BufReader::with_capacity(READ, from);
        Self { from, line: Vec::new(), short }
    }

    /// The socket.
    pub(super) fn source(&self) -> &R {
        self.from.get_ref()
    }

    /// The next request; `None` at the end.
    pub(super) async fn next(&mut self, share: &Share) -> Option<Result<RequestLine, Refused>> {
        let mut charge = Charge::default();
        // What is left of a line that was refused.
        self.line.clear();
        loop {
            let read = match self.from.fill_buf().await {
                Ok(read) if !read.is_empty() => read,
                _ => return None,
            };
            let end = memchr(b'\n', read);
            let more = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
            let length = self.line.len() + more.len();
            if length > MAX_LINE {
                let text = format!("a request of more than {MAX_LINE} bytes is refused");
                return Some(Err(self.refused(RpcError::new(EMSGSIZE, text))));
            }
            if length > STEP {
                let charged = length.next_multiple_of(STEP);
                if let Err(error) = share.charge(&mut charge, charged).await {
                    return Some(Err(self.refused(error)));
                }
            }
            self.line.extend_from_slice(more);
            let used = more.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                if length <= STEP {
                    charge = Charge::of(&self.short, length).await;
                }
                let request = decode(std::mem::take(&mut self.line));
                return Some(request.map(|request| RequestLine { request, charge }));
            }
        }
    }

    fn refused(&self, error: RpcError) -> Refused {
        Refused { id: id_in(&self.line), error }
    }
}

/// The request in a line.
pub(in crate::daemon) fn decode(line: Vec<u8>) -> Result<Request, Refused> {
    let line = match String::from_utf8(line) {
        Ok(line) => line,
        Err(error) => return decode_whole(error.as_bytes()),
    };
    match Envelope::of(&line) {
        // Whether a long payload is JSON is left to its service, which reads it anyway.
        Some(Envelope { id, topic, payload, stream }) if is_large(topic) => {
            let topic = topic.to_owned();
            Ok(Request { id, topic, payload: Received::within(line, payload), stream })
        }
        _ => decode_whole(line.as_bytes()),
    }
}

/// What is around a payload in a line as our clients write it.
#[derive(Debug, PartialEq)]
struct Envelope<'a> {
    id: u64,
    topic: &'a str,
    payload: Range<usize>,
    stream: bool,
}

impl<'a> Envelope<'a> {
    /// Finds the payload without reading it. If the payload is JSON then so is the line, and it says what is
    /// returned here. `None` if the line is written in another way, or is no request.
    fn of(line: &'a str) -> Option<Self> {
        const STREAM: &str = ",\"stream\":true}";
        let rest = line.strip_prefix("{\"id\":")?;
        let (id, rest) = rest.split_at(rest.find(|c: char| !c.is_ascii_digit())?);
        if id.len() > 1 && id.starts_with('0') {
            return None;
        }
        let rest = rest.strip_prefix(",\"topic\":\"")?;
        let (topic, rest) = rest.split_at(rest.find('"')?);
        if topic.contains(|c: char| c == '\\' || c.is_control()) {
            return None;
        }
        let payload = rest.strip_prefix("\",\"payload\":")?;
        let begin = line.len() - payload.len();
        let streamed = payload.strip_suffix(STREAM);
        let payload = streamed.or_else(|| payload.strip_suffix('}'))?;
        let (id, payload) = (id.parse().ok()?, begin..begin + payload.len());
        Some(Self { id, topic, payload, stream: streamed.is_some() })
    }
}

/// The request in a line, which is read to its end.
fn decode_whole(line: &[u8]) -> Result<Request, Refused> {
    #[derive(Deserialize)]
    struct Line<'a> {
        id: u64,
        topic: String,
        #[serde(default, borrow)]
        payload: Option<&'a RawValue>,
        #[serde(default)]
        stream: bool,
    }
    let malformed = |error: serde_json::Error| Refused {
        id: id_in(line),
        error: RpcError::new(EPROTO, format!("malformed message: {error}")),
    };
    let Line { id, topic, payload, stream } = serde_json::from_slice(line).map_err(malformed)?;
    let payload = payload.unwrap_or(RawValue::NULL);
    let most = if is_large(&topic) { MAX_LINE } else { MAX_PAYLOAD };
    if payload.get().len() > most {
        let text = format!("{topic}: a payload of more than {most} bytes is refused");
        return Err(Refused { id, error: RpcError::new(EMSGSIZE, text) });
    }
    Ok(Request { id, topic, payload: Received::alone(payload), stream })
}

/// The id in a line that is malformed as a whole, if the line begins with it, as our clients write it.
fn id_in(line: &[u8]) -> u64 {
    let head = line.get(..HEAD.min(line.len())).unwrap_or_default();
    let head = String::from_utf8_lossy(head);
    let number = head
        .trim_start()
        .strip_prefix('{')
        .and_then(|rest| rest.trim_start().strip_prefix("\"id\""))
        .and_then(|rest| rest.trim_start().strip_prefix(':'))
        .map(str::trim_start);
    let digits = number.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
    digits.and_then(|digits| digits.parse().ok()).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use jobtap_core::engine::Cred;
    use jobtap_core::job::Uid;
    use proptest::prelude::*;

    use super::super::shares::Shares;
    use super::*;

    /// What a peer's bytes are read as.
    async fn read(bytes: &[u8]) -> Vec<Result<Request, Refused>> {
        let shares = Shares::new(448);
        let seat = shares.seat(Cred { userid: Uid::new(7), owner: false }).unwrap();
        let mut lines = RequestLines::new(bytes);
        let mut all = Vec::new();
        while let Some(line) = lines.next(seat.share()).await {
            let ended = line.is_err();
            all.push(line.map(|line| line.request));
            if ended {
                break;
            }
        }
        all
    }

    #[tokio::test]
    async fn requests_are_read_one_by_one() {
        let all = read(
            b"{\"id\":1,\"topic\":\"a\"}\n{\"id\":2,\"topic\":\"b\",\"payload\":[1]}\n{\"id\"",
        )
        .await;
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        assert_eq!((all[0].id, all[0].payload.text()), (1, "null"));
        assert_eq!((all[1].id, all[1].payload.text()), (2, "[1]"));
        assert_eq!(all.len(), 2);
    }

    #[tokio::test]
    async fn malformed_lines_are_refused_with_the_id_that_can_be_read() {
        for (line, id) in [
            ("\n", 0),
            ("garbage\n", 0),
            ("{\"topic\":\"a\"}\n", 0),
            ("{\"id\":-1,\"topic\":\"a\"}\n", 0),
            (" { \"id\" : 7 , \"topic\"\n", 7),
            ("{\"id\":8}\n", 8),
            ("{\"id\":9,\"topic\":\"a\",\"payload\":[}\n", 9),
        ] {
            let refused = read(line.as_bytes()).await.pop().unwrap().unwrap_err();
            assert_eq!((refused.id, refused.error.errno), (id, EPROTO), "{line}");
            assert!(
                refused.error.text.starts_with("malformed message: "),
                "{}",
                refused.error.text
            );
        }
    }

    #[tokio::test]
    async fn a_line_over_the_limit_is_refused_before_its_end() {
        let mut line = b"{\"id\":5,\"topic\":\"job-ingest.submit\",\"payload\":\"".to_vec();
        line.resize(MAX_LINE + 1, b'x');
        let refused = read(&line).await.pop().unwrap().unwrap_err();
        assert_eq!((refused.id, refused.error.errno), (5, EMSGSIZE));
        assert!(refused.error.text.contains(&MAX_LINE.to_string()), "{}", refused.error.text);
    }

    #[tokio::test]
    async fn most_topics_take_small_payloads_only() {
        let of = |topic: &str| {
            let payload = "x".repeat(MAX_PAYLOAD);
            format!("{{\"id\":5,\"topic\":\"{topic}\",\"payload\":\"{payload}\"}}\n")
        };
        let refused = read(of("job-list.list").as_bytes()).await.pop().unwrap().unwrap_err();
        assert_eq!((refused.id, refused.error.errno), (5, EMSGSIZE));
        assert!(refused.error.text.starts_with("job-list.list: a payload of more than 1048576"));
        assert!(read(of("job-ingest.submit").as_bytes()).await.pop().unwrap().is_ok());
    }

    /// The topic of a service that takes long payloads.
    const LONG: &str = "job-ingest.submit";

    /// What a line is read as once it is known whether its payload is JSON.
    fn settled(line: &str) -> Result<(u64, String, String, bool), Refused> {
        let mut request = decode(line.as_bytes().to_vec())?;
        if let Some(again) = request.reread() {
            request = again?;
        }
        let Request { id, topic, payload, stream } = request;
        Ok((id, topic, payload.text().trim().to_owned(), stream))
    }

    proptest! {
        #[test]
        fn a_line_is_read_the_same_without_looking_at_its_payload(
            id in "[0-9]{1,3}|-1",
            topic in prop::sample::select(vec![LONG, "job-list.list", "a\\u0062"]),
            payload in prop_oneof![
                prop::sample::select(vec!["null", "{", "{}}", "[1,2]", "{\"a\":\"}\"}", "\"", "1,2", ""]),
                prop::sample::select(vec!["{},\"id\":9", "{},\"stream\":true", " {} ", "{\"stream\":true}"]),
            ],
            end in prop::sample::select(vec!["}", ",\"stream\":true}", ",\"stream\":false}", " }", "", "}}"]),
        ) {
            let line = format!("{{\"id\":{id},\"topic\":\"{topic}\",\"payload\":{payload}{end}");
            let whole = decode_whole(line.as_bytes()).map(|request| {
                let Request { id, topic, payload, stream } = request;
                (id, topic, payload.text().trim().to_owned(), stream)
            });
            prop_assert_eq!(settled(&line), whole, "{}", line);
        }
    }

    #[test]
    fn a_long_payload_is_not_read_with_its_line() {
        let line = format!("{{\"id\":7,\"topic\":\"{LONG}\",\"payload\":{{,\"stream\":true}}");
        let request = decode(line.into_bytes()).unwrap();
        assert_eq!((request.id, request.payload.text(), request.stream), (7, "{", true));
        assert_eq!(request.reread().unwrap().unwrap_err().id, 7);
    }
}
