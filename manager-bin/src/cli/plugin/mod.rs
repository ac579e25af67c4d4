//! `plugin` (Flux's `jobtap`): lists, loads, removes, reloads and queries the manager's plugins and shadows.

mod available;
mod call;
mod inspect;
mod shadow;
mod stats;
mod unknown;

use std::process::ExitCode;

use serde_json::{Map, Value};

use super::common::message::{CliError, Prog};
use super::common::session;
use super::common::usage::Family;
use crate::client::Client;
use crate::daemon::config::{merge, nest};
use crate::rpc::services::plugin::{Jobtap, LoadShadow, Reload, RemoveShadow};
pub(super) use unknown::{Among, explain};

/// The name of the command in messages. In a program called `flux` it is Flux's, since scripts search for it; in
/// `jobtap`, messages would say that name twice.
fn command() -> &'static str {
    match Prog::current().is_flux() {
        true => "jobtap",
        false => "plugin",
    }
}

/// Arguments of `plugin`.
#[derive(Debug, clap::Args)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum PluginCommand {
    /// List the loaded plugins in the order in which they are called
    List(inspect::ListArgs),
    /// List the plugins that are linked into this program; needs no manager
    Available(available::AvailableArgs),
    /// Load a linked plugin
    Load(LoadArgs),
    /// Remove loaded plugins
    Remove(RemoveArgs),
    /// Give a loaded plugin a new configuration; its data about jobs remains
    Reload(ReloadArgs),
    /// Show what a shadow would have done otherwise than the live plugins
    Shadow(shadow::ShadowArgs),
    /// Put a shadow live, in the place of the live plugin of its name
    Promote(shadow::NameArgs),
    /// Make a live plugin a shadow; what its promotion replaced is live again
    Demote(shadow::NameArgs),
    /// Show the data that a plugin offers for queries
    Query(inspect::QueryArgs),
    /// Show calls, errors, panics and times of handlers since their plugin was loaded
    Stats(stats::StatsArgs),
    /// Show the JSON Schema of a plugin's configuration
    Schema(inspect::SchemaArgs),
    /// Send a request to a plugin's service
    Call(call::CallArgs),
}

/// Options and arguments of `plugin load`.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Remove plugins first: a name, a pattern or "all"
    #[arg(short = 'r', long, value_name = "NAME")]
    remove: Option<String>,
    /// Load it as a shadow: called beside the live plugins, compared with them, and deciding nothing
    #[arg(long, conflicts_with = "remove")]
    shadow: bool,
    /// Name of the plugin
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// Configuration; a dotted KEY nests, VAL is JSON or a string
    #[arg(value_name = "KEY=VAL")]
    conf: Vec<String>,
}

/// Arguments of `plugin remove`.
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// Remove the shadow of this name
    #[arg(long)]
    shadow: bool,
    /// Name, pattern or "all"
    #[arg(value_name = "PLUGIN")]
    name: String,
}

/// Arguments of `plugin reload`.
#[derive(Debug, clap::Args)]
struct ReloadArgs {
    /// Name of the plugin
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// New configuration [default: that of the manager's configuration file]
    #[arg(value_name = "KEY=VAL")]
    conf: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: PluginArgs) -> ExitCode {
    if let PluginCommand::Available(args) = &args.command {
        let code = available::run(args);
        return session::run(command(), Family::Script, async { code });
    }
    session::with_manager(command(), Family::Script, async |client| match args.command {
        PluginCommand::Available(args) => available::run(&args),
        PluginCommand::List(args) => inspect::list(&client, &args).await,
        PluginCommand::Load(args) => load(&client, &args).await,
        PluginCommand::Remove(args) => remove(&client, &args).await,
        PluginCommand::Reload(args) => reload(&client, &args).await,
        PluginCommand::Shadow(args) => shadow::show(&client, &args).await,
        PluginCommand::Promote(args) => shadow::promote(&client, &args).await,
        PluginCommand::Demote(args) => shadow::demote(&client, &args).await,
        PluginCommand::Query(args) => inspect::query(&client, &args).await,
        PluginCommand::Stats(args) => stats::run(&client, &args).await,
        PluginCommand::Schema(args) => inspect::schema(&client, &args).await,
        PluginCommand::Call(args) => call::run(&client, &args).await,
    })
}

async fn load(client: &Client, args: &LoadArgs) -> Result<u8, CliError> {
    if args.shadow {
        let request = LoadShadow { name: args.plugin.clone(), conf: conf(&args.conf)? };
        return match client.call(request).await {
            Ok(_) => Ok(0),
            Err(error) => Err(explain(client, error, &args.plugin, Among::Linked).await),
        };
    }
    // One request for both: no job can be submitted while neither plugin is loaded.
    let (load, remove) = (Some(args.plugin.clone()), args.remove.clone());
    let request = Jobtap { load, remove, conf: conf(&args.conf)? };
    let Err(error) = client.call_raw(request).await else {
        return Ok(0);
    };
    // As in Flux, the message names this plugin even if it was `--remove` that matched nothing.
    Err(explain(client, error, &args.plugin, Among::Linked).await)
}

async fn remove(client: &Client, args: &RemoveArgs) -> Result<u8, CliError> {
    if args.shadow {
        client.call(RemoveShadow { name: args.name.clone() }).await?;
        return Ok(0);
    }
    let request = Jobtap { remove: Some(args.name.clone()), ..Jobtap::default() };
    match client.call_raw(request).await {
        Ok(_) => Ok(0),
        Err(error) => Err(explain(client, error, &args.name, Among::Loaded).await),
    }
}

async fn reload(client: &Client, args: &ReloadArgs) -> Result<u8, CliError> {
    let request = Reload { name: args.plugin.clone(), conf: conf(&args.conf)? };
    match client.call(request).await {
        Ok(_) => Ok(0),
        Err(error) => Err(explain(client, error, &args.plugin, Among::Loaded).await),
    }
}

/// The configuration in the arguments. `None` without arguments, which means the configured one.
pub(super) fn conf(settings: &[String]) -> Result<Option<Value>, CliError> {
    if settings.is_empty() {
        return Ok(None);
    }
    let mut conf = Value::Object(Map::new());
    for setting in settings {
        let missing = || {
            let key = setting.split('=').next().unwrap_or_default();
            CliError::failure(format!("Missing required value for key {key}"))
        };
        let (key, text) = setting.split_once('=').ok_or_else(missing)?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        merge(&mut conf, nest(key, value).ok_or_else(missing)?);
    }
    Ok(Some(conf))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn dotted_keys_nest_and_values_are_json_or_strings() {
        let settings = ["foo.test=1", "foo.name=x", "level=[1]"].map(str::to_owned);
        assert_eq!(
            conf(&settings).unwrap().unwrap(),
            json!({"foo": {"test": 1, "name": "x"}, "level": [1]})
        );
        assert_eq!(conf(&[]).unwrap(), None);
        let error = conf(&["level".to_owned()]).unwrap_err();
        assert_eq!(error.text, "Missing required value for key level");
    }
}
