//! Plugins that call each other by an own topic: this works alike in every host, also when the called plugin fails or
//! panics.
#![allow(clippy::unwrap_used)]

use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{HostSetup, TestHost, TestHosts, TestJob, TestManager};
use jobtap_flux::testing::TestFlux;
use jobtap_slurm::testing::TestSlurm;
use serde_json::json;

/// What is a user's share?
#[topic("bank.share", answer = u32)]
struct ShareOf {
    user: Uid,
}

#[derive(Default)]
struct Bank;

#[jobtap_plugin(name = "bank", load = "by-name")]
impl Bank {
    #[on(ShareOf)]
    fn share(&self, ask: &ShareOf, cx: Cx<'_, ShareOf>) -> Result<u32, HandlerError> {
        cx.log(Level::Warning, format!("asked for {}", ask.user));
        match ask.user.as_u32() {
            0 => Err(HandlerError::new("root has no account")),
            1 => panic!("no account 1"),
            user => Ok(user * 10),
        }
    }
}

#[derive(Default)]
struct Fair;

#[jobtap_plugin(name = "fair", load = "by-name")]
impl Fair {
    #[on("job.validate")]
    fn validate(&self, job: &Job, cx: Cx<'_, JobValidate>) -> Result<(), Reject> {
        let shares = cx.call(&ShareOf { user: job.userid() }).or_reject()?;
        Reject::when(shares != [70], format!("{shares:?}"))
    }
}

/// Asserts how a host replies to users with these accounts.
fn ask_for_shares(host: &mut dyn TestHost) {
    let mut refusal =
        |user| host.submit(TestJob::new().user(user)).err().map(|refused| refused.text());
    assert_eq!(refusal(7), None);
    assert_eq!(refusal(2).as_deref(), Some("[20]"));
    let failed = "topic bank.share: plugin bank: root has no account";
    assert_eq!(refusal(0).as_deref(), Some(failed));
    let panicked = "topic bank.share: plugin bank: panicked: no account 1";
    assert_eq!(refusal(1).as_deref(), Some(panicked));
}

/// Starts a host with both plugins, and asks it for the shares.
fn asked<H: TestHost>() -> H {
    let plugins = vec![Bank::DESCRIPTOR, Fair::DESCRIPTOR];
    let mut host = H::start(&HostSetup { plugins, config: json!({}) }).unwrap();
    ask_for_shares(&mut host);
    host
}

#[test]
fn plugins_ask_each_other_alike_in_each_host() {
    let hosts = TestHosts::new().plugin::<Bank>().plugin::<Fair>();
    let hosts = hosts.host::<TestManager>().host::<TestFlux>().host::<TestSlurm>();
    hosts.each(ask_for_shares);
}

#[test]
fn flux_logs_what_was_asked_for_but_not_by_a_call_that_panicked() {
    let lines: Vec<String> = asked::<TestFlux>().log().into_iter().map(|(_, text)| text).collect();
    let expected = [
        "bank: asked for 7",
        "bank: asked for 2",
        "bank: asked for 0",
        "bank: panicked: no account 1",
    ];
    assert_eq!(lines, expected);
}

#[test]
fn slurm_logs_what_was_asked_for_but_not_by_a_call_that_panicked() {
    let slurm = asked::<TestSlurm>();
    let expected =
        ["jobtap: bank: asked for 7", "jobtap: bank: asked for 2", "jobtap: bank: asked for 0"];
    assert_eq!(slurm.log(Level::Warning), expected);
    assert_eq!(slurm.log(Level::Error), ["jobtap: bank: panicked: no account 1"]);
}
