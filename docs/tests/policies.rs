//! A manager starts with every configuration of the chapter "Included policies".
#![allow(clippy::unwrap_used, missing_docs)]

use jobtap_builtins::{
    Fairshare, Housekeeping, Licenses, Limits, Perilog, PreemptNotice, PriorityDefault,
};
use jobtap_core::testing::{TestJob, TestManager};

const CHAPTER: &str = include_str!("../src/policies.md");

fn blocks() -> Vec<serde_json::Value> {
    let blocks = CHAPTER.split("```toml\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    blocks.map(|block| toml::from_str(block).unwrap()).collect()
}

#[test]
fn every_configuration_is_accepted_and_jobs_go_through() {
    let mut blocks = blocks();
    assert_eq!(blocks.len(), 7);
    // The first loads all, with what the others configure.
    let (first, others) = blocks.split_first_mut().unwrap();
    let all = first.as_object_mut().unwrap();
    for block in &*others {
        let plugins = block.get("plugins").and_then(|plugins| plugins.as_object());
        let tables = all.entry("plugins").or_insert_with(|| serde_json::json!({}));
        tables.as_object_mut().unwrap().extend(plugins.cloned().unwrap_or_default());
    }
    for config in blocks {
        let builder = TestManager::new().plugin::<PriorityDefault>().linked::<Perilog>();
        let builder = builder.linked::<Fairshare>().linked::<Limits>().linked::<Licenses>();
        let mut m =
            builder.linked::<Housekeeping>().linked::<PreemptNotice>().config(config).start();
        let id = m.submit(TestJob::new()).unwrap();
        assert!(m.job(id).priority().is_some(), "{:?}", m.events(id));
    }
}
