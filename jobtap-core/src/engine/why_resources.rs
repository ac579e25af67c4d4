//! What a job waits for that nobody is ahead of: jobs that must end, nodes that must come back, a
//! maintenance that must be over. Nodes that it couldn't have anyway are not spoken of.

use serde_json::{Value, json};

use super::Engine;
use super::nodes::Reserved;
use super::record::Record;
use super::why::{reason, span};
use crate::job::JobId;
use crate::resource::{Idset, ResourceSet};

/// How many jobs or nodes a reason names.
const NAMED: usize = 8;

/// Who has resources that a job could use.
struct Holder<'a> {
    name: String,
    id: JobId,
    resources: &'a ResourceSet,
    /// UNIX seconds; none when nobody knows.
    until: Option<f64>,
}

impl Engine {
    /// Which jobs must end until there is enough for this one, if no other is started.
    pub(super) fn why_resources(&self, record: &Record) -> Value {
        let spec = &record.job.jobspec;
        let mut free = self.pool.free().clone();
        let of_use = self.pool.usable_ranks(spec, self.now.as_secs());
        let held = self.holding.iter().filter_map(|id| {
            let resources = self.jobs.get(id)?.held()?;
            Some(Holder { name: id.to_string(), id: *id, resources, until: resources.expiration() })
        });
        // What a plugin keeps comes back when nobody knows, but soon.
        let kept = self.keepers().map(|(id, plugin, resources)| {
            let (name, until) = (format!("plugin {plugin} since the end of {id}"), None);
            Holder { name, id, resources, until }
        });
        let mut ending: Vec<Holder<'_>> = held.collect();
        ending.sort_by(|a, b| {
            let end = |holder: &Holder<'_>| holder.until.unwrap_or(f64::INFINITY);
            end(a).total_cmp(&end(b)).then(a.id.cmp(&b.id))
        });
        let mut ending: Vec<Holder<'_>> = kept.chain(ending).collect();
        ending.retain(|holder| holder.resources.ranks().intersects(&of_use));
        let now = self.now.as_secs();
        if self.pool.choose_at(&free, spec, now).is_some() {
            return reason("resources", "there is enough for it; it may not delay those before it");
        }
        let (mut jobs, mut named) = (Vec::new(), Vec::new());
        for Holder { name, id, resources, until } in ending {
            free.union_with(resources);
            jobs.push(id);
            named.push(name);
            if self.pool.choose_at(&free, spec, now).is_some() {
                let more = named.len().saturating_sub(NAMED);
                named.truncate(NAMED);
                let more = if more > 0 { format!(" and {more} more") } else { String::new() };
                let when = match until {
                    Some(until) => format!(", in {} at the latest", span(until, self.now)),
                    None => String::new(),
                };
                let text = format!("its resources are held by {}{more}{when}", named.join(", "));
                return json!({ "kind": "resources", "text": text, "jobs": jobs, "until": until });
            }
        }
        if self.pool.waits_for_maintenance(spec) {
            return self.why_maintenance(record);
        }
        self.why_nodes(record)
    }

    /// Nodes are reserved, and without them there is not enough, whatever ends.
    fn why_maintenance(&self, record: &Record) -> Value {
        let spec = &record.job.jobspec;
        let eligible = self.pool.eligible_ranks(spec);
        let duration = Some(spec.duration()).filter(|duration| *duration > 0.0);
        let (now, duration) = (self.now.as_secs(), duration.unwrap_or(f64::INFINITY));
        let reserved = self.nodes.maintenance(self.now).filter(|reserved| {
            let maintenance = &reserved.maintenance;
            maintenance.concerns(now, duration) && maintenance.ranks.intersects(&eligible)
        });
        let named = reserved.map(|Reserved { maintenance, reason, .. }| {
            let hosts = self.nodes.label(&maintenance.ranks.intersection(&eligible));
            let when = match maintenance.from > now {
                true => format!("in {}", span(maintenance.from, self.now)),
                false => "now".to_owned(),
            };
            let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            format!("{hosts} {when}{why}")
        });
        let named: Vec<String> = named.take(NAMED).collect();
        let text = format!(
            "it could still run when a maintenance begins, so it waits until that is over: {}",
            named.join(", ")
        );
        reason("maintenance", text)
    }

    /// Nodes are drained or lost, and without them there is not enough, whatever ends.
    fn why_nodes(&self, record: &Record) -> Value {
        let spec = &record.job.jobspec;
        let eligible = self.pool.eligible_ranks(spec);
        let down = self.nodes.down().intersection(&eligible);
        if down.is_empty() || self.pool.feasible(spec).is_err() {
            return reason("resources", "there are not enough resources for it at present");
        }
        let mut named: Vec<String> = Vec::new();
        for (ranks, drained) in self.nodes.drained_groups() {
            let ranks = ranks.intersection(&eligible);
            if !ranks.is_empty() {
                let why = drained.reason.as_deref().unwrap_or("no reason given");
                named.push(format!("{} ({why})", self.nodes.label(&ranks)));
            }
        }
        let only_lost = named.is_empty();
        let lost: Idset = self.nodes.offline.difference(&self.nodes.drained_ranks());
        let lost = lost.intersection(&eligible);
        if !lost.is_empty() {
            let label = self.nodes.label(&lost);
            named.push(if only_lost { label } else { format!("{label} (offline)") });
        }
        named.truncate(NAMED);
        // Jobs besides the nodes, where nodes alone would not do.
        let jobs = if self.pool.waits_for_nodes(spec) { "" } else { "jobs to end, and for " };
        let how = if only_lost { "offline" } else { "drained" };
        let text = format!("it waits for {jobs}nodes that are {how}: {}", named.join(", "));
        json!({ "kind": "nodes", "text": text, "ranks": down.to_string() })
    }
}
