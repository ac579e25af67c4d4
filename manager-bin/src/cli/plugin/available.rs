//! `plugin available`: prints the plugins and schedulers that are linked into this program, and their origin;
//! or those in a file that `jobtap build` has made for another host.
//!
//! It needs no running manager, so that a site can check a binary before starting it, and a file before a Flux or
//! a Slurm loads it.

use std::path::PathBuf;

use jobtap_core::SDK_VERSION;
use jobtap_core::host::{HostKind, Load, PluginDescriptor};
use jobtap_core::sched::SchedulerDescriptor;
use serde_json::{Value, json};

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::columns::{Column, Side, table};
use crate::composition::{Composition, CompositionError, PluginInfo, own};
use crate::linked;

/// Options of `plugin available`.
#[derive(Debug, clap::Args)]
pub(super) struct AvailableArgs {
    /// A file that `jobtap build` has made: a manager, or a library for another host [default: this program]
    file: Option<PathBuf>,
    /// Print JSON; later versions only add members
    #[arg(long)]
    json: bool,
    /// Print the bill of materials (CycloneDX) of a manager that `jobtap build` has made
    #[arg(long, conflicts_with = "json")]
    sbom: bool,
}

impl From<CompositionError> for CliError {
    fn from(error: CompositionError) -> Self {
        Self::failure(error)
    }
}

/// Runs the command.
pub(super) fn run(args: &AvailableArgs) -> Result<u8, CliError> {
    if let Some(file) = &args.file {
        return inside(&Composition::of_binary(file)?, args);
    }
    let own = own();
    if args.sbom {
        let sbom = own.map(|own| &own.sbom).ok_or_else(|| {
            CliError::failure(
                "this manager was not made by `jobtap build`: it has no bill of materials",
            )
        })?;
        session::print(&format!("{sbom:#}\n"))?;
        return Ok(0);
    }
    let registry = linked::registry().map_err(CliError::failure)?;
    let plugins: Vec<&PluginDescriptor> = registry.plugins().collect();
    if args.json {
        let schedulers: Vec<&SchedulerDescriptor> = registry.schedulers().collect();
        session::print(&format!("{:#}\n", json(&plugins, &schedulers, own)))?;
    } else {
        session::print(&text(&plugins, own))?;
    }
    Ok(0)
}

/// Prints what a file was made of. Its plugins can't be queried, since it isn't loaded.
fn inside(file: &Composition, args: &AvailableArgs) -> Result<u8, CliError> {
    if args.sbom {
        session::print(&format!("{:#}\n", file.sbom))?;
        return Ok(0);
    }
    let host = file.host.map_or(HostKind::Jobtap, |host| host.kind());
    if args.json {
        let plugin = |plugin: &PluginInfo| {
            let origin = file.origin(&plugin.crate_name);
            json!({
                "name": plugin.name,
                "crate": plugin.crate_name,
                "version": version(file, plugin),
                "source": origin.map(|(source, _)| source),
                "checksum": origin.map(|(_, checksum)| format!("sha256:{checksum}")),
                "topics": plugin.topics,
            })
        };
        let value = json!({
            "format": 1,
            "host": host.name(),
            "slurm": file.slurm,
            "manager": about(file),
            "sdk": file.sdk,
            "plugins": file.plugins.iter().map(plugin).collect::<Vec<_>>(),
        });
        session::print(&format!("{value:#}\n"))?;
        return Ok(0);
    }
    let columns = ["PLUGIN", "CRATE", "VERSION", "HOST", "SOURCE", "TOPICS"];
    let columns = columns.map(|name| Column(name, Side::Left));
    let row = |plugin: &PluginInfo| {
        let source = file.origin(&plugin.crate_name).map_or("-", |(source, _)| source);
        vec![
            plugin.name.clone(),
            plugin.crate_name.clone(),
            version(file, plugin).unwrap_or("-").to_owned(),
            match &file.slurm {
                Some(version) => format!("{} {version}", host.name()),
                None => host.name().to_owned(),
            },
            source.to_owned(),
            plugin.topics.join(","),
        ]
    };
    session::print(&table(&columns, file.plugins.iter().map(row)))?;
    Ok(0)
}

