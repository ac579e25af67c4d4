//! Crates that don't compile. The compiler's own messages are printed when they come.

use std::fmt;

use thiserror::Error;

/// What is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Product {
    /// A manager.
    Manager,
    /// A library for another host.
    Library,
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Manager => "the manager",
            Self::Library => "the library",
        })
    }
}

/// Why nothing was compiled.
#[derive(Debug, Error)]
pub enum CompileError {
    /// Cargo has ended unexpectedly.
    #[error("cargo ended without a message")]
    NoMessage,
    /// Cargo has failed before it compiled anything.
    #[error("{0} was not built: cargo's own message is above")]
    Cargo(Product),
    /// Crates with errors.
    #[error("{}", .0.iter().map(CrateErrors::to_string).collect::<Vec<_>>().join("\n"))]
    Crates(Vec<CrateErrors>),
    /// Cargo can't remove what was compiled from other sources; its message.
    #[error("cargo can't remove what it has compiled from other sources:\n{0}")]
    NotRemoved(String),
}

/// The errors of one crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CrateErrors {
    /// The crate.
    pub culprit: Culprit,
    /// How many errors it has.
    pub count: u32,
}

/// A crate that doesn't compile.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Culprit {
    /// The crate of a plugin.
    Plugin {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// Where it comes from.
        place: String,
    },
    /// A crate that plugins need.
    Dependency {
        /// Its name.
        name: String,
        /// Its version.
        version: String,
        /// The plugins that depend on it directly.
        users: Vec<String>,
    },
    /// The generated crate, which links the others.
    Linking(Product),
    /// A package that cargo hasn't named before, by its id.
    Unknown(String),
}

impl fmt::Display for CrateErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.culprit {
            Culprit::Plugin { name, version, place } => {
                write!(f, "plugin {name:?} {version} ({place}) does not compile")?;
            }
            Culprit::Dependency { name, version, users } if users.is_empty() => {
                write!(f, "crate {name} {version} does not compile")?;
            }
            Culprit::Dependency { name, version, users } => {
                let users: Vec<String> = users.iter().map(|user| format!("{user:?}")).collect();
                let users = users.join(", ");
                write!(f, "crate {name} {version}, which plugin {users} needs, does not compile")?;
            }
            Culprit::Linking(product) => write!(f, "linking {product} failed")?,
            Culprit::Unknown(id) => f.write_str(id)?,
        }
        let plural = if self.count == 1 { "error" } else { "errors" };
        write!(f, ": {} {plural}, above", self.count)
    }
}
