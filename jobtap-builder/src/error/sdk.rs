//! The SDK that can't be used, and plugins that need another one.

use std::fmt;
use std::path::PathBuf;

use semver::{Version, VersionReq};
use thiserror::Error;

/// An SDK as messages name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SdkName {
    /// Its version.
    pub version: Version,
    /// Its checkout; `None` is the one that this program carries.
    pub checkout: Option<PathBuf>,
}

impl fmt::Display for SdkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.checkout {
            None => write!(f, "the SDK {} of this program", self.version),
            Some(root) => write!(f, "the SDK {} of {}", self.version, root.display()),
        }
    }
}

/// Why an SDK can't be used, alone or with a plugin.
#[derive(Debug, Error)]
pub enum SdkError {
    /// A directory without one.
    #[error(
        "{}: no SDK of jobtap: it has no {package}/Cargo.toml; name the root of a checkout",
        path.display()
    )]
    NoSdk {
        /// The directory.
        path: PathBuf,
        /// A package that it lacks.
        package: &'static str,
    },
    /// The manifest of its workspace doesn't have its version.
    #[error("{}: no workspace.package.version", .0.display())]
    NoVersion(PathBuf),
    /// The manifest of its workspace is no TOML.
    #[error("Cargo.toml of the SDK: {0}")]
    Workspace(toml_edit::TomlError),
    /// The copy that this program carries can't be unpacked.
    #[error("the SDK in this program is damaged: use --sdk PATH")]
    Damaged,
    /// This program carries no copy.
    #[error(
        "this program was built from a published package, which carries no SDK: use --sdk PATH, the root of a checkout"
    )]
    NotCarried,
    /// A plugin that requires another version.
    #[error(
        "plugin {plugin:?} needs jobtap-core {wanted}, and {sdk} is another: take a version of the plugin for {}, or build with --sdk and a checkout of jobtap that fits {wanted}",
        sdk.version
    )]
    OtherVersion {
        /// The plugin.
        plugin: String,
        /// What it requires.
        wanted: VersionReq,
        /// The SDK of the manager.
        sdk: Box<SdkName>,
    },
    /// A plugin that takes its SDK from another directory.
    #[error(
        "plugin {plugin:?} takes jobtap-core from {}, and the manager would have a second one, {sdk}: write jobtap-core = \"{}\" in the plugin's Cargo.toml, or build with --sdk {}",
        theirs.display(),
        sdk.version,
        theirs.parent().unwrap_or(theirs).display()
    )]
    OtherPath {
        /// The plugin.
        plugin: String,
        /// The crate of its SDK.
        theirs: PathBuf,
        /// The SDK of the manager.
        sdk: Box<SdkName>,
    },
    /// A package for which cargo finds no fitting SDK.
    #[error(
        "{by} needs another jobtap-core than {sdk} is: take a version of it for {}, or build with --sdk and a checkout of jobtap that fits; cargo says:\n{cargo}",
        sdk.version
    )]
    NoneFits {
        /// The package.
        by: String,
        /// The SDK of the manager.
        sdk: Box<SdkName>,
        /// Cargo's message.
        cargo: String,
    },
    /// Packages that bring a second SDK.
    #[error(
        "two SDKs: {} brings {package} {version} from {source_of}, beside {sdk}: take a version of it for {}, or build with --sdk and the SDK that it needs",
        by.join(", "),
        sdk.version
    )]
    Two {
        /// The packages.
        by: Vec<String>,
        /// The second SDK's package.
        package: &'static str,
        /// Its version.
        version: Version,
        /// Where it comes from.
        source_of: String,
        /// The SDK of the manager.
        sdk: Box<SdkName>,
    },
}
