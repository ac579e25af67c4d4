//! Changes lists of runs in place: most changes to a set with many runs replace one run by another.

use std::ops::Range;

use smallvec::{Array, SmallVec};

/// Replaces the items of a range, which must be within the list, by others.
pub(super) fn splice<A: Array>(
    list: &mut SmallVec<A>,
    range: Range<usize>,
    items: impl IntoIterator<Item = A::Item>,
) {
    let mut items = items.into_iter();
    // Overwrite items one by one while both last, so that the items behind them don't move.
    for at in range.clone() {
        let Some(item) = items.next() else {
            list.drain(at..range.end);
            return;
        };
        if let Some(place) = list.get_mut(at) {
            *place = item;
        }
    }
    // `insert_many` copies the items behind `range.end` even if it inserts nothing.
    if let Some(item) = items.next() {
        list.insert_many(range.end, std::iter::once(item).chain(items));
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn it_does_as_the_standard_library_does(
            list in prop::collection::vec(any::<u8>(), 0..6),
            items in prop::collection::vec(any::<u8>(), 0..6),
            (a, b) in (0..6usize, 0..6usize),
        ) {
            let (from, to) = (a.min(b).min(list.len()), a.max(b).min(list.len()));
            let mut spliced: SmallVec<[u8; 2]> = list.iter().copied().collect();
            splice(&mut spliced, from..to, items.iter().copied());
            let mut expected = list;
            expected.splice(from..to, items);
            prop_assert_eq!(spliced.as_slice(), expected);
        }
    }
}
