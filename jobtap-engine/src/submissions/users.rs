//! The names of users who make requests: Slurm gives them to its plugins, and queues may be for some users and groups
//! only, but a request here only has the id of its user.
//!
//! The system is asked once for each user, and again only when its answer has expired, since its directory of users may
//! be slow. Requests wait for its answer in their order.

use rustc_hash::FxHashMap;

use crate::agenda::ChainPurpose;
use crate::api::{Cred, ReplyTo, Requester};
use crate::job::{Timestamp, Uid};
use crate::slurm::JobDescriptor;
use crate::topic::TopicId;

/// How long an answer of the system is valid, in seconds.
const KNOWN: f64 = 300.0;

/// How long the answer that the system doesn't know a user is valid, in seconds: the directory may have been down.
const UNKNOWN: f64 = 10.0;

/// A request that no plugin was asked about yet.
#[derive(Debug)]
pub(crate) struct Unasked {
    pub(crate) topic: TopicId,
    pub(crate) reply: ReplyTo,
    pub(crate) cred: Cred,
    /// The user whose job the request is about, who submits it or has submitted it.
    pub(crate) user: Uid,
    pub(crate) descriptor: JobDescriptor,
    pub(crate) purpose: ChainPurpose,
}

/// The users of requests.
#[derive(Debug, Default)]
pub(crate) struct Users {
    /// What the system has answered, and until when that is valid.
    known: FxHashMap<Uid, (Requester, Timestamp)>,
    waiting: FxHashMap<Uid, Vec<Unasked>>,
}

impl Users {
    /// What is known about a user; `None` if the system has to be asked.
    pub(crate) fn known(&self, user: Uid, now: Timestamp) -> Option<Requester> {
        if self.waiting.contains_key(&user) {
            // The request has to wait behind those that came before.
            return None;
        }
        let (requester, until) = self.known.get(&user)?;
        (*until > now).then(|| requester.clone())
    }

    /// What the system has last said about a user.
    pub(crate) fn last_known(&self, user: Uid) -> Option<&Requester> {
        self.known.get(&user).map(|(requester, _)| requester)
    }

    /// Keeps a request until the system has answered. Returns whether the system has yet to be asked.
    pub(crate) fn wait(&mut self, request: Unasked) -> bool {
        let waiting = self.waiting.entry(request.user).or_default();
        waiting.push(request);
        waiting.len() == 1
    }

    /// Notes what the system has answered. Returns the requests that have waited for it, in their order.
    pub(crate) fn learn(
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
