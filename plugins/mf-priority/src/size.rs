//! How many nodes and cores a job asks for, as flux-accounting counts them.

use serde::Serialize;
use serde_json::Value;

/// The nodes and cores of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Size {
    #[serde(rename = "nnodes")]
    pub(crate) nodes: i64,
    #[serde(rename = "ncores")]
    pub(crate) cores: i64,
}

/// The job asks for no number of nodes and cores.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotCountable;

/// What the vertices of a jobspec say. Of several vertices of one type, the last counts.
#[derive(Default)]
struct Found {
    nodes: i64,
    slots: i64,
    cores_of_slot: i64,
}

impl Size {
    /// Counts the resources of a jobspec.
    pub(crate) fn of_jobspec(jobspec: &Value) -> Result<Self, NotCountable> {
        let resources = jobspec.get("resources").and_then(Value::as_array).ok_or(NotCountable)?;
        let mut found = Found::default();
        found.walk(resources, 1)?;
        let Found { nodes, slots, cores_of_slot } = found;
        let slots = if nodes == 0 { slots } else { slots.saturating_mul(nodes) };
        let cores = slots.saturating_mul(cores_of_slot);
        // Cores without nodes are on one, at least.
        match cores > 0 {
            true => Ok(Self { nodes: nodes.max(1), cores }),
            false => Err(NotCountable),
        }
    }
}

impl Found {
    fn walk(&mut self, vertices: &[Value], outer: i64) -> Result<(), NotCountable> {
        for vertex in vertices {
            let kind = vertex.get("type").and_then(Value::as_str).ok_or(NotCountable)?;
            let count = vertex.get("count").and_then(Value::as_i64);
            let count = count.filter(|count| *count > 0).ok_or(NotCountable)?;
            let all = outer.saturating_mul(count);
            match kind {
                "node" => self.nodes = all,
                "slot" => self.slots = count,
                "core" => self.cores_of_slot = count,
                _ => {}
            }
            if let Some(with) = vertex.get("with") {
                self.walk(with.as_array().ok_or(NotCountable)?, all)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn size(resources: Value) -> Result<(i64, i64), NotCountable> {
        let size = Size::of_jobspec(&json!({ "resources": resources }))?;
        Ok((size.nodes, size.cores))
    }

    fn slot(count: i64, cores: i64) -> Value {
        let core = json!({"type": "core", "count": cores});
        json!({"type": "slot", "count": count, "with": [core], "label": "task"})
    }

    #[test]
    fn nodes_and_cores_are_multiplied_out() {
        assert_eq!(size(json!([slot(64, 1)])), Ok((1, 64)));
        let two = json!([{"type": "node", "count": 2, "with": [slot(1, 1)]}]);
        assert_eq!(size(two), Ok((2, 2)));
        let four = json!([{"type": "node", "count": 2, "with": [slot(3, 4)]}]);
        assert_eq!(size(four), Ok((2, 24)));
        let racks = json!([{"type": "rack", "count": 2, "with": [
            {"type": "node", "count": 3, "with": [slot(1, 5)]},
        ]}]);
        assert_eq!(size(racks), Ok((6, 30)));
    }

    #[test]
    fn what_is_no_count_is_not_countable() {
        let range = json!([{"type": "slot", "count": {"min": 1}, "with": []}]);
        let no_core = json!([{"type": "slot", "count": 1, "with": [{"type": "gpu", "count": 1}]}]);
        for resources in [json!({}), json!([]), range, no_core, json!([slot(0, 1)])] {
            assert_eq!(size(resources.clone()), Err(NotCountable), "{resources}");
        }
    }
}