/// The version of a plugin's crate; that of the SDK for a builtin.
fn version<'a>(file: &'a Composition, plugin: &PluginInfo) -> Option<&'a str> {
    let info = file.crate_info(&plugin.crate_name);
    info.map(|info| info.version.as_str()).or(Some(&file.sdk))
}

/// A manager or a file as a whole.
fn about(made: &Composition) -> Value {
    json!({
        "name": made.name,
        "version": made.version,
        "target": made.target,
        "profile": made.profile,
        "rustc": made.rustc,
        "sdk-checksum": format!("sha256:{}", made.sdk_checksum),
    })
}

/// The topics of the plugin's handlers, sorted.
fn topics(plugin: &PluginDescriptor) -> Vec<String> {
    let mut topics: Vec<String> =
        plugin.handlers.iter().map(|handler| handler.full_name()).collect();
    topics.sort();
    topics.dedup();
    topics
}

/// Returns `None` for an empty text.
fn non_empty(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn json(
    plugins: &[&PluginDescriptor],
    schedulers: &[&SchedulerDescriptor],
    own: Option<&Composition>,
) -> Value {
    let scheduler = |scheduler: &&SchedulerDescriptor| {
        let origin = own.and_then(|own| own.origin(scheduler.crate_name));
        json!({
            "name": scheduler.name,
            "crate": scheduler.crate_name,
            "version": scheduler.crate_version,
            "source": origin.map(|(source, _)| source),
            "checksum": origin.map(|(_, checksum)| format!("sha256:{checksum}")),
        })
    };
    let plugin = |plugin: &&PluginDescriptor| {
        let origin = own.and_then(|own| own.origin(plugin.crate_name));
        let authors: Vec<&str> =
            plugin.authors.split(':').filter(|name| !name.is_empty()).collect();
        json!({
            "name": plugin.name,
            "crate": plugin.crate_name,
            "version": plugin.crate_version,
            "source": origin.map(|(source, _)| source),
            "checksum": origin.map(|(_, checksum)| format!("sha256:{checksum}")),
            "load": load(plugin),
            "topics": topics(plugin),
            "before": plugin.before,
            "after": plugin.after,
            "authors": authors,
            "license": non_empty(plugin.license),
            "schema": (plugin.schema)(),
        })
    };
    json!({
        "format": 1,
        "manager": own.map(about),
        "sdk": SDK_VERSION,
        "plugins": plugins.iter().map(plugin).collect::<Vec<_>>(),
        "schedulers": schedulers.iter().map(scheduler).collect::<Vec<_>>(),
    })
}

fn load(plugin: &PluginDescriptor) -> &'static str {
    match plugin.load {
        Load::Auto => "auto",
        Load::Last => "last",
        Load::Configured => "configured",
        Load::ByName => "by-name",
    }
}

fn text(plugins: &[&PluginDescriptor], own: Option<&Composition>) -> String {
    let columns = ["PLUGIN", "CRATE", "VERSION", "LOAD", "LICENSE", "SOURCE", "TOPICS"];
    let columns = columns.map(|name| Column(name, Side::Left));
    let row = |plugin: &&PluginDescriptor| {
        let source =
            own.and_then(|own| own.origin(plugin.crate_name)).map_or("-", |(source, _)| source);
        vec![
            plugin.name.to_owned(),
            plugin.crate_name.to_owned(),
            plugin.crate_version.to_owned(),
            load(plugin).to_owned(),
            non_empty(plugin.license).unwrap_or("-").to_owned(),
            source.to_owned(),
            topics(plugin).join(","),
        ]
    };
    table(&columns, plugins.iter().map(row))
}
