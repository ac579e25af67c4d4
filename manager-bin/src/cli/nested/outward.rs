//! `--parent` and `--root` in front of a command: the command goes to a manager further out. A script in a job needs
//! this to submit to, or query, the manager of that job.

use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::{Command, ExitCode};

use crate::cli::common::message::{CliError, system_text};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::instance::attr;
use crate::cli::instance::uri::{connect, parent};
use crate::client::Client;
use crate::rpc::uri;

/// The variable with the namespace of the job that the inner manager runs as.
const NAMESPACE: &str = "FLUX_KVS_NAMESPACE";

/// The options in front of a command.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(in crate::cli) struct OutwardArgs {
    /// Go to the manager of the job as which this manager runs, if it runs as one (repeatable)
    #[arg(short = 'p', long, action = clap::ArgAction::Count)]
    parent: u8,
    /// Go to the outermost manager
    #[arg(short = 'r', long)]
    root: bool,
}

impl OutwardArgs {
    /// Whether the command goes to a manager other than the present one.
    pub(in crate::cli) fn is_given(self) -> bool {
        self.parent > 0 || self.root
    }

    /// The maximum number of levels that the command goes up.
    fn levels(self) -> usize {
        if self.root { usize::MAX } else { self.parent.into() }
    }
}

/// Replaces this process with the command of these words, with the address of the manager further out.
pub(in crate::cli) fn run(args: OutwardArgs, words: &[OsString]) -> ExitCode {
    let name = words.first().map(|word| word.to_string_lossy().into_owned()).unwrap_or_default();
    session::run(&name, Family::Compiled, async {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg0(std::env::args_os().next().unwrap_or_default()).args(words);
        if let Some(Outer { address, namespace }) = outer(args.levels()).await? {
            command.env(uri::VARIABLE, &address).env(uri::FLUX_VARIABLE, &address);
            command.env(NAMESPACE, namespace);
        }
        let error = command.exec();
        Err::<u8, _>(CliError::failure(system_text(&error)))
    })
}

/// A manager further out, and the namespace of the job there that leads to the present manager.
struct Outer {
    address: String,
    namespace: String,
}

/// The manager `levels` levels up, or the outermost one. `None` if that is the present one.
async fn outer(levels: usize) -> Result<Option<Outer>, CliError> {
    let mut client = Client::connect().await?;
    let mut found = None;
    for _ in 0..levels {
        let Some(address) = parent(&client).await? else { break };
        let namespace = attr::value(&client, "parent-kvs-namespace".to_owned()).await?;
        client = connect(&address).await?;
        found = Some(Outer { address, namespace });
    }
    Ok(found)
}
