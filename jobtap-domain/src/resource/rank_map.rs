//! The ids of each rank, as runs of ranks with equal children.
//!
//! A cluster of equal nodes is one run, and an operation with a one-node set touches one run, however
//! large the cluster is.

use super::{Children, Idset, splice};
use rustc_hash::FxHashMap;
use smallvec::{SmallVec, smallvec};
use std::sync::Arc;

/// Consecutive ranks with equal, non-empty children.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct RankRun {
    pub(super) first: u32,
    pub(super) last: u32,
    /// Shared, because runs are cut and copied far more often than children change.
    pub(super) children: Arc<Children>,
}

/// Ranks with their children: ascending, disjoint, maximal runs. Most jobs have one run, which needs no
/// allocation.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RankMap {
    pub(super) runs: SmallVec<[RankRun; 1]>,
}

/// The children of a rank in one of the sets that are combined.
type Side<'a> = Option<&'a Arc<Children>>;

impl RankMap {
    /// Equal children on all of `ranks`.
    pub(super) fn uniform(ranks: &Idset, children: Children) -> Self {
        let children = Arc::new(children);
        let mut map = Self::default();
        for range in ranks.ranges() {
            map.push(*range.start(), *range.end(), children.clone());
        }
        map
    }

    /// Merges pieces that come in any order and may overlap.
    pub(super) fn of_pieces(mut pieces: Vec<RankRun>) -> Self {
        pieces.sort_by_key(|piece| piece.first);
        let mut map = Self::default();
        for piece in pieces {
            if map.runs.last().is_some_and(|last| piece.first <= last.last) {
                map.add(&Self { runs: smallvec![piece] });
            } else {
                map.push(piece.first, piece.last, piece.children);
            }
        }
        map
    }

    /// Appends ranks above all others; empty children add nothing.
    pub(super) fn push(&mut self, first: u32, last: u32, children: Arc<Children>) {
        if children.is_empty() {
            return;
        }
        match self.runs.last_mut() {
            Some(tail) if tail.last.checked_add(1) == Some(first) && tail.children == children => {
                tail.last = last;
            }
            _ => self.runs.push(RankRun { first, last, children }),
        }
    }

    pub(super) fn ranks(&self) -> Idset {
        let mut ranks = Idset::new();
        for run in &self.runs {
            ranks.push_run(run.first, run.last);
        }
        ranks
    }

    pub(super) fn get(&self, rank: u32) -> Option<&Arc<Children>> {
        let at = self.runs.partition_point(|run| run.last < rank);
        self.runs.get(at).filter(|run| run.first <= rank).map(|run| &run.children)
    }

    /// Sums `count` over all ranks.
    pub(super) fn total(&self, count: impl Fn(&Children) -> usize) -> usize {
        self.runs.iter().fold(0usize, |sum, run| {
            let ranks = (run.last - run.first) as usize + 1;
            sum.saturating_add(ranks.saturating_mul(count(&run.children)))
        })
    }

    /// The distinct children with all ranks that have them, ordered by first rank.
    pub(super) fn groups(&self) -> Vec<(Idset, &Children)> {
        // Most jobs have one run, so there is nothing to compare.
        if let [run] = &*self.runs {
            return vec![(Idset::from(run.first..=run.last), &run.children)];
        }
        let mut groups: Vec<(Idset, &Children)> = Vec::new();
        let mut index: FxHashMap<&Children, usize> = FxHashMap::default();
        for run in &self.runs {
            let at = *index.entry(&run.children).or_insert(groups.len());
            match groups.get_mut(at) {
                Some((ranks, _)) => ranks.push_run(run.first, run.last),
                None => groups.push((Idset::from(run.first..=run.last), &run.children)),
            }
        }
        groups
    }

    /// Adds the ids of `other`.
    pub(super) fn add(&mut self, other: &Self) {
        self.edit(other, |mine, theirs| match (mine, theirs) {
            (Some(a), Some(b)) if b.is_subset(a) => Some(a.clone()),
            (Some(a), Some(b)) => Some(Arc::new(a.union(b))),
            (side, None) | (None, side) => side.cloned(),
        });
    }

