//! `module`: the operations on Flux's modules that this manager supports. Its parts have the names of Flux's
//! modules, but are always loaded and restarted together. Plugins are loaded and removed like modules.

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use serde_json::Value;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::plugin::{self, Among, explain};
use crate::client::Client;
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_manager::{GetStats, GetUptime, Restart};
use crate::rpc::services::plugin::{Jobtap, Loaded, Reload};

const COMMAND: &str = "module";

/// The module whose reload restarts the manager.
const MANAGER: &str = "job-manager";
/// Modules of Flux that are parts of this manager.
const PARTS: &[&str] = &[
    "job-exec",
    "job-info",
    "job-ingest",
    "job-list",
    "kvs",
    "kvs-watch",
    "resource",
    "sched-simple",
];
/// The interval between attempts to connect to the restarting manager.
const RETRY: Duration = Duration::from_millis(20);

/// Arguments of `module`.
#[derive(Debug, clap::Args)]
#[command(infer_long_args = true)]
pub(crate) struct ModuleArgs {
    #[command(subcommand)]
    command: ModuleCommand,
}

#[derive(Debug, clap::Subcommand)]
enum ModuleCommand {
    /// List the parts of the manager and the loaded plugins
    List(ListArgs),
    /// Load a plugin
    Load(LoadArgs),
    /// Remove a plugin
    #[command(alias = "unload")]
    Remove(RemoveArgs),
    /// Reload a plugin, or restart the manager (`job-manager`); jobs keep running
    Reload(ReloadArgs),
    /// Print the statistics of a module
    Stats(StatsArgs),
}

/// Options of `module list`.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Print the file or the crate of each module, too
    #[arg(short = 'l', long)]
    long: bool,
}

/// Arguments of `module load`.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Name of a plugin
    #[arg(value_name = "MODULE")]
    module: String,
    /// Configuration of the plugin; a dotted KEY nests, VAL is JSON or a string
    #[arg(value_name = "KEY=VAL", trailing_var_arg = true)]
    arguments: Vec<String>,
}

/// Options of `module remove`.
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Don't fail if the plugin isn't loaded
    #[arg(short = 'f', long)]
    force: bool,
    /// Accepted without effect: plugins are removed between two requests
    #[arg(long)]
    cancel: bool,
    /// Name of a plugin
    #[arg(value_name = "MODULE")]
    module: String,
}

/// Options of `module stats`.
#[derive(Debug, clap::Args)]
struct StatsArgs {
    /// Print only the value with this dotted name
    #[arg(short = 'p', long, value_name = "OBJ.NAME")]
    parse: Option<String>,
    /// Print the number as int or double
    #[arg(short = 't', long = "type", value_name = "TYPE", value_parser = ["int", "double"])]
    kind: Option<String>,
    /// Multiply the number by this factor
    #[arg(short = 's', long, value_name = "N", default_value_t = 1.0)]
    scale: f64,
    /// Module, which must be job-manager
    #[arg(value_name = "MODULE")]
    module: String,
}

/// Options of `module reload`.
#[derive(Debug, clap::Args)]
struct ReloadArgs {
    /// Load the plugin if it isn't loaded
    #[arg(short = 'f', long)]
    force: bool,
    /// Module: job-manager, which restarts the whole manager; a plugin; nothing is done for other parts
    #[arg(value_name = "MODULE")]
    module: String,
    /// KEY=VAL: configuration of the plugin. Parts of the manager have no arguments
    #[arg(value_name = "ARGS", trailing_var_arg = true)]
    arguments: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: ModuleArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Compiled, async |client| match args.command {
        ModuleCommand::List(args) => list(&client, &args).await,
        ModuleCommand::Load(args) => load(&client, "load", &args.module, &args.arguments).await,
        ModuleCommand::Remove(args) => remove(&client, &args).await,
        ModuleCommand::Reload(args) => reload(client, args).await,
        ModuleCommand::Stats(args) => stats(&client, &args).await,
    })
}

async fn stats(client: &Client, args: &StatsArgs) -> Result<u8, CliError> {
    let name = &*args.module;
    if name != MANAGER {
        let service = format!("{name}.stats-get");
        let text = format!("{service}: No service matching {service} is registered");
        return Err(CliError::failure(text));
    }
    let all = client.call(GetStats {}).await?;
    let text = match &args.parse {
        None => all.to_string(),
        Some(path) => select(&all, path, args)
            .ok_or_else(|| CliError::failure(format!("`{path}' not found in response")))?,
    };
    session::print(&format!("{text}\n"))?;
    Ok(0)
}

/// The text of the value with a dotted name: a number in the requested form, any other value as JSON.
fn select(all: &Value, path: &str, args: &StatsArgs) -> Option<String> {
    let found = path.split('.').try_fold(all, |value, key| value.get(key))?;
    let Some(number) = found.as_f64() else {
        return Some(found.to_string());
    };
    let scaled = number * args.scale;
    Some(match args.kind.as_deref() {
        Some("int") => format!("{:.0}", scaled.trunc()),
        Some(_) => format!("{scaled:.6}"),
        None if args.scale == 1.0 => found.to_string(),
        None => scaled.to_string(),
    })
}

/// Returns true for a part of the manager.
fn is_part(name: &str) -> bool {
    name == MANAGER || PARTS.contains(&name)
}

