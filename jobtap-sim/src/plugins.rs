//! The plugins of the manager: builtins, and some that misbehave as their jobs ask for.

use jobtap_builtins as _;
use jobtap_core::host::{Registry, RegistryError};
use jobtap_core::plugin::Plugin;

use crate::hostile::{Hostile, Second, Slow};
use crate::profile::{Kind, Profile};
use crate::prolog::OnNodes;

/// The builtins that each manager has.
const BUILTINS: [&str; 10] = [
    ".priority-default",
    ".dependency-after",
    ".dependency-singleton",
    ".begin-time",
    ".validate-duration",
    ".update-duration",
    ".history",
    ".limit-job-size",
    ".limit-duration",
    ".post-event",
];

/// The plugins that can be loaded again, and removed.
pub const LOADABLE: [&str; 3] = ["hostile", "slow", "second"];

/// The plugins of a run.
///
/// # Errors
/// Two of them contradict each other.
pub fn registry(profile: &Profile) -> Result<Registry, RegistryError> {
    let linked = Registry::linked()?;
    let mut builder = Registry::builder();
    builder = builder.plugins(BUILTINS.into_iter().filter_map(|name| linked.find(name)));
    if !profile.is_local() {
        builder = builder.plugin(OnNodes::DESCRIPTOR);
    }
    if profile.has(Kind::Plugins) {
        builder = builder.plugin(Hostile::DESCRIPTOR).plugin(Slow::DESCRIPTOR);
        builder = builder.plugin(Second::DESCRIPTOR);
    }
    builder.build()
}
