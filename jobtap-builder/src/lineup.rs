//! The plugins that the manager will have and their order, known before it is compiled. Refuses two plugins
//! of one name, cycles, and unknown names.

use std::collections::BTreeMap;

use jobtap_core::host::{Placement, arrange};
use jobtap_core::suggest::nearest;
use jobtap_daemon::composition::PluginInfo;
use jobtap_daemon::daemon::config::{merge, to_json};
use serde_json::{Map, Value};

use crate::error::{Kind, LineupError};
use crate::needs::Need;
use crate::plan::Plan;
use crate::resolve::{self, Package, Resolved};
use crate::scan::{self, Declared, Found};

/// A crate with its plugins.
#[derive(Debug)]
pub(crate) struct Member {
    /// The crate's name.
    pub(crate) name: String,
    /// The plugins that its source has with the features that are on.
    pub(crate) plugins: Vec<Declared>,
    /// Its schedulers, likewise.
    pub(crate) schedulers: Vec<Declared>,
    /// What its functions outside of the plugins' own blocks need of the host.
    pub(crate) shared: Vec<Need>,
}

/// The plugins of a manager.
#[derive(Debug)]
pub(crate) struct Lineup {
    pub(crate) members: Vec<Member>,
    /// The plugins' names in the order in which they are called.
    pub(crate) order: Vec<String>,
    /// The configuration from the manifest, which the site's files override.
    pub(crate) config: Value,
}

impl Lineup {
    /// Reads the sources that cargo found.
    pub(crate) fn new(plan: &Plan, resolved: &Resolved) -> Result<Self, LineupError> {
        let mut members = Vec::new();
        if !plan.builtins.is_empty() {
            let (name, mut plugins) = ("jobtap-builtins".to_owned(), plan.builtins.clone());
            // Sorted by name, as in a manager that declares no sequence; in the source they are ordered by
            // folders.
            plugins.sort_by(|one, other| one.name.cmp(&other.name));
            let (schedulers, shared) = Default::default();
            members.push(Member { name, plugins, schedulers, shared });
        }
        for entry in &plan.manifest.plugins {
            let package = resolved.direct(&entry.name);
            let package = package.ok_or_else(|| LineupError::Unknown(entry.name.clone()))?;
            let Found { declared, shared } = compiled(package, resolved)?;
            let (schedulers, plugins) = declared.into_iter().partition(|found| found.scheduler);
            let shared = shared.into_iter().map(|shared| shared.need).collect();
            members.push(Member { name: entry.name.clone(), plugins, schedulers, shared });
        }
        distinct(&members)?;
        let order = order(plan, &members)?;
        let config = config(plan, &members)?;
        Ok(Self { members, order, config })
    }

    /// Returns the schedulers that the binary must have.
    pub(crate) fn schedulers(&self) -> Vec<String> {
        let all = self.members.iter().flat_map(|member| &member.schedulers);
        all.filter(|found| !found.conditional).map(|found| found.name.clone()).collect()
    }

    /// Returns the plugins in the order in which they are called, according to their source.
    pub(crate) fn plugins(&self) -> Vec<PluginInfo> {
        let all =
            || self.members.iter().flat_map(|m| m.plugins.iter().map(|found| (&m.name, found)));
        let named = |name: &String| all().find(|(_, found)| found.name == *name);
        let info = |(crate_name, found): (&String, &Declared)| PluginInfo {
            name: found.name.clone(),
            crate_name: crate_name.clone(),
            topics: found.topics(),
        };
        self.order.iter().filter_map(named).map(info).collect()
    }

    /// Returns the plugins that the binary must have.
    pub(crate) fn required(&self) -> Vec<String> {
        let all = || self.members.iter().flat_map(|member| &member.plugins);
        let sure = |name: &&String| all().any(|found| found.name == **name && !found.conditional);
        self.order.iter().filter(sure).cloned().collect()
    }
}

/// Returns what is compiled of a crate with the features that are on.
fn compiled(package: &Package, resolved: &Resolved) -> Result<Found, LineupError> {
    let on = resolved.features(&package.id);
    let Found { declared: all, mut shared } =
        resolve::library(package).map(scan::library).unwrap_or_default();
    shared.retain(|shared| shared.features.iter().all(|feature| on.contains(feature)));
    let names: Vec<String> = all.iter().map(|found| found.name.clone()).collect();
    let wants = all.iter().flat_map(|found| found.features.clone()).collect::<Vec<_>>();
    let is_on = |found: &Declared| found.features.iter().all(|feature| on.contains(feature));
    let compiled: Vec<Declared> = all.into_iter().filter(is_on).collect();
    match (compiled.is_empty(), names.is_empty()) {
        (false, _) => Ok(Found { declared: compiled, shared }),
        (true, true) => Err(LineupError::NoPlugin(package.name.to_string())),
        (true, false) => Err(LineupError::FeaturesOff {
            crate_name: package.name.to_string(),
            plugins: names,
            features: wants,
        }),
    }
}

