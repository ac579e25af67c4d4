//! The manager and its commands change no file or directory that they did not make: they follow no
//! symbolic links, refuse directories that others can change, and replace a file as a whole or not at all.
#![allow(clippy::unwrap_used)]

mod state_directory;
mod written;
