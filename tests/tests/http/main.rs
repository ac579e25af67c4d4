//! The services over HTTP: who may do what, what is refused, and how much a client can use.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, clippy::expect_used)]

mod bounds;
mod browser;
mod client;
mod hostile;
mod metrics;
mod openapi;
mod page;
mod requests;
mod settings;