    /// Removes the ids of `other`.
    pub(super) fn subtract(&mut self, other: &Self) {
        self.edit(other, |mine, theirs| match (mine?, theirs) {
            (a, Some(b)) if a == b => None,
            (a, Some(b)) => Some(Arc::new(a.difference(b))),
            (a, None) => Some(a.clone()),
        });
    }

    pub(super) fn intersection(&self, other: &Self) -> Self {
        let mine = other.span().map(|(first, last)| self.window(first, last));
        let theirs = self.span().map(|(first, last)| other.window(first, last));
        let (Some(mine), Some(theirs)) = (mine, theirs) else {
            return Self::default();
        };
        combine(mine, theirs, |mine, theirs| {
            let (a, b) = (mine?, theirs?);
            Some(if a == b { a.clone() } else { Arc::new(a.intersection(b)) })
        })
    }

    /// The part of the map on `ranks`.
    pub(super) fn restricted(&self, ranks: &Idset) -> Self {
        let mut kept = Self::default();
        for range in ranks.ranges() {
            let (first, last) = range.into_inner();
            for run in self.window(first, last) {
                kept.push(run.first.max(first), run.last.min(last), run.children.clone());
            }
        }
        kept
    }

    fn span(&self) -> Option<(u32, u32)> {
        Some((self.runs.first()?.first, self.runs.last()?.last))
    }

    /// The runs with a rank in `first..=last`.
    fn window(&self, first: u32, last: u32) -> &[RankRun] {
        let from = self.runs.partition_point(|run| run.last < first);
        let to = self.runs.partition_point(|run| run.first <= last);
        self.runs.get(from..to).unwrap_or_default()
    }

    /// Applies `rule` to the ranks of either map. Ranks outside of `other`'s span stay as they are.
    fn edit(
        &mut self,
        other: &Self,
        rule: impl for<'s> Fn(Side<'s>, Side<'s>) -> Option<Arc<Children>>,
    ) {
        let Some((first, last)) = other.span() else {
            return;
        };
        // One more rank on both sides, so that neighbors that become equal are joined.
        let (first, last) = (first.saturating_sub(1), last.saturating_add(1));
        let from = self.runs.partition_point(|run| run.last < first);
        let to = self.runs.partition_point(|run| run.first <= last);
        let window = self.runs.get(from..to).unwrap_or_default();
        let edited = combine(window, &other.runs, rule);
        splice(&mut self.runs, from..to, edited.runs);
    }
}

/// Walks two lists of runs side by side and calls `rule` for each range of ranks on which both are
/// constant.
fn combine(
    left: &[RankRun],
    right: &[RankRun],
    rule: impl for<'s> Fn(Side<'s>, Side<'s>) -> Option<Arc<Children>>,
) -> RankMap {
    let mut combined = RankMap::default();
    let (mut left, mut right) = (Cursor::new(left), Cursor::new(right));
    while let Some(first) = left.start().into_iter().chain(right.start()).min() {
        let last = left.end_from(first).min(right.end_from(first));
        if let Some(children) = rule(left.at(first), right.at(first)) {
            combined.push(first, last, children);
        }
        left.skip_to(last);
        right.skip_to(last);
    }
    combined
}

/// The part of a list of runs that has not been combined yet.
struct Cursor<'a> {
    runs: &'a [RankRun],
    /// Ranks up to this one are done.
    done: Option<u32>,
}

impl<'a> Cursor<'a> {
    fn new(runs: &'a [RankRun]) -> Self {
        Self { runs, done: None }
    }

    /// The next rank.
    fn start(&self) -> Option<u32> {
        let run = self.runs.first()?;
        Some(self.done.map_or(run.first, |done| run.first.max(done + 1)))
    }

    /// The last rank up to which the children are the same as at `rank`.
    fn end_from(&self, rank: u32) -> u32 {
        match (self.runs.first(), self.start()) {
            (Some(run), Some(start)) if start <= rank => run.last,
            (_, Some(start)) => start - 1,
            _ => u32::MAX,
        }
    }

    fn at(&self, rank: u32) -> Side<'a> {
        let run = self.runs.first()?;
        (self.start()? <= rank).then_some(&run.children)
    }

    fn skip_to(&mut self, last: u32) {
        if let Some((run, rest)) = self.runs.split_first()
            && run.last <= last
        {
            self.runs = rest;
        }
        self.done = Some(last);
    }
}
