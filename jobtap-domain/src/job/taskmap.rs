//! Task maps (RFC 34): which node runs which task of a job.

use std::fmt;
use std::str::FromStr;

use serde_json::{Value, json};

use crate::resource::{Idset, IdsetError};

/// The maximum number of tasks or nodes of a map, since a text of a few bytes could otherwise name billions.
const MAX: u64 = 1 << 20;

/// Why a text or value isn't a task map.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TaskMapError {
    /// The text looks like JSON, and isn't.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// The value is neither an array of blocks nor an object with them.
    #[error("taskmap must be an object or array")]
    Shape,
    /// The object has no blocks.
    #[error("taskmap has no array map")]
    NoMap,
    /// The object is of another version, 0 if it names none.
    #[error("expected version=1, got {0}")]
    Version(i64),
    /// The entry at this place is no block.
    #[error("entry {0} in taskmap is not an array")]
    NotABlock(usize),
    /// A block doesn't have the four numbers.
    #[error("invalid entry {0}")]
    Block(Value),
    /// The list of a node's tasks is malformed.
    #[error(transparent)]
    Ids(#[from] IdsetError),
    /// Tasks are named twice.
    #[error("duplicate {word} specified: {0}", word = taskids(.0))]
    Twice(Idset),
    /// Tasks with lower numbers are missing.
    #[error("missing {word}: {0}", word = taskids(.0))]
    Missing(Idset),
    /// The text in PMI's form doesn't begin as it must.
    #[error("vector prefix must precede blocklist")]
    NoVector,
    /// A block in PMI's form isn't in parentheses.
    #[error("unable to parse block: {0}")]
    PmiBlock(String),
    /// A block in PMI's form doesn't have the three numbers.
    #[error("invalid number in block: ({0})")]
    PmiNumber(String),
    /// The map is too large.
    #[error("more than {MAX} tasks or nodes")]
    TooLarge,
}

fn taskids(ids: &Idset) -> &'static str {
    if ids.len() == 1 { "taskid" } else { "taskids" }
}

/// A block of RFC 34: `repeat` times, each of the `nodes` nodes that start at `node` gets the next `tasks`
/// tasks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Block {
    node: u64,
    nodes: u64,
    tasks: u64,
    repeat: u64,
}

/// Which node of a job runs which of its tasks (RFC 34). Nodes are numbered from 0 within the job.
///
/// Parsed from any of the three text forms: task ids per node (`0-1;2-3`), JSON, and PMI's form. `Display`
/// writes JSON.
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

impl Block {
    /// The number of tasks.
    fn ntasks(&self) -> u64 {
        self.nodes.saturating_mul(self.tasks).saturating_mul(self.repeat)
    }

    /// The number of tasks on a node.
    fn on_node(&self, node: u64) -> u64 {
        let index = node.checked_sub(self.node);
        let has = index.is_some_and(|index| index < self.nodes);
        if has { self.tasks.saturating_mul(self.repeat) } else { 0 }
    }
}

impl TaskMap {
    /// The map in which tasks are numbered node by node; `counts` are the numbers of tasks on the nodes.
    ///
    /// ```
    /// use jobtap_core::job::TaskMap;
    ///
    /// assert_eq!(TaskMap::block(&[2, 2, 1]).to_raw(), "0-1;2-3;4");
    /// ```
    #[must_use]
    pub fn block(counts: &[u32]) -> Self {
        let mut map = Self::default();
        for (node, tasks) in (0..).zip(counts) {
            if *tasks > 0 {
                map.push(node, 1, (*tasks).into());
            }
        }
        map
    }

