//! Values that pass between a plugin and its host, and that authors name too.

pub(crate) mod allocation;
pub(crate) mod event_name;
pub(crate) mod exception;
pub(crate) mod perilog;
pub(crate) mod prep;
pub(crate) mod service;
pub(crate) mod slurm;
pub(crate) mod update;
