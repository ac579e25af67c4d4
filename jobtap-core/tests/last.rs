//! Plugins that are loaded after those that the configuration names.
#![allow(clippy::unwrap_used, missing_docs)]

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

#[derive(Default)]
struct First;

#[jobtap_plugin(name = "first")]
impl First {
    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(100)
    }
}

#[derive(Default)]
struct Late;

#[jobtap_plugin(name = ".late", load = "last")]
impl Late {
    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(300)
    }
}

#[derive(Default)]
struct Named;

#[jobtap_plugin(name = "named", load = "by-name")]
impl Named {
    #[on("job.state.priority")]
    fn priority(&self) -> Priority {
        Priority::new(400)
    }
}

/// The priority of a job where the configuration says this of plugins.
fn with_directives(directives: Value) -> Option<u32> {
    let builder = TestManager::new().plugin::<Late>().linked::<Named>().plugin::<First>();
    let mut m = builder.config(json!({"job-manager": {"plugins": directives}})).start();
    let id = m.submit(TestJob::new()).unwrap();
    m.job(id).priority()
}

#[test]
fn some_plugins_come_after_those_that_the_configuration_names() {
    assert_eq!(with_directives(json!([{"load": "named"}])), Some(300));
    let twice = json!([{"load": ".late"}, {"load": "named"}]);
    assert_eq!(with_directives(twice), Some(400));
    for gone in [".late", ".l*"] {
        let without = json!([{"remove": gone}, {"load": "named"}]);
        assert_eq!(with_directives(without), Some(400));
    }
    let again = json!([{"remove": ".late"}, {"load": ".late"}, {"load": "named"}]);
    assert_eq!(with_directives(again), Some(400));
}