    /// The map in which the nodes take turns, and each gets the next `stride` tasks in its turn until it has
    /// as many as `counts` says. A stride of 0 means 1.
    ///
    /// ```
    /// use jobtap_core::job::TaskMap;
    ///
    /// assert_eq!(TaskMap::cyclic(&[2, 2, 1], 1).to_raw(), "0,3;1,4;2");
    /// ```
    #[must_use]
    pub fn cyclic(counts: &[u32], stride: u32) -> Self {
        let mut map = Self::default();
        let mut left = counts.to_vec();
        while left.iter().any(|left| *left > 0) {
            for (node, left) in (0..).zip(&mut left) {
                let turn = stride.max(1).min(*left);
                *left -= turn;
                if turn > 0 {
                    map.push(node, 1, turn.into());
                }
            }
        }
        map
    }

    /// The map in which the first task runs on the first of these nodes, and so on.
    ///
    /// ```
    /// use jobtap_core::job::TaskMap;
    ///
    /// assert_eq!(TaskMap::of_nodes([1, 0, 0]).to_raw(), "1-2;0");
    /// ```
    pub fn of_nodes(nodes: impl IntoIterator<Item = u64>) -> Self {
        let mut map = Self::default();
        for node in nodes {
            map.push(node, 1, 1);
        }
        map
    }

    /// Reads `[[node, nodes, tasks, repeat], ..]`, or an object of version 1 with that as `map`.
    ///
    /// # Errors
    /// [`TaskMapError`] names the malformed entry, or says that there are too many tasks or nodes.
    pub fn from_value(value: &Value) -> Result<Self, TaskMapError> {
        let entries = match value {
            Value::Array(entries) => entries,
            Value::Object(object) => {
                let version = object.get("version").and_then(Value::as_i64);
                match (version, object.get("map").and_then(Value::as_array)) {
                    (Some(1), Some(entries)) => entries,
                    (Some(1), None) => return Err(TaskMapError::NoMap),
                    (version, _) => {
                        return Err(TaskMapError::Version(version.unwrap_or(0)));
                    }
                }
            }
            _ => return Err(TaskMapError::Shape),
        };
        let mut map = Self::default();
        for (at, entry) in entries.iter().enumerate() {
            let Some(numbers) = entry.as_array() else {
                return Err(TaskMapError::NotABlock(at));
            };
            let numbers: Option<Vec<u64>> = numbers.iter().map(Value::as_u64).collect();
            match numbers.as_deref() {
                Some(&[node, nodes, tasks, repeat]) if nodes > 0 && tasks > 0 && repeat > 0 => {
                    // The block is kept as it is, even where two blocks could be merged.
                    map.blocks.push(Block { node, nodes, tasks, repeat });
                }
                _ => return Err(TaskMapError::Block(entry.clone())),
            }
        }
        map.bounded()
    }

    /// The task ids of each node, joined by `;`.
    pub fn to_raw(&self) -> String {
        self.tasks().iter().map(Idset::to_string).collect::<Vec<_>>().join(";")
    }

    /// The form of the process management interface (PMI), in which repeated blocks are written out.
    pub fn to_pmi(&self) -> String {
        let mut text = String::new();
        for block in &self.blocks {
            for _ in 0..block.repeat {
                text += &format!(",({},{},{})", block.node, block.nodes, block.tasks);
            }
        }
        if text.is_empty() { text } else { format!("(vector{text})") }
    }

    /// Number of nodes.
    pub fn nnodes(&self) -> u64 {
        let ends = self.blocks.iter().map(|block| block.node.saturating_add(block.nodes));
        ends.max().unwrap_or(0)
    }

    /// Number of tasks.
    pub fn ntasks(&self) -> u64 {
        self.blocks.iter().map(Block::ntasks).fold(0, u64::saturating_add)
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
        self.place_of(task).map(|(node, _)| node)
    }

    /// The node that runs a task, and the index of the task among that node's tasks.
    pub fn place_of(&self, task: u64) -> Option<(u64, u64)> {
        let mut index = task;
        for (at, block) in self.blocks.iter().enumerate() {
            let Some(behind) = index.checked_sub(block.ntasks()) else {
                // The number of tasks of a map is limited, so this can't overflow.
                let (round, within) = (index / (block.nodes * block.tasks), index % block.tasks);
                let node = block.node + index / block.tasks % block.nodes;
                let earlier: u64 = self.blocks.iter().take(at).map(|b| b.on_node(node)).sum();
                return Some((node, earlier + round * block.tasks + within));
            };
            index = behind;
        }
        None
    }

