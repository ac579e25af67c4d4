//! Input that can't be trusted costs a bounded amount of memory and time, reaches no job of another user
//! and no terminal, and is refused with one clear message.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod bad_input;
mod clients;
mod guests;
mod text;
mod too_large;
mod users;
