//! A policy is tried beside the live one in a running manager, put live, and taken back.

use jobtap_tests::{Manager, jobtap};
use serde_json::{Value, json};

const CONFIG: &str = "[job-manager]\n\
     plugins = [{ load = \"limits\", conf = { user = { pending = 100 } } }]\n";

fn report(m: &Manager) -> Value {
    serde_json::from_str(&m.jobtap("plugin shadow limits --json").ok()).unwrap()
}

#[test]
fn a_shadow_is_compared_promoted_and_demoted() {
    let m = Manager::start_with(jobtap(), CONFIG);
    m.jobtap("plugin load limits --shadow user.pending=1").ok();
    assert_eq!(m.jobtap("plugin list").ok(), "limits\nlimits (shadow)");
    assert!(m.jobtap("plugin list -l").ok().ends_with("shadow"));
    for _ in 0..3 {
        m.jobtap("submit --urgency=0 true").ok();
    }
    let found = report(&m);
    assert_eq!((&found["refuses"], &found["different"]), (&json!(2), &json!(2)));
    assert_eq!(found["differences"][0]["live"], "accepts");
    let text = m.jobtap("plugin shadow limits").ok();
    assert!(text.contains("\nonly the shadow refuses 2 submissions"), "{text}");
    assert!(text.contains("refuses: user "), "{text}");
    assert_eq!(m.jobtap("jobs -no {id}").ok().lines().count(), 3);

    let shadow: Value =
        serde_json::from_str(&m.jobtap("plugin query --shadow limits").ok()).unwrap();
    assert_eq!(shadow["shadow"], true);

    m.jobtap("plugin promote limits").ok();
    assert_eq!(m.jobtap("plugin list").ok(), "limits");
    let refused = m.jobtap("submit --urgency=0 true");
    assert!(refused.stderr.contains("and may have 1"), "{refused:?}");

    m.jobtap("plugin demote limits").ok();
    m.jobtap("submit --urgency=0 true").ok();
    assert_eq!(report(&m)["refuses"], 1);

    let missing = m.jobtap("plugin remove --shadow limit");
    assert_eq!(missing.stderr, "jobtap-plugin: ERROR: limit: no shadow of this name is loaded\n");
    m.jobtap("plugin remove --shadow limits").ok();
    assert_eq!(m.jobtap("plugin list").ok(), "limits");
}
