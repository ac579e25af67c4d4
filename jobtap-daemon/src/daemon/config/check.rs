//! Checks a configuration without a running manager: everything that a manager reads when it starts, so that a site
//! finds mistakes before a restart.

use std::path::Path;

use jobtap_core::engine::StartError;
use jobtap_core::host::Ticks;
use jobtap_core::simulation::{self, Setup, Simulator};
use serde_json::Value;

use super::current::remarks;
use super::keys::Judgement;
use super::linked_plugins::LinkedPlugins;
use super::place::{self, Step};
use super::settings::Settings;
use crate::daemon::resources::{self, ResourceError};
use crate::linked::LinkedError;

/// The maximum number of mistakes to find in what the engine reads. Each of them costs a start of an engine.
const MOST: usize = 50;

/// A mistake.
#[derive(Debug, PartialEq, Eq)]
pub struct Finding {
    /// Whether a manager starts despite it.
    pub is_warning: bool,
    /// What is wrong, in the manager's words.
    pub text: String,
    /// The value that the text is about; empty for the whole configuration.
    pub place: Vec<Step>,
}

/// Returns everything that is wrong with a configuration. `directory` contains its files.
pub fn check(config: &Value, directory: Option<&Path>) -> Vec<Finding> {
    let Some(registry) = crate::linked::registry().ok() else {
        return Vec::new();
    };
    let plugins = LinkedPlugins::new(&registry, config);
    let linked = plugins.names();
    let judged = remarks(config, &plugins).into_iter();
    let judged = judged.map(|Judgement { refused, text, place }| Finding {
        is_warning: !refused,
        text,
        place,
    });
    let settings = Settings::problems(config).into_iter();
    let errors = settings.map(|error| found(false, error.to_string(), config));
    let (of_engine, loaded) = of_engine(config.clone(), directory);
    let unused = loaded.into_iter().flat_map(|loaded| unloaded(config, &linked, &loaded));
    let unused = unused.map(|text| found(true, text, config));
    errors.chain(of_engine).chain(judged).chain(unused).collect()
}

/// Returns warnings about the tables of linked plugins that a manager with this configuration doesn't load at its
/// start. A running manager doesn't log them, since its plugins may be loaded by hand.
fn unloaded(config: &Value, linked: &[&str], loaded: &[String]) -> Vec<String> {
    let tables = config.get("plugins").and_then(Value::as_object);
    let tables = tables.into_iter().flatten().map(|(name, _)| name);
    let idle = tables.filter(|name| linked.contains(&name.as_str()) && !loaded.contains(name));
    idle.map(|name| {
        format!(
            "[plugins.{name}]: the plugin isn't loaded at the start, and its table means nothing until it is: add \
             {{ load = \"{name}\" }} to job-manager.plugins"
        )
    })
    .collect()
}

fn found(is_warning: bool, text: String, config: &Value) -> Finding {
    let place = place::locate(&text, config);
    Finding { is_warning, text, place }
}

/// Returns the mistakes in what the engine and the plugins read, and the plugins that the engine has loaded, if it
/// starts. An engine reports only the first mistake, so the value that it names is left out and another engine is
/// started, until one starts or names no further value.
fn of_engine(mut config: Value, directory: Option<&Path>) -> (Vec<Finding>, Option<Vec<String>>) {
    let mut all: Vec<Finding> = Vec::new();
    loop {
        let error = match plugins_of(&config, directory) {
            Ok(loaded) => return (all, Some(loaded)),
            Err(error) => error,
        };
        let finding = found(false, error.to_string(), &config);
        // An error about a required value that was left out here is not a mistake in the configuration.
        let follows = all.iter().any(|earlier| earlier.place.starts_with(&finding.place));
        if follows {
            return (all, None);
        }
        let left_out = place::remove(&mut config, &finding.place);
        // Removing an element would change the indexes in messages about the elements behind it.
        let is_element = matches!(finding.place.last(), Some(Step::Index(_)));
        all.push(finding);
        if !left_out || is_element || all.len() == MOST {
            return (all, None);
        }
    }
}

