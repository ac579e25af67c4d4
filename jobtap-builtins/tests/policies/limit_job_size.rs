//! `.limit-job-size`: the resources that it counts, the order of its checks, and the limits of queues.

use jobtap_builtins::{LimitJobSize, PriorityDefault};
use jobtap_core::engine::{Request, Submission};
use jobtap_core::job::Flags;
use jobtap_core::jobspec::Jobspec;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
use serde_json::{Value, json};

fn start(config: Value) -> Result<TestManager, ManagerStartError> {
    let m = TestManager::new().plugin::<PriorityDefault>().plugin::<LimitJobSize>();
    m.config(config).try_start()
}

fn limited(max: Value, min: Value) -> TestManager {
    start(json!({"policy": {"limits": {"job-size": {"max": max, "min": min}}}})).unwrap()
}

fn refusal(m: &mut TestManager, job: TestJob) -> Option<String> {
    m.submit(job).err().map(|refused| refused.text())
}

#[test]
fn each_resource_has_a_maximum_and_a_minimum() {
    let mut m = limited(json!({"nnodes": 2, "ncores": 8, "ngpus": 2}), json!({}));
    let nodes = TestJob::new().nodes(3).ntasks(3);
    assert_eq!(refusal(&mut m, nodes).unwrap(), "requested nnodes (3) exceeds policy limit of 2");
    let cores = TestJob::new().ntasks(3).cores_per_task(3);
    assert_eq!(refusal(&mut m, cores).unwrap(), "requested ncores (9) exceeds policy limit of 8");
    let gpus = TestJob::new().ntasks(3).gpus_per_task(1);
    assert_eq!(refusal(&mut m, gpus).unwrap(), "requested ngpus (3) exceeds policy limit of 2");
    assert_eq!(refusal(&mut m, TestJob::new().nodes(2).ntasks(2).cores_per_task(4)), None);

    let mut m = limited(json!({}), json!({"nnodes": 2, "ncores": 4, "ngpus": 2}));
    let one = TestJob::new().nodes(1).ntasks(1);
    assert_eq!(refusal(&mut m, one).unwrap(), "requested nnodes (1) is under policy limit of 2");
    let few = TestJob::new().nodes(2).ntasks(2);
    assert_eq!(refusal(&mut m, few).unwrap(), "requested ncores (2) is under policy limit of 4");
    let none = TestJob::new().nodes(2).ntasks(4);
    assert_eq!(refusal(&mut m, none).unwrap(), "requested ngpus (0) is under policy limit of 2");
    let enough = TestJob::new().nodes(2).ntasks(4).gpus_per_task(1);
    assert_eq!(refusal(&mut m, enough), None);
}

#[test]
fn a_job_that_requests_no_nodes_counts_none() {
    let mut m = limited(json!({}), json!({"nnodes": 1}));
    let text = refusal(&mut m, TestJob::new().ntasks(4)).unwrap();
    assert_eq!(text, "requested nnodes (0) is under policy limit of 1");
}

#[test]
fn maxima_are_checked_before_minima() {
    let mut m = limited(json!({"ncores": 1, "nnodes": 1}), json!({"ngpus": 9}));
    let all = TestJob::new().nodes(2).ntasks(2);
    assert_eq!(refusal(&mut m, all).unwrap(), "requested nnodes (2) exceeds policy limit of 1");
    let text = refusal(&mut m, TestJob::new().ntasks(2)).unwrap();
    assert_eq!(text, "requested ncores (2) exceeds policy limit of 1");
}

#[test]
fn minus_one_means_no_limit_and_zero_is_a_limit() {
    let mut m = limited(json!({"ngpus": 0, "ncores": -1}), json!({"nnodes": -1}));
    let text = refusal(&mut m, TestJob::new().gpus_per_task(1)).unwrap();
    assert_eq!(text, "requested ngpus (1) exceeds policy limit of 0");
    assert_eq!(refusal(&mut m, TestJob::new().ntasks(1000)), None);
}

