//! A manager with the plugin, in virtual time, and the data that flux-accounting sends to it.

use jobtap_builtins::{DependencyAfter, UpdateQueue};
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use mf_priority::MfPriority;
use serde_json::{Value, json};

pub(crate) const UNLIMITED: i64 = 2_147_483_647;

/// Only the owner may submit with an urgency above the default.
pub(crate) const OWNER: u32 = 1000;

/// An association with the database's defaults, and these changes.
pub(crate) fn association(user: u32, bank: &str, changes: Value) -> Value {
    let mut row = json!({
        "userid": user, "bank": bank, "def_bank": "A", "fairshare": 0.5,
        "max_running_jobs": 5, "max_active_jobs": 7, "max_sched_jobs": UNLIMITED,
        "max_nodes": UNLIMITED, "max_cores": UNLIMITED,
        "queues": "", "active": 1, "projects": "*", "def_project": "*",
    });
    change(&mut row, changes);
    row
}

pub(crate) fn queue(name: &str, priority: i64, changes: Value) -> Value {
    let mut row = json!({
        "queue": name, "min_nodes_per_job": 0, "max_nodes_per_job": UNLIMITED,
        "max_time_per_job": UNLIMITED, "priority": priority, "max_running_jobs": UNLIMITED,
        "max_nodes_per_assoc": UNLIMITED, "max_sched_jobs": UNLIMITED,
        "max_sched_nodes_per_assoc": UNLIMITED, "max_sched_cores_per_assoc": UNLIMITED,
    });
    change(&mut row, changes);
    row
}

fn change(row: &mut Value, changes: Value) {
    let (Value::Object(row), Value::Object(changes)) = (row, changes) else { return };
    row.extend(changes);
}

pub(crate) struct Site(pub(crate) TestManager);

impl Site {
    /// A manager of 8 hosts with 2 cores, with this data at the start, if any, and these queues of its own.
    pub(crate) fn start(tables: Option<Value>, queues: &[&str]) -> Self {
        let queues: serde_json::Map<String, Value> =
            queues.iter().map(|name| ((*name).to_owned(), json!({}))).collect();
        let mut config = json!({
            "job-manager": {"plugins": [{"load": "mf_priority"}]},
            "plugins": {"mf_priority": {"config": &tables}},
        });
        if !queues.is_empty() {
            config["queues"] = Value::Object(queues);
        }
        let builder = TestManager::new().plugin::<DependencyAfter>().plugin::<UpdateQueue>();
        let mut m = builder.plugin::<MfPriority>().hosts(8).cores(2).config(config).start();
        if m.start_queues().is_err() {
            // There is only the anonymous one, which is started.
        }
        let mut site = Self(m);
        if tables.is_none() {
            site.send("rec_proj_update", json!([{"project": "*"}]));
        }
        site
    }

    pub(crate) fn with(associations: Value) -> Self {
        let mut site = Self::start(None, &[]);
        site.send("rec_update", associations);
        site
    }

    pub(crate) fn send(&mut self, service: &str, data: Value) {
        let sent = self.0.call_service(&format!("mf_priority.{service}"), json!({ "data": data }));
        assert!(sent.is_ok(), "{service}: {sent:?}");
    }

    pub(crate) fn reprioritize(&mut self) {
        self.0.call_service("mf_priority.reprioritize", Value::Null).unwrap();
    }

    pub(crate) fn submit(&mut self, job: TestJob) -> JobId {
        self.0.submit(job).unwrap()
    }

    pub(crate) fn refusal(&mut self, job: TestJob) -> String {
        self.0.submit(job).unwrap_err().text()
    }

    pub(crate) fn priority(&self, id: JobId) -> Option<u32> {
        self.0.job(id).priority()
    }

    pub(crate) fn dependencies(&self, id: JobId) -> Vec<&str> {
        self.0.job(id).dependencies().collect()
    }

    pub(crate) fn state(&self, id: JobId) -> State {
        self.0.job(id).state()
    }

    pub(crate) fn cancel(&mut self, id: JobId) {
        self.0.cancel(id).unwrap();
    }

    /// The first bank of the first user, as `plugin.query` shows it.
    pub(crate) fn first(&mut self) -> Value {
        self.0.query_plugin("mf_priority").unwrap()["mf_priority_map"][0]["banks"][0].clone()
    }

    pub(crate) fn counts(&mut self, keys: &[&str]) -> Vec<i64> {
        let first = self.first();
        keys.iter()
            .map(|key| first.pointer(&format!("/{key}")).and_then(Value::as_i64).unwrap_or(-999))
            .collect()
    }
}

pub(crate) fn job(user: u32) -> TestJob {
    TestJob::new().user(user)
}
