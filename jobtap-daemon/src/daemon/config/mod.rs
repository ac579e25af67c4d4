//! The instance configuration: TOML files and command line settings, merged into one JSON object.

pub mod check;
pub(super) mod current;
#[cfg(feature = "http")]
pub(super) mod http;
#[cfg(not(feature = "http"))]
#[path = "no_http.rs"]
pub(super) mod http;
pub(super) mod jobspec_size;
pub mod keys;
mod lines;
pub(super) mod linked_plugins;
pub mod place;
mod resource;
pub(super) mod settings;
pub mod slurm_file;

use std::path::{Path, PathBuf};

use crate::files::input;
pub use lines::Location;
use serde_json::{Map, Value};

/// Why a configuration can't be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// A file or directory that can't be read.
    #[error("can't read the configuration {}: {reason}", path.display())]
    Read {
        /// The file or directory.
        path: PathBuf,
        /// The error of the system.
        reason: std::io::Error,
    },
    /// A text that is not TOML or JSON.
    #[error("{place}:{line}: {message}")]
    Parse {
        /// The file, or the option's name.
        place: String,
        /// Line, from 1.
        line: usize,
        /// The error of the parser.
        message: String,
    },
    /// A `--conf` option that is neither a file nor a TOML or JSON text nor `KEY=VAL`.
    #[error("--conf={0}: neither a file (*.toml, *.json) nor TOML nor KEY=VAL")]
    Setting(String),
}

/// Where a configuration comes from: the options of `start`. A reload reads them again.
#[derive(Debug, Clone, Default)]
pub struct Source {
    /// Files and directories, absolute.
    paths: Vec<PathBuf>,
    /// The `--conf` options, which take precedence over the files.
    settings: Vec<String>,
}

impl Source {
    /// A configuration from these files, directories and options. Relative names are relative to the
    /// current directory.
    ///
    /// # Errors
    /// The current directory has been removed.
    pub fn new(paths: &[PathBuf], settings: Vec<String>) -> Result<Self, ConfigError> {
        let absolute = |path: &PathBuf| {
            std::path::absolute(path)
                .map_err(|reason| ConfigError::Read { path: path.clone(), reason })
        };
        let paths = paths.iter().map(absolute).collect::<Result<_, _>>()?;
        Ok(Self { paths, settings })
    }

    /// The directory of the last file, or the last directory; `None` without any.
    pub fn directory(&self) -> Option<PathBuf> {
        let last = self.paths.last()?;
        if last.is_dir() { Some(last.clone()) } else { last.parent().map(Path::to_owned) }
    }

    /// Reads and merges all of it.
    ///
    /// # Errors
    /// The first file or option that cannot be read or parsed.
    pub fn read(&self) -> Result<Value, ConfigError> {
        let mut whole = crate::linked::default_config();
        for path in &self.paths {
            merge(&mut whole, load(path)?);
        }
        for text in &self.settings {
            merge(&mut whole, setting(text)?);
        }
        Ok(whole)
    }
}

/// Parses a whole configuration: a JSON object, or TOML. `place` names it in errors.
///
/// # Errors
/// The text is neither.
pub fn parse(place: &str, text: &str) -> Result<Value, ConfigError> {
    if text.trim_start().starts_with('{') {
        parse_json(place, text)
    } else {
        parse_toml(place, text)
    }
}

/// Reads a TOML or JSON file, or all `*.toml` and `*.json` files of a directory in the order of their names.
pub fn load(path: &Path) -> Result<Value, ConfigError> {
    let mut config = Value::Object(Map::new());
    for file in files(path)? {
        merge(&mut config, load_file(&file)?);
    }
    Ok(config)
}

/// Parses one `--conf` option: a file's name, a TOML or JSON text, or `key.path=value`.
pub fn setting(text: &str) -> Result<Value, ConfigError> {
    let path = Path::new(text);
    if !text.contains(['=', '\n']) && is_config_file(path) {
        return load_file(path);
    }
    if text.trim_start().starts_with('{') {
        return parse_json("--conf", text);
    }
    match parse_toml("--conf", text) {
        Ok(value) => Ok(value),
        Err(error) if text.contains('\n') => Err(error),
        Err(_) => key_value(text).ok_or_else(|| ConfigError::Setting(text.to_owned())),
    }
}

/// Merges `over` into `base`: tables are merged key by key, any other value is replaced.
pub fn merge(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                match base.get_mut(&key) {
                    Some(slot) => merge(slot, value),
                    None => drop(base.insert(key, value)),
                }
            }
        }
        (base, over) => *base = over,
    }
}

/// The files of a configuration: the file itself, or those of a directory, in the order in which they are merged.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let read = |reason| ConfigError::Read { path: path.to_path_buf(), reason };
    if !std::fs::metadata(path).map_err(read)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut files = Vec::new();
    for entry in std::fs::read_dir(path).map_err(read)? {
        let file = entry.map_err(read)?.path();
        if is_config_file(&file) {
            files.push(file);
        }
    }
    files.sort();
    Ok(files)
}

fn is_config_file(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "toml" || extension == "json")
}

/// Reads one TOML or JSON file.
pub fn load_file(path: &Path) -> Result<Value, ConfigError> {
    let text = input::text(path)
        .map_err(|reason| ConfigError::Read { path: path.to_path_buf(), reason })?;
    let place = path.display().to_string();
    if path.extension().is_some_and(|extension| extension == "json") {
        parse_json(&place, &text)
    } else {
        parse_toml(&place, &text)
    }
}

