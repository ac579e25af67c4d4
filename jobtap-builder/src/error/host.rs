//! Plugins that need more than their host offers.

use std::fmt;
use std::path::PathBuf;

use jobtap_core::host::HostKind;
use thiserror::Error;

/// Why a host can't run the plugins of a file.
#[derive(Debug, Error)]
pub enum HostError {
    /// The manifest names no plugins.
    #[error(
        "{0}: there is no plugin to build: name a crate with --with NAME=PATH or in the manifest"
    )]
    NoPlugin(HostKind),
    /// Plugins that need what the host doesn't serve.
    #[error("{}", .0.iter().map(Unserved::to_string).collect::<Vec<_>>().join("\n"))]
    Unserved(Vec<Unserved>),
}

/// Code whose needs a host doesn't serve.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unserved {
    /// The code.
    pub whose: Whose,
    /// The host.
    pub host: HostKind,
    /// What it needs: first what it is called for, then what it calls.
    pub gaps: Vec<Gap>,
}

impl fmt::Display for Unserved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} can't run in {}:", self.whose, self.host)?;
        self.gaps.iter().try_for_each(|gap| write!(f, "\n  {gap}"))
    }
}

/// Code of a plugin's crate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whose {
    /// The block of a plugin.
    Plugin(String),
    /// The functions of a crate outside of its plugins' blocks.
    Functions(String),
}

impl fmt::Display for Whose {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plugin(name) => write!(f, "plugin {name:?}"),
            Self::Functions(crate_name) => write!(f, "the functions of crate {crate_name:?}"),
        }
    }
}

/// A need that a host doesn't serve, with its place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// The source file, as its author knows it.
    pub file: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// What is needed, and the function that needs it.
    pub what: String,
    /// Why the host doesn't serve it.
    pub why: &'static str,
}

impl fmt::Display for Gap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}: {}", self.file.display(), self.line, self.what, self.why)
    }
}
