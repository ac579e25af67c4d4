//! `policy diff`: simulates two configurations on one trace, and fails when the second one is worse than allowed.

use std::path::PathBuf;
use std::process::ExitCode;

use super::simulate::{TraceArgs, policy, simulated};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::simulate::diff::{Difference, Thresholds};
use crate::simulate::summary::Summary;

const COMMAND: &str = "policy";

/// The exit code when something is worse than allowed; errors have 2, as in diff(1).
const WORSE: u8 = 1;
const TROUBLE: u8 = 2;

/// Subcommands of `policy`.
#[derive(Debug, clap::Args)]
pub(crate) struct PolicyArgs {
    #[command(subcommand)]
    command: PolicyCommand,
}

#[derive(Debug, clap::Subcommand)]
enum PolicyCommand {
    /// Compare two configurations on a trace, for the review of a change
    Diff(Box<DiffArgs>),
}

/// Options and arguments of `policy diff`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Exit codes: 0 when NEW is within the thresholds, 1 when it is worse, 2 when the comparison failed.")]
struct DiffArgs {
    /// The configuration before the change
    #[arg(value_name = "OLD")]
    old: PathBuf,
    /// The configuration after it
    #[arg(value_name = "NEW")]
    new: PathBuf,
    #[command(flatten)]
    trace: TraceArgs,
    #[command(flatten)]
    thresholds: Thresholds,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: PolicyArgs) -> ExitCode {
    let PolicyCommand::Diff(args) = args.command;
    session::run(COMMAND, Family::Script, async move {
        diff(&args).await.map_err(|error| CliError { code: TROUBLE, ..error })
    })
}

async fn diff(args: &DiffArgs) -> Result<u8, CliError> {
    let experiment = args.trace.experiment()?;
    let one = |path: &PathBuf| policy(std::slice::from_ref(path), &[]);
    let runs = simulated(experiment.clone(), vec![one(&args.old)?, one(&args.new)?]).await?;
    let summary = Summary::from_runs(experiment.origin.name(), &runs);
    let [old, new] = summary.policies.as_slice() else {
        return Err(CliError::failure("interrupted"));
    };
    if old.interrupted || new.interrupted {
        return Err(CliError::failure("interrupted"));
    }
    let violations = args.thresholds.violations(&old.metrics, &new.metrics);
    let passed = violations.is_empty();
    if args.json {
        let difference = Difference { passed, violations: &violations, summary: &summary };
        let text = serde_json::to_string_pretty(&difference).map_err(CliError::failure)?;
        session::print(&format!("{text}\n"))?;
    } else {
        let mut text = format!("trace {}\n\n{}\n", summary.trace, summary.comparison());
        for violation in &violations {
            text.push_str(&format!("worse than allowed: {}\n", violation.text()));
        }
        if passed {
            text.push_str("within the thresholds\n");
        }
        session::print(&text)?;
    }
    Ok(if passed { 0 } else { WORSE })
}
