//! The configuration of `limits`.

use std::collections::BTreeMap;
use std::fmt;

use jobtap_core::prelude::*;

/// The user, bank or queue whose jobs are counted together.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Scope {
    User(Uid),
    Bank(String),
    Queue(String),
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Scope::User(user) => write!(f, "user {user}"),
            Scope::Bank(bank) => write!(f, "bank {bank}"),
            Scope::Queue(queue) => write!(f, "queue {queue}"),
        }
    }
}

impl Scope {
    /// The scopes of a job.
    pub(super) fn all_for_job(job: JobRef<'_>) -> impl Iterator<Item = Scope> {
        let bank = job.jobspec().attribute("bank").and_then(|bank| bank.as_str());
        let queue = job.jobspec().queue().map(|queue| Scope::Queue(queue.to_owned()));
        let bank = bank.map(|bank| Scope::Bank(bank.to_owned()));
        [Scope::User(job.userid())].into_iter().chain(bank).chain(queue)
    }
}

/// The maximum of each at a time; -1 means no limit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct Limit {
    /// Jobs with resources.
    running: Option<i64>,
    /// Jobs without resources yet.
    pending: Option<i64>,
    /// Jobs accepted within the last hour.
    submitted_per_hour: Option<i64>,
    /// Nodes of the jobs with resources.
    nodes: Option<i64>,
}

impl Limit {
    pub(super) fn running(&self) -> Option<u64> {
        bound(self.running)
    }

    pub(super) fn pending(&self) -> Option<u64> {
        bound(self.pending)
    }

    pub(super) fn submitted_per_hour(&self) -> Option<u64> {
        bound(self.submitted_per_hour)
    }

    pub(super) fn nodes(&self) -> Option<u64> {
        bound(self.nodes)
    }

    /// These limits, with unset ones taken from `general`.
    fn or(self, general: &Limit) -> Limit {
        Limit {
            running: self.running.or(general.running),
            pending: self.pending.or(general.pending),
            submitted_per_hour: self.submitted_per_hour.or(general.submitted_per_hour),
            nodes: self.nodes.or(general.nodes),
        }
    }

    fn check(&self, place: &str) -> Result<(), ConfError> {
        let values = [self.running, self.pending, self.submitted_per_hour, self.nodes];
        match values.into_iter().flatten().find(|value| *value < -1) {
            None => Ok(()),
            Some(value) => Err(ConfError::new(format!(
                "[plugins.limits]: {place}: {value} is no limit: use -1 for none, or 0 and more"
            ))),
        }
    }
}

fn bound(value: Option<i64>) -> Option<u64> {
    value.and_then(|value| u64::try_from(value).ok())
}

/// Limits on the jobs of users, banks and queues.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Settings {
    /// The limit of each user.
    user: Limit,
    /// The limits of single users, by numeric id; each key overrides that of `user`.
    users: BTreeMap<Uid, Limit>,
    /// The limit of each bank.
    bank: Limit,
    /// The limits of single banks; each key overrides that of `bank`.
    banks: BTreeMap<String, Limit>,
    /// The limit of each queue.
    queue: Limit,
    /// The limits of single queues; each key overrides that of `queue`.
    queues: BTreeMap<String, Limit>,
}

impl Settings {
    pub(super) fn check(&self) -> Result<(), ConfError> {
        for (place, limit) in [("user", self.user), ("bank", self.bank), ("queue", self.queue)] {
            limit.check(place)?;
        }
        let users = self.users.iter().map(|(user, limit)| (format!("users.{user}"), limit));
        let banks = self.banks.iter().map(|(bank, limit)| (format!("banks.{bank}"), limit));
        let queues = self.queues.iter().map(|(queue, limit)| (format!("queues.{queue}"), limit));
        users.chain(banks).chain(queues).try_for_each(|(place, limit)| limit.check(&place))
    }

    /// The limits of a scope.
    pub(super) fn limit(&self, scope: &Scope) -> Limit {
        let (own, general) = match scope {
            Scope::User(user) => (self.users.get(user), &self.user),
            Scope::Bank(bank) => (self.banks.get(bank), &self.bank),
            Scope::Queue(queue) => (self.queues.get(queue), &self.queue),
        };
        own.map_or(*general, |own| own.or(general))
    }
}
