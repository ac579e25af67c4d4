//! What administrators ask about plugins: load, remove, reload, query, a new configuration.

use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::callback::{Callback, Subject};
use super::exec_config::ExecConfig;
use super::ingest::Ingest;
use super::lanes::Lanes;
use super::queues::stop_at_restart;
use super::requests::refused;
use super::{Engine, Level, ReplyTo, Request, RequestError};
use crate::host::{Bound, Detail, Fault, HandlerStats, Instance};
use crate::queue::Queues;
use crate::topic::TopicId;

const EINVAL: i32 = 22;
const ENOENT: i32 = 2;

impl Engine {
    /// A request of the instance's owner.
    pub(super) fn plugins_request(&mut self, reply: ReplyTo, request: Request) {
        let result = match request {
            Request::Plugins { remove, load, conf } => {
                self.load_and_remove(remove.as_deref(), load.as_deref(), conf)
            }
            Request::PluginReload { name, conf } => self.reload_plugin(&name, conf),
            Request::PluginQuery { name } => self.query_plugin(&name),
            Request::Configure { config } => self.configure(config).map(|()| json!({})),
            _ => Err(refused(EINVAL, "not about plugins")),
        };
        self.reply(reply, result);
    }

    /// `job-manager.jobtap`: remove, then load.
    fn load_and_remove(
        &mut self,
        remove: Option<&str>,
        load: Option<&str>,
        conf: Option<Value>,
    ) -> Result<Value, RequestError> {
        if let Some(pattern) = remove {
            self.remove_plugins(pattern)?;
        }
        if let Some(name) = load {
            // A builtin can be loaded over itself, as in Flux, where it is there twice then.
            if name.starts_with('.') && self.loaded(name).is_ok() {
                return self.reload_plugin(name, conf);
            }
            let key = self.load_named(name, conf)?;
            self.introduce_jobs(key);
        }
        Ok(self.plugin_names())
    }

    fn plugin_names(&self) -> Value {
        let names = self.plugins.stack.plugins().iter().map(|plugin| plugin.listed_as());
        json!({ "plugins": names.collect::<Vec<_>>() })
    }

    fn loaded(&self, name: &str) -> Result<&Rc<Instance>, RequestError> {
        let name = name.strip_suffix(".so").unwrap_or(name);
        let loaded = self.plugins.stack.find(name);
        loaded.ok_or_else(|| refused(ENOENT, format!("{name}: plugin not found")))
    }

    /// Builds the plugin anew in its place. A configuration that it refuses leaves the old one.
    fn reload_plugin(&mut self, name: &str, conf: Option<Value>) -> Result<Value, RequestError> {
        let old = Rc::clone(self.loaded(name)?);
        let listed = old.listed_as();
        let trial =
            self.build(old.descriptor(), listed, conf).map_err(|text| refused(EINVAL, text))?;
        let key = trial.key();
        let old = self.plugins.stack.replace(&old, trial);
        if let Err(text) = self.show_config(key, None) {
            if let Some(refused) = old.and_then(|old| self.plugins.stack.put_back(key, old)) {
                self.drop_plugin(refused);
            }
            return Err(refused(EINVAL, text));
        }
        if let Some(old) = old {
            self.say_goodbye(&old);
            let gone = [(old.key(), std::sync::Arc::clone(old.name()))];
            self.plugins.conducts.remove(&old.key());
            self.drop_plugin(old);
            self.settle_without(&gone, false);
        }
        self.introduce_jobs(key);
        Ok(self.plugin_names())
    }

