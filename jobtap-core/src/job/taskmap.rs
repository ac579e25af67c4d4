//! Which node runs which task of a job (RFC 34), in the forms that tools exchange it in.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;

use crate::resource::Idset;

/// More tasks or nodes than any job has; a map of a few bytes could name billions.
const MAX: u64 = 1 << 20;

/// Why a text or value is no map of tasks.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TaskMapError(String);

/// `repeat` times: `nodes` nodes from `node` on get the next `tasks` tasks each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    node: u64,
    nodes: u64,
    tasks: u64,
    repeat: u64,
}

/// Which node of a job runs which of its tasks (RFC 34). Nodes are numbered from 0 within the job.
///
/// ```
/// use jobtap_core::job::TaskMap;
///
/// let map: TaskMap = "0-1;2-3;4".parse().unwrap();
/// assert_eq!(map.to_string(), "[[0,2,2,1],[2,1,1,1]]");
/// assert_eq!(map.to_pmi(), "(vector,(0,2,2),(2,1,1))");
/// assert_eq!((map.node_of(3), map.node_of(5)), (Some(1), None));
/// ```
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TaskMap {
    blocks: Vec<Block>,
}

impl TaskMap {
    /// Reads `[[node, nodes, tasks, repeat], ..]`, also as the `map` of an object of version 1.
    ///
    /// # Errors
    /// Says which entry isn't one.
    pub fn from_value(value: &Value) -> Result<Self, TaskMapError> {
        let error = |text: String| Err(TaskMapError(text));
        let entries = match value {
            Value::Array(entries) => entries,
            Value::Object(object) => {
                let version = object.get("version").and_then(Value::as_i64);
                match (version, object.get("map").and_then(Value::as_array)) {
                    (Some(1), Some(entries)) => entries,
                    (Some(1), None) => return error("taskmap has no array map".to_owned()),
                    (version, _) => {
                        return error(format!("expected version=1, got {}", version.unwrap_or(0)));
                    }
                }
            }
            _ => return error("taskmap must be an object or array".to_owned()),
        };
        let mut map = Self::default();
        for (at, entry) in entries.iter().enumerate() {
            let Some(numbers) = entry.as_array() else {
                return error(format!("entry {at} in taskmap is not an array"));
            };
            let numbers: Option<Vec<u64>> = numbers.iter().map(Value::as_u64).collect();
            match numbers.as_deref() {
                Some(&[node, nodes, tasks, repeat]) if nodes > 0 && tasks > 0 && repeat > 0 => {
                    // Kept as it is given, also where it could be said shorter.
                    map.blocks.push(Block { node, nodes, tasks, repeat });
                }
                _ => return error(format!("invalid entry {entry}")),
            }
        }
        map.bounded()
    }

    /// The task ids of each node, joined by `;`.
    pub fn to_raw(&self) -> String {
        self.tasks().iter().map(Idset::to_string).collect::<Vec<_>>().join(";")
    }

