//! The users of requests by name: Slurm tells its plugins, queues may be for some users and groups only, and a
//! request here has the number of its user only.
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

    /// What the system has said last of a user.
    pub(super) fn last_known(&self, user: Uid) -> Option<&Requester> {
        self.known.get(&user).map(|(requester, _)| requester)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::{JobId, Urgency};

    const ADA: Uid = Uid::new(7);

    fn request(number: u64) -> Unasked {
        Unasked {
            topic: TopicId::SlurmJobModify,
            reply: ReplyTo(number),
            cred: Cred { userid: Uid::new(1), owner: true },
            user: ADA,
            descriptor: JobDescriptor::default(),
            purpose: ChainPurpose::Urgency { id: JobId::new(number), urgency: Urgency::DEFAULT },
        }
    }

    fn numbers(requests: &[Unasked]) -> Vec<u64> {
        requests.iter().map(|request| request.reply.0).collect()
    }

    fn at(seconds: f64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn requests_wait_in_their_order_for_one_answer() {
        let mut users = Users::default();
        assert_eq!(users.known(ADA, at(0.0)), None);
        assert!(users.wait(request(1)));
        assert!(!users.wait(request(2)));
        assert!(!users.wait(request(3)));
        let waited = users.learn(ADA, Requester::default(), at(1.0));
        assert_eq!(numbers(&waited), [1, 2, 3]);
        assert!(users.learn(ADA, Requester::default(), at(1.0)).is_empty());
    }

    #[test]
    fn an_answer_holds_for_some_time() {
        let ada = Requester { name: Some("ada".to_owned()), ..Requester::default() };
        for (requester, seconds) in [(ada, KNOWN), (Requester::default(), UNKNOWN)] {
            let mut users = Users::default();
            users.learn(ADA, requester.clone(), at(100.0));
            assert_eq!(users.known(ADA, at(100.0 + seconds - 0.1)), Some(requester));
            assert_eq!(users.known(ADA, at(100.0 + seconds)), None);
            // Later requests don't overtake one that waits.
            assert!(users.wait(request(1)));
            assert_eq!(users.known(ADA, at(100.0)), None);
        }
    }
}
