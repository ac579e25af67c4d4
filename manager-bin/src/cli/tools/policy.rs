//! `policy diff`: simulates two configurations on one trace, and fails when the second one is worse than allowed.

use std::path::PathBuf;
use std::process::ExitCode;

use jobtap_laboratory::{Difference, Summary, Thresholds};

use super::simulate::{TraceArgs, policy, simulated};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;

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
    thresholds: ThresholdArgs,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What may become worse, and by how much.
#[derive(Debug, clap::Args)]
struct ThresholdArgs {
    /// By how many percent the median wait of a user may grow
    #[arg(long, value_name = "PERCENT", default_value_t = ALLOWED.user_wait, value_parser = share)]
    user_wait: f64,
    /// By how many percent the mean wait of all jobs may grow
    #[arg(long, value_name = "PERCENT", default_value_t = ALLOWED.mean_wait, value_parser = share)]
    mean_wait: f64,
    /// By how many percent the mean bounded slowdown of all jobs may grow
    #[arg(long, value_name = "PERCENT", default_value_t = ALLOWED.slowdown, value_parser = share)]
    slowdown: f64,
    /// By how many percentage points the utilization may fall
    #[arg(long, value_name = "POINTS", default_value_t = ALLOWED.utilization, value_parser = share)]
    utilization: f64,
    /// How many jobs more may not be completed
    #[arg(long, value_name = "N", default_value_t = ALLOWED.lost)]
    lost: u64,
    /// Waits that grow by less than this many seconds are not worse
    #[arg(long, value_name = "SECONDS", default_value_t = ALLOWED.floor, value_parser = share)]
    floor: f64,
    /// Users with fewer jobs than this are not looked at
    #[arg(long, value_name = "N", default_value_t = ALLOWED.min_jobs)]
    min_jobs: u64,
}

const ALLOWED: Thresholds = Thresholds::DEFAULT;

impl From<&ThresholdArgs> for Thresholds {
    fn from(args: &ThresholdArgs) -> Self {
        let ThresholdArgs { user_wait, mean_wait, slowdown, utilization, lost, floor, min_jobs } =
            *args;
        Self { user_wait, mean_wait, slowdown, utilization, lost, floor, min_jobs }
    }
}

/// A text that is no threshold.
#[derive(Debug, thiserror::Error)]
#[error("use a number that is not negative")]
struct NoShare;

fn share(text: &str) -> Result<f64, NoShare> {
    let number = text.parse().ok().filter(|number: &f64| *number >= 0.0 && number.is_finite());
    number.ok_or(NoShare)
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
    let violations = Thresholds::from(&args.thresholds).violations(&old.metrics, &new.metrics);
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
