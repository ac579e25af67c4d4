//! Files of jobs: their own directories, those in the manager's state directory, and those that users name.

pub(super) mod jobdir;
pub(super) mod user_file;
