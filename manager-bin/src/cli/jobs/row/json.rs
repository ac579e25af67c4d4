//! A listed job as the JSON object of `jobs --json`.

use serde_json::{Map, Value, json};

use super::JobRow;

/// The members whose values the manager's response contains, in Flux's order.
const LISTED: &[&str] = &[
    "t_depend",
    "t_priority",
    "t_sched",
    "t_run",
    "t_cleanup",
    "t_inactive",
    "duration",
    "expiration",
    "name",
    "cwd",
    "queue",
    "project",
    "bank",
    "ntasks",
    "ncores",
    "nnodes",
    "priority",
    "ranks",
    "nodelist",
    "success",
];

/// Times that are omitted while they are zero.
const TIMES: &[&str] =
    &["t_depend", "t_priority", "t_sched", "t_run", "t_cleanup", "t_inactive", "expiration"];

impl JobRow<'_> {
    /// The job as a JSON object: states and results by name, members without a value omitted.
    pub(crate) fn to_json(&self) -> Value {
        let mut job = Map::new();
        let mut set = |name: &str, value: Value| {
            if !value.is_null() && value != "" {
                job.insert(name.to_owned(), value);
            }
        };
        let listed = |name: &str| self.attributes.get(name).cloned().unwrap_or_default();
        let time = |time: f64| if time == 0.0 { Value::Null } else { json!(time) };
        for name in LISTED {
            let value = if TIMES.contains(name) { time(self.float(name)) } else { listed(name) };
            set(name, value);
        }
        set("result", json!(self.final_result().map(|result| result.long_name())));
        set("waitstatus", listed("waitstatus"));
        set("id", json!(self.id.as_u64()));
        set("t_submit", time(self.float("t_submit")));
        set("t_remaining", time(self.remaining()));
        set("state", json!(self.state.map(|state| state.long_name())));
        set("username", json!(self.username()));
        set("userid", json!(self.userid()));
        set("urgency", listed("urgency"));
        set("runtime", time(self.runtime()));
        set("status", json!(self.status()));
        set("returncode", json!(self.returncode()));
        set("dependencies", json!(self.dependencies()));
        set("jobid", json!(self.display.ids.show(self.id)));
        set("annotations", self.annotation("").cloned().unwrap_or(json!({})));
        set("exception", self.exception());
        set("why", listed("why"));
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