    /// The blocks as JSON, which is also the text of `Display`.
    pub fn to_value(&self) -> Value {
        self.blocks.iter().map(|b| json!([b.node, b.nodes, b.tasks, b.repeat])).collect()
    }

    /// The runs of consecutive tasks on one node, in the order of tasks: node, first task and number of
    /// tasks.
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

    /// Appends tasks, in as few blocks as possible.
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
            return Err(TaskMapError::TooLarge);
        }
        Ok(self)
    }

    fn from_raw(text: &str) -> Result<Self, TaskMapError> {
        // By runs and not by tasks, so that a short text takes little memory.
        let mut runs: Vec<(u32, u32, u64)> = Vec::new();
        let mut count = 0;
        for (node, part) in (0u64..).zip(text.split(';')) {
            let ids: Idset =
                if part.trim().is_empty() { Idset::new() } else { part.parse::<Idset>()? };
            count += ids.len() as u64;
            if count > MAX || node > MAX {
                return Err(TaskMapError::TooLarge);
            }
            runs.extend(ids.ranges().map(|run| (*run.start(), *run.end(), node)));
        }
        runs.sort_unstable();
        check_ids(&runs)?;
        let mut map = Self::default();
        for (first, last, node) in runs {
            map.push(node, 1, u64::from(last - first) + 1);
        }
        Ok(map)
    }

    fn from_pmi(text: &str) -> Result<Self, TaskMapError> {
        let plain: String = text.chars().filter(|c| !c.is_whitespace()).collect();
        let mut map = Self::default();
        if plain.is_empty() {
            return Ok(map);
        }
        let Some(mut rest) = plain.strip_prefix("(vector").and_then(|rest| rest.strip_suffix(')'))
        else {
            return Err(TaskMapError::NoVector);
        };
        while !rest.is_empty() {
            let block = rest.strip_prefix(",(").and_then(|rest| rest.split_once(')'));
            let Some((block, after)) = block else {
                let place = rest.trim_start_matches(',');
                return Err(TaskMapError::PmiBlock(place.to_owned()));
            };
            let numbers: Result<Vec<u64>, _> = block.split(',').map(str::parse).collect();
            match numbers.as_deref() {
                Ok(&[node, nodes, tasks]) if nodes > 0 && tasks > 0 => map.push(node, nodes, tasks),
                _ => return Err(TaskMapError::PmiNumber(block.to_owned())),
            }
            rest = after;
        }
        map.bounded()
    }
}

/// Checks that the tasks of sorted runs are numbered from 0, each once.
fn check_ids(runs: &[(u32, u32, u64)]) -> Result<(), TaskMapError> {
    let (mut twice, mut missing) = (Idset::new(), Idset::new());
    // The first task that no run before has.
    let mut next = 0;
    for &(first, last, _) in runs {
        if first > next {
            missing.insert_range(next..=first - 1);
        } else if first < next {
            twice.insert_range(first..=last.min(next - 1));
        }
        next = next.max(last.saturating_add(1));
    }
    if !twice.is_empty() {
        return Err(TaskMapError::Twice(twice));
    }
    if !missing.is_empty() {
        return Err(TaskMapError::Missing(missing));
    }
    Ok(())
}

impl FromStr for TaskMap {
    type Err = TaskMapError;

    /// Reads any of the three text forms.
    fn from_str(text: &str) -> Result<Self, TaskMapError> {
        if text.trim().is_empty() || text.contains("vector,") {
            return Self::from_pmi(text);
        }
        if !text.contains(['(', '{', '[', ']', '}', ')']) {
            return Self::from_raw(text);
        }
        Self::from_value(&serde_json::from_str(text)?)
    }
}

