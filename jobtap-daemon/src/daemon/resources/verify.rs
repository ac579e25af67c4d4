//! `resource.verify` and `resource.noverify`: whether the cores of this host must be those that are configured for it.

use jobtap_core::plugin::ConfTable;
use jobtap_core::resource::{Idset, ResourceSet};
use serde::Deserialize;
use serde_json::Value;

use super::error::ResourceError;

/// Which differences between the configured cores and those of the host are errors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Mode {
    Strict,
    AllowExtra,
    AllowMissing,
    Ignore,
}

/// `resource.verify` as a table. Names of hosts and GPUs can't be verified, but may be named.
#[derive(Debug, Deserialize)]
#[serde(default)]
struct Table {
    default: Mode,
    core: Option<Mode>,
    #[serde(rename = "hostname")]
    _hostname: Option<Mode>,
    #[serde(rename = "gpu")]
    _gpu: Option<Mode>,
}

impl Default for Table {
    /// As in Flux, a table that says nothing is strict.
    fn default() -> Self {
        Self { default: Mode::Strict, core: None, _hostname: None, _gpu: None }
    }
}

impl Mode {
    /// Reads the mode for cores, if the configuration has one.
    ///
    /// # Errors
    /// A value that can't be used, with its key.
    pub(super) fn read(
        verify: Option<&Value>,
        noverify: bool,
    ) -> Result<Option<Self>, ResourceError> {
        let mode = match verify {
            None => None,
            Some(Value::Bool(true)) => Some(Self::Strict),
            Some(Value::Bool(false)) => Some(Self::Ignore),
            Some(table @ Value::Object(_)) => {
                let table = Table::read(table).map_err(ResourceError::VerifyTable)?;
                Some(table.core.unwrap_or(table.default))
            }
            Some(other) => return Err(ResourceError::Verify(other.clone())),
        };
        Ok(if noverify { Some(Self::Ignore) } else { mode })
    }

    /// Compares the cores of this host according to `set` with those that it has.
    pub(super) fn check(
        self,
        set: &ResourceSet,
        host: &str,
        have: &Idset,
    ) -> Result<(), ResourceError> {
        let parts = set.iter().filter(|part| part.host().is_some_and(|name| name == host));
        for part in parts {
            let want = part.children().cores();
            let missing = matches!(self, Self::Strict | Self::AllowExtra) && !want.is_subset(have);
            let extra = matches!(self, Self::Strict | Self::AllowMissing) && !have.is_subset(want);
            if missing || extra {
                return Err(ResourceError::Differs {
                    host: host.to_owned(),
                    have: have.to_string(),
                    want: want.to_string(),
                });
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::resource::Children;
    use serde_json::json;

    use super::*;

    #[test]
    fn the_configuration_says_which_differences_matter() {
        let read = |verify: Value, noverify| Mode::read(Some(&verify), noverify).unwrap();
        for (verify, mode) in [
            (json!(true), Mode::Strict),
            (json!(false), Mode::Ignore),
            (json!({}), Mode::Strict),
            (json!({"gpu": "ignore"}), Mode::Strict),
            (json!({"core": "allow-extra"}), Mode::AllowExtra),
            (json!({"default": "allow-missing", "hostname": "strict"}), Mode::AllowMissing),
        ] {
            assert_eq!(read(verify.clone(), false), Some(mode), "{verify}");
            assert_eq!(read(verify, true), Some(Mode::Ignore));
        }
        assert_eq!(Mode::read(None, false).unwrap(), None);
        for (verify, text) in [
            (json!(3), "[resource]: verify: must be true, false or a table, not 3"),
            (json!({"core": "lax"}), "[resource]: verify: core: unknown value \"lax\": the values"),
            (json!({"cores": "strict"}), "[resource]: verify: unknown key \"cores\"; did you mean"),
        ] {
            let refused = Mode::read(Some(&verify), false).unwrap_err().to_string();
            assert!(refused.starts_with(text), "{refused}");
        }
    }

    #[test]
    fn cores_that_are_missing_or_too_many_are_told_apart() {
        let node = Children::new(Idset::from(0..=3), Idset::new());
        let set = ResourceSet::uniform(0, &"a".parse().unwrap(), node);
        let (fewer, same, more) = (Idset::from(0..=1), Idset::from(0..=3), Idset::from(0..=7));
        for (mode, fine) in [
            (Mode::Strict, [false, true, false]),
            (Mode::AllowExtra, [false, true, true]),
            (Mode::AllowMissing, [true, true, false]),
            (Mode::Ignore, [true, true, true]),
        ] {
            let checked = [&fewer, &same, &more].map(|have| mode.check(&set, "a", have).is_ok());
            assert_eq!(checked, fine, "{mode:?}");
            assert!(mode.check(&set, "b", &fewer).is_ok(), "it is another host");
        }
    }
}
