//! Renders rows as lines of text according to a format.

use std::borrow::Cow;

use jiff::tz::TimeZone;

use super::error::FormatError;
use super::parse::{Column, Template};
use super::row::Row;
use super::spec::{Spec, is_empty};
use super::value::FieldValue;
use crate::shown;

/// The options that affect the lines, beside the format.
#[derive(Debug, Clone)]
pub(crate) struct RenderOptions {
    /// Whether there is a header line. If so, widened columns are at least as wide as their headings.
    pub(crate) header: bool,
    /// The time zone in which times are shown.
    pub(crate) zone: TimeZone,
}

/// The lines of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Table {
    /// The line of headings, unless it is suppressed.
    pub(crate) header: Option<String>,
    /// One line for each row, in the order of the rows.
    pub(crate) lines: Vec<String>,
}

/// Formats `rows` according to `template`.
///
/// # Errors
/// [`FormatError::Specification`] if a value doesn't fit the specification of its column.
pub(crate) fn render<R: Row>(
    template: &Template,
    rows: &[R],
    options: &RenderOptions,
) -> Result<Table, FormatError> {
    let mut lines = vec![String::new(); rows.len()];
    let mut header = String::new();
    for column in &template.columns {
        let values = column_values(column, rows, &options.zone)?;
        if column.collapse && values.iter().all(is_empty) {
            continue;
        }
        let heading = R::heading(&column.field).unwrap_or_default();
        let spec = column_spec(column, &values, &heading, options)?;
        header += &column.text;
        header += &spec.heading().apply(&FieldValue::Text(heading.into_owned()))?;
        for (line, value) in lines.iter_mut().zip(&values) {
            *line += &column.text;
            *line += &spec.apply(value)?;
        }
    }
    for line in lines.iter_mut().chain([&mut header]) {
        *line += &template.tail;
    }
    Ok(Table { header: options.header.then_some(header), lines })
}

fn column_values<R: Row>(
    column: &Column,
    rows: &[R],
    zone: &TimeZone,
) -> Result<Vec<FieldValue>, FormatError> {
    let value = |row: &R| {
        let value = row.field(&column.field).unwrap_or_else(FieldValue::empty);
        let value = match &column.conversion {
            Some(conversion) => conversion.apply(&value, zone)?,
            None => value,
        };
        Ok(match value {
            // Users write names and annotations: their control characters must not reach the terminal. The
            // fields `color_...` consist of this program's own escape sequences.
            FieldValue::Text(text) if !column.field.starts_with("color_") => {
                FieldValue::Text(shown::in_line(&text).into_owned())
            }
            value => value,
        })
    };
    rows.iter().map(value).collect()
}

/// The specification of `column`, widened to its values if the column has the prefix `+:`.
fn column_spec<'a>(
    column: &'a Column,
    values: &[FieldValue],
    heading: &str,
    options: &RenderOptions,
) -> Result<Cow<'a, Spec>, FormatError> {
    if !column.widen {
        return Ok(Cow::Borrowed(&column.spec));
    }
    let mut spec = column.spec.unbounded();
    let mut width = column.spec.width;
    if options.header {
        width = width.max(heading.chars().count());
    }
    for value in values {
        width = width.max(spec.apply(value)?.chars().count());
    }
    spec.width = width;
    Ok(Cow::Owned(spec))
}