impl fmt::Display for TaskMap {
    /// Writes a JSON array of blocks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_value().fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(text: &str) -> Result<String, TaskMapError> {
        text.parse::<TaskMap>().map(|map| map.to_string())
    }

    #[test]
    fn raw_maps_become_the_blocks_of_the_rfc() {
        for (raw, blocks) in [
            ("0", "[[0,1,1,1]]"),
            ("0;1", "[[0,2,1,1]]"),
            ("0-1;2-3", "[[0,2,2,1]]"),
            ("0,2;1,3", "[[0,2,1,2]]"),
            ("1;0", "[[1,1,1,1],[0,1,1,1]]"),
            ("0,4,8,12;1,5,9,13;2,6,10,14;3,7,11,15", "[[0,4,1,4]]"),
            ("0-1,8-9;2-3,10-11;4-5,12-13;6-7,14-15", "[[0,4,2,2]]"),
            ("0-1;2-3;4-5;6-7;8-11;12-15", "[[0,4,2,1],[4,2,4,1]]"),
            ("0,6;1,7;2,8;3,9;4,10,12,14;5,11,13,15", "[[0,6,1,2],[4,2,1,2]]"),
            ("12-15;8-11;4-7;0-3", "[[3,1,4,1],[2,1,4,1],[1,1,4,1],[0,1,4,1]]"),
            ("0-1;2-3;4-5;6-7;8-9;12-13;10-11;14-15", "[[0,5,2,1],[6,1,2,1],[5,1,2,1],[7,1,2,1]]"),
        ] {
            assert_eq!(parse(raw).unwrap(), blocks);
            assert_eq!(raw.parse::<TaskMap>().unwrap().to_raw(), raw);
        }
    }

    #[test]
    fn merges_blocks_of_pmi_but_not_of_json() {
        assert_eq!(parse("[[0,4,4,1],[0,4,4,1]]").unwrap(), "[[0,4,4,1],[0,4,4,1]]");
        assert_eq!(parse(r#"{"version":1,"map":[[0,1,2,1]]}"#).unwrap(), "[[0,1,2,1]]");
        assert_eq!(parse("(vector,(0,4,4),(0,4,4))").unwrap(), "[[0,4,4,2]]");
        assert_eq!((parse("").unwrap(), parse("[]").unwrap()), ("[]".to_owned(), "[]".to_owned()));
    }

    #[test]
    fn errors_name_the_malformed_part() {
        for (text, error) in [
            ("0-1;1", "duplicate taskid specified: 1"),
            ("0-10;5-10", "duplicate taskids specified: 5-10"),
            ("1", "missing taskid: 0"),
            ("0-1;10", "missing taskids: 2-9"),
            ("[[0,0,1,1]]", "invalid entry [0,0,1,1]"),
            ("[1]", "entry 0 in taskmap is not an array"),
            (r#"{"version":2,"map":[]}"#, "expected version=1, got 2"),
            ("(0,1,1),(vector,(0,1,1))", "vector prefix must precede blocklist"),
            ("(vector,(0,4,4)", "unable to parse block: (0,4,4"),
            ("(vector,(0,x,4))", "invalid number in block: (0,x,4)"),
            ("[[0,99999999999,99999999999,9999999]]", "more than 1048576 tasks or nodes"),
            ("0-2000000", "more than 1048576 tasks or nodes"),
        ] {
            assert_eq!(parse(text).unwrap_err().to_string(), error, "{text}");
        }
    }

    #[test]
    fn a_cyclic_map_fills_each_node_to_its_number() {
        for (counts, stride, blocks) in [
            (&[2, 2][..], 1, "[[0,2,1,2]]"),
            (&[4, 4], 2, "[[0,2,2,2]]"),
            (&[4, 4], 0, "[[0,2,1,4]]"),
            (&[3, 1, 0, 2], 1, "[[0,2,1,1],[3,1,1,1],[0,1,1,1],[3,1,1,1],[0,1,1,1]]"),
            (&[2, 2], 9, "[[0,2,2,1]]"),
            (&[], 1, "[]"),
        ] {
            assert_eq!(TaskMap::cyclic(counts, stride).to_string(), blocks, "{counts:?} {stride}");
        }
    }

    #[test]
    fn a_block_map_skips_nodes_without_tasks() {
        assert_eq!(TaskMap::block(&[2, 2, 0, 1]).to_string(), "[[0,2,2,1],[3,1,1,1]]");
        assert_eq!(TaskMap::of_nodes([0, 1, 0, 1]).to_string(), "[[0,2,1,2]]");
    }

    proptest! {
        /// Each task is drawn a node, or two, or none.
        #[test]
        fn a_raw_map_has_each_task_once(
            drawn in prop::collection::vec(prop::collection::btree_set(0..3usize, 0..=2), 1..12),
            clean: bool,
        ) {
            let mut parts = vec![Idset::new(); 3];
            let (mut twice, mut missing) = (Idset::new(), Idset::new());
            let mut nodes = Vec::new();
            for (task, drawn) in (0u32..).zip(&drawn) {
                let of_task: Vec<usize> = match (clean, drawn.first()) {
                    (true, first) => vec![first.copied().unwrap_or(0)],
                    (false, _) => drawn.iter().copied().collect(),
                };
                match of_task[..] {
                    [] => missing.insert_range(task..=task),
                    [_] => {}
                    _ => twice.insert_range(task..=task),
                }
                of_task.iter().for_each(|node| parts[*node].insert_range(task..=task));
                nodes.extend(of_task.first().map(|node| *node as u64));
            }
            // The tasks after the last one that has a node aren't missed.
            let last = parts.iter().filter_map(Idset::last).max();
            let missing = missing.intersection(&last.map_or(Idset::new(), |last| Idset::from(0..=last)));
            let text = parts.iter().map(Idset::to_string).collect::<Vec<_>>().join(";");
            match text.parse::<TaskMap>() {
                Ok(map) => {
                    prop_assert!(twice.is_empty() && missing.is_empty(), "{}", text);
                    let read: Vec<u64> = (0..map.ntasks()).filter_map(|task| map.node_of(task)).collect();
                    prop_assert_eq!(read, nodes, "{}", text);
                }
                Err(TaskMapError::Twice(ids)) => prop_assert_eq!(ids, twice, "{}", text),
                Err(TaskMapError::Missing(ids)) => prop_assert_eq!(ids, missing, "{}", text),
                Err(error) => prop_assert!(false, "{}: {}", text, error),
            }
        }

        #[test]
        fn all_forms_are_equivalent(
            blocks in prop::collection::vec((0u64..6, 1u64..4, 1u64..4, 1u64..4), 0..5)
        ) {
            let blocks: Vec<_> = blocks.iter().map(|(a, b, c, d)| serde_json::json!([a, b, c, d])).collect();
            let map = TaskMap::from_value(&Value::Array(blocks)).unwrap();
            let raw = map.to_raw();
            for text in [raw.clone(), map.to_pmi(), map.to_string()] {
                let again: TaskMap = text.parse().unwrap();
                prop_assert_eq!(again.to_raw(), raw.clone(), "{}", text);
                prop_assert_eq!(again.ntasks(), map.ntasks());
            }
            for (node, tasks) in (0..).zip(map.tasks()) {
                for (local, task) in (0..).zip(tasks.iter()) {
                    prop_assert_eq!(map.place_of(task.into()), Some((node, local)));
                }
            }
            prop_assert_eq!(map.place_of(map.ntasks()), None);
        }

        #[test]
        fn accepted_text_has_tasks_for_each_node(text in "[0-9(){}\\[\\],;:vector-]{0,40}") {
            if let Ok(map) = text.parse::<TaskMap>() {
                prop_assert_eq!(map.tasks().len() as u64, map.nnodes());
            }
        }
    }
}
