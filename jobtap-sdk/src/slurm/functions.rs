//! The functions that scripts know as `slurm.NAME`, with the releases that have them.

use super::release::{Release, Releases};

/// A function of the table `slurm`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Function {
    /// The name.
    pub name: &'static str,
    /// The releases of Slurm whose scripts know it.
    pub releases: Releases,
}

const fn always(name: &'static str) -> Function {
    Function { name, releases: Releases::ALL }
}

const fn since(release: Release, name: &'static str) -> Function {
    Function { name, releases: Releases::since(release) }
}

/// The functions that scripts know as `slurm.NAME`.
pub const FUNCTIONS: &[Function] = &[
    always("error"),
    since(Release::V26_05, "from_json"),
    since(Release::V26_05, "from_yaml"),
    since(Release::V24_11, "get_qos_priority"),
    always("log"),
    always("log_debug"),
    always("log_debug2"),
    always("log_debug3"),
    always("log_debug4"),
    always("log_error"),
    always("log_info"),
    always("log_user"),
    always("log_verbose"),
    always("time_str2mins"),
    since(Release::V26_05, "to_json"),
    since(Release::V26_05, "to_yaml"),
    always("user_msg"),
];
