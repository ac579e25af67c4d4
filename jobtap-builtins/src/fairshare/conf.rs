//! The configuration of `fairshare`.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;

/// The bank above all others.
pub(super) const ROOT: &str = "root";

/// How `fairshare` computes priorities.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default, rename_all = "kebab-case")]
pub(super) struct Settings {
    /// The time after which half of the recorded usage has decayed; 0 disables the decay.
    pub(super) half_life: Fsd,
    /// How often all priorities are computed again.
    pub(super) recalc: Fsd,
    /// How long a job must be pending for its age factor to reach 1.
    pub(super) max_age: Fsd,
    /// The bank of a job that names none, if its user may use this one.
    pub(super) default_bank: Option<String>,
    /// How many points of priority a factor of 1 is worth.
    pub(super) weights: Weights,
    /// How the size of a job becomes a factor.
    pub(super) size: Size,
    /// The factor of each queue, from 0 to 1; 0 for a queue that is not listed.
    pub(super) queues: BTreeMap<String, f64>,
    /// The factor of each quality of service, from 0 to 1. If any is listed, jobs can name only
    /// these.
    pub(super) qos: BTreeMap<String, f64>,
    /// The banks by name. Without any, all users share one bank.
    pub(super) banks: BTreeMap<String, Bank>,
    /// Whether the site has configured no banks.
    #[serde(skip)]
    pub(super) implied: bool,
}

/// How many points a factor of 1 is worth.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Weights {
    pub(super) fairshare: f64,
    pub(super) age: f64,
    pub(super) size: f64,
    pub(super) queue: f64,
    pub(super) qos: f64,
    /// Points for each step of urgency above or below the default.
    pub(super) urgency: f64,
}

/// The factor of a job's size.
#[derive(Debug, Clone, Copy, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Size {
    /// The number of cores at which the size factor is 1, or 0 with `favor = "small"`.
    pub(super) full: u64,
    /// Which jobs have the larger factor.
    pub(super) favor: Favor,
}

/// Which jobs the size factor prefers.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub(super) enum Favor {
    #[default]
    Large,
    Small,
}

/// A bank, below another one.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Bank {
    /// The bank above this one.
    pub(super) parent: String,
    /// This bank's shares of its parent, relative to those of its siblings.
    pub(super) shares: f64,
    /// The shares of users, by numeric id.
    pub(super) users: BTreeMap<Uid, f64>,
    /// The shares of each user who is not listed. Without it, only listed users may use the bank.
    pub(super) everyone: Option<f64>,
}

fn fsd(seconds: f64) -> Fsd {
    Fsd::from_secs(seconds).unwrap_or_default()
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            half_life: fsd(7.0 * 86_400.0),
            recalc: fsd(300.0),
            max_age: fsd(7.0 * 86_400.0),
            default_bank: None,
            weights: Weights::default(),
            size: Size::default(),
            queues: BTreeMap::new(),
            qos: BTreeMap::new(),
            banks: BTreeMap::new(),
            implied: false,
        }
    }
}

impl Default for Weights {
    fn default() -> Self {
        Self {
            fairshare: 100_000.0,
            age: 1000.0,
            size: 0.0,
            queue: 10_000.0,
            qos: 10_000.0,
            urgency: 1000.0,
        }
    }
}

