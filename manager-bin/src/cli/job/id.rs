//! `job id` and `job namespace`: convert job ids between encodings and to KVS namespaces.

use std::io::BufRead;

use jobtap_core::job::{Encoding, JobId};

use crate::cli::common::ids::show_id;
use crate::cli::common::message::CliError;
use crate::cli::common::session;

/// Options and arguments of `job id`.
#[derive(Debug, clap::Args)]
pub(super) struct IdArgs {
    /// Encoding to print: dec, hex, dothex, kvs, f58, f58plain, words or emoji
    #[arg(short = 't', long, value_name = "FORM", default_value = "dec")]
    to: String,
    /// Job ids; without any, the lines of standard input
    #[arg(value_name = "JOBID")]
    ids: Vec<String>,
}

/// Arguments of `job namespace`.
#[derive(Debug, clap::Args)]
pub(super) struct NamespaceArgs {
    /// Job ids; without any, the lines of standard input
    #[arg(value_name = "JOBID")]
    ids: Vec<String>,
}

/// Runs `job id`.
pub(super) fn run(args: &IdArgs) -> Result<u8, CliError> {
    let encoding: Encoding =
        args.to.parse().map_err(|_| CliError::failure(format!("Unknown to={}", args.to)))?;
    let form = |id: JobId| match encoding {
        Encoding::F58 => show_id(id),
        other => id.encode(other),
    };
    convert(&args.ids, form, |text| format!("{text}: malformed input"))
}

/// Runs `job namespace`.
pub(super) fn namespaces(args: &NamespaceArgs) -> Result<u8, CliError> {
    let form = |id: JobId| format!("job-{}", id.as_u64());
    convert(&args.ids, form, |text| format!("error parsing jobid: \"{text}\""))
}

/// Prints each id in another form. `refusal` is the message about a text that isn't an id.
fn convert(
    ids: &[String],
    form: impl Fn(JobId) -> String,
    refusal: impl Fn(&str) -> String,
) -> Result<u8, CliError> {
    let one = |text: &str| -> Result<(), CliError> {
        let id = text.parse().map_err(|_| CliError::failure(refusal(text)))?;
        session::print(&format!("{}\n", form(id)))?;
        Ok(())
    };
    if !ids.is_empty() {
        ids.iter().try_for_each(|text| one(text))?;
        return Ok(0);
    }
    let mut count = 0;
    for line in std::io::stdin().lock().lines() {
        one(&line?)?;
        count += 1;
    }
    Ok(u8::from(count == 0))
}
