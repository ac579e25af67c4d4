//! What the table `[ingest]` changes for submissions.

use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use crate::common::ByUrgency;

fn with(config: Value) -> TestManager {
    TestManager::new().plugin::<ByUrgency>().config(config).cores(4).start()
}

fn checks(plugins: Value) -> Value {
    json!({"ingest": {"validator": {"plugins": plugins}}})
}

#[test]
fn a_job_that_can_never_run_is_refused_where_feasibility_is_checked() {
    let huge = || TestJob::new().ntasks(5);
    let mut m = with(json!({}));
    let id = m.submit(huge()).unwrap();
    m.assert_exception(id, "alloc", "unsatisfiable request");
    m.configure(checks(json!(["jobspec", "feasibility"]))).unwrap();
    let text = m.submit(huge()).unwrap_err().text();
    assert!(text.starts_with("unsatisfiable request"), "{text}");
    m.submit(TestJob::new().ntasks(4)).unwrap();
    // The owner may skip the check.
    let id = m.submit(huge().novalidate()).unwrap();
    m.assert_exception(id, "alloc", "unsatisfiable request");
}

#[test]
fn a_constraint_on_an_unknown_host_is_refused() {
    let mut m = TestManager::new().plugin::<ByUrgency>().config(json!({})).hosts(2).start();
    let host = m.resource_status()["R"]["execution"]["nodelist"][0].clone();
    let on = |constraint: Value| TestJob::new().attribute("constraints", constraint);
    let known = json!({"hostlist": [host]});
    m.submit(on(known.clone())).unwrap();
    assert_eq!(
        m.submit(on(json!({"hostlist": ["nosuch"]}))).unwrap_err(),
        "host constraint contains invalid hosts: host 'nosuch' not found"
    );
    assert_eq!(
        m.submit(on(json!({"or": [known, {"not": [{"hostlist": ["x[1-2]"]}]}]}))).unwrap_err(),
        "host constraint contains invalid hosts: hosts 'x[1-2]' not found"
    );
    let id = m.submit(on(json!({"hostlist": ["nosuch"]})).novalidate()).unwrap();
    m.assert_exception(id, "alloc", "unsatisfiable request");
    let queues = json!({"queues": {"batch": {}}});
    let limits = json!({"policy": {"limits": {"duration": "1h"}}});
    let disabled = json!({"queues": {"batch": {}}, "ingest": {"frobnicator": {"disable": true}}});
    for (config, start) in [(queues, "invalid jobspec: "), (limits, ""), (disabled, "")] {
        m.configure(config).unwrap();
        let job = on(json!({"hostlist": ["nosuch"]})).queue("batch");
        let text = "host constraint contains invalid hosts: host 'nosuch' not found";
        assert_eq!(m.submit(job).unwrap_err(), format!("{start}{text}"));
    }
}

#[test]
fn a_job_must_be_an_instance_where_that_is_required() {
    let mut m = with(checks(json!(["require-instance"])));
    let text = m.submit(TestJob::new()).unwrap_err().text();
    assert!(text.starts_with("Direct job submission disabled for this instance"), "{text}");
    m.submit(TestJob::new().attribute("batch", json!({"script": "#!/bin/sh"}))).unwrap();
}

#[test]
fn of_the_changes_those_are_made_that_are_chosen() {
    let mut config = json!({
        "queues": {"a": {"requires": ["x"]}},
        "policy": {"jobspec": {"defaults": {"system": {"queue": "a", "duration": "1h"}}}},
    });
    for (chosen, duration, constrained) in [
        (json!(["defaults", "constraints"]), 3600.0, true),
        (json!(["defaults"]), 3600.0, false),
        (json!(["constraints"]), 0.0, true),
        (json!([]), 0.0, false),
    ] {
        config["ingest"] = json!({"frobnicator": {"plugins": chosen}});
        let mut m = with(config.clone());
        let id = m.submit(TestJob::new().queue("a")).unwrap();
        let jobspec = m.job(id).jobspec();
        assert_eq!((jobspec.duration(), jobspec.constraints().is_some()), (duration, constrained));
        assert_eq!(m.submit(TestJob::new()).is_ok(), chosen[0] == "defaults", "{chosen}");
    }
}

#[test]
fn an_unknown_plugin_is_refused_and_the_old_ones_stay() {
    let mut m = with(checks(json!(["feasibility"])));
    let text = m.configure(checks(json!(["feasable"]))).unwrap_err().text();
    assert!(text.starts_with("ingest.validator.plugins: "), "{text}");
    assert!(m.submit(TestJob::new().ntasks(5)).is_err());
}
