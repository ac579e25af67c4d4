//! Chooses resources for a job from the free ones.
//!
//! It works on runs of equal nodes and takes the best run from a heap, so that a small job costs one step
//! per run instead of a sort of all nodes. A cluster of equal free nodes is one run.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::jobspec::Counts;
use crate::resource::{Children, Idset, ResourceSet};

/// Consecutive ranks with equal resources.
#[derive(Debug, Clone, Copy)]
struct Run<'a> {
    first: u32,
    last: u32,
    children: &'a Children,
}

impl<'a> Run<'a> {
    fn all_of(set: &'a ResourceSet) -> impl Iterator<Item = Self> {
        set.runs().map(|(ranks, children)| {
            let (first, last) = ranks.into_inner();
            Self { first, last, children }
        })
    }

    fn len(&self) -> u64 {
        u64::from(self.last - self.first) + 1
    }

    /// The number of slots that fit on each node.
    fn slots(&self, counts: &Counts) -> u64 {
        let fit = |have: usize, need: u64| (have as u64).checked_div(need).unwrap_or(u64::MAX);
        fit(self.children.cores().len(), counts.slot_size)
            .min(fit(self.children.gpus().len(), counts.slot_gpus))
    }

    /// Splits the run after at most `nodes` nodes.
    fn split(self, nodes: u64) -> (Option<Self>, Option<Self>) {
        // A number that doesn't fit is at least the length of the run.
        match u32::try_from(nodes) {
            Ok(0) => (None, Some(self)),
            Ok(nodes) if u64::from(nodes) < self.len() => {
                let next = self.first + nodes;
                let head = Self { last: next - 1, ..self };
                (Some(head), Some(Self { first: next, ..self }))
            }
            _ => (Some(self), None),
        }
    }
}

/// Runs in the order of preference: most cores, then most gpus, then the lowest rank.
struct Candidates<'a> {
    runs: Vec<Run<'a>>,
    order: BinaryHeap<(usize, usize, Reverse<u32>, usize)>,
}

impl<'a> Candidates<'a> {
    fn new(runs: impl Iterator<Item = Run<'a>>) -> Self {
        let runs: Vec<Run<'a>> = runs.collect();
        let key = |(index, run): (usize, &Run<'a>)| {
            let children = run.children;
            (children.cores().len(), children.gpus().len(), Reverse(run.first), index)
        };
        let order = runs.iter().enumerate().map(key).collect();
        Self { runs, order }
    }
}

impl<'a> Iterator for Candidates<'a> {
    type Item = Run<'a>;

    fn next(&mut self) -> Option<Run<'a>> {
        let (.., index) = self.order.pop()?;
        self.runs.get(index).copied()
    }
}

/// The number of slots that must fit on each node.
fn per_node(counts: &Counts) -> u64 {
    counts.nslots.div_ceil(counts.nnodes.max(1))
}

/// Chooses resources from `free`. A node is completely free if it has the same resources in `all`.
pub(super) fn choose(
    free: &ResourceSet,
    all: &ResourceSet,
    counts: &Counts,
) -> Option<ResourceSet> {
    if counts.exclusive {
        let fits = |run: &Run<'_>| run.slots(counts) >= per_node(counts);
        nodes(free, Candidates::new(whole(free, all).into_iter().filter(fits)), counts, |run| {
            Some(run.children.clone())
        })
    } else if counts.nnodes > 0 {
        let slots = per_node(counts);
        let runs = Run::all_of(free).filter(|run| run.slots(counts) >= slots);
        nodes(free, Candidates::new(runs), counts, |run| slots_of(run.children, counts, slots))
    } else {
        slots(free, counts)
    }
}

/// The nodes of `free` that are completely free.
fn whole<'a>(free: &'a ResourceSet, all: &'a ResourceSet) -> Vec<Run<'a>> {
    let mut whole = Vec::new();
    let mut full = Run::all_of(all).peekable();
    for run in Run::all_of(free) {
        while full.next_if(|full| full.last < run.first).is_some() {}
        let mut first = run.first;
        while let Some(over) = full.peek().filter(|full| full.first <= run.last) {
            let part = Run { first: first.max(over.first), last: run.last.min(over.last), ..run };
            if over.children == run.children {
                whole.push(part);
            }
            if over.last >= run.last {
                break;
            }
            first = over.last + 1;
            full.next();
        }
    }
    whole
}

