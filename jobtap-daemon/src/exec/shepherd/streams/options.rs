//! The shell options (`attributes.system.shell.options`) for the source of a job's input and the target
//! of its output.

use std::time::Duration;

use jobtap_core::job::Fsd;
use serde::Deserialize;
use serde_json::Value;

use super::super::option_error::{OptionError, OptionFault};
use super::super::output_stream::Stream;
use super::super::pmi;
use super::super::template::is_per_task;
use super::pty::PtyOptions;
use crate::exec::output_limit;

/// The target of one output stream of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::exec::shepherd) struct StreamOptions {
    /// The template of a file name; `None` for the job's output log.
    pub(super) path: Option<String>,
    /// Whether lines in the file begin with the task's rank.
    pub(super) label: bool,
    /// Whether output is written as it is read, not line by line.
    pub(super) unbuffered: bool,
}

/// The source of a job's standard input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec::shepherd) enum Input {
    /// Empty input.
    Null,
    /// A file that every task reads from its beginning.
    File(String),
    /// Input that clients send while the job runs.
    Service,
}

/// The input and output options of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::exec::shepherd) struct IoOptions {
    pub(in crate::exec::shepherd) stdout: StreamOptions,
    pub(in crate::exec::shepherd) stderr: StreamOptions,
    /// The template of the name of the output pack that takes what would be in the job's output log.
    pub(super) pack: Option<String>,
    /// Whether output is appended to existing files instead of replacing their content.
    pub(super) append: bool,
    /// The number of bytes that are kept of a stream without a file; `None` for the manager's limit.
    pub(super) limit: Option<u64>,
    pub(in crate::exec::shepherd) input: Input,
}

impl IoOptions {
    /// Parses the options.
    pub(in crate::exec::shepherd) fn parse(options: &Value) -> Result<Self, OptionError> {
        let pack = pack(options)?;
        let stdout = match &pack {
            None => stream(options, Stream::Stdout)?,
            Some(_) => StreamOptions::default(),
        };
        let mut stderr = stream(options, Stream::Stderr)?;
        // As in Flux, standard error follows standard output unless it has options of its own.
        if text(options, &["output", "stderr", "type"]).is_none() && stderr.path.is_none() {
            stderr.path.clone_from(&stdout.path);
            stderr.label |= stdout.label;
        }
        let append = match text(options, &["output", "mode"]) {
            Some("append") => true,
            Some("truncate") | None => false,
            Some(other) => return Err(OptionError::unknown("output.mode", "mode", other)),
        };
        let limit = at(options, &["output", "limit"]);
        let limit = limit.map(|value| {
            output_limit::parse(value)
                .ok_or_else(|| OptionError::form("output.limit", value, "no size from 1 to 1G"))
        });
        let (limit, input) = (limit.transpose()?, input(options)?);
        Ok(Self { stdout, stderr, pack, append, limit, input })
    }

    pub(super) fn stream(&self, stream: Stream) -> &StreamOptions {
        match stream {
            Stream::Stdout => &self.stdout,
            Stream::Stderr => &self.stderr,
        }
    }
}

/// The effect of one task's exit on the other tasks of the job (`exit-timeout`, `exit-on-error`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::exec::shepherd) struct ExitOptions {
    /// How long the other tasks may go on after the first has exited; `None` for as long as they like.
    pub(in crate::exec::shepherd) timeout: Option<Duration>,
    /// Whether the job fails as soon as a task fails.
    pub(in crate::exec::shepherd) on_error: bool,
}

impl ExitOptions {
    /// Parses the options.
    pub(in crate::exec::shepherd) fn parse(options: &Value) -> Result<Self, OptionError> {
        let timeout = match options.get("exit-timeout") {
            None => None,
            Some(value) if value == "none" => None,
            Some(value) => {
                let what = "neither a duration nor none";
                let duration = Fsd::deserialize(value)
                    .map_err(|_| OptionError::form("exit-timeout", value, what))?;
                duration.to_duration()
            }
        };
        Ok(Self { timeout, on_error: flag(options, &["exit-on-error"]) })
    }
}

/// Whether the exit of a job's first task limits the time of the others (`exit-timeout`).
pub(in crate::exec) fn limits_others(options: &Value) -> bool {
    ExitOptions::parse(options).is_ok_and(|options| options.timeout.is_some())
}

/// The maximum of [`files_per_task`]: two for each stream, one for the input, one for PMI and five for a terminal.
pub(crate) const MOST_FILES_PER_TASK: u64 = 11;

