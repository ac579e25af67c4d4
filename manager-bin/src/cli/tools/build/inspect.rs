//! `build diff` and `build explain`: compare managers, and show what would be built.

use std::path::PathBuf;

use jobtap_builder::{Composition, Explained};

use super::source::{ProcessArgs, SourceArgs, read};
use crate::cli::common::message::CliError;
use crate::cli::common::session;

/// Options and arguments of `build diff`.
#[derive(Debug, clap::Args)]
pub(super) struct DiffArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    process: ProcessArgs,
    /// Manager that `jobtap build` has made
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// Manager to compare with; by default what would be built now
    #[arg(value_name = "NEW")]
    new: Option<PathBuf>,
}

/// Options and arguments of `build explain`.
#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    process: ProcessArgs,
    /// Explain only this plugin
    #[arg(value_name = "PLUGIN")]
    plugin: Option<String>,
}

/// Runs `build diff`. As with diff(1), the exit code is 1 if there are differences.
pub(super) fn diff(args: &DiffArgs) -> Result<u8, CliError> {
    let old = Composition::of_binary(&args.old)?;
    let new = match &args.new {
        Some(new) => Composition::of_binary(new)?,
        None => {
            let (manifest, options) = read(&args.source, &args.process)?;
            jobtap_builder::explain(&manifest, &options)?.composition
        }
    };
    let lines = jobtap_builder::differences(&old, &new);
    session::print(&lines.iter().map(|line| format!("{line}\n")).collect::<String>())?;
    Ok(u8::from(!lines.is_empty()))
}

/// Runs `build explain`.
pub(super) fn explain(args: &ExplainArgs) -> Result<u8, CliError> {
    let (manifest, options) = read(&args.source, &args.process)?;
    let all = jobtap_builder::explain(&manifest, &options)?;
    let selected =
        |plugin: &&Explained| args.plugin.as_ref().is_none_or(|name| plugin.name == *name);
    let plugins: Vec<&Explained> = all.plugins.iter().filter(selected).collect();
    let left_out: Vec<&String> = match &args.plugin {
        Some(name) => all.left_out.iter().filter(|left| *left == name).collect(),
        None => all.left_out.iter().collect(),
    };
    if let Some(name) = args.plugin.as_ref().filter(|_| plugins.is_empty() && left_out.is_empty()) {
        return Err(CliError::failure(format!(
            "this manager would have no plugin {name:?}; `build explain` shows all"
        )));
    }
    let mut text = String::new();
    for plugin in plugins {
        let Explained { name, crate_name, version, source, reasons } = plugin;
        text.push_str(&format!("{name} ({crate_name} {version}, {source})\n"));
        for reason in reasons {
            text.push_str(&format!("    {reason}\n"));
        }
    }
    for name in left_out {
        text.push_str(&format!("{name} is left out: [manager] of the manifest says so\n"));
    }
    session::print(&text)?;
    Ok(0)
}
