//! A queue as a row of a listing: the fields of `queue list` by name.

use std::borrow::Cow;

use serde_json::Value;

use super::super::format::{FieldValue, Row};

/// A queue as the manager tells of it.
#[derive(Debug, Clone)]
pub(super) struct QueueRow {
    pub(super) queue: Value,
    /// Whether words are coloured.
    pub(super) color: bool,
}

const HEADINGS: &[(&str, &str)] = &[
    ("queue", "QUEUE"),
    ("queuem", "QUEUE"),
    ("parent", "PARENT"),
    ("submission", "SUBMISSION"),
    ("scheduling", "SCHEDULING"),
    ("enabled", "EN"),
    ("enabled.ascii", "EN"),
    ("started", "ST"),
    ("started.ascii", "ST"),
    ("color_enabled", ""),
    ("color_started", ""),
    ("color_off", ""),
    ("defaults.timelimit", "TDEFAULT"),
    ("limits.timelimit", "TLIMIT"),
];

const KINDS: [&str; 3] = ["nnodes", "ncores", "ngpus"];

const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const YELLOW: &str = "\x1b[33m";
const OFF: &str = "\x1b[0;0m";

/// A queue's scheduling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheduling {
    Started,
    Stopped,
    /// Only the parent is stopped.
    StoppedByParent,
}

impl Row for QueueRow {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        if let Some((_, heading)) = HEADINGS.iter().find(|(field, _)| *field == name) {
            return Some(Cow::Borrowed(heading));
        }
        let (group, kind) = name.rsplit_once('.')?;
        let kind = KINDS.contains(&kind).then(|| kind.to_uppercase())?;
        // What these are about, without the N of "number".
        let things = kind.strip_prefix('N').unwrap_or_default();
        Some(Cow::Owned(match group {
            "limits.min" => format!("MIN{things}"),
            "limits.max" => format!("MAX{things}"),
            "limits.range" | "limits.range.effective" => kind,
            "resources.all" => things.to_owned(),
            "resources.up" => format!("{things}:UP"),
            "resources.down" => format!("{things}:DOWN"),
            "resources.allocated" => format!("{things}:ALLOC"),
            "resources.free" => format!("{things}:FREE"),
            _ => return None,
        }))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let queue = self.text("name");
        Some(match name {
            "queue" => queue.into(),
            "queuem" if self.truth("default") => format!("{queue}*").into(),
            "queuem" => queue.into(),
            "parent" => self.text("parent").into(),
            "submission" => if self.truth("enable") { "enabled" } else { "disabled" }.into(),
            "scheduling" => self.scheduling_word().into(),
            "enabled" => if self.truth("enable") { "✔" } else { "✗" }.into(),
            "enabled.ascii" => if self.truth("enable") { "y" } else { "n" }.into(),
            "started" => self.started("✔", "✗", "⏸").into(),
            "started.ascii" => self.started("y", "n", "p").into(),
            "color_enabled" => self.colored(if self.truth("enable") { GREEN } else { RED }),
            "color_started" => self.colored(self.started(GREEN, RED, YELLOW)),
            "color_off" => self.colored(OFF),
            "defaults.timelimit" => self.timelimit("/defaults/timelimit"),
            "limits.timelimit" => self.timelimit("/limits/timelimit"),
            name => return self.numbers(name),
        })
    }
}

impl QueueRow {
    /// The queue's name; empty for the anonymous one.
    pub(super) fn name(&self) -> &str {
        self.text("name")
    }

    fn text(&self, key: &str) -> &str {
        self.queue.get(key).and_then(Value::as_str).unwrap_or_default()
    }

    fn truth(&self, key: &str) -> bool {
        self.queue.get(key).and_then(Value::as_bool) == Some(true)
    }

    fn scheduling(&self) -> Scheduling {
        match (self.truth("start"), self.text("blocked")) {
            (true, _) => Scheduling::Started,
            (false, "parent") => Scheduling::StoppedByParent,
            (false, _) => Scheduling::Stopped,
        }
    }

