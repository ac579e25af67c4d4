//! Tests requests of plugins to other services, and work that follows calls.

use jobtap_core::host::ReplyTo;
use jobtap_core::plugin::{Cred, ServiceError};
use jobtap_core::prelude::*;
use jobtap_core::topic::Later;
use serde_json::Value;

use super::double::{Kit, descriptor};

struct Asker {
    open: Vec<Token>,
    chained: u32,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "asker", load = "by-name")]
impl Asker {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        remote.log(Level::Info, "is there");
        Self { open: Vec::new(), chained: 0, remote }
    }

    #[service("ask")]
    fn ask(&self) {
        self.remote.rpc_then("dws.create", &json!({"n": 1}), |_, cx, answer| {
            let answer: Result<Value, RpcError> = answer;
            cx.log(
                Level::Info,
                match answer {
                    Ok(value) => value.to_string(),
                    Err(error) => format!("{error:?}"),
                },
            );
        });
    }

    #[service("read")]
    fn read(&self) {
        let remote = self.remote.clone();
        self.remote.spawn(async move {
            let read: Result<Value, _> = remote.kvs_lookup(JobId::new(7).kvs_key("R")).await;
            remote.log(Level::Info, format!("{read:?}"));
        });
    }

    #[service("tell")]
    fn tell(&self) {
        self.remote.rpc_no_response("dws.abort", &json!({"n": 2}));
    }

    #[service("chain")]
    fn chain(&mut self, cx: Cx<'_, Service>) {
        self.chained = 0;
        cx.reprioritize_all();
        cx.then(&self.remote, Self::go_on);
        cx.reprioritize_all();
    }

    #[on("job.state.run")]
    fn run(&mut self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        self.open.push(cx.prolog_start("asker")?);
        Ok(())
    }

    #[on("unload")]
    fn unload(&mut self, cx: Cx<'_, Unload>) {
        self.open.drain(..).for_each(|token| cx.leave_open(token));
    }
}

/// A chain that would overflow the stack, if each link lay on it.
const LONG: u32 = 20_000;

impl Asker {
    fn go_on(&mut self, cx: Cx<'_, Later<Self>>) {
        self.chained += 1;
        match self.chained {
            1 => {
                cx.drain(&Idset::from_iter([0]), "the first link");
                cx.then(&self.remote, Self::go_on);
            }
            LONG => cx.log(Level::Info, "the chain has ended"),
            _ => cx.then(&self.remote, Self::go_on),
        }
    }
}

fn kit() -> Kit {
    Kit::new(&[descriptor::<Asker>()])
}

fn ask(kit: &Kit, method: &str) {
    let cred = Cred { userid: Uid(100), owner: true };
    kit.adapter.request(ReplyTo(1), &format!("job-manager.asker.{method}"), cred, json!({}), false);
    kit.adapter.wake();
}

/// Asks a service, and returns what the plugin logs about this response.
fn response(answer: Result<Value, ServiceError>) -> String {
    let kit = kit();
    ask(&kit, "ask");
    let key = kit.flux.requests.borrow_mut().pop().unwrap();
    kit.log();
    kit.adapter.answered(key, answer);
    kit.adapter.wake();
    kit.log().pop().unwrap()
}

#[test]
fn a_plugin_gets_the_response_of_a_service() {
    assert_eq!(response(Ok(json!({"success": true}))), "info: asker: {\"success\":true}");
    let missing = response(Err(ServiceError::new(38, "Function not implemented")));
    assert!(missing.contains("NoService { topic: \"dws.create\" }"), "{missing}");
    let refused = response(Err(ServiceError::new(11, "later")));
    assert!(refused.contains("Refused") && refused.contains("later"), "{refused}");
}

#[test]
fn a_request_that_cannot_be_sent_is_an_error() {
    let kit = kit();
    kit.flux.failing.borrow_mut().insert("send");
    ask(&kit, "ask");
    kit.adapter.wake();
    assert!(kit.log().iter().any(|line| line.contains("Refused")));
}

#[test]
fn a_removed_plugin_waits_for_nothing() {
    let kit = kit();
    ask(&kit, "ask");
    let key = kit.flux.requests.borrow()[0];
    kit.adapter.unload();
    assert!(kit.flux.requests.borrow().is_empty());
    kit.log();
    kit.adapter.answered(key, Ok(json!({})));
    kit.adapter.wake();
    assert_eq!(kit.log(), Vec::<String>::new());
}

#[test]
fn a_request_without_a_response_is_only_sent() {
    let kit = kit();
    ask(&kit, "tell");
    let calls = kit.take();
    assert!(calls.contains(&"send_no_response dws.abort {\"n\":2}".to_owned()), "{calls:?}");
    assert!(kit.flux.requests.borrow().is_empty());
}

#[test]
fn a_key_is_read_by_its_name() {
    let kit = kit();
    ask(&kit, "read");
    kit.until(|calls| calls.iter().any(|call| call.starts_with("send")));
    let calls = kit.take();
    let sent = "send Kvs { key: \"job.0000.0000.0000.0007.R\" }".to_owned();
    assert!(calls.contains(&sent), "{calls:?}");
}

#[test]
fn work_follows_the_calls_before_it_and_a_chain_of_it_ends() {
    let kit = kit();
    ask(&kit, "chain");
    let calls = kit.take();
    let all: Vec<_> = calls.iter().filter_map(|call| call.split(' ').next()).collect();
    let order = ["reprioritize_all", "rpc", "reprioritize_all"];
    assert!(all.windows(3).any(|three| three == order), "{calls:?}");
    assert!(kit.log().contains(&"info: asker: the chain has ended".to_owned()));
}

#[test]
fn what_is_left_open_is_not_finished_by_a_removal() {
    let kit = kit();
    kit.allocate(1);
    kit.call("job.state.run", 1, State::Run, json!({}));
    kit.take();
    kit.adapter.unload();
    let calls = kit.take();
    assert!(!calls.iter().any(|call| call.starts_with("prolog_finish")), "{calls:?}");
}
