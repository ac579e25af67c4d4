//! What clients send over the socket, for fuzzers.

use jobtap_core::engine::Cred;
use jobtap_core::job::Uid;

use super::requests::Requests;
use super::shares::Shares;
use crate::daemon::services;

/// Decodes the requests of a connection by their services, up to the first one that is refused. Returns how many were
/// decoded. Must be called in a runtime.
pub async fn requests(bytes: &[u8]) -> usize {
    let shares = Shares::new(448);
    let Ok(seat) = shares.seat(Cred { userid: Uid::new(7), owner: false }) else { return 0 };
    let mut requests = Requests::new(bytes, 0);
    let mut decoded = 0;
    while let Some(Ok(request)) = requests.next(seat.share()).await {
        decoded += usize::from(services::decodes(&request.topic, request.body));
    }
    decoded
}
