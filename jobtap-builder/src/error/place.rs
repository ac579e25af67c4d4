//! Files and directories that can't be used for what was asked.

use std::path::PathBuf;

use jobtap_core::host::HostKind;
use thiserror::Error;

/// A file or directory that can't be used for what was asked.
#[derive(Debug, Error)]
pub enum PlaceError {
    /// The directory of a new crate exists.
    #[error("{} is there already: choose another name, or move it away", .0.display())]
    Taken(PathBuf),
    /// A file that is to be recovered exists.
    #[error("{} is there already: name another file with -f", .0.display())]
    NotRecovered(PathBuf),
    /// The output is to be in a directory that doesn't exist.
    #[error("{}: there is no directory {}: make it first", output.display(), directory.display())]
    NoDirectory {
        /// The output.
        output: PathBuf,
        /// The directory.
        directory: PathBuf,
    },
    /// The host wouldn't find the output by its name.
    #[error(
        "{}: {host} finds its plugins by their files' names: name it {form}",
        output.display()
    )]
    NotFoundByHost {
        /// The output.
        output: PathBuf,
        /// The host.
        host: HostKind,
        /// The form of the names that it finds.
        form: String,
    },
    /// The host would find other plugins by the output's name than those in it.
    #[error(
        "{}: the file of plugins that are named {name:?} is {file}: name one after the other",
        output.display()
    )]
    OtherName {
        /// The output.
        output: PathBuf,
        /// The name of the plugins.
        name: String,
        /// The file's name that fits it.
        file: String,
    },
    /// No variable of the environment says where compiled crates can be kept.
    #[error("no place for compiled crates: set JOBTAP_BUILD_CACHE to a directory")]
    NoCache,
    /// A directory with files of others.
    #[error(
        "{} is not empty, and `jobtap build` did not make what is in it: name a new or an empty directory",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// A file of others where a link is to be.
    #[error("{} is in the way of a link: remove it", .0.display())]
    InTheWay(PathBuf),
    /// A directory for the sources of crates, with other files in it.
    #[error(
        "--vendor {}: it is not empty, and no build filled it: name a new or an empty directory",
        .0.display()
    )]
    NoVendor(PathBuf),
    /// The file that cargo has written into a directory with the sources of crates is no TOML.
    #[error("{}: {reason}", file.display())]
    VendorConfig {
        /// The file.
        file: PathBuf,
        /// Why.
        reason: Box<toml::de::Error>,
    },
}
