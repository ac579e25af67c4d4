//! The adapter's rules, with plugins in a Flux that records what is asked of it.

#![allow(clippy::unwrap_used, clippy::panic)]

mod double;
mod rules;
