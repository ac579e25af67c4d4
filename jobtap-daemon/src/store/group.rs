//! Joins the appends of a group commit: the events of one job in all batches of the group become one
//! record of its eventlog.

use rustc_hash::FxHashMap;

use super::{Key, Op};

/// Joins the appends to one log into the first of them, as long as no operation in between removes or
/// replaces the log. The order of the remaining operations is unchanged.
pub fn coalesce(ops: Vec<Op>) -> Vec<Op> {
    let mut joined: Vec<Op> = Vec::with_capacity(ops.len());
    let mut open: FxHashMap<Key, usize> = FxHashMap::default();
    for op in ops {
        match op {
            Op::Append { key, seq, value } => {
                if let Some(Op::Append { value: first, .. }) =
                    open.get(&key).and_then(|index| joined.get_mut(*index))
                {
                    first.extend(value);
                    continue;
                }
                open.insert(key.clone(), joined.len());
                joined.push(Op::Append { key, seq, value });
            }
            Op::Put { .. } | Op::Remove { .. } | Op::RemoveJob(_) => {
                match &op {
                    Op::RemoveJob(id) => open.retain(|key, _| key.job_id() != Some(*id)),
                    Op::Put { key, .. } | Op::Remove { key } | Op::Append { key, .. } => {
                        open.remove(key);
                    }
                }
                joined.push(op);
            }
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn append(id: u64, seq: u64, text: &str) -> Op {
        Op::Append { key: Key::eventlog(id), seq, value: text.into() }
    }

    #[test]
    fn a_log_gets_one_record_per_group() {
        let ops = vec![append(1, 4, "a"), append(2, 0, "b"), append(1, 5, "c"), append(1, 6, "d")];
        assert_eq!(coalesce(ops), [append(1, 4, "acd"), append(2, 0, "b")]);
    }

    #[test]
    fn nothing_is_joined_across_a_removal() {
        let remove = || Op::Remove { key: Key::eventlog(1) };
        let ops = vec![append(1, 0, "a"), remove(), append(1, 1, "b")];
        assert_eq!(coalesce(ops.clone()), ops);
        let ops = vec![
            append(1, 0, "a"),
            append(2, 0, "b"),
            Op::RemoveJob(1),
            append(1, 1, "c"),
            append(2, 1, "d"),
        ];
        let expected = [append(1, 0, "a"), append(2, 0, "bd"), Op::RemoveJob(1), append(1, 1, "c")];
        assert_eq!(coalesce(ops), expected);
    }
}
