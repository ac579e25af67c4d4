//! Manager.

#[allow(dead_code)]
mod cli;
