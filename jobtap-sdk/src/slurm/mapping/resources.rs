//! The `resources` section: nodes, tasks, CPUs and GPUs.
//!
//! Slurm's numbers describe what the job needs; a jobspec says how it is laid out, in slots on nodes. A
//! jobspec of version 1 has one number of nodes, cores and GPUs and nothing else, so ranges of nodes,
//! memory, sockets and other resources are kept in addition.

use super::place::Group;
use super::remove;
use super::tres;
use crate::jobspec::{Counts, JobspecError, path};
use crate::slurm::constants::JOB_SHARED_NONE;
use crate::slurm::descriptor::JobDescriptor;
use serde_json::{Map, Value, json};

const PER_RESOURCE: &str = "attributes.system.shell.options.per-resource";

/// How a job that asks for GPUs of each node runs its tasks in one slot of each node.
const IN_ONE_SLOT: &str = "gpu in the slot of each node, tasks by shell.options.per-resource";

pub(super) const GROUP: Group = Group {
    fields: &[
        ("min_nodes", "resources: node count"),
        ("max_nodes", "resources: node count, if it is min_nodes"),
        ("num_tasks", "resources: slot count, tasks count"),
        ("ntasks_per_node", "resources: slot count in a node"),
        ("cpus_per_task", "resources: core count in a slot"),
        ("min_cpus", "resources: core count in a slot, at least as many in total"),
        ("shared", "resources: exclusive of node, if it is 0"),
        ("tres_per_job", "resources: gpu count, divided by tasks or nodes"),
        ("tres_per_node", IN_ONE_SLOT),
        ("tres_per_task", "resources: gpu count in a slot"),
    ],
    read,
    same: |a, b| Layout::from_descriptor(a) == Layout::from_descriptor(b),
    put: |_, desc, jobspec| Layout::from_descriptor(desc).put(jobspec),
};

/// The resources and tasks that a description asks for, as a jobspec lays them out.
#[derive(Debug, PartialEq, Eq)]
struct Layout {
    /// The number of nodes; 0 leaves it to the scheduler.
    nodes: u64,
    exclusive: bool,
    /// The slots of each node, or of the job if the number of nodes is open.
    slots: u64,
    cores: u64,
    gpus: u64,
    tasks: u64,
    /// Whether all tasks of a node run in its one slot.
    in_one_slot: bool,
}

/// A number of GPUs, for each task or for each node.
enum Gpus {
    Task(u64),
    Node(u64),
}

impl Layout {
    fn from_descriptor(desc: &JobDescriptor) -> Self {
        let number = |number: Option<u32>| number.filter(|number| *number > 0).map(u64::from);
        let per_node = desc.ntasks_per_node.filter(|tasks| *tasks > 0).map(u64::from);
        let asked_nodes = number(desc.min_nodes);
        let tasks = number(desc.num_tasks)
            .or(per_node.map(|tasks| asked_nodes.unwrap_or(1).saturating_mul(tasks)))
            .or(asked_nodes)
            .unwrap_or(1);
        let mut nodes = asked_nodes.or(per_node.map(|each| tasks.div_ceil(each)));
        let alone = desc.shared == Some(JOB_SHARED_NONE);
        if nodes.is_none() && alone && tasks == 1 {
            nodes = Some(1);
        }
        let gpus = gpus(desc, tasks, &mut nodes);
        let nodes = nodes.unwrap_or(0);
        let tasks = tasks.max(nodes);
        let least = number(desc.min_cpus).unwrap_or(0).div_ceil(tasks);
        let cores = u64::from(desc.cpus_per_task.unwrap_or(1)).max(least).max(1);
        let slots = tasks.div_ceil(nodes.max(1));
        let exclusive = alone && nodes > 0;
        match gpus {
            // With one task per node, its slot has the node's GPUs.
            Gpus::Node(gpus) if slots > 1 => Self {
                nodes,
                exclusive,
                slots: 1,
                cores: cores.saturating_mul(slots),
                gpus,
                tasks: nodes.saturating_mul(slots),
                in_one_slot: true,
            },
            Gpus::Node(gpus) | Gpus::Task(gpus) => {
                Self { nodes, exclusive, slots, cores, gpus, tasks, in_one_slot: false }
            }
        }
    }

