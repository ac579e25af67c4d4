//! The output formats of Slurm's listings: `-o "%.18i %j"` with a letter for each field, and `-O "jobid:18,name"` with
//! names.

use thiserror::Error;

/// A field that a format can name.
pub(super) struct Field<R: 'static> {
    /// Its letter in `-o`; a space for a field that has none.
    pub(super) letter: char,
    /// Its names in `-O`.
    pub(super) names: &'static [&'static str],
    pub(super) heading: &'static str,
    pub(super) value: fn(&R) -> String,
}

/// A format that can't be used.
#[derive(Debug, PartialEq, Eq, Error)]
pub(super) enum FormatError {
    #[error("there is no field %{0} here; use {1}")]
    Letter(char, String),
    #[error("there is no field '{0}' here; use {1}")]
    Name(String, String),
    #[error("'{0}': the width must be a number up to 4096")]
    Width(String),
    #[error("'%' is not followed by a field")]
    Open,
}

/// The width of a field of `-O` that gives none.
const WIDTH: usize = 20;

/// Enough for a wide terminal. Longer texts need no width.
const WIDEST: usize = 4096;

enum Piece<R: 'static> {
    Text(String),
    Field { field: &'static Field<R>, width: Option<usize>, right: bool },
}

/// A parsed format.
pub(super) struct Format<R: 'static>(Vec<Piece<R>>);

impl<R> Format<R> {
    /// A format of `-o`: `%[.][WIDTH]LETTER` and text. A point aligns to the right.
    ///
    /// # Errors
    /// [`FormatError`].
    pub(super) fn letters(text: &str, fields: &'static [Field<R>]) -> Result<Self, FormatError> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('%') {
            pieces.push(Piece::Text(before.to_owned()));
            let bare = after.strip_prefix('.');
            let spec = bare.unwrap_or(after);
            let letters = spec.trim_start_matches(|c: char| c.is_ascii_digit());
            let (digits, _) = spec.split_at_checked(spec.len() - letters.len()).unwrap_or_default();
            let letter = letters.chars().next().ok_or(FormatError::Open)?;
            let known = || {
                list(fields.iter().filter(|f| f.letter != ' ').map(|f| format!("%{}", f.letter)))
            };
            let field = fields.iter().find(|field| field.letter == letter);
            let field = field.ok_or_else(|| FormatError::Letter(letter, known()))?;
            pieces.push(Piece::Field { field, width: width(digits)?, right: bare.is_some() });
            rest = letters.get(letter.len_utf8()..).unwrap_or_default();
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// A format of `-O`: `NAME[:[.]WIDTH]` separated by commas.
    ///
    /// # Errors
    /// [`FormatError`].
    pub(super) fn names(text: &str, fields: &'static [Field<R>]) -> Result<Self, FormatError> {
        let piece = |entry: &str| {
            let (name, size) = entry.trim().split_once(':').unwrap_or((entry.trim(), ""));
            let has = |field: &&Field<R>| {
                field.names.iter().any(|known| known.eq_ignore_ascii_case(name))
            };
            let known = || {
                list(fields.iter().filter_map(|field| field.names.first().map(|n| (*n).to_owned())))
            };
            let field = fields.iter().find(has);
            let field = field.ok_or_else(|| FormatError::Name(name.to_owned(), known()))?;
            let bare = size.strip_prefix('.');
            let width = width(bare.unwrap_or(size))?.or(Some(WIDTH));
            Ok(Piece::Field { field, width, right: bare.is_some() })
        };
        let entries = text.split(',').filter(|entry| !entry.trim().is_empty());
        Ok(Self(entries.map(piece).collect::<Result<_, _>>()?))
    }

    /// The line of headings.
    pub(super) fn heading(&self) -> String {
        self.line_of(|field| field.heading.to_owned())
    }

    /// The line of a row.
    pub(super) fn line(&self, row: &R) -> String {
        self.line_of(|field| (field.value)(row))
    }

    fn line_of(&self, value: impl Fn(&Field<R>) -> String) -> String {
        let piece = |piece: &Piece<R>| match piece {
            Piece::Text(text) => text.clone(),
            Piece::Field { field, width, right } => {
                let text = crate::shown::in_line(&value(field)).into_owned();
                match width {
                    None => text,
                    Some(width) => fit(&text, *width, *right),
                }
            }
        };
        self.0.iter().map(piece).collect()
    }
}

/// Pads or cuts a text.
fn fit(text: &str, width: usize, right: bool) -> String {
    let text: String = text.chars().take(width).collect();
    if right { format!("{text:>width$}") } else { format!("{text:<width$}") }
}

fn width(digits: &str) -> Result<Option<usize>, FormatError> {
    if digits.is_empty() {
        return Ok(None);
    }
    let width = digits.parse().ok().filter(|width| *width <= WIDEST);
    Ok(Some(width.ok_or_else(|| FormatError::Width(digits.to_owned()))?))
}

fn list(names: impl Iterator<Item = String>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const FIELDS: &[Field<(u32, &str)>] = &[
        Field {
            letter: 'i',
            names: &["jobid", "id"],
            heading: "JOBID",
            value: |row| row.0.to_string(),
        },
        Field { letter: 'j', names: &["name"], heading: "NAME", value: |row| row.1.to_owned() },
    ];

    #[test]
    fn letters_have_widths_and_alignment() {
        let format = Format::letters("%.6i|%4j|%j.", FIELDS).unwrap();
        assert_eq!(format.heading(), " JOBID|NAME|NAME.");
        assert_eq!(format.line(&(12, "abcdef")), "    12|abcd|abcdef.");
        assert_eq!(format.line(&(1_234_567, "a\nb")), "123456|a\\u0|a\\u000ab.");
    }

    #[test]
    fn names_are_twenty_columns_wide_unless_they_say_so() {
        let format = Format::names("JobID:.4, name:3,id", FIELDS).unwrap();
        assert_eq!(format.line(&(12, "abcdef")), format!("  12abc{:<20}", 12));
    }

    #[test]
    fn a_field_that_does_not_exist_is_named_with_those_that_do() {
        let error = |text| Format::letters(text, FIELDS).err().unwrap().to_string();
        assert_eq!(error("%q"), "there is no field %q here; use %i, %j");
        assert_eq!(error("%"), "'%' is not followed by a field");
        assert_eq!(error("%99999i"), "'99999': the width must be a number up to 4096");
        let error = Format::names("nosuch", FIELDS).err().unwrap().to_string();
        assert_eq!(error, "there is no field 'nosuch' here; use jobid, name");
    }
}
