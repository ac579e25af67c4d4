//! What comes through sockets: from clients, browsers, shepherds, nodes, tasks and launchers.

use std::cell::LazyCell;

use jobtap_daemon::exec::nodes::{Identity, Invitation};
use jobtap_daemon::foreign;
use jobtap_daemon::rpc::message::{Header, Response, decode, id_of_response};
use jobtap_manager::foreign::launcher;
use tokio::runtime::{Builder, Runtime};

use crate::again::{settles, text, written};

thread_local! {
    static RUNTIME: LazyCell<Runtime> = const {
        LazyCell::new(|| match Builder::new_current_thread().enable_time().build() {
            Ok(runtime) => runtime,
            Err(error) => panic!("no runtime: {error}"),
        })
    };
}

fn done<T>(future: impl Future<Output = T>) -> T {
    RUNTIME.with(|runtime| runtime.block_on(future))
}

/// The requests of a connection, decoded by their services.
pub(super) fn requests(bytes: &[u8]) {
    let decoded = done(foreign::requests(bytes));
    assert!(decoded <= bytes.len(), "{decoded} requests");
}

/// The header of a request.
pub(super) fn header(bytes: &[u8]) {
    let Ok(header) = decode::<Header<'_>>(bytes) else { return };
    // A payload there is not written again.
    let again = written(&Header { payload: None, ..header.clone() });
    assert_eq!(decode(again.as_bytes()).ok(), Some(Header { payload: None, ..header }));
}

/// A response.
pub(super) fn response(bytes: &[u8]) {
    let id = id_of_response(bytes);
    let Ok(response) = decode::<Response>(bytes) else { return };
    // The fields in a list are read, too, which no manager writes.
    if bytes.trim_ascii_start().starts_with(b"{") {
        assert_eq!(id, Some(response.id));
    }
    let line = response.encode();
    assert_eq!(line.matches('\n').count(), 1, "{line:?}");
    assert_eq!(decode(line.as_bytes()).ok(), Some(response), "{line}");
}

/// A connection over HTTP.
pub(super) fn http(bytes: &[u8]) {
    let decoded = done(foreign::http(bytes));
    assert!(decoded <= bytes.len(), "{decoded} requests");
}

/// A line from the manager to its shepherd.
pub(super) fn shepherd_request(bytes: &[u8]) {
    settles(bytes, foreign::shepherd_request);
}

/// A line from the shepherd to the manager.
pub(super) fn shepherd_message(bytes: &[u8]) {
    settles(bytes, foreign::shepherd_message);
}

/// The lines of a channel between manager and node, and what they say.
pub(super) fn node_channel(bytes: &[u8]) {
    let frames = foreign::node_frames(bytes);
    assert!(bytes.starts_with(&frames), "other lines are read than were sent");
    for line in frames.split(|byte| *byte == b'\n').filter_map(|line| line.get(1..)) {
        settles(line, foreign::from_node);
        settles(line, foreign::to_node);
    }
}

/// The invitation of an allocation, and the identity of an instance.
pub(super) fn invitation(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    settles(bytes, |bytes| {
        let invitation = Invitation::decode(std::str::from_utf8(bytes).ok()?).ok()?;
        Some(invitation.encode())
    });
    if let Ok(identity) = Identity::decode(text) {
        let written = identity.encode();
        assert_eq!(Identity::decode(&written).map(|again| again.encode()).ok(), Some(written));
    }
}

/// What the tasks of a job send by PMI. Lines that begin with `+` belong to the task of the line before; each other line
/// is sent by the next one.
pub(super) fn pmi(bytes: &[u8]) {
    let responses = foreign::pmi(bytes.split_inclusive(|byte| *byte == b'+'));
    // The longest responses are those of the map of tasks, and each request has one for each task at most.
    assert!(responses <= 4096 * (bytes.len() + 1), "{responses} bytes of responses");
}

/// What the launcher of an allocation sends by PMI.
pub(super) fn pmi_launcher(bytes: &[u8]) {
    let length = launcher(bytes);
    assert!(length.is_none_or(|length| length < 1 << 32), "{length:?}");
}
