//! The processes of jobs after their start: how they are told apart, signaled and reaped, and how the processes
//! that a job left behind are found.

pub(super) mod forks;
pub(super) mod group;
pub(super) mod groups;
pub(super) mod reap;
pub(super) mod signals;
pub(super) mod strays;
pub(super) mod sweep;
pub(super) mod tasks;
pub(super) mod token;
