//! `access.private-mode`: guests cannot see jobs of other users, not even how many there are.

use std::sync::{PoisonError, RwLock};

use jobtap_core::engine::Cred;
use jobtap_core::job::{JobId, Uid};
use jobtap_core::settings::setting;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::daemon::records::Records;
use crate::rpc::RpcError;
use crate::rpc::errno::EPERM;
use crate::users::Users;

const USERS: &str = "access.roles.admin.users";

/// The privacy setting in force.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Privacy(RwLock<PrivateMode>);

/// The privacy setting: the administrators, who see all jobs; `None` if jobs are not hidden.
#[derive(Debug, Default, PartialEq)]
pub(in crate::daemon) struct PrivateMode(Option<Vec<Uid>>);

impl PrivateMode {
    /// Reads `config`, the whole configuration. This looks users up, which may take long with a slow name
    /// service.
    ///
    /// # Errors
    /// Values of a wrong type, and unknown administrators.
    pub(in crate::daemon) fn read(config: &Value) -> Result<Self, String> {
        let private = setting(config, "access.private-mode")?.unwrap_or(false);
        let named: Vec<Value> = setting(config, USERS)?.unwrap_or_default();
        let users = Users::system();
        let admins: Vec<Uid> =
            named.iter().map(|user| number(&users, user)).collect::<Result<_, _>>()?;
        Ok(Self(private.then_some(admins)))
    }
}

fn number(users: &Users, user: &Value) -> Result<Uid, String> {
    let found = match user {
        Value::String(name) => users.number(name).ok_or("unknown user"),
        other => u32::deserialize(other).map_err(|_| "must be names or numbers of users, not"),
    };
    found.map(Uid::new).map_err(|what| format!("{USERS}: {what} {user}"))
}

impl Privacy {
    /// Puts a setting in force.
    pub(in crate::daemon) fn set(&self, private_mode: PrivateMode) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = private_mode;
    }

    /// Whether jobs of other users are hidden from this client.
    pub(super) fn is_hidden_from(&self, cred: Cred) -> bool {
        let private_mode = self.0.read().unwrap_or_else(PoisonError::into_inner);
        !cred.owner && private_mode.0.as_ref().is_some_and(|admins| !admins.contains(&cred.userid))
    }

    /// Refuses a request about a job that is hidden from the client.
    ///
    /// # Errors
    /// EPERM without a text, for unknown jobs and those of others alike.
    pub(super) fn check_job(
        &self,
        cred: Cred,
        id: JobId,
        records: &Records,
    ) -> Result<(), RpcError> {
        if !self.is_hidden_from(cred) {
            return Ok(());
        }
        records.main_log_for(id, cred).map(drop).map_err(|_| RpcError::new(EPERM, ""))
    }
}

/// The response of `job-manager.why` without jobs of other users, for which a job may wait.
pub(super) fn without_jobs(mut answer: Value) -> Value {
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

    fn private_mode(access: Value) -> Result<PrivateMode, String> {
        PrivateMode::read(&json!({ "access": access }))
    }

    #[test]
    fn jobs_are_not_hidden_by_default() {
        assert_eq!(PrivateMode::read(&json!({})), Ok(PrivateMode(None)));
        assert_eq!(private_mode(json!({"private-mode": false})), Ok(PrivateMode(None)));
    }

    #[test]
    fn administrators_are_names_or_numbers_of_users() {
        let users = |users: Value| {
            private_mode(json!({"private-mode": true, "roles": {"admin": {"users": users}}}))
        };
        assert_eq!(
            users(json!([7, "root"])),
            Ok(PrivateMode(Some(vec![Uid::new(7), Uid::new(0)])))
        );
        let refused = |list: Value| users(list).unwrap_err();
        let text = "access.roles.admin.users: unknown user \"no such user\"";
        assert_eq!(refused(json!(["no such user"])), text);
        let text = "access.roles.admin.users: must be names or numbers of users, not -1";
        assert_eq!(refused(json!([-1])), text);
        let text = "access.roles.admin.users: invalid type: integer `7`, expected a sequence";
        assert_eq!(refused(json!(7)), text);
        let text = private_mode(json!({"private-mode": "yes"})).unwrap_err();
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
        assert!(!privacy.is_hidden_from(guest(8)));
        privacy.set(PrivateMode(Some(vec![Uid::new(7)])));
        assert!(privacy.is_hidden_from(guest(8)) && !privacy.is_hidden_from(guest(7)));
        assert!(!privacy.is_hidden_from(Cred { owner: true, ..guest(8) }));
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
