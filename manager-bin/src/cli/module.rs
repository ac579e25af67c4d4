//! `module`: the operations on Flux's modules that this manager supports. Its parts aren't modules: they are
//! restarted together.

use std::process::ExitCode;
use std::time::Duration;

use rustix::process::{Pid, test_kill_process};
use serde_json::Value;

use super::message::CliError;
use super::session;
use super::usage::Family;
use crate::client::Client;
use crate::rpc::services::job_manager::{GetStats, GetUptime, Restart};

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
    /// Restart the manager, whose jobs continue: `module reload job-manager`
    Reload(ReloadArgs),
    /// Print the statistics of a module
    Stats(StatsArgs),
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
    /// Accepted without effect: all modules are loaded
    #[arg(short = 'f', long)]
    force: bool,
    /// Module: job-manager, which restarts the whole manager; nothing is done for other modules
    #[arg(value_name = "MODULE")]
    module: String,
    /// Arguments of the module, which aren't supported
    #[arg(value_name = "ARGS", trailing_var_arg = true)]
    arguments: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: ModuleArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Compiled, async |client| match args.command {
        ModuleCommand::Reload(args) => reload(client, args).await,
        ModuleCommand::Stats(args) => stats(&client, &args).await,
    })
}

async fn stats(client: &Client, args: &StatsArgs) -> Result<u8, CliError> {
    let name = &*args.module;
    if name != MANAGER {
        let text = format!("stats {name}: only {MANAGER} has statistics");
        return Err(CliError::failure(text));
    }
    let all = client.call(GetStats {}).await?;
    let text = match &args.parse {
        None => all.to_string(),
        Some(path) => select(&all, path, args)
            .ok_or_else(|| CliError::failure(format!("stats {name}: there is no number {path}")))?,
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

async fn reload(client: Client, args: ReloadArgs) -> Result<u8, CliError> {
    let name = &*args.module;
    let refuse = |text: &str| Err(CliError::failure(format!("reload {name}: {text}")));
    if !args.arguments.is_empty() {
        return refuse("modules have no arguments: use the configuration");
    }
    match name {
        MANAGER => restart(client).await,
        _ if PARTS.contains(&name) => Ok(0),
        _ => refuse("there is no such module"),
    }
}

/// Requests the restart and waits until the manager responds again.
async fn restart(client: Client) -> Result<u8, CliError> {
    // The manager keeps its process id and its socket, so that only its start time tells the restart.
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
