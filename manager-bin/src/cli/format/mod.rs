//! The output format language of the listing commands (`jobs`, `queue list`, `resource list`):
//! templates such as `{id.f58:>12} ?:{queue:<8.8} {duration!F:>8h}`.
//!
//! The language is Python's `str.format` with conversions and suffixes of Flux's own, so that a
//! site's format strings and configuration files work here as they are. A command describes its
//! lines by the trait [`Row`]; everything else is common to all commands.

mod align;
pub(super) mod columns;
mod convert;
pub(super) mod named;
mod number;
mod parse;
mod render;
mod sort;
mod spec;
#[cfg(test)]
mod tests;
mod value;

use std::borrow::Cow;

pub(crate) use convert::fsd;
pub(crate) use parse::Template;
pub(crate) use render::{RenderOptions, render};
pub(crate) use sort::{SortKey, parse_sort_keys, sort_rows};
pub(crate) use value::FieldValue;

/// A value by itself, in the form that a specification such as `04d` gives it.
///
/// # Errors
/// [`FormatError::Syntax`] for what is no specification, or none for such a value.
pub(crate) fn formatted(value: &FieldValue, spec: &str) -> Result<String, FormatError> {
    spec::Spec::parse(spec)?.apply(value)
}

/// One line of a listing: what a command knows about a job, a queue or a set of nodes.
pub(crate) trait Row {
    /// The heading of the field `name`; `None` if these rows have no such field.
    fn heading(name: &str) -> Option<Cow<'static, str>>;

    /// The value of the field `name` in this row; `None` if it is not known for this row.
    fn field(&self, name: &str) -> Option<FieldValue>;

    /// What lines are ordered by, where that differs from what they show.
    fn sort_value(&self, name: &str) -> Option<FieldValue> {
        self.field(name)
    }
}

/// Why a format can't be used. The texts are complete messages for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    /// A replacement field names something that these rows don't have.
    #[error("Unknown format field: {0}")]
    UnknownField(String),
    /// The text is not a format, or a value doesn't fit its format specification.
    #[error("Error in user format: {0}")]
    Syntax(String),
    /// A sort key is not a field of these rows.
    #[error("Invalid sort key: {0}")]
    SortKey(String),
}

impl FormatError {
    fn syntax(text: impl Into<String>) -> Self {
        FormatError::Syntax(text.into())
    }
}
