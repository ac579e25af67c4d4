//! Replaces the fields in braces of `bulksubmit` by inputs or parts of them.

use std::collections::BTreeMap;

use crate::cli::common::format::{FieldValue, FormatError, formatted};

/// The values of `--define` by name, then by input.
pub(super) type Defined = BTreeMap<String, BTreeMap<String, String>>;

/// A field of a text can't be replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("Invalid replacement {{{field}}} in '{text}': {fault}")]
pub(super) struct ReplaceError {
    field: String,
    text: String,
    fault: FieldFault,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
enum FieldFault {
    #[error("expected '}}' before end of string")]
    Unclosed,
    #[error("there is no such field")]
    Unknown,
    #[error("there are {count} lists of inputs, from 0")]
    NoList { count: usize },
    #[error("no --define={0}=CODE is there")]
    Undefined(String),
    #[error(transparent)]
    Format(#[from] FormatError),
}

/// The values of the fields for one job.
pub(super) struct Fields<'a> {
    /// One input from each list.
    pub(super) inputs: &'a [&'a str],
    /// The number of the job, from 0.
    pub(super) seq: usize,
    /// The values of the user's own substitutions.
    pub(super) defined: &'a Defined,
}

impl Fields<'_> {
    /// Replaces the fields of a text. `{cc}` remains for `--cc`, and `{{...}}` for the job shell.
    ///
    /// # Errors
    /// A field is unknown, or a brace isn't closed.
    pub(super) fn fill(&self, text: &str) -> Result<String, ReplaceError> {
        self.fill_where(text, |_| true)
    }

    /// Like [`fill`](Self::fill) for a resource shape, whose syntax has braces as well: braces without a
    /// field remain.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub(super) fn fill_shape(&self, shape: &str) -> Result<String, ReplaceError> {
        self.fill_where(shape, is_field)
    }

    fn fill_where(&self, text: &str, is_ours: fn(&str) -> bool) -> Result<String, ReplaceError> {
        let mut done = String::with_capacity(text.len());
        for part in parts(text, is_ours)? {
            match part {
                Part::Text(text) => done.push_str(text),
                Part::Field(field) => done.push_str(&self.value(field, text)?),
            }
        }
        Ok(done)
    }

    /// The value of a field that stands in this text.
    ///
    /// # Errors
    /// The field is unknown.
    pub(super) fn value(&self, field: &str, text: &str) -> Result<String, ReplaceError> {
        self.field(field).map_err(|fault| ReplaceError {
            field: field.to_owned(),
            text: text.to_owned(),
            fault,
        })
    }

    /// Replaces the fields of a list of words. If the list is exactly `{}`, the input is split into words.
    ///
    /// # Errors
    /// As [`fill`](Self::fill).
    pub(super) fn fill_list(&self, list: &[String]) -> Result<Vec<String>, ReplaceError> {
        match list {
            [whole] if whole == "{}" => Ok(words(&self.fill(whole)?)),
            list => list.iter().map(|word| self.fill(word)).collect(),
        }
    }

    fn field(&self, field: &str) -> Result<String, FieldFault> {
        let (name, spec) = field.split_once(':').unwrap_or((field, ""));
        let number = |number: usize| FieldValue::Int(number as i128);
        let value = match name {
            "cc" if spec.is_empty() => return Ok("{cc}".to_owned()),
            "seq" => number(self.seq),
            "seq1" => number(self.seq + 1),
            name => FieldValue::Text(self.input(name)?),
        };
        Ok(formatted(&value, spec)?)
    }

    fn input(&self, name: &str) -> Result<String, FieldFault> {
        let (index, part) = match name.split_once('.') {
            Some((index, part)) => (index, Some(part)),
            None => (name, None),
        };
        let index: usize = match index {
            "" => 0,
            index => index.parse().map_err(|_| FieldFault::Unknown)?,
        };
        let count = self.inputs.len();
        let input = self.inputs.get(index);
        let input = input.ok_or(FieldFault::NoList { count })?;
        Ok(match part {
            None => (*input).to_owned(),
            Some("%") => stem(input).to_owned(),
            Some("/") => base(input).to_owned(),
            Some("//") => directory(input).to_owned(),
            Some("/%") => stem(base(input)).to_owned(),
            Some(name) => {
                let value = self.defined.get(name).and_then(|values| values.get(*input));
                value.ok_or_else(|| FieldFault::Undefined(name.to_owned()))?.clone()
            }
        })
    }
}

