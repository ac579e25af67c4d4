//! An instance of several nodes, which a launcher has started: jobs across them, and nodes that fail.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

mod campaign;
mod exec;
mod failures;
mod jobs;
mod launchers;
mod nested;
mod start;

/// The lines of a text, sorted: nodes print in any order.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}
