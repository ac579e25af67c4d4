//! The policies `fairshare` and `preempt-notice` in a real manager with real processes.

use jobtap_tests::{Manager, jobtap};
use serde_json::Value;

fn query(m: &Manager, plugin: &str) -> Value {
    serde_json::from_str(&m.jobtap(&format!("plugin query {plugin}")).ok()).unwrap()
}

#[test]
fn usage_and_priorities_survive_a_killed_manager() {
    let text = "[job-manager]\nplugins = [{ load = \"fairshare\" }]\n\
                [plugins.fairshare]\nhalf-life = 0\nweights = { age = 0 }\n";
    let mut m = Manager::start_with(jobtap(), text);
    let id = m.submit("sleep 0.3");
    m.wait(&id, "clean");
    m.kill();
    m.start_again();
    let used = query(&m, "fairshare")["tree"]["usage"].as_f64().unwrap();
    assert!(used >= 0.3, "{used}");
    let next = m.submit("sleep 0");
    m.wait(&next, "clean");
    // All usage belongs to the only user.
    assert_eq!(m.field(&next, "priority"), "50000");
}

#[test]
fn a_job_is_signaled_before_its_time_limit() {
    let text = "[job-manager]\nplugins = [{ load = \"preempt-notice\" }]\n\
                [plugins.preempt-notice]\nbefore = \"55s\"\nsignal = \"USR1\"\n";
    let m = Manager::start_with(jobtap(), text);
    let script = "trap 'exit 7' USR1; while :; do sleep 0.1; done";
    let id = m.submit_args(&["-t", "60s", "sh", "-c", script]);
    m.wait(&id, "clean");
    assert!(m.events(&id).contains("start exception finish"), "{}", m.events(&id));
    assert_eq!(m.field(&id, "returncode"), "7");
}
