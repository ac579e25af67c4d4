//! `--define=NAME=CODE`: the user's own substitutions. CODE is a Python expression as in Flux, so that
//! scripts for Flux work. The host's Python interpreter, started once for each NAME, evaluates it for all
//! inputs.

use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

use super::replace::Defined;
use crate::cli::common::message::{CliError, system_text};

/// Reads the inputs as a JSON array and prints the values of the expression, in which `x` is the input.
const PROGRAM: &str = "\
import json, math, os, re, sys
code = compile(sys.argv[1], '--define', 'eval')
modules = {'math': math, 'os': os, 're': re}
print(json.dumps([str(eval(code, dict(modules, x=x))) for x in json.load(sys.stdin)]))
";

/// The values of all definitions for all inputs.
pub(super) fn all<'a>(
    definitions: &[String],
    inputs: impl Iterator<Item = &'a String>,
) -> Result<Defined, CliError> {
    let mut inputs: Vec<&String> = inputs.collect();
    // Each input is evaluated once, however many jobs use it.
    inputs.sort_unstable();
    inputs.dedup();
    let mut defined = Defined::new();
    for definition in definitions {
        let invalid =
            || CliError::failure(format!("--define: expected NAME=CODE, got '{definition}'"));
        let (name, code) = definition.split_once('=').ok_or_else(invalid)?;
        let failed = |error| CliError::failure(format!("--define={name}: {error}"));
        let values = evaluate(code, &inputs).map_err(failed)?;
        let values: BTreeMap<String, String> =
            inputs.iter().map(|input| (*input).clone()).zip(values).collect();
        defined.insert(name.to_owned(), values);
    }
    Ok(defined)
}

/// Why an expression has no values.
#[derive(Debug, thiserror::Error)]
enum EvaluateError {
    #[error("can't run python3, which evaluates CODE: {}", system_text(.0))]
    NoPython(std::io::Error),
    #[error(transparent)]
    Inputs(#[from] serde_json::Error),
    /// The last line that the interpreter printed to stderr.
    #[error("{0}")]
    Python(String),
    #[error("no values")]
    NoValues,
}

fn evaluate(code: &str, inputs: &[&String]) -> Result<Vec<String>, EvaluateError> {
    let mut python = Command::new("python3")
        .args(["-c", PROGRAM, code])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(EvaluateError::NoPython)?;
    let text = serde_json::to_vec(inputs)?;
    if let Some(mut stdin) = python.stdin.take() {
        // An interpreter that fails exits before it has read everything, and prints the reason to stderr.
        let _ = stdin.write_all(&text);
    }
    let output = python.wait_with_output().map_err(EvaluateError::NoPython)?;
    let errors = String::from_utf8_lossy(&output.stderr);
    let reason = || match errors.trim_end().lines().last() {
        Some(line) => EvaluateError::Python(line.to_owned()),
        None => EvaluateError::NoValues,
    };
    if !output.status.success() {
        return Err(reason());
    }
    serde_json::from_slice(&output.stdout).map_err(|_| reason())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_definition_needs_a_name_and_code() {
        let error = all(&["pow".to_owned()], std::iter::empty()).unwrap_err();
        assert_eq!(error.text, "--define: expected NAME=CODE, got 'pow'");
    }

    #[test]
    fn code_is_evaluated_for_each_input() {
        if Command::new("python3").arg("--version").output().is_err() {
            return;
        }
        let inputs = ["3".to_owned(), "5".to_owned(), "3".to_owned()];
        let definitions = ["pow=2**int(x)".to_owned()];
        let defined = all(&definitions, inputs.iter()).unwrap();
        assert_eq!(defined["pow"]["3"], "8");
        assert_eq!(defined["pow"]["5"], "32");
        let error = all(&["bad=nosuch(x)".to_owned()], inputs.iter()).unwrap_err();
        assert!(error.text.starts_with("--define=bad: NameError: "), "{}", error.text);
    }
}
