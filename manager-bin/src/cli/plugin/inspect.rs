//! `plugin list`, `plugin query` and `plugin schema`: print the loaded plugins, the data of a plugin, and the
//! schema of a plugin's configuration.

use super::unknown::{Among, explain};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;
use crate::columns::{Column, Side, table};
use crate::rpc::services::plugin::{GetSchema, Jobtap, Loaded, Plugins, Query, QueryShadow};

/// Options of `plugin list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// List builtin plugins as well, whose names begin with a dot
    #[arg(short = 'a', long)]
    all: bool,
    /// Show crate, version and state; a plugin that panics repeatedly is "faulted" and not called any more, and
    /// a "shadow" decides nothing
    #[arg(short = 'l', long)]
    long: bool,
}

/// Arguments of `plugin query`.
#[derive(Debug, clap::Args)]
pub(super) struct QueryArgs {
    /// Query the shadow of this name
    #[arg(long)]
    shadow: bool,
    /// Name of the plugin
    #[arg(value_name = "PLUGIN")]
    plugin: String,
}

/// Arguments of `plugin schema`.
#[derive(Debug, clap::Args)]
pub(super) struct SchemaArgs {
    /// Name of the plugin, which doesn't have to be loaded
    #[arg(value_name = "PLUGIN")]
    plugin: String,
}

/// Runs `plugin list`.
pub(super) async fn list(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let Plugins { details, shadows, .. } = client.call(Jobtap::default()).await?;
    let is_shown = |plugin: &&Loaded| args.all || !plugin.name.starts_with('.');
    let shown = details.iter().filter(is_shown);
    let shadows = shadows.iter().filter(is_shown);
    if args.long {
        session::print(&long(shown, shadows))?;
    } else {
        let live = shown.map(|plugin| format!("{}\n", plugin.name));
        let shadows = shadows.map(|plugin| format!("{} (shadow)\n", plugin.name));
        session::print(&live.chain(shadows).collect::<String>())?;
    }
    Ok(0)
}

fn long<'a>(
    plugins: impl Iterator<Item = &'a Loaded>,
    shadows: impl Iterator<Item = &'a Loaded>,
) -> String {
    let columns = ["PLUGIN", "CRATE", "VERSION", "STATE"].map(|name| Column(name, Side::Left));
    let row = |(plugin, good, bad): (&Loaded, &str, &str)| {
        let state = if plugin.faulted { bad } else { good };
        let Loaded { name, crate_name, version, given_up, .. } = plugin;
        let state = match given_up {
            0 => state.to_owned(),
            1 => format!("{state}, 1 thread given up"),
            count => format!("{state}, {count} threads given up"),
        };
        vec![name.clone(), crate_name.clone(), version.clone(), state]
    };
    let plugins = plugins.map(|plugin| (plugin, "loaded", "faulted"));
    let shadows = shadows.map(|plugin| (plugin, "shadow", "shadow, stopped"));
    table(&columns, plugins.chain(shadows).map(row))
}

/// Runs `plugin query`.
pub(super) async fn query(client: &Client, args: &QueryArgs) -> Result<u8, CliError> {
    let name = args.plugin.clone();
    let response = match args.shadow {
        true => client.call(QueryShadow { name }).await?,
        false => client.call(Query { name }).await?,
    };
    session::print(&format!("{response}\n"))?;
    Ok(0)
}

/// Runs `plugin schema`.
pub(super) async fn schema(client: &Client, args: &SchemaArgs) -> Result<u8, CliError> {
    let response = match client.call(GetSchema { name: args.plugin.clone() }).await {
        Ok(response) => response,
        Err(error) => return Err(explain(client, error, &args.plugin, Among::Linked).await),
    };
    match response.schema {
        None => {
            // Printed to standard error: a program that reads standard output expects a schema.
            session::print_message(&format!("{} takes no configuration of its own", args.plugin));
        }
        Some(schema) => session::print(&format!("{schema:#}\n"))?,
    }
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_long_list_shows_faulted_plugins() {
        let loaded = |name: &str, faulted| Loaded {
            name: name.to_owned(),
            crate_name: "site".to_owned(),
            version: "1.0.0".to_owned(),
            faulted,
            given_up: 0,
        };
        let lua = Loaded { given_up: 2, ..loaded("lua", false) };
        let plugins = [loaded("a", false), loaded("limits", true), lua];
        let shadows = [loaded("a", false), loaded("limits", true)];
        assert_eq!(
            long(plugins.iter(), shadows.iter()),
            "PLUGIN  CRATE  VERSION  STATE\n\
             a       site   1.0.0    loaded\n\
             limits  site   1.0.0    faulted\n\
             lua     site   1.0.0    loaded, 2 threads given up\n\
             a       site   1.0.0    shadow\n\
             limits  site   1.0.0    shadow, stopped\n"
        );
    }
}
