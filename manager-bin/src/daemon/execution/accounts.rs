//! The accounts of the users as whom jobs run.
//!
//! A manager that root runs starts each job as its submitter. Who that is says the site's name service, which may
//! take long; so answers are kept for a while.

use std::cell::RefCell;
use std::time::{Duration, Instant};

use jobtap_core::job::Uid;
use rustc_hash::FxHashMap;

use crate::exec::Account;
use crate::rpc::RpcError;
use crate::rpc::errno::EINVAL;
use crate::users;

/// How long an answer is used. A user who joins a group waits at most so long until jobs have it.
const KEPT: Duration = Duration::from_secs(60);

/// How many answers are kept at most.
const MOST: usize = 4096;

/// Looks accounts up. Used by one thread, which waits for the name service.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Accounts(RefCell<FxHashMap<u32, (Instant, Account)>>);

impl Accounts {
    /// The account of a user; `None` for the manager's own user, as whom it runs jobs without further ado, and
    /// where it runs no others because it isn't root: the executor refuses these.
    ///
    /// # Errors
    /// The system doesn't know the user. An unknown user is looked up again for the next job.
    pub(super) fn of(&self, user: Uid) -> Result<Option<Account>, RpcError> {
        let (own, uid) = (rustix::process::geteuid(), user.as_u32());
        if own.as_raw() == uid || !own.is_root() {
            return Ok(None);
        }
        let mut known = self.0.borrow_mut();
        if let Some((_, account)) = known.get(&uid).filter(|(at, _)| at.elapsed() < KEPT) {
            return Ok(Some(account.clone()));
        }
        if known.len() >= MOST {
            known.retain(|_, (at, _)| at.elapsed() < KEPT);
        }
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| RpcError::new(EINVAL, error.to_string()))?;
        let account = runtime.block_on(users::account(uid)).ok_or_else(|| {
            let text = format!("cannot run a job of user {uid}, whom this host doesn't know");
            RpcError::new(EINVAL, text)
        })?;
        known.insert(uid, (Instant::now(), account.clone()));
        Ok(Some(account))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_own_user_is_not_looked_up_and_an_unknown_one_is_refused() {
        let accounts = Accounts::default();
        let own = rustix::process::geteuid();
        assert_eq!(accounts.of(Uid::new(own.as_raw())).unwrap(), None);
        if !own.is_root() {
            println!("skipped: only root runs jobs of other users");
            return;
        }
        let refused = accounts.of(Uid::new(4_000_000_123)).unwrap_err();
        let text = "cannot run a job of user 4000000123, whom this host doesn't know";
        assert_eq!(refused.text, text);
        assert!(accounts.0.borrow().is_empty());
    }
}
