//! Reads the requests of a connection. What is read is bounded, and the bytes of a long request are charged to its
//! user's share before they are read.

use std::string::FromUtf8Error;
use std::sync::Arc;
use std::time::Duration;

use memchr::memchr;
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, BufReader};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::shares::{Charge, Share};
use crate::daemon::services;
use crate::rpc::errno::{EMSGSIZE, EPROTO, ETIMEDOUT};
use crate::rpc::message::{Body, Header, decode};
use crate::rpc::{HELLO, MAX_REQUEST, PROTOCOL, RpcError};

/// The maximum size of a header in bytes.
const MAX_HEADER: usize = 4096;
/// How long a client may take to send what its header announces, which is charged to its user from then on. As long as
/// over HTTP.
const BODY_TIME: Duration = Duration::from_secs(30);
/// A request up to this size in bytes is short. The charge of a longer one is a multiple of it.
const STEP: usize = 64 * 1024;
/// Bytes of short requests that a connection may have in flight. No other connection uses them: there
/// is room for short requests however many long ones the user's other connections send.
const SHORT_BYTES: usize = 1 << 20;
/// Bytes that are read at once: several submissions, which have a few thousand each. Each connection has a buffer of
/// this size.
const READ: usize = 16 * 1024;

/// A request as it was received. Its payload is decoded by the service, directly into the service's own type: a
/// [`Value`](serde_json::Value) in between would cost as much again.
#[derive(Debug)]
pub(super) struct ReceivedRequest {
    pub(super) id: u64,
    pub(super) topic: String,
    pub(super) stream: bool,
    pub(super) body: Body,
    /// The bytes that it takes of its user's share until this is dropped.
    pub(super) charge: Charge,
}

/// Something that is not a request. Nothing after it can be understood.
#[derive(Debug, PartialEq)]
pub(super) struct Refused {
    /// The request's id, 0 if it isn't known.
    pub(super) id: u64,
    pub(super) error: RpcError,
}

/// What was read, if it is text.
type Read<T> = Result<T, FromUtf8Error>;

/// The requests that a client sends.
pub(super) struct Requests<R> {
    from: BufReader<R>,
    header: Vec<u8>,
    short: Arc<Semaphore>,
    body_time: Duration,
    jobspec_spare: usize,
}

impl<R: AsyncRead + Unpin> Requests<R> {
    /// The requests in `from`. The texts of jobspecs get spare capacity for `jobspec_spare` bytes.
    pub(super) fn new(from: R, jobspec_spare: usize) -> Self {
        let short = Arc::new(Semaphore::new(SHORT_BYTES));
        let from = BufReader::with_capacity(READ, from);
        Self { from, header: Vec::new(), short, body_time: BODY_TIME, jobspec_spare }
    }

    /// The socket.
    pub(super) fn source(&self) -> &R {
        self.from.get_ref()
    }

