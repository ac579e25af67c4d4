//! `replay`: gives the recorded jobs of a manager to one plugin, and prints its answers beside the recorded ones. A
//! regression test for a policy.

use std::path::PathBuf;
use std::process::ExitCode;

use jobtap_core::engine::{ReplayComparison, ReplayOptions, Replayed, ReplayedAnswer};
use jobtap_laboratory::replay;

use super::simulate::policy;
use crate::cli::common::message::{CliError, plural};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::columns::{Column, Side, table};
use crate::shown::in_line;

const COMMAND: &str = "replay";

/// The exit code when an answer differs; errors have 2, as in diff(1).
const DIFFERS: u8 = 1;
const TROUBLE: u8 = 2;

/// Options of `replay`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  jobtap replay --plugin limits --eventlog month.tar.gz --config site.toml
  jobtap replay --plugin fairshare --eventlog /var/lib/jobtap --differences
  jobtap replay --plugin limits --eventlog month.tar.gz --conf plugins.limits.user.running=50

`jobtap dump FILE` writes a dump. Of a state directory nothing is changed; no manager may run in it. The plugins
are those of this binary, as the configuration loads them.

Exit codes: 0 when all answers are as recorded, 1 when one differs, 2 when the replay failed.")]
pub(crate) struct ReplayArgs {
    /// The plugin; it is loaded if the configuration doesn't load it
    #[arg(long, value_name = "NAME")]
    plugin: String,
    /// The recorded jobs: a dump, or a state directory
    #[arg(long, value_name = "PATH")]
    eventlog: PathBuf,
    /// The configuration: a TOML or JSON file, or a directory of them
    #[arg(long, short = 'c', value_name = "PATH", alias = "config-path")]
    config: Vec<PathBuf>,
    /// A setting of the configuration, as --conf of start
    #[arg(long, value_name = "KEY=VAL")]
    conf: Vec<String>,
    /// What was recorded and no plugin asks for is no difference: a plugin did that isn't loaded here
    #[arg(long)]
    ignore_missing: bool,
    /// Print differences only
    #[arg(long, short = 'd', conflicts_with = "json")]
    differences: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(args: ReplayArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async move {
        compare(&args).map_err(|error| CliError { code: TROUBLE, ..error })
    })
}

fn compare(args: &ReplayArgs) -> Result<u8, CliError> {
    let policy = policy(&args.config, &args.conf)?;
    let options = ReplayOptions { ignore_missing: args.ignore_missing };
    let report =
        replay(policy, &args.plugin, &args.eventlog, options).map_err(CliError::failure)?;
    let text = match args.json {
        true => serde_json::to_string_pretty(&report).map_err(CliError::failure)? + "\n",
        false => text(&report, args.differences),
    };
    session::print(&text)?;
    Ok(if report.different > 0 { DIFFERS } else { 0 })
}

/// The report for people.
fn text(report: &Replayed, only_differences: bool) -> String {
    let Replayed { plugin, jobs, events, calls, same, different, not_compared, .. } = report;
    let (jobs, events) = (plural(*jobs, "job"), plural(*events, "event"));
    let mut text = format!("{plugin}: {jobs}, {events}, {}\n", plural(*calls, "call"));
    text.push_str(&format!(
        "{same} answers as recorded, {different} differ, {not_compared} not compared\n"
    ));
    if !report.not_called.is_empty() {
        let topics = report.not_called.join(", ");
        text.push_str(&format!(
            "never called here, since eventlogs don't hold what leads to it: {topics}\n"
        ));
    }
    let missing = report.answers.iter().filter(|row| row.answer.is_none()).count();
    if missing > 0 {
        text.push_str(&format!(
            "of these, {missing} were recorded and no loaded plugin asks for them: does --config load all plugins of \
             that manager? --ignore-missing leaves them out\n"
        ));
    }
    if report.left_out > 0 {
        text.push_str(&format!("{} jobs or events were left out:\n", report.left_out));
    }
    for reason in &report.first_left_out {
        text.push_str(&format!("  {}\n", in_line(reason)));
    }
    let is_shown =
        |row: &&ReplayedAnswer| !only_differences || row.comparison == ReplayComparison::Differs;
    let rows: Vec<Vec<String>> = report.answers.iter().filter(is_shown).map(row).collect();
    if !rows.is_empty() {
        let columns = ["JOB", "TOPIC", "WHAT", "", "ANSWER", "RECORDED"];
        let columns = columns.map(|name| Column(name, Side::Left));
        text.push_str(&format!("\n{}", table(&columns, rows.into_iter())));
    }
    text
}

fn row(answer: &ReplayedAnswer) -> Vec<String> {
    let sign = match answer.comparison {
        ReplayComparison::Same => "=",
        ReplayComparison::Differs => "!",
        ReplayComparison::NotCompared => "?",
    };
    let shown = |text: &Option<String>| match text {
        Some(text) => in_line(text).into_owned(),
        None => "-".to_owned(),
    };
    vec![
        answer.job.map_or_else(|| "-".to_owned(), |id| id.to_string()),
        in_line(&answer.topic).into_owned(),
        answer.kind.to_owned(),
        sign.to_owned(),
        shown(&answer.answer),
        shown(&answer.recorded),
    ]
}
