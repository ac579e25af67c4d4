//! What flux-accounting has said: associations, queues, banks, projects and the weights of priorities.

use std::collections::{BTreeMap, BTreeSet};

use jobtap_core::prelude::*;
use serde_json::{Value, json};

use crate::association::Association;
use crate::factors::{OwnWeights, Weights};
use crate::updates::{Bank, Options, Project, Queue, Tables, Terms, UpdateError, Weight, rows};

/// All tables. They are in memory only: flux-accounting sends them again.
#[derive(Debug, Default)]
pub(crate) struct Accounting {
    associations: Vec<Association>,
    users: BTreeMap<Uid, User>,
    pub(crate) queues: BTreeMap<String, Queue>,
    banks: BTreeMap<String, f64>,
    pub(crate) projects: Vec<String>,
    /// Those of flux-accounting.
    weights: Weights,
    /// Those of the configuration, which go before them.
    pub(crate) own_weights: OwnWeights,
    pub(crate) denies_unknown_queues: bool,
}

#[derive(Debug, Default)]
struct User {
    default_bank: String,
    banks: BTreeMap<String, Account>,
}

/// The place of an association. It stays, since none is removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Account(usize);

/// Why a job has no association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unknown {
    /// No data has come yet.
    NoData,
    /// The data has no such user or bank.
    NoAssociation,
}

impl Accounting {
    /// Takes all tables of an export.
    pub(crate) fn load(&mut self, tables: &Tables) -> Result<(), UpdateError> {
        type Update = fn(&mut Accounting, &Value) -> Result<(), UpdateError>;
        let updates: [(&Option<Value>, Update); 6] = [
            (&tables.associations, |all, data| all.update_associations(data, &mut BTreeSet::new())),
            (&tables.queues, Self::update_queues),
            (&tables.projects, Self::update_projects),
            (&tables.banks, Self::update_banks),
            (&tables.priority_factors, Self::update_factors),
            (&tables.config, Self::update_config),
        ];
        let mut given =
            updates.into_iter().filter_map(|(data, update)| Some((data.as_ref()?, update)));
        given.try_for_each(|(data, update)| update(self, data))
    }

    /// Adds associations, or changes them, and notes their users. None is removed: its jobs still count.
    pub(crate) fn update_associations(
        &mut self,
        data: &Value,
        changed: &mut BTreeSet<Uid>,
    ) -> Result<(), UpdateError> {
        for terms in rows::<Terms>(data, "associations")? {
            let uid = Uid::new(terms.userid);
            changed.insert(uid);
            let user = self.users.entry(uid).or_default();
            user.default_bank.clone_from(&terms.def_bank);
            let known = user.banks.get(&terms.bank);
            match known.and_then(|account| self.associations.get_mut(account.0)) {
                Some(association) => association.terms = terms,
                None => {
                    user.banks.insert(terms.bank.clone(), Account(self.associations.len()));
                    self.associations.push(Association::new(terms));
                }
            }
        }
        Ok(())
    }

    /// Replaces the queues.
    pub(crate) fn update_queues(&mut self, data: &Value) -> Result<(), UpdateError> {
        let queues = rows::<Queue>(data, "queues")?;
        self.queues = queues.into_iter().map(|queue| (queue.queue.clone(), queue)).collect();
        Ok(())
    }

    /// Replaces the projects.
    pub(crate) fn update_projects(&mut self, data: &Value) -> Result<(), UpdateError> {
        let projects = rows::<Project>(data, "projects")?;
        self.projects = projects.into_iter().map(|row| row.project).collect();
        Ok(())
    }

    /// Replaces the priorities of banks.
    pub(crate) fn update_banks(&mut self, data: &Value) -> Result<(), UpdateError> {
        let banks = rows::<Bank>(data, "banks")?;
        self.banks = banks.into_iter().map(|row| (row.bank, row.priority)).collect();
        Ok(())
    }

    /// Changes weights. Those that aren't named stay.
    pub(crate) fn update_factors(&mut self, data: &Value) -> Result<(), UpdateError> {
        for Weight { factor, weight } in rows(data, "priority_factors")? {
            match factor.as_str() {
                "fairshare" => self.weights.fairshare = weight,
                "queue" => self.weights.queue = weight,
                "bank" => self.weights.bank = weight,
                "urgency" => self.weights.urgency = weight,
                // Factors that only a newer flux-accounting has.
                _ => {}
            }
        }
        Ok(())
    }

    pub(crate) fn update_config(&mut self, data: &Value) -> Result<(), UpdateError> {
        let Options { deny_unknown_queues } = Options::deserialize(data)?;
        self.denies_unknown_queues = deny_unknown_queues;
        Ok(())
    }

    /// The weights in effect.
    pub(crate) fn weights(&self) -> Weights {
        self.own_weights.before(&self.weights)
    }

    /// The association of a user, in a bank or in the user's default bank.
    pub(crate) fn find(&self, user: Uid, bank: Option<&str>) -> Result<Account, Unknown> {
        let unknown = match self.users.is_empty() {
            true => Unknown::NoData,
            false => Unknown::NoAssociation,
        };
        let known = self.users.get(&user).ok_or(unknown)?;
        let bank = bank.unwrap_or(&known.default_bank);
        known.banks.get(bank).copied().ok_or(unknown)
    }

    pub(crate) fn get(&self, account: Account) -> Option<&Association> {
        self.associations.get(account.0)
    }

    pub(crate) fn get_mut(&mut self, account: Account) -> Option<&mut Association> {
        self.associations.get_mut(account.0)
    }

    /// The factor of a queue for an association; `None` if its jobs may not be there.
    pub(crate) fn queue_factor(&self, terms: &Terms, queue: Option<&str>) -> Option<i64> {
        match queue.and_then(|name| self.queues.get(name)) {
            Some(queue) if terms.queues.contains(&queue.queue) => Some(queue.priority),
            Some(_) => None,
            // Without a queue, and in one that flux-accounting doesn't know.
            None => Some(0),
        }
    }

    pub(crate) fn bank_factor(&self, bank: &str) -> f64 {
        self.banks.get(bank).copied().unwrap_or(0.0)
    }

    /// Releases held jobs of an association for which there is room now.
    pub(crate) fn release<T: TopicSet>(&mut self, account: Account, cx: &Cx<'_, T>) {
        let Self { associations, queues, .. } = self;
        if let Some(association) = associations.get_mut(account.0) {
            association.release(queues, cx);
        }
    }

    /// The same for all associations, by user and bank.
    pub(crate) fn release_all<T: TopicSet>(&mut self, cx: &Cx<'_, T>) {
        let accounts = self.users.values().flat_map(|user| user.banks.values().copied());
        let accounts: Vec<Account> = accounts.collect();
        accounts.into_iter().for_each(|account| self.release(account, cx));
    }

    /// As `plugin.query` shows it.
    pub(crate) fn shown(&self) -> Value {
        let user = |(uid, user): (&Uid, &User)| {
            let banks = user.banks.values().filter_map(|account| self.get(*account));
            let banks: Vec<&Association> = banks.collect();
            json!({ "userid": uid.as_u32(), "banks": banks })
        };
        let users: Vec<Value> = self.users.iter().map(user).collect();
        json!({ "mf_priority_map": users, "queues": self.queues, "projects": self.projects })
    }
}
