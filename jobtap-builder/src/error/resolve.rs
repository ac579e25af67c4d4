//! Packages that cargo can't find, and a lock that doesn't fit.

use std::path::PathBuf;

use thiserror::Error;

/// Why the packages of a manager aren't known.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// Cargo's message, if nothing better is known.
    #[error("cargo can't resolve this manager's packages:\n{0}")]
    Cargo(String),
    /// Cargo's message, when it may not use the network.
    #[error(
        "cargo can't resolve this manager's packages:\n{0}\n--offline: not all of them are at hand; build once without it, or once with --vendor DIR and from then on with the same"
    )]
    Offline(String),
    /// The output of `cargo metadata` can't be read.
    #[error("cargo metadata: {0}")]
    Unreadable(#[from] cargo_metadata::Error),
    /// The output of `cargo metadata` lacks what it has for every package.
    #[error("cargo metadata: it doesn't name the packages that the manager depends on")]
    NoGraph,
    /// What the entry of a plugin asks for doesn't exist.
    #[error(
        "plugin {plugin:?}: look at its `name`, `version`, `registry` and `features` in the manifest: cargo can't find what they ask for:\n{cargo}"
    )]
    Plugin {
        /// The plugin.
        plugin: String,
        /// Cargo's message.
        cargo: String,
    },
    /// A registry that nothing defines.
    #[error(
        "plugin {plugin:?}: unknown registry {registry:?}: correct the name, or write its index, {registry} = \"URL\", into [registries] of the manifest"
    )]
    UnknownRegistry {
        /// The plugin.
        plugin: String,
        /// The registry.
        registry: String,
    },
}

/// Why a manager can't be built with its lock unchanged.
#[derive(Debug, Error)]
pub enum LockError {
    /// There is no lock. The path is that of the missing file, if the manifest is a file.
    #[error("there is no {}", .0.as_ref().map_or_else(|| "lock".to_owned(), |file| file.display().to_string()))]
    Missing(Option<PathBuf>),
    /// It lacks packages or has others.
    #[error("the lock does not fit the manifest")]
    Outdated,
}
