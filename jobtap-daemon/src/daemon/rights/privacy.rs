//! `access.private-mode`: guests cannot see jobs of other users, not even how many there are.
//!
//! Administrators (`access.roles.admin`) are exempt, by their user or by one of their groups. The site's name service
//! says who is in these groups. It is asked when a guest sends a request, and the result is cached for a while.

use std::sync::{PoisonError, RwLock};
use std::time::{Duration, Instant};

use jobtap_core::engine::Cred;
use jobtap_core::job::{JobId, Uid};
use jobtap_core::settings::{SettingError, setting};
use rustc_hash::FxHashMap;
use serde::Deserialize;
use serde_json::{Value, json};

use super::access::AccessError;
use crate::daemon::records::Records;
use crate::rpc::RpcError;
use crate::rpc::errno::EPERM;
use crate::users::{self, Users};

const USERS: &str = "access.roles.admin.users";
const GROUPS: &str = "access.roles.admin.groups";

/// What a client is allowed beyond its user's rights: as in Flux, a program of the owner may act as an administrator.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::daemon) enum Claim {
    #[default]
    Nothing,
    Admin,
}

/// How long it is remembered whether a user is in a group of administrators.
const KEPT: Duration = Duration::from_secs(60);

/// The privacy setting in force.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Privacy {
    mode: RwLock<PrivateMode>,
    /// Whether the guests that were looked up are in a group of administrators, and when they were looked up.
    known: RwLock<FxHashMap<Uid, (Instant, bool)>>,
}

/// The privacy setting: the administrators, who see all jobs; `None` if jobs are not hidden.
#[derive(Debug, Default, PartialEq)]
pub(in crate::daemon) struct PrivateMode(Option<Admins>);

/// The administrators: users, and the members of groups.
#[derive(Debug, Default, PartialEq)]
struct Admins {
    users: Vec<Uid>,
    groups: Vec<u32>,
}

impl PrivateMode {
    /// Reads `config`, the whole configuration. This looks users up, which may take long with a slow name
    /// service.
    ///
    /// # Errors
    /// Values of a wrong type, and unknown administrators.
    pub(in crate::daemon) fn read(config: &Value) -> Result<Self, AccessError> {
        let private = setting(config, "access.private-mode")?.unwrap_or(false);
        let named = |key| Ok::<Vec<Value>, SettingError>(setting(config, key)?.unwrap_or_default());
        let system = Users::system();
        let found = |name: &str| system.number(name);
        let users = numbers(USERS, "user", &named(USERS)?, found)?;
        let groups = numbers(GROUPS, "group", &named(GROUPS)?, users::group_number)?;
        let users = users.into_iter().map(Uid::new).collect();
        Ok(Self(private.then_some(Admins { users, groups })))
    }
}

/// The numbers of named users or groups.
fn numbers(
    key: &'static str,
    what: &'static str,
    named: &[Value],
    find: impl Fn(&str) -> Option<u32>,
) -> Result<Vec<u32>, AccessError> {
    let number = |value: &Value| match value {
        Value::String(name) => {
            let unknown = || AccessError::UnknownAdmin { key, what, name: value.clone() };
            find(name).ok_or_else(unknown)
        }
        other => u32::deserialize(other).map_err(|_| AccessError::NoAdmin {
            key,
            what,
            found: other.clone(),
        }),
    };
    named.iter().map(number).collect()
}

impl Privacy {
    /// Puts a setting in force.
    pub(in crate::daemon) fn set(&self, private_mode: PrivateMode) {
        *self.mode.write().unwrap_or_else(PoisonError::into_inner) = private_mode;
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Looks a guest's groups up, if they matter and are not known.
    pub(in crate::daemon) async fn learn(&self, cred: Cred) {
        let Some(groups) = self.unknown(cred) else { return };
        // A user whom the system doesn't know has no groups.
        let account = users::account(cred.userid.as_u32()).await;
        let is_admin =
            account.is_some_and(|account| account.groups.iter().any(|gid| groups.contains(gid)));
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, (at, _)| at.elapsed() < KEPT);
        known.insert(cred.userid, (Instant::now(), is_admin));
    }

    /// Returns the groups of administrators if this guest's membership in them has to be looked up.
    fn unknown(&self, cred: Cred) -> Option<Vec<u32>> {
        let mode = self.mode.read().unwrap_or_else(PoisonError::into_inner);
        let admins = mode.0.as_ref().filter(|admins| !admins.groups.is_empty() && !cred.owner)?;
        if admins.users.contains(&cred.userid) {
            return None;
        }
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let fresh = known.get(&cred.userid).is_some_and(|(at, _)| at.elapsed() < KEPT);
        (!fresh).then(|| admins.groups.clone())
    }

    /// Whether jobs of other users are hidden from this client.
    pub(in crate::daemon) fn is_hidden_from(&self, cred: Cred, claim: Claim) -> bool {
        if claim == Claim::Admin {
            return false;
        }
        let mode = self.mode.read().unwrap_or_else(PoisonError::into_inner);
        let Some(admins) = mode.0.as_ref().filter(|_| !cred.owner) else { return false };
        let in_group = || {
            let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
            known.get(&cred.userid).is_some_and(|(_, is_admin)| *is_admin)
        };
        !admins.users.contains(&cred.userid) && (admins.groups.is_empty() || !in_group())
    }