/// Chooses the requested number of nodes, with the same resources on each.
fn nodes<'a>(
    free: &ResourceSet,
    candidates: Candidates<'a>,
    counts: &Counts,
    take: impl Fn(&Run<'a>) -> Option<Children>,
) -> Option<ResourceSet> {
    let mut selection = free.select();
    let mut missing = counts.nnodes;
    for run in candidates {
        let (Some(head), _) = run.split(missing) else { break };
        selection.add_ranks(head.first..=head.last, take(&head)?);
        missing -= head.len();
        if missing == 0 {
            return Some(selection.finish());
        }
    }
    None
}

/// Chooses the requested number of slots: node by node, as many as fit.
fn slots(free: &ResourceSet, counts: &Counts) -> Option<ResourceSet> {
    let mut selection = free.select();
    let mut missing = counts.nslots;
    let fits = |run: &Run<'_>| run.slots(counts) > 0;
    for run in Candidates::new(Run::all_of(free).filter(fits)) {
        let slots = run.slots(counts);
        let (full, rest) = run.split(missing.checked_div(slots).unwrap_or(0));
        if let Some(full) = full {
            let taken = slots_of(full.children, counts, slots)?;
            selection.add_ranks(full.first..=full.last, taken);
            missing -= slots * full.len();
        }
        if let Some(last) = rest.filter(|_| missing > 0) {
            selection.add(last.first, slots_of(last.children, counts, missing)?);
            missing = 0;
        }
        if missing == 0 {
            return Some(selection.finish());
        }
    }
    None
}

/// The lowest ids of a node for this number of slots.
fn slots_of(children: &Children, counts: &Counts, slots: u64) -> Option<Children> {
    let lowest = |ids: &Idset, per_slot: u64| {
        let count = usize::try_from(per_slot.checked_mul(slots)?).ok()?;
        let lowest = ids.lowest(count);
        (lowest.len() == count).then_some(lowest)
    };
    Some(Children::new(
        lowest(children.cores(), counts.slot_size)?,
        lowest(children.gpus(), counts.slot_gpus)?,
    ))
}

/// The nodes that have enough resources for a part of a job.
pub(super) fn with_room(all: &ResourceSet, counts: &Counts) -> Idset {
    let least = if counts.nnodes > 0 { per_node(counts) } else { 1 };
    let mut ranks = Idset::new();
    for run in Run::all_of(all).filter(|run| run.slots(counts) >= least) {
        ranks.insert_range(run.first..=run.last);
    }
    ranks
}

/// What a request needs, and how much of it there is at most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Shortage {
    /// Too few nodes that a job can have to itself.
    #[error("need {needed} exclusive node(s), only {eligible} eligible")]
    ExclusiveNodes {
        /// The number of nodes in the request.
        needed: u64,
        /// The number of nodes that are large enough.
        eligible: u64,
    },
    /// Too few nodes that are large enough.
    #[error("need {needed} node(s) with {cores} cores{} each, only {eligible} eligible", and_gpus(*.gpus))]
    Nodes {
        /// The number of nodes in the request.
        needed: u64,
        /// The number of cores that each must have.
        cores: u64,
        /// The number of gpus that each must have.
        gpus: u64,
        /// The number of nodes that are large enough.
        eligible: u64,
    },
    /// Too few gpus for slots with gpus.
    #[error(
        "need {needed} slot(s) with {gpus} GPU(s) each, only {available} available (total GPUs: {total})"
    )]
    GpuSlots {
        /// The number of slots in the request.
        needed: u64,
        /// The number of gpus of each slot.
        gpus: u64,
        /// The number of such slots on all nodes.
        available: u64,
        /// The number of gpus on all nodes.
        total: usize,
    },
    /// Too few cores for slots without gpus.
    #[error(
        "need {needed} slot(s) of {cores} core(s), only {available} such slot(s) available (total cores: {total})"
    )]
    CoreSlots {
        /// The number of slots in the request.
        needed: u64,
        /// The number of cores of each slot.
        cores: u64,
        /// The number of such slots on all nodes.
        available: u64,
        /// The number of cores on all nodes.
        total: usize,
    },
}

fn and_gpus(gpus: u64) -> String {
    if gpus > 0 { format!(" and {gpus} GPUs") } else { String::new() }
}

