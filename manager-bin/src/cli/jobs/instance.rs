//! The fields `instance.*` of jobs that are managers themselves: the jobs of these managers, and how busy their
//! resources are.

use jobtap_core::resource::ResourceSet;
use serde_json::{Value, json};

use super::fetch::JobSource;
use super::options::{JobsArgs, Setting};
use super::row::JobRow;
use crate::cli::common::format::Template;
use crate::cli::common::resources::resources;
use crate::rpc::services::job_list::{GetStats, Tally};
use crate::rpc::services::resource::{GetSchedStatus, SchedStatus};

/// The attribute of a row with the values of these fields.
pub(super) const INSTANCE: &str = "instance";

/// Requests the fields from the managers among `rows`, if the format or the sort keys name one. A manager that doesn't
/// respond has no values.
pub(super) async fn add_instances<S: JobSource>(
    args: &JobsArgs,
    setting: &Setting,
    template: &Template,
    source: &S,
    rows: &mut [JobRow<'_>],
) {
    let sort = args.sort.as_deref().unwrap_or_default();
    if !template.has_part_of(INSTANCE) && !sort.contains("instance.") {
        return;
    }
    for row in rows {
        // The socket of another user's manager usually refuses the caller.
        let own = args.recurse_all || row.userid() == Some(setting.uid);
        let Some(uri) = row.inner_manager().filter(|_| own).map(str::to_owned) else { continue };
        let Some(inner) = source.inner(&uri, row.ranks()).await else { continue };
        let (stats, sched) = (inner.call(GetStats {}).await, inner.call(GetSchedStatus {}).await);
        if let (Ok(stats), Ok(sched)) = (stats, sched)
            && let Some(values) = values(&stats.all, &sched)
        {
            row.attributes.insert(INSTANCE.to_owned(), values);
        }
    }
}

/// The values of the fields as an object.
fn values(jobs: &Tally, sched: &SchedStatus) -> Option<Value> {
    let set = |key, r| resources(key, r).ok();
    let (all, down) = (set("all", &sched.all)?, set("down", &sched.down)?);
    let allocated = set("allocated", &sched.allocated)?;
    let up = all.difference(&down);
    let free = up.difference(&allocated);
    let counts = |set: &ResourceSet| {
        json!({
            "nnodes": set.nnodes(), "ncores": set.ncores(), "ngpus": set.ngpus(),
            "ranks": set.ranks().to_string(), "nodelist": set.nodelist().to_string(),
        })
    };
    // Null, so that the field is empty, if there are no resources.
    let part = |part: u64, whole: u64| match whole {
        0 => Value::Null,
        whole => json!(part as f64 / whole as f64),
    };
    let used =
        |count: fn(&ResourceSet) -> usize| part(count(&allocated) as u64, count(&all) as u64);
    let states = jobs.job_states;
    Some(json!({
        "stats": stats(jobs),
        "progress": part(states.inactive, states.total),
        "utilization": used(ResourceSet::ncores),
        "gpu_utilization": used(ResourceSet::ngpus),
        "resources": {
            "all": counts(&all),
            "up": counts(&up),
            "down": counts(&down),
            "allocated": counts(&allocated),
            "free": counts(&free),
        },
    }))
}

/// The counts that [`STATS`] names.
fn stats(jobs: &Tally) -> Value {
    let states = jobs.job_states;
    json!({
        "total": states.total,
        "active": states.total.saturating_sub(states.inactive),
        "pending": states.depend + states.priority + states.sched,
        "running": states.run + states.cleanup,
        "depend": states.depend,
        "priority": states.priority,
        "sched": states.sched,
        "run": states.run,
        "cleanup": states.cleanup,
        "inactive": states.inactive,
        "successful": jobs.successful,
        // All jobs that didn't succeed, as in Flux.
        "failed": jobs.failed + jobs.canceled + jobs.timeout,
        "canceled": jobs.canceled,
        "timeout": jobs.timeout,
        "inactive_purged": jobs.inactive_purged,
    })
}

/// The names of the fields below `instance.stats`.
pub(super) const STATS: &[&str] = &[
    "total",
    "active",
    "pending",
    "running",
    "depend",
    "priority",
    "sched",
    "run",
    "cleanup",
    "inactive",
    "successful",
    "failed",
    "canceled",
    "timeout",
    "inactive_purged",
];

/// The field `instance.stats` itself: a short text of the most important counts.
pub(super) fn summary(stats: &Value) -> String {
    let [pending, running, successful, failed] = ["pending", "running", "successful", "failed"]
        .map(|name| stats.get(name).and_then(Value::as_u64).unwrap_or(0));
    format!("PD:{pending} R:{running} CD:{successful} F:{failed}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use jobtap_core::resource::{Children, Hostlist, Idset};

    use super::*;

    #[test]
    fn values_are_counts_and_parts_of_the_whole() {
        let hosts: Hostlist = "n[0-3]".parse().unwrap();
        let all = ResourceSet::uniform(0, &hosts, Children::new(Idset::from(0..=1), Idset::new()));
        let r =
            |ranks: &str| serde_json::from_str(&all.with_ranks(&ranks.parse().unwrap()).to_json());
        let sched = SchedStatus {
            all: r("0-3").unwrap(),
            down: r("3").unwrap(),
            allocated: r("0-1").unwrap(),
        };
        let mut jobs = Tally { failed: 1, timeout: 1, ..Tally::default() };
        jobs.job_states.total = 8;
        jobs.job_states.inactive = 2;
        jobs.job_states.sched = 4;
        jobs.job_states.cleanup = 2;
        let values = values(&jobs, &sched).unwrap();
        let at = |pointer: &str| values.pointer(pointer).unwrap().clone();
        assert_eq!((at("/stats/total"), at("/progress")), (json!(8), json!(0.25)));
        assert_eq!((at("/utilization"), at("/gpu_utilization")), (json!(0.5), Value::Null));
        assert_eq!(summary(&at("/stats")), "PD:4 R:2 CD:0 F:2");
        let names = at("/stats");
        let names: BTreeSet<_> = names.as_object().unwrap().keys().map(String::as_str).collect();
        assert_eq!(names, STATS.iter().copied().collect());
        let up = json!({
            "nnodes": 3, "ncores": 6, "ngpus": 0, "ranks": "0-2", "nodelist": "n[0-2]",
        });
        assert_eq!(at("/resources/up"), up);
        assert_eq!(
            (at("/resources/free/nnodes"), at("/resources/down/ncores")),
            (json!(1), json!(2))
        );
    }
}
