//! The nodes of a job in requests: one entry for a run of nodes with consecutive ranks and as many tasks each. Each node
//! of a job gets the whole list, so that one entry for each node would make the requests grow with the square of their
//! number: 350 MB for a job over 4,000 nodes.

use serde::de::Error;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::NodeTasks;

/// The most nodes that a list may have, so that a wrong number takes no memory.
const MOST: u64 = 1 << 20;

/// A node, and those after it that are like it.
#[derive(Serialize, Deserialize)]
struct Run {
    #[serde(flatten)]
    first: NodeTasks,
    /// How many follow.
    #[serde(default, skip_serializing_if = "is_zero")]
    more: u32,
}

fn is_zero(more: &u32) -> bool {
    *more == 0
}

pub(super) fn serialize<S: Serializer>(
    nodes: &[NodeTasks],
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let follows = |one: &NodeTasks, next: &NodeTasks| {
        one.rank.checked_add(1) == Some(next.rank) && one.ntasks == next.ntasks
    };
    serializer.collect_seq(nodes.chunk_by(follows).filter_map(|run| {
        let (first, rest) = run.split_first()?;
        Some(Run { first: *first, more: u32::try_from(rest.len()).ok()? })
    }))
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Vec<NodeTasks>, D::Error> {
    let runs = Vec::<Run>::deserialize(deserializer)?;
    let count: u64 = runs.iter().map(|run| u64::from(run.more) + 1).sum();
    if count > MOST {
        return Err(D::Error::custom(format_args!("{count} nodes are more than {MOST}")));
    }
    let nodes = |Run { first: NodeTasks { rank, ntasks }, more }: Run| {
        (rank..=rank.saturating_add(more)).map(move |rank| NodeTasks { rank, ntasks })
    };
    Ok(runs.into_iter().flat_map(nodes).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    fn text(nodes: &[NodeTasks]) -> Value {
        serialize(nodes, serde_json::value::Serializer).unwrap()
    }

    #[test]
    fn nodes_that_are_alike_are_one_entry() {
        let nodes: Vec<NodeTasks> = (3..4003).map(|rank| NodeTasks { rank, ntasks: 2 }).collect();
        assert_eq!(text(&nodes), json!([{ "rank": 3, "ntasks": 2, "more": 3999 }]));
        let nodes = [(0, 1), (1, 2), (3, 2)].map(|(rank, ntasks)| NodeTasks { rank, ntasks });
        let each = json!([
            { "rank": 0, "ntasks": 1 }, { "rank": 1, "ntasks": 2 }, { "rank": 3, "ntasks": 2 }
        ]);
        assert_eq!(text(&nodes), each);
    }

    #[test]
    fn a_wrong_number_takes_no_memory() {
        let text = json!([{ "rank": 0, "ntasks": 1, "more": u32::MAX }]);
        let refused = deserialize(text).unwrap_err().to_string();
        assert_eq!(refused, "4294967296 nodes are more than 1048576");
    }

    proptest! {
        #[test]
        fn nodes_are_read_as_they_were_written(nodes in prop::collection::vec((0u32..9, 0u32..3), 0..20)) {
            let nodes: Vec<NodeTasks> =
                nodes.into_iter().map(|(rank, ntasks)| NodeTasks { rank, ntasks }).collect();
            prop_assert_eq!(deserialize(text(&nodes)).unwrap(), nodes);
        }
    }
}
