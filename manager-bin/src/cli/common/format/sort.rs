//! Sorts listings by the keys of `--sort=KEY,-KEY2` or of the prefix `sort:` of a format.

use super::error::FormatError;
use super::row::Row;
use super::value::FieldValue;

/// A field by which rows are sorted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SortKey {
    /// The name of the field.
    pub(crate) field: String,
    /// Sorts the largest value first.
    pub(crate) descending: bool,
}

/// Parses `KEY,-KEY2`. A leading `-` reverses the order of that key. The empty text has no keys.
pub(crate) fn parse_sort_keys(text: &str) -> Vec<SortKey> {
    text.split(',')
        .filter(|key| !text.is_empty() || !key.is_empty())
        .map(|key| match key.strip_prefix('-') {
            Some(field) => SortKey { field: field.to_owned(), descending: true },
            None => SortKey { field: key.to_owned(), descending: false },
        })
        .collect()
}

/// Sorts `rows` by `keys`; the first key has the highest precedence. Equal rows keep their order, even when the order
/// is descending.
///
/// # Errors
/// [`FormatError::SortKey`] if a key is not a field of these rows.
pub(crate) fn sort_rows<R: Row>(rows: &mut [R], keys: &[SortKey]) -> Result<(), FormatError> {
    if let Some(bad) = keys.iter().find(|key| R::heading(&key.field).is_none()) {
        return Err(FormatError::SortKey(bad.field.clone()));
    }
    // The sort is stable: sorting by the last key first gives the first key the highest precedence.
    for key in keys.iter().rev() {
        let value = |row: &R| row.sort_value(&key.field).unwrap_or_else(FieldValue::empty);
        let mut keyed: Vec<(usize, FieldValue)> = rows.iter().map(value).enumerate().collect();
        keyed.sort_by(|(_, a), (_, b)| match key.descending {
            false => a.sort_cmp(b),
            true => b.sort_cmp(a),
        });
        apply_order(rows, keyed.iter().map(|(from, _)| *from).collect());
    }
    Ok(())
}

/// Moves the row at index `order[i]` to index `i`, in place, since `R` isn't `Clone`.
fn apply_order<R>(rows: &mut [R], order: Vec<usize>) {
    let mut target: Vec<usize> = vec![0; order.len()];
    for (to, from) in order.into_iter().enumerate() {
        if let Some(slot) = target.get_mut(from) {
            *slot = to;
        }
    }
    for i in 0..target.len() {
        while let Some(&to) = target.get(i).filter(|to| **to != i) {
            rows.swap(i, to);
            target.swap(i, to);
        }
    }
}
