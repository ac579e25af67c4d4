//! `access.private-mode`: guests learn nothing of the jobs of others, not even that there are any.

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

/// From whom jobs are hidden.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Privacy(RwLock<Veil>);

/// The administrators, who see all; `None` when nothing is hidden.
#[derive(Debug, Default, PartialEq)]
pub(in crate::daemon) struct Veil(Option<Vec<Uid>>);

impl Veil {
    /// Reads `config`, the whole configuration. Looks users up, which may take long where a name service
    /// is slow.
    ///
    /// # Errors
    /// Values of a wrong type, and administrators whom nobody knows.
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
    /// Hides jobs as this says from now on.
    pub(in crate::daemon) fn set(&self, veil: Veil) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = veil;
    }

    /// Whether this client may not learn of the jobs of others.
    pub(super) fn is_hidden_from(&self, cred: Cred) -> bool {
        let veil = self.0.read().unwrap_or_else(PoisonError::into_inner);
        !cred.owner && veil.0.as_ref().is_some_and(|admins| !admins.contains(&cred.userid))
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
        records.main_log(id, cred).map(drop).map_err(|_| RpcError::new(EPERM, ""))
    }
}

/// The answer of `job-manager.why` without the jobs of others, which may be what a job waits for.
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

    fn veil(access: Value) -> Result<Veil, String> {
        Veil::read(&json!({ "access": access }))
    }

    #[test]
    fn nothing_is_hidden_unless_it_is_said() {
        assert_eq!(Veil::read(&json!({})), Ok(Veil(None)));
        assert_eq!(veil(json!({"private-mode": false})), Ok(Veil(None)));
    }

    #[test]
    fn administrators_are_named_or_numbered_and_others_refused_with_the_key() {
        let users = |users: Value| {
            veil(json!({"private-mode": true, "roles": {"admin": {"users": users}}}))
        };
        assert_eq!(users(json!([7, "root"])), Ok(Veil(Some(vec![Uid::new(7), Uid::new(0)]))));
        let refused = |list: Value| users(list).unwrap_err();
        let text = "access.roles.admin.users: unknown user \"no such user\"";
        assert_eq!(refused(json!(["no such user"])), text);
        let text = "access.roles.admin.users: must be names or numbers of users, not -1";
        assert_eq!(refused(json!([-1])), text);
        let text = "access.roles.admin.users: invalid type: integer `7`, expected a sequence";
        assert_eq!(refused(json!(7)), text);
        let text = veil(json!({"private-mode": "yes"})).unwrap_err();
        assert_eq!(text, "access.private-mode: invalid type: string \"yes\", expected a boolean");
    }

    #[test]
    fn unknown_administrators_are_refused_before_anything_is_hidden() {
        let roles = json!({"admin": {"users": ["no such user"]}});
        assert!(veil(json!({ "private-mode": false, "roles": roles })).is_err());
    }

    fn guest(uid: u32) -> Cred {
        Cred { userid: Uid::new(uid), owner: false }
    }

    #[test]
    fn the_veil_is_for_guests_alone() {
        let privacy = Privacy::default();
        assert!(!privacy.is_hidden_from(guest(8)));
        privacy.set(Veil(Some(vec![Uid::new(7)])));
        assert!(privacy.is_hidden_from(guest(8)) && !privacy.is_hidden_from(guest(7)));
        assert!(!privacy.is_hidden_from(Cred { owner: true, ..guest(8) }));
    }

    #[test]
    fn reasons_name_no_jobs_of_others() {
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
