//! Refuses shell options whose values have the wrong form. A job would otherwise run without what its user asked for:
//! with its output elsewhere, or without a signal before its end.

use jobtap_core::resource::Idset;
use serde_json::Value;

use super::option_error::{OptionError, OptionFault};

/// The form that the value of an option must have.
#[derive(Clone, Copy)]
enum Form {
    Object,
    Text,
    Integer,
    Seconds,
    /// As an integer the option is only on or off.
    ObjectOrInteger,
    Flag,
    /// Ranks of tasks, or `all`.
    Ranks,
    /// No value: Flux's job shell has the option, and the shepherd can't do what it asks for, for this reason.
    Nothing(&'static str),
}

/// The reason why there are no Lua files.
const NO_LUA: &str = "there are no files of Lua for the job shell here: plugins act in the manager";

/// The options with their forms. Those that are missing here are checked where they are read.
const FORMS: [(&str, Form); 20] = [
    ("output", Form::Object),
    ("output.stdout", Form::Object),
    ("output.stdout.path", Form::Text),
    ("output.stderr", Form::Object),
    ("output.stderr.path", Form::Text),
    ("input", Form::Object),
    ("input.stdin", Form::Object),
    ("input.stdin.path", Form::Text),
    ("signal", Form::ObjectOrInteger),
    ("signal.signum", Form::Integer),
    ("signal.timeleft", Form::Seconds),
    ("verbose", Form::Integer),
    ("nosetpgrp", Form::Flag),
    ("pty.ranks", Form::Ranks),
    ("per-resource", Form::Object),
    ("per-resource.count", Form::Integer),
    ("userrc", Form::Nothing(NO_LUA)),
    ("initrc", Form::Nothing(NO_LUA)),
    ("stage-in", Form::Nothing("there are no archives here: send files with the job, --add-file")),
    (
        "coprocess",
        Form::Nothing("no helpers run beside tasks here: start them in the job's script"),
    ),
];

/// Options whose parts are all known. For these options only, Flux's job shell refuses other parts.
const PARTS: [(&str, &[&str]); 5] = [
    ("pty", &["interactive", "capture", "ranks", "rows", "columns"]),
    ("stage-in", &["names", "pattern", "destination"]),
    ("pmi-simple", &["nomap", "exchange"]),
    ("sysmon", &["period"]),
    ("oom", &["adjust"]),
];

/// Checks the options of a job.
pub(super) fn check(options: &Value) -> Result<(), OptionError> {
    PARTS.into_iter().try_for_each(|(name, known)| check_parts(options, name, known))?;
    for (name, form) in FORMS {
        let Some(value) = name.split('.').try_fold(options, |value, key| value.get(key)) else {
            continue;
        };
        let (fits, what) = match form {
            Form::Object => (value.is_object(), "not an object"),
            Form::Text => (value.is_string(), "not a text"),
            Form::Integer => (value.is_i64() || value.is_u64(), "not an integer"),
            Form::Seconds => {
                (value.as_f64().is_some_and(|seconds| seconds >= 0.0), "not a number of seconds")
            }
            Form::ObjectOrInteger => (value.is_object() || value.is_i64(), "not an object"),
            Form::Flag => (value.is_boolean() || value.is_number(), "not a flag"),
            Form::Ranks => {
                let list = |text: &str| text == "all" || text.parse::<Idset>().is_ok();
                (value.as_str().is_some_and(list) || value.is_u64(), "not ranks of tasks, or all")
            }
            Form::Nothing(reason) => {
                return Err(OptionError::new(name, OptionFault::Unsupported(reason)));
            }
        };
        if !fits {
            return Err(OptionError::form(name, value, what));
        }
    }
    options.get("per-resource").map_or(Ok(()), check_per_resource)
}

/// Refuses parts of an option that aren't known, which would be ignored.
fn check_parts(
    options: &Value,
    whole: &'static str,
    known: &'static [&'static str],
) -> Result<(), OptionError> {
    let parts = options.get(whole).and_then(Value::as_object);
    match parts.and_then(|parts| parts.keys().find(|part| !known.contains(&part.as_str()))) {
        Some(part) => {
            let name = format!("{whole}.{part}");
            Err(OptionError::new(name, OptionFault::Part { whole, known }))
        }
        None => Ok(()),
    }
}

