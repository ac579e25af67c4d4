//! Nodes: drained, lost, reserved; what becomes of jobs, and what a restart keeps.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use jobtap_core::engine::{DrainMode, NodeRequest};
use jobtap_core::prelude::*;
use jobtap_core::resource::{Children, Idset};
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

/// Four nodes of two cores.
fn cluster() -> ResourceSet {
    let node = Children::new(Idset::from(0..=1), Idset::new());
    ResourceSet::uniform(0, &"n[0-3]".parse().unwrap(), node)
}

fn manager() -> TestManager {
    TestManager::builder().resources(cluster()).build().unwrap()
}

/// A job of whole nodes.
fn job(nodes: u64) -> TestJob {
    TestJob::new().nodes(nodes).exclusive()
}
