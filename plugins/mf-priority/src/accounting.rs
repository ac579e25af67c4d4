//! What flux-accounting has said: associations, queues, banks, projects and the weights of priorities.

use std::collections::BTreeMap;

use jobtap_core::prelude::*;
use serde_json::{Value, json};

use crate::association::{Account, Association};
use crate::factors::Weights;
use crate::updates::{Bank, Options, Project, Queue, Tables, Terms, UpdateError, Weight, rows};

/// All tables. They are in memory only: flux-accounting sends them again.
#[derive(Debug, Default)]
pub(crate) struct Accounting {
    users: BTreeMap<Uid, User>,
    pub(crate) queues: BTreeMap<String, Queue>,
    banks: BTreeMap<String, f64>,
    pub(crate) projects: Vec<String>,
    pub(crate) weights: Weights,
    pub(crate) denies_unknown_queues: bool,
}

#[derive(Debug, Default)]
struct User {
    default_bank: String,
    banks: BTreeMap<String, Association>,
}

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
        if let Some(data) = &tables.associations {
            self.update_associations(data)?;
        }
        if let Some(data) = &tables.queues {
            self.update_queues(data)?;
        }
        if let Some(data) = &tables.projects {
            self.update_projects(data)?;
        }
        if let Some(data) = &tables.banks {
            self.update_banks(data)?;
        }
        if let Some(data) = &tables.priority_factors {
            self.update_factors(data)?;
        }
        if let Some(data) = &tables.config {
            self.update_config(data)?;
        }
        Ok(())
    }

    /// Adds associations, or changes them. None is removed: its jobs still count.
    pub(crate) fn update_associations(&mut self, data: &Value) -> Result<(), UpdateError> {
        for terms in rows::<Terms>(data, "associations")? {
            let terms = terms?;
            let user = self.users.entry(Uid::new(terms.userid)).or_default();
            user.default_bank.clone_from(&terms.def_bank);
            match user.banks.get_mut(&terms.bank) {
                Some(association) => association.terms = terms,
                None => drop(user.banks.insert(terms.bank.clone(), Association::new(terms))),
            }
        }
        Ok(())
    }

    /// Replaces the queues.
    pub(crate) fn update_queues(&mut self, data: &Value) -> Result<(), UpdateError> {
        let rows = rows::<Queue>(data, "queues")?;
        self.queues.clear();
        for queue in rows {
            let queue = queue?;
            self.queues.insert(queue.queue.clone(), queue);
        }
        Ok(())
    }

    /// Replaces the projects.
    pub(crate) fn update_projects(&mut self, data: &Value) -> Result<(), UpdateError> {
        let rows = rows::<Project>(data, "projects")?;
        self.projects.clear();
        for row in rows {
            self.projects.push(row?.project);
        }
        Ok(())
    }

    /// Replaces the priorities of banks.
    pub(crate) fn update_banks(&mut self, data: &Value) -> Result<(), UpdateError> {
        let rows = rows::<Bank>(data, "banks")?;
        self.banks.clear();
        for row in rows {
            let Bank { bank, priority } = row?;
            self.banks.insert(bank, priority);
        }
        Ok(())
    }

    /// Changes weights. Those that aren't named stay.
    pub(crate) fn update_factors(&mut self, data: &Value) -> Result<(), UpdateError> {
        for row in rows::<Weight>(data, "priority_factors")? {
            let Weight { factor, weight } = row?;
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

    /// The association of a user, in a bank or in the user's default bank.
    pub(crate) fn find(&self, user: Uid, bank: Option<&str>) -> Result<Account, Unknown> {
        let unknown = match self.users.is_empty() {
            true => Unknown::NoData,
            false => Unknown::NoAssociation,
        };
        let known = self.users.get(&user).ok_or(unknown)?;
        let bank = bank.unwrap_or(&known.default_bank);
        match known.banks.contains_key(bank) {
            true => Ok(Account { user, bank: bank.to_owned() }),
            false => Err(unknown),
        }
    }

    pub(crate) fn get(&self, account: &Account) -> Option<&Association> {
        self.users.get(&account.user)?.banks.get(&account.bank)
    }

    pub(crate) fn get_mut(&mut self, account: &Account) -> Option<&mut Association> {
        self.users.get_mut(&account.user)?.banks.get_mut(&account.bank)
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
    pub(crate) fn release<T: TopicSet>(&mut self, account: &Account, cx: &Cx<'_, T>) {
        let Self { users, queues, .. } = self;
        let user = users.get_mut(&account.user);
        if let Some(association) = user.and_then(|user| user.banks.get_mut(&account.bank)) {
            association.release(queues, cx);
        }
    }

    /// The same for all associations, by user and bank.
    pub(crate) fn release_all<T: TopicSet>(&mut self, cx: &Cx<'_, T>) {
        let Self { users, queues, .. } = self;
        let all = users.values_mut().flat_map(|user| user.banks.values_mut());
        all.for_each(|association| association.release(queues, cx));
    }

    /// As `plugin.query` shows it.
    pub(crate) fn shown(&self) -> Value {
        let user = |(uid, user): (&Uid, &User)| {
            let banks: Vec<&Association> = user.banks.values().collect();
            json!({ "userid": uid.as_u32(), "banks": banks })
        };
        let users: Vec<Value> = self.users.iter().map(user).collect();
        json!({ "mf_priority_map": users, "queues": self.queues, "projects": self.projects })
    }
}
