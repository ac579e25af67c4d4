//! The OpenAPI document.

use jobtap_tests::{clean, jobtap, run};
use serde_json::Value;

use crate::client::Site;

#[test]
fn the_command_prints_what_the_manager_serves() {
    let printed = run(clean(jobtap()).arg("openapi")).ok();
    let printed: Value = serde_json::from_str(&printed).unwrap();
    let site = Site::open("");
    assert_eq!(site.get("/openapi.json").ok(), printed);
    assert_eq!(printed["openapi"], "3.1.0");
}
