//! The plugins of this binary, checked against the manifest that it was built from.

use jobtap_core::host::{Registry, RegistryError};
use serde_json::Value;

use crate::composition::{self, Composition};

/// The crate that every plugin needs.
pub(crate) const SDK: &str = "jobtap-core";

/// Checks that all plugins and schedulers that a composition requires are linked, and that each linked one is from one
/// of its crates.
///
/// # Errors
/// [`Difference`].
pub fn compare(
    composition: &Composition,
    present: &[(&str, &str)],
    schedulers: &[(&str, &str)],
) -> Result<(), Difference> {
    let required = &composition.required;
    let plugins = ("plugin", present, required, "#[jobtap_plugin]");
    let schedulers = ("scheduler", schedulers, &composition.schedulers, "scheduler!");
    for (what, present, required, by) in [plugins, schedulers] {
        let has = |name: &str| present.iter().any(|(other, _)| *other == name);
        if let Some(missing) = required.iter().find(|name| !has(name)) {
            return Err(Difference::Missing { what, name: missing.clone(), by });
        }
        // The SDK has schedulers of its own.
        let asked = |owner: &str| owner == SDK || composition.crate_info(owner).is_some();
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

/// Returns the linked plugins in their order. A binary from `jobtap build` must have those that it was built
/// from: without a plugin that the linker dropped, its policy wouldn't be enforced.
///
/// # Errors
/// [`LinkedError`].
pub fn registry() -> Result<Registry, LinkedError> {
    let Some(own) = composition::own() else {
        return Ok(Registry::linked()?);
    };
    let registry = Registry::linked_in(&own.order)?;
    let present: Vec<(&str, &str)> =
        registry.plugins().map(|plugin| (plugin.name, plugin.crate_name)).collect();
    let schedulers: Vec<(&str, &str)> =
        registry.schedulers().map(|scheduler| (scheduler.name, scheduler.crate_name)).collect();
    compare(own, &present, &schedulers)?;
    Ok(registry)
}

/// Returns the configuration that this binary was built with, which the site's files override.
pub fn default_config() -> Value {
    let own = composition::own().map(|own| own.config.clone());
    own.filter(Value::is_object).unwrap_or_else(|| serde_json::json!({}))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::composition::CrateInfo;

    #[test]
    fn linked_plugins_are_those_of_the_manifest() {
        let own = "deadline";
        let composition = Composition {
            crates: vec![CrateInfo { name: own.into(), ..CrateInfo::default() }],
            order: vec![".priority-default".into(), "a".into(), "b".into()],
            required: vec!["a".into(), "b".into()],
            schedulers: vec!["shortest".into()],
            ..Composition::default()
        };
        let told = |present: &[(&str, &str)], schedulers: &[(&str, &str)]| {
            compare(&composition, present, schedulers)
                .err()
                .map(|difference| difference.to_string())
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
