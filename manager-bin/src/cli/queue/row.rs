//! The fields of `queue list` that an output format can name, with their headings and values.

use std::borrow::Cow;

use crate::cli::common::format::{FieldValue, Row};
use crate::rpc::services::queue::{Queue, Size};

/// A listed queue.
#[derive(Debug, Clone)]
pub(super) struct QueueRow {
    pub(super) queue: Queue,
    /// Whether the fields `color_...` have values.
    pub(super) color: bool,
}

const HEADINGS: &[(&str, &str)] = &[
    ("queue", "QUEUE"),
    ("queuem", "QUEUE"),
    ("parent", "PARENT"),
    ("submission", "SUBMIT"),
    ("scheduling", "SCHED"),
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

/// Whether jobs of a queue are scheduled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scheduling {
    Started,
    Stopped,
    /// The queue is started, but its parent is stopped.
    StoppedByParent,
}

impl Row for QueueRow {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        if let Some((_, heading)) = HEADINGS.iter().find(|(field, _)| *field == name) {
            return Some(Cow::Borrowed(heading));
        }
        let (group, kind) = name.rsplit_once('.')?;
        let kind = KINDS.contains(&kind).then(|| kind.to_uppercase())?;
        // NNODES, NCORES or NGPUS without the N of "number".
        let plural = kind.strip_prefix('N').unwrap_or_default();
        Some(Cow::Owned(match group {
            "limits.min" => format!("MIN{plural}"),
            "limits.max" => format!("MAX{plural}"),
            "limits.range" | "limits.range.effective" => kind,
            "resources.all" => plural.to_owned(),
            "resources.up" => format!("{plural}:UP"),
            "resources.down" => format!("{plural}:DOWN"),
            "resources.allocated" => format!("{plural}:ALLOC"),
            "resources.free" => format!("{plural}:FREE"),
            _ => return None,
        }))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let queue = self.name();
        Some(match name {
            "queue" => queue.into(),
            "queuem" if self.queue.default => format!("{queue}*").into(),
            "queuem" => queue.into(),
            "parent" => self.queue.status.parent.as_deref().unwrap_or_default().into(),
            "submission" => if self.is_enabled() { "enabled" } else { "disabled" }.into(),
            "scheduling" => self.scheduling_word().into(),
            "enabled" => if self.is_enabled() { "✔" } else { "✗" }.into(),
            "enabled.ascii" => if self.is_enabled() { "y" } else { "n" }.into(),
            "started" => self.started("✔", "✗", "⏸").into(),
            "started.ascii" => self.started("y", "n", "p").into(),
            "color_enabled" => self.colored(if self.is_enabled() { GREEN } else { RED }),
            "color_started" => self.colored(self.started(GREEN, RED, YELLOW)),
            "color_off" => self.colored(OFF),
            "defaults.timelimit" => timelimit(self.queue.defaults.timelimit),
            "limits.timelimit" => timelimit(self.queue.limits.timelimit),
            name => return self.numbers(name),
        })
    }
}

impl QueueRow {
    /// The name of the queue. Empty for the anonymous queue.
    pub(super) fn name(&self) -> &str {
        &self.queue.name
    }

    fn is_enabled(&self) -> bool {
        self.queue.status.enable == Some(true)
    }

    fn scheduling(&self) -> Scheduling {
        let status = &self.queue.status;
        match (status.start, status.blocked.as_deref()) {
            (Some(true), _) => Scheduling::Started,
            (_, Some("parent")) => Scheduling::StoppedByParent,
            _ => Scheduling::Stopped,
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

    /// The fields whose last part is a kind of resource.
    fn numbers(&self, name: &str) -> Option<FieldValue> {
        let (group, kind) = name.rsplit_once('.')?;
        let number = |size: &Size| match kind {
            "nnodes" => size.nnodes,
            "ncores" => size.ncores,
            "ngpus" => size.ngpus,
            _ => None,
        };
        let Queue { limits, resources, .. } = &self.queue;
        let or_inf = |most: Option<i64>| match most {
            Some(most) => FieldValue::Int(most.into()),
            None => FieldValue::Float(f64::INFINITY),
        };
        let (least, most) = (number(&limits.min).unwrap_or(0), number(&limits.max));
        Some(match group {
            "limits.min" => FieldValue::Int(least.into()),
            "limits.max" => or_inf(most),
            "limits.range" => format!("{least}-{}", or_inf(most).text()).into(),
            "limits.range.effective" => {
                let there = number(&resources.all);
                let most = [most, there].into_iter().flatten().min();
                format!("{least}-{}", or_inf(most).text()).into()
            }
            group => {
                let size = match group {
                    "resources.all" => &resources.all,
                    "resources.up" => &resources.up,
                    "resources.down" => &resources.down,
                    "resources.allocated" => &resources.allocated,
                    "resources.free" => &resources.free,
                    _ => return None,
                };
                FieldValue::Int(number(size)?.into())
            }
        })
    }
}

fn timelimit(limit: Option<f64>) -> FieldValue {
    FieldValue::Float(limit.unwrap_or(f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn row(more: Value) -> QueueRow {
        let mut queue = json!({
            "name": "batch", "default": true, "enable": true, "start": false,
            "defaults": {"timelimit": null}, "limits": {"timelimit": 3600.0,
            "min": {"nnodes": null}, "max": {"nnodes": 8}},
            "resources": {"all": {"nnodes": 4}, "free": {"nnodes": 3}},
        });
        queue.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        QueueRow { queue: serde_json::from_value(queue).unwrap(), color: false }
    }

    fn text(row: &QueueRow, field: &str) -> String {
        row.field(field).unwrap().text()
    }

    #[test]
    fn a_queue_stopped_by_its_parent_differs_from_a_stopped_one() {
        let stopped = row(json!({}));
        assert_eq!(text(&stopped, "scheduling"), "stopped");
        assert_eq!(text(&stopped, "started.ascii"), "n");
        let by_parent = row(json!({"blocked": "parent", "parent": "day"}));
        assert_eq!(text(&by_parent, "scheduling"), "stopped (parent)");
        assert_eq!(
            (text(&by_parent, "started"), text(&by_parent, "parent")),
            ("⏸".into(), "day".into())
        );
    }

    #[test]
    fn effective_limits_are_bounded_by_resources() {
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
