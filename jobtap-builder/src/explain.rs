//! Why a manager has its plugins, and why they have their order.

use std::path::Path;

use jobtap_daemon::composition::Composition;
use jobtap_daemon::files;

use crate::error::{BuildError, PlaceError};
use crate::manifest::{Manifest, PluginEntry};
use crate::pipeline::{self, Options};
use crate::scan::Declared;

/// A plugin of a manager that may be built.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Explained {
    /// Its name.
    pub name: String,
    /// Its crate.
    pub crate_name: String,
    /// The crate's version.
    pub version: String,
    /// The crate's source, as in [`CrateInfo`](crate::CrateInfo).
    pub source: String,
    /// Why it is linked, and why at that place of the order.
    pub reasons: Vec<String>,
}

/// What is known of a manager before it is compiled.
#[derive(Debug, Clone)]
pub struct Explanation {
    /// Its plugins in the order in which they are called.
    pub plugins: Vec<Explained>,
    /// The builtins that it leaves out.
    pub left_out: Vec<String>,
    /// What the manager would be made of.
    pub composition: Composition,
}

/// Explains what [`build`](crate::build) would make, without compiling anything.
///
/// ```no_run
/// use jobtap_builder::{Manifest, Options, explain};
///
/// let manifest = Manifest::read("jobtap-build.toml".as_ref())?;
/// let options = Options { base: ".".into(), ..Options::default() };
/// for plugin in explain(&manifest, &options)?.plugins {
///     println!("{}: {}", plugin.name, plugin.reasons.join("; "));
/// }
/// # Ok::<(), jobtap_builder::BuildError>(())
/// ```
///
/// # Errors
/// As [`build`](crate::build), before compiling.
pub fn explain(manifest: &Manifest, options: &Options) -> Result<Explanation, BuildError> {
    let prepared = pipeline::prepare(manifest, options)?;
    let (plan, composition) = (&prepared.plan, prepared.composition);
    let mut plugins = Vec::new();
    for name in &composition.order {
        let owner = prepared.lineup.members.iter().find_map(|member| {
            let found = member.plugins.iter().find(|found| found.name == *name)?;
            Some((&member.name, found))
        });
        let Some((crate_name, found)) = owner else { continue };
        let entry = manifest.plugins.iter().find(|entry| entry.name == *crate_name);
        let info = composition.crate_info(crate_name);
        plugins.push(Explained {
            name: name.clone(),
            crate_name: crate_name.clone(),
            version: info.map(|info| info.version.clone()).unwrap_or_default(),
            source: info.map(|info| info.source.clone()).unwrap_or_default(),
            reasons: reasons(found, entry, &composition.order),
        });
    }
    let linked = |found: &&Declared| !composition.order.contains(&found.name);
    let left_out = plan.sdk.builtins.iter().filter(linked).map(|found| found.name.clone());
    Ok(Explanation { left_out: left_out.collect(), plugins, composition })
}

fn reasons(found: &Declared, entry: Option<&PluginEntry>, order: &[String]) -> Vec<String> {
    let mut reasons = Vec::new();
    match entry {
        None if found.name.starts_with('.') => {
            reasons.push("builtin: before all plugins of other crates".to_owned());
        }
        None => reasons.push("builtin".to_owned()),
        Some(entry) => reasons.push(format!("asked for by [[plugin]] {:?}", entry.name)),
    }
    if found.conditional {
        reasons
            .push("compiled only under a condition, #[cfg(..)], which the compiler knows".into());
    }
    let here = |name: &&String| order.contains(name);
    let mut declared = |list: &[String], relation: &str, whose: &str| {
        for name in list.iter().filter(here) {
            reasons.push(format!("{relation} {name}: {whose} says so"));
        }
    };
    declared(&found.before, "before", "its #[jobtap_plugin]");
    declared(&found.after, "after", "its #[jobtap_plugin]");
    if let Some(entry) = entry {
        declared(&entry.before, "before", "the manifest");
        declared(&entry.after, "after", "the manifest");
        reasons.push("else by its place in the manifest".into());
    }
    reasons
}

/// Writes the manifest and the lock that a manager made by `jobtap build` contains.
///
/// ```no_run
/// use jobtap_builder::recover;
///
/// recover("site-manager".as_ref(), "jobtap-build.toml".as_ref())?;
/// # Ok::<(), jobtap_builder::BuildError>(())
/// ```
///
/// # Errors
/// When the binary is not a manager made by `jobtap build`, or a file exists already or can't be written.
pub fn recover(binary: &Path, manifest: &Path) -> Result<(), BuildError> {
    let composition = Composition::of_binary(binary)?;
    let lock = manifest.with_extension("lock");
    let files = [(manifest, &composition.manifest), (lock.as_path(), &composition.lock)];
    if let Some((file, _)) = files.iter().find(|(file, _)| is_there(file)) {
        return Err(PlaceError::NotRecovered(file.to_path_buf()).into());
    }
    for (file, text) in files {
        files::create_new(file, text.as_bytes()).map_err(BuildError::file(file))?;
    }
    Ok(())
}

/// Returns whether the path exists, even if only as a dangling link.
fn is_there(file: &Path) -> bool {
    std::fs::symlink_metadata(file).is_ok()
}