#[test]
fn a_queues_limits_override_the_general_ones_key_by_key() {
    let of = |limits: Value| json!({"policy": {"limits": {"job-size": limits}}});
    let mut m = start(json!({
        "policy": {"limits": {"job-size": {"max": {"nnodes": 2, "ncores": 4}, "min": {"ncores": 2}}}},
        "queues": {
            "debug": {},
            "batch": of(json!({"max": {"nnodes": -1}})),
            "night": {"parent": "batch", "policy": {"limits": {"job-size": {"max": {"ncores": 64}}}}},
        }
    }))
    .unwrap();
    let ask = |queue: &str, nodes: u64| {
        TestJob::new().nodes(nodes).ntasks(nodes).attribute("queue", queue)
    };
    assert_eq!(
        refusal(&mut m, ask("debug", 3)).unwrap(),
        "requested nnodes (3) exceeds policy limit of 2 for queue debug"
    );
    assert_eq!(refusal(&mut m, ask("batch", 4)), None);
    assert_eq!(
        refusal(&mut m, ask("batch", 5)).unwrap(),
        "requested ncores (5) exceeds policy limit of 4 for queue batch"
    );
    assert_eq!(refusal(&mut m, ask("night", 64)), None);
    assert_eq!(
        refusal(&mut m, ask("night", 1)).unwrap(),
        "requested ncores (1) is under policy limit of 2 for queue night"
    );
}

#[test]
fn a_malformed_limit_is_refused_with_its_place() {
    let refused = |max: Value| {
        start(json!({"policy": {"limits": {"job-size": {"max": max}}}})).err().unwrap()
    };
    let text = refused(json!({"nnodes": -2}));
    assert_eq!(text, "error parsing [policy.limits.max] config table: values must be >= -1");
    let text = refused(json!({"ncores": "many"}));
    let expected = "error parsing [policy.limits.max] config table: Expected integer, got string";
    assert_eq!(text, expected);
    let size = json!({"policy": {"limits": {"job-size": {"min": {"ngpus": -9}}}}});
    let text = start(json!({"queues": {"q": size}})).err().unwrap();
    let place = "[queues.q.policy.limits.min]";
    assert_eq!(text, format!("error parsing {place} config table: values must be >= -1"));
}

#[test]
fn limits_refuse_a_jobspec_that_cannot_be_counted() {
    let submit = |m: &mut TestManager, resources: Value| {
        let jobspec = json!({
            "resources": resources, "tasks": [], "attributes": {"system": {}}, "version": 1
        });
        let request = Request::Submit(Box::new(Submission {
            jobspec: Jobspec::unvalidated(jobspec),
            signed: String::new(),
            urgency: 0,
            flags: Flags::NOVALIDATE.bits(),
            elements: None,
        }));
        let stream = m.open_request(TestJob::OWNER.0, request);
        m.answered(stream).unwrap().map(drop).map_err(|error| error.text)
    };
    let core = |count: Value| json!([{"type": "core", "count": count}]);
    let table = [
        (core(json!(1)), "Unable to determine slot count"),
        (json!([{"type": "slot", "count": 1, "with": []}]), "Unable to determine slot size"),
        (core(json!(-1)), "Invalid count -1 for type 'core'"),
    ];
    for (resources, text) in table {
        let mut m = limited(json!({"nnodes": 1}), json!({}));
        assert_eq!(submit(&mut m, resources.clone()), Err(text.to_owned()));
        let mut m = start(json!({})).unwrap();
        assert_eq!(submit(&mut m, resources), Ok(()));
    }
}

#[test]
fn reads_the_configuration_again_when_it_is_loaded() {
    let mut m = limited(json!({"ncores": 1}), json!({}));
    m.remove_plugin(".limit-job-size").unwrap();
    assert_eq!(refusal(&mut m, TestJob::new().ntasks(2)), None);
    m.load_plugin(".limit-job-size", json!({})).unwrap();
    assert!(refusal(&mut m, TestJob::new().ntasks(2)).is_some());
}
