//! Opens the files of a job, and runs its tasks, as the job's user.
//!
//! A shepherd that root started runs jobs of any user. The files of a job, such as its working directory, its
//! command and its output files, are looked up and opened with the job's user as effective user, so that the
//! system itself decides what the user may do. Only the effective ids of the calling thread change, and only for the
//! length of a call: with the real ids of root it can be neither signaled nor traced by the user meanwhile.

use std::io;
use std::sync::Arc;

use rustix::fs::{Gid, Uid};
use rustix::process::{getegid, geteuid, getgroups};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

use serde::{Deserialize, Serialize};

use super::system_error::plain;
use crate::exec::StartJob;
use crate::stderr;

/// The number that system calls take for "leave the id as it is". It can't be a user or a group.
const UNCHANGED: u32 = u32::MAX;

/// The ids of a job's user.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Identity {
    uid: u32,
    gid: u32,
    groups: Vec<u32>,
}

/// Why the shepherd can't act as the user of a job.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobUserError {
    /// Only root can act as other users.
    #[error("cannot run a job of user {user} as user {own}: only a manager that root runs can")]
    NotRoot { user: u32, own: Uid },
    /// The manager has found no account of the user.
    #[error("cannot run a job of user {user}, whom this host doesn't know")]
    Unknown { user: u32 },
    /// One of the user's ids means something else to the system.
    #[error("cannot run a job of user {user}: {UNCHANGED} is not a user or group")]
    NoIdentity { user: u32 },
    /// The system refuses the change of ids.
    #[error("cannot act as the job's user: {}", plain(.0))]
    Refused(io::Error),
}

/// The user of a job, as whom the shepherd acts.
#[derive(Clone, Debug, Default)]
pub(super) struct JobUser(Option<Arc<Identity>>);

impl JobUser {
    /// The user of a job.
    pub(super) fn for_job(start: &StartJob) -> Result<Self, JobUserError> {
        let (own, user) = (geteuid(), start.userid);
        if own.as_raw() == user {
            return Ok(Self(None));
        }
        if !own.is_root() {
            return Err(JobUserError::NotRoot { user, own });
        }
        let account = start.account.as_ref().ok_or(JobUserError::Unknown { user })?;
        if user == UNCHANGED || account.gid == UNCHANGED || account.groups.contains(&UNCHANGED) {
            return Err(JobUserError::NoIdentity { user });
        }
        let (gid, groups) = (account.gid, account.groups.clone());
        Ok(Self(Some(Arc::new(Identity { uid: user, gid, groups }))))
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

    /// As [`act`](Self::act), for work that may fail itself.
    pub(super) fn try_act<T, E: From<JobUserError>>(
        &self,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.act(work).map_err(JobUserError::Refused)?
    }
}

impl Identity {
    pub(super) fn uid(&self) -> Uid {
        Uid::from_raw(self.uid)
    }

    pub(super) fn gid(&self) -> Gid {
        Gid::from_raw(self.gid)
    }

    fn groups(&self) -> Vec<Gid> {
        self.groups.iter().copied().map(Gid::from_raw).collect()
    }

    /// Changes all ids of this thread for good.
    ///
    /// # Errors
    /// The system refuses it. The thread may then have some of the ids.
    pub(super) fn assume(&self) -> io::Result<()> {
        // In this order: without the user id of root the thread may not set its groups.
        let (uid, gid) = (self.uid(), self.gid());
        set_thread_groups(&self.groups())?;
        set_thread_res_gid(gid, gid, gid)?;
        Ok(set_thread_res_uid(uid, uid, uid)?)
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
        // Made first, so that the thread's own ids are restored if one of the changes fails.
        let back = Self { uid: geteuid(), gid: getegid(), groups: getgroups()? };
        set_thread_groups(&identity.groups())?;
        set_thread_res_gid(None, identity.gid(), None)?;
        set_thread_res_uid(None, identity.uid(), None)?;
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
            // The shepherd can't go on: every job would be served with the ids of this job's user. The next
            // shepherd reports the jobs as lost.
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
        let own = JobUser::for_job(&start(geteuid().as_raw(), None)).unwrap();
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
            let refused = JobUser::for_job(&start(user, account)).unwrap_err().to_string();
            assert!(refused.ends_with("4294967295 is not a user or group"), "{refused}");
        }
        let refused = JobUser::for_job(&start(61001, None)).unwrap_err().to_string();
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
        let ada = JobUser::for_job(&start(61001, account(61002, &[61002, 61009]))).unwrap();
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
        let ada = JobUser::for_job(&start(61001, account(61002, &[]))).unwrap();
        let work = std::panic::AssertUnwindSafe(|| ada.act(|| panic!("seeded")));
        assert!(std::panic::catch_unwind(work).is_err());
        assert!(geteuid().is_root());
    }
}
