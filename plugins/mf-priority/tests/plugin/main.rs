//! The plugin in virtual time.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod exports;
mod scripts;
mod site;
mod updates;
