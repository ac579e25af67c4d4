//! The user as whom a job's files are opened and its tasks run.
//!
//! A shepherd that root started runs jobs of any user. What belongs to a job, such as its working directory, its
//! command and its output files, is looked up and opened with the job's user as effective user, so that the
//! system itself decides what the user may do. Only the effective ids of the shepherd's one thread change, and
//! only for the length of a call: with the real ids of root it can be neither signaled nor traced by the user
//! meanwhile.

use std::io;
use std::sync::Arc;

use rustix::fs::{Gid, Uid};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use super::system_error::plain;
use crate::exec::StartJob;
use crate::stderr;

/// The number that system calls take for "leave the id as it is". It can't be a user or a group.
const UNCHANGED: u32 = u32::MAX;

/// The ids of a job's user.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

/// Acts as the user of a job.
#[derive(Clone, Debug, Default)]
pub(super) struct Actor(Option<Arc<Identity>>);

impl Actor {
    /// The actor for a job. The error is for the user.
    pub(super) fn of(start: &StartJob) -> Result<Self, String> {
        let (own, user) = (geteuid(), start.userid);
        if own.as_raw() == user {
            return Ok(Self(None));
        }
        if !own.is_root() {
            let text = format!(
                "cannot run a job of user {user} as user {own}: only a manager that root runs can"
            );
            return Err(text);
        }
        let unknown = || format!("cannot run a job of user {user}, whom this host doesn't know");
        let account = start.account.as_ref().ok_or_else(unknown)?;
        if user == UNCHANGED || account.gid == UNCHANGED || account.groups.contains(&UNCHANGED) {
            return Err(format!(
                "cannot run a job of user {user}: {UNCHANGED} is not a user or group"
            ));
        }
        let groups = account.groups.iter().copied().map(Gid::from_raw).collect();
        let (uid, gid) = (Uid::from_raw(user), Gid::from_raw(account.gid));
        Ok(Self(Some(Arc::new(Identity { uid, gid, groups }))))
    }

    /// The job's user; `None` if it is the shepherd's own.
    pub(super) fn other(&self) -> Option<&Arc<Identity>> {
        self.0.as_ref()
    }

    /// Does `work` as the job's user. It must not start threads, which would keep the user's ids.
    ///
    /// # Errors
    /// The system refuses the change of ids, as in a container without the capability for it.
    pub(super) fn act<T>(&self, work: impl FnOnce() -> T) -> io::Result<T> {
        let Some(identity) = &self.0 else { return Ok(work()) };
        let _back = Back::after_change_to(identity)?;
        Ok(work())
    }

    /// As [`act`](Self::act), for work with an error that is for the user.
    pub(super) fn try_act<T>(&self, work: impl FnOnce() -> Result<T, String>) -> Result<T, String> {
        let refused = |error| format!("cannot act as the job's user: {}", plain(&error));
        self.act(work).map_err(refused)?
    }
}

impl Identity {
    pub(super) fn uid(&self) -> Uid {
        self.uid
    }

    pub(super) fn gid(&self) -> Gid {
        self.gid
    }

    /// Changes all ids of this thread for good. Safe between fork and exec: it makes three system calls, and
    /// neither allocates nor locks.
    ///
    /// # Errors
    /// The system refuses it. The thread may have some of the ids then.
    pub(super) fn assume(&self) -> io::Result<()> {
        // In this order: without the user id of root the thread may not set its groups.
        set_thread_groups(&self.groups)?;
        set_thread_res_gid(self.gid, self.gid, self.gid)?;
        Ok(set_thread_res_uid(self.uid, self.uid, self.uid)?)
    }
}

/// Gives the thread its own ids back when it is dropped.
struct Back {
    uid: Uid,
    gid: Gid,
    groups: Vec<Gid>,
}

