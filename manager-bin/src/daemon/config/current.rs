//! The configuration of a running manager: what it is, and how another one takes its place.
//!
//! Plugins may refuse a new one; then the old one stays. What is read at start alone, such as the
//! resources and the list of plugins, is that of the start.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobtap_core::engine::{Cred, Level, Request};
use jobtap_core::suggest::nearest;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::keys::doubtful;
use super::settings::Settings;
use super::{ConfigError, Source};
use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::execution::Execution;
use crate::daemon::lifecycle::StartError;
use crate::daemon::log::Log;
use crate::daemon::services::privacy::Privacy;
use crate::rpc::errno::{EINVAL, EIO};
use crate::rpc::{RpcError, RpcResult};

/// What is asked about the configuration.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) enum ConfigCall {
    /// `config.get`: the whole.
    Get,
    /// `config.load`: this one from now on.
    Load(Value),
    /// `config.reload`: the files and options of the start are read again.
    Reload,
}

/// The configuration, and all that hear of a new one.
pub(in crate::daemon) struct Configuration {
    pub(in crate::daemon) source: Source,
    pub(in crate::daemon) engine: EngineHandle,
    pub(in crate::daemon) execution: Execution,
    pub(in crate::daemon) log: Arc<Log>,
    /// The names of all linked plugins.
    pub(in crate::daemon) linked: Vec<&'static str>,
    pub(in crate::daemon) privacy: Arc<Privacy>,
    /// Bytes of a jobspec that is accepted.
    pub(in crate::daemon) max_jobspec: AtomicUsize,
    /// Held while a new one is tried, so that the last one accepted is the one in force.
    pub(in crate::daemon) current: Mutex<Value>,
}

impl Configuration {
    /// Does what is asked, to its end even when nobody waits for it any more.
    pub(in crate::daemon) async fn call(
        self: Arc<Self>,
        cred: Cred,
        call: ConfigCall,
    ) -> RpcResult {
        let task = tokio::spawn(async move {
            match call {
                ConfigCall::Get => Ok(self.current.lock().await.clone()),
                ConfigCall::Load(config) => self.replace(cred, config).await,
                ConfigCall::Reload => self.reload(cred).await,
            }
        });
        task.await.unwrap_or_else(|error| Err(RpcError::new(EIO, error.to_string())))
    }

    async fn reload(&self, cred: Cred) -> RpcResult {
        let source = self.source.clone();
        let read = tokio::task::spawn_blocking(move || source.read()).await;
        let read = read.map_err(|error| RpcError::new(EIO, error.to_string()))?;
        let config = read.map_err(|error: ConfigError| RpcError::new(EINVAL, error.to_string()))?;
        self.replace(cred, config).await
    }

    async fn replace(&self, cred: Cred, config: Value) -> RpcResult {
        if !config.is_object() {
            return Err(RpcError::new(EINVAL, "the configuration must be a table"));
        }
        let asked = config.clone();
        // Users are looked up, and a name service may be slow.
        let read = tokio::task::spawn_blocking(move || Settings::read(&asked)).await;
        let read = read.map_err(|error| RpcError::new(EIO, error.to_string()))?;
        let settings = read.map_err(|error| refused(&error))?;
        let mut current = self.current.lock().await;
        let request = Request::Configure { config: config.clone() };
        answered(self.engine.request(cred, request)).await.map_err(of_the_manager)?;
        self.execution.set_kill(settings.kill);
        warn_of_strangers(&config, &self.linked, &self.log);
        self.privacy.set(settings.veil);
        self.max_jobspec.store(settings.max_jobspec, Ordering::Relaxed);
        *current = config;
        self.log.write(Level::Info, "a new configuration is in force");
        Ok(json!({}))
    }
}

/// Says, as Flux does, which module a new configuration failed at; all that can refuse one is ours.
fn of_the_manager(error: RpcError) -> RpcError {
    RpcError { text: named_by_flux(&error.text), ..error }
}

fn named_by_flux(text: &str) -> String {
    format!("error updating job-manager: {text}")
}

fn refused(error: &StartError) -> RpcError {
    let text = error.to_string();
    let text = match error {
        // The engine reads other keys of the same table, and refuses them so.
        StartError::Kill(_) => named_by_flux(&text),
        _ => text,
    };
    RpcError::new(EINVAL, text)
}

/// A table for a plugin that isn't there, or a key that is nearly one of the manager's, is most likely a
/// slip, but no reason not to start: hosts may share a configuration and not the plugins.
pub(in crate::daemon) fn warn_of_strangers(config: &Value, linked: &[&'static str], log: &Log) {
    for text in strangers(config, linked).into_iter().chain(doubtful(config)) {
        log.write(Level::Warning, &text);
    }
}

fn strangers(config: &Value, linked: &[&'static str]) -> Vec<String> {
    if config.get("plugins").is_some_and(|plugins| !plugins.is_object()) {
        return vec!["plugins must be a table, with one table a plugin: [plugins.NAME]".to_owned()];
    }
    let tables = config.get("plugins").and_then(Value::as_object);
    let unknown = tables.into_iter().flatten().filter(|(name, _)| !linked.contains(&name.as_str()));
    unknown
        .map(|(name, _)| {
            let meant = nearest(name, linked.iter().copied());
            let hint = meant.map(|name| format!("; did you mean {name:?}?")).unwrap_or_default();
            format!("[plugins.{name}]: no plugin of this name is linked into this manager{hint}")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_of_exec_are_refused_in_the_same_words() {
        let bad = json!({"exec": {"max-kill-count": 0}});
        let text = Settings::read(&bad).map_err(|error| refused(&error).text).err();
        let expected = "error updating job-manager: exec.max-kill-count: must be an integer from 1, \
                        not 0";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn a_table_for_no_plugin_is_named_with_the_one_that_is_near() {
        let config = json!({"plugins": {"deadlin": {}, "fairshare": {}}});
        let found = strangers(&config, &["deadline", "fairshare"]);
        let text = "[plugins.deadlin]: no plugin of this name is linked into this manager; did you \
                    mean \"deadline\"?";
        assert_eq!(found, [text]);
        assert!(strangers(&json!({}), &[]).is_empty());
        let found = strangers(&json!({"plugins": 3}), &[]);
        assert!(found.iter().any(|text| text.starts_with("plugins must be a table")), "{found:?}");
    }
}
