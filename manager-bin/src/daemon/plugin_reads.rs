//! What administrators read about plugins, as it goes over the wire.

use jobtap_core::engine::Engine;
use jobtap_core::host::HandlerStats;
use serde_json::{Value, json};

/// `job-manager.jobtap` without change: names in load order as in Flux, and beside them what each is
/// and what could be loaded.
pub(super) fn list(engine: &Engine, linked: &[&'static str]) -> Value {
    let plugins = engine.plugins();
    let names: Vec<&str> = plugins.iter().map(|plugin| plugin.name.as_str()).collect();
    let details: Value = plugins
        .iter()
        .map(|plugin| {
            json!({
                "name": plugin.name, "crate": plugin.crate_name, "version": plugin.version,
                "faulted": plugin.faulted,
            })
        })
        .collect();
    json!({ "plugins": names, "details": details, "linked": linked })
}

/// `job-manager.jobtap-stats`: times are upper bounds in nanoseconds, null where no call was timed;
/// `histogram` lists how many timed calls took less than that, and as long as half of it at least.
pub(super) fn stats(plugins: Vec<(String, Vec<HandlerStats>)>) -> Value {
    let plugins: Value = plugins
        .into_iter()
        .map(|(name, handlers)| {
            let handlers: Value = handlers.iter().map(handler).collect();
            json!({ "name": name, "handlers": handlers })
        })
        .collect();
    json!({ "plugins": plugins })
}

fn handler(stats: &HandlerStats) -> Value {
    json!({
        "topic": stats.topic, "handler": stats.method, "calls": stats.calls,
        "errors": stats.errors, "panics": stats.panics,
        "p50": stats.quantile(0.5), "p99": stats.quantile(0.99),
        "histogram": stats.histogram().map(|(below, calls)| json!({"below": below, "calls": calls}))
            .collect::<Value>(),
    })
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
        assert_eq!(shown.get("calls"), Some(&json!(2)));
        assert_eq!(shown.get("p50"), Some(&Value::Null));
        one.samples = vec![0, 0, 0, 1];
        assert_eq!(handler(&one).get("p50"), Some(&json!(16)));
    }
}