    /// The form of the process management interface, in which repeats are spelled out.
    pub fn to_pmi(&self) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            for _ in 0..block.repeat {
                text += &format!(",({},{},{})", block.node, block.nodes, block.tasks);
            }
        }
        if text.is_empty() { text } else { format!("(vector{text})") }
    }

    /// How many nodes there are.
    pub fn nnodes(&self) -> u64 {
        let ends = self.blocks.iter().map(|block| block.node.saturating_add(block.nodes));
        ends.max().unwrap_or(0)
    }

    /// How many tasks there are.
    pub fn ntasks(&self) -> u64 {
        let tasks =
            |block: &Block| block.nodes.saturating_mul(block.tasks).saturating_mul(block.repeat);
        self.blocks.iter().map(tasks).fold(0, u64::saturating_add)
    }

    /// The tasks of each node, by the number of the node.
    pub fn tasks(&self) -> Vec<Idset> {
        let mut all: Vec<Idset> = (0..self.nnodes()).map(|_| Idset::new()).collect();
        for (node, first, count) in self.runs() {
            let range = u32::try_from(first).ok().zip(u32::try_from(first + count - 1).ok());
            let node = usize::try_from(node).ok().and_then(|node| all.get_mut(node));
            if let Some((node, (first, last))) = node.zip(range) {
                node.insert_range(first..=last);
            }
        }
        all
    }

    /// The node that runs a task.
    pub fn node_of(&self, task: u64) -> Option<u64> {
        let mut runs = self.runs();
        runs.find(|(_, first, count)| (*first..first + count).contains(&task)).map(|run| run.0)
    }

    /// Node, first task and number of tasks, in the order of tasks.
    fn runs(&self) -> impl Iterator<Item = (u64, u64, u64)> {
        let mut next = 0;
        let rounds = self.blocks.iter().flat_map(|block| (0..block.repeat).map(move |_| block));
        let parts = rounds.flat_map(|block| {
            (block.node..block.node + block.nodes).map(move |node| (node, block.tasks))
        });
        parts.map(move |(node, tasks)| {
            next += tasks;
            (node, next - tasks, tasks)
        })
    }

    /// Adds tasks behind the others, in as few blocks as can be.
    fn push(&mut self, node: u64, nodes: u64, tasks: u64) {
        let Some(last) = self.blocks.last_mut() else {
            return self.blocks.push(Block { node, nodes, tasks, repeat: 1 });
        };
        if node == last.node.saturating_add(last.nodes) && tasks == last.tasks && last.repeat == 1 {
            last.nodes = last.nodes.saturating_add(nodes);
        } else if node == last.node && (nodes, last.nodes, last.repeat) == (1, 1, 1) {
            last.tasks = last.tasks.saturating_add(tasks);
        } else if (node, nodes, tasks) == (last.node, last.nodes, last.tasks) {
            last.repeat += 1;
        } else {
            self.blocks.push(Block { node, nodes, tasks, repeat: 1 });
        }
        self.merge();
    }

    fn merge(&mut self) {
        if let [.., before, last] = self.blocks.as_mut_slice()
            && (before.node, before.nodes, before.tasks) == (last.node, last.nodes, last.tasks)
        {
            before.repeat += last.repeat;
            self.blocks.pop();
        }
    }

    fn bounded(self) -> Result<Self, TaskMapError> {
        if self.ntasks() > MAX || self.nnodes() > MAX {
            return Err(TaskMapError(format!("more than {MAX} tasks or nodes")));
        }
        Ok(self)
    }

    fn from_raw(text: &str) -> Result<Self, TaskMapError> {
        let mut tasks: Vec<(u32, u64)> = Vec::new();
        for (node, part) in (0u64..).zip(text.split(';')) {
            let ids: Idset = if part.trim().is_empty() {
                Idset::new()
            } else {
                part.parse().map_err(|error| TaskMapError(format!("{part:?}: {error}")))?
            };
            if tasks.len() as u64 + ids.len() as u64 > MAX || node > MAX {
                return Err(TaskMapError(format!("more than {MAX} tasks or nodes")));
            }
            tasks.extend(ids.iter().map(|task| (task, node)));
        }
        tasks.sort_unstable();
        check_ids(&tasks)?;
        let mut map = Self::default();
        for run in tasks.chunk_by(|(_, before), (_, node)| before == node) {
            if let Some((_, node)) = run.first() {
                map.push(*node, 1, run.len() as u64);
            }
        }
        Ok(map)
    }

    fn from_pmi(text: &str) -> Result<Self, TaskMapError> {
        let error = |text: String| Err(TaskMapError(text));
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut map = Self::default();
        if plain.is_empty() {
            return Ok(map);
        }
        let Some(mut rest) = plain.strip_prefix("(vector").and_then(|rest| rest.strip_suffix(')'))
        else {
            return error("vector prefix must precede blocklist".to_owned());
        };
        while !rest.is_empty() {
            let block = rest.strip_prefix(",(").and_then(|rest| rest.split_once(')'));
            let Some((block, after)) = block else {
                let place = rest.trim_start_matches(',');
                return error(format!("unable to parse block: {place}"));
            };
            let numbers: Result<Vec<u64>, _> = block.split(',').map(str::parse).collect();
            match numbers.as_deref() {
                Ok(&[node, nodes, tasks]) if nodes > 0 && tasks > 0 => map.push(node, nodes, tasks),
                _ => return error(format!("invalid number in block: ({block})")),
            }
            rest = after;
        }
        map.bounded()
    }
}

/// Whether tasks, in their order, are numbered from 0, each once.
fn check_ids(tasks: &[(u32, u64)]) -> Result<(), TaskMapError> {
    let ids: Idset = tasks.iter().map(|(task, _)| *task).collect();
    let twice = tasks.windows(2).filter_map(|pair| match pair {
        [(before, _), (task, _)] if before == task => Some(*task),
        _ => None,
    });
    let twice: Idset = twice.collect();
    let mut missing = Idset::new();
    let mut next = 0;
    for task in ids.iter() {
        if task > next {
            missing.insert_range(next..=task - 1);
        }
        next = task.saturating_add(1);
    }
    let word = |ids: &Idset| if ids.len() == 1 { "taskid" } else { "taskids" };
    if !twice.is_empty() {
        return Err(TaskMapError(format!("duplicate {} specified: {twice}", word(&twice))));
    }
    if !missing.is_empty() {
        return Err(TaskMapError(format!("missing {}: {missing}", word(&missing))));
    }
    Ok(())
}

impl FromStr for TaskMap {
    type Err = TaskMapError;

    /// Reads any of the three forms.
    fn from_str(text: &str) -> Result<Self, TaskMapError> {
        if text.trim().is_empty() || text.contains("vector,") {
            return Self::from_pmi(text);
        }
        if !text.contains(['(', '{', '[', ']', '}', ')']) {
            return Self::from_raw(text);
        }
        let value = serde_json::from_str(text).map_err(|error| TaskMapError(error.to_string()))?;
        Self::from_value(&value)
    }
}

impl fmt::Display for TaskMap {
    /// As an array of blocks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let block = |b: &Block| format!("[{},{},{},{}]", b.node, b.nodes, b.tasks, b.repeat);
        write!(f, "[{}]", self.blocks.iter().map(block).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests;
