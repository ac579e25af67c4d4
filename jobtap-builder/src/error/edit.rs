//! Why a manifest can't be changed as asked.

use thiserror::Error;

use super::did_you_mean;

/// Why a manifest can't be changed as asked.
#[derive(Debug, Error)]
pub enum EditError {
    /// The plugin that is to be added is there.
    #[error("plugin {0:?} is in the manifest: change its entry there, or remove it first")]
    Present(String),
    /// The plugin that is to be removed isn't there.
    #[error("the manifest has no plugin {name:?}{}", did_you_mean(meant.as_ref()))]
    Absent {
        /// Its name.
        name: String,
        /// A plugin with a similar name.
        meant: Option<String>,
    },
    /// The builtin that is to be left out is left out.
    #[error("builtin {0:?} is left out already")]
    LeftOut(String),
    /// The builtin that is to be included isn't left out.
    #[error("the manifest leaves out no builtin {name:?}{}", did_you_mean(meant.as_ref()))]
    NotLeftOut {
        /// Its name.
        name: String,
        /// A similar name that is left out.
        meant: Option<String>,
    },
    /// The plugins are an array of inline tables.
    #[error("the manifest has its plugins in one line: write [[plugin]] for each")]
    InOneLine,
    /// The table of the manager has no lists.
    #[error("[manager] is no table with lists of builtins")]
    NoLists,
    /// The text is no TOML.
    #[error(transparent)]
    Toml(#[from] toml_edit::TomlError),
    /// The entry can't be written as TOML.
    #[error(transparent)]
    Unwritable(#[from] toml::ser::Error),
}
