//! The OpenAPI document, and a client that a stock generator makes from it.

use std::path::{Path, PathBuf};
use std::process::Command;

use jobtap_tests::{clean, jobtap, run, temporary};
use serde_json::Value;

use crate::client::{Site, TOKEN, jobspec};

#[test]
fn the_command_prints_what_the_manager_serves() {
    let printed = run(clean(jobtap()).arg("openapi")).ok();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let site = Site::open("");
    assert_eq!(site.get("/openapi.json").ok(), printed);
    assert_eq!(printed["openapi"], "3.1.0");
}

/// The Python of these tests, `JOBTAP_PYTHON` or `python3`, if it has this module. Prints that a test is skipped if
/// not.
#[allow(clippy::print_stdout)]
fn python_with(module: &str) -> Option<PathBuf> {
    let python = std::env::var_os("JOBTAP_PYTHON").unwrap_or_else(|| "python3".into());
    let there = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if there.is_ok_and(|output| output.status.success()) {
        return Some(python.into());
    }
    println!(
        "skipped: {python:?} has no module {module} (pip install; JOBTAP_PYTHON names another)"
    );
    None
}

fn document(dir: &Path) -> PathBuf {
    let file = dir.join("openapi.json");
    std::fs::write(&file, run(clean(jobtap()).arg("openapi")).ok()).unwrap();
    file
}

#[test]
fn a_stock_validator_accepts_the_document() {
    let Some(python) = python_with("openapi_spec_validator") else { return };
    let dir = temporary();
    let file = document(dir.path());
    let validate = |file: &Path| {
        let mut command = Command::new(&python);
        run(command.args(["-m", "openapi_spec_validator", "--schema", "3.1.0"]).arg(file))
    };
    let output = validate(&file);
    assert!(output.code == 0 && output.stdout.contains("OK"), "{output:?}");
    let broken = std::fs::read_to_string(&file).unwrap().replace("\"responses\"", "\"respones\"");
    std::fs::write(&file, broken).unwrap();
    assert_ne!(validate(&file).code, 0);
}

/// Submits a job, waits for its end, and reads a list, with the client's own types.
const SCRIPT: &str = "
import json, sys
from jobtap_client import AuthenticatedClient, Client
from jobtap_client.api.job_ingest import job_ingest_submit
from jobtap_client.api.job_manager import job_manager_wait
from jobtap_client.api.job_list import job_list_list
from jobtap_client.models import *

url, token, jobspec = sys.argv[1:]
client = AuthenticatedClient(base_url=url, token=token)
request = JobIngestSubmitRequest(jobspec=json.loads(jobspec), flags=4)
submitted = job_ingest_submit.sync(client=client, body=request)
assert isinstance(submitted, JobIngestSubmitResponse), submitted
ended = job_manager_wait.sync(client=client, body=JobManagerWaitRequest(id=submitted.id))
assert ended.id == submitted.id and ended.success, ended
jobs = job_list_list.sync(client=Client(base_url=url), body=JobListListRequest(max_entries=5)).jobs
assert jobs[0]['id'] == submitted.id, jobs
refused = job_ingest_submit.sync_detailed(client=Client(base_url=url), body=request)
assert refused.status_code == 403 and refused.parsed.errno == 1, refused
print(submitted.id)
";

#[test]
fn a_generated_python_client_submits_a_job_and_waits_for_it() {
    let Some(python) = python_with("openapi_python_client") else { return };
    let dir = temporary();
    let file = document(dir.path());
    let out = dir.path().join("client");
    let mut generate = Command::new(&python);
    generate.args(["-m", "openapi_python_client", "generate", "--path"]).arg(&file);
    let generated = run(generate.arg("--output-path").arg(&out));
    assert_eq!(generated.code, 0, "{generated:?}");
    // The generator warns about each service that it can't read.
    assert!(!generated.stderr.contains("WARNING parsing"), "{generated:?}");
    assert!(!generated.stdout.contains("WARNING parsing"), "{generated:?}");

    let site = Site::with_token("");
    let mut script = Command::new(&python);
    script.current_dir(&out).env("PYTHONPATH", &out).args(["-c", SCRIPT]);
    let jobspec = jobspec(&["true"]).to_string();
    let id = run(script.arg(format!("http://{}", site.address)).args([TOKEN, &jobspec])).ok();
    assert_eq!(
        site.m.jobtap_args(&["jobs", "-ano", "{id.dec} {result}"]).ok(),
        format!("{id} COMPLETED")
    );
}