    /// `job-manager.jobtap-query`.
    fn query_plugin(&mut self, name: &str) -> Result<Value, RequestError> {
        let plugin = Rc::clone(self.loaded(name)?);
        let mut answer = Map::new();
        answer.insert("name".to_owned(), json!(plugin.listed_as()));
        answer.insert("path".to_owned(), json!(path(&plugin)));
        let handlers = self.plugins.stack.handlers(TopicId::PluginQuery);
        let own = |bound: &&Bound| bound.plugin() == plugin.key();
        let Some(bound) = handlers.and_then(|list| list.iter().find(own)).cloned() else {
            return Ok(Value::Object(answer));
        };
        let subject = Subject { topic: TopicId::PluginQuery, job: None, detail: Detail::None };
        let Callback { result, commands, panicked, .. } = self.callback(&bound, subject);
        self.note_panics(panicked);
        self.stack_commands(TopicId::PluginQuery.name(), commands);
        let problem = match result {
            Ok(outcome) => {
                let data = outcome.decisions().query.unwrap_or_default();
                answer.extend(data);
                return Ok(Value::Object(answer));
            }
            Err(Fault::Failure(failure)) => failure.text().to_owned(),
            Err(Fault::Panic(text)) => {
                self.note_panic(plugin.key());
                format!("panicked: {text}")
            }
            Err(Fault::Busy) => "called while it is being called".to_owned(),
        };
        self.log(Level::Error, format!("{name}: plugin.query: {problem}"));
        Err(refused(EINVAL, format!("plugin.query failed: {problem}")))
    }

    /// A new configuration: shown to each plugin in load order. The first refusal ends it, and the
    /// configuration stays as it was; plugins asked before have seen the new one.
    fn configure(&mut self, config: Value) -> Result<(), RequestError> {
        let queues = Queues::read(&config).map_err(|error| refused(EINVAL, error.to_string()))?;
        let lanes =
            Lanes::new(&queues, &self.plugins.registry).map_err(|text| refused(EINVAL, text))?;
        stop_at_restart(&config).map_err(|error| refused(EINVAL, error.0))?;
        let exec = ExecConfig::read(&config).map_err(|text| refused(EINVAL, text))?;
        let ingest = Ingest::read(&config).map_err(|text| refused(EINVAL, text))?;
        let before = std::mem::replace(&mut self.config, config);
        let keys: Vec<_> = self.plugins.stack.plugins().iter().map(|p| p.key()).collect();
        let shown = self
            .read_budget()
            .and_then(|()| self.read_purge_limits())
            .and_then(|()| self.read_nodes())
            .and_then(|()| keys.into_iter().try_for_each(|key| self.show_config(key, None)))
            .and_then(|()| self.load_newly_configured(&before));
        let loaded = match shown {
            Ok(loaded) => loaded,
            Err(text) => {
                self.config = before;
                // It was good before.
                let _ = self.read_budget();
                let _ = self.read_purge_limits();
                let _ = self.read_nodes();
                return Err(refused(EINVAL, text));
            }
        };
        self.ingest = ingest;
        self.queues.reconfigure(queues);
        self.lanes.replace(lanes);
        self.exec = exec;
        self.enqueue_all();
        self.arm_heartbeat();
        loaded.into_iter().for_each(|key| self.introduce_jobs(key));
        Ok(())
    }

    /// `jobtap plugin stats`: what handlers of all plugins, or of one, did so far.
    ///
    /// # Errors
    /// When no plugin of this name is loaded.
    pub fn plugin_stats(
        &self,
        name: Option<&str>,
    ) -> Result<Vec<(String, Vec<HandlerStats>)>, RequestError> {
        let stats = |plugin: &Rc<Instance>| (plugin.name().to_string(), plugin.stats());
        match name {
            Some(name) => Ok(vec![stats(self.loaded(name)?)]),
            None => Ok(self.plugins.stack.plugins().iter().map(stats).collect()),
        }
    }

    /// `jobtap plugin schema`: the JSON Schema of a linked plugin's own configuration; null when it
    /// takes none.
    ///
    /// # Errors
    /// When no plugin of this name is linked.
    pub fn plugin_schema(&self, name: &str) -> Result<Value, RequestError> {
        let name = name.strip_suffix(".so").unwrap_or(name);
        let linked = self.plugins.registry.find(name);
        let linked = linked.ok_or_else(|| {
            refused(ENOENT, format!("{name}: no plugin of this name is linked into this manager"))
        })?;
        Ok((linked.schema)().unwrap_or_default())
    }
}

/// Where a plugin comes from: Flux has the path of a file here.
fn path(plugin: &Instance) -> String {
    if plugin.name().starts_with('.') {
        return "builtin".to_owned();
    }
    let descriptor = plugin.descriptor();
    format!("{} {}", descriptor.crate_name, descriptor.crate_version)
}
