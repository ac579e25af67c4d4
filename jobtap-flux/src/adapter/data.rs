//! The data of plugins: in memory, and in the KVS.
//!
//! # Where
//! Data on a job is stored under `job.<id>.data.<plugin>` (RFC 16), data on the instance under
//! `jobtap.data.<plugin>`: where our own manager has them. It goes with the job's directory when the job is
//! purged. Two other places were tried. An event of the job would be stored with the events of the same
//! callback, but a plugin of Flux can't read eventlogs, so a restart would need the same look-up, and each
//! change would make the log longer for ever. The job's guest directory is replaced when the job has
//! finished. Flux's aux items are not used, because they are freed when a job becomes inactive, while the
//! plugin can still ask for it.
//!
//! # When
//! Values go to the KVS in one transaction after the callback, and while one is under way the next collects.
//! So data is stored soon after the events of the callback and not with them, since the job manager's own
//! transaction isn't open to plugins. After a crash of the broker the data may be some milliseconds older
//! than the eventlog. A job that existed before the plugin was loaded is looked up when the plugin first asks
//! for its data.
//!
//! Measured on two busy cores: a transaction of one value took 2.3 ms, of a hundred 9.5 ms, while the plugin
//! goes on; a look-up, which the callback waits for, 0.4 ms.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobtap_core::engine::INSTANCE_DATA;
use jobtap_core::job::{Encoding, JobId};
use jobtap_core::plugin::Level;
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Adapter;
use crate::flux::Flux;

/// The data of all plugins.
#[derive(Debug, Default)]
pub(super) struct Store {
    jobs: FxHashMap<JobId, OnJob>,
    /// By plugin; `None` for a plugin that has stored nothing.
    instance: FxHashMap<Arc<str>, Option<Value>>,
    /// What is to be stored, by key: the text of the value.
    unstored: BTreeMap<String, String>,
    /// What the transaction that is under way stores.
    committing: Option<Vec<(String, String)>>,
}

/// The data of all plugins on one job.
#[derive(Debug, Default)]
struct OnJob {
    /// By plugin; `None` for a plugin that has stored nothing.
    values: FxHashMap<Arc<str>, Option<Value>>,
    /// The job was submitted in this run, so that nothing of it is in the KVS but for what is here.
    is_new: bool,
    /// It is not accepted yet. Nothing of it is stored before, since it may be rejected.
    held_back: Option<BTreeMap<String, String>>,
}

impl Store {
    /// A job is being submitted.
    pub(super) fn begin(&mut self, id: JobId) {
        let on_job = self.jobs.entry(id).or_default();
        on_job.is_new = true;
        on_job.held_back = Some(BTreeMap::new());
    }

    /// A job was accepted.
    pub(super) fn accept(&mut self, id: JobId) {
        if let Some(on_job) = self.jobs.get_mut(&id)
            && let Some(held_back) = on_job.held_back.take()
        {
            self.unstored.extend(held_back);
        }
    }

    /// A job is inactive, or was rejected: its data is looked up if it is asked for once more.
    pub(super) fn forget(&mut self, id: JobId) {
        self.jobs.remove(&id);
    }
}

fn job_key(id: JobId, plugin: &str) -> String {
    format!("{}.data.{}", id.encode(Encoding::Kvs), plugin)
}

impl<F: Flux> Adapter<F> {
    pub(super) fn data(&self, plugin: &Arc<str>, id: JobId) -> Option<Value> {
        let is_new = {
            let store = self.store.borrow();
            let on_job = store.jobs.get(&id);
            if let Some(known) = on_job.and_then(|on_job| on_job.values.get(plugin)) {
                return known.clone();
            }
            on_job.is_some_and(|on_job| on_job.is_new)
        };
        let key = job_key(id, plugin);
        let found = if is_new { None } else { self.look_up_data(&key) };
        let is_readable = found != Some(Value::Null);
        if is_readable && self.mirror.borrow().job(id).is_some() {
            let mut store = self.store.borrow_mut();
            let on_job = store.jobs.entry(id).or_default();
            on_job.values.insert(Arc::clone(plugin), found.clone());
        }
        found
    }

