//! `job eventlog`: prints an eventlog of a job.

use jobtap_core::eventlog::decode_log;

use super::event_print::FormatArgs;
use super::event_stream::{EventStream, not_found, path_key};
use crate::cli::common::ids::Target;
use crate::cli::common::message::CliError;
use crate::client::Client;
use crate::rpc::services::job_info::Lookup;

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
    let target = Target::parse(&args.id)?;
    let mut printer = args.format.printer()?;
    let key = path_key(&args.path);
    if args.follow {
        let mut events = EventStream::open(client, target.id, key, false).await?;
        while let Some(event) = events.next().await {
            printer.print(&event.map_err(|error| not_found(error, &target.typed, &args.path))?)?;
        }
        return Ok(0);
    }
    let values = client
        .call(Lookup::key(target.id, key))
        .await
        .map_err(|error| not_found(error, &target.typed, &args.path))?;
    for event in decode_log(values.get(key)).map_err(CliError::failure)? {
        printer.print(&event)?;
    }
    Ok(0)
}
