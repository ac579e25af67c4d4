//! `plugin` (Flux's `jobtap`): lists, loads and removes the manager's plugins.

use std::process::ExitCode;

use serde_json::{Map, Value, json};

use super::message::CliError;
use super::session;
use super::usage::Family;
use crate::client::{Client, RpcError};
use crate::daemon::config::{merge, nest};
use crate::rpc::errno::ENOENT;

/// Messages carry Flux's name of the command, which scripts look for.
const COMMAND: &str = "jobtap";

const TOPIC: &str = "job-manager.jobtap";

/// Arguments of `plugin`.
#[derive(Debug, clap::Args)]
pub(crate) struct PluginArgs {
    #[command(subcommand)]
    command: PluginCommand,
}

/// One line per subcommand.
#[derive(Debug, clap::Subcommand)]
enum PluginCommand {
    /// List the loaded plugins in their order
    List(ListArgs),
    /// Load a linked plugin
    Load(LoadArgs),
    /// Remove plugins
    Remove(RemoveArgs),
}

/// Options of `plugin list`.
#[derive(Debug, clap::Args)]
struct ListArgs {
    /// Also the builtin ones, whose names begin with a dot
    #[arg(short = 'a', long)]
    all: bool,
}

/// Options and arguments of `plugin load`.
#[derive(Debug, clap::Args)]
struct LoadArgs {
    /// Remove these first: a name, a pattern or "all"
    #[arg(short = 'r', long, value_name = "NAME")]
    remove: Option<String>,
    /// Its name
    #[arg(value_name = "PLUGIN")]
    plugin: String,
    /// Its configuration; a dotted KEY nests, VAL is JSON or a string
    #[arg(value_name = "KEY=VAL")]
    conf: Vec<String>,
}

/// Arguments of `plugin remove`.
#[derive(Debug, clap::Args)]
struct RemoveArgs {
    /// A name, a pattern or "all"
    #[arg(value_name = "NAME")]
    name: String,
}

/// Runs the command.
pub(crate) fn run(args: PluginArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async |client| match args.command {
        PluginCommand::List(args) => list(&client, &args).await,
        PluginCommand::Load(args) => load(&client, &args).await,
        PluginCommand::Remove(args) => remove(&client, &args).await,
    })
}

async fn list(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let answer = client.rpc(TOPIC, json!({})).await?;
    let names = answer.get("plugins").and_then(Value::as_array).into_iter().flatten();
    for name in names.filter_map(Value::as_str) {
        if args.all || !name.starts_with('.') {
            session::print(&format!("{name}\n"))?;
        }
    }
    Ok(0)
}

async fn load(client: &Client, args: &LoadArgs) -> Result<u8, CliError> {
    let conf = conf(&args.conf)?;
    let payload = json!({ "load": args.plugin, "remove": args.remove, "conf": conf });
    client.rpc(TOPIC, payload).await.map_err(|error| explain(error, &args.plugin))?;
    Ok(0)
}

async fn remove(client: &Client, args: &RemoveArgs) -> Result<u8, CliError> {
    let payload = json!({ "remove": args.name });
    client.rpc(TOPIC, payload).await.map_err(|error| explain(error, &args.name))?;
    Ok(0)
}

fn explain(error: RpcError, name: &str) -> CliError {
    if error.errno == ENOENT {
        CliError::failure(format!("{name} not found"))
    } else {
        error.into()
    }
}

/// The configuration that the arguments make; `None` without any.
fn conf(settings: &[String]) -> Result<Option<Value>, CliError> {
    if settings.is_empty() {
        return Ok(None);
    }
    let mut whole = Value::Object(Map::new());
    for setting in settings {
        let missing = || {
            let key = setting.split('=').next().unwrap_or_default();
            CliError::failure(format!("Missing required value for key {key}"))
        };
        let (key, text) = setting.split_once('=').ok_or_else(missing)?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        merge(&mut whole, nest(key, value).ok_or_else(missing)?);
    }
    Ok(Some(whole))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]
    use super::*;

    #[test]
    fn settings_nest_and_are_json_or_text() {
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
