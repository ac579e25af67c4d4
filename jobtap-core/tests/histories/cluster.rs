//! A second model of the nodes, from their log alone: which nodes may get jobs, and whether a job would fit. It shares
//! no code with the engine or its pool.

use jobtap_core::prelude::*;
use serde_json::Value;

/// The nodes as their log describes them.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    pub(crate) drained: Idset,
    pub(crate) lost: Idset,
    /// From the configuration, not the log.
    pub(crate) excluded: Idset,
    /// Id, ranks, from and to.
    pub(crate) reserved: Vec<(u64, Idset, f64, f64)>,
}

impl Nodes {
    pub(crate) fn from_log(log: &[EventEntry]) -> Self {
        let mut nodes = Self::default();
        for entry in log {
            let field = |key: &str| entry.context.as_ref().and_then(|c| c.get(key));
            let ranks = field("idset").and_then(Value::as_str).unwrap_or_default();
            let ranks: Idset = ranks.parse().unwrap_or_default();
            let id = field("id").and_then(Value::as_u64).unwrap_or(0);
            match &*entry.name {
                "drain" => nodes.drained = nodes.drained.union(&ranks),
                "undrain" => nodes.drained = nodes.drained.difference(&ranks),
                "offline" => nodes.lost = nodes.lost.union(&ranks),
                "online" => nodes.lost = nodes.lost.difference(&ranks),
                "maintenance-add" => {
                    let from = field("from").and_then(Value::as_f64).unwrap();
                    let to = field("to").and_then(Value::as_f64).unwrap_or(f64::INFINITY);
                    nodes.reserved.push((id, ranks, from, to));
                }
                "maintenance-remove" => nodes.reserved.retain(|reserved| reserved.0 != id),
                _ => {}
            }
        }
        nodes
    }

    pub(crate) fn down(&self) -> Idset {
        self.drained.union(&self.lost).union(&self.excluded)
    }

    /// Whether a maintenance reserves the rank at some time between `start` and `end`.
    fn is_reserved(&self, rank: u32, start: f64, end: f64) -> bool {
        let hits = |(_, ranks, from, to): &(u64, Idset, f64, f64)| {
            ranks.contains(rank) && start < *to && end > *from
        };
        self.reserved.iter().any(hits)
    }

    /// Returns an error if a job must not have the resources that were just allocated to it.
    pub(crate) fn check_start(&self, job: &Job) -> Result<(), &'static str> {
        let held = job.resources().ok_or("no R")?;
        if held.ranks().intersects(&self.down()) {
            return Err("started on a node that is down");
        }
        let start = held.starttime().unwrap_or(0.0);
        let end = held.expiration().unwrap_or(f64::INFINITY);
        let reserved = held.ranks().iter().any(|rank| self.is_reserved(rank, start, end));
        if reserved { Err("started into a maintenance") } else { Ok(()) }
    }

    /// The ranks to which the job's constraints bind it.
    pub(crate) fn wanted(spec: &Jobspec) -> Option<Idset> {
        let ranks = spec.constraints()?.pointer("/ranks/0")?.as_str()?;
        Some(ranks.parse().unwrap())
    }

    /// Whether a job would fit into these resources if no other job held any, and every maintenance that has an end
    /// were over.
    pub(crate) fn fits_one_day(&self, spec: &Jobspec, all: &ResourceSet, now: f64) -> bool {
        let endless = self.reserved.iter().filter(|reserved| reserved.3 == f64::INFINITY);
        let endless = Self { reserved: endless.cloned().collect(), ..Self::default() };
        endless.fits(spec, all, now)
    }

    /// Whether a job with one core per task fits into the free resources.
    pub(crate) fn fits(&self, spec: &Jobspec, free: &ResourceSet, now: f64) -> bool {
        let counts = spec.counts();
        let end = if spec.duration() > 0.0 { now + spec.duration() } else { f64::INFINITY };
        let wanted = Self::wanted(spec);
        let usable = |rank: u32| {
            let eligible = wanted.as_ref().is_none_or(|ranks| ranks.contains(rank));
            eligible && !self.is_reserved(rank, now, end)
        };
        let nodes = free.iter().filter(|node| usable(node.rank()));
        let cores = nodes.map(|node| node.cores().len() as u64);
        match counts.nnodes {
            0 => cores.sum::<u64>() >= counts.nslots,
            nnodes => {
                let whole = u64::from(crate::nodes::CORES);
                let need = if counts.exclusive { whole } else { counts.nslots / nnodes };
                let need = need.max(counts.nslots / nnodes);
                cores.filter(|cores| *cores >= need).count() as u64 >= nnodes
            }
        }
    }
}
