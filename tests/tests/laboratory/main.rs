//! The policy laboratory: policies tried on traces, on recorded jobs, and beside the live ones.
#![allow(clippy::unwrap_used)]

mod accounting;
mod replay;
mod shadow;
mod simulate;