    fn scheduling_word(&self) -> &'static str {
        self.started("started", "stopped", "stopped (parent)")
    }

    fn started(
        &self,
        started: &'static str,
        stopped: &'static str,
        by_parent: &'static str,
    ) -> &'static str {
        match self.scheduling() {
            Scheduling::Started => started,
            Scheduling::Stopped => stopped,
            Scheduling::StoppedByParent => by_parent,
        }
    }

    fn colored(&self, color: &str) -> FieldValue {
        if self.color { color.into() } else { FieldValue::empty() }
    }

    fn timelimit(&self, pointer: &str) -> FieldValue {
        let limit = self.queue.pointer(pointer).and_then(Value::as_f64);
        FieldValue::Float(limit.unwrap_or(f64::INFINITY))
    }

    /// The fields that end in a kind of resource.
    fn numbers(&self, name: &str) -> Option<FieldValue> {
        let (group, kind) = name.rsplit_once('.')?;
        let number = |group: &str| {
            let pointer = format!("/{}/{kind}", group.replace('.', "/"));
            self.queue.pointer(&pointer).and_then(Value::as_i64)
        };
        let or_inf = |most: Option<i64>| match most {
            Some(most) => FieldValue::Int(most.into()),
            None => FieldValue::Float(f64::INFINITY),
        };
        let (least, most) = (number("limits.min").unwrap_or(0), number("limits.max"));
        Some(match group {
            "limits.min" => FieldValue::Int(least.into()),
            "limits.max" => or_inf(most),
            "limits.range" => format!("{least}-{}", or_inf(most).text()).into(),
            "limits.range.effective" => {
                let there = number("resources.all");
                let most = [most, there].into_iter().flatten().min();
                format!("{least}-{}", or_inf(most).text()).into()
            }
            group => FieldValue::Int(number(group)?.into()),
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn row(more: Value) -> QueueRow {
        let mut queue = json!({
            "name": "batch", "default": true, "enable": true, "start": false,
            "defaults": {"timelimit": null}, "limits": {"timelimit": 3600.0,
            "min": {"nnodes": null}, "max": {"nnodes": 8}},
            "resources": {"all": {"nnodes": 4}, "free": {"nnodes": 3}},
        });
        queue.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        QueueRow { queue, color: false }
    }

    fn text(row: &QueueRow, field: &str) -> String {
        row.field(field).unwrap().text()
    }

    #[test]
    fn a_queue_held_by_its_parent_is_told_from_a_stopped_one() {
        let stopped = row(json!({}));
        assert_eq!(text(&stopped, "scheduling"), "stopped");
        assert_eq!(text(&stopped, "started.ascii"), "n");
        let held = row(json!({"blocked": "parent", "parent": "day"}));
        assert_eq!(text(&held, "scheduling"), "stopped (parent)");
        assert_eq!((text(&held, "started"), text(&held, "parent")), ("⏸".into(), "day".into()));
    }

    #[test]
    fn limits_are_bounded_by_what_is_there() {
        let row = row(json!({}));
        assert_eq!(text(&row, "limits.range.nnodes"), "0-8");
        assert_eq!(text(&row, "limits.range.effective.nnodes"), "0-4");
        assert_eq!(text(&row, "limits.range.ngpus"), "0-inf");
        assert_eq!(text(&row, "limits.max.ncores"), "inf");
        assert_eq!(text(&row, "defaults.timelimit"), "inf");
        assert_eq!(text(&row, "limits.timelimit"), "3600.0");
    }

    #[test]
    fn every_field_has_a_heading() {
        let heading = |name| QueueRow::heading(name).unwrap().into_owned();
        assert_eq!(heading("limits.min.nnodes"), "MINNODES");
        assert_eq!(heading("limits.range.effective.ncores"), "NCORES");
        assert_eq!(heading("resources.allocated.nnodes"), "NODES:ALLOC");
        assert_eq!(heading("resources.all.ngpus"), "GPUS");
        assert!(QueueRow::heading("resources.all.nosuch").is_none());
        assert!(QueueRow::heading("nosuch.nnodes").is_none());
    }
}
