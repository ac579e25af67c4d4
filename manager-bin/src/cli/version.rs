//! The output of `--version`. A manager that `jobtap build` has made prints its own name and version, then
//! the version of the SDK.

use std::sync::OnceLock;

use crate::build;

/// The version of jobtap with which this program is compiled.
const SDK: &str = env!("CARGO_PKG_VERSION");

/// The name of the program.
pub(super) fn name() -> &'static str {
    build::own().map_or("jobtap", |own| own.name.as_str())
}

/// The output of `-V` after the name.
pub(super) fn short() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    match build::own() {
        Some(own) => TEXT.get_or_init(|| format!("{} (jobtap {SDK})", own.version)),
        None => SDK,
    }
}

/// The output of `--version` after the name, which refers to the list of plugins.
pub(super) fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    match build::own() {
        Some(own) => TEXT
            .get_or_init(|| format!("{}\nplugins: see `{} plugin available`", short(), own.name)),
        None => SDK,
    }
}