impl Back {
    fn after_change_to(identity: &Identity) -> io::Result<Self> {
        // Made first: what it holds is restored when one of the changes fails.
        let back = Self { uid: geteuid(), gid: getegid(), groups: getgroups()? };
        set_thread_groups(&identity.groups)?;
        set_thread_res_gid(None, identity.gid, None)?;
        set_thread_res_uid(None, identity.uid, None)?;
        Ok(back)
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        // The user id first: only root may set the others.
        let restored = set_thread_res_uid(None, self.uid, None)
            .and_then(|()| set_thread_res_gid(None, self.gid, None))
            .and_then(|()| set_thread_groups(&self.groups));
        if let Err(errno) = restored {
            // It can't go on: every job would be served with the ids of this job's user. The next shepherd
            // reports the jobs as lost.
            stderr::line(&format!("shepherd: cannot become user {} again: {errno}", self.uid));
            stderr::flush();
            std::process::abort();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    use jobtap_core::job::JobId;

    use super::*;
    use crate::exec::Account;

    fn start(userid: u32, account: Option<Account>) -> StartJob {
        StartJob { userid, account, ..StartJob::new(JobId::new(1)) }
    }

    fn account(gid: u32, groups: &[u32]) -> Option<Account> {
        Some(Account { name: "ada".to_owned(), gid, groups: groups.to_vec() })
    }

    #[test]
    fn a_job_of_the_shepherds_own_user_needs_no_account() {
        let own = Actor::of(&start(geteuid().as_raw(), None)).unwrap();
        assert_eq!(own.other(), None);
        assert_eq!(own.act(geteuid).unwrap(), geteuid());
    }

    #[test]
    fn ids_that_mean_unchanged_are_refused() {
        if !geteuid().is_root() {
            println!("skipped: only root acts as other users");
            return;
        }
        for (user, account) in [
            (UNCHANGED, account(7, &[])),
            (7, account(UNCHANGED, &[])),
            (7, account(7, &[7, UNCHANGED])),
        ] {
            let refused = Actor::of(&start(user, account)).unwrap_err();
            assert!(refused.ends_with("4294967295 is not a user or group"), "{refused}");
        }
        let refused = Actor::of(&start(61001, None)).unwrap_err();
        assert_eq!(refused, "cannot run a job of user 61001, whom this host doesn't know");
    }

    #[test]
    fn files_are_opened_with_the_rights_of_the_user() {
        if !geteuid().is_root() {
            println!("skipped: only root acts as other users");
            return;
        }
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
        let path = |name: &str| dir.path().join(name);
        for (name, gid, mode) in [("secret", 0, 0o600), ("shared", 61009, 0o660)] {
            fs::write(path(name), "x").unwrap();
            std::os::unix::fs::chown(path(name), Some(0), Some(gid)).unwrap();
            fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
        }
        let before = (geteuid(), getegid(), getgroups().unwrap());
        let ada = Actor::of(&start(61001, account(61002, &[61002, 61009]))).unwrap();
        ada.act(|| {
            assert_eq!(
                fs::read(path("secret")).unwrap_err().kind(),
                io::ErrorKind::PermissionDenied
            );
            assert_eq!(fs::read(path("shared")).unwrap(), b"x", "by a supplementary group");
            fs::write(path("new"), "").unwrap();
        })
        .unwrap();
        let made = fs::metadata(path("new")).unwrap();
        assert_eq!((made.uid(), made.gid()), (61001, 61002));
        assert_eq!((geteuid(), getegid(), getgroups().unwrap()), before);
        assert_eq!(fs::read(path("secret")).unwrap(), b"x", "it is root again");
    }

    #[test]
    fn a_panic_leaves_no_thread_with_the_ids_of_a_user() {
        if !geteuid().is_root() {
            println!("skipped: only root acts as other users");
            return;
        }
        let ada = Actor::of(&start(61001, account(61002, &[]))).unwrap();
        let work = std::panic::AssertUnwindSafe(|| ada.act(|| panic!("seeded")));
        assert!(std::panic::catch_unwind(work).is_err());
        assert!(geteuid().is_root());
    }
}
