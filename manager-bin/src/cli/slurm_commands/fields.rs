//! The output formats of Slurm's listings: `-o "%.18i %j"` with a letter for each field, and `-O "jobid:18,name"` with
//! names; and the order of their rows, `-S "P,t,-p"`.

use std::cmp::Ordering;

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
    #[error("there is no field '{0}' to sort by here; use {1}")]
    Sort(String, String),
}

/// The fields that are never cut: a part of an id names another job.
const WHOLE: [&str; 3] = ["jobarrayid", "jobid", "arrayjobid"];

/// The width of a field of `-O` that gives none.
const WIDTH: usize = 20;

/// Enough for a wide terminal. Longer texts need no width.
const WIDEST: usize = 4096;

enum Piece<R: 'static> {
    Text(String),
    Field { field: &'static Field<R>, width: Option<usize>, right: bool, adjacent: bool },
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
            let (digits, letters) = spec.split_at_checked(digits(spec)).unwrap_or_default();
            let letter = letters.chars().next().ok_or(FormatError::Open)?;
            let known = || {
                list(fields.iter().filter(|f| f.letter != ' ').map(|f| format!("%{}", f.letter)))
            };
            let field = fields.iter().find(|field| field.letter == letter);
            let field = field.ok_or_else(|| FormatError::Letter(letter, known()))?;
            pieces.push(Piece::Field {
                field,
                width: width(digits)?,
                right: bare.is_some(),
                adjacent: false,
            });
            rest = letters.get(letter.len_utf8()..).unwrap_or_default();
        }
        pieces.push(Piece::Text(rest.to_owned()));
        Ok(Self(pieces))
    }

    /// A format of `-O`: `NAME[:[.][WIDTH][TEXT]]` separated by commas. The text follows the field.
    ///
    /// # Errors
    /// [`FormatError`].
    pub(super) fn names(text: &str, fields: &'static [Field<R>]) -> Result<Self, FormatError> {
        let mut pieces = Vec::new();
        for entry in text.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
            let (name, size) = entry.split_once(':').unwrap_or((entry, ""));
            let has = |field: &&Field<R>| {
                field.names.iter().any(|known| known.eq_ignore_ascii_case(name))
            };
            let known = || {
                list(fields.iter().filter_map(|field| field.names.first().map(|n| (*n).to_owned())))
            };
            let field = fields.iter().find(has);
            let field = field.ok_or_else(|| FormatError::Name(name.to_owned(), known()))?;
            let bare = size.strip_prefix('.');
            let size = bare.unwrap_or(size);
            let (digits, suffix) = size.split_at_checked(digits(size)).unwrap_or_default();
            // A text in the place of the width is what separates the fields.
            let default = suffix.is_empty().then_some(WIDTH);
            let width = width(digits)?.or(default);
            let adjacent = suffix.is_empty();
            pieces.push(Piece::Field { field, width, right: bare.is_some(), adjacent });
            pieces.push(Piece::Text(suffix.to_owned()));
        }
        Ok(Self(pieces))
    }

    /// The letters and names of the fields that it has.
    pub(super) fn fields(&self) -> impl Iterator<Item = &'static Field<R>> {
        self.0.iter().filter_map(|piece| match piece {
            Piece::Field { field, .. } => Some(*field),
            Piece::Text(_) => None,
        })
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
            Piece::Field { field, width, right, adjacent } => {
                let text = crate::shown::in_line(&value(field)).into_owned();
                let is_whole = field.names.iter().any(|name| WHOLE.contains(name));
                match width {
                    None => text,
                    Some(width) if is_whole => {
                        // Where nothing separates the fields, another one follows at once.
                        let least = text.len() + usize::from(*adjacent);
                        fit(&text, least.max(*width), *right)
                    }
                    Some(width) => fit(&text, *width, *right),
                }
            }
        };
        self.0.iter().map(piece).collect()
    }
}

/// In front of a letter in an order: not by the text, but as it is configured.
pub(super) const CONFIGURED: char = '#';

/// An order of rows.
pub(super) struct Order<R: 'static>(Vec<Key<R>>);

struct Key<R: 'static> {
    field: &'static Field<R>,
    /// The field's letter, or [`CONFIGURED`].
    letter: char,
    direction: Direction,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    Ascending,
    Descending,
}

impl<R> Order<R> {
    /// An order of `-S`: letters separated by commas, each with a `-` in front if it is descending.
    ///
    /// # Errors
    /// [`FormatError::Sort`].
    pub(super) fn parse(text: &str, fields: &'static [Field<R>]) -> Result<Self, FormatError> {
        let key = |word: &str| {
            let (direction, bare) = match (word.strip_prefix('-'), word.strip_prefix('+')) {
                (Some(bare), _) => (Direction::Descending, bare),
                (None, bare) => (Direction::Ascending, bare.unwrap_or(word)),
            };
            let letters = || fields.iter().map(|field| field.letter).filter(|c| *c != ' ');
            let known = || list(letters().map(String::from));
            let configured = bare.strip_prefix(CONFIGURED);
            let letter = configured.unwrap_or(bare).parse().ok().filter(|letter| *letter != ' ');
            let field = fields.iter().find(|field| Some(field.letter) == letter);
            let field = field.ok_or_else(|| FormatError::Sort(bare.to_owned(), known()))?;
            let letter = if configured.is_some() { CONFIGURED } else { field.letter };
            Ok(Key { field, letter, direction })
        };
        let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
        Ok(Self(words.map(key).collect::<Result<_, _>>()?))
    }

