//! The plugins of this binary, checked against the manifest that it was built from.

use std::sync::OnceLock;

use jobtap_core::host::{Registry, RegistryError};
use serde_json::Value;

/// The crate that every plugin needs.
pub(crate) const SDK: &str = "jobtap-core";

/// The part of a manifest of `jobtap build` that names, checks and configures the running manager.
#[derive(Debug, Clone, PartialEq)]
pub struct MadeOf {
    /// The binary's name.
    pub name: String,
    /// The binary's version.
    pub version: String,
    /// The crates whose plugins and schedulers it may have, besides those of the SDK.
    pub crates: Vec<String>,
    /// Its plugins in the order in which they are called.
    pub order: Vec<String>,
    /// The plugins that it must have.
    pub required: Vec<String>,
    /// The schedulers that it must have.
    pub schedulers: Vec<String>,
    /// The configuration from its manifest, which the site's files override.
    pub config: Value,
}

impl MadeOf {
    /// Checks that all required plugins and schedulers are linked, and that each linked one is from a crate of the
    /// manifest.
    ///
    /// # Errors
    /// [`Difference`].
    pub fn compare(
        &self,
        present: &[(&str, &str)],
        schedulers: &[(&str, &str)],
    ) -> Result<(), Difference> {
        let required = &self.required;
        let plugins = ("plugin", present, required, "#[jobtap_plugin]");
        let schedulers = ("scheduler", schedulers, &self.schedulers, "scheduler!");
        for (what, present, required, by) in [plugins, schedulers] {
            let has = |name: &str| present.iter().any(|(other, _)| *other == name);
            if let Some(missing) = required.iter().find(|name| !has(name)) {
                return Err(Difference::Missing { what, name: missing.clone(), by });
            }
            // The SDK has schedulers of its own.
            let asked = |owner: &str| owner == SDK || self.crates.iter().any(|name| name == owner);
            if let Some((name, owner)) = present.iter().find(|(_, owner)| !asked(owner)) {
                let (name, owner) = ((*name).to_owned(), (*owner).to_owned());
                return Err(Difference::Unasked { what, name, owner });
            }
        }
        let called: Vec<String> = present
            .iter()
            .map(|(name, _)| (*name).to_owned())
            .filter(|name| required.contains(name))
            .collect();
        match called == *required {
            true => Ok(()),
            false => Err(Difference::Order { called, required: required.clone() }),
        }
    }
}

/// A difference between what is linked and what the binary was built from.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Difference {
    /// A plugin or a scheduler isn't linked.
    #[error(
        "{what} {name:?} is in the manifest and is not linked: its crate must register it in its library with {by}; \
         build again, or remove the crate from the manifest"
    )]
    Missing {
        /// `plugin` or `scheduler`.
        what: &'static str,
        /// Its name.
        name: String,
        /// The macro that registers it.
        by: &'static str,
    },
    /// A plugin or a scheduler is from a crate that isn't in the manifest.
    #[error(
        "{what} {name:?} of crate {owner} is linked and is not in the manifest: another plugin depends on its crate; \
         add the crate to the manifest, or remove the plugin that needs it"
    )]
    Unasked {
        /// `plugin` or `scheduler`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Its crate.
        owner: String,
    },
    /// The plugins are called in another order.
    #[error(
        "its plugins are called in the order {}, and not {}: build it again",
        called.join(", "),
        required.join(", ")
    )]
    Order {
        /// The order in which they are called.
        called: Vec<String>,
        /// The order that the manifest asks for.
        required: Vec<String>,
    },
}

/// Why a binary's plugins can't be used.
#[derive(Debug, thiserror::Error)]
pub enum LinkedError {
    /// Their orders contradict each other.
    #[error(transparent)]
    Registry(#[from] RegistryError),
    /// They differ from those that the binary was built from.
    #[error("this manager is not what it was built to be: {0}")]
    Differs(#[from] Difference),
}

static OWN: OnceLock<MadeOf> = OnceLock::new();

/// Declares what this process was built from, before anything asks for its plugins.
pub fn declare(made_of: MadeOf) {
    // Called once; a second call would be ignored.
    let _ = OWN.set(made_of);
}

/// Returns what this process was built from, if `jobtap build` built it.
pub(crate) fn own() -> Option<&'static MadeOf> {
    OWN.get()
}

/// Returns the linked plugins in their order. A binary from `jobtap build` must have those that it was built
/// from: without a plugin that the linker dropped, its policy wouldn't be enforced.
///
/// # Errors
/// [`LinkedError`].
pub fn registry() -> Result<Registry, LinkedError> {
    let Some(own) = own() else {
        return Ok(Registry::linked()?);
    };
    let registry = Registry::linked_in(&own.order)?;
    let present: Vec<(&str, &str)> =
        registry.plugins().map(|plugin| (plugin.name, plugin.crate_name)).collect();
    let schedulers: Vec<(&str, &str)> =
        registry.schedulers().map(|scheduler| (scheduler.name, scheduler.crate_name)).collect();
    own.compare(&present, &schedulers)?;
    Ok(registry)
}

/// Returns the configuration that this binary was built with, which the site's files override.
pub fn default_config() -> Value {
    let own = own().map(|own| own.config.clone());
    own.filter(Value::is_object).unwrap_or_else(|| serde_json::json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linked_plugins_are_those_of_the_manifest() {
        let own = "deadline";
        let made_of = MadeOf {
            name: "site".into(),
            version: "1.0.0".into(),
            crates: vec![own.into()],
            order: vec![".priority-default".into(), "a".into(), "b".into()],
            required: vec!["a".into(), "b".into()],
            schedulers: vec!["shortest".into()],
            config: Value::Null,
        };
        let told = |present: &[(&str, &str)], schedulers: &[(&str, &str)]| {
            made_of.compare(present, schedulers).err().map(|difference| difference.to_string())
        };
        let (both, one) = ([("a", own), ("made-by-macro", own), ("b", own)], [("shortest", own)]);
        assert_eq!(told(&both, &one), None);
        let text = told(&[("a", own)], &one).unwrap_or_default();
        assert!(text.starts_with("plugin \"b\" is in the manifest and is not linked"), "{text}");
        let text = told(&[("a", own), ("b", own), ("c", "other")], &one).unwrap_or_default();
        assert!(text.starts_with("plugin \"c\" of crate other is linked"), "{text}");
        let text = told(&[("b", own), ("a", own)], &one).unwrap_or_default();
        assert!(text.contains("in the order b, a, and not a, b"), "{text}");
        let text = told(&both, &[]).unwrap_or_default();
        assert!(text.starts_with("scheduler \"shortest\" is in the manifest"), "{text}");
        let text = told(&both, &[one[0], ("easy", SDK), ("longest", "other")]).unwrap_or_default();
        assert!(text.starts_with("scheduler \"longest\" of crate other is linked"), "{text}");
    }
}
