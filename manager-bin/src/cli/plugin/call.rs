//! `plugin call`: sends a request to a plugin's service.

use serde_json::{Value, json};

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::client::Client;

/// Options and arguments of `plugin call`.
#[derive(Debug, clap::Args)]
pub(super) struct CallArgs {
    /// Print each response of a stream as a line
    #[arg(long)]
    stream: bool,
    /// Plugin, and the method of its service
    #[arg(value_name = "PLUGIN[.METHOD]")]
    service: String,
    /// Payload of the request [default: {}]
    #[arg(value_name = "JSON", allow_negative_numbers = true)]
    payload: Option<String>,
}

/// Runs the command.
pub(super) async fn run(client: &Client, args: &CallArgs) -> Result<u8, CliError> {
    let topic = topic(&args.service);
    let payload = payload(args.payload.as_deref())?;
    if !args.stream {
        let response = client.call_topic(&topic, payload).await?;
        session::print(&format!("{response}\n"))?;
        return Ok(0);
    }
    let mut responses = client.stream_topic(&topic, payload).await?;
    while let Some(response) = responses.next().await {
        session::print(&format!("{}\n", response?))?;
    }
    Ok(0)
}

/// The topic of a plugin's service, which omits the leading dot of the name of a builtin plugin.
fn topic(service: &str) -> String {
    format!("job-manager.{}", service.strip_prefix('.').unwrap_or(service))
}

fn payload(text: Option<&str>) -> Result<Value, CliError> {
    let Some(text) = text else {
        return Ok(json!({}));
    };
    serde_json::from_str(text)
        .map_err(|error| CliError::failure(format!("the payload is not JSON: {error}: {text}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_topic_omits_the_leading_dot_of_a_builtin() {
        assert_eq!(topic("limits.set"), "job-manager.limits.set");
        assert_eq!(topic(".history"), "job-manager.history");
    }

    #[test]
    fn a_payload_that_is_not_json_is_refused() {
        assert_eq!(payload(None).unwrap(), json!({}));
        assert_eq!(payload(Some("[1]")).unwrap(), json!([1]));
        let error = payload(Some("{user: 1}")).unwrap_err();
        assert_eq!(error.code, 1);
        assert!(error.text.starts_with("the payload is not JSON: key must be a string at line 1"));
    }
}
