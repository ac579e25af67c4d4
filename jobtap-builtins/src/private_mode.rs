//! `access.private-mode`, in which guests can't find out whether a job of another user exists. A plugin that
//! gets a job id from a guest must report such a job as not found.

use jobtap_core::prelude::*;

/// The part of the instance's configuration that is read here.
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
    fn private_mode_hides_jobs_from_other_guests() {
        let [owner, one, other] = [1, 2, 3].map(Uid::new);
        let private = PrivateMode::read(&json!({"access": {"private-mode": true}})).unwrap();
        assert!(private.hides(one, other, owner));
        assert!(!private.hides(one, one, owner) && !private.hides(one, owner, owner));
        assert!(!PrivateMode::read(&json!({})).unwrap().hides(one, other, owner));
    }
}
