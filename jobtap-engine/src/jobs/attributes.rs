//! A job as listings show it: the attributes of Flux's `job-list` service.

use serde_json::{Map, Value};

use super::record::Record;
use crate::eventlog::EventEntry;
use crate::job::{JobResult, Timestamp};
use crate::jobspec::Jobspec;
use crate::resource::ResourceSet;

impl Record {
    /// The attributes of the job that have a value, in Flux's order, which people see in raw output.
    pub(crate) fn attributes(&self) -> Value {
        let mut map = Map::new();
        self.identity(&mut map);
        self.times(&mut map);
        self.state_and_request(&mut map);
        self.resources_and_end(&mut map);
        Value::Object(map)
    }

    fn identity(&self, map: &mut Map<String, Value>) {
        let job = &self.job;
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        set("id", job.id().as_u64().into());
        set("userid", job.userid().0.into());
        set("urgency", job.kept().urgency.value().into());
        if let Some(priority) = job.priority() {
            set("priority", priority.into());
        }
    }

    fn state_and_request(&self, map: &mut Map<String, Value>) {
        let (job, spec) = (&self.job, self.job.kept().jobspec.opened());
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        let (counts, resources) = (spec.counts(), job.kept().resources.as_deref());
        set("state", job.state().value().into());
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
        // The number allocated, otherwise the number requested, if given.
        let requested = (!counts.exclusive).then(|| counts.ncores().into());
        if let Some(ncores) = resources.map(|r| r.ncores().into()).or(requested) {
            set("ncores", ncores);
        }
        set("duration", spec.duration().into());
        let requested = (counts.nnodes > 0).then(|| counts.nnodes.into());
        if let Some(nnodes) = resources.map(|r| r.nnodes().into()).or(requested) {
            set("nnodes", nnodes);
        }
        if let Some(r) = resources {
            set("ranks", r.ranks().brackets().into());
            set("nodelist", r.nodelist().to_string().into());
        }
    }

    /// The number of tasks. For a job with tasks per node, or per core of whole nodes, it follows from R if the jobspec
    /// doesn't say how many nodes or cores there are.
    fn ntasks(&self, spec: &Jobspec) -> Option<u64> {
        let counts = spec.counts();
        let per = spec.attribute("shell.options.per-resource");
        let kind = per.and_then(|per| per.get("type")).and_then(Value::as_str);
        let of_r = |number: fn(&ResourceSet) -> usize| {
            let count = per?.get("count").and_then(Value::as_u64).unwrap_or(1);
            Some(count.saturating_mul(number(self.job.kept().resources.as_deref()?) as u64))
        };
        match kind {
            Some("node") if counts.nnodes == 0 => of_r(ResourceSet::nnodes),
            Some("core") if counts.exclusive => of_r(ResourceSet::ncores),
            _ => Some(counts.ntasks),
        }
    }

    fn times(&self, map: &mut Map<String, Value>) {
        let times = &self.job.kept().times;
        let all = [
            ("t_submit", Some(self.job.t_submit())),
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
    }

    fn resources_and_end(&self, map: &mut Map<String, Value>) {
        let mut set = |key: &str, value: Value| {
            map.insert(key.to_owned(), value);
        };
        let result = self.result();
        if let Some(result) = result {
            set("success", (result == JobResult::Completed).into());
            set("exception_occurred", self.exception.is_some().into());
            if let Some(raised) = self.exception.as_deref().and_then(EventEntry::exception) {
                set("exception_type", raised.kind.into());
                set("exception_severity", raised.severity.into());
                set("exception_note", raised.note.into());
            }
            set("result", result.value().into());
        }
        if let Some(r) = &*self.job.kept().resources {
            // 0 without an expiration, as in Flux.
            set("expiration", r.expiration().unwrap_or(0.0).into());
        }
        if !self.job.kept().annotations.is_empty() {
            set("annotations", self.job.annotations().clone().into());
        }
        let dependencies: Vec<&str> = self.job.dependencies().collect();
        if !dependencies.is_empty() {
            set("dependencies", dependencies.into());
        }
        if let Some(status) = self.wait_status {
            set("waitstatus", status.into());
        }
    }

    /// The time that listings show under this name, such as `t_run`.
    pub(crate) fn time(&self, name: &str) -> Option<Timestamp> {
        let times = &self.job.kept().times;
        match name {
            "t_submit" => Some(self.job.t_submit()),
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