    /// Which of two rows is first. `number` is a field's value as a number where its text has another order.
    pub(super) fn compare(
        &self,
        a: &R,
        b: &R,
        number: impl Fn(char, &R) -> Option<f64>,
    ) -> Ordering {
        let by = |key: &Key<R>| {
            let order = match (number(key.letter, a), number(key.letter, b)) {
                (Some(a), Some(b)) => a.total_cmp(&b),
                _ => natural(&(key.field.value)(a), &(key.field.value)(b)),
            };
            match key.direction {
                Direction::Ascending => order,
                Direction::Descending => order.reverse(),
            }
        };
        self.0.iter().map(by).find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
    }
}

/// Compares texts, and numbers in them by their values: `n2` is before `n10`.
fn natural(a: &str, b: &str) -> Ordering {
    let (mut rest_a, mut rest_b) = (a, b);
    while let (Some(one), Some(other)) = (rest_a.chars().next(), rest_b.chars().next()) {
        let both = one.is_ascii_digit() && other.is_ascii_digit();
        let (part_a, part_b) = match both {
            true => (digits(rest_a), digits(rest_b)),
            false => (one.len_utf8(), other.len_utf8()),
        };
        let (part_a, after_a) = rest_a.split_at_checked(part_a).unwrap_or_default();
        let (part_b, after_b) = rest_b.split_at_checked(part_b).unwrap_or_default();
        let order = match both {
            true => {
                let (a, b) = (part_a.trim_start_matches('0'), part_b.trim_start_matches('0'));
                a.len().cmp(&b.len()).then_with(|| a.cmp(b))
            }
            false => part_a.cmp(part_b),
        };
        if order.is_ne() {
            return order;
        }
        (rest_a, rest_b) = (after_a, after_b);
    }
    rest_a.len().cmp(&rest_b.len()).then_with(|| a.cmp(b))
}

/// The length of the number at the beginning of a text.
fn digits(text: &str) -> usize {
    text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len()
}

/// Pads or cuts a text. Widths of `format!` end at `u16::MAX`.
fn fit(text: &str, width: usize, right: bool) -> String {
    let text: String = text.chars().take(width).collect();
    let blanks = " ".repeat(width.saturating_sub(text.chars().count()));
    if right { blanks + &text } else { text + &blanks }
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
        // A name is cut, an id is not.
        assert_eq!(format.line(&(1_234_567, "a\nbcd")), "1234567|a\\u0|a\\u000abcd.");
    }

    #[test]
    fn names_are_twenty_columns_wide_unless_they_say_so() {
        let format = Format::names("JobID:.4, name:3,id", FIELDS).unwrap();
        assert_eq!(format.line(&(12, "abcdef")), format!("  12abc{:<20}", 12));
        let format = Format::names("jobid:2,name:2", FIELDS).unwrap();
        assert_eq!(format.line(&(1234, "abcdef")), "1234 ab");
        let format = Format::names("jobid:|,name:4/", FIELDS).unwrap();
        assert_eq!(format.line(&(12, "abcdef")), "12|abcd/");
    }

    /// Formats of the standard library have no width above `u16::MAX`, and panic.
    #[test]
    fn an_id_may_be_longer_than_a_width_can_be() {
        let fields: &'static [Field<String>] = &[Field {
            letter: 'i',
            names: &["jobid"],
            heading: "JOBID",
            value: |row: &String| row.clone(),
        }];
        let long = "1,".repeat(40_000);
        for format in [Format::letters("%.18i", fields), Format::letters("%18i", fields)] {
            assert_eq!(format.unwrap().line(&long), long);
        }
        assert_eq!(Format::names("jobid", fields).unwrap().line(&long), format!("{long} "));
    }

    #[test]
    fn rows_are_sorted_by_several_fields() {
        let sorted = |order: &str| {
            let order = Order::parse(order, FIELDS).unwrap();
            let mut rows = [(2, "n10"), (10, "n2"), (1, "n2"), (3, "m")];
            rows.sort_by(|a, b| order.compare(a, b, |_, _| None));
            rows.iter().map(|row| row.0).collect::<Vec<_>>()
        };
        assert_eq!(sorted("i"), [1, 2, 3, 10]);
        assert_eq!(sorted("-i"), [10, 3, 2, 1]);
        // The number in a name counts, not its first digit.
        assert_eq!(sorted("j,+i"), [3, 1, 10, 2]);
        assert_eq!(sorted("-j,-i"), [2, 10, 1, 3]);
        let rows = [(2, "a"), (1, "b")];
        let by = Order::parse("j", FIELDS).unwrap();
        let number = |_, row: &(u32, &str)| Some(f64::from(row.0));
        assert_eq!(by.compare(&rows[0], &rows[1], number), Ordering::Greater);
        let error = Order::parse("i,-z", FIELDS).err().unwrap().to_string();
        assert_eq!(error, "there is no field 'z' to sort by here; use i, j");
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
