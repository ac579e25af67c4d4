//! What the shepherd does about the processes of jobs after their start: how it signals and reaps them, and how it finds
//! those that a job left behind.

pub(super) mod forks;
pub(super) mod groups;
pub(super) mod reap;
pub(super) mod strays;
pub(super) mod sweep;
