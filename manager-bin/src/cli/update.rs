//! `update`: changes the jobspec of a submitted job. The plugins of the manager decide which changes are
//! allowed.

use std::process::ExitCode;

use jobtap_core::job::{Fsd, JobId};
use serde_json::{Map, Value};

use super::common::ids::show_id;
use super::common::json::spaced_json;
use super::common::message::{CliError, Prog};
use super::common::session;
use super::common::usage::Family;
use crate::client::Client;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_manager::Update;

const COMMAND: &str = "update";

const DURATION: &str = "attributes.system.duration";

/// Options and arguments of `update`.
#[derive(Debug, clap::Args)]
pub(crate) struct UpdateArgs {
    /// Only print the updates as JSON
    #[arg(short = 'n', long)]
    dry_run: bool,
    /// Print the updates that were made
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// Wait for the event jobspec-update; without effect, since the manager always responds after it
    #[arg(long)]
    wait: bool,
    /// Job id
    #[arg(value_name = "JOBID")]
    id: JobId,
    /// duration=FSD (+FSD, -FSD), queue=NAME, name=TEXT, or a dotted path in the jobspec; VALUE is
    /// JSON or a string
    #[arg(value_name = "KEY=VALUE", required = true)]
    updates: Vec<String>,
}

/// A requested duration.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Duration {
    Absolute(f64),
    Longer(f64),
    Shorter(f64),
}

/// Runs the command.
pub(crate) fn run(args: UpdateArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let mut updates = Map::new();
        for text in &args.updates {
            let (key, value) = parse_update(args.id, text).await?;
            updates.insert(key, value);
        }
        if args.dry_run {
            session::print(&format!("{}\n", spaced_json(&Value::Object(updates))))?;
            return Ok(0u8);
        }
        let client = Client::connect().await?;
        let response = client.call(Update { id: args.id, updates: updates.clone() }).await;
        session::print_plugin_messages(
            COMMAND,
            &session::print_refusal_messages(COMMAND, response)?.messages,
        );
        if args.verbose > 0 {
            for (key, value) in &updates {
                let text = format!("updated {key} to {}", bare(value));
                session::print_message(&Prog::current().info(COMMAND, text));
            }
        }
        Ok(0)
    })
}

/// Parses an update, and returns its path in the jobspec and the new value.
async fn parse_update(id: JobId, text: &str) -> Result<(String, Value), CliError> {
    // As in Flux, a key alone has an empty value.
    let (key, value) = text.split_once('=').unwrap_or((text, ""));
    let key = path(key);
    if key != DURATION {
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        return Ok((key, value));
    }
    let current = match value.starts_with(['+', '-']) {
        false => 0.0,
        true => {
            let current = current_duration(&Client::connect().await?, id).await?;
            if current == 0.0 {
                return Err(unlimited(id, value));
            }
            current
        }
    };
    Ok((key, Duration::parse(value)?.from(current, id, value)?.into()))
}

/// The path in the jobspec for a key, which can be abbreviated.
fn path(key: &str) -> String {
    const WHOLE: [&str; 3] = ["attributes.", "resources.", "tasks."];
    match key {
        "name" => "attributes.system.job.name".to_owned(),
        _ if WHOLE.iter().any(|prefix| key.starts_with(prefix)) => key.to_owned(),
        _ => format!("attributes.system.{key}"),
    }
}

/// The present duration of the job in seconds; 0 if it is unlimited.
async fn current_duration(client: &Client, id: JobId) -> Result<f64, CliError> {
    let values = client.call(Lookup::key(id, "jobspec").current()).await?;
    let jobspec: Value = serde_json::from_str(values.get("jobspec")).map_err(CliError::failure)?;
    Ok(jobspec.pointer("/attributes/system/duration").and_then(Value::as_f64).unwrap_or(0.0))
}

impl Duration {
    fn parse(text: &str) -> Result<Self, CliError> {
        let (kind, rest): (fn(f64) -> Self, &str) = match text.split_at_checked(1) {
            Some(("+", rest)) => (Duration::Longer, rest),
            Some(("-", rest)) => (Duration::Shorter, rest),
            _ => (Duration::Absolute, text),
        };
        let fsd: Fsd =
            rest.parse().map_err(|_| CliError::failure("invalid Flux standard duration"))?;
        match (fsd.is_infinite(), kind(fsd.as_secs())) {
            (true, Duration::Absolute(_)) => Ok(Duration::Absolute(0.0)),
            (true, _) => Err(CliError::failure("invalid Flux standard duration")),
            (false, duration) => Ok(duration),
        }
    }

    /// The new duration in seconds of a job whose duration is `current`. `text` is the argument, for
    /// messages.
    fn from(self, current: f64, id: JobId, text: &str) -> Result<f64, CliError> {
        let seconds = match self {
            Duration::Absolute(seconds) => return Ok(seconds),
            Duration::Longer(seconds) => current + seconds,
            Duration::Shorter(seconds) => current - seconds,
        };
        if current == 0.0 {
            return Err(unlimited(id, text));
        }
        if seconds <= 0.0 {
            let id = show_id(id);
            let current = Fsd::from_secs(current).unwrap_or(Fsd::ZERO);
            let by = text.trim_start_matches('-');
            let text = format!("current duration for {id} ({current}) cannot be reduced by {by}");
            return Err(CliError::failure(text));
        }
        Ok(seconds)
    }
}

fn unlimited(id: JobId, text: &str) -> CliError {
    let id = show_id(id);
    CliError::failure(format!("duration for {id} is unlimited, can't update by {text}"))
}

/// The text of a string without quotes, or of any other value as JSON.
fn bare(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ID: JobId = JobId::new(68_484_595_712);

    #[test]
    fn keys_abbreviate_paths() {
        assert_eq!(path("name"), "attributes.system.job.name");
        assert_eq!(path("queue"), "attributes.system.queue");
        assert_eq!(path("attributes.user.x"), "attributes.user.x");
        assert_eq!(path("job.name"), "attributes.system.job.name");
    }

    #[test]
    fn a_duration_is_absolute_or_relative() {
        let seconds = |text: &str, present| Duration::parse(text).unwrap().from(present, ID, text);
        assert_eq!(seconds("2m", 60.0).unwrap(), 120.0);
        assert_eq!(seconds("+1m", 60.0).unwrap(), 120.0);
        assert_eq!(seconds("-30s", 60.0).unwrap(), 30.0);
        assert_eq!(seconds("inf", 60.0).unwrap(), 0.0);
        let id = show_id(ID);
        assert_eq!(
            seconds("+1m", 0.0).unwrap_err().text,
            format!("duration for {id} is unlimited, can't update by +1m")
        );
        assert_eq!(
            seconds("-2m", 60.0).unwrap_err().text,
            format!("current duration for {id} (1m) cannot be reduced by 2m")
        );
        assert_eq!(Duration::parse("+inf").unwrap_err().text, "invalid Flux standard duration");
        assert_eq!(Duration::parse("x").unwrap_err().code, 1);
    }

    proptest! {
        #[test]
        fn any_new_duration_is_finite_and_not_negative(text in ".*|[-+]?[0-9]{1,9}(\\.[0-9])?(ms|[smhd])?", present in 0.0..1e9) {
            match Duration::parse(&text) {
                Err(error) => prop_assert_eq!(error.text, "invalid Flux standard duration"),
                Ok(requested) => match requested.from(present, ID, &text) {
                    Ok(seconds) => prop_assert!(seconds.is_finite() && seconds >= 0.0, "{}", seconds),
                    Err(error) => prop_assert!(error.text.contains(&show_id(ID)), "{}", error.text),
                },
            }
        }
    }
}
