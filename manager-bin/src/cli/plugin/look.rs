//! `plugin list`, `query` and `schema`: what is loaded, and what it tells of itself.

use serde_json::{Value, json};

use super::TOPIC;
use super::names::{Among, explain};
use crate::cli::columns::{Column, Side, table};
use crate::cli::message::CliError;
use crate::cli::session;
use crate::client::Client;

/// Options of `plugin list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Also the builtin ones, whose names begin with a dot
    #[arg(short = 'a', long)]
    all: bool,
    /// With crate, version and state; "faulted" means: out of service after repeated panics
    #[arg(short = 'l', long)]
    long: bool,
}

/// Arguments of `plugin query`.
#[derive(Debug, clap::Args)]
pub(super) struct QueryArgs {
    /// Its name
    #[arg(value_name = "PLUGIN")]
    plugin: String,
}

/// Arguments of `plugin schema`.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// Its name; it need not be loaded
    #[arg(value_name = "PLUGIN")]
    plugin: String,
}

/// Runs `plugin list`.
pub(super) async fn list(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let answer = client.rpc(TOPIC, json!({})).await?;
    let key = if args.long { "details" } else { "plugins" };
    let plugins = answer.get(key).and_then(Value::as_array).into_iter().flatten();
    let name = |plugin: &Value| {
        let name = plugin.get("name").unwrap_or(plugin);
        name.as_str().unwrap_or_default().to_owned()
    };
    let shown = plugins.filter(|plugin| args.all || !name(plugin).starts_with('.'));
    if args.long {
        session::print(&long(shown))?;
    } else {
        session::print(&shown.map(|plugin| name(plugin) + "\n").collect::<String>())?;
    }
    Ok(0)
}

fn long<'a>(plugins: impl Iterator<Item = &'a Value>) -> String {
    let columns = ["PLUGIN", "CRATE", "VERSION", "STATE"].map(|name| Column(name, Side::Left));
    let row = |plugin: &Value| {
        let text = |key: &str| plugin.get(key).and_then(Value::as_str).unwrap_or("-").to_owned();
        let faulted = plugin.get("faulted").and_then(Value::as_bool).unwrap_or(false);
        let state = if faulted { "faulted" } else { "loaded" };
        vec![text("name"), text("crate"), text("version"), state.to_owned()]
    };
    table(&columns, plugins.map(row))
}

/// Runs `plugin query`.
pub(super) async fn query(client: &Client, args: &QueryArgs) -> Result<u8, CliError> {
    let payload = json!({ "name": args.plugin });
    let answer = client.rpc("job-manager.jobtap-query", payload).await?;
    session::print(&format!("{answer}\n"))?;
    Ok(0)
}

/// Runs `plugin schema`.
pub(super) async fn schema(client: &Client, args: &SchemaArgs) -> Result<u8, CliError> {
    let payload = json!({ "name": args.plugin });
    let answer = match client.rpc("job-manager.jobtap-schema", payload).await {
        Ok(answer) => answer,
        Err(error) => return Err(explain(client, error, &args.plugin, Among::Linked).await),
    };
    match answer.get("schema") {
        None | Some(Value::Null) => {
            // On stderr: stdout is for the schema.
            session::note(&format!("{} takes no configuration of its own", args.plugin));
        }
        Some(schema) => session::print(&format!("{schema:#}\n"))?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_list_names_what_is_out_of_service() {
        let plugins = [
            json!({"name": "a", "crate": "site", "version": "1.0.0", "faulted": false}),
            json!({"name": "limits", "crate": "site", "version": "1.0.0", "faulted": true}),
        ];
        assert_eq!(
            long(plugins.iter()),
            "PLUGIN  CRATE  VERSION  STATE\n\
             a       site   1.0.0    loaded\n\
             limits  site   1.0.0    faulted\n"
        );
    }
}
