//! `access.private-mode`: guests learn nothing of the jobs of others, not even that there are any.

use std::sync::RwLock;

use jobtap_core::engine::Cred;
use jobtap_core::job::{JobId, Uid};
use serde::Deserialize;
use serde_json::{Value, json};

use super::records::Records;
use crate::rpc::RpcError;
use crate::rpc::errno::EPERM;
use crate::users::Users;

/// Answers that count the jobs of all users.
const COUNTS: [&str; 2] = ["job-manager.stats-get", "job-list.job-stats"];

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Access {
    #[serde(rename = "private-mode")]
    private_mode: bool,
    roles: Roles,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Roles {
    admin: Role,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Role {
    users: Vec<UserName>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum UserName {
    Number(u32),
    Name(String),
}

/// From whom jobs are hidden.
#[derive(Debug, Default)]
pub(super) struct Privacy(RwLock<Veil>);

/// The administrators, who see all; `None` when nothing is hidden.
#[derive(Debug, Default, PartialEq)]
struct Veil(Option<Vec<Uid>>);

impl Veil {
    fn read(config: &Value) -> Result<Self, String> {
        let access = config.get("access").cloned().unwrap_or_else(|| json!({}));
        let access = Access::deserialize(access).map_err(|error| format!("access: {error}"))?;
        if !access.private_mode {
            return Ok(Self(None));
        }
        let users = Users::system();
        let number = |user: &UserName| match user {
            UserName::Number(uid) => Ok(Uid::new(*uid)),
            UserName::Name(name) => users
                .number(name)
                .map(Uid::new)
                .ok_or_else(|| format!("access.roles.admin.users: unknown user {name:?}")),
        };
        access.roles.admin.users.iter().map(number).collect::<Result<_, _>>().map(Some).map(Self)
    }
}

/// Refuses what [`Privacy::configure`] would refuse.
pub(super) fn check(config: &Value) -> Result<(), String> {
    Veil::read(config).map(drop)
}

impl Privacy {
    /// What `access` of a configuration says is in force from now on.
    ///
    /// # Errors
    /// Values of a wrong type, and administrators whom nobody knows.
    pub(super) fn configure(&self, config: &Value) -> Result<(), String> {
        let veil = Veil::read(config)?;
        *self.0.write().unwrap_or_else(std::sync::PoisonError::into_inner) = veil;
        Ok(())
    }

    fn is_hidden_from(&self, cred: Cred) -> bool {
        let veil = self.0.read().unwrap_or_else(std::sync::PoisonError::into_inner);
        !cred.owner && veil.0.as_ref().is_some_and(|admins| !admins.contains(&cred.userid))
    }

    /// The payload as far as it may be answered: of one job only to its user, and of many only the
    /// user's own.
    ///
    /// # Errors
    /// EPERM without a text: for unknown jobs and those of others alike.
    pub(super) fn admit(
        &self,
        cred: Cred,
        topic: &str,
        payload: &mut Value,
        records: &Records,
    ) -> Result<(), RpcError> {
        if !self.is_hidden_from(cred) {
            return Ok(());
        }
        let denied = || RpcError::new(EPERM, "");
        if COUNTS.contains(&topic) {
            return Err(denied());
        }
        if let Some(id) = payload.get("id").and_then(|id| JobId::deserialize(id).ok()) {
            records.main_log(id, cred).map_err(|_| denied())?;
        }
        if topic == "job-list.list"
            && let Some(fields) = payload.as_object_mut()
        {
            let own = json!({ "userid": [cred.userid] });
            let asked = fields.remove("constraint").filter(|asked| !asked.is_null());
            let both = asked.map_or_else(|| own.clone(), |asked| json!({ "and": [own, asked] }));
            fields.insert("constraint".to_owned(), both);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

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
    fn administrators_are_named_or_numbered_and_unknown_ones_refused() {
        let users = |users: Value| {
            veil(json!({"private-mode": true, "roles": {"admin": {"users": users}}}))
        };
        assert_eq!(users(json!([7, "root"])), Ok(Veil(Some(vec![Uid::new(7), Uid::new(0)]))));
        let text = users(json!(["no such user"])).unwrap_err();
        assert_eq!(text, "access.roles.admin.users: unknown user \"no such user\"");
        assert!(users(json!(7)).unwrap_err().starts_with("access: "));
    }

    #[test]
    fn the_veil_is_for_guests_alone() {
        let privacy = Privacy::default();
        let guest = |uid| Cred { userid: Uid::new(uid), owner: false };
        assert!(!privacy.is_hidden_from(guest(8)));
        let roles = json!({"admin": {"users": [7]}});
        let config = json!({"access": {"private-mode": true, "roles": roles}});
        privacy.configure(&config).unwrap();
        assert!(privacy.is_hidden_from(guest(8)) && !privacy.is_hidden_from(guest(7)));
        assert!(!privacy.is_hidden_from(Cred { owner: true, ..guest(8) }));
    }
}
