//! `job eventlog`: prints an eventlog of a job.

use super::event_print::FormatArgs;
use super::event_stream::{EventStream, not_found, path_key};
use crate::cli::common::arrays;
use crate::cli::common::message::CliError;
use crate::client::{Client, RpcError};
use crate::rpc::errno::ENOENT;

/// Options and arguments of `job eventlog`.
#[derive(Debug, clap::Args)]
pub(super) struct EventlogArgs {
    #[command(flatten)]
    format: FormatArgs,
    /// Print new events as they are posted, until the end of the eventlog
    #[arg(short = 'F', long)]
    follow: bool,
    /// Eventlog to print: eventlog, exec, output, input or a key
    #[arg(short = 'p', long, value_name = "PATH", default_value = "eventlog")]
    path: String,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &EventlogArgs) -> Result<u8, CliError> {
    let target = arrays::target(&args.id, client).await?;
    let mut printer = args.format.printer()?;
    let key = path_key(&args.path);
    let open = async {
        match args.follow {
            true => EventStream::open(client, target.id, key, false).await,
            false => EventStream::open_stored(client, target.id, key).await,
        }
    };
    let mut events = open.await?;
    let mut printed = false;
    while let Some(event) = events.next().await {
        printer.print(&event.map_err(|error| not_found(error, &target.typed, &args.path))?)?;
        printed = true;
    }
    // A log that exists has an event.
    if !printed && !args.follow {
        let missing = RpcError::new(ENOENT, "");
        return Err(not_found(missing, &target.typed, &args.path));
    }
    Ok(0)
}
