//! What a process on a node of an allocation needs to join the instance that has ordered the allocation: a text that
//! only the user may read, since it has the secret of the allocation and the identity of the instance.
//!
//! It is handed over in the script of the allocation or in a file of mode 0600, never on a command line and never in an
//! environment.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use jobtap_core::engine::AllocationId;
use serde::{Deserialize, Serialize};

use super::admission::{Admission, NoRandom, Pass, random_text};
use super::identity::{Identity, IdentityError};

/// The number of random bytes of a process's name.
const PROCESS: usize = 8;

/// An invitation to join.
#[derive(Clone, Serialize, Deserialize)]
pub struct Invitation {
    /// Where the manager is.
    address: SocketAddr,
    identity: String,
    allocation: AllocationId,
    secret: String,
    /// How long a node waits for a manager that is gone, in seconds.
    wait: u64,
}

/// Shows no secret.
impl fmt::Debug for Invitation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Invitation of allocation {}", self.allocation)
    }
}

/// An invitation that can't be used.
#[derive(Debug, thiserror::Error)]
pub enum InvitationError {
    /// The text isn't one.
    #[error("this is no invitation of a manager: {0}")]
    Damaged(#[from] serde_json::Error),
    /// Its identity isn't one.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// There is no name for this process.
    #[error(transparent)]
    Random(#[from] NoRandom),
}

/// What a node does with an invitation.
pub(super) struct Accepted {
    pub(super) address: SocketAddr,
    pub(super) identity: Identity,
    pub(super) pass: Pass,
}

impl Invitation {
    /// Invites the nodes of an allocation to the manager at this address, for which they wait so long.
    pub(super) fn new(
        address: SocketAddr,
        identity: &Identity,
        admission: &Admission,
        allocation: AllocationId,
        wait: Duration,
    ) -> Self {
        let (identity, secret) = (identity.encode(), admission.secret(allocation));
        Self { address, identity, allocation, secret, wait: wait.as_secs() }
    }

    /// The text, of one line.
    pub fn encode(&self) -> String {
        // Can't fail: it has no map, and no number that JSON lacks.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The invitation that [`encode`](Self::encode) has written.
    ///
    /// # Errors
    /// The text is something else.
    pub fn decode(text: &str) -> Result<Self, InvitationError> {
        Ok(serde_json::from_str(text.trim())?)
    }

    /// How long a node waits for a manager that is gone.
    pub fn wait(&self) -> Duration {
        Duration::from_secs(self.wait)
    }

    /// Where the manager is.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `ends_at` is when the allocation ends (UNIX seconds), if the node has been told.
    pub(super) fn accept(&self, ends_at: Option<f64>) -> Result<Accepted, InvitationError> {
        let (allocation, secret) = (self.allocation, self.secret.clone());
        let pass = Pass { allocation, secret, process: random_text(PROCESS)?, ends_at };
        Ok(Accepted { address: self.address, identity: Identity::decode(&self.identity)?, pass })
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn an_invitation_is_read_as_it_was_written() {
        let (identity, admission) = (Identity::new().unwrap(), Admission::new().unwrap());
        let id = AllocationId(NonZeroU64::MIN);
        let address = "127.0.0.1:7".parse().unwrap();
        let wait = Duration::from_secs(300);
        let text = Invitation::new(address, &identity, &admission, id, wait).encode();
        assert!(!text.contains(['\n', '\'']), "a shell and a script take it: {text}");
        let read = Invitation::decode(&format!("{text}\n")).unwrap();
        assert_eq!((read.wait(), read.address()), (wait, address));
        admission.open(id);
        let (first, second) = (read.accept(None).unwrap().pass, read.accept(None).unwrap().pass);
        assert!(admission.admits(&first) && first.process != second.process);
        assert_eq!(format!("{read:?}"), "Invitation of allocation 1");
        assert!(Invitation::decode("{}").is_err());
    }
}
