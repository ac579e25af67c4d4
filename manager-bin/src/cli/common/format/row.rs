//! What a command implements for the lines that it lists.

use std::borrow::Cow;

use super::value::FieldValue;

/// A line of a listing: a job, a queue or a set of nodes.
pub(crate) trait Row {
    /// The heading of the field `name`. `None` if these rows have no such field.
    fn heading(name: &str) -> Option<Cow<'static, str>>;

    /// The value of the field `name`. `None` if this row has no value for it.
    fn field(&self, name: &str) -> Option<FieldValue>;

    /// The value by which rows are sorted, if it differs from the displayed one.
    fn sort_value(&self, name: &str) -> Option<FieldValue> {
        self.field(name)
    }
}
