//! Plugins that are loaded after those that the configuration names.

use jobtap_core::prelude::*;
use jobtap_core::testing::{ManagerStartError, TestJob, TestManager};
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

/// The priority of a job when `job-manager.plugins` has these directives.
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

mod order {
    use super::*;

    #[derive(Default)]
    struct Second;

    #[jobtap_plugin(name = "second", after = ["third"])]
    impl Second {
        #[on("job.state.priority")]
        fn priority(&self) -> Priority {
            Priority::new(200)
        }
    }

    #[derive(Default)]
    struct Third;

    #[jobtap_plugin(name = "third")]
    impl Third {}

    /// The priority of a job, which the last plugin in this order decides.
    fn with_order(order: Value) -> Result<Option<u32>, ManagerStartError> {
        let builder = TestManager::new().plugin::<First>().plugin::<Second>().plugin::<Third>();
        let builder =
            builder.linked::<Named>().config(json!({"job-manager": {"plugin-order": order}}));
        let mut m = builder.try_start()?;
        let id = m.submit(TestJob::new()).unwrap();
        Ok(m.job(id).priority())
    }

    #[test]
    fn a_site_orders_the_plugins_that_are_loaded_by_default() {
        assert_eq!(with_order(json!([])).unwrap(), Some(200));
        assert_eq!(with_order(json!(["third", "first"])).unwrap(), Some(200));
        let refusal = with_order(json!(["second", "first"])).unwrap_err().text();
        assert_eq!(refusal.matches("third").count(), 1);
        assert_eq!(with_order(json!(["third", "second", "first"])).unwrap(), Some(100));
    }

    #[test]
    fn an_order_that_cannot_be_is_refused() {
        for (order, text) in [
            (json!("first"), "must be an array of names of plugins"),
            (json!(["firts"]), "did you mean first?"),
            (json!(["named"]), "named is not loaded by default"),
            (json!(["first", "first"]), "first is named twice"),
            (json!(["second", "third"]), "third must come before second"),
        ] {
            let refusal = with_order(order).unwrap_err().text();
            assert!(refusal.starts_with("job-manager.plugin-order: "), "{refusal}");
            assert!(refusal.contains(text), "{refusal}");
        }
    }
}
