//! How an allocator writes down its choice: rank by rank, out of a set that knows the hosts,
//! properties and times, so that none of these can be forgotten.

use super::rank_map::{RankMap, RankRun};
use super::{Children, ResourceSet};
use std::ops::RangeInclusive;
use std::sync::Arc;

/// A subset of a [`ResourceSet`] in the making; see [`ResourceSet::select`].
#[derive(Debug)]
pub struct Selection<'a> {
    pool: &'a ResourceSet,
    pieces: Vec<RankRun>,
}

impl<'a> Selection<'a> {
    pub(super) const fn new(pool: &'a ResourceSet) -> Self {
        Self { pool, pieces: Vec::new() }
    }

    /// Chooses ids of one rank; in any order, and several times for one rank if need be.
    pub fn add(&mut self, rank: u32, children: Children) -> &mut Self {
        self.add_ranks(rank..=rank, children)
    }

    /// Chooses the same ids of each of these ranks.
    pub fn add_ranks(&mut self, ranks: RangeInclusive<u32>, children: Children) -> &mut Self {
        let (first, last) = ranks.into_inner();
        if first <= last && !children.is_empty() {
            self.pieces.push(RankRun { first, last, children: Arc::new(children) });
        }
        self
    }

    /// Chooses all that a rank has.
    pub fn add_whole(&mut self, rank: u32) -> &mut Self {
        if let Some(children) = self.pool.map.get(rank) {
            self.pieces.push(RankRun { first: rank, last: rank, children: children.clone() });
        }
        self
    }

    /// The chosen subset, with the slots, times and scheduling of the set it was chosen from. Ids
    /// that this set doesn't have are left out.
    #[must_use]
    pub fn finish(self) -> ResourceSet {
        let chosen = RankMap::of_pieces(self.pieces);
        self.pool.with_map(self.pool.map.intersection(&chosen))
    }
}
