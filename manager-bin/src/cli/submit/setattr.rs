//! `--setattr KEY[=VAL]` and `--setopt OPT[=VAL]`: set values in the jobspec.

use jobtap_core::jobspec::{JobspecBuilder, JobspecError};
use serde_json::Value;

use super::caller::Caller;
use super::error::ArgError;
use crate::files::input;

/// Applies a `--setattr`.
///
/// # Errors
/// [`ArgError::File`] for `^KEY=FILE` if the file can't be read or isn't JSON; [`ArgError::SetAttr`] if the
/// key is invalid.
pub(crate) fn set_attribute(
    builder: JobspecBuilder,
    setting: &str,
    caller: &Caller,
) -> Result<JobspecBuilder, ArgError> {
    let (key, value) = key_and_value(setting, caller)?;
    let shown = value.clone();
    builder.attribute(key, value).map_err(|_| failed(key, &shown))
}

/// Applies a `--setopt`.
///
/// # Errors
/// As [`set_attribute`].
pub(crate) fn set_option(
    builder: JobspecBuilder,
    setting: &str,
    caller: &Caller,
) -> Result<JobspecBuilder, ArgError> {
    let (key, value) = key_and_value(setting, caller)?;
    let shown = value.clone();
    builder.shell_option(key, value).map_err(|_: JobspecError| failed(key, &shown))
}

/// Splits `KEY[=VAL]`, or reads the value of `^KEY=FILE`.
fn key_and_value<'s>(setting: &'s str, caller: &Caller) -> Result<(&'s str, Value), ArgError> {
    let (key, text) = match setting.split_once('=') {
        Some((key, text)) => (key, Some(text)),
        None => (setting, None),
    };
    Ok(match key.strip_prefix('^') {
        Some(key) => (key, from_file(text.unwrap_or_default(), caller)?),
        None => (key, to_value(text)),
    })
}

/// Parses a value as JSON. A text that isn't JSON is a string, and a missing text means 1.
fn to_value(text: Option<&str>) -> Value {
    match text {
        None => Value::from(1),
        Some(text) => serde_json::from_str(text).unwrap_or_else(|_| Value::from(text)),
    }
}

fn from_file(name: &str, caller: &Caller) -> Result<Value, ArgError> {
    let text = input::text(caller.file(name)).map_err(|e| ArgError::file(name, &e))?;
    serde_json::from_str(&text)
        .map_err(|error| ArgError::File { name: name.to_owned(), text: error.to_string() })
}

fn failed(key: &str, value: &Value) -> ArgError {
    let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    ArgError::SetAttr { key: key.to_owned(), value }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::json;

    use super::*;

    /// The attributes of a jobspec with these settings.
    fn attributes(settings: &[&str]) -> Result<Value, ArgError> {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("f.json"), r#"{"from":"file"}"#).unwrap();
        fs::write(dir.path().join("bad.json"), "{").unwrap();
        let caller = Caller { cwd: dir.path().to_owned(), ..Caller::default() };
        let mut builder = JobspecBuilder::new(["app"]);
        for setting in settings {
            builder = set_attribute(builder, setting, &caller)?;
        }
        Ok(builder.to_value()["attributes"].take())
    }

    #[test]
    fn every_form_of_setattr_sets_the_same_as_in_flux() {
        let system = |rest: Value| {
            let mut system = json!({"duration": 0});
            system.as_object_mut().unwrap().extend(rest.as_object().unwrap().clone());
            json!({ "system": system })
        };
        assert_eq!(attributes(&["foo"]).unwrap(), system(json!({"foo": 1})));
        assert_eq!(attributes(&["foo=bar"]).unwrap(), system(json!({"foo": "bar"})));
        assert_eq!(attributes(&["foo=1.5"]).unwrap(), system(json!({"foo": 1.5})));
        assert_eq!(
            attributes(&[r#"foo.bar={"x":[1,null,true]}"#]).unwrap(),
            system(json!({"foo": {"bar": {"x": [1, null, true]}}}))
        );
        assert_eq!(attributes(&["system.foo=1"]).unwrap(), system(json!({"foo": 1})));
        assert_eq!(
            attributes(&["user.foo=1"]).unwrap(),
            json!({"system": {"duration": 0}, "user": {"foo": 1}})
        );
        assert_eq!(
            attributes(&["attributes.other.x=2", ".top=a=b"]).unwrap(),
            json!({"system": {"duration": 0}, "other": {"x": 2}, "top": "a=b"})
        );
        assert_eq!(attributes(&["duration=77"]).unwrap(), json!({"system": {"duration": 77}}));
        assert_eq!(attributes(&["^key=f.json"]).unwrap(), system(json!({"key": {"from": "file"}})));
    }

    #[test]
    fn invalid_settings_are_refused() {
        let refused = |setting: &str| attributes(&[setting]).unwrap_err().to_string();
        assert_eq!(refused("^key=nosuch.json"), "No such file or directory: 'nosuch.json'");
        assert!(refused("^key=bad.json").ends_with(": 'bad.json'"));
        assert_eq!(refused("duration.x=a"), "failed to set duration.x to a");
        assert_eq!(refused("a..b"), "failed to set a..b to 1");
    }

    #[test]
    fn setopt_sets_job_shell_options() {
        let mut builder = JobspecBuilder::new(["app"]);
        for setting in ["verbose", "cpu-affinity=off", "output.mode=append", "n=[1]"] {
            builder = set_option(builder, setting, &Caller::default()).unwrap();
        }
        assert_eq!(
            builder.to_value()["attributes"]["system"]["shell"]["options"],
            json!({"verbose": 1, "cpu-affinity": "off", "output": {"mode": "append"}, "n": [1]})
        );
        let refused = set_option(JobspecBuilder::new(["app"]), "", &Caller::default()).unwrap_err();
        assert_eq!(refused.to_string(), "failed to set  to 1");
    }
}
