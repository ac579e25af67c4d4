//! Tests of the adapter's rules, with plugins in a double of Flux that records the calls.

#![allow(clippy::unwrap_used, clippy::panic)]

mod double;
mod requests;
mod rules;
