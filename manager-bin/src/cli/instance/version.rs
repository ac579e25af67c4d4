//! The output of `--version` and of the command `version`. A manager that `jobtap build` has made prints its own
//! name and version, then the version of the SDK.

use std::process::ExitCode;
use std::sync::OnceLock;

use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::attr;
use crate::client::Client;
use crate::composition;
use crate::rpc::uri;

/// Options of `version`.
#[derive(Debug, clap::Args)]
pub(crate) struct VersionArgs {}

/// Runs `version`: prints the versions of the commands and of the manager, which can differ.
pub(crate) fn run(_args: VersionArgs) -> ExitCode {
    session::run("version", Family::Compiled, async {
        session::print(&format!("commands:    \t\t{}\nlibjobtap-core:\t\t{SDK}\n", short()))?;
        let Ok(socket) = Client::socket() else {
            return Ok(0);
        };
        let client = Client::connect_to(&socket).await?;
        let version = attr::value(&client, "version".to_owned()).await?;
        let uri = uri::of_path(&socket);
        session::print(&format!("broker:  \t\t{version}\nFLUX_URI:\t\t{uri}\n"))?;
        Ok(0)
    })
}

/// The version of jobtap with which this program is compiled.
const SDK: &str = env!("CARGO_PKG_VERSION");

/// The name of the program.
pub(in crate::cli) fn name() -> &'static str {
    composition::own().map_or("jobtap", |own| own.name.as_str())
}

/// The output of `-V` after the name.
pub(in crate::cli) fn short() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    match composition::own() {
        Some(own) => TEXT.get_or_init(|| format!("{} (jobtap {SDK})", own.version)),
        None => SDK,
    }
}

/// The output of `--version` after the name, which refers to the list of plugins.
pub(in crate::cli) fn long() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    match composition::own() {
        Some(own) => TEXT
            .get_or_init(|| format!("{}\nplugins: see `{} plugin available`", short(), own.name)),
        None => SDK,
    }
}
