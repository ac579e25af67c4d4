//! Requests of plugins to other services of Flux, and their reads of the KVS.

use jobtap_core::host::{PluginKey, RpcAnswer, RpcCommand, RpcKey, RpcRequest};
use jobtap_core::plugin::{Level, ServiceError};
use rustc_hash::FxHashMap;
use serde_json::Value;

use super::Adapter;
use crate::flux::{Errno, Flux};

/// How many requests of a plugin may be under way, as in jobtap's manager.
const MOST: usize = 128 * 1024;

/// The requests that wait for their responses.
#[derive(Debug, Default)]
pub(super) struct Rpcs(FxHashMap<RpcKey, (PluginKey, RpcAnswer)>);

impl<F: Flux> Adapter<F> {
    /// Carries out a command of a plugin.
    pub(super) fn rpc(&self, plugin: PluginKey, command: RpcCommand) {
        match command {
            RpcCommand::Request { answer: Some(answer), .. } if self.has_most_rpcs(plugin) => {
                let text = format!("{MOST} requests of this plugin are under way already");
                answer.send(Err(ServiceError::new(Errno::EAGAIN.0, text)));
            }
            RpcCommand::Request { key, request, answer: Some(answer) } => {
                // Registered first: the response may come during the call.
                self.open.borrow_mut().rpcs.0.insert(key, (plugin, answer));
                if let Err(errno) = self.flux.send(key, &request) {
                    self.answered(key, Err(ServiceError::new(errno.0, errno.to_string())));
                }
            }
            RpcCommand::Request { request: RpcRequest::Service { topic, payload }, .. } => {
                if let Err(errno) = self.flux.send_no_response(&topic, &payload) {
                    let name = self.name(plugin);
                    self.log(Level::Warning, &format!("{name}: request to {topic}: {errno}"));
                }
            }
            // A lookup without an answer has no effect.
            RpcCommand::Request { request: RpcRequest::Kvs { .. }, .. } => {}
            RpcCommand::Cancel { key } => {
                let dropped = self.open.borrow_mut().rpcs.0.remove(&key);
                if dropped.is_some() {
                    self.flux.cancel(key);
                }
            }
            RpcCommand::CancelAll => self.cancel_rpcs_of(plugin),
        }
    }

    fn has_most_rpcs(&self, plugin: PluginKey) -> bool {
        let open = self.open.borrow();
        // Counted only when there are many in all.
        open.rpcs.0.len() >= MOST
            && open.rpcs.0.values().filter(|(of, _)| *of == plugin).count() >= MOST
    }

    /// Drops the responses to all requests of a plugin.
    pub(super) fn cancel_rpcs_of(&self, plugin: PluginKey) {
        let lost: Vec<_> = {
            let mut open = self.open.borrow_mut();
            open.rpcs.0.extract_if(|_, (of, _)| *of == plugin).collect()
        };
        // Dropped without the borrow, since that runs code of the plugin.
        for (key, _answer) in lost {
            self.flux.cancel(key);
        }
    }

    /// Passes a response to the plugin that waits for it.
    pub fn answered(&self, key: RpcKey, response: Result<Value, ServiceError>) {
        let waiting = self.open.borrow_mut().rpcs.0.remove(&key);
        if let Some((_, answer)) = waiting {
            answer.send(response);
        }
    }
}
