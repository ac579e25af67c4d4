//! `job-list.users`: the names of users, for programs that can't look them up on this host, such as a page in a
//! browser.
//!
//! Jobs have only the numbers of their users. Names are looked up with getent(1), which may take long with a slow
//! directory: neither the engine nor requests to other services wait for it. One look-up runs at a time, however many
//! clients ask, and its results are cached for a while.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use rustc_hash::FxHashMap;

use crate::rpc::services::job_list::{User, Users};
use crate::users;

/// How long a client waits before it gets the names that are known by then.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long a name is cached.
const KNOWN: Duration = Duration::from_secs(300);
/// How long it is cached that the system doesn't know a user: not long, since the directory may have been down.
const UNKNOWN: Duration = Duration::from_secs(10);
/// The maximum number of cached users, so that a client that asks for all numbers takes little memory.
const MOST: usize = 16 * 1024;

/// The names that were looked up.
#[derive(Default)]
pub(in crate::daemon) struct UserNames {
    /// Held during a look-up, so that there is one at a time.
    turn: tokio::sync::Mutex<()>,
    found: Mutex<Found>,
}

impl UserNames {
    /// Returns the names of these users, as far as the system knows them and answers in time.
    pub(in crate::daemon) async fn look_up(&self, userids: &[u32]) -> Users {
        let ask = async {
            if self.found().missing(userids, Instant::now()).is_empty() {
                return;
            }
            let _turn = self.turn.lock().await;
            // Another client may have asked for the same users in between.
            let missing = self.found().missing(userids, Instant::now());
            if !missing.is_empty() {
                let names = users::names_of(missing.clone()).await;
                self.found().learn(missing, names, Instant::now());
            }
        };
        // After a timeout, the names that were known before are returned.
        let _ = tokio::time::timeout(PATIENCE, ask).await;
        self.found().names(userids)
    }

    fn found(&self) -> MutexGuard<'_, Found> {
        self.found.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The cached users: the name, or `None` if the system doesn't know the user, and until when that is used.
#[derive(Default)]
struct Found(FxHashMap<u32, (Option<String>, Instant)>);

impl Found {
    /// Returns those of these users that have to be looked up.
    fn missing(&self, userids: &[u32], now: Instant) -> Vec<u32> {
        let holds = |userid| self.0.get(userid).is_some_and(|(_, until)| *until > now);
        userids.iter().filter(|userid| !holds(userid)).copied().collect()
    }

    /// Stores the result of a look-up. The system doesn't know the users without a name.
    fn learn(&mut self, asked: Vec<u32>, names: Vec<(u32, String)>, now: Instant) {
        if self.0.len() + asked.len() > MOST {
            self.0.clear();
        }
        self.0.extend(asked.into_iter().map(|userid| (userid, (None, now + UNKNOWN))));
        self.0.extend(names.into_iter().map(|(userid, name)| (userid, (Some(name), now + KNOWN))));
    }

    fn names(&self, userids: &[u32]) -> Users {
        let name = |userid: &u32| {
            let (name, _) = self.0.get(userid)?;
            Some(User { userid: *userid, name: name.clone()? })
        };
        Users { users: userids.iter().filter_map(name).collect() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ada() -> Vec<(u32, String)> {
        vec![(7, "ada".to_owned())]
    }

    fn shown(found: &Found, userids: &[u32]) -> Vec<String> {
        found.names(userids).users.into_iter().map(|user| user.name).collect()
    }

    #[test]
    fn the_system_is_asked_again_when_an_answer_is_old() {
        let now = Instant::now();
        let mut found = Found::default();
        assert_eq!(found.missing(&[7, 8], now), [7, 8]);
        found.learn(vec![7, 8], ada(), now);
        assert_eq!(found.missing(&[7, 8, 9], now), [9]);
        assert_eq!(found.missing(&[7, 8], now + UNKNOWN), [8]);
        assert_eq!(found.missing(&[7, 8], now + KNOWN), [7, 8]);
    }

    #[test]
    fn a_user_whom_the_system_does_not_know_has_no_name() {
        let mut found = Found::default();
        found.learn(vec![7, 8], ada(), Instant::now());
        assert_eq!(shown(&found, &[8, 7, 9]), ["ada"]);
    }

    #[test]
    fn not_all_numbers_are_remembered() {
        let mut found = Found::default();
        for first in (0..).step_by(256).take(2 * MOST / 256) {
            found.learn((first..first + 256).collect(), Vec::new(), Instant::now());
            assert!(found.0.len() <= MOST);
        }
        found.learn(vec![7], ada(), Instant::now());
        assert_eq!(shown(&found, &[7]), ["ada"]);
    }

    #[tokio::test]
    async fn the_system_knows_root() {
        let names = UserNames::default();
        let root = User { userid: 0, name: "root".to_owned() };
        assert_eq!(names.look_up(&[0, 4_000_000_123]).await, Users { users: vec![root] });
    }
}
