//! The tables, at the start and at run time.

use super::*;

fn refusal(config: Value) -> String {
    let started = TestManager::new().plugin::<Asks>().config(config).try_start();
    started.unwrap_err().to_string()
}

#[test]
fn a_mistake_in_a_table_is_refused_with_its_key() {
    let text = refusal(json!({"allocation": [small_with(json!({"nodes": 0}))]}));
    assert!(text.contains("allocation[0].nodes: 0 is not in the range"), "{text}");
    let config = json!({"allocation": [small()]});
    let hosts = TestManager::new().plugin::<Asks>().config(config).hosts(2).try_start();
    let text = hosts.unwrap_err().to_string();
    assert!(text.contains("here it has the ranks 0-1"), "{text}");
    let mut m = start(json!([small()]));
    let text = m.configure(json!({"allocation": [{}]})).unwrap_err().to_string();
    assert!(text.contains("allocation[0].engine: is missing"), "{text}");
}

#[test]
fn a_table_can_be_added_and_changed_at_run_time() {
    let mut m = start(json!([small()]));
    m.let_allocations_wait(0.0);
    let first = m.submit(job()).unwrap();
    m.advance(1.0);
    m.assert_state(first, State::Run);
    let large = json!({"name": "large", "engine": "flux", "cores": 8, "nodes": 2});
    m.configure(json!({"allocation": [small(), large]})).unwrap();
    assert_eq!(
        m.resource_status()["R"]["execution"]["nodelist"][0],
        "testhost,n0,small-[1-2],large-[0-1]"
    );
    assert_eq!(m.resource_status()["offline"], "2-5");
    let second = m.submit(TestJob::new().ntasks(16)).unwrap();
    m.advance(2.0);
    m.assert_state(second, State::Run);
    m.assert_state(first, State::Run);
    // The new table is in use too, and the first one can't push its places aside.
    let wider = json!({"allocation": [small_with(json!({"max": 4})), large]});
    let text = m.configure(wider).unwrap_err().to_string();
    assert!(text.contains("allocation 2 of large has the ranks 4-5"), "{text}");
    assert!(text.contains("jobtap allocation release 2"), "{text}");
    let quick = json!({"allocation": [small_with(json!({"idle-time": "10s"})), large]});
    m.configure(quick).unwrap();
    m.finish(first, 0);
    m.advance(13.0);
    assert_eq!(states(&m), ["running"]);
}

#[test]
fn an_instance_does_not_become_elastic_at_run_time() {
    let mut m = TestManager::new().plugin::<Asks>().start();
    let text = m.configure(json!({"allocation": [small()]})).unwrap_err().to_string();
    assert!(text.contains("can't be added while the manager runs"), "{text}");
    let mut m = start(json!([small()]));
    let text = m.configure(json!({})).unwrap_err().to_string();
    assert!(text.contains("can't be removed while the manager runs"), "{text}");
}

#[test]
fn a_plugin_that_only_plans_is_loaded_in_elastic_instances_only() {
    #[derive(Default)]
    struct Plans;
    #[jobtap_plugin(name = "plans")]
    impl Plans {
        #[on("allocation.plan")]
        fn plan(&self) -> Plan {
            Plan::new()
        }
    }
    let is_loaded = |config: Value| {
        let m = TestManager::new().plugin::<Asks>().linked::<Plans>().config(config).start();
        m.engine().unwrap().plugins().iter().any(|plugin| plugin.name.starts_with("plans"))
    };
    assert!(is_loaded(json!({"allocation": [small()]})));
    assert!(!is_loaded(json!({})));
}

#[test]
fn other_resources_are_refused() {
    let mut m = start(json!([small()]));
    let resources = m.free_resources().unwrap().clone();
    let text = m.define_resources(resources).unwrap_err().to_string();
    assert!(text.contains("the tables [[allocation]] say which resources there are"), "{text}");
}
