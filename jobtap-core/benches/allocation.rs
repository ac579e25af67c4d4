//! What it costs to allocate resources of a large cluster: 10,000 nodes of 64 cores.
//!
//! - `one_core`: a job of one core, on an empty cluster and on one where each node has a different
//!   number of free cores than its neighbors, so that each node is a run of its own.
//! - `all_nodes`: one core of every node.
//! - `r_of_all_nodes`: such an R, written as JSON and parsed again.
//!
//! `cargo bench -p jobtap-core --bench allocation`
#![allow(clippy::unwrap_used, missing_docs)]

use divan::{Bencher, black_box};
use jobtap_core::jobspec::{Jobspec, JobspecBuilder};
use jobtap_core::resource::{Children, Idset, ResourceSet};
use jobtap_core::sched::{Answer, Pool};

const NODES: u32 = 10_000;

fn main() {
    divan::main();
}

fn cluster() -> ResourceSet {
    let node = Children::new(Idset::from(0..=63), Idset::new());
    ResourceSet::uniform(0, &"n[0-9999]".parse().unwrap(), node)
}

/// Returns a pool in which no two neighboring nodes have the same number of free cores.
fn in_pieces() -> Pool {
    let mut pool = Pool::new(&cluster());
    let mut held = pool.all().select();
    for rank in 0..NODES {
        held.add(rank, Children::new(Idset::from(0..=(rank % 60)), Idset::new()));
    }
    let held = held.finish();
    assert!(pool.claim(&held));
    pool
}

fn one_core() -> Jobspec {
    JobspecBuilder::new(["true"]).build().unwrap()
}

fn all_nodes() -> Jobspec {
    JobspecBuilder::new(["true"]).nodes(NODES.into()).ntasks(NODES.into()).build().unwrap()
}

fn granted(pool: &mut Pool, job: &Jobspec) -> ResourceSet {
    match pool.allocate(job, 1.0) {
        Answer::Granted(resources) => resources,
        other => panic!("{other:?}"),
    }
}

fn there_and_back(bencher: Bencher<'_, '_>, mut pool: Pool, job: &Jobspec) {
    bencher.bench_local(|| {
        let resources = granted(&mut pool, black_box(job));
        pool.release(&resources);
    });
}

#[divan::bench]
fn one_core_of_an_empty_cluster(bencher: Bencher<'_, '_>) {
    there_and_back(bencher, Pool::new(&cluster()), &one_core());
}

#[divan::bench]
fn one_core_of_a_cluster_in_pieces(bencher: Bencher<'_, '_>) {
    there_and_back(bencher, in_pieces(), &one_core());
}

#[divan::bench]
fn all_nodes_of_an_empty_cluster(bencher: Bencher<'_, '_>) {
    there_and_back(bencher, Pool::new(&cluster()), &all_nodes());
}

#[divan::bench]
fn all_nodes_of_a_cluster_in_pieces(bencher: Bencher<'_, '_>) {
    there_and_back(bencher, in_pieces(), &all_nodes());
}

#[divan::bench]
fn r_of_all_nodes(bencher: Bencher<'_, '_>) {
    let resources = granted(&mut in_pieces(), &all_nodes());
    bencher.bench_local(|| resources.to_json().parse::<ResourceSet>().unwrap());
}
