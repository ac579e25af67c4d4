//! The output format language of the listing commands (`jobs`, `queue list`, `resource list`):
//! templates such as `{id.f58:>12} ?:{queue:<8.8} {duration!F:>8h}`.
//!
//! The language is that of Python's `str.format` with Flux's conversions and suffixes, so that the format
//! strings and configuration files of sites work unchanged. A command implements the trait [`Row`] for its
//! lines; everything else is common to all commands.

pub(in crate::cli) mod columns;
mod convert;
pub(in crate::cli) mod files;
pub(in crate::cli) mod named;
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

/// Formats a single value by a specification such as `04d`.
///
/// # Errors
/// [`FormatError::Specification`] if `spec` is not a specification, or doesn't fit the type of the value.
pub(crate) fn formatted(value: &FieldValue, spec: &str) -> Result<String, FormatError> {
    spec::Spec::parse(spec)?.apply(value)
}

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

/// The reason why a format can't be used. Its texts are complete messages for the user.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FormatError {
    /// The format names a field that these rows don't have.
    #[error("Unknown format field: {0}")]
    UnknownField(String),
    /// The text is not a format.
    #[error("{0}")]
    Syntax(String),
    /// A conversion or a format specification is unknown, or a value doesn't fit it.
    #[error("{0}")]
    Specification(String),
    /// A sort key is not a field of these rows.
    #[error("Invalid sort key: {0}")]
    SortKey(String),
}

impl FormatError {
    fn syntax(text: impl Into<String>) -> Self {
        FormatError::Syntax(text.into())
    }

    fn specification(text: impl Into<String>) -> Self {
        FormatError::Specification(text.into())
    }
}
