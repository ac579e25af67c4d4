//! The users of requests by name: Slurm tells its plugins, and a request here has the number of its user only.
//!
//! The system is asked once for each user and then for what may have changed, since its directory of users may
//! be slow to answer. Requests wait for it in their order.

use rustc_hash::FxHashMap;

use crate::engine::agenda::ChainPurpose;
use crate::engine::api::{Cred, ReplyTo, Requester};
use crate::job::{Timestamp, Uid};
use crate::slurm::JobDescriptor;
use crate::topic::TopicId;

/// How long an answer of the system holds, in seconds.
const KNOWN: f64 = 300.0;

/// How long it holds that the system doesn't know a user, in seconds: the directory may have been down.
const UNKNOWN: f64 = 10.0;

/// A request that no plugin was asked about yet.
#[derive(Debug)]
pub(super) struct Unasked {
    pub(super) topic: TopicId,
    pub(super) reply: ReplyTo,
    pub(super) cred: Cred,
    /// Whose job it is about: the user who submits it, or has submitted it.
    pub(super) user: Uid,
    pub(super) descriptor: JobDescriptor,
    pub(super) purpose: ChainPurpose,
}

/// The users of requests.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// What the system has answered, and until when that holds.
    known: FxHashMap<Uid, (Requester, Timestamp)>,
    waiting: FxHashMap<Uid, Vec<Unasked>>,
}

impl Users {
    /// What is known of a user; `None` if the system has to be asked.
    pub(super) fn known(&self, user: Uid, now: Timestamp) -> Option<Requester> {
        if self.waiting.contains_key(&user) {
            // After those that came before.
            return None;
        }
        let (requester, until) = self.known.get(&user)?;
        (*until > now).then(|| requester.clone())
    }

    /// Keeps a request until the system has answered. Returns whether it has to be asked for that.
    pub(super) fn wait(&mut self, request: Unasked) -> bool {
        let waiting = self.waiting.entry(request.user).or_default();
        waiting.push(request);
        waiting.len() == 1
    }

    /// Notes what the system has answered. Returns the requests that have waited for it, in their order.
    pub(super) fn learn(
        &mut self,
        user: Uid,
        requester: Requester,
        now: Timestamp,
    ) -> Vec<Unasked> {
        self.known.retain(|_, (_, until)| *until > now);
        let holds = if requester.name.is_some() { KNOWN } else { UNKNOWN };
        self.known.insert(user, (requester, now + holds));
        self.waiting.remove(&user).unwrap_or_default()
    }
}