    /// Refuses a request about a job that is hidden from the client.
    ///
    /// # Errors
    /// EPERM without a text, for unknown jobs and those of others alike.
    pub(in crate::daemon) fn check_job(
        &self,
        cred: Cred,
        claim: Claim,
        id: JobId,
        records: &Records,
    ) -> Result<(), RpcError> {
        if !self.is_hidden_from(cred, claim) || records.userid(id) == Ok(Some(cred.userid)) {
            return Ok(());
        }
        Err(RpcError::new(EPERM, ""))
    }
}

/// Removes the jobs for which a job waits, which may be those of other users, from a response of `job-manager.why`.
pub(in crate::daemon) fn without_jobs(mut answer: Value) -> Value {
    let reasons = answer.get_mut("reasons").and_then(Value::as_array_mut);
    for reason in reasons.into_iter().flatten() {
        let text = match reason.get("kind").and_then(Value::as_str) {
            Some("order") => "other jobs go first",
            Some("resources") => "its resources are in use",
            _ => continue,
        };
        *reason = json!({ "kind": reason.get("kind"), "text": text });
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn private_mode(access: Value) -> Result<PrivateMode, AccessError> {
        PrivateMode::read(&json!({ "access": access }))
    }

    fn of_users(users: &[u32]) -> PrivateMode {
        let users = users.iter().copied().map(Uid::new).collect();
        PrivateMode(Some(Admins { users, groups: Vec::new() }))
    }

    #[test]
    fn jobs_are_not_hidden_by_default() {
        assert_eq!(PrivateMode::read(&json!({})).unwrap(), PrivateMode(None));
        assert_eq!(private_mode(json!({"private-mode": false})).unwrap(), PrivateMode(None));
    }

    #[test]
    fn administrators_are_names_or_numbers_of_users() {
        let users = |users: Value| {
            private_mode(json!({"private-mode": true, "roles": {"admin": {"users": users}}}))
        };
        assert_eq!(users(json!([7, "root"])).unwrap(), of_users(&[7, 0]));
        let refused = |list: Value| users(list).unwrap_err().to_string();
        let text = "access.roles.admin.users: unknown user \"no such user\"";
        assert_eq!(refused(json!(["no such user"])), text);
        let text = "access.roles.admin.users: must be names or numbers of users, not -1";
        assert_eq!(refused(json!([-1])), text);
        let text = "access.roles.admin.users: invalid type: integer `7`, expected a sequence";
        assert_eq!(refused(json!(7)), text);
        let text = private_mode(json!({"private-mode": "yes"})).unwrap_err().to_string();
        assert_eq!(text, "access.private-mode: invalid type: string \"yes\", expected a boolean");
    }

    #[test]
    fn unknown_administrators_are_refused_without_private_mode() {
        let roles = json!({"admin": {"users": ["no such user"]}});
        assert!(private_mode(json!({ "private-mode": false, "roles": roles })).is_err());
    }

    fn guest(uid: u32) -> Cred {
        Cred { userid: Uid::new(uid), owner: false }
    }

    #[test]
    fn jobs_are_hidden_from_guests_only() {
        let privacy = Privacy::default();
        assert!(!privacy.is_hidden_from(guest(8), Claim::Nothing));
        privacy.set(of_users(&[7]));
        assert!(
            privacy.is_hidden_from(guest(8), Claim::Nothing)
                && !privacy.is_hidden_from(guest(7), Claim::Nothing)
        );
        assert!(!privacy.is_hidden_from(guest(8), Claim::Admin));
        assert!(!privacy.is_hidden_from(Cred { owner: true, ..guest(8) }, Claim::Nothing));
    }

    #[test]
    fn members_of_a_group_are_administrators() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let groups = |names: Value| {
            private_mode(json!({"private-mode": true, "roles": {"admin": {"groups": names}}}))
        };
        let unknown = groups(json!(["no such group"])).unwrap_err().to_string();
        assert_eq!(unknown, "access.roles.admin.groups: unknown group \"no such group\"");
        let privacy = Privacy::default();
        privacy.set(groups(json!(["root"])).unwrap());
        // Root is in its group on every system, and no user has this number.
        let (member, other) = (guest(0), guest(4_000_000_123));
        assert!(privacy.is_hidden_from(member, Claim::Nothing), "not before it is looked up");
        runtime.block_on(privacy.learn(member));
        runtime.block_on(privacy.learn(other));
        assert!(
            !privacy.is_hidden_from(member, Claim::Nothing)
                && privacy.is_hidden_from(other, Claim::Nothing)
        );
        assert_eq!(privacy.unknown(member), None, "it is known now");
        privacy.set(groups(json!([4_000_000_124u32])).unwrap());
        assert!(
            privacy.is_hidden_from(member, Claim::Nothing),
            "another setting is looked up again"
        );
    }

    #[test]
    fn reasons_do_not_name_jobs_of_other_users() {
        let answer = json!({"reasons": [
            {"kind": "order", "text": "f1 goes first", "first": 1},
            {"kind": "resources", "text": "its resources are held by f1", "jobs": [1]},
            {"kind": "queue", "text": "queue a is stopped"},
        ]});
        let veiled = json!({"reasons": [
            {"kind": "order", "text": "other jobs go first"},
            {"kind": "resources", "text": "its resources are in use"},
            {"kind": "queue", "text": "queue a is stopped"},
        ]});
        assert_eq!(without_jobs(answer), veiled);
    }
}
