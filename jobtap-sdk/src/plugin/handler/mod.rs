//! Handlers: what one may take as parameters, what it may return, and how it fails.

pub(super) mod asyncs;
pub(super) mod failure;
pub(super) mod outcome;
pub(super) mod params;
pub(super) mod prep;
pub(super) mod service;
pub(super) mod slurm;
pub(super) mod update;
