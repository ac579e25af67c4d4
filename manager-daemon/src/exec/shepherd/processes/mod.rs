//! The processes of jobs after their start: how they are told apart, signalled and reaped, and how what a job left
//! behind is found.

pub(super) mod group;
pub(super) mod groups;
pub(super) mod reap;
pub(super) mod sweep;
pub(super) mod token;
