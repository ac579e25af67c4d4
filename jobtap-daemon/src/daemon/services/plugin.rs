//! `job-manager.jobtap*`, about plugins, and the services of plugins themselves.

use std::collections::BTreeMap;
use std::sync::Arc;

use jobtap_core::engine::{Engine, PluginStatus, Request, ShadowRequest};
use jobtap_core::host::HandlerStats;
use jobtap_core::job::JobId;
use serde_json::Value;

use super::handle::{Context, Decoded, Handle, PendingResponse};
use crate::daemon::audit::Change;
use crate::daemon::plugin_threads::blocking::ThreadUse;
use crate::rpc::RpcError;
use crate::rpc::errno::EINVAL;
use crate::rpc::service::Service;
use crate::rpc::services::plugin::{
    Bucket, Demote, GetSchema, GetShadow, GetStats, Handler, HousekeepingKill, Jobtap, LoadShadow,
    Loaded, PluginStats, Plugins, Promote, Query, QueryShadow, Reload, RemoveShadow, Schema, Stats,
    Threads,
};

impl Handle for Jobtap {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { load, remove, conf } = self;
        if load.is_none() && remove.is_none() {
            let linked = context.parts.configuration.linked.clone();
            let uses = context.parts.thread_uses.clone();
            return context
                .read_as::<Self, _>(move |engine| Ok(list(engine, &linked, &uses.by_plugin())));
        }
        Ok(PendingResponse::FromEngine(Request::Plugins { remove, load, conf }))
    }
}

/// The loaded plugins, and which ones are linked.
fn list(engine: &Engine, linked: &[&'static str], uses: &BTreeMap<Arc<str>, ThreadUse>) -> Plugins {
    let loaded = |plugin: PluginStatus| Loaded {
        given_up: uses.get(&*plugin.name).map_or(0, |used| used.given_up),
        name: plugin.name,
        crate_name: plugin.crate_name.to_owned(),
        version: plugin.version.to_owned(),
        faulted: plugin.faulted,
    };
    let details: Vec<Loaded> = engine.plugins().into_iter().map(loaded).collect();
    Plugins {
        plugins: details.iter().map(|plugin| plugin.name.clone()).collect(),
        details,
        linked: linked.iter().map(|name| (*name).to_owned()).collect(),
        shadows: engine.shadows().into_iter().map(loaded).collect(),
    }
}

impl Handle for Reload {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { name, conf } = self;
        if conf.as_ref().is_some_and(|conf| !conf.is_object()) {
            return Err(RpcError::new(EINVAL, "jobptap: plugin conf must be a JSON object"));
        }
        Ok(PendingResponse::FromEngine(Request::PluginReload { name, conf }))
    }
}

impl Handle for GetShadow {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read_as::<Self, _>(move |engine| engine.shadow_report(&self.name))
    }
}

impl Handle for LoadShadow {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { name, conf } = self;
        Ok(PendingResponse::FromEngine(Request::Shadow(ShadowRequest::Load { name, conf })))
    }
}

impl Handle for RemoveShadow {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let request = ShadowRequest::Remove { name: self.name };
        Ok(PendingResponse::FromEngine(Request::Shadow(request)))
    }
}

impl Handle for QueryShadow {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let request = ShadowRequest::Query { name: self.name };
        Ok(PendingResponse::FromEngine(Request::Shadow(request)))
    }
}

impl Handle for Promote {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let request = ShadowRequest::Promote { name: self.name };
        Ok(PendingResponse::FromEngine(Request::Shadow(request)))
    }
}

impl Handle for Demote {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let request = ShadowRequest::Demote { name: self.name };
        Ok(PendingResponse::FromEngine(Request::Shadow(request)))
    }
}

impl Handle for Query {
    fn handle(self, _: &Context<'_>) -> Result<PendingResponse, RpcError> {
        Ok(PendingResponse::FromEngine(Request::PluginQuery { name: self.name }))
    }
}

impl Handle for GetStats {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let uses = context.parts.thread_uses.clone();
        context.read_as::<Self, _>(move |engine| {
            let uses = uses.by_plugin();
            let plugins = engine.plugin_stats(self.name.as_deref())?.into_iter();
            let plugins = plugins.map(|(name, handlers)| PluginStats {
                threads: uses.get(&*name).map(threads).unwrap_or_default(),
                handlers: handlers.iter().map(handler).collect(),
                name,
            });
            Ok(Stats { plugins: plugins.collect() })
        })
    }
}

fn threads(used: &ThreadUse) -> Threads {
    let ThreadUse { running, waiting, given_up } = *used;
    Threads { running, waiting, given_up }
}

fn handler(stats: &HandlerStats) -> Handler {
    let histogram = stats.histogram().map(|(below, calls)| Bucket { below, calls: calls.into() });
    Handler {
        topic: stats.topic.clone(),
        handler: stats.method.to_owned(),
        calls: stats.calls,
        errors: stats.errors,
        panics: stats.panics,
        p50: stats.quantile(0.5),
        p99: stats.quantile(0.99),
        histogram: histogram.collect(),
    }
}

impl Handle for GetSchema {
    fn handle(self, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        context.read_as::<Self, _>(move |engine| {
            let schema = engine.plugin_schema(&self.name)?;
            Ok(Schema { schema: Some(schema) })
        })
    }
}

/// A request that a plugin decodes and responds to.
pub(super) struct Forwarded {
    topic: String,
    payload: Value,
    job: Option<JobId>,
}

impl Forwarded {
    /// A request with this payload. `job`: the job that it is about, as far as the manager knows.
    pub(super) fn new(topic: &str, payload: Value, job: Option<JobId>) -> Self {
        // `housekeeping-kill` is Flux's name; here a plugin's method has a dot before it.
        let topic =
            if topic == HousekeepingKill::TOPIC { "job-manager.housekeeping.kill" } else { topic };
        Self { topic: topic.to_owned(), payload, job }
    }
}

impl Decoded for Forwarded {
    fn job(&self) -> Option<JobId> {
        self.job
    }

    fn change(&self) -> Option<Change> {
        None
    }

    fn handle(self: Box<Self>, context: &Context<'_>) -> Result<PendingResponse, RpcError> {
        let Self { topic, payload, .. } = *self;
        let streaming = context.streaming;
        let request = Request::Service { topic, payload, streaming };
        if streaming {
            return Ok(PendingResponse::EngineStream(context.engine.stream(context.cred, request)));
        }
        context.wait(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handler_that_was_never_timed_has_no_times() {
        let mut one = HandlerStats {
            topic: "job.new".to_owned(),
            method: "seen",
            calls: 2,
            errors: 1,
            panics: 0,
            samples: vec![0; 40],
        };
        let shown = handler(&one);
        assert_eq!((shown.calls, shown.p50), (2, None));
        one.samples = vec![0, 0, 0, 1];
        assert_eq!(handler(&one).p50, Some(16));
    }
}
