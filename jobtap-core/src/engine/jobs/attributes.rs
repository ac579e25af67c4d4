//! A job as listings show it: the attributes of Flux's `job-list` service.

use serde_json::{Map, Value};

use super::record::Record;
use crate::engine::events::field;
use crate::job::{JobResult, Timestamp};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

impl Record {
    /// The attributes of the job that have a value.
    pub(crate) fn attributes(&self) -> Value {
        let mut map = Map::new();
        self.identity(&mut map);
        self.times_and_state(&mut map);
        self.resources_and_end(&mut map);
        Value::Object(map)
    }

    fn identity(&self, map: &mut Map<String, Value>) {
        let (job, spec) = (&self.job, self.job.jobspec.opened());
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        let counts = spec.counts();
        set("id", job.id.as_u64().into());
        set("userid", job.userid.0.into());
        set("urgency", job.urgency.value().into());
        if let Some(priority) = job.priority {
            set("priority", priority.into());
        }
        set("state", job.state.value().into());
        set("name", spec.display_name().into());
        for (key, value) in [("cwd", spec.cwd()), ("queue", spec.queue())] {
            if let Some(value) = value {
                set(key, value.into());
            }
        }
        for key in ["project", "bank"] {
            if let Some(value) = spec.attribute(key) {
                set(key, value.clone());
            }
        }
        if let Some(ntasks) = self.ntasks(&spec) {
            set("ntasks", ntasks.into());
        }
        if !counts.exclusive {
            set("ncores", counts.ncores().into());
        }
        set("duration", spec.duration().into());
        if counts.nnodes > 0 {
            set("nnodes", counts.nnodes.into());
        }
    }

    /// The number of tasks. That of a job with tasks for each node, or for each core of whole nodes, follows from R
    /// where the jobspec doesn't say how many of these there are.
    fn ntasks(&self, spec: &Jobspec) -> Option<u64> {
        let counts = spec.counts();
        let per = spec.attribute("shell.options.per-resource");
        let kind = per.and_then(|per| per.get("type")).and_then(Value::as_str);
        let of_r = |number: fn(&ResourceSet) -> usize| {
            let count = per?.get("count").and_then(Value::as_u64).unwrap_or(1);
            Some(count.saturating_mul(number(self.job.resources.as_deref()?) as u64))
        };
        match kind {
            Some("node") if counts.nnodes == 0 => of_r(ResourceSet::nnodes),
            Some("core") if counts.exclusive => of_r(ResourceSet::ncores),
            _ => Some(counts.ntasks),
        }
    }

    fn times_and_state(&self, map: &mut Map<String, Value>) {
        let times = &self.job.times;
        let all = [
            ("t_submit", Some(self.job.t_submit)),
            ("t_depend", times.depend.get()),
            ("t_priority", times.priority.get()),
            ("t_sched", times.sched.get()),
            ("t_run", times.run()),
            ("t_cleanup", times.cleanup()),
            ("t_inactive", times.inactive()),
        ];
        for (key, time) in all {
            if let Some(time) = time {
                map.insert(key.to_owned(), time.as_secs().into());
            }
        }
        if !self.job.annotations.is_empty() {
            map.insert("annotations".to_owned(), self.job.annotations().clone().into());
        }
        let dependencies: Vec<&str> = self.job.dependencies().collect();
        if !dependencies.is_empty() {
            map.insert("dependencies".to_owned(), dependencies.into());
        }
    }

    fn resources_and_end(&self, map: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        if let Some(r) = &*self.job.resources {
            set("nnodes", r.nnodes().into());
            set("ncores", r.ncores().into());
            set("ranks", r.ranks().brackets().into());
            set("nodelist", r.nodelist().to_string().into());
            // 0 without one, as in Flux.
            set("expiration", r.expiration().unwrap_or(0.0).into());
        }
        if let Some(status) = self.wait_status {
            set("waitstatus", status.into());
        }
        if let Some(result) = self.result() {
            set("result", result.value().into());
            set("success", (result == JobResult::Completed).into());
            set("exception_occurred", self.exception.is_some().into());
            if let Some(exception) = &*self.exception {
                for (key, name) in [("type", "exception_type"), ("note", "exception_note")] {
                    set(name, field(exception, key).cloned().unwrap_or_default());
                }
                set(
                    "exception_severity",
                    field(exception, "severity").and_then(Value::as_i64).unwrap_or(0).into(),
                );
            }
        }
    }

    /// The time that listings have under this name, such as `t_run`.
    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        let times = &self.job.times;
        match name {
            "t_submit" => Some(self.job.t_submit),
            "t_depend" => times.depend.get(),
            "t_priority" => times.priority.get(),
            "t_sched" => times.sched.get(),
            "t_run" => times.run(),
            "t_cleanup" => times.cleanup(),
            "t_inactive" => times.inactive(),
            _ => None,
        }
    }
}
