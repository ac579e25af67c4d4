//! Why the resources in the configuration are unusable.

use std::io;
use std::path::PathBuf;

use jobtap_core::plugin::ConfError;
use jobtap_core::resource::{self, HostlistError, IdsetError};
use serde_json::Value;

/// Why the resources are unusable.
#[derive(Debug, thiserror::Error)]
pub enum ResourceError {
    /// A key of `[resource]` has a value of a wrong type.
    #[error("[resource]: {0}")]
    Table(serde_json::Error),
    /// `[resource] config` is no array.
    #[error("[resource]: resource config must be an array")]
    NoArray,
    /// The entries of `[[resource.config]]` name no host.
    #[error("[resource]: no hosts configured")]
    NoHosts,
    /// A host has neither cores nor GPUs.
    #[error("[resource]: resource.config: {0} assigned no resources")]
    NoChildren(String),
    /// An entry of `[[resource.config]]`.
    #[error("[resource]: config entry {number}: {fault}")]
    Entry {
        /// Its number, from 1.
        number: usize,
        /// What is wrong with it.
        fault: EntryFault,
    },
    /// The table `resource.verify` has an unknown key, or a value that it can't have.
    #[error("[resource]: verify: {0}")]
    VerifyTable(ConfError),
    /// `resource.verify` is of another type.
    #[error("[resource]: verify: must be true, false or a table, not {0}")]
    Verify(Value),
    /// The name of a host can't be in a hostlist.
    #[error("[resource]: {0}")]
    HostName(#[from] HostlistError),
    /// The resources don't fit together, or their expiration can't be set.
    #[error("[resource]: {0}")]
    Set(#[from] resource::ResourceError),
    /// The table of made-up nodes.
    #[error("[fake-resources]: {0}")]
    Fake(#[from] FakeFault),
    /// The cores that are configured for this host differ from those that it has.
    #[error(
        "[[resource.config]]: {host} has the cores {have}, not {want} (noverify = true accepts them unseen)"
    )]
    Differs {
        /// The host.
        host: String,
        /// Cores found.
        have: String,
        /// Cores configured.
        want: String,
    },
    /// The file with R cannot be used.
    #[error("resource.path: {}: {fault}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        fault: FileFault,
    },
    /// `--test-hosts` does not agree with `--test-size`.
    #[error("{0}")]
    TestHosts(&'static str),
    /// The system does not say which cores there are.
    #[error("can't find out this host's cores: {0}")]
    Discovery(io::Error),
    /// The system says in an unknown form which cores are online.
    #[error("can't find out this host's cores: {file}: {error}")]
    Online {
        /// The file that says so.
        file: &'static str,
        /// What is wrong with its content.
        error: IdsetError,
    },
}

/// What is wrong with an entry of `[[resource.config]]`.
#[derive(Debug, thiserror::Error)]
pub enum EntryFault {
    /// An unknown key, or a value of a wrong type.
    #[error(transparent)]
    Keys(#[from] serde_json::Error),
    /// `hosts` is no list of hosts.
    #[error("hosts = \"{text}\": {reason}")]
    Hosts {
        /// The value.
        text: String,
        /// Why not.
        reason: HostlistError,
    },
    /// `cores` or `gpus` is no set of ids.
    #[error("{key} = \"{text}\": {reason}")]
    Ids {
        /// The key.
        key: &'static str,
        /// The value.
        text: String,
        /// Why not.
        reason: IdsetError,
    },
    /// There are more hosts than ranks.
    #[error("too many hosts")]
    TooManyHosts,
}

/// What is wrong with the file with R.
#[derive(Debug, thiserror::Error)]
pub enum FileFault {
    /// It can't be read.
    #[error(transparent)]
    Read(#[from] io::Error),
    /// It is not R.
    #[error(transparent)]
    Set(#[from] resource::ResourceError),
    /// There is nothing in it.
    #[error("R has no resources")]
    Empty,
}

/// What is wrong with the table `[fake-resources]`.
#[derive(Debug, thiserror::Error)]
pub enum FakeFault {
    /// An unknown key, or a value of a wrong type.
    #[error("{0}")]
    Table(ConfError),
    /// A number is too small or too large.
    #[error("{key}: {value} is not from {least} to {most}")]
    Range {
        /// The key.
        key: &'static str,
        /// The value.
        value: u32,
        /// The least value.
        least: u32,
        /// The greatest value.
        most: u32,
    },
    /// The prefix doesn't make names of hosts.
    #[error("host-prefix: {names}: {error}")]
    HostPrefix {
        /// The names that it would make.
        names: String,
        /// Why not.
        error: HostlistError,
    },
    /// This key of `[resource]` says which resources there are, too.
    #[error("resource.{0} says which resources there are, too: remove one of them")]
    OtherKey(&'static str),
}
