//! Commands print what Flux prints: runs the scenarios of `tests/conformance`, recorded on a real Flux.

use jobtap_tests::{clean, jobtap, run, workspace};

#[test]
fn output_differs_from_flux_only_where_listed() {
    let script = workspace().join(".ci/conformance");
    let output = run(clean(&script).arg(jobtap()));
    assert!(output.code == 0, "{}{}", output.stdout, output.stderr);
}

#[test]
fn missing_scenarios_are_a_failure() {
    let script = workspace().join(".ci/conformance");
    let output = run(clean(&script).arg(jobtap()).env("CONFORMANCE", "/nonexistent"));
    assert!(output.code == 2 && output.stderr.contains("no scenarios"), "{output:?}");
}
