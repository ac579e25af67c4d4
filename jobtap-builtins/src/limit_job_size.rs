//! `.limit-job-size`: how many nodes, cores and gpus a job may ask for, and how many it must.
//!
//! ```toml
//! [policy.limits.job-size]
//! max.nnodes = 4                   # of all jobs: nnodes, ncores, ngpus; -1 is no limit
//! min.ncores = 2
//!
//! [queues.batch.policy.limits.job-size]
//! max.nnodes = -1                  # each key for itself in the place of the general one
//! ```
//!
//! A job that doesn't ask for nodes asks for 0 of them.

use std::collections::BTreeMap;

use jobtap_core::jobspec::Counts;
use jobtap_core::prelude::*;

/// See the module.
#[derive(Debug, Default)]
pub struct LimitJobSize {
    limits: PolicyLimits<Limits>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "kebab-case")]
struct Limits {
    job_size: JobSize,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct JobSize {
    max: Sizes,
    min: Sizes,
}

/// Limits by what is counted; -1 is none.
#[derive(Debug, Default, Deserialize)]
#[serde(try_from = "BTreeMap<String, i64>")]
struct Sizes(BTreeMap<String, i64>);

impl TryFrom<BTreeMap<String, i64>> for Sizes {
    type Error = &'static str;

    fn try_from(sizes: BTreeMap<String, i64>) -> Result<Self, Self::Error> {
        match sizes.values().all(|size| *size >= -1) {
            true => Ok(Self(sizes)),
            false => Err("size must be -1 (unlimited), or >= 0"),
        }
    }
}

/// What is counted: its name, and how much of it a job asks for.
type Resource = (&'static str, fn(&Counts) -> u64);

const RESOURCES: [Resource; 3] =
    [("nnodes", |counts| counts.nnodes), ("ncores", Counts::ncores), ("ngpus", Counts::ngpus)];

/// One of the two kinds of limits: where it stands, when it is violated, and what is said then.
type Kind = (fn(&JobSize) -> &Sizes, fn(&u64, &u64) -> bool, &'static str);

const KINDS: [Kind; 2] =
    [(|size| &size.max, u64::gt, "exceeds"), (|size| &size.min, u64::lt, "is under")];

#[jobtap_plugin(name = ".limit-job-size", after = [".priority-default"])]
impl LimitJobSize {
    #[on("conf.update")]
    fn conf(&mut self, conf: InstanceConf<PolicyLimits<Limits>>) {
        self.limits = conf.into_inner();
    }

    #[on("job.validate")]
    fn validate(&self, jobspec: &Jobspec) -> Result<(), Reject> {
        let queue = jobspec.queue();
        for (sizes, violates, how) in KINDS {
            for (name, count) in RESOURCES {
                let limit =
                    self.limits.find(queue, |limits| sizes(&limits.job_size).0.get(name).copied());
                let Some(Ok(limit)) = limit.map(u64::try_from) else { continue };
                // Counted here, since what was never validated must not pass as a job of no size.
                let asked = count(&Counts::of(jobspec.value())?);
                if violates(&asked, &limit) {
                    let whose =
                        queue.map(|queue| format!(" for queue {queue}")).unwrap_or_default();
                    return Err(Reject::new(format!(
                        "requested {name} ({asked}) {how} policy limit of {limit}{whose}"
                    )));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::plugin::ConfTable as _;
    use serde_json::{Value, json};

    use super::*;

    fn refused(conf: Value) -> String {
        PolicyLimits::<Limits>::read_among_others(&conf).unwrap_err().text().to_owned()
    }

    /// The manager's own check of these tables comes first; this one is for hosts without it.
    #[test]
    fn mistakes_are_told_in_flux_s_words() {
        for kind in ["max", "min"] {
            let of = |sizes: Value| json!({"policy": {"limits": {"job-size": {kind: sizes}}}});
            let place = format!("policy.limits.job-size.{kind}");
            let negative = format!("{place}: size must be -1 (unlimited), or >= 0");
            for resource in ["nnodes", "ncores", "ngpus"] {
                assert_eq!(refused(of(json!({resource: -2}))), negative);
                assert_eq!(
                    refused(of(json!({resource: "many"}))),
                    format!("{place}.{resource}: invalid type: string \"many\", expected i64")
                );
            }
            let of_queue = json!({"queues": {"q": of(json!({"ngpus": -9}))}});
            assert_eq!(refused(of_queue), format!("queues.q.{negative}"));
            assert_eq!(
                refused(of(json!([4]))),
                format!("{place}: invalid type: array, expected a table")
            );
        }
    }
}
