//! The plugins that are linked into a file.

use jobtap_core::host::{PluginDescriptor, Registry, RegistryError};

/// Why the plugins of a file aren't those that it was built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The linker has dropped a plugin, or its crate defines a plugin with another name.
    #[error("plugin {name:?} is not in this file; it has {}: build it anew", list(.has))]
    Missing {
        /// The name of the missing plugin.
        name: String,
        /// The plugins that the file contains.
        has: Vec<&'static str>,
    },
    /// The plugins can't be combined.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "no plugins".to_owned() } else { names.join(", ") }
}

/// Returns the plugins of this file with these names, in the order in which they are called: first as their `before`
/// and `after` require, then as in the list.
///
/// # Errors
/// [`Unknown`], for example if no linked plugin has one of the names.
pub fn linked(names: &[&str]) -> Result<Vec<&'static PluginDescriptor>, Unknown> {
    let sequence: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    chosen(&Registry::linked_in(&sequence)?, names)
}

fn chosen(registry: &Registry, names: &[&str]) -> Result<Vec<&'static PluginDescriptor>, Unknown> {
    for name in names {
        if registry.find(name).is_none() {
            let has = registry.plugins().map(|plugin| plugin.name).collect();
            return Err(Unknown::Missing { name: (*name).to_owned(), has });
        }
    }
    Ok(registry.plugins().filter(|plugin| names.contains(&plugin.name)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plugin_that_is_not_linked_is_named() {
        let error = linked(&["limits"]).unwrap_err().to_string();
        assert!(error.starts_with("plugin \"limits\" is not in this file; it has "), "{error}");
    }
}
