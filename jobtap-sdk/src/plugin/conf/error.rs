//! Errors in a configuration, each with the key that it concerns, worded for the author of a configuration file.

use std::fmt::{self, Display, Write};

use serde::de::{self, Expected, Unexpected};

use crate::suggest::nearest;

/// The keys of a struct or the variants of an enum, as serde's derive names them.
pub(super) type Names = &'static [&'static str];

/// An error and its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ReadError {
    /// From the inside out: each level adds itself while the error is returned through it.
    path: Vec<Segment>,
    fault: Fault,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Segment {
    Key(String),
    Index(usize),
}

/// The kinds of errors.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Fault {
    /// The last key of the path is not one of these.
    UnknownKey(Names),
    /// The table at the path lacks this key.
    MissingKey(&'static str),
    /// The table at the path has this key twice, under two names.
    DuplicateKey(&'static str),
    /// A value that is not one of these.
    UnknownValue(String, Names),
    /// A value of another type; the text says which, and what is expected.
    InvalidType(String),
    /// Too many or too few elements.
    InvalidLength(String),
    /// Any other error of the type.
    Other(String),
}

impl ReadError {
    fn new(fault: Fault) -> Self {
        Self { path: Vec::new(), fault }
    }

    /// A key that its table doesn't have. The caller adds the key by [`under`](Self::under).
    pub(super) fn unknown_key(known: Names) -> Self {
        Self::new(Fault::UnknownKey(known))
    }

    /// Whether the error is that a struct doesn't have the key at this path, or one of the tables on the way to it.
    pub(super) fn is_unknown_key(&self, path: &[&str]) -> bool {
        let mut wanted = path.iter();
        let on_the_way = self.path.iter().rev().all(|segment| match segment {
            Segment::Key(key) => wanted.next().is_some_and(|wanted| wanted == key),
            Segment::Index(_) => false,
        });
        on_the_way && matches!(self.fault, Fault::UnknownKey(_))
    }

    /// The same error, in the value of `key`.
    pub(super) fn under(mut self, key: &str) -> Self {
        self.path.push(Segment::Key(key.to_owned()));
        self
    }

    /// The same error, in an element of an array.
    pub(super) fn at(mut self, index: usize) -> Self {
        self.path.push(Segment::Index(index));
        self
    }

    /// The same error, in the key itself. An unknown value is an unknown key here.
    pub(super) fn of_key(self, key: &str) -> Self {
        match self.fault {
            Fault::UnknownKey(_) => self,
            Fault::UnknownValue(_, known) => Self::unknown_key(known).under(key),
            _ => self.under(key),
        }
    }

    fn place(&self) -> KeyPath<'_> {
        KeyPath { path: &self.path, last: None }
    }
}

impl std::error::Error for ReadError {}

impl Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = self.place();
        match &self.fault {
            Fault::UnknownKey(known) => {
                write!(f, "unknown key {}", place.quoted())?;
                let Some((Segment::Key(key), outer)) = self.path.split_first() else {
                    return Ok(());
                };
                if let Some(near) = nearest(key, known.iter().copied()) {
                    let near = KeyPath { path: outer, last: Some(near) };
                    return write!(f, "; did you mean {}?", near.quoted());
                }
                match known {
                    [] => f.write_str(": there are no keys"),
                    [only] => write!(f, ": the only key is {only}"),
                    _ => write!(f, ": the keys are {}", known.join(", ")),
                }
            }
            Fault::MissingKey(key) => write!(f, "missing key {}", place.then(key).quoted()),
            Fault::DuplicateKey(key) => {
                write!(f, "{} is given twice", place.then(key).quoted())
            }
            Fault::UnknownValue(value, known) => {
                write!(f, "{}unknown value {value:?}", place.prefix())?;
                if let Some(near) = nearest(value, known.iter().copied()) {
                    return write!(f, "; did you mean {near:?}?");
                }
                match known {
                    [] => f.write_str(": there are no values"),
                    [only] => write!(f, ": the only value is {only}"),
                    _ => write!(f, ": the values are {}", known.join(", ")),
                }
            }
            Fault::InvalidType(text) | Fault::InvalidLength(text) | Fault::Other(text) => {
                write!(f, "{}{text}", place.prefix())
            }
        }
    }
}

/// A path, with an optional key of the table at its end.
#[derive(Clone, Copy)]
struct KeyPath<'a> {
    path: &'a [Segment],
    last: Option<&'a str>,
}

