//! A custom manager: the plugin that was linked into it decides.
#![allow(missing_docs)]

use jobtap_tests::{Manager, site_manager};
use serde_json::Value;

#[test]
fn the_plugins_priority_reaches_the_eventlog() {
    let m = Manager::start(site_manager());
    let plugins = m.jobtap("plugin list").ok();
    assert_eq!(plugins, "deadline");
    assert!(m.jobtap("plugin list -a").ok().starts_with(".priority-default\n"));

    let deadline = 4_000_000_000_u64;
    let id = m.submit(&format!("--setattr=deadline={deadline} true"));
    m.wait(&id, "clean");
    let entry = m.jobtap(&format!("job wait-event -f json {id} priority")).ok();
    let entry: Value = serde_json::from_str(&entry).unwrap();
    let priority = entry.pointer("/context/priority").unwrap().as_u64().unwrap();
    assert_eq!(priority, u64::from(u32::MAX) - 1 - deadline);

    let refusal = m.jobtap("submit --setattr=deadline=1 true");
    assert_eq!((refusal.code, refusal.stderr.contains("it has passed already")), (1, true));
}
