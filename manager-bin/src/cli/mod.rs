//! The commands: a file per command, and what several of them share.

mod format;
