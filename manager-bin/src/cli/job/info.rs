//! `job info`: prints the value of one of a job's keys in the store.

use crate::cli::common::arrays;
use crate::cli::common::json::spaced_json;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::{Client, RpcError};
use crate::rpc::errno::ENOENT;
use crate::rpc::services::job_info::{Lookup, Watch};
use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use jobtap_core::job::JobId;
use serde_json::Value;

/// Options and arguments of `job info`.
#[derive(Debug, clap::Args)]
pub(super) struct InfoArgs {
    /// For the key jobspec: print the submitted one, including its environment
    #[arg(short = 'o', long)]
    original: bool,
    /// Print the value as first stored, without later updates
    #[arg(short = 'b', long)]
    base: bool,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
    /// Key: jobspec, R, eventlog, J, guest.exec.eventlog, guest.output or another one
    #[arg(value_name = "KEY")]
    key: String,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &InfoArgs) -> Result<u8, CliError> {
    let target = arrays::target(&args.id, client).await?;
    if ["guest.output", "guest.input"].contains(&args.key.as_str()) {
        return print_log(client, target.id, &args.key).await;
    }
    let original = args.original && args.key == "jobspec";
    let key = if original { "J" } else { &args.key };
    let request = Lookup::key(target.id, key);
    let values = client.call(if args.base { request } else { request.current() }).await?;
    let text = values.get(key);
    let text = if original {
        signed_payload(text).ok_or_else(|| CliError::failure("the stored J is damaged"))?
    } else {
        text.to_owned()
    };
    // As in Flux, which serializes these two again after it has applied the updates of the eventlog; its scheduler
    // writes R in the same form.
    let anew = args.key == "R" || (args.key == "jobspec" && (original || !args.base));
    let text = match anew {
        true => serde_json::from_str(&text).map_or(text, |value: Value| spaced_json(&value)),
        false => text,
    };
    let newline = if text.ends_with('\n') { "" } else { "\n" };
    session::print(&format!("{text}{newline}"))?;
    Ok(0)
}

/// Prints what a log contains now, line by line, since it may be long.
async fn print_log(client: &Client, id: JobId, key: &str) -> Result<u8, CliError> {
    let flags = Watch::INITIAL_SENTINEL;
    let mut lines = client.stream(Watch::new(id, key, flags)).await?;
    let mut found = false;
    while let Some(line) = lines.next().await {
        let line = line?.event;
        // The sentinel, which follows the lines that existed already.
        if line.is_empty() {
            break;
        }
        session::print(&line)?;
        found = true;
    }
    if found { Ok(0) } else { Err(RpcError::new(ENOENT, format!("{key}: key not found")).into()) }
}

/// The jobspec in a signed request, which is stored under the key `J` (RFC 16).
fn signed_payload(token: &str) -> Option<String> {
    let encoded = token.split('.').nth(1)?;
    String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()
}