impl Weights {
    fn all(&self) -> [(&'static str, f64); 6] {
        [
            ("fairshare", self.fairshare),
            ("age", self.age),
            ("size", self.size),
            ("queue", self.queue),
            ("qos", self.qos),
            ("urgency", self.urgency),
        ]
    }
}

impl Default for Size {
    fn default() -> Self {
        Self { full: 1024, favor: Favor::Large }
    }
}

impl Default for Bank {
    fn default() -> Self {
        Self { parent: ROOT.to_owned(), shares: 1.0, users: BTreeMap::new(), everyone: None }
    }
}

impl Bank {
    /// A user's shares; `None` if the user may not use the bank.
    pub(super) fn shares_of(&self, user: Uid) -> Option<f64> {
        self.users.get(&user).copied().or(self.everyone)
    }
}

impl Settings {
    /// The bank of a job that names none: the default one, else the first by name that lists the
    /// user, else the first that is for everyone.
    pub(super) fn bank_for(&self, user: Uid) -> Option<&str> {
        let open = |name: &&str| self.shares(name, user).is_some();
        let listed = self.banks.iter().find(|(_, bank)| bank.users.contains_key(&user));
        let any = || self.banks.iter().find(|(_, bank)| bank.everyone.is_some());
        let first = || listed.or_else(any).map(|(name, _)| name.as_str());
        self.default_bank.as_deref().filter(open).or_else(first)
    }

    /// A user's shares of a bank; `None` if the user may not use it.
    pub(super) fn shares(&self, bank: &str, user: Uid) -> Option<f64> {
        self.banks.get(bank)?.shares_of(user)
    }

    /// The banks that a user may use.
    pub(super) fn banks_of(&self, user: Uid) -> Vec<&str> {
        let open = self.banks.iter().filter(|(_, bank)| bank.shares_of(user).is_some());
        open.map(|(name, _)| name.as_str()).collect()
    }

    /// Completes and checks the settings.
    pub(super) fn checked(mut self) -> Result<Self, ConfError> {
        if self.banks.is_empty() {
            let bank = Bank { everyone: Some(1.0), ..Bank::default() };
            self.banks.insert("default".to_owned(), bank);
            self.implied = true;
        }
        let wrong = |text: String| Err(ConfError::new(format!("[plugins.fairshare]: {text}")));
        for (key, period) in [("recalc", self.recalc), ("max-age", self.max_age)] {
            if period == Fsd::ZERO || period.is_infinite() {
                return wrong(format!("{key} must be above 0 and not infinite"));
            }
        }
        if self.size.full == 0 {
            return wrong("size.full must be above 0".to_owned());
        }
        if let Some((name, _)) = self.weights.all().into_iter().find(|(_, w)| !w.is_finite()) {
            return wrong(format!("weights.{name} must be a number"));
        }
        if let Some(bank) =
            self.default_bank.as_ref().filter(|bank| !self.banks.contains_key(*bank))
        {
            return wrong(format!("default-bank: there is no bank {bank:?}"));
        }
        let factors = self.queues.iter().map(|(name, factor)| (format!("queues.{name}"), factor));
        let qos = self.qos.iter().map(|(name, factor)| (format!("qos.{name}"), factor));
        for (place, factor) in factors.chain(qos) {
            if !(0.0..=1.0).contains(factor) {
                return wrong(format!("{place}: {factor} is not between 0 and 1"));
            }
        }
        for (name, bank) in &self.banks {
            if let Some(text) = self.fault_of(name, bank) {
                return wrong(format!("banks.{name}{text}"));
            }
        }
        Ok(self)
    }

    fn fault_of(&self, name: &str, bank: &Bank) -> Option<String> {
        if name == ROOT {
            return Some(": this name is the whole tree's".to_owned());
        }
        let shares = |shares: f64| shares >= 0.0 && shares.is_finite();
        let all =
            [bank.shares].into_iter().chain(bank.everyone).chain(bank.users.values().copied());
        if !all.into_iter().all(shares) {
            return Some(": shares are numbers from 0".to_owned());
        }
        let mut above = bank;
        // A path to the root has at most as many steps as there are banks, unless the parents form a cycle.
        for _ in 0..self.banks.len() {
            if above.parent == ROOT {
                return None;
            }
            match self.banks.get(&above.parent) {
                Some(next) => above = next,
                None => return Some(format!(".parent: there is no bank {:?}", above.parent)),
            }
        }
        Some(".parent: it leads back to the bank itself".to_owned())
    }
}
