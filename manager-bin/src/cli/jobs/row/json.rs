//! A listed job as the JSON object of `jobs --json`.

use serde_json::{Map, Value, json};

use super::JobRow;

/// Attributes that are copied unchanged.
const PLAIN: &[&str] = &[
    "urgency",
    "priority",
    "name",
    "cwd",
    "queue",
    "project",
    "bank",
    "success",
    "waitstatus",
    "duration",
    "ntasks",
    "ncores",
    "nnodes",
    "ranks",
    "nodelist",
];

/// Times that are omitted while they are zero.
const TIMES: &[&str] = &[
    "t_submit",
    "t_depend",
    "t_priority",
    "t_sched",
    "t_run",
    "t_cleanup",
    "t_inactive",
    "expiration",
];

impl JobRow<'_> {
    /// The job as a JSON object: states and results by name, members without a value omitted.
    pub(crate) fn to_json(&self) -> Value {
        let mut job = Map::new();
        let mut set = |name: &str, value: Value| {
            if !value.is_null() && value != "" {
                job.insert(name.to_owned(), value);
            }
        };
        set("id", json!(self.id.as_u64()));
        set("jobid", json!(self.display.ids.show(self.id)));
        set("userid", json!(self.userid()));
        set("username", json!(self.username()));
        set("state", json!(self.state.map(|state| state.long_name())));
        set("status", json!(self.status()));
        set("result", json!(self.final_result().map(|result| result.long_name())));
        set("returncode", json!(self.returncode()));
        for name in PLAIN {
            set(name, self.attributes.get(*name).cloned().unwrap_or_default());
        }
        let computed = [("t_remaining", self.remaining()), ("runtime", self.runtime())];
        let times = TIMES.iter().map(|name| (*name, self.float(name))).chain(computed);
        for (name, time) in times.filter(|(_, time)| *time != 0.0) {
            set(name, json!(time));
        }
        set("dependencies", self.attributes.get("dependencies").cloned().unwrap_or(json!([])));
        set("annotations", self.annotation("").cloned().unwrap_or(json!({})));
        set("exception", self.exception());
        set("uri", self.annotation("user.uri").cloned().unwrap_or_default());
        Value::Object(job)
    }

    fn exception(&self) -> Value {
        let get = |name: &str| self.attributes.get(name).cloned().unwrap_or_default();
        match get("exception_occurred") {
            Value::Bool(true) => json!({
                "occurred": true,
                "severity": get("exception_severity"),
                "type": get("exception_type"),
                "note": get("exception_note"),
            }),
            _ => json!({"occurred": false}),
        }
    }
}
