//! Finds the file and line of a value of a configuration, for messages.

use std::fmt;
use std::path::{Path, PathBuf};

use toml::de::{DeTable, DeValue};

use super::place::Step;
use super::{Source, files};

/// Where a value is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    file: PathBuf,
    /// Counted from 1; `None` in a JSON file.
    line: Option<usize>,
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}, line {line}", self.file.display()),
            None => write!(f, "{}", self.file.display()),
        }
    }
}

impl Source {
    /// Returns the location of the value at this place in the last file that has it, or else of the table around it.
    /// `None` for a value that comes from an option.
    pub fn locate(&self, place: &[Step]) -> Option<Location> {
        let files = self.paths.iter().filter_map(|path| files(path).ok()).flatten();
        let texts = files.filter_map(|file| Some((std::fs::read_to_string(&file).ok()?, file)));
        let texts: Vec<(String, PathBuf)> = texts.collect();
        (1..=place.len()).rev().find_map(|length| {
            let place = place.get(..length)?;
            texts.iter().rev().find_map(|(text, file)| located(text, file, place))
        })
    }

    /// A message about the value at a place, with the file and the line.
    pub fn located(&self, text: &str, place: &[Step]) -> String {
        match self.locate(place) {
            Some(location) => format!("{text} ({location})"),
            None => text.to_owned(),
        }
    }
}

fn located(text: &str, file: &Path, place: &[Step]) -> Option<Location> {
    let file = file.to_owned();
    if file.extension().is_some_and(|extension| extension == "json") {
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        super::place::inside(&value, place)?;
        return Some(Location { file, line: None });
    }
    let table = DeTable::parse(text).ok()?;
    let offset = offset(table.get_ref(), place)?;
    let before = text.get(..offset)?;
    Some(Location { file, line: Some(before.matches('\n').count() + 1) })
}

/// Returns the offset at which the key of a value, or an element of an array, begins.
fn offset(table: &DeTable<'_>, place: &[Step]) -> Option<usize> {
    let (first, rest) = place.split_first()?;
    let Step::Key(name) = first else { return None };
    let (key, value) = table.get_key_value(name.as_str())?;
    inner_offset(value.get_ref(), rest, key.span().start)
}

fn inner_offset(value: &DeValue<'_>, place: &[Step], here: usize) -> Option<usize> {
    match (value, place.first()) {
        (_, None) => Some(here),
        (DeValue::Table(table), Some(Step::Key(_))) => offset(table, place),
        (DeValue::Array(items), Some(Step::Index(index))) => {
            let item = items.get(*index)?;
            inner_offset(item.get_ref(), place.get(1..)?, item.span().start)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_at_its_line_in_the_last_file() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str, text: &str| {
            let file = dir.path().join(name);
            std::fs::write(&file, text).unwrap();
            file
        };
        let first = at("0.toml", "[a]\nx = 1\n\n[a.b]\ny = [\n  1,\n  { z = 2 },\n]\n");
        let second = at("1.toml", "a.x = 2\n[[c]]\nd = 1\n[[c]]\nd = 2\n");
        let third = at("2.json", "{\"e\": 1}");
        let source = Source::new(&[dir.path().to_owned()], Vec::new()).unwrap();
        let key = |name: &str| Step::Key(name.into());
        let found = |place: &[Step]| source.locate(place).map(|found| (found.file, found.line));
        for (place, file, line) in [
            (vec![key("a"), key("x")], &second, Some(1)),
            (vec![key("a"), key("b"), key("y")], &first, Some(5)),
            (vec![key("a"), key("b"), key("y"), Step::Index(1), key("z")], &first, Some(7)),
            (vec![key("c"), Step::Index(1), key("d")], &second, Some(5)),
            (vec![key("a"), key("b"), key("missing")], &first, Some(4)),
            (vec![key("e")], &third, None),
        ] {
            assert_eq!(found(&place), Some((file.clone(), line)), "{place:?}");
        }
        assert_eq!(found(&[key("option")]), None);
        assert_eq!(found(&[]), None);
        let text = source.located("a.b.y: no", &[key("a"), key("b"), key("y")]);
        assert_eq!(text, format!("a.b.y: no ({}, line 5)", first.display()));
    }
}
