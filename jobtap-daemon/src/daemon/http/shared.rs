//! What all connections share, and on whose behalf a request acts.

use std::sync::Arc;
use std::time::Duration;

use jobtap_core::engine::Cred;
use jobtap_core::job::Uid;

use super::guard::{Client, Guard};
use super::places::{Origin, Place};
use crate::daemon::request_parts::RequestParts;
use crate::daemon::server::shares::{Seat, Share};

/// The maximum lifetime of a connection without the token, and of a stream on it.
pub(super) const LIFE: Duration = Duration::from_secs(600);

/// The user of requests without a token. No user has this number.
pub(super) const READER: Uid = Uid::new(u32::MAX);

/// What connections share.
pub(super) struct Http {
    pub(super) parts: Arc<RequestParts>,
    pub(super) guard: Guard,
    pub(super) has_token: bool,
    /// The share of all clients with the token.
    pub(super) owner: Share,
    pub(super) document: String,
}

/// The client of a connection: its place, and its share.
pub(super) struct Peer {
    pub(super) place: Arc<Place>,
    /// The share of the clients without the token that have the same origin.
    pub(super) seat: Seat<Origin>,
}

impl Http {
    /// Returns the user that a client acts as, and the limits of such clients.
    pub(super) fn who<'a>(&'a self, client: Client, peer: &'a Peer) -> (Cred, &'a Share) {
        match client {
            Client::Owner => (Cred { userid: self.parts.owner, owner: true }, &self.owner),
            Client::Reader => (cred_of_readers(), peer.seat.share()),
        }
    }
}

fn cred_of_readers() -> Cred {
    Cred { userid: READER, owner: false }
}
