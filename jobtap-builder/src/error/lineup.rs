//! Plugins that can't be combined, or can't be ordered.

use std::fmt;

use thiserror::Error;

/// What a crate registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A plugin.
    Plugin,
    /// A scheduler.
    Scheduler,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Plugin => "plugin",
            Self::Scheduler => "scheduler",
        })
    }
}

/// Why plugins can't be in one manager.
#[derive(Debug, Error)]
pub enum LineupError {
    /// A crate that isn't among the packages.
    #[error("plugin {0:?}: cargo does not know it")]
    Unknown(String),
    /// A crate without plugins.
    #[error(
        "plugin {0:?}: the crate has no plugin: no #[jobtap_plugin] and no scheduler! in its library; take it out of the manifest, or add one"
    )]
    NoPlugin(String),
    /// A crate whose plugins are all left out.
    #[error(
        "plugin {crate_name:?}: its plugins {} need features that are off: add features = [{}]",
        plugins.join(", "),
        features.iter().map(|feature| format!("{feature:?}")).collect::<Vec<_>>().join(", ")
    )]
    FeaturesOff {
        /// The crate.
        crate_name: String,
        /// Its plugins.
        plugins: Vec<String>,
        /// The features that they need.
        features: Vec<String>,
    },
    /// Two plugins, or two schedulers, of one name.
    #[error(
        "two {kind}s are named {name:?}: one of crate {first}, one of crate {second}: leave one of the two out, or rename one"
    )]
    SameName {
        /// What they are.
        kind: Kind,
        /// Their name.
        name: String,
        /// The crate of the first one.
        first: String,
        /// The crate of the second one.
        second: String,
    },
    /// An order that names a plugin that isn't there.
    #[error(
        "plugin {plugin:?}: `before` or `after` names {name:?}, and this manager has no such plugin; {}",
        meant.as_ref().map_or_else(
            || "leave it out, or add the plugin".to_owned(),
            |meant| format!("did you mean {meant:?}?")
        )
    )]
    UnknownOrder {
        /// The plugin's crate.
        plugin: String,
        /// The name.
        name: String,
        /// A plugin with a similar name.
        meant: Option<String>,
    },
    /// Orders that contradict each other; the plugins.
    #[error(
        "the plugins {} are each declared to come before another one of them: drop one `before` or `after`, of the manifest or of #[jobtap_plugin]",
        .0.join(", ")
    )]
    Cycle(Vec<String>),
    /// A configuration for one plugin, in the entry of a crate with several.
    #[error(
        "plugin {crate_name:?}: `config` needs a crate with one plugin, and this one has {}: write [config.plugins.NAME]",
        plugins.join(", ")
    )]
    ManyForConfig {
        /// The crate.
        crate_name: String,
        /// Its plugins.
        plugins: Vec<String>,
    },
}
