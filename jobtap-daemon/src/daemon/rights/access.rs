//! `[access]`: which users may connect, with which rights they act, and how fast guests may send requests.
//!
//! The system says who a client is; nothing that the client sends can change that. As in Flux the user who
//! started the manager is its owner, and all others are guests, whom `access.allow-guest-user` lets in.

use std::path::Path;
use std::sync::{PoisonError, RwLock};

use jobtap_core::engine::Cred;
use jobtap_core::job::Uid;
use jobtap_core::settings::{SettingError, setting};
use serde_json::Value;

use crate::files::Dir;
use crate::rpc::RpcError;
use crate::rpc::errno::EPERM;

const RATE: &str = "access.guest-request-rate";

/// The keys of `[access]`. As in Flux, any other one is an error: a misspelled one would leave in force what it was
/// meant to change.
pub(in crate::daemon) const KEYS: [&str; 5] =
    ["allow-guest-user", "allow-root-owner", "guest-request-rate", "private-mode", "roles"];

/// Why the table can't be used.
#[derive(Debug, thiserror::Error)]
pub enum AccessError {
    /// A value of a wrong type.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// Another key than the known ones.
    #[error("access.{0}: no such key; there are {known}", known = KEYS.join(", "))]
    UnknownKey(String),
    /// `guest-request-rate` would let no request through.
    #[error("{RATE}: {0} is not more than 0 requests a second")]
    Rate(f64),
    /// An administrator, a `what`, whom the system doesn't know.
    #[error("{key}: unknown {what} {name}")]
    UnknownAdmin {
        /// The key.
        key: &'static str,
        /// `user` or `group`.
        what: &'static str,
        /// The name, as JSON.
        name: Value,
    },
    /// An administrator that is neither a name nor a number.
    #[error("{key}: must be names or numbers of {what}s, not {found}")]
    NoAdmin {
        /// The key.
        key: &'static str,
        /// `user` or `group`.
        what: &'static str,
        /// The value.
        found: Value,
    },
}

/// The settings.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(in crate::daemon) struct AccessSettings {
    /// Whether users other than the owner may connect.
    guests: bool,
    /// Whether root has the rights of the owner, who is another user.
    root_owner: bool,
    /// How many requests a second each guest may send; `None` for any number.
    rate: Option<f64>,
}

impl AccessSettings {
    /// Reads `config`, the whole configuration.
    ///
    /// # Errors
    /// Unknown keys, and values of a wrong type, with their key.
    pub(in crate::daemon) fn read(config: &Value) -> Result<Self, AccessError> {
        let table = config.get("access").and_then(Value::as_object);
        let unknown = table.into_iter().flatten().find(|(key, _)| !KEYS.contains(&key.as_str()));
        if let Some((key, _)) = unknown {
            return Err(AccessError::UnknownKey(key.clone()));
        }
        let flag = |key: &str| Ok::<_, SettingError>(setting(config, key)?.unwrap_or(false));
        let rate: Option<f64> = setting(config, RATE)?;
        if let Some(rate) = rate.filter(|rate| !(rate.is_finite() && *rate > 0.0)) {
            return Err(AccessError::Rate(rate));
        }
        let guests = flag("access.allow-guest-user")?;
        Ok(Self { guests, root_owner: flag("access.allow-root-owner")?, rate })
    }
}

/// The settings in force.
#[derive(Debug, Default)]
pub(in crate::daemon) struct Access(RwLock<AccessSettings>);

impl Access {
    /// Puts settings in force, for clients that connect from now on.
    pub(in crate::daemon) fn set(&self, settings: AccessSettings) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = settings;
    }

    fn get(&self) -> AccessSettings {
        *self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the rights with which a user acts. `userid` is the client's user according to the system.
    ///
    /// # Errors
    /// EPERM for guests, if there may be none.
    pub(in crate::daemon) fn cred(&self, userid: Uid, owner: Uid) -> Result<Cred, RpcError> {
        let AccessSettings { guests, root_owner, .. } = self.get();
        let is_owner = userid == owner || (root_owner && userid == Uid::new(0));
        if !is_owner && !guests {
            let text = format!(
                "only its owner, user {owner}, may use it: access.allow-guest-user is not set"
            );
            return Err(RpcError::new(EPERM, text));
        }
        Ok(Cred { userid, owner: is_owner })
    }

    /// How many requests a second this client may send.
    pub(in crate::daemon) fn rate(&self, cred: Cred) -> Option<f64> {
        if cred.owner { None } else { self.get().rate }
    }

    /// Makes the socket and the path to it accessible to guests, or to the owner only. Each connection is checked
    /// nevertheless.
    ///
    /// # Errors
    /// The modes can't be changed.
    pub(in crate::daemon) fn apply_to(
        &self,
        statedir: &Path,
        socket: &Path,
    ) -> std::io::Result<()> {
        let guests = self.get().guests;
        let (dir, name) = Dir::of_file(socket)?;
        dir.set_mode_of(&name, if guests { 0o666 } else { 0o600 })?;
        if guests {
            // Guests, and jobs of guests that have directories of their own in it, pass through the state directory.
            // They can't list it, and everything else in it has modes of its own.
            Dir::open(statedir)?.let_others_pass()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const OWNER: Uid = Uid::new(1000);

    fn access(settings: &Value) -> Access {
        let access = Access::default();
        access.set(AccessSettings::read(&json!({ "access": settings })).unwrap());
        access
    }

    #[test]
    fn guests_are_let_in_only_when_the_configuration_allows_it() {
        let guest = Uid::new(7);
        let closed = access(&json!({}));
        assert_eq!(closed.cred(OWNER, OWNER).unwrap(), Cred { userid: OWNER, owner: true });
        let refusal = closed.cred(guest, OWNER).unwrap_err();
        assert_eq!(refusal.errno, EPERM);
        assert_eq!(
            refusal.text,
            "only its owner, user 1000, may use it: access.allow-guest-user is not set"
        );
        let open = access(&json!({"allow-guest-user": true}));
        assert_eq!(open.cred(guest, OWNER).unwrap(), Cred { userid: guest, owner: false });
    }

    #[test]
    fn root_is_a_guest_unless_it_is_made_an_owner() {
        let root = Uid::new(0);
        assert!(access(&json!({})).cred(root, OWNER).is_err());
        let owner = access(&json!({"allow-root-owner": true}));
        assert_eq!(owner.cred(root, OWNER).unwrap(), Cred { userid: root, owner: true });
        assert!(owner.cred(Uid::new(7), OWNER).is_err());
    }

    #[test]
    fn an_unknown_key_is_refused() {
        let read = AccessSettings::read(&json!({"access": {"private-mod": true}}));
        let text = read.unwrap_err().to_string();
        assert!(text.starts_with("access.private-mod: no such key"), "{text}");
    }

    #[test]
    fn only_guests_have_a_rate() {
        let access = access(&json!({"guest-request-rate": 5}));
        assert_eq!(access.rate(Cred { userid: OWNER, owner: true }), None);
        assert_eq!(access.rate(Cred { userid: Uid::new(7), owner: false }), Some(5.0));
        for rate in [json!(0), json!(-1)] {
            let read = AccessSettings::read(&json!({"access": {"guest-request-rate": rate}}));
            let text = format!("{RATE}: {rate} is not more than 0 requests a second");
            assert_eq!(read.unwrap_err().to_string(), text);
        }
    }
}