async fn list(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let parts = PARTS.iter().copied().chain([MANAGER]).map(|name| (name.to_owned(), None));
    let mut modules: Vec<(String, Option<Loaded>)> = parts.collect();
    let plugins = client.call(Jobtap::default()).await?.details;
    modules.extend(plugins.into_iter().map(|plugin| (plugin.name.clone(), Some(plugin))));
    let program = std::env::current_exe()?;
    let mut text = format!("{:<24} {:>4}  S", "Module", "Idle");
    text.push_str(if args.long { " Path\n" } else { " Service\n" });
    for (name, plugin) in modules {
        // The names of builtin plugins begin with a dot, those of their services don't.
        let service = name.trim_start_matches('.');
        let last = match (&plugin, args.long) {
            (None, false) => name.clone(),
            (Some(_), false) => format!("{MANAGER}.{service}"),
            (None, true) => program.display().to_string(),
            (Some(plugin), true) => format!("{} {}", plugin.crate_name, plugin.version),
        };
        // As in Flux, R is for a running module; F for one that is out of service after panics.
        let state = if plugin.is_some_and(|plugin| plugin.faulted) { 'F' } else { 'R' };
        text.push_str(&format!("{name:<24} {:>4}  {state} {last}\n", "-"));
    }
    session::print(&text)?;
    Ok(0)
}

async fn load(
    client: &Client,
    verb: &str,
    name: &str,
    arguments: &[String],
) -> Result<u8, CliError> {
    let fail = |text: String| CliError::failure(format!("{verb} {name}: {text}"));
    if is_part(name) {
        return Err(fail("it is a part of the manager and is always loaded".to_owned()));
    }
    let conf = plugin::conf(arguments).map_err(|error| fail(error.text))?;
    let request = Jobtap { load: Some(name.to_owned()), remove: None, conf };
    match client.call_raw(request).await {
        Ok(_) => Ok(0),
        Err(error) => Err(fail(explain(client, error, name, Among::Linked).await.text)),
    }
}

async fn remove(client: &Client, args: &RemoveArgs) -> Result<u8, CliError> {
    let name = &*args.module;
    let fail = |text: String| CliError::failure(format!("remove {name}: {text}"));
    if is_part(name) {
        return Err(fail("it is a part of the manager, which can't run without it".to_owned()));
    }
    // Patterns are for `plugin remove`.
    let loaded = client.call(Jobtap::default()).await?.plugins;
    let wanted = name.strip_suffix(".so").unwrap_or(name);
    if args.force && !loaded.iter().any(|plugin| plugin == wanted) {
        return Ok(0);
    }
    let request = Jobtap { remove: Some(name.to_owned()), ..Jobtap::default() };
    match client.call_raw(request).await {
        Ok(_) => Ok(0),
        Err(error) => Err(fail(explain(client, error, name, Among::Loaded).await.text)),
    }
}

async fn reload(client: Client, args: ReloadArgs) -> Result<u8, CliError> {
    let name = &*args.module;
    let fail = |text: String| CliError::failure(format!("reload {name}: {text}"));
    if is_part(name) && !args.arguments.is_empty() {
        return Err(fail(
            "parts of the manager have no arguments: use the configuration".to_owned(),
        ));
    }
    match name {
        MANAGER => return restart(client).await,
        _ if is_part(name) => return Ok(0),
        _ => {}
    }
    let conf = plugin::conf(&args.arguments).map_err(|error| fail(error.text))?;
    match client.call(Reload { name: name.to_owned(), conf }).await {
        Ok(_) => Ok(0),
        Err(error) if error.errno == ENOENT && args.force => {
            load(&client, "reload", name, &args.arguments).await
        }
        Err(error) => Err(fail(explain(&client, error, name, Among::Loaded).await.text)),
    }
}

/// Requests the restart and waits until the manager responds again.
async fn restart(client: Client) -> Result<u8, CliError> {
    // The manager keeps its process id and its socket, so only its start time reveals the restart.
    let before = start_time(&client).await;
    let pid = client.call(Restart {}).await?.pid.and_then(Pid::from_raw);
    drop(client);
    loop {
        if let Ok(client) = Client::connect().await
            && let Some(now) = start_time(&client).await
            && Some(now) != before
        {
            return Ok(0);
        }
        if pid.is_none_or(|pid| test_kill_process(pid).is_err()) {
            let text = "reload job-manager: the manager has exited: see its standard error";
            return Err(CliError::failure(text));
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// The time at which the manager was started.
async fn start_time(client: &Client) -> Option<f64> {
    client.call(GetUptime {}).await.ok().map(|uptime| uptime.starttime)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_number_is_selected_by_its_dotted_name() {
        let all = json!({"journal": {"listeners": 2}, "active_jobs": 3});
        let args = |kind: Option<&str>, scale| StatsArgs {
            parse: None,
            kind: kind.map(str::to_owned),
            scale,
            module: MANAGER.to_owned(),
        };
        let select = |path: &str, kind, scale| select(&all, path, &args(kind, scale));
        assert_eq!(select("journal.listeners", None, 1.0).unwrap(), "2");
        assert_eq!(select("active_jobs", Some("int"), 0.5).unwrap(), "1");
        assert_eq!(select("active_jobs", Some("double"), 1.0).unwrap(), "3.000000");
        assert_eq!(select("nosuch", None, 1.0), None);
    }
}
