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

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Sizes {
    nnodes: Option<Size>,
    ncores: Option<Size>,
    ngpus: Option<Size>,
}

/// A limit; none is written as -1.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(try_from = "i64")]
struct Size(Option<u64>);

impl TryFrom<i64> for Size {
    type Error = &'static str;

    fn try_from(size: i64) -> Result<Self, Self::Error> {
        let refused = "size must be -1 (unlimited), or >= 0";
        if size == -1 {
            Ok(Self(None))
        } else {
            size.try_into().map(|size| Self(Some(size))).map_err(|_| refused)
        }
    }
}

/// What is counted: its name, its limit among others, and how much of it a job asks for.
type Resource = (&'static str, fn(&Sizes) -> Option<Size>, fn(&Counts) -> u64);

const RESOURCES: [Resource; 3] = [
    ("nnodes", |sizes| sizes.nnodes, |counts| counts.nnodes),
    ("ncores", |sizes| sizes.ncores, Counts::ncores),
    ("ngpus", |sizes| sizes.ngpus, Counts::ngpus),
];

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
            for (name, size, count) in RESOURCES {
                let limit = self.limits.find(queue, |limits| size(sizes(&limits.job_size)));
                let Some(Size(Some(limit))) = limit else { continue };
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