fn parse_toml(place: &str, text: &str) -> Result<Value, ConfigError> {
    let table: toml::Table = toml::from_str(text).map_err(|error| {
        let offset = error.span().map_or(0, |span| span.start);
        let line = text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1;
        ConfigError::Parse { place: place.to_owned(), line, message: error.message().to_owned() }
    })?;
    Ok(to_json(toml::Value::Table(table)))
}

fn parse_json(place: &str, text: &str) -> Result<Value, ConfigError> {
    let problem = |line, message| ConfigError::Parse { place: place.to_owned(), line, message };
    let value: Value =
        serde_json::from_str(text).map_err(|error| problem(error.line(), error.to_string()))?;
    if value.is_object() {
        Ok(value)
    } else {
        Err(problem(1, "the whole must be an object".into()))
    }
}

/// A TOML value as JSON. A date becomes its text, and a number that JSON does not have becomes null.
pub fn to_json(value: toml::Value) -> Value {
    match value {
        toml::Value::String(text) => Value::String(text),
        toml::Value::Integer(number) => Value::from(number),
        toml::Value::Float(number) => Value::from(number),
        toml::Value::Boolean(truth) => Value::Bool(truth),
        toml::Value::Datetime(date) => Value::String(date.to_string()),
        toml::Value::Array(items) => items.into_iter().map(to_json).collect(),
        toml::Value::Table(table) => {
            Value::Object(table.into_iter().map(|(key, value)| (key, to_json(value))).collect())
        }
    }
}

fn key_value(text: &str) -> Option<Value> {
    let (key, value) = text.split_once('=')?;
    let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
    nest(key, value)
}

/// Nests a value: `a.b.c` makes `{"a":{"b":{"c":value}}}`. `None` if a part of the key is empty.
pub fn nest(key: &str, value: Value) -> Option<Value> {
    key.rsplit('.').try_fold(value, |inner, part| {
        (!part.is_empty()).then(|| Value::Object(Map::from_iter([(part.to_owned(), inner)])))
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn files_of_a_directory_are_merged_in_the_order_of_their_names() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("1.toml"), "[a]\nx = 2\n[b]\ny = [1]").unwrap();
        std::fs::write(dir.path().join("0.toml"), "[a]\nx = 1\nz = 3").unwrap();
        std::fs::write(dir.path().join("notes.txt"), "not read").unwrap();
        assert_eq!(load(dir.path()).unwrap(), json!({"a": {"x": 2, "z": 3}, "b": {"y": [1]}}));
    }

    #[test]
    fn a_source_is_read_again_with_the_options_on_top() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("a.toml");
        let source = Source::new(std::slice::from_ref(&file), vec!["a.y=2".to_owned()]).unwrap();
        for x in [1, 7] {
            std::fs::write(&file, format!("[a]\nx = {x}\ny = 1")).unwrap();
            assert_eq!(source.read().unwrap(), json!({"a": {"x": x, "y": 2}}));
        }
        std::fs::remove_file(&file).unwrap();
        assert!(source.read().is_err());
    }

    #[test]
    fn a_whole_configuration_is_toml_or_json() {
        assert_eq!(
            parse("stdin", "[a]\nx = 1").unwrap(),
            parse("stdin", "{\"a\":{\"x\":1}}").unwrap()
        );
        let text = parse("stdin", "[a\n").unwrap_err().to_string();
        assert!(text.starts_with("stdin:1: "), "{text}");
    }

    #[test]
    fn tables_keep_their_order() {
        let config = parse("stdin", "[queues.night]\n[queues.batch]\n[queues.debug]").unwrap();
        let names: Vec<_> = config["queues"].as_object().unwrap().keys().cloned().collect();
        assert_eq!(names, ["night", "batch", "debug"]);
    }

    #[test]
    fn an_error_names_file_and_line() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("bad.toml");
        std::fs::write(&file, "[a]\nx = 1\ny = = 2\n").unwrap();
        let text = load(&file).unwrap_err().to_string();
        assert!(text.starts_with(&format!("{}:3: ", file.display())), "{text}");
        let text = load(&dir.path().join("none")).unwrap_err().to_string();
        assert!(text.contains("none") && text.contains("No such file"), "{text}");
    }

    #[test]
    fn a_setting_is_toml_or_json_or_a_key_and_a_word() {
        assert_eq!(setting("a.b=1").unwrap(), json!({"a": {"b": 1}}));
        assert_eq!(setting("a.b=word").unwrap(), json!({"a": {"b": "word"}}));
        assert_eq!(setting("[q]\nx = true").unwrap(), json!({"q": {"x": true}}));
        assert_eq!(setting("[q]\nx = 1979-05-27").unwrap(), json!({"q": {"x": "1979-05-27"}}));
        assert_eq!(setting("{\"q\": 1}").unwrap(), json!({"q": 1}));
        assert!(setting("nonsense").unwrap_err().to_string().contains("KEY=VAL"));
        assert!(setting("a..b=x").is_err());
    }

    proptest! {
        #[test]
        fn a_setting_is_a_table_or_refused_by_its_place(
            text in ".*|[a-c.]{0,4}=[a-z0-9\"]{0,4}|\\{\"a\": ?[0-9a]{0,2}\\}?",
        ) {
            match setting(&text) {
                Ok(value) => prop_assert!(value.is_object(), "{}", value),
                Err(ConfigError::Setting(named)) => prop_assert_eq!(named, text),
                Err(ConfigError::Parse { place, .. }) => prop_assert_eq!(place, "--conf"),
                Err(ConfigError::Read { path, .. }) => prop_assert_eq!(path, Path::new(&text)),
            }
        }

        #[test]
        fn what_comes_later_wins(a: i64, b: i64) {
            let mut base = json!({"k": a, "only": a});
            merge(&mut base, json!({"k": b}));
            prop_assert_eq!(base, json!({"k": b, "only": a}));
        }
    }
}
