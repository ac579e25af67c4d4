//! Configuration files: of a manager, and of the plugins inside a Slurm.

use jobtap_core::allocation::Tables;
use jobtap_core::queue::Queues;
use jobtap_daemon::daemon::config::{self, check, merge, slurm_file, to_json};
use serde_json::{Value, json};
use toml_edit::DocumentMut;

// The plugins whose tables are read.
use jobtap_builtins as _;

use crate::again::text;

/// A file of a manager, which is read as `toml` and `toml_edit` read it, and the tables of it that are values.
pub(super) fn toml(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let edited = text.parse::<DocumentMut>();
    let Ok(table) = text.parse::<toml::Table>() else {
        assert!(edited.is_err(), "toml_edit takes what toml refuses");
        let is_json = text.trim_start().starts_with('{');
        assert!(is_json || config::parse("file", text).is_err(), "what toml refuses is taken");
        return;
    };
    assert!(edited.is_ok(), "toml_edit refuses what toml takes: {:?}", edited.err());
    let value = to_json(toml::Value::Table(table));
    let read = config::parse("file", text);
    assert_eq!(read.as_ref().ok(), Some(&value), "{:?}", read.as_ref().err());
    let again = edited.map(|document| document.to_string().parse::<toml::Table>());
    let again = again.ok().and_then(Result::ok).map(|table| to_json(toml::Value::Table(table)));
    assert_eq!(again.as_ref(), Some(&value));
    let mut merged = json!({});
    merge(&mut merged, value.clone());
    assert_eq!(merged, value);
    let _ = (Queues::read(&value).is_ok(), Tables::read(&value).is_ok());
}

/// An option `--conf`.
pub(super) fn setting(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    // The name of a file would be read.
    if text.ends_with(".toml") || text.ends_with(".json") {
        return;
    }
    if let Ok(value) = config::setting(text) {
        assert!(value.is_object(), "{value}");
    }
}

/// Everything that a manager reads when it starts, and what is said about it.
pub(super) fn checked(bytes: &[u8]) {
    let Some(Ok(mut config)) = text(bytes).map(|text| config::parse("file", text)) else { return };
    without_files(&mut config);
    for finding in check::check(&config, None).iter().chain(&slurm_file::check(&config, None)) {
        assert!(!finding.text.is_empty());
    }
}

/// Removes all that names a file, or how many of something to make.
fn without_files(config: &mut Value) {
    match config {
        Value::String(text) if text.contains('/') => *text = "x".to_owned(),
        Value::Array(list) => list.iter_mut().for_each(without_files),
        Value::Object(table) => table.values_mut().for_each(without_files),
        _ => {}
    }
}