/// The number of files that a shepherd has open for each task of a job with these options; `None` if they are
/// invalid. In a job with several tasks, each also has a PMI socket if there is room for it.
pub(crate) fn files_per_task(options: &Value) -> Option<u64> {
    let sockets = u64::from(pmi::is_requested(options).ok()? == Some(true));
    // The shepherd's side of a terminal, three times, and the pipes that join it.
    let terminal = if PtyOptions::parse(options).ok()?.is_some() { 5 } else { 0 };
    let options = IoOptions::parse(options).ok()?;
    let of_stream = |stream| {
        let StreamOptions { path, label, .. } = options.stream(stream);
        match path {
            // The reading end of the pipe.
            None => 1,
            Some(_) if !label => 0,
            Some(path) => 1 + u64::from(is_per_task(path)),
        }
    };
    let input = match options.input {
        // The writing end of the pipe.
        Input::Service => 1,
        Input::Null | Input::File(_) => 0,
    };
    Some(Stream::BOTH.into_iter().map(of_stream).sum::<u64>() + input + sockets + terminal)
}

/// The option at the end of this path. A job's options are read several times; serde's pointers would allocate each
/// name of each path twice.
fn at<'o>(options: &'o Value, path: &[&str]) -> Option<&'o Value> {
    path.iter().try_fold(options, |value, name| value.get(name))
}

fn text<'o>(options: &'o Value, path: &[&str]) -> Option<&'o str> {
    at(options, path).and_then(Value::as_str)
}

/// Reads a flag. Options given on a command line may be numbers instead of booleans.
fn flag(options: &Value, path: &[&str]) -> bool {
    match at(options, path) {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::Number(number)) => number.as_f64() != Some(0.0),
        _ => false,
    }
}

fn stream(options: &Value, stream: Stream) -> Result<StreamOptions, OptionError> {
    let named = |part| format!("output.{}.{part}", stream.name());
    let options = at(options, &["output", stream.name()]).unwrap_or(&Value::Null);
    let path = text(options, &["path"]).map(str::to_owned);
    let path = match text(options, &["type"]) {
        Some("kvs") => None,
        Some("file") if path.is_none() => {
            return Err(OptionError::new(named("path"), OptionFault::NoPath));
        }
        Some("file") | None => path,
        Some(other) => return Err(OptionError::unknown(named("type"), "type", other)),
    };
    let unbuffered = match text(options, &["buffer", "type"]) {
        Some("none") => true,
        Some("line") | None => false,
        Some(other) => return Err(OptionError::unknown(named("buffer.type"), "type", other)),
    };
    Ok(StreamOptions { path, label: flag(options, &["label"]), unbuffered })
}

/// The name of the output pack, if standard output goes to one. Standard error follows it, as it follows a file.
fn pack(options: &Value) -> Result<Option<String>, OptionError> {
    if text(options, &["output", "stdout", "type"]) != Some("pack") {
        return Ok(None);
    }
    let path = text(options, &["output", "stdout", "path"]).map(str::to_owned);
    match path {
        Some(path) => Ok(Some(path)),
        None => Err(OptionError::new("output.stdout.path", OptionFault::NoPath)),
    }
}