/// Why a request can't be satisfied even if all resources are free; `None` if it can.
pub(super) fn shortage(all: &ResourceSet, counts: &Counts) -> Option<Shortage> {
    if choose(all, all, counts).is_some() {
        return None;
    }
    let per_node = per_node(counts);
    let fitting = Run::all_of(all).filter(|run| run.slots(counts) >= per_node);
    let eligible: u64 = fitting.map(|run| run.len()).sum();
    let of_run = |run: Run<'_>| run.slots(counts).saturating_mul(run.len());
    let slots = Run::all_of(all).map(of_run).fold(0, u64::saturating_add);
    let (cores, gpus) = (counts.slot_size, counts.slot_gpus);
    Some(if counts.exclusive {
        Shortage::ExclusiveNodes { needed: counts.nnodes, eligible }
    } else if counts.nnodes > 0 {
        let (cores, gpus) = (cores * per_node, gpus * per_node);
        Shortage::Nodes { needed: counts.nnodes, cores, gpus, eligible }
    } else if gpus > 0 {
        let total = all.ngpus();
        Shortage::GpuSlots { needed: counts.nslots, gpus, available: slots, total }
    } else {
        let total = all.ncores();
        Shortage::CoreSlots { needed: counts.nslots, cores, available: slots, total }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::jobspec::{Jobspec, JobspecBuilder};
    use crate::resource::RankResources;

    /// The documented choice, made node by node and core by core.
    fn one_by_one(free: &ResourceSet, all: &ResourceSet, counts: &Counts) -> Option<ResourceSet> {
        let mut order: Vec<RankResources<'_>> = free.iter().collect();
        order.sort_by_key(|node| {
            (Reverse(node.cores().len()), Reverse(node.gpus().len()), node.rank())
        });
        let on = |node: &RankResources<'_>| {
            let gpus = (node.gpus().len() as u64).checked_div(counts.slot_gpus);
            (node.cores().len() as u64 / counts.slot_size).min(gpus.unwrap_or(u64::MAX))
        };
        let part = |node: &RankResources<'_>, slots: u64| {
            Children::new(
                node.cores().lowest((slots * counts.slot_size) as usize),
                node.gpus().lowest((slots * counts.slot_gpus) as usize),
            )
        };
        let mut chosen = free.select();
        if counts.nnodes == 0 {
            let mut left = counts.nslots;
            for node in order {
                let here = on(&node).min(left);
                chosen.add(node.rank(), part(&node, here));
                left -= here;
            }
            return (left == 0).then(|| chosen.finish());
        }
        let slots = counts.nslots.div_ceil(counts.nnodes);
        order.retain(|node| {
            let full = all.rank(node.rank()).unwrap().children() == node.children();
            on(node) >= slots && (full || !counts.exclusive)
        });
        if (order.len() as u64) < counts.nnodes {
            return None;
        }
        for node in order.iter().take(counts.nnodes as usize) {
            let all = counts.exclusive;
            chosen.add(node.rank(), if all { node.children().clone() } else { part(node, slots) });
        }
        Some(chosen.finish())
    }

    fn job() -> impl Strategy<Value = Jobspec> {
        (0u64..4, 1u64..9, 1u64..4, 0u64..3, any::<bool>()).prop_map(
            |(nodes, tasks, cores, gpus, exclusive)| {
                let mut builder = JobspecBuilder::new(["true"])
                    .ntasks(tasks.max(nodes))
                    .cores_per_task(cores)
                    .gpus_per_task(gpus);
                if nodes > 0 {
                    builder = builder.nodes(nodes).exclusive(exclusive);
                }
                builder.build().unwrap()
            },
        )
    }

    proptest! {
        #[test]
        fn agrees_with_the_choice_node_by_node(
            nodes in prop::collection::vec((1u32..6, 0u32..4), 1..8),
            taken in prop::collection::vec((0u32..8, 0u32..6), 0..10),
            job in job(),
        ) {
            let mut all = ResourceSet::new();
            for (rank, (cores, gpus)) in (0..).zip(nodes) {
                let gpus = gpus.checked_sub(1).map(|last| Idset::from(0..=last));
                let cores = Idset::from(0..=cores - 1);
                all.insert(rank..=rank, Children::new(cores, gpus.unwrap_or_default()));
            }
            let mut free = all.clone();
            for (rank, core) in taken {
                let mut one = ResourceSet::new();
                one.insert(rank..=rank, Children::new(Idset::from(core), Idset::from(core)));
                free.subtract(&one);
            }
            let counts = job.counts();
            prop_assert_eq!(choose(&free, &all, &counts), one_by_one(&free, &all, &counts));
            prop_assert_eq!(shortage(&all, &counts).is_none(), choose(&all, &all, &counts).is_some());
        }
    }
}
