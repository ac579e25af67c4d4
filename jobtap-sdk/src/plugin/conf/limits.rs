//! Limits as a site configures them: for all jobs in `policy.limits`, and for the jobs of a queue in
//! `queues.NAME.policy.limits`. Each plugin reads its own keys in both tables; the precedence is the
//! same for all of them.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

/// The limits that the instance's configuration sets (RFC 33), where `L` has the keys that the plugin
/// reads.
///
/// For each key, a queue's own limit overrides that of its `parent`, and both override the general one.
/// It is an error when the parent is not configured.
///
/// ```
/// use jobtap_core::prelude::*;
///
/// #[derive(Default, Deserialize)]
/// #[serde(default)]
/// struct Limits {
///     duration: Option<Fsd>,
/// }
///
/// #[derive(Default)]
/// struct Shorter {
///     limits: PolicyLimits<Limits>,
/// }
///
/// #[jobtap_plugin(name = "shorter")]
/// impl Shorter {
///     #[on("conf.update")]
///     fn conf(&mut self, conf: InstanceConf<PolicyLimits<Limits>>) {
///         self.limits = conf.into_inner();
///     }
///
///     #[on("job.validate")]
///     fn validate(&self, jobspec: &Jobspec) -> Result<(), Reject> {
///         let limit = self.limits.find(jobspec.queue(), |limits| limits.duration);
///         match limit.filter(|limit| jobspec.duration() > limit.as_secs()) {
///             Some(limit) => Err(Reject::new(format!("longer than {limit}"))),
///             None => Ok(()),
///         }
///     }
/// }
///
/// # use jobtap_core::testing::{TestJob, TestManager};
/// let config = serde_json::json!({
///     "policy": {"limits": {"duration": "1h"}},
///     "queues": {"day": {}, "night": {"policy": {"limits": {"duration": "12h"}}}},
/// });
/// let mut m = TestManager::new().plugin::<Shorter>().config(config).start();
/// let job = TestJob::new().duration(7200.0);
/// assert_eq!(m.submit(job.clone().queue("day")).unwrap_err(), "longer than 1h");
/// assert!(m.submit(job.queue("night")).is_ok());
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(try_from = "Tables<L>", bound = "L: Default + Deserialize<'de>")]
pub struct PolicyLimits<L> {
    general: L,
    queues: BTreeMap<String, Queue<L>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
struct Queue<L> {
    parent: Option<String>,
    limits: L,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(bound = "L: Default + Deserialize<'de>")]
struct Policy<L> {
    #[serde(default)]
    limits: L,
}

/// The tables as they are configured.
#[derive(Deserialize)]
#[serde(bound = "L: Default + Deserialize<'de>")]
struct Tables<L> {
    #[serde(default)]
    policy: Policy<L>,
    #[serde(default)]
    queues: BTreeMap<String, QueueTable<L>>,
}

#[derive(Deserialize)]
#[serde(bound = "L: Default + Deserialize<'de>")]
struct QueueTable<L> {
    #[serde(default)]
    parent: Option<Value>,
    #[serde(default)]
    policy: Policy<L>,
}

/// Why the parent of a queue can't be used.
#[derive(Debug, thiserror::Error)]
enum ParentError {
    #[error("queues.{queue}: parent queue '{parent}' is not configured")]
    NotConfigured { queue: String, parent: String },
    #[error("queues.{queue}: 'parent' must be a string")]
    NotAString { queue: String },
}

impl<L> TryFrom<Tables<L>> for PolicyLimits<L> {
    type Error = ParentError;

    fn try_from(tables: Tables<L>) -> Result<Self, ParentError> {
        let Tables { policy: Policy { limits: general }, queues } = tables;
        let names: BTreeSet<String> = queues.keys().cloned().collect();
        let read = |(queue, QueueTable { parent, policy }): (String, QueueTable<L>)| {
            let parent = match parent {
                None => None,
                Some(Value::String(parent)) if names.contains(&parent) => Some(parent),
                Some(Value::String(parent)) => {
                    return Err(ParentError::NotConfigured { queue, parent });
                }
                Some(_) => return Err(ParentError::NotAString { queue }),
            };
            Ok((queue, Queue { parent, limits: policy.limits }))
        };
        Ok(Self { general, queues: queues.into_iter().map(read).collect::<Result<_, _>>()? })
    }
}

impl<L> PolicyLimits<L> {
    /// The limit for a job in this queue, or without a queue: the first that `limit` returns for the tables
    /// of the queue, of its parent, and of all jobs. A queue that is not configured has the general limits.
    pub fn find<T>(&self, queue: Option<&str>, limit: impl Fn(&L) -> Option<T>) -> Option<T> {
        let own = queue.and_then(|name| self.queues.get(name));
        let parent = own.and_then(|own| self.queues.get(own.parent.as_ref()?));
        let of_queues = [own, parent].into_iter().flatten().map(|queue| &queue.limits);
        of_queues.chain([&self.general]).find_map(limit)
    }
}