    /// The next request; `None` at the end.
    pub(super) async fn next(&mut self, share: &Share) -> Option<Result<ReceivedRequest, Refused>> {
        if let Err(error) = self.read_header().await? {
            return Some(Err(Refused { id: 0, error }));
        }
        let malformed = |text: String| RpcError::new(EPROTO, text);
        let header: Header<'_> = match decode(&self.header) {
            Ok(header) => header,
            Err(error) => {
                return Some(Err(Refused { id: 0, error: malformed(error.to_string()) }));
            }
        };
        let Header { id, topic, size, jobspec_size, stream, payload } = header;
        // The greeting is answered with our version.
        if payload.is_some() && topic != HELLO {
            let text = format!(
                "{topic}: a payload follows its header in version {PROTOCOL} of the protocol"
            );
            return Some(Err(Refused { id, error: malformed(text) }));
        }
        let topic = topic.into_owned();
        let charge = match self.charge(&topic, size.saturating_add(jobspec_size), share).await {
            Ok(charge) => charge,
            Err(error) => return Some(Err(Refused { id, error })),
        };
        let Ok(body) = timeout(self.body_time, self.read_body(size, jobspec_size)).await else {
            let error = RpcError::new(ETIMEDOUT, "the rest of the request takes too long");
            return Some(Err(Refused { id, error }));
        };
        let (payload, jobspec) = body?;
        Some(match (payload, jobspec) {
            (Ok(payload), Ok(jobspec)) => {
                Ok(ReceivedRequest { id, topic, stream, body: Body { payload, jobspec }, charge })
            }
            (Err(error), _) | (_, Err(error)) => {
                Err(Refused { id, error: malformed(format!("malformed message: {error}")) })
            }
        })
    }

    /// Reads a header; `None` at the end.
    async fn read_header(&mut self) -> Option<Result<(), RpcError>> {
        self.header.clear();
        loop {
            let read = match self.from.fill_buf().await {
                Ok(read) if !read.is_empty() => read,
                _ => return None,
            };
            let end = memchr(b'\n', read);
            let more = read.get(..end.unwrap_or(read.len())).unwrap_or_default();
            if self.header.len() + more.len() > MAX_HEADER {
                let text = format!("a header of more than {MAX_HEADER} bytes is refused");
                return Some(Err(RpcError::new(EMSGSIZE, text)));
            }
            self.header.extend_from_slice(more);
            let used = more.len() + usize::from(end.is_some());
            self.from.consume(used);
            if end.is_some() {
                return Some(Ok(()));
            }
        }
    }

    /// Takes room for a request of this size.
    async fn charge(&self, topic: &str, size: usize, share: &Share) -> Result<Charge, RpcError> {
        if size <= STEP {
            return Ok(Charge::take_from(&self.short, size).await);
        }
        let most = services::size(topic).most();
        if size > most {
            let text = format!("{topic}: a request of more than {most} bytes is refused");
            return Err(RpcError::new(EMSGSIZE, text));
        }
        if size > MAX_REQUEST {
            return share.charge_array().await;
        }
        let mut charge = Charge::default();
        share.charge(&mut charge, size.next_multiple_of(STEP)).await?;
        Ok(charge)
    }

    /// Reads a payload and a jobspec; `None` at the end.
    async fn read_body(
        &mut self,
        size: usize,
        jobspec_size: usize,
    ) -> Option<(Read<String>, Read<Option<String>>)> {
        let payload = self.read_text(size, 0).await?;
        let jobspec = match jobspec_size {
            0 => Ok(None),
            size => self.read_text(size, self.jobspec_spare).await?.map(Some),
        };
        Some((payload, jobspec))
    }

    /// Reads a text of `size` bytes, with spare capacity for `spare` more; `None` at the end.
    async fn read_text(&mut self, size: usize, spare: usize) -> Option<Read<String>> {
        let mut bytes = Vec::with_capacity(size + spare);
        bytes.resize(size, 0);
        self.from.read_exact(&mut bytes).await.ok()?;
        Some(String::from_utf8(bytes))
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::engine::Cred;
    use jobtap_core::job::Uid;
    use proptest::prelude::*;

    use super::super::shares::Shares;
    use super::*;
    use crate::rpc::MAX_ARRAY;
    use crate::rpc::service::Size;

    /// Reads the requests in the bytes of a client.
    async fn read(bytes: &[u8]) -> Vec<Result<ReceivedRequest, Refused>> {
        let shares = Shares::new(448);
        let seat = shares.seat(Cred { userid: Uid::new(7), owner: false }).unwrap();
        let mut requests = Requests::new(bytes, 0);
        let mut all = Vec::new();
        while let Some(request) = requests.next(seat.share()).await {
            let ended = request.is_err();
            all.push(request);
            if ended {
                break;
            }
        }
        all
    }

    async fn refused(bytes: &[u8]) -> (u64, i32, String) {
        let Refused { id, error } = read(bytes).await.pop().unwrap().unwrap_err();
        (id, error.errno, error.text)
    }

    #[tokio::test]
    async fn requests_are_read_one_by_one() {
        let all = read(
            b"{\"id\":1,\"topic\":\"a\"}\n{\"id\":2,\"topic\":\"b\",\"size\":3}\n[1]{\"id\":3,\"topic\":\"c\",\
              \"jobspec_size\":2,\"stream\":true}\n{}{\"id\"",
        )
        .await;
        let all: Vec<_> = all.into_iter().map(Result::unwrap).collect();
        let [one, two, three] = &all[..] else { panic!("{all:?}") };
        assert_eq!((one.id, &*one.topic, &one.body, one.stream), (1, "a", &Body::default(), false));
        assert_eq!((two.id, &*two.body.payload), (2, "[1]"));
        assert_eq!((three.body.jobspec.as_deref(), three.stream), (Some("{}"), true));
    }

    #[tokio::test]
    async fn a_request_that_breaks_off_is_none() {
        assert!(read(b"{\"id\":2,\"topic\":\"b\",\"size\":4}\n[1]").await.is_empty());
    }

    #[tokio::test]
    async fn a_malformed_header_is_refused() {
        for header in [
            "",
            "garbage",
            "{\"topic\":\"a\"}",
            "{\"id\":-1,\"topic\":\"a\"}",
            "{\"id\":1,\"id\":1,\"topic\":\"a\"}",
            "{\"id\":8}",
        ] {
            let (id, errno, text) = refused(format!("{header}\n").as_bytes()).await;
            assert_eq!((id, errno), (0, EPROTO), "{header}");
            assert!(text.starts_with("malformed message: "), "{text}");
        }
        let long = format!("{{\"id\":1,\"topic\":\"{}", "x".repeat(MAX_HEADER));
        assert_eq!(
            refused(long.as_bytes()).await,
            (0, EMSGSIZE, "a header of more than 4096 bytes is refused".to_owned())
        );
    }

    #[tokio::test]
    async fn a_request_of_the_first_protocol_is_refused_and_its_greeting_is_not() {
        let line = |topic| format!("{{\"id\":3,\"topic\":\"{topic}\",\"payload\":{{\"id\":5}}}}\n");
        let (id, errno, text) = refused(line("job-manager.wait").as_bytes()).await;
        assert_eq!((id, errno), (3, EPROTO));
        assert!(text.ends_with("follows its header in version 2 of the protocol"), "{text}");
        assert!(read(line(HELLO).as_bytes()).await.pop().unwrap().is_ok());
    }

    #[tokio::test]
    async fn a_client_that_sends_only_a_header_is_refused_in_time() {
        let shares = Shares::new(448);
        let seat = shares.seat(Cred { userid: Uid::new(7), owner: false }).unwrap();
        let (ours, mut theirs) = tokio::io::duplex(4096);
        let header = b"{\"id\":4,\"topic\":\"job-ingest.submit\",\"jobspec_size\":8000000}\n";
        tokio::io::AsyncWriteExt::write_all(&mut theirs, header).await.unwrap();
        let mut requests = Requests { body_time: Duration::ZERO, ..Requests::new(ours, 0) };
        let refused = requests.next(seat.share()).await.unwrap().unwrap_err();
        assert_eq!((refused.id, refused.error.errno), (4, ETIMEDOUT));
    }

    #[tokio::test]
    async fn a_payload_that_is_not_text_is_refused_with_its_id() {
        let (id, errno, text) = refused(b"{\"id\":9,\"topic\":\"a\",\"size\":1}\n\xff").await;
        assert_eq!((id, errno), (9, EPROTO));
        assert!(text.starts_with("malformed message: "), "{text}");
    }

    #[tokio::test]
    async fn a_request_over_the_limit_is_refused_by_its_header() {
        let header = |topic: &str, size: usize, jobspec_size: usize| {
            format!(
                "{{\"id\":5,\"topic\":\"{topic}\",\"size\":{size},\"jobspec_size\":{jobspec_size}}}\n"
            )
        };
        let array = ("job-ingest.submit-array", MAX_ARRAY);
        for ((topic, most), size, jobspec_size) in [
            (("job-ingest.submit", MAX_REQUEST), MAX_REQUEST, 1),
            (("job-ingest.submit", MAX_REQUEST), 2, MAX_REQUEST),
            (("job-ingest.submit", MAX_REQUEST), usize::MAX, usize::MAX),
            (array, MAX_ARRAY, 1),
        ] {
            let header = header(topic, size, jobspec_size);
            let (id, errno, text) = refused(header.as_bytes()).await;
            assert_eq!((id, errno), (5, EMSGSIZE));
            assert_eq!(text, format!("{topic}: a request of more than {most} bytes is refused"));
        }
        let (id, errno, text) =
            refused(header("job-list.list", Size::Normal.most(), 1).as_bytes()).await;
        assert_eq!((id, errno), (5, EMSGSIZE));
        assert!(text.starts_with("job-list.list: a request of more than 1048576"), "{text}");
        let more = Size::Normal.most() + 1;
        let mut large = header("job-ingest.submit", 0, more).into_bytes();
        large.resize(large.len() + more, b'x');
        assert!(read(&large).await.pop().unwrap().is_ok());
    }

    proptest! {
        #[test]
        fn requests_are_read_as_they_were_written(
            sent in prop::collection::vec(
                (any::<u64>(), "[a-z.]{1,9}", ".{0,40}", prop::option::of(".{1,40}"), any::<bool>()),
                0..6,
            ),
        ) {
            let mut bytes = String::new();
            for (id, topic, payload, jobspec, stream) in sent.clone() {
                bytes.push_str(&Body { payload, jobspec }.into_request(id, &topic, stream));
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
            let all = runtime.block_on(read(bytes.as_bytes())).into_iter();
            let all = all.map(|request| {
                let ReceivedRequest { id, topic, stream, body, .. } = request.unwrap();
                (id, topic, body.payload, body.jobspec, stream)
            });
            prop_assert_eq!(all.collect::<Vec<_>>(), sent);
        }
    }
}
