//! The fields of listed jobs that an output format can name, with their headings and values.

use std::borrow::Cow;

use jobtap_core::job::{Encoding, JobResult, State};
use serde_json::Value;

use super::{JobRow, result_emoji, state_emoji};
use crate::cli::common::format::{FieldValue, Row};
use crate::cli::jobs::instance::{STATS, summary};

/// Field names and headings. Annotations aren't listed, since plugins and users choose their names.
const HEADINGS: &[(&str, &str)] = &[
    ("id", "JOBID"),
    ("id.dec", "JOBID"),
    ("id.hex", "JOBID"),
    ("id.f58", "JOBID"),
    ("id.f58plain", "JOBID"),
    ("id.words", "JOBID"),
    ("id.emoji", "JOBID"),
    ("id.kvs", "JOBID"),
    ("id.dothex", "JOBID"),
    ("userid", "UID"),
    ("username", "USER"),
    ("urgency", "URG"),
    ("priority", "PRI"),
    ("name", "NAME"),
    ("cwd", "CWD"),
    ("queue", "QUEUE"),
    ("project", "PROJECT"),
    ("bank", "BANK"),
    ("ntasks", "NTASKS"),
    ("ncores", "NCORES"),
    ("nnodes", "NNODES"),
    ("duration", "DURATION"),
    ("state", "STATE"),
    ("state_single", "S"),
    ("state_emoji", "STATE"),
    ("status", "STATUS"),
    ("status_abbrev", "ST"),
    ("status_emoji", "STATUS"),
    ("result", "RESULT"),
    ("result_abbrev", "RS"),
    ("result_emoji", "RESULT"),
    ("success", "SUCCESS"),
    ("t_submit", "T_SUBMIT"),
    ("t_depend", "T_DEPEND"),
    ("t_priority", "T_PRIORITY"),
    ("t_sched", "T_SCHED"),
    ("t_run", "T_RUN"),
    ("t_cleanup", "T_CLEANUP"),
    ("t_inactive", "T_INACTIVE"),
    ("t_remaining", "T_REMAINING"),
    ("expiration", "EXPIRATION"),
    ("runtime", "RUNTIME"),
    ("ranks", "RANKS"),
    ("nodelist", "NODELIST"),
    ("waitstatus", "WSTATUS"),
    ("returncode", "RC"),
    ("exception.occurred", "EXCEPTION-OCCURRED"),
    ("exception.severity", "EXCEPTION-SEVERITY"),
    ("exception.type", "EXCEPTION-TYPE"),
    ("exception.note", "EXCEPTION-NOTE"),
    ("dependencies", "DEPENDENCIES"),
    ("contextual_info", "INFO"),
    ("contextual_time", "TIME"),
    ("inactive_reason", "INACTIVE-REASON"),
    ("why", "WHY"),
    ("annotations", "ANNOTATIONS"),
    ("sched", "SCHED"),
    ("user", "USER"),
    ("uri", "URI"),
    ("uri.local", "URI"),
    ("sched.t_estimate", "T_ESTIMATE"),
    ("sched.reason_pending", "REASON"),
    ("sched.resource_summary", "RESOURCES"),
];

/// Fields of inner managers, below `instance.`. They are empty for jobs that aren't managers.
const INSTANCE_HEADINGS: &[(&str, &str)] = &[
    ("stats", "STATS"),
    ("stats.total", "NJOBS"),
    ("utilization", "CORE%"),
    ("gpu_utilization", "GPU%"),
    ("progress", "PROG"),
    ("resources.all.nnodes", "NODES"),
    ("resources.all.ncores", "CORES"),
    ("resources.all.ngpus", "GPUS"),
];

/// The heading of `instance.NAME`.
fn instance_heading(name: &str) -> Option<Cow<'static, str>> {
    if let Some((_, heading)) = INSTANCE_HEADINGS.iter().find(|(field, _)| *field == name) {
        return Some(Cow::Borrowed(heading));
    }
    if let Some(count) = name.strip_prefix("stats.") {
        return STATS.contains(&count).then(|| Cow::Owned(name.to_uppercase()));
    }
    let nodes = name.strip_prefix("resources.")?;
    let (which, what) = nodes.split_once('.')?;
    let heading = match which {
        "all" => "ALL",
        "up" => "UP",
        "down" => "DOWN",
        "allocated" => "USED",
        "free" => "FREE",
        _ => return None,
    };
    match what {
        "nnodes" | "ncores" | "ngpus" => Some(Cow::Borrowed(heading)),
        "ranks" | "nodelist" => Some(Cow::Owned(nodes.to_uppercase())),
        _ => None,
    }
}