fn input(options: &Value) -> Result<Input, OptionError> {
    let path = text(options, &["input", "stdin", "path"]).map(str::to_owned);
    match (text(options, &["input", "stdin", "type"]), path) {
        (Some("service"), _) => Ok(Input::Service),
        (Some("file") | None, Some(path)) => Ok(Input::File(path)),
        (Some("file"), None) => Err(OptionError::new("input.stdin.path", OptionFault::NoPath)),
        // A terminal has no input unless that is asked for.
        (None, None) if at(options, &["pty"]).is_some() => Ok(Input::Null),
        // As in Flux: whoever attaches to the job may send some.
        (None, None) => Ok(Input::Service),
        (Some(other), _) => Err(OptionError::unknown("input.stdin.type", "type", other)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn file(path: &str) -> StreamOptions {
        StreamOptions { path: Some(path.to_owned()), ..StreamOptions::default() }
    }

    #[test]
    fn without_options_output_is_logged_and_clients_send_input() {
        let options = IoOptions::parse(&Value::Null).unwrap();
        assert_eq!(options.stdout, StreamOptions::default());
        assert_eq!(options.stderr, StreamOptions::default());
        assert_eq!(options.input, Input::Service);
        let terminal = IoOptions::parse(&json!({"pty": 1})).unwrap();
        assert_eq!(terminal.input, Input::Null);
        assert!(!options.append);
    }

    #[test]
    fn stderr_follows_stdout_unless_it_has_options() {
        let output = json!({"output": {"stdout": {"type": "file", "path": "o"}}});
        assert_eq!(IoOptions::parse(&output).unwrap().stderr, file("o"));
        let kept = json!({"output": {"stdout": {"path": "o"}, "stderr": {"type": "kvs"}}});
        assert_eq!(IoOptions::parse(&kept).unwrap().stderr, StreamOptions::default());
        let errors = json!({"output": {"stderr": {"type": "file", "path": "e"}}});
        let options = IoOptions::parse(&errors).unwrap();
        assert_eq!((options.stdout, options.stderr), (StreamOptions::default(), file("e")));
    }

    #[test]
    fn modes_labels_and_buffers_are_parsed() {
        let value = json!({
            "output": {"mode": "append", "stdout": {"label": true, "buffer": {"type": "none"}}},
            "input": {"stdin": {"type": "file", "path": "in.txt"}},
        });
        let options = IoOptions::parse(&value).unwrap();
        assert!(options.append && options.stdout.label && options.stdout.unbuffered);
        assert!(!options.stderr.unbuffered);
        assert_eq!(options.input, Input::File("in.txt".to_owned()));
    }

    /// `-o output.stdout.label=1` on a command line gives a number.
    #[test]
    fn a_flag_may_be_a_number() {
        for (value, expected) in [(json!(1), true), (json!(0), false), (json!("1"), false)] {
            let options = json!({"output": {"stdout": {"label": value}}});
            assert_eq!(IoOptions::parse(&options).unwrap().stdout.label, expected, "{options}");
        }
    }

    #[test]
    fn options_for_the_exit_of_tasks_are_parsed() {
        let parsed = |options| ExitOptions::parse(&options);
        let after = |seconds: f64| ExitOptions {
            timeout: Some(Duration::from_secs_f64(seconds)),
            on_error: false,
        };
        assert_eq!(parsed(json!({})), Ok(ExitOptions::default()));
        assert_eq!(parsed(json!({"exit-timeout": "1.5s"})), Ok(after(1.5)));
        assert_eq!(parsed(json!({"exit-timeout": 30})), Ok(after(30.0)));
        for never in ["none", "inf"] {
            assert_eq!(parsed(json!({"exit-timeout": never})), Ok(ExitOptions::default()));
        }
        let on_error = ExitOptions { timeout: None, on_error: true };
        assert_eq!(parsed(json!({"exit-on-error": 1})), Ok(on_error));
        let text = "exit-timeout: \"x\" is neither a duration nor none";
        assert_eq!(parsed(json!({"exit-timeout": "x"})).unwrap_err().to_string(), text);
    }

    #[test]
    fn open_files_of_a_task_are_counted() {
        let labelled = |path: &str| json!({"output": {"stdout": {"path": path, "label": true}}});
        for (options, expected) in [
            // A pipe for each of three streams.
            (json!({}), Some(3)),
            (json!({"input": {"stdin": {"type": "service"}}}), Some(3)),
            (json!({"input": {"stdin": {"path": "in"}}}), Some(2)),
            // The tasks write to it themselves.
            (json!({"output": {"stdout": {"path": "out"}}}), Some(1)),
            // A pipe for each of three streams, and a file for each of two if the task has its own.
            (labelled("out"), Some(3)),
            (labelled("out.{{taskid}}"), Some(5)),
            // A socket for PMI.
            (json!({"pmi": "simple"}), Some(4)),
            (json!({"pmi": "off"}), Some(3)),
            // All at once.
            (
                json!({
                    "output": {
                        "stdout": {"path": "out.{{taskid}}", "label": true},
                        "stderr": {"path": "err.{{taskid}}", "label": true},
                    },
                    "input": {"stdin": {"type": "service"}},
                    "pmi": "simple",
                    "pty": {},
                }),
                Some(MOST_FILES_PER_TASK),
            ),
            (json!({"output": {"mode": "upside-down"}}), None),
        ] {
            assert_eq!(files_per_task(&options), expected, "{options}");
        }
    }

    #[test]
    fn an_invalid_option_is_refused_by_its_name() {
        for (value, named) in [
            (json!({"output": {"mode": "upside-down"}}), "output.mode"),
            (json!({"output": {"stdout": {"type": "file"}}}), "output.stdout.path"),
            (json!({"output": {"stderr": {"buffer": {"type": "x"}}}}), "output.stderr.buffer.type"),
            (json!({"input": {"stdin": {"type": "tape"}}}), "input.stdin.type"),
            (json!({"output": {"limit": "2G"}}), "output.limit"),
        ] {
            let refused = IoOptions::parse(&value).unwrap_err().to_string();
            assert!(refused.starts_with(named), "{value}");
        }
    }
}
