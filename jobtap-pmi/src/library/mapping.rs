//! Which tasks share a node, according to the value `PMI_process_mapping`: `(vector,(0,2,4),(2,1,1))` means four tasks
//! on each of the nodes 0 and 1, and one on node 2. A mapping with fewer tasks than the job has is repeated.

use super::text::{number, split_once};

/// A mapping that has at least one task.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mapping<'t>(&'t [u8]);

/// Consecutive tasks on one node: from rank `first` up to but not including `after`.
struct Run {
    node: i32,
    first: i32,
    after: i32,
}

impl<'t> Mapping<'t> {
    /// Parses a mapping; `None` if the text isn't a valid one.
    pub(crate) fn parse(text: &'t [u8]) -> Option<Self> {
        let blocks = text.strip_prefix(b"(vector,")?.strip_suffix(b")")?;
        let mut rest = blocks;
        loop {
            let (_, after) = block(rest)?;
            match after {
                [] => return Some(Self(blocks)),
                _ => rest = after.strip_prefix(b",")?,
            }
        }
    }

    /// Returns the node of a task in a job of `size` tasks.
    pub(crate) fn node(self, rank: i32, size: i32) -> Option<i32> {
        self.find(size, |run| (run.first..run.after).contains(&rank).then_some(run.node))
    }

    /// Calls `take` with the rank of each task of a node, in ascending order, until `take` returns false.
    pub(crate) fn tasks(self, node: i32, size: i32, mut take: impl FnMut(i32) -> bool) {
        self.find(size, |run| {
            let here = run.node == node;
            (here && (run.first..run.after).any(|rank| !take(rank))).then_some(())
        });
    }

    /// Calls `found` with each run of tasks until it returns a value.
    fn find<F>(self, size: i32, mut found: impl FnMut(&Run) -> Option<F>) -> Option<F> {
        let mut first = 0;
        let mut rest = self.0;
        while first < size {
            let ([begin, nodes, tasks], after) = block(rest)?;
            for node in begin..begin.saturating_add(nodes) {
                let after = first.saturating_add(tasks).min(size);
                if let Some(found) = found(&Run { node, first, after }) {
                    return Some(found);
                }
                first = after;
                if first == size {
                    return None;
                }
            }
            rest = match after {
                [] => self.0,
                _ => after.get(1..)?,
            };
        }
        None
    }
}

/// Parses the first block: its first node, its number of nodes and the number of tasks on each. Also returns the text
/// after the block.
fn block(text: &[u8]) -> Option<([i32; 3], &[u8])> {
    let (inner, after) = split_once(text.strip_prefix(b"(")?, b")")?;
    let (begin, counts) = split_once(inner, b",")?;
    let (nodes, tasks) = split_once(counts, b",")?;
    let numbers = [number(begin)?, number(nodes)?, number(tasks)?];
    let [begin, nodes, tasks] = numbers;
    (begin >= 0 && nodes > 0 && tasks > 0 && begin.checked_add(nodes).is_some())
        .then_some((numbers, after))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nodes(text: &str, size: i32) -> Vec<i32> {
        let mapping = Mapping::parse(text.as_bytes()).unwrap();
        (0..size).map(|rank| mapping.node(rank, size).unwrap()).collect()
    }

    #[test]
    fn tasks_are_on_nodes_block_by_block() {
        assert_eq!(nodes("(vector,(0,2,2),(2,1,1))", 5), [0, 0, 1, 1, 2]);
        assert_eq!(nodes("(vector,(3,1,2))", 2), [3, 3]);
        assert_eq!(nodes("(vector,(0,2,1))", 5), [0, 1, 0, 1, 0], "it is repeated");
        assert_eq!(nodes("(vector,(0,2147483647,1))", 2), [0, 1]);
    }

    #[test]
    fn the_tasks_of_a_node_are_in_their_order() {
        let mapping = Mapping::parse(b"(vector,(0,2,1))").unwrap();
        let mut found = Vec::new();
        mapping.tasks(1, 6, |rank| {
            found.push(rank);
            found.len() < 2
        });
        assert_eq!(found, [1, 3]);
    }

    #[test]
    fn what_is_no_mapping_is_refused() {
        for text in [
            "",
            "(vector)",
            "(vector,)",
            "(vector,())",
            "(vector,(0,1))",
            "(vector,(0,0,1))",
            "(vector,(0,1,0))",
            "(vector,(-1,1,1))",
            "(vector,(0,1,1)",
            "(vector,(0,1,1)(1,1,1))",
            "(vector,(0,1,1),)",
            "(vector,(2147483647,1,1))",
            "vector,(0,1,1)",
        ] {
            assert!(Mapping::parse(text.as_bytes()).is_none(), "{text}");
        }
    }
}
