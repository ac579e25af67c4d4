//! `post-job-event`: posts an event to the eventlog of a job, with the builtin plugin `.post-event`.

use std::process::ExitCode;

use jobtap_core::job::JobId;
use serde_json::{Map, Value};

use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;
use crate::client::RpcError;
use crate::daemon::config::{merge, nest};
use crate::rpc::errno::ENOENT;
use crate::rpc::services::plugin::PostEvent;

/// The name of the command in messages: Flux's, since scripts look for it.
const COMMAND: &str = "job-post-event";

/// Arguments of `post-job-event`.
#[derive(Debug, clap::Args)]
pub(crate) struct PostEventArgs {
    /// Job id
    #[arg(value_name = "JOBID")]
    id: String,
    /// Name of the event
    #[arg(value_name = "NAME")]
    name: String,
    /// Context of the event; a dotted KEY nests, VAL is JSON or a string
    #[arg(value_name = "KEY=VAL")]
    context: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: PostEventArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Script, async move |client| {
        let id: JobId = args
            .id
            .parse()
            .map_err(|_| CliError::failure(format!("{} is not a valid Flux jobid", args.id)))?;
        let context = context(&args.context)?;
        let posted = client.call(PostEvent { id, name: args.name, context }).await;
        posted.map(|_| 0u8).map_err(|error| refused(error, &args.id))
    })
}

/// The message for an error response, with the job id as the user typed it.
fn refused(error: RpcError, id: &str) -> CliError {
    if error.errno == ENOENT {
        return CliError::failure(format!("No such job {id}"));
    }
    error.into()
}

/// The context in the arguments. `None` without arguments.
fn context(settings: &[String]) -> Result<Option<Value>, CliError> {
    let mut context = None;
    for setting in settings {
        let key = setting.split('=').next().unwrap_or_default();
        let missing = || CliError::failure(format!("Missing required value for key {key}"));
        let (key, text) = setting.split_once('=').ok_or_else(missing)?;
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        let nested = nest(key, value).ok_or_else(missing)?;
        merge(context.get_or_insert_with(|| Value::Object(Map::new())), nested);
    }
    Ok(context)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parsed(settings: &[&str]) -> Result<Option<Value>, CliError> {
        let settings: Vec<String> = settings.iter().map(|s| (*s).to_owned()).collect();
        context(&settings)
    }

    #[test]
    fn dotted_keys_nest_and_values_are_json_or_strings() {
        let wanted = json!({"who": "world", "n": 5, "deep": {"key": true}, "x": {"a": [1]}});
        let read = parsed(&["who=world", "n=5", "deep.key=true", "x={\"a\":[1]}"]).unwrap();
        assert_eq!(read, Some(wanted));
        assert_eq!(parsed(&[]).unwrap(), None);
    }

    #[test]
    fn a_key_needs_a_value() {
        let refused = parsed(&["novalue"]).unwrap_err();
        assert_eq!(refused.text, "Missing required value for key novalue");
    }
}
