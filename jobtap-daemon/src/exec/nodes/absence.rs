//! How long a node waits for a manager that it doesn't reach.
//!
//! A manager that is killed closes its connections, and another one may take its place: its nodes wait long for it. One
//! whose instance ends says so to all nodes that it reaches. A node that was cut off at that moment can't have heard it.
//! If its connections are refused when the network is back, it takes that for the end of the instance.

use std::io;
use std::time::Duration;

use tokio::time::Instant;

/// How long a node that was cut off tries again, once the network is back and its connections are refused. A manager that
/// is restarted waits at least as long for its nodes.
const REFUSED: Duration = Duration::from_secs(15);

/// How long commands and clients wait. The manager's end of them is given up with the node.
const CLIENTS: Duration = Duration::from_secs(30);

/// The time since a node had a connection to its manager.
pub(super) struct Absence {
    since: Instant,
    /// Whether the network was the reason, as far as can be seen from here.
    cut_off: bool,
    /// When the first connection was refused after the network was back.
    refused: Option<Instant>,
}

impl Absence {
    /// It begins now. `is_silent` says that the connection wasn't closed: nothing came through it any more.
    pub(super) fn begin(is_silent: bool) -> Self {
        Self { since: Instant::now(), cut_off: is_silent, refused: None }
    }

    /// Something listens at the manager's address. A manager that hangs has been silent, too.
    pub(super) fn note_listener(&mut self) {
        (self.cut_off, self.refused) = (false, None);
    }

    /// An attempt to reach the address has failed.
    pub(super) fn note_failure(&mut self, reason: &io::Error) {
        if reason.kind() != io::ErrorKind::ConnectionRefused {
            (self.cut_off, self.refused) = (true, None);
        } else if self.cut_off {
            self.refused.get_or_insert_with(Instant::now);
        }
    }

    /// Whether the node gives up, which waits no longer than `patience`.
    pub(super) fn is_over(&self, patience: Duration) -> bool {
        let is_refused = self.refused.is_some_and(|since| since.elapsed() > REFUSED.min(patience));
        is_refused || self.since.elapsed() > patience
    }

    /// Whether it has lasted too long for commands and clients.
    pub(super) fn is_long(&self) -> bool {
        self.since.elapsed() > CLIENTS
    }

    /// How long it has lasted, in seconds.
    pub(super) fn seconds(&self) -> u64 {
        self.since.elapsed().as_secs()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(300);

    fn refused() -> io::Error {
        io::ErrorKind::ConnectionRefused.into()
    }

    /// After so many seconds in which each attempt to connect is refused.
    async fn is_over_after(mut absence: Absence, seconds: u64) -> bool {
        for _ in 0..seconds {
            absence.note_failure(&refused());
            advance(Duration::from_secs(1)).await;
        }
        absence.is_over(PATIENCE)
    }

    #[tokio::test(start_paused = true)]
    async fn a_killed_manager_is_waited_for_long() {
        assert!(!is_over_after(Absence::begin(false), 300).await);
        assert!(is_over_after(Absence::begin(false), 301).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_node_that_was_cut_off_gives_up_soon_when_it_is_refused() {
        assert!(!is_over_after(Absence::begin(true), 15).await);
        assert!(is_over_after(Absence::begin(true), 16).await);
        let mut unreachable = Absence::begin(false);
        unreachable.note_failure(&io::ErrorKind::HostUnreachable.into());
        assert!(is_over_after(unreachable, 16).await);
    }

    #[tokio::test(start_paused = true)]
    async fn a_network_that_stays_away_is_waited_for_long() {
        let mut absence = Absence::begin(true);
        absence.note_failure(&refused());
        absence.note_failure(&io::ErrorKind::TimedOut.into());
        advance(Duration::from_secs(299)).await;
        assert!(!absence.is_over(PATIENCE) && absence.is_long());
    }

    #[tokio::test(start_paused = true)]
    async fn a_manager_that_hung_before_it_was_killed_is_waited_for_long() {
        let mut absence = Absence::begin(true);
        absence.note_listener();
        assert!(!is_over_after(absence, 299).await);
    }
}
