//! Contradictions between the manifest, the SDK and the plugins' crates.

use std::path::PathBuf;

use thiserror::Error;

use super::sdk::SdkName;

/// What the manifest asks for and doesn't exist.
#[derive(Debug, Error)]
pub enum PlanError {
    /// A builtin that is compiled together with others.
    #[error("builtin {0} can't be left out: it is compiled with the others")]
    Inseparable(String),
    /// A name that no builtin has.
    #[error("{name:?} is no builtin of {sdk}; {}", advice(meant.as_ref(), known))]
    NoBuiltin {
        /// The name.
        name: String,
        /// The SDK.
        sdk: Box<SdkName>,
        /// A builtin with a similar name.
        meant: Option<String>,
        /// All builtins.
        known: Vec<String>,
    },
    /// A path without a crate.
    #[error(
        "plugin {plugin:?}: no crate at {}: {reason}; `path` is the directory of its Cargo.toml",
        path.display()
    )]
    NoCrate {
        /// The plugin.
        plugin: String,
        /// The path.
        path: PathBuf,
        /// The system's error.
        reason: std::io::Error,
    },
    /// A crate whose manifest is no TOML.
    #[error("plugin {plugin:?}: {}: {reason}", file.display())]
    Toml {
        /// The plugin.
        plugin: String,
        /// The crate's manifest.
        file: PathBuf,
        /// Why.
        reason: Box<toml::de::Error>,
    },
    /// A crate that was taken out of its workspace.
    #[error(
        "plugin {0:?}: its Cargo.toml takes values from a workspace that it is not in: name the crate at its place in the workspace, or write the values into its Cargo.toml"
    )]
    NoWorkspace(String),
    /// A crate with another name than the entry.
    #[error(
        "plugin {plugin:?}: the crate at {} is named {name:?}: write name = {name:?}",
        path.display()
    )]
    OtherName {
        /// The plugin.
        plugin: String,
        /// The path.
        path: PathBuf,
        /// The crate's name.
        name: String,
    },
    /// A workspace without a package of its own.
    #[error("plugin {plugin:?}: {} is no package: name a crate, not a workspace", file.display())]
    NoPackage {
        /// The plugin.
        plugin: String,
        /// The workspace's manifest.
        file: PathBuf,
    },
    /// A directory of crates without this one.
    #[error(
        "plugin {plugin:?}: {} has no crate {plugin} of version {version}: `directory` is one that `cargo vendor` made",
        directory.display()
    )]
    NotInDirectory {
        /// The plugin.
        plugin: String,
        /// The directory.
        directory: PathBuf,
        /// The version that is required.
        version: String,
    },
}

fn advice(meant: Option<&String>, known: &[String]) -> String {
    match meant {
        Some(meant) => format!("did you mean {meant:?}?"),
        None => format!("it has {}", known.join(", ")),
    }
}