impl<'a> KeyPath<'a> {
    fn then(self, last: &'a str) -> Self {
        Self { last: Some(last), ..self }
    }

    /// The path in quotes, unless one of its keys is quoted itself.
    fn quoted(self) -> String {
        let text = self.to_string();
        if text.contains('"') { text } else { format!("\"{text}\"") }
    }

    /// The path as the beginning of a message.
    fn prefix(self) -> String {
        match self.path {
            [] => String::new(),
            _ => format!("{self}: "),
        }
    }
}

impl Display for KeyPath<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.path.iter().rev().map(|segment| match segment {
            Segment::Key(key) => Ok(key.as_str()),
            Segment::Index(index) => Err(*index),
        });
        for (i, segment) in keys.chain(self.last.map(Ok)).enumerate() {
            match segment {
                Err(index) => write!(f, "[{index}]")?,
                Ok(key) => {
                    f.write_str(if i == 0 { "" } else { "." })?;
                    if is_bare(key) {
                        f.write_str(key)?;
                    } else {
                        write!(f, "{key:?}")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Whether TOML accepts the key without quotes.
fn is_bare(key: &str) -> bool {
    let bare = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    !key.is_empty() && key.chars().all(bare)
}

/// The text of a value. Unlike `to_string` it doesn't panic when the `Display` of an author's type fails.
fn text_of(what: impl Display) -> String {
    let mut text = String::new();
    let _ = write!(text, "{what}");
    text
}

/// The value that was found, in the words of a configuration file.
fn found(unexpected: Unexpected<'_>) -> String {
    match unexpected {
        Unexpected::Unit | Unexpected::Option => "null".to_owned(),
        Unexpected::Seq => "array".to_owned(),
        Unexpected::Map => "table".to_owned(),
        other => text_of(other),
    }
}

/// The value that was expected, in the words of a configuration file. serde's derive names the Rust type.
fn wanted(expected: &dyn Expected) -> String {
    const TABLES: [&str; 4] =
        ["struct ", "struct variant ", "internally tagged enum ", "adjacently tagged enum "];
    let text = text_of(expected);
    if text == "a map" || TABLES.iter().any(|start| text.starts_with(start)) {
        "a table".to_owned()
    } else if ["tuple struct ", "tuple variant "].iter().any(|start| text.starts_with(start)) {
        match text.split_once(" with ") {
            Some((_, elements)) => format!("an array with {elements}"),
            None => "an array".to_owned(),
        }
    } else if text == "a sequence" {
        "an array".to_owned()
    } else {
        text
    }
}

impl de::Error for ReadError {
    fn custom<T: Display>(text: T) -> Self {
        Self::new(Fault::Other(text_of(text)))
    }

    fn invalid_type(unexpected: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::new(Fault::InvalidType(format!(
            "invalid type: {}, expected {}",
            found(unexpected),
            wanted(expected)
        )))
    }

    fn invalid_length(len: usize, expected: &dyn Expected) -> Self {
        Self::new(Fault::InvalidLength(format!(
            "invalid length {len}, expected {}",
            wanted(expected)
        )))
    }

    fn unknown_variant(variant: &str, expected: Names) -> Self {
        Self::new(Fault::UnknownValue(variant.to_owned(), expected))
    }

    fn unknown_field(field: &str, expected: Names) -> Self {
        Self::unknown_key(expected).under(field)
    }

    fn missing_field(field: &'static str) -> Self {
        Self::new(Fault::MissingKey(field))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self::new(Fault::DuplicateKey(field))
    }
}

#[cfg(test)]
mod tests {
    use serde::de::Error;

    use super::*;

    #[test]
    fn a_path_reads_as_in_a_toml_file() {
        let error = ReadError::custom("no").at(2).under("a b").under("x");
        assert_eq!(error.to_string(), "x.\"a b\"[2]: no");
        let error = ReadError::missing_field("age").under("a.b");
        assert_eq!(error.to_string(), "missing key \"a.b\".age");
        let error = ReadError::missing_field("age").at(0);
        assert_eq!(error.to_string(), "missing key \"[0].age\"");
    }

    #[test]
    fn a_failing_display_does_not_panic() {
        struct Broken;
        impl Display for Broken {
            fn fmt(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
                Err(fmt::Error)
            }
        }
        assert_eq!(ReadError::custom(Broken).to_string(), "");
    }
}
