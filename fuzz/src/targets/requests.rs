//! What a submission has: jobspecs, what they are made of, and the elements of an array.

use jobtap_domain::array::Elements;
use jobtap_domain::job::JobId;
use jobtap_domain::jobspec::{Dependency, Jobspec, Shape};
use serde_json::{Value, json};

use crate::again::{self, parsed, text};

/// Jobspecs (RFC 25): those that are read in one pass are read as by the full parser.
pub(super) fn jobspec(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let fast = Jobspec::parse(text);
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        assert!(fast.is_err(), "it isn't JSON");
        return;
    };
    let full = Jobspec::from_value(value);
    let (fast, full) = match (fast, full) {
        (Ok(fast), Ok(full)) => (fast, full),
        (fast, full) => {
            let (fast, full) = (fast.err(), full.err());
            let fast = fast.map(|error| error.to_string());
            // A name that an object repeats, which a value in memory can't do.
            if !fast.as_ref().is_some_and(|error| error.contains("occurs twice")) {
                assert_eq!(fast, full.map(|error| error.to_string()));
            }
            return;
        }
    };
    assert_eq!(facts(&fast), facts(&full));
    assert_eq!(fast.value(), full.value());
    assert_eq!(fast.environment(), full.environment());
    let redacted = fast.redacted();
    assert!(redacted.environment().is_none() && redacted.is_validated());
    assert_eq!(redacted.text(), full.redacted().text());
    assert_eq!(redacted.redacted_len(), redacted.text().len());
    let stored = Jobspec::stored(fast.text().to_owned());
    assert_eq!(stored.map(|stored| facts(&stored)).ok(), Some(facts(&fast)));
    let mut closed = fast.clone();
    closed.close();
    assert_eq!(facts(&closed), facts(&fast));
    let again = Jobspec::parse(full.text());
    assert_eq!(again.map(|again| again.value().clone()).as_ref(), Ok(full.value()));
}

/// What scheduling and listings read of a jobspec.
fn facts(jobspec: &Jobspec) -> String {
    let dependencies = jobspec.dependencies();
    let texts = (jobspec.name(), jobspec.queue(), jobspec.cwd(), jobspec.display_name());
    let counts = (jobspec.counts(), jobspec.duration().to_bits(), jobspec.warning());
    let command: Vec<&str> = jobspec.command().collect();
    let simulation = jobspec.simulation();
    format!("{counts:?} {texts:?} {command:?} {dependencies:?} {simulation:?}")
}

/// Resource shapes (RFC 46).
pub(super) fn shape(bytes: &[u8]) {
    if let Some(text) = text(bytes) {
        parsed::<Shape>(text);
    }
}

/// Dependencies, as URIs and as JSON.
pub(super) fn dependency(bytes: &[u8]) {
    let again = |dependency: Dependency| match Dependency::from_value(&dependency.to_value()) {
        Ok(again) => assert_eq!(again, dependency),
        // The manager refuses long schemes, and a URI is read by clients.
        Err(error) => assert!(error.to_string().contains("absurdly long"), "{error}"),
    };
    if let Ok(value) = serde_json::from_slice::<Value>(bytes)
        && let Ok(dependency) = Dependency::from_value(&value)
    {
        again(dependency);
    }
    if let Some(Ok(dependency)) = text(bytes).map(Dependency::from_uri) {
        again(dependency);
    }
}

/// The elements of a job array. Those that are accepted for a jobspec can be put into it.
pub(super) fn elements(bytes: &[u8]) {
    let Some(elements) = again::json::<Elements>(bytes) else { return };
    let jobspec = json!({
        "resources": [{"type": "slot", "count": 1, "label": "task", "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["cat", "a"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "cwd": "/", "job": {"name": "x"}, "environment": {"A": "1"}}},
        "version": 1,
    });
    if elements.check(&jobspec).is_err() {
        return;
    }
    let last = u32::try_from(elements.len() - 1).unwrap_or(u32::MAX);
    for position in [0, last] {
        let mut filled = jobspec.clone();
        let index = elements.index(position);
        assert_eq!(index.and_then(|index| elements.position(index)), Some(position));
        let put = elements.fill(&mut filled, JobId::new(77), position);
        assert!(put.is_ok(), "{put:?} at {position}");
        let id = filled.pointer("/attributes/system/slurm/array_task_id").and_then(Value::as_u64);
        assert_eq!(id, index.map(u64::from));
    }
    let only = elements.only(elements.indexes());
    assert_eq!(only, elements);
}