/// A part of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part<'t> {
    Text(&'t str),
    /// The field between braces.
    Field(&'t str),
}

/// The parts of a text, with all fields in braces.
///
/// # Errors
/// A brace isn't closed.
pub(super) fn all_parts(text: &str) -> Result<Vec<Part<'_>>, ReplaceError> {
    parts(text, |_| true)
}

/// Whether a resource shape has a field.
pub(super) fn has_field_in_shape(shape: &str) -> bool {
    parts(shape, is_field)
        .is_ok_and(|parts| parts.iter().any(|part| matches!(part, Part::Field(_))))
}

fn parts(text: &str, is_ours: fn(&str) -> bool) -> Result<Vec<Part<'_>>, ReplaceError> {
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('{') {
        parts.push(Part::Text(before));
        // `{{...}}` is copied unchanged for the job shell.
        if let Some(shell) = after.strip_prefix('{') {
            let end = shell.find("}}").map_or(shell.len(), |at| at + 2);
            let (kept, after) = shell.split_at(end);
            parts.extend([Part::Text("{{"), Part::Text(kept)]);
            rest = after;
            continue;
        }
        if !is_ours(after) {
            parts.push(Part::Text("{"));
            rest = after;
            continue;
        }
        let (field, after) = after.split_once('}').ok_or_else(|| ReplaceError {
            field: after.to_owned(),
            text: text.to_owned(),
            fault: FieldFault::Unclosed,
        })?;
        parts.push(Part::Field(field));
        rest = after;
    }
    parts.push(Part::Text(rest));
    parts.retain(|part| *part != Part::Text(""));
    Ok(parts)
}

/// Returns true if the text after an opening brace is a field. The number of lists doesn't matter: a field
/// without a list is an error, not a part of the shape.
fn is_field(text: &str) -> bool {
    let Some((field, _)) = text.split_once('}') else { return false };
    let name = field.split([':', '.']).next().unwrap_or_default();
    matches!(name, "cc" | "seq" | "seq1") || name.bytes().all(|byte| byte.is_ascii_digit())
}

fn base(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, base)| base)
}

fn directory(path: &str) -> &str {
    match path.rsplit_once('/') {
        Some(("", _)) => "/",
        Some((directory, _)) => directory,
        None => "",
    }
}

/// The path without its extension. A leading dot in the last component doesn't start an extension.
fn stem(path: &str) -> &str {
    let name = base(path);
    match name.rfind('.') {
        Some(dot) if !name.get(..dot).unwrap_or_default().trim_start_matches('.').is_empty() => {
            path.get(..path.len() - name.len() + dot).unwrap_or(path)
        }
        _ => path,
    }
}

