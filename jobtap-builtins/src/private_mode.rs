//! `access.private-mode`, in which no guest learns whether a job of another user exists: to a plugin
//! that is given a job's id, such a job is one that isn't there.

use jobtap_core::prelude::*;

/// What is read of the instance's configuration.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PrivateMode {
    access: Access,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Access {
    private_mode: bool,
}

impl PrivateMode {
    /// Whether a job of `target` is hidden from this user.
    pub(crate) fn hides(&self, target: Uid, from: Uid, owner: Uid) -> bool {
        self.access.private_mode && target != from && from != owner
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ConfTable as _;
    use serde_json::json;

    use super::*;

    #[test]
    fn jobs_are_hidden_from_guests_alone_and_only_if_it_is_said() {
        let [owner, one, other] = [1, 2, 3].map(Uid::new);
        let private = PrivateMode::read(&json!({"access": {"private-mode": true}})).unwrap();
        assert!(private.hides(one, other, owner));
        assert!(!private.hides(one, one, owner) && !private.hides(one, owner, owner));
        assert!(!PrivateMode::read(&json!({})).unwrap().hides(one, other, owner));
    }
}
