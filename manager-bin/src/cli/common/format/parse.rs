//! Parses the text of a format into columns.

use std::str::Chars;

use super::convert::Conversion;
use super::error::{FormatError, SyntaxFault};
use super::row::Row;
use super::sort::{SortKey, parse_sort_keys};
use super::spec::Spec;

/// A parsed format: its columns, each with the text before it, the text after the last column, and the keys
/// of the prefix `sort:`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Template {
    pub(super) columns: Vec<Column>,
    pub(super) tail: String,
    pub(super) sort: Vec<SortKey>,
}

/// A replacement field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    /// The text between the previous field and this one.
    pub(super) text: String,
    pub(super) field: String,
    pub(super) conversion: Option<Conversion>,
    pub(super) spec: Spec,
    /// The prefix `?:`: omit the column if it is empty in all lines.
    pub(super) collapse: bool,
    /// The prefix `+:`: widen the column to its longest value.
    pub(super) widen: bool,
}

impl Template {
    /// Parses a format for rows of the type `R`.
    ///
    /// # Errors
    /// [`FormatError::Syntax`] if the text is not a format, [`FormatError::UnknownField`] if it names
    /// a field that the rows don't have.
    pub(crate) fn parse<R: Row>(text: &str) -> Result<Self, FormatError> {
        parse(text, |field| R::heading(field).is_some())
    }

    /// Returns true if the format shows the field.
    pub(crate) fn has(&self, field: &str) -> bool {
        self.columns.iter().any(|column| column.field == field)
    }

    /// Returns true if the format shows a field `PREFIX.NAME`.
    pub(crate) fn has_part_of(&self, prefix: &str) -> bool {
        let is_part =
            |field: &str| field.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
        self.columns.iter().any(|column| is_part(&column.field))
    }

    /// Removes the columns of `fields`, each with the text before it if that is only white space, as Flux does with
    /// columns of colors.
    pub(crate) fn remove(&mut self, fields: &[&str]) {
        // Text before the removed columns, which belongs to the next one.
        let mut kept = String::new();
        for mut column in std::mem::take(&mut self.columns) {
            if fields.contains(&&*column.field) {
                let blank = column.text.trim().is_empty();
                kept.push_str(if blank { "" } else { &column.text });
            } else {
                column.text.insert_str(0, &std::mem::take(&mut kept));
                self.columns.push(column);
            }
        }
        self.tail.insert_str(0, &kept);
    }

    /// Removes a text between the fields. Once a field has the prefix `?:`, Flux removes that text from the whole
    /// format, even where something else stands between it and a field, as in its own format `rlist`.
    fn remove_text(&mut self, text: &str) {
        let texts = self.columns.iter_mut().map(|column| &mut column.text);
        for part in texts.chain([&mut self.tail]) {
            *part = part.replace(text, "");
        }
    }

    /// The keys of the prefix `sort:`.
    pub(crate) fn sort_keys(&self) -> &[SortKey] {
        &self.sort
    }
}

/// Parses a format whose fields must be `known`.
fn parse(text: &str, known: impl Fn(&str) -> bool) -> Result<Template, FormatError> {
    let (sort, text) = take_sort_prefix(text);
    let mut columns = Vec::new();
    let mut literal = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match c {
            '{' if chars.as_str().starts_with('{') => {
                literal.push('{');
                chars.next();
            }
            '}' if chars.as_str().starts_with('}') => {
                literal.push('}');
                chars.next();
            }
            '}' => return Err(SyntaxFault::Close.into()),
            '{' => columns.push(Column::parse(std::mem::take(&mut literal), &mut chars, &known)?),
            c => literal.push(c),
        }
    }
    let mut template = Template { columns, tail: literal, sort };
    if template.columns.iter().any(|column| column.collapse) {
        template.remove_text("?:");
    }
    Ok(template)
}

/// Removes the prefix `sort:KEY,-KEY2 ` from a format and returns its keys.
fn take_sort_prefix(text: &str) -> (Vec<SortKey>, &str) {
    let Some(rest) = text.strip_prefix("sort:") else {
        return (Vec::new(), text);
    };
    let (keys, rest) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
    (parse_sort_keys(keys), rest)
}

impl Column {
    /// Parses a field after its opening brace, up to and including its closing brace. `text` is the text
    /// before the field.
    fn parse(
        text: String,
        chars: &mut Chars<'_>,
        known: &impl Fn(&str) -> bool,
    ) -> Result<Self, FormatError> {
        let rest = chars.as_str();
        let Some((inside, after)) = rest.split_once('}') else {
            let open = rest.is_empty();
            return Err(if open { SyntaxFault::Open } else { SyntaxFault::Unclosed }.into());
        };
        if inside.contains('{') {
            return Err(SyntaxFault::Nested.into());
        }
        *chars = after.chars();
        let (field, conversion, spec) = split_field(inside)?;
        // Checked before the rest is parsed, as in Flux, which parses the rest only when it formats a value.
        if !known(field) {
            return Err(FormatError::UnknownField(field.to_owned()));
        }
        let (conversion, spec) = match conversion {
            Some(name) => {
                let (conversion, spec) = Conversion::parse(name, spec)?;
                (Some(conversion), spec)
            }
            None => (None, spec),
        };
        let (text, collapse, widen) = take_prefix(text);
        let (field, spec) = (field.to_owned(), Spec::parse(spec)?);
        Ok(Column { text, field, conversion, spec, collapse, widen })
    }
}

/// Splits `FIELD!CONV:SPEC`.
fn split_field(inside: &str) -> Result<(&str, Option<&str>, &str), SyntaxFault> {
    let end = inside.find(['!', ':']).unwrap_or(inside.len());
    let (field, rest) = inside.split_at(end);
    let Some(rest) = rest.strip_prefix('!') else {
        return Ok((field, None, rest.strip_prefix(':').unwrap_or_default()));
    };
    let mut chars = rest.chars();
    if chars.next().is_none() {
        return Err(SyntaxFault::NoConversion);
    }
    let after = chars.as_str();
    let name = rest.strip_suffix(after).unwrap_or(rest);
    match (after.is_empty(), after.strip_prefix(':')) {
        (true, _) => Ok((field, Some(name), "")),
        (false, Some(spec)) => Ok((field, Some(name), spec)),
        (false, None) => Err(SyntaxFault::NoColon),
    }
}

/// Removes a prefix `?:`, `+:` or `?+:` from the end of the text before a field.
fn take_prefix(mut text: String) -> (String, bool, bool) {
    for (prefix, collapse, widen) in [("?+:", true, true), ("?:", true, false), ("+:", false, true)]
    {
        if let Some(rest) = text.strip_suffix(prefix) {
            text.truncate(rest.len());
            return (text, collapse, widen);
        }
    }
    (text, false, false)
}