/// Splits a text into words as a shell does: at white space, but not within quotes.
pub(super) fn words(text: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => word.get_or_insert_default().extend(chars.next()),
            (None, c) if c.is_whitespace() => words.extend(word.take()),
            (_, c) => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn fill(text: &str) -> Result<String, ReplaceError> {
        let inputs = ["/a/b.c/x.tar.gz", "two"];
        let values = BTreeMap::from([("two".to_owned(), "2".to_owned())]);
        let defined = Defined::from([("n".to_owned(), values)]);
        let fields = Fields { inputs: &inputs, seq: 3, defined: &defined };
        fields.fill(text)
    }

    #[test]
    fn fields_are_replaced_by_inputs_and_their_parts() {
        let cases = [
            ("{}", "/a/b.c/x.tar.gz"),
            ("{1}-{0}", "two-/a/b.c/x.tar.gz"),
            ("{.%} {./} {.//} {./%}", "/a/b.c/x.tar x.tar.gz /a/b.c x.tar"),
            ("{0.%} {1.%} {1.//}.", "/a/b.c/x.tar two ."),
            ("{seq} {seq1} {seq:03d}", "3 4 003"),
            ("{1.n}", "2"),
            ("{cc} {{id}} {{cc}} }", "{cc} {{id}} {{cc}} }"),
        ];
        for (text, expected) in cases {
            assert_eq!(fill(text).as_deref(), Ok(expected), "{text}");
        }
        assert_eq!((stem(".bashrc"), stem("a/.b.c"), stem("a.d/b")), (".bashrc", "a/.b", "a.d/b"));
    }

    #[test]
    fn braces_of_a_shape_remain() {
        let inputs = ["2", "db"];
        let fields = Fields { inputs: &inputs, seq: 3, defined: &Defined::new() };
        for (shape, expected) in [
            ("node={}{x}/slot={0}{a,-x}/core", "node=2{x}/slot=2{a,-x}/core"),
            (
                "slot{{1}}/[core={seq};memory{unit:GB,d:{a:1}}]",
                "slot{{1}}/[core=3;memory{unit:GB,d:{a:1}}]",
            ),
            ("slot={cc}{open", "slot={cc}{open"),
        ] {
            assert_eq!(fields.fill_shape(shape).as_deref(), Ok(expected));
        }
        assert!(fields.fill_shape("slot={2}/core").is_err());
    }

    #[test]
    fn an_unknown_field_is_named_in_the_error() {
        assert_eq!(
            fill("x{2}").unwrap_err().to_string(),
            "Invalid replacement {2} in 'x{2}': there are 2 lists of inputs, from 0"
        );
        let refused = |text: &str| fill(text).unwrap_err().to_string();
        assert!(refused("{nosuch}").starts_with("Invalid replacement {nosuch} in "));
        assert!(refused("{.nosuch}").contains("--define=nosuch=CODE"));
        assert!(refused("a{").contains("expected '}'"));
    }

    #[test]
    fn only_a_list_that_is_one_field_is_split_into_words() {
        let inputs = ["echo 'a b' \"c\\\"d\" e\\ f ''"];
        let fields = Fields { inputs: &inputs, seq: 0, defined: &Defined::new() };
        let expected = ["echo", "a b", "c\"d", "e f", ""];
        let list = |list: &[&str]| {
            fields.fill_list(&list.iter().map(|&word| word.to_owned()).collect::<Vec<_>>()).unwrap()
        };
        assert_eq!(list(&["{}"]), expected);
        assert_eq!(list(&["x{}"]).len(), 1);
        assert_eq!(list(&["cat", "{}"]).len(), 2);
    }

    proptest! {
        #[test]
        fn any_text_is_filled_or_the_error_names_its_field(text in "[{}.:%/a0-9 ]{0,16}", input in ".{0,8}") {
            let inputs = [&*input];
            let fields = Fields { inputs: &inputs, seq: 0, defined: &Defined::new() };
            match fields.fill(&text) {
                Ok(filled) => prop_assert!(text.contains('{') || filled == text, "{}", filled),
                Err(error) => {
                    prop_assert!(text.contains(&format!("{{{}", error.field)), "{}", error);
                    prop_assert_eq!(error.text, text);
                }
            }
        }

        #[test]
        fn directory_and_base_join_to_the_path(path in "(/?[a.é]{1,3})?(/[a.é]{1,3}){0,3}/?") {
            prop_assert!(path.starts_with(stem(&path)) && path.ends_with(base(&path)));
            let joined = match directory(&path) {
                "" => base(&path).to_owned(),
                "/" => format!("/{}", base(&path)),
                directory => format!("{directory}/{}", base(&path)),
            };
            prop_assert_eq!(joined, path);
        }

        #[test]
        fn quoted_words_are_split_unchanged(list in proptest::collection::vec("[^']{0,6}", 0..4)) {
            let quoted: Vec<String> = list.iter().map(|word| format!("'{word}'")).collect();
            prop_assert_eq!(words(&quoted.join(" ")), list);
        }
    }
}