impl Row for JobRow<'_> {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        let (annotation, plain) = match name.strip_prefix("annotations.") {
            Some(path) => (true, path),
            None => (false, name),
        };
        // After `annotations.` only the fields of the scheduler keep their own headings.
        let listed = |(field, _): &&(&str, &str)| {
            *field == plain && (!annotation || plain.starts_with("sched."))
        };
        if let Some((_, heading)) = HEADINGS.iter().find(listed) {
            return Some(Cow::Borrowed(heading));
        }
        if let Some(rest) = name.strip_prefix("instance.") {
            return instance_heading(rest);
        }
        let of_plugin = annotation || plain.starts_with("sched.") || plain.starts_with("user.");
        let whole = plain.split('.').all(|key| !key.is_empty());
        (of_plugin && whole).then(|| Cow::Owned(plain.to_uppercase()))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let of_annotations = name
            .strip_prefix("annotations")
            .filter(|rest| rest.is_empty() || rest.starts_with('.'));
        if let Some(path) = of_annotations {
            return self.annotation(path).map(FieldValue::from_json);
        }
        match name.split('.').next() {
            Some("sched" | "user") => self.annotation(name).map(FieldValue::from_json),
            // What Flux shows for a job that is not an instance.
            Some("uri") => Some(match self.annotation("user.uri") {
                Some(uri) => FieldValue::from_json(uri),
                None => "None".into(),
            }),
            Some("id") => self.id_field(name),
            Some("exception") => self.exception_field(name),
            Some("instance") => {
                let path = name.split('.').skip(1);
                let instance = self.attributes.get("instance")?;
                if name == "instance.stats" {
                    return instance.get("stats").map(|stats| FieldValue::Text(summary(stats)));
                }
                path.into_iter()
                    .try_fold(instance, |value, key| value.get(key))
                    .map(FieldValue::from_json)
            }
            _ => self
                .time_field(name)
                .or_else(|| self.state_field(name))
                .or_else(|| self.other_field(name)),
        }
    }

    fn sort_value(&self, name: &str) -> Option<FieldValue> {
        match name {
            // The text of an id doesn't sort by the time of submission.
            "id" => self.id_field("id.dec"),
            _ => self.field(name),
        }
    }
}

impl JobRow<'_> {
    fn id_field(&self, name: &str) -> Option<FieldValue> {
        let id = self.id;
        let shown = || format!("{}{}", self.display.ids.show(id), self.indexes_shown());
        Some(FieldValue::Text(match name {
            "id" => {
                let text = shown();
                return Some(FieldValue::JobId { number: id.as_u64(), text });
            }
            "id.f58" => shown(),
            "id.dec" => return Some(FieldValue::Int(id.as_u64().into())),
            "id.hex" => id.encode(Encoding::Hex),
            "id.f58plain" => id.encode(Encoding::F58Plain),
            "id.words" => id.encode(Encoding::Words),
            "id.emoji" => id.encode(Encoding::Emoji),
            "id.kvs" => id.encode(Encoding::Kvs),
            "id.dothex" => id.encode(Encoding::DotHex),
            _ => return None,
        }))
    }

    fn exception_field(&self, name: &str) -> Option<FieldValue> {
        let attribute = match name {
            "exception.occurred" => "exception_occurred",
            "exception.severity" => "exception_severity",
            "exception.type" => "exception_type",
            "exception.note" => "exception_note",
            _ => return None,
        };
        self.attributes.get(attribute).map(FieldValue::from_json)
    }

    /// Times and durations, which are zero while they aren't known.
    fn time_field(&self, name: &str) -> Option<FieldValue> {
        Some(FieldValue::Float(match name {
            "t_submit" | "t_depend" | "t_priority" | "t_sched" | "t_run" | "t_cleanup"
            | "t_inactive" | "expiration" | "duration" => self.float(name),
            "t_remaining" => self.remaining(),
            "runtime" => self.runtime(),
            "contextual_time" => self.contextual_time(),
            _ => return None,
        }))
    }

    fn state_field(&self, name: &str) -> Option<FieldValue> {
        let state = |show: fn(State) -> &'static str| self.state.map(show);
        let result = |show: fn(JobResult) -> &'static str| self.final_result().map(show);
        Some(FieldValue::from(match name {
            "state" => state(State::long_name)?,
            "state_single" => state(State::short_name)?,
            "state_emoji" => state(state_emoji)?,
            "result" => result(JobResult::long_name)?,
            "result_abbrev" => result(JobResult::short_name)?,
            // As wide as an emoji, so that columns stay aligned.
            "result_emoji" => result(result_emoji).unwrap_or("\u{3000}"),
            "status" => self.status(),
            "status_abbrev" => self.status_abbrev(),
            "status_emoji" => self.status_emoji(),
            _ => return None,
        }))
    }

    fn other_field(&self, name: &str) -> Option<FieldValue> {
        match name {
            "username" => self.username().map(FieldValue::Text),
            "returncode" => self.returncode().map(|code| FieldValue::Int(code.into())),
            "dependencies" => Some(FieldValue::Text(self.dependencies().join(","))),
            "contextual_info" => Some(FieldValue::Text(self.contextual_info())),
            "inactive_reason" => Some(FieldValue::Text(self.inactive_reason())),
            "state" | "result" => None,
            _ => match self.attributes.get(name)? {
                Value::Object(_) | Value::Array(_) => None,
                value => Some(FieldValue::from_json(value)),
            },
        }
    }
}
