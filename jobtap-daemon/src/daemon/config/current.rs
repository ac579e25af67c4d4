//! The configuration of a running manager, and how a new one replaces it.
//!
//! Plugins may refuse a new configuration; then the old one stays in force. Parts that are read only at
//! the start, such as the resources and the list of plugins, stay as they were then.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use jobtap_core::allocation::Tables;
use jobtap_core::engine::{Cred, Level, Request};
use jobtap_core::suggest::nearest;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::keys::{Judgement, Missing, judge, waiting};
use super::linked_plugins::LinkedPlugins;
use super::place::{self, Step};
use super::settings::{Settings, SettingsError};
use super::{ConfigError, Source};
use crate::allocations::Allocations;
use crate::daemon::engine::{EngineHandle, answered};
use crate::daemon::execution::Execution;
use crate::daemon::log::Log;
use crate::daemon::rights::access::Access;
use crate::daemon::rights::privacy::Privacy;
use crate::rpc::errno::{EINVAL, EIO};
use crate::rpc::services::config::Loaded;
use crate::rpc::{RpcError, RpcResult};

/// A request about the configuration.
#[derive(Debug, PartialEq)]
pub(in crate::daemon) enum ConfigCall {
    /// `config.get`: the configuration in force.
    Get,
    /// `config.load`: put this one in force.
    Load(Value),
    /// `config.reload`: read the files and options given at the start again.
    Reload,
}

/// The configuration, and the parts of the manager that take over a new one.
pub(in crate::daemon) struct Configuration {
    pub(in crate::daemon) source: Source,
    pub(in crate::daemon) engine: EngineHandle,
    pub(in crate::daemon) execution: Execution,
    /// The allocations of an elastic instance.
    pub(in crate::daemon) allocations: Option<Arc<Allocations>>,
    pub(in crate::daemon) log: Arc<Log>,
    /// The names of all linked plugins.
    pub(in crate::daemon) linked: Vec<&'static str>,
    /// The configuration at the start of the manager; some of its keys stay in force until the next start.
    pub(in crate::daemon) started: Value,
    pub(in crate::daemon) access: Arc<Access>,
    /// The state directory, whose mode follows `access`.
    pub(in crate::daemon) statedir: PathBuf,
    /// The manager's socket, whose mode follows `access`, too.
    pub(in crate::daemon) socket: PathBuf,
    pub(in crate::daemon) privacy: Arc<Privacy>,
    /// The largest jobspec that is accepted, in bytes.
    pub(in crate::daemon) max_jobspec: AtomicUsize,
    /// The configuration in force. Locked while a new one is applied, so that of two changes at once the one accepted
    /// last wins.
    pub(in crate::daemon) current: Mutex<Value>,
}

