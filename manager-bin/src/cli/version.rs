//! The output of `--version`. A manager that `jobtap build` made prints its own name and version first, under
//! which its site distributes it, then the version of the SDK.

use std::sync::OnceLock;

use crate::build;

/// The version of jobtap that this program is compiled from.
const SDK: &str = env!("CARGO_PKG_VERSION");

/// The program's name.
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

/// The output of `--version` after the name, with the plugins.
pub(super) fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    match build::own() {
        Some(own) => TEXT
            .get_or_init(|| format!("{}\nplugins: see `{} plugin available`", short(), own.name)),
        None => SDK,
    }
}
