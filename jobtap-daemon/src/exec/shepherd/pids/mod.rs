//! Processes by their ids: the tasks of a job and the groups that they leave, the signals that they get, and the token
//! that says whose job a process belongs to.

pub(super) mod group;
pub(super) mod signals;
pub(super) mod tasks;
pub(super) mod token;