impl Configuration {
    /// Carries out a request, to its end even if its client disconnects meanwhile.
    pub(in crate::daemon) async fn call(
        self: Arc<Self>,
        cred: Cred,
        call: ConfigCall,
    ) -> RpcResult {
        let task = tokio::spawn(async move {
            match call {
                ConfigCall::Get => Ok(self.current.lock().await.clone()),
                ConfigCall::Load(config) => self.replace(cred, config, Origin::Client).await,
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
        self.replace(cred, config, Origin::Files(&self.source)).await
    }

    /// Puts a configuration in force.
    async fn replace(&self, cred: Cred, config: Value, origin: Origin<'_>) -> RpcResult {
        if !config.is_object() {
            return Err(RpcError::new(EINVAL, "the configuration must be a table"));
        }
        let before = self.current.lock().await.clone();
        let (settings, remarks) = self.read(&before, &config).await?;
        let settings = settings.map_err(|error| {
            let place = error.place(&config);
            origin.located(refused(&error), &place)
        })?;
        let mut current = self.current.lock().await;
        let request = Request::Configure { config: config.clone() };
        let configured = answered(self.engine.request(cred, request)).await;
        let configured = configured.map_err(|error| {
            let place = place::locate(&error.text, &config);
            origin.located(of_the_manager(error), &place)
        })?;
        self.execution.set(settings.kill, settings.output_limit);
        // The engine has read the tables.
        if let (Some(allocations), Ok(tables)) = (&self.allocations, Tables::read(&config)) {
            allocations.configure(tables);
        }
        let remarks = remarks.iter().map(|remark| origin.text(&remark.text, &remark.place));
        let waiting = waiting(&before, &config, &self.started, origin.missing());
        let mut notes: Vec<String> = remarks.chain(waiting).collect();
        notes.iter().for_each(|text| self.log.write(Level::Warning, text));
        // The engine has written these to the log itself.
        notes.extend(serde_json::from_value::<Vec<String>>(configured).unwrap_or_default());
        self.access.set(settings.access);
        if let Err(error) = self.access.apply_to(&self.statedir, &self.socket) {
            let text =
                format!("the mode of the socket can't follow access.allow-guest-user: {error}");
            self.log.write(Level::Warning, &text);
        }
        self.privacy.set(settings.private_mode);
        self.max_jobspec.store(settings.max_jobspec, Ordering::Relaxed);
        *current = config;
        self.log.write(Level::Info, "a new configuration is in force");
        Ok(json!(Loaded { notes }))
    }

    /// Returns the settings of a configuration, and those remarks on it that didn't apply to the one `before`.
    async fn read(
        &self,
        before: &Value,
        config: &Value,
    ) -> Result<(Result<Settings, SettingsError>, Vec<Judgement>), RpcError> {
        let loaded = answered(self.engine.read(|engine| Ok(engine.plugins()))).await?;
        let loaded: Vec<String> = loaded.into_iter().map(|plugin| plugin.name).collect();
        let registry = crate::linked::registry();
        let registry = registry.map_err(|error| RpcError::new(EIO, error.to_string()))?;
        let plugins = |config: &Value| LinkedPlugins::new(&registry, config).with_loaded(&loaded);
        let mut remarks = remarks(config, &plugins(config));
        let said = self::remarks(before, &plugins(before));
        remarks.retain(|remark| !said.contains(remark));
        let (config, plugins) = (config.clone(), plugins(config));
        // In the background: it looks users up, and a name service may be slow.
        let read = tokio::task::spawn_blocking(move || Settings::read(&config, &plugins)).await;
        let settings = read.map_err(|error| RpcError::new(EIO, error.to_string()))?;
        Ok((settings, remarks))
    }
}

/// Where a new configuration comes from.
#[derive(Clone, Copy)]
enum Origin<'a> {
    Files(&'a Source),
    /// A client sent it, so that there are no files and lines to name.
    Client,
}

impl Origin<'_> {
    /// Returns a text about the value at a place, with its file and line if it has them.
    fn text(self, text: &str, place: &[Step]) -> String {
        match self {
            Self::Files(source) => source.located(text, place),
            Self::Client => text.to_owned(),
        }
    }

    fn located(self, error: RpcError, place: &[Step]) -> RpcError {
        RpcError { text: self.text(&error.text, place), ..error }
    }

    /// Returns what it means that a key is missing.
    fn missing(self) -> Missing {
        match self {
            Self::Files(_) => Missing::Removed,
            Self::Client => Missing::Unsaid,
        }
    }
}

/// Names, as Flux does, the module that refuses a configuration. Here it is always the job manager.
fn of_the_manager(error: RpcError) -> RpcError {
    RpcError { text: named_by_flux(&error.text), ..error }
}

fn named_by_flux(text: &str) -> String {
    format!("error updating job-manager: {text}")
}

fn refused(error: &SettingsError) -> RpcError {
    let text = error.to_string();
    let text = match error {
        // The engine reads other keys of the same table, and its refusals have this form.
        SettingsError::Kill(_) => named_by_flux(&text),
        SettingsError::Resource(_) => format!("error updating resource: {text}"),
        _ => text,
    };
    RpcError::new(EINVAL, text)
}

/// Returns the remarks on a configuration: keys that have no effect or are refused, and tables for plugins that are not
/// linked. The latter are not errors: hosts with different plugins may share a configuration.
pub(in crate::daemon) fn remarks(config: &Value, plugins: &LinkedPlugins) -> Vec<Judgement> {
    let unlinked_plugin_tables =
        unlinked_plugin_tables(config, &plugins.names()).into_iter().map(|text| {
            let place = place::locate(&text, config);
            Judgement { refused: false, text, place }
        });
    unlinked_plugin_tables.chain(judge(config, plugins)).collect()
}

/// Returns warnings about tables for plugins that are not linked.
pub(super) fn unlinked_plugin_tables(config: &Value, linked: &[&str]) -> Vec<String> {
    if config.get("plugins").is_some_and(|plugins| !plugins.is_object()) {
        return vec!["plugins must be a table, with one table a plugin: [plugins.NAME]".to_owned()];
    }
    let tables = config.get("plugins").and_then(Value::as_object);
    let unknown = tables.into_iter().flatten().filter(|(name, _)| !linked.contains(&name.as_str()));
    unknown
        .map(|(name, _)| {
            let meant = nearest(name, linked.iter().copied());
            let hint = meant.map_or_else(
                || "; `jobtap plugin available` lists those that are".to_owned(),
                |name| format!("; did you mean {name:?}?"),
            );
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
        let registry = crate::linked::registry().unwrap();
        let read = Settings::read(&bad, &LinkedPlugins::new(&registry, &bad));
        let text = read.map_err(|error| refused(&error).text).err();
        let expected = "error updating job-manager: exec.max-kill-count: must be an integer from 1, \
                        not 0";
        assert_eq!(text.as_deref(), Some(expected));
    }

    #[test]
    fn a_table_for_no_plugin_is_named_with_the_nearest_plugin() {
        let config = json!({"plugins": {"deadlin": {}, "fairshare": {}}});
        let found = unlinked_plugin_tables(&config, &["deadline", "fairshare"]);
        let text = "[plugins.deadlin]: no plugin of this name is linked into this manager; did you \
                    mean \"deadline\"?";
        assert_eq!(found, [text]);
        let found = unlinked_plugin_tables(&json!({"plugins": {"quota": {}}}), &["deadline"]);
        let text = "[plugins.quota]: no plugin of this name is linked into this manager; `jobtap plugin \
                    available` lists those that are";
        assert_eq!(found, [text]);
        assert!(unlinked_plugin_tables(&json!({}), &[]).is_empty());
        let found = unlinked_plugin_tables(&json!({"plugins": 3}), &[]);
        assert!(found.iter().any(|text| text.starts_with("plugins must be a table")), "{found:?}");
    }
}