    pub(super) fn instance_data(&self, plugin: &Arc<str>) -> Option<Value> {
        if let Some(known) = self.store.borrow().instance.get(plugin) {
            return known.clone();
        }
        let found = self.look_up_data(&format!("{INSTANCE_DATA}{plugin}"));
        if found != Some(Value::Null) {
            self.store.borrow_mut().instance.insert(Arc::clone(plugin), found.clone());
        }
        found
    }

    /// Reads a key, and waits for it: the handler needs it now. What waits to be stored is newer.
    fn look_up_data(&self, key: &str) -> Option<Value> {
        {
            let store = self.store.borrow();
            let committing = store.committing.iter().flatten();
            let mut committing = committing.filter(|(of, _)| of == key).map(|(_, text)| text);
            if let Some(text) = store.unstored.get(key).or_else(|| committing.next()) {
                return serde_json::from_str(text).ok();
            }
        }
        match self.flux.kvs_lookup(key) {
            Ok(text) => match serde_json::from_str(&text?) {
                Ok(value) => Some(value),
                // Not as if there were no data: the plugin gets an error that names the job.
                Err(_) => Some(Value::Null),
            },
            Err(error) => {
                self.log(Level::Error, &format!("{key}: {error}"));
                Some(Value::Null)
            }
        }
    }

    pub(super) fn set_data(&self, plugin: &Arc<str>, id: JobId, value: Value, volatile: bool) {
        let mut store = self.store.borrow_mut();
        let store = &mut *store;
        if !volatile {
            let (key, text) = (job_key(id, plugin), value.to_string());
            let held_back = store.jobs.get_mut(&id).and_then(|job| job.held_back.as_mut());
            held_back.unwrap_or(&mut store.unstored).insert(key, text);
        }
        let on_job = store.jobs.entry(id).or_default();
        on_job.values.insert(Arc::clone(plugin), Some(value));
    }

    pub(super) fn set_instance_data(&self, plugin: &Arc<str>, value: Value, volatile: bool) {
        let mut store = self.store.borrow_mut();
        if !volatile {
            store.unstored.insert(format!("{INSTANCE_DATA}{plugin}"), value.to_string());
        }
        store.instance.insert(Arc::clone(plugin), Some(value));
    }

    /// Sends what is to be stored, unless a transaction is under way: then it goes with the next one.
    pub(super) fn store_data(&self) {
        let values: Vec<(String, String)> = {
            let mut store = self.store.borrow_mut();
            if store.unstored.is_empty() || store.committing.is_some() {
                return;
            }
            let values: Vec<_> = std::mem::take(&mut store.unstored).into_iter().collect();
            store.committing = Some(values.clone());
            values
        };
        if let Err(error) = self.flux.kvs_commit(&values) {
            self.committed(Err(error));
        }
    }

    /// A transaction has ended.
    pub fn committed(&self, result: Result<(), String>) {
        if let Err(error) = result {
            self.log(Level::Error, &format!("data of plugins could not be stored: {error}"));
        }
        self.store.borrow_mut().committing = None;
        if self.depth.get() == 0 {
            self.store_data();
        }
    }

    /// Stores what is left, and waits for it.
    pub(super) fn store_all_data(&self) {
        let values: Vec<(String, String)> = {
            let mut store = self.store.borrow_mut();
            if store.unstored.is_empty() && store.committing.is_none() {
                return;
            }
            store.committing = None;
            std::mem::take(&mut store.unstored).into_iter().collect()
        };
        if let Err(error) = self.flux.kvs_commit_and_wait(&values) {
            self.log(Level::Error, &format!("data of plugins could not be stored: {error}"));
        }
    }
}
