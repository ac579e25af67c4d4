//! The commands about the manager itself, its configuration, its attributes and its store: a file for each.

pub(super) mod attr;
pub(super) mod audit;
pub(super) mod config;
pub(super) mod dmesg;
pub(super) mod env;
pub(super) mod fsck;
pub(super) mod licenses;
pub(super) mod logger;
pub(super) mod module;
pub(super) mod openapi;
pub(super) mod shutdown;
pub(super) mod uptime;
pub(super) mod uri;
pub(super) mod version;