    fn put(&self, jobspec: &mut Value) -> Result<(), JobspecError> {
        let old = jobspec.get("resources").cloned().unwrap_or_default();
        let (old_node, old_slot) = (vertex(&old, "node"), vertex(&old, "slot"));
        let child = |kind: &str, count: u64| {
            let of_kind = |child: &&Value| child.get("type").is_some_and(|found| found == kind);
            let with = old_slot.get("with").and_then(Value::as_array);
            let old = with.and_then(|with| with.iter().find(of_kind)).and_then(Value::as_object);
            let mut child = old.cloned().unwrap_or_default();
            child.insert("type".to_owned(), kind.into());
            child.insert("count".to_owned(), count.into());
            Value::Object(child)
        };
        let mut with = vec![child("core", self.cores)];
        if self.gpus > 0 {
            with.push(child("gpu", self.gpus));
        }
        let mut slot = old_slot.clone();
        let label = slot.get("label").cloned().unwrap_or_else(|| "task".into());
        slot.extend(members(
            json!({"type": "slot", "count": self.slots, "with": with, "label": label}),
        ));
        let mut top = slot;
        if self.nodes > 0 {
            let mut node = old_node;
            node.extend(members(json!({"type": "node", "count": self.nodes, "with": [top]})));
            node.shift_remove("exclusive");
            if self.exclusive {
                node.insert("exclusive".to_owned(), true.into());
            }
            top = node;
        }
        path::set(jobspec, "resources", json!([top]))?;
        let count =
            match self.slots.saturating_mul(self.nodes.max(1)) == self.tasks || self.in_one_slot {
                true => json!({"per_slot": 1}),
                false => json!({"total": self.tasks}),
            };
        if let Some(task) = jobspec.pointer_mut("/tasks/0").and_then(Value::as_object_mut) {
            task.insert("count".to_owned(), count);
            task.insert("slot".to_owned(), label);
        }
        remove(jobspec, PER_RESOURCE);
        if self.in_one_slot {
            let each = self.tasks / self.nodes.max(1);
            path::set(jobspec, PER_RESOURCE, json!({"type": "node", "count": each}))?;
        }
        Ok(())
    }
}

/// The GPUs of a description. If they are counted per node and the number of nodes is open, that number
/// becomes 1.
fn gpus(desc: &JobDescriptor, tasks: u64, nodes: &mut Option<u64>) -> Gpus {
    let count = |text: &Option<String>| text.as_deref().and_then(tres::gpus);
    if let Some(each) = count(&desc.tres_per_task) {
        return Gpus::Task(each);
    }
    if let Some(each) = count(&desc.tres_per_node) {
        nodes.get_or_insert(1);
        return Gpus::Node(each);
    }
    match (count(&desc.tres_per_job), *nodes) {
        (None | Some(0), _) => Gpus::Task(0),
        (Some(all), _) if all % tasks.max(nodes.unwrap_or(1)) == 0 => {
            Gpus::Task(all / tasks.max(nodes.unwrap_or(1)))
        }
        (Some(all), _) => Gpus::Node(all.div_ceil(*nodes.get_or_insert(1))),
    }
}

fn read(jobspec: &Value, desc: &mut JobDescriptor) {
    let Ok(counts) = Counts::from_jobspec(jobspec) else { return };
    let u32 = |number: u64| u32::try_from(number).ok();
    if counts.nnodes > 0 {
        desc.min_nodes = u32(counts.nnodes);
        desc.max_nodes = desc.min_nodes;
    }
    if counts.exclusive {
        desc.shared = Some(JOB_SHARED_NONE);
    }
    desc.num_tasks = u32(counts.ntasks);
    let per_resource = path::get(jobspec, PER_RESOURCE);
    let of_node = per_resource.filter(|per| per.get("type").is_some_and(|kind| kind == "node"));
    let each = of_node.and_then(|per| per.get("count")).and_then(Value::as_u64);
    let gpus = (counts.slot_gpus > 0).then(|| format!("gres:gpu:{}", counts.slot_gpus));
    let cores = match each.filter(|each| *each > 0 && counts.nslots == counts.nnodes) {
        Some(each) => {
            desc.ntasks_per_node = u16::try_from(each).ok();
            desc.tres_per_node = gpus;
            counts.slot_size.div_ceil(each)
        }
        None => {
            desc.tres_per_task = gpus;
            counts.slot_size
        }
    };
    desc.cpus_per_task = u16::try_from(cores).ok().filter(|cores| *cores > 1);
    desc.min_cpus = u32(counts.ntasks.saturating_mul(cores));
}

/// The first vertex of a type, from the top; empty if there is none.
fn vertex(resources: &Value, kind: &str) -> Map<String, Value> {
    let mut list = resources.as_array();
    // A jobspec of version 1 is not deeper.
    for _ in 0..3 {
        let Some(first) = list.and_then(|list| list.first()) else { break };
        if first.get("type").is_some_and(|found| found == kind) {
            return first.as_object().cloned().unwrap_or_default();
        }
        list = first.get("with").and_then(Value::as_array);
    }
    Map::new()
}

fn members(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}
