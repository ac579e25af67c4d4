//! Sort keys of listings: `--sort=KEY,-KEY2` and the `sort:` prefix of a format.

use super::{FormatError, Row};

/// A field to order by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortKey {
    /// Name of the field.
    pub(crate) field: String,
    /// Largest first.
    pub(crate) descending: bool,
}

/// Parses `KEY,-KEY2`; a leading `-` reverses that key.
pub(crate) fn parse_sort_keys(text: &str) -> Vec<SortKey> {
    text.split(',')
        .map(|key| match key.strip_prefix('-') {
            Some(field) => SortKey { field: field.to_owned(), descending: true },
            None => SortKey { field: key.to_owned(), descending: false },
        })
        .collect()
}

/// Orders `rows` by `keys`, the first key deciding first; rows that are equal keep their order.
///
/// # Errors
/// [`FormatError::SortKey`] if a key is no field of these rows.
pub(crate) fn sort_rows<R: Row>(rows: &mut [R], keys: &[SortKey]) -> Result<(), FormatError> {
    if let Some(bad) = keys.iter().find(|key| R::heading(&key.field).is_none()) {
        return Err(FormatError::SortKey(bad.field.clone()));
    }
    // A stable sort per key, the last key first, leaves the first key in charge.
    for key in keys.iter().rev() {
        let value = |row: &R| row.sort_value(&key.field).unwrap_or_else(super::FieldValue::empty);
        let mut keyed: Vec<(usize, super::FieldValue)> =
            rows.iter().map(value).enumerate().collect();
        keyed.sort_by(|(_, a), (_, b)| match key.descending {
            false => a.sort_cmp(b),
            true => b.sort_cmp(a),
        });
        apply_order(rows, keyed.iter().map(|(from, _)| *from).collect());
    }
    Ok(())
}

/// Moves the row at `order[i]` to place i.
fn apply_order<R>(rows: &mut [R], order: Vec<usize>) {
    let mut place: Vec<usize> = vec![0; order.len()];
    for (to, from) in order.into_iter().enumerate() {
        if let Some(slot) = place.get_mut(from) {
            *slot = to;
        }
    }
    for i in 0..place.len() {
        while let Some(&to) = place.get(i).filter(|to| **to != i) {
            rows.swap(i, to);
            place.swap(i, to);
        }
    }
}
