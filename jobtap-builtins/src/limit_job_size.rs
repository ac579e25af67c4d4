//! `.limit-job-size`: the maximum and the minimum of nodes, cores and gpus that jobs may ask for.
//!
//! ```toml
//! [policy.limits.job-size]
//! max.nnodes = 4                   # for all jobs: nnodes, ncores, ngpus; -1: no limit
//! min.ncores = 2
//!
//! [queues.batch.policy.limits.job-size]
//! max.nnodes = -1                  # each key replaces the same general one
//! ```
//!
//! A job that doesn't ask for nodes counts as asking for 0.

use std::collections::BTreeMap;

use jobtap_core::jobspec::Counts;
use jobtap_core::prelude::*;

/// The plugin `.limit-job-size`.
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

/// Limits by the kind of resource; -1 means no limit.
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

/// A kind of resource: its name, and the amount that a job asks for.
type Resource = (&'static str, fn(&Counts) -> u64);

const RESOURCES: [Resource; 3] =
    [("nnodes", |counts| counts.nnodes), ("ncores", Counts::ncores), ("ngpus", Counts::ngpus)];

/// A maximum or a minimum: its place in the configuration, the test for a violation, and the message.
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
                // The counts are derived here, since those of an unvalidated jobspec are 0, which would
                // pass any maximum.
                let asked = count(&Counts::from_jobspec(jobspec.value())?);
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

    /// The manager checks these tables before the plugin does. The plugin's check is for other hosts.
    #[test]
    fn errors_have_the_text_of_flux() {
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
