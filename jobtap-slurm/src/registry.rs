//! The plugins of a file.

use jobtap_core::host::{PluginDescriptor, Registry, RegistryError};

/// Why the plugins of a file are not those that it was built with.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unknown {
    /// The linker has dropped a plugin, or its crate has another one.
    #[error("plugin {name:?} is not in this file; it has {}: build it anew", list(.has))]
    Missing {
        /// The plugin.
        name: String,
        /// Those that are there.
        has: Vec<&'static str>,
    },
    /// The plugins don't fit together.
    #[error(transparent)]
    Registry(#[from] RegistryError),
}

fn list(names: &[&str]) -> String {
    if names.is_empty() { "no plugins".to_owned() } else { names.join(", ") }
}

/// The plugins of this file by their names, in the order in which they are called: as they declare themselves
/// by `before` and `after`, then as in the list.
///
/// # Errors
/// [`Unknown`], such as for a name that no linked plugin has.
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
