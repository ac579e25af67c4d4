//! The registry of a binary: plugins that are linked into it are found without being named. This test is a binary of
//! its own, since plugins of other tests share names.
#![allow(clippy::unwrap_used, missing_docs)]

mod common;

use jobtap_core::host::Registry;

#[test]
fn a_plugin_of_this_binary_is_found_without_being_named() {
    let registry = Registry::linked().unwrap();
    let plugin = registry.find("by-urgency").unwrap();
    assert_eq!(plugin.crate_name, "jobtap-core");
    assert!(registry.auto().any(|auto| auto.name == "by-urgency"));
}
