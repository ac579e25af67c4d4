//! The accounts that jobs run as.
//!
//! A manager that runs as root starts each job as its submitter, whose account comes from the site's name service. That
//! may be slow or hang, so users are looked up on threads of their own while the jobs of others go on, and accounts are
//! cached for a while.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::Builder;
use std::time::{Duration, Instant};

use jobtap_core::job::Uid;
use rustc_hash::{FxHashMap, FxHashSet};

use crate::exec::Account;
use crate::users;

/// How long a cached account is used. A user who joins a group waits at most this long until jobs have the group.
const KEPT: Duration = Duration::from_secs(60);

/// The number of cached accounts above which expired ones are removed.
const MOST: usize = 4096;

/// What is known about a user.
#[derive(Debug, PartialEq)]
pub(super) enum Known {
    /// The user's account. `None` for the manager's own user, whose jobs need no other account, and in a manager that
    /// isn't root, whose executor refuses the jobs of other users.
    Account(Option<Account>),
    /// The user is being looked up.
    NotYet,
}

/// Looks accounts up.
#[derive(Debug)]
pub(in crate::daemon) struct Accounts {
    /// Whether jobs run as their users.
    needed: bool,
    known: FxHashMap<u32, (Instant, Account)>,
    asked: FxHashSet<u32>,
    sender: Sender<(u32, Option<Account>)>,
    answers: Receiver<(u32, Option<Account>)>,
    look_up: fn(u32) -> Option<Account>,
}

impl Default for Accounts {
    fn default() -> Self {
        Self::with(look_up)
    }
}

impl Accounts {
    /// Looks no account up: whatever runs the jobs needs none.
    pub(in crate::daemon) fn unneeded() -> Self {
        Self { needed: false, ..Self::default() }
    }

    fn with(look_up: fn(u32) -> Option<Account>) -> Self {
        let (sender, answers) = channel();
        let (known, asked) = Default::default();
        Self {
            needed: rustix::process::geteuid().is_root(),
            known,
            asked,
            sender,
            answers,
            look_up,
        }
    }

    /// Returns the account of a user, or begins to look it up.
    pub(super) fn get(&mut self, user: Uid) -> Known {
        let uid = user.as_u32();
        if !self.needed || rustix::process::geteuid().as_raw() == uid {
            return Known::Account(None);
        }
        if let Some((_, account)) = self.known.get(&uid).filter(|(at, _)| at.elapsed() < KEPT) {
            return Known::Account(Some(account.clone()));
        }
        self.ask(uid);
        Known::NotYet
    }

    fn ask(&mut self, uid: u32) {
        if !self.asked.insert(uid) {
            return;
        }
        let (sender, look_up) = (self.sender.clone(), self.look_up);
        let ask = move || drop(sender.send((uid, look_up(uid))));
        if Builder::new().name("user".to_owned()).spawn(ask).is_err() {
            // Without a thread the user counts as unknown.
            let _ = self.sender.send((uid, None));
        }
    }

    /// Returns the look-ups that have ended since the last call: users, and whether the system knows them. Unknown
    /// users are looked up again for their next job.
    pub(super) fn answered(&mut self) -> Vec<(Uid, bool)> {
        let answers: Vec<_> = self.answers.try_iter().collect();
        if self.known.len() + answers.len() > MOST {
            self.known.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        let take = |(uid, account): (u32, Option<Account>)| {
            self.asked.remove(&uid);
            let known = account.is_some();
            self.known.extend(account.map(|account| (uid, (Instant::now(), account))));
            (Uid::new(uid), known)
        };
        answers.into_iter().map(take).collect()
    }
}

/// Asks the system for an account, within the time limit of `users::account`.
fn look_up(uid: u32) -> Option<Account> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
    runtime.block_on(users::account(uid))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A name service that knows one user, and answers after a while.
    fn slow(uid: u32) -> Option<Account> {
        std::thread::sleep(Duration::from_millis(50));
        (uid == 61_001).then(|| Account { name: "ada".to_owned(), gid: 7, groups: vec![7] })
    }

    fn answered(accounts: &mut Accounts) -> Vec<(Uid, bool)> {
        let begin = Instant::now();
        loop {
            let answers = accounts.answered();
            if !answers.is_empty() {
                return answers;
            }
            assert!(begin.elapsed() < Duration::from_secs(30), "no answer");
            std::thread::yield_now();
        }
    }

    #[test]
    fn users_are_looked_up_in_the_background_and_remembered() {
        let mut accounts = Accounts::with(slow);
        let own = rustix::process::geteuid();
        assert_eq!(accounts.get(Uid::new(own.as_raw())), Known::Account(None));
        if !own.is_root() {
            println!("skipped: only root runs jobs of other users");
            return;
        }
        let (ada, unknown) = (Uid::new(61_001), Uid::new(61_002));
        let begin = Instant::now();
        assert_eq!((accounts.get(ada), accounts.get(ada)), (Known::NotYet, Known::NotYet));
        assert!(begin.elapsed() < Duration::from_millis(50), "it waits for no answer");
        assert_eq!(answered(&mut accounts), [(ada, true)], "asked once");
        let Known::Account(Some(account)) = accounts.get(ada) else { panic!("it is known") };
        assert_eq!(account.name, "ada");
        assert_eq!(accounts.get(unknown), Known::NotYet);
        assert_eq!(answered(&mut accounts), [(unknown, false)]);
        assert_eq!(accounts.get(unknown), Known::NotYet, "it is asked again");
    }
}
