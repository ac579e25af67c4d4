//! What is wrong with a manifest by itself.

use jobtap_core::host::HostKind;
use jobtap_daemon::composition::Host;
use thiserror::Error;

/// What is wrong with a manifest by itself.
#[derive(Debug, Error)]
pub enum ManifestError {
    /// It can't be read.
    #[error("{place}:{line}: {fault}")]
    Syntax {
        /// The file.
        place: String,
        /// Line, from 1.
        line: usize,
        /// What is wrong there.
        fault: SyntaxFault,
    },
    /// A name that no crate can have here.
    #[error("{}: {name:?} {fault}", named.place(name))]
    Name {
        /// What has the name.
        named: Named,
        /// The name.
        name: String,
        /// Why.
        fault: NameFault,
    },
    /// The version of the manager.
    #[error("[manager]: version {version:?}: {reason}; write three numbers, as in \"1.0.0\"")]
    Version {
        /// What was written.
        version: String,
        /// Why it can't be read as a version.
        reason: semver::Error,
    },
    /// Builtins are both named and left out.
    #[error(
        "[manager]: `builtins` names all that are linked, `without` those that are not: use one of the two"
    )]
    BuiltinsTwice,
    /// A file for another host is to be linked statically.
    #[error(
        "[manager]: {0} loads a shared library, which can't be linked statically: leave `static` out"
    )]
    Static(HostKind),
    /// A file for another host is to be built without parts of the manager.
    #[error("[manager]: {0} loads plugins only: leave `without-parts` out")]
    Parts(HostKind),
    /// A file for another host is to have a configuration.
    #[error(
        "`config`: in {} plugins are configured in {}: write it there",
        .0.kind(),
        configuration_of(*.0)
    )]
    Config(Host),
    /// A registry with a name that cargo or the generated crate uses for something else.
    #[error(
        "[registries]: {0:?} can't be a registry's name here: letters, digits, - and _, not crates-io nor directory-.."
    )]
    RegistryName(String),
    /// A registry without a URL.
    #[error(
        "[registries]: {registry}: {index:?} is no index: write its URL, as in \"sparse+https://crates.site.example/\""
    )]
    RegistryIndex {
        /// Its name.
        registry: String,
        /// What was written for its index.
        index: String,
    },
    /// A plugin that has the manager's name.
    #[error("plugin {0:?}: the manager has the same name: write another one in [manager]")]
    ManagersName(String),
    /// A plugin with two entries.
    #[error("plugin {0:?} is there twice: keep one [[plugin]] of it")]
    Twice(String),
    /// A plugin that is to come from several places.
    #[error(
        "plugin {0:?}: `path`, `directory` and `registry` each say where it comes from: keep one"
    )]
    ManySources(String),
    /// A plugin that comes from nowhere.
    #[error(
        "plugin {0:?}: where does it come from? Give its `path`, or a `version` to take from a registry or a `directory`"
    )]
    NoSource(String),
    /// The version requirement of a plugin.
    #[error("plugin {plugin:?}: version {version:?}: {reason}")]
    PluginVersion {
        /// The plugin.
        plugin: String,
        /// What was written.
        version: String,
        /// Why it can't be read as a version.
        reason: semver::Error,
    },
    /// Its configuration has values that TOML can't express.
    #[error(transparent)]
    Unwritable(#[from] toml::ser::Error),
}

/// Why a text is no manifest.
#[derive(Debug, Error)]
pub enum SyntaxFault {
    /// `plugin` is a table, for which the parser's own message doesn't mention the brackets.
    #[error("[plugin] is one plugin, and there may be more: write [[plugin]]")]
    SingleBrackets,
    /// It is no TOML, or has an unknown key or a wrong value.
    #[error("{}", .0.message())]
    Toml(Box<toml::de::Error>),
}

/// What has a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Named {
    /// The manager.
    Manager,
    /// A plugin's crate.
    Plugin,
    /// A crate that `jobtap new` is to make.
    NewCrate,
}

impl Named {
    fn place(self, name: &str) -> String {
        match self {
            Self::Manager => "[manager]".to_owned(),
            Self::Plugin => format!("plugin {name:?}"),
            Self::NewCrate => "the new crate".to_owned(),
        }
    }
}

/// Why a crate can't have a name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum NameFault {
    /// A crate of the SDK has it.
    #[error("is a crate of the SDK")]
    OfTheSdk,
    /// Cargo doesn't allow it.
    #[error("is no crate's name: a letter, then letters, digits, - and _")]
    Malformed,
    /// Rust has it as a keyword.
    #[error("is a keyword of Rust, and the manager's code names its crates")]
    Keyword,
    /// Commands take it for every plugin.
    #[error("means every plugin, so none can have it as its name")]
    EveryPlugin,
}

/// Where the plugins in a host are configured.
fn configuration_of(host: Host) -> &'static str {
    match host {
        Host::Flux => "`conf=` of `flux jobtap load`, or [job-manager] of Flux's configuration",
        Host::SlurmJobSubmit | Host::SlurmPrep => "jobtap.toml beside slurm.conf",
    }
}