/// Why an engine doesn't start.
#[derive(Debug, thiserror::Error)]
enum EngineError {
    #[error(transparent)]
    Resources(#[from] ResourceError),
    #[error(transparent)]
    Linked(#[from] LinkedError),
    #[error(transparent)]
    Start(#[from] StartError),
}

/// The plugins that a manager with this configuration loads; none if it doesn't start.
pub(super) fn loaded_by(config: &Value) -> Vec<String> {
    plugins_of(config, None).unwrap_or_default()
}

/// Starts an engine, and returns the names of the plugins that it has loaded.
fn plugins_of(config: &Value, directory: Option<&Path>) -> Result<Vec<String>, EngineError> {
    let resources = resources::configured_set(config)?;
    // Without resources in the configuration, a manager uses those of its host.
    let resources = resources.or_else(|| simulation::machine(1, 1, 0)).unwrap_or_default();
    let registry = crate::linked::registry()?;
    let setup = Setup {
        config: config.clone(),
        config_directory: directory.map(Path::to_owned),
        registry,
        resources,
        ticks: Ticks::default(),
        start: None,
        places: 0,
        queue_wait: Box::new(|| 0.0),
    };
    let simulator = Simulator::new(setup)?;
    let names = simulator.engine().plugins().into_iter().map(|plugin| plugin.name);
    // As in Flux a plugin may be loaded by the name of a file.
    Ok(names.map(|name| name.strip_suffix(".so").map(str::to_owned).unwrap_or(name)).collect())
}

#[cfg(test)]
mod tests {
    // The plugins that are configured here are linked into the tests.
    use jobtap_builtins as _;
    use serde_json::json;

    use super::*;

    fn places(config: &Value) -> Vec<String> {
        let found = check(config, None);
        found.iter().map(|finding| place::show(&finding.place)).collect()
    }

    #[test]
    fn each_mistake_is_found_not_only_the_first() {
        let config = json!({
            "log": {"ring-size": 0},
            "exec": {"kill-timeout": "x"},
            "policy": {"limits": {"duration": "y"}},
            "queues": {"debug": {"require": ["a"]}, "batch": {"requires": 3}},
            "job-manager": {"inactive-age-limt": "1h"},
        });
        assert_eq!(
            places(&config),
            [
                "log.ring-size",
                "exec.kill-timeout",
                "policy.limits.duration",
                "queues.debug.require",
                "queues.batch.requires",
                "job-manager.inactive-age-limt",
            ]
        );
        assert!(check(&config, None).iter().all(|finding| !finding.is_warning));
    }

    #[test]
    fn a_mistake_in_a_table_of_allocations_is_found_at_its_key() {
        let table = |nodes: u32| json!({"engine": "slurm", "cores": 4, "nodes": nodes});
        let named = |nodes| {
            let mut table = table(nodes);
            table["name"] = json!("other");
            table
        };
        assert_eq!(places(&json!({"allocation": [table(1), named(0)]})), ["allocation[1].nodes"]);
        assert_eq!(
            places(&json!({"allocation": [{"engine": "slurm", "core": 4}]})),
            ["allocation[0].core"]
        );
        assert_eq!(places(&json!({"allocation": {"engine": "slurm"}})), ["allocation"]);
        assert_eq!(check(&json!({"allocation": [table(1), named(2)]}), None), []);
        let both = json!({
            "allocation": [table(1)],
            "resource": {"config": [{"hosts": "a[1-2]", "cores": "0"}], "noverify": true},
        });
        assert_eq!(places(&both), ["allocation"]);
    }

    #[test]
    fn what_changes_jobs_and_has_no_effect_is_warned_of_at_its_key() {
        let config = json!({
            "sched-fluxion-resource": {"match-policy": "lonodex"},
            "exec": {"sdexec-properties": {"MemoryMax": "95%"}, "job-shell": "/bin/sh"},
            "job-manager": {"prolog": {"command": ["true"]}},
            "resource": {"scheduling": "file"},
        });
        assert_eq!(
            places(&config),
            [
                "sched-fluxion-resource.match-policy",
                "exec.sdexec-properties",
                "exec.job-shell",
                "job-manager.prolog",
                "resource.scheduling",
            ]
        );
        assert!(check(&config, None).iter().all(|finding| finding.is_warning));
        let loaded = json!({
            "job-manager": {
                "plugins": [{"load": "perilog.so"}],
                "prolog": {"command": ["true"]},
            },
        });
        assert_eq!(check(&loaded, None), []);
    }

    #[test]
    fn a_plugins_mistake_is_found_in_its_table() {
        let config = json!({
            "job-manager": {"plugins": [{"load": "limits"}]},
            "plugins": {"limits": {"foo": 1}},
        });
        assert_eq!(places(&config), ["plugins.limits.foo"]);
        assert_eq!(
            places(&json!({"job-manager": {"plugins": [{"load": "nosuch"}]}})),
            ["job-manager.plugins[0].load"]
        );
    }

    #[test]
    fn a_table_for_a_plugin_that_is_not_loaded_is_found() {
        let table = json!({"fairshare": {}});
        let found = check(&json!({"plugins": table}), None);
        assert_eq!(found.iter().map(|found| found.is_warning).collect::<Vec<_>>(), [true]);
        assert_eq!(
            found.iter().map(|found| place::show(&found.place)).collect::<Vec<_>>(),
            ["plugins.fairshare"]
        );
        for name in ["fairshare", "fairshare.so"] {
            let loaded = json!({"job-manager": {"plugins": [{"load": name}]}, "plugins": table});
            assert_eq!(check(&loaded, None), []);
        }
    }

    #[test]
    fn a_configuration_without_mistakes_has_no_findings() {
        assert_eq!(check(&json!({"queues": {"debug": {}}}), None), []);
        assert_eq!(check(&json!({}), None), []);
    }
}
