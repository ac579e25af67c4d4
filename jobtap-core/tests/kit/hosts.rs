//! Tests that run over several hosts: what a failure says.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jobtap_core::host::panic_text;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestHost, TestHosts, TestJob, TestManager};
use serde_json::json;

#[derive(Default)]
struct Refuses;

#[jobtap_plugin(name = "refuses", load = "by-name")]
impl Refuses {
    #[on("job.validate")]
    fn validate(&self) -> Result<(), Reject> {
        Err(Reject::new("no"))
    }
}

#[test]
fn a_failure_names_the_hosts_over_which_the_test_fails() {
    let hosts = TestHosts::new().plugin::<Refuses>().host::<TestManager>();
    let failure = |test: fn(&mut dyn TestHost)| {
        let panic = catch_unwind(AssertUnwindSafe(|| hosts.each(test))).unwrap_err();
        panic_text(&*panic)
    };
    let text = failure(|host| assert_eq!(host.submit(TestJob::new()).unwrap_err(), "yes"));
    assert!(text.starts_with("the test fails\nover TestManager: assertion"), "{text}");
    hosts.each(|host| assert_eq!(host.submit(TestJob::new()).unwrap_err(), "no"));
}

#[test]
fn a_host_that_does_not_start_fails_the_test() {
    let config = json!({"plugins": {"refuses": {"a": 1}}});
    let hosts = TestHosts::new().plugin::<Refuses>().config(config).host::<TestManager>();
    let panic = catch_unwind(AssertUnwindSafe(|| hosts.each(|_| {}))).unwrap_err();
    let text = panic_text(&*panic);
    assert!(text.contains("over TestManager: it doesn't start: "), "{text}");
}