fn distinct(members: &[Member]) -> Result<(), LineupError> {
    let mut seen: BTreeMap<(Kind, &str), &str> = BTreeMap::new();
    for member in members {
        let all = member.plugins.iter().chain(&member.schedulers);
        for found in all.filter(|found| !found.conditional) {
            let kind = if found.scheduler { Kind::Scheduler } else { Kind::Plugin };
            if let Some(first) = seen.insert((kind, &found.name), &member.name) {
                return Err(LineupError::SameName {
                    kind,
                    name: found.name.clone(),
                    first: first.to_owned(),
                    second: member.name.clone(),
                });
            }
        }
    }
    Ok(())
}

fn order(plan: &Plan, members: &[Member]) -> Result<Vec<String>, LineupError> {
    let names = || members.iter().flat_map(|m| m.plugins.iter().map(|found| found.name.as_str()));
    let mut places: Vec<Placement<'_>> = Vec::new();
    for member in members {
        let entry = plan.manifest.plugins.iter().find(|entry| entry.name == member.name);
        let texts = |list: &'_ [String]| -> Result<(), LineupError> {
            list.iter().try_for_each(|name| known(&member.name, name, names()))
        };
        if let Some(entry) = entry {
            texts(&entry.before)?;
            texts(&entry.after)?;
        }
        for found in &member.plugins {
            let before = found.before.iter().chain(entry.iter().flat_map(|entry| &entry.before));
            let after = found.after.iter().chain(entry.iter().flat_map(|entry| &entry.after));
            places.push(Placement {
                name: &found.name,
                before: before.map(String::as_str).collect(),
                after: after.map(String::as_str).collect(),
            });
        }
    }
    let others = names().filter(|name| !name.starts_with('.'));
    let sequence: Vec<&str> = builtins(plan)?.into_iter().chain(others).collect();
    let order = arrange(&places, &sequence);
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    order.map(owned).map_err(|names| LineupError::Cycle(owned(names)))
}

/// Returns the SDK's dotted builtins in their order, including those that are left out: many are placed only
/// by the one before them, and would move if that were missing.
fn builtins(plan: &Plan) -> Result<Vec<&str>, LineupError> {
    let dotted = plan.sdk.builtins.iter().filter(|found| found.name.starts_with('.'));
    let places = dotted.map(|found| Placement {
        name: &found.name,
        before: found.before.iter().map(String::as_str).collect(),
        after: found.after.iter().map(String::as_str).collect(),
    });
    let places: Vec<Placement<'_>> = places.collect();
    let owned = |names: Vec<&str>| names.into_iter().map(str::to_owned).collect();
    arrange(&places, &[]).map_err(|names| LineupError::Cycle(owned(names)))
}

/// Refuses an order that names an unknown plugin, which would be ignored silently.
fn known<'a>(
    member: &str,
    name: &str,
    mut names: impl Iterator<Item = &'a str> + Clone,
) -> Result<(), LineupError> {
    let all = names.clone();
    if names.any(|other| other == name) {
        return Ok(());
    }
    let meant = nearest(name, all).map(str::to_owned);
    let (plugin, name) = (member.to_owned(), name.to_owned());
    Err(LineupError::UnknownOrder { plugin, name, meant })
}

fn config(plan: &Plan, members: &[Member]) -> Result<Value, LineupError> {
    let json = |table: &toml::Table| to_json(toml::Value::Table(table.clone()));
    let mut whole = json(&plan.manifest.config);
    for entry in &plan.manifest.plugins {
        let Some(config) = &entry.config else { continue };
        let member = members.iter().find(|member| member.name == entry.name);
        let names: Vec<&str> =
            member.iter().flat_map(|m| m.plugins.iter().map(|found| found.name.as_str())).collect();
        let [name] = names.as_slice() else {
            return Err(LineupError::ManyForConfig {
                crate_name: entry.name.clone(),
                plugins: names.iter().map(|name| (*name).to_owned()).collect(),
            });
        };
        let own = Map::from_iter([((*name).to_owned(), json(config))]);
        let over = Map::from_iter([("plugins".to_owned(), Value::Object(own))]);
        merge(&mut whole, Value::Object(over));
    }
    Ok(whole)
}
