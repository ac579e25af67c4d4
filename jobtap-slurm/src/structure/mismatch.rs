//! A structure of the daemon's that isn't laid out as this file was built for.

use crate::installed::Version;

/// Members of the daemon's structure aren't where the headers say: it must not be read.
///
/// The daemon compares only the version that a file was built for with its own. Headers and source of one version can
/// still be of a Slurm that was built from other sources, or with patches of the site.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the daemon's {structure} isn't laid out as in the source of Slurm {version} that this file was built from, at \
     {member:?}: build it again with the source from which your daemons were built"
)]
pub struct Mismatch {
    /// The structure in C.
    pub structure: &'static str,
    /// The member that was found not to be there.
    pub member: &'static str,
    /// The version of the headers.
    pub version: Version,
}
