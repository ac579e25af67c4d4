//! Who may join an elastic instance: processes on the nodes of the allocations that it has ordered.
//!
//! Each allocation has a secret of its own, which its nodes show on every connection beside the certificate of the
//! instance. So what an allocation was given is worth nothing when the allocation is over.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::engine::AllocationId;
use rustls::crypto::ring;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// The number of random bytes of a key.
const LENGTH: usize = 32;

/// The number of random bytes of a tag.
const TAG: usize = 4;

/// What a node of an allocation shows at the beginning of each connection.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Pass {
    /// The allocation.
    pub(super) allocation: AllocationId,
    /// Its secret.
    pub(super) secret: String,
    /// A random name of the node's process, by which it is known when it connects again.
    pub(super) process: String,
    /// When the allocation ends (UNIX seconds), if the node has been told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ends_at: Option<f64>,
}

/// Shows no secret.
impl fmt::Debug for Pass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pass of allocation {}", self.allocation)
    }
}

/// The system has no random numbers.
#[derive(Debug, thiserror::Error)]
#[error("the system has no random numbers")]
pub struct NoRandom;

/// A random text of letters and digits, from so many random bytes.
pub(super) fn random_text(length: usize) -> Result<String, NoRandom> {
    let mut bytes = vec![0; length];
    let filled = ring::default_provider().secure_random.fill(&mut bytes);
    filled.map_err(|_| NoRandom)?;
    Ok(hex(&bytes))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What an elastic instance knows its allocations by.
#[derive(Clone)]
pub struct Admission {
    /// The text that tells its allocations from those of other instances.
    tag: String,
    /// What the secrets are made of.
    key: String,
    /// The allocations whose nodes may connect now.
    live: Arc<Mutex<BTreeSet<AllocationId>>>,
}

/// Shows no key.
impl fmt::Debug for Admission {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Admission of {}", self.tag)
    }
}

impl Admission {
    /// That of a new instance.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn new() -> Result<Self, NoRandom> {
        Ok(Self::saved(random_text(TAG)?, random_text(LENGTH)?))
    }

    /// That of an instance that [`parts`](Self::parts) has described.
    pub(super) fn saved(tag: String, key: String) -> Self {
        Self { tag, key, live: Arc::default() }
    }

    /// What another manager of the instance needs: the tag and the key.
    pub(super) fn parts(&self) -> (&str, &str) {
        (&self.tag, &self.key)
    }

    /// The name of an allocation in the outer job manager.
    pub fn name(&self, id: AllocationId) -> String {
        format!("jobtap-{}-{id}", self.tag)
    }

    /// The secret of an allocation.
    pub(super) fn secret(&self, id: AllocationId) -> String {
        hex(&Sha256::digest(format!("{}/{id}", self.key)))
    }

    /// The nodes of this allocation may connect from now on.
    pub(super) fn open(&self, id: AllocationId) {
        self.live().insert(id);
    }

    /// They may not any more.
    pub(super) fn close(&self, id: AllocationId) {
        self.live().remove(&id);
    }

    /// Whether a pass is that of an allocation whose nodes may connect.
    pub(super) fn admits(&self, pass: &Pass) -> bool {
        // Compared by their hashes, so that the time tells nothing about the secret.
        let hash = |text: &str| Sha256::digest(text);
        self.live().contains(&pass.allocation)
            && hash(&pass.secret) == hash(&self.secret(pass.allocation))
    }

    fn live(&self) -> MutexGuard<'_, BTreeSet<AllocationId>> {
        self.live.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU64;

    use super::*;

    #[test]
    fn a_secret_opens_its_own_allocation_until_that_is_over() {
        let id = |number| AllocationId(NonZeroU64::new(number).unwrap());
        let (own, other) = (Admission::new().unwrap(), Admission::new().unwrap());
        let pass = |of: &Admission, secret: u64, allocation: u64| Pass {
            allocation: id(allocation),
            secret: of.secret(id(secret)),
            process: String::new(),
            ends_at: None,
        };
        assert!(!own.admits(&pass(&own, 1, 1)), "it isn't ordered yet");
        own.open(id(1));
        own.open(id(2));
        assert!(own.admits(&pass(&own, 1, 1)) && own.admits(&pass(&own, 2, 2)));
        assert!(!own.admits(&pass(&own, 2, 1)) && !own.admits(&pass(&other, 1, 1)));
        own.close(id(1));
        assert!(!own.admits(&pass(&own, 1, 1)));
        let (tag, key) = own.parts();
        let next = Admission::saved(tag.to_owned(), key.to_owned());
        next.open(id(2));
        assert!(next.admits(&pass(&own, 2, 2)), "the next manager knows it, too");
        assert_eq!(next.name(id(2)), format!("jobtap-{tag}-2"));
        assert!(!format!("{own:?} {:?}", pass(&own, 1, 1)).contains(&own.secret(id(1))));
    }
}
