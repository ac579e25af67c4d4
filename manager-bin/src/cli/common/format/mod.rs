//! The output format language of the listing commands (`jobs`, `queue list`, `resource list`):
//! templates such as `{id.f58:>12} ?:{queue:<8.8} {duration!F:>8h}`.
//!
//! The language is that of Python's `str.format` with Flux's conversions and suffixes, so that the format
//! strings and configuration files of sites work unchanged. A command implements the trait [`Row`] for its
//! lines; everything else is common to all commands.

mod convert;
mod error;
pub(in crate::cli) mod files;
pub(in crate::cli) mod named;
mod number;
mod parse;
mod render;
mod row;
mod sort;
mod spec;
#[cfg(test)]
mod tests;
mod value;

pub(crate) use convert::fsd;
pub(crate) use error::FormatError;
pub(crate) use parse::Template;
pub(crate) use render::{RenderOptions, render};
pub(crate) use row::Row;
pub(crate) use sort::{parse_sort_keys, sort_rows};
pub(crate) use value::FieldValue;

/// Formats a single value by a specification such as `04d`.
///
/// # Errors
/// [`FormatError::Specification`] if `spec` is not a specification, or doesn't fit the type of the value.
pub(crate) fn formatted(value: &FieldValue, spec: &str) -> Result<String, FormatError> {
    Ok(spec::Spec::parse(spec)?.apply(value)?)
}