/// Checks the type of resource that tasks are counted per, and the number of tasks.
fn check_per_resource(per: &Value) -> Result<(), OptionError> {
    let of_type = |fault| Err(OptionError::new("per-resource.type", fault));
    match per.get("type").and_then(Value::as_str) {
        Some("node" | "core") => {}
        Some(other) => return of_type(OptionFault::Resource(other.to_owned())),
        None => return of_type(OptionFault::NoResource),
    }
    match per.get("count") {
        Some(count) if count.as_i64().is_some_and(|count| count < 1) => {
            Err(OptionError::form("per-resource.count", count, "not more than 0"))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_of_another_form_are_refused_by_their_option() {
        for (options, refusal) in [
            (json!({"output": 1}), "output: 1 is not an object"),
            (json!({"output": {"stderr": "e"}}), "output.stderr: \"e\" is not an object"),
            (json!({"output": {"stdout": {"path": 5}}}), "output.stdout.path: 5 is not a text"),
            (json!({"input": 1}), "input: 1 is not an object"),
            (json!({"signal": {"signum": "x"}}), "signal.signum: \"x\" is not an integer"),
            (
                json!({"signal": {"timeleft": "x"}}),
                "signal.timeleft: \"x\" is not a number of seconds",
            ),
            (json!({"signal": {"timeleft": -1}}), "signal.timeleft: -1 is not a number of seconds"),
            (json!({"signal": "x"}), "signal: \"x\" is not an object"),
            (json!({"nosetpgrp": {"x": 1}}), "nosetpgrp: {\"x\":1} is not a flag"),
            (json!({"pty": {"ranks": "x"}}), "pty.ranks: \"x\" is not ranks of tasks, or all"),
            (json!({"verbose": "x"}), "verbose: \"x\" is not an integer"),
            (json!({"per-resource": "core"}), "per-resource: \"core\" is not an object"),
            (json!({"per-resource": {"count": 1}}), "per-resource.type is missing: node or core"),
            (
                json!({"per-resource": {"type": "rack"}}),
                "per-resource.type: rack is neither node nor core",
            ),
            (
                json!({"per-resource": {"type": "node", "count": 0}}),
                "per-resource.count: 0 is not more than 0",
            ),
            (
                json!({"per-resource": {"type": "node", "count": "x"}}),
                "per-resource.count: \"x\" is not an integer",
            ),
        ] {
            assert_eq!(check(&options).unwrap_err().to_string(), refusal);
        }
        for name in ["userrc", "initrc", "stage-in", "coprocess"] {
            assert!(check(&json!({name: 1})).unwrap_err().to_string().starts_with(name));
        }
    }

    #[test]
    fn unknown_parts_are_refused_where_all_are_known() {
        for (name, known) in PARTS {
            let refusal = check(&json!({name: {"foo": 1}})).unwrap_err().to_string();
            let begin = format!("{name}.foo: {name} has no such part, but {}", known[0]);
            assert!(refusal.starts_with(&begin), "{refusal}");
        }
        // Plugins of a Flux may have options of their own.
        assert_eq!(check(&json!({"hwloc": {"foo": 1}, "foo": {"bar": 1}})), Ok(()));
        let all = json!({"pty": {"interactive": 1, "ranks": "0-1,3", "capture": true}});
        assert_eq!(check(&all), Ok(()));
        for ranks in [json!(0), json!("all")] {
            assert_eq!(check(&json!({"pty": {"ranks": ranks}})), Ok(()));
        }
    }

    #[test]
    fn options_as_the_commands_write_them_are_taken() {
        let options = json!({
            "output": {"stdout": {"type": "file", "path": "o", "label": true}, "mode": "append"},
            "input": {"stdin": {"type": "service"}},
            "signal": {"signum": 10, "timeleft": 60.5},
            "verbose": 2,
            "per-resource": {"type": "core", "count": 2},
            "rlimit": {"core": 0},
            "unknown": 1,
        });
        assert_eq!(check(&options), Ok(()));
        // `-o signal` alone.
        assert_eq!(check(&json!({"signal": 1})), Ok(()));
        for flag in [json!(true), json!(1)] {
            assert_eq!(check(&json!({"nosetpgrp": flag})), Ok(()));
        }
        assert_eq!(check(&json!({"verbose": -1})), Ok(()));
        assert_eq!(check(&Value::Null), Ok(()));
    }
}
