//! `pgrep` and `pkill`: list or cancel jobs by name or in a range of ids.

use std::io;
use std::process::ExitCode;

use jobtap_core::job::JobId;
use regex_lite::Regex;

use super::common::format::{RenderOptions, render, sort_rows};
use super::common::ids::show_id;
use super::common::message::{CliError, Prog, Streams, plural};
use super::common::session;
use super::common::usage::Family;
use super::job::EventStream;
use super::jobs::fetch::fetch;
use super::jobs::options::{FORMATS as JOB_FORMATS, JobsArgs, Setting};
use super::jobs::row::JobRow;
use super::jobs::template;
use crate::client::Client;
use crate::rpc::services::job_manager::Raise;

const PGREP: &str = "pgrep";
const PKILL: &str = "pkill";
/// The builtin default format of `pgrep`.
const IDS: &str = "{id.f58}";
/// The number of jobs that are searched without `--max-entries`.
const MAX_ENTRIES: i64 = 1000;

/// The options that select jobs, and the expressions that jobs must match.
#[derive(Debug, clap::Args)]
pub(crate) struct Selection {
    /// Search jobs in all states
    #[arg(short = 'a')]
    all: bool,
    /// Search jobs of all users
    #[arg(short = 'A')]
    all_users: bool,
    /// Search jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    user: Option<String>,
    /// Search jobs in these states or with these results
    #[arg(short = 'f', long, value_name = "STATE|RESULT,..")]
    filter: Option<String>,
    /// Search jobs of these queues
    #[arg(short = 'q', long, value_name = "QUEUE,..")]
    queue: Option<String>,
    /// Select at most N of the matching jobs
    #[arg(short = 'c', long, value_name = "N")]
    count: Option<usize>,
    /// Search at most N jobs; 0 for all [default: 1000]
    #[arg(long, value_name = "N")]
    max_entries: Option<i64>,
    /// Regular expression that the name matches, name:REGEX, or a range of ids ID1..ID2
    #[arg(value_name = "EXPRESSION", required = true)]
    expressions: Vec<String>,
}

/// Options of `pgrep`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct PgrepArgs {
    #[command(flatten)]
    selection: Selection,
    /// Print no header line
    #[arg(short = 'n', long, alias = "suppress-header")]
    no_header: bool,
    /// Output format, or the name of one: default, full, long, deps
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,
}

/// Options of `pkill`.
#[derive(Debug, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct PkillArgs {
    #[command(flatten)]
    selection: Selection,
    /// Wait until the canceled jobs are inactive
    #[arg(long)]
    wait: bool,
}

/// The parsed expressions. A job must match all of them.
#[derive(Debug, Default)]
struct Wanted {
    name: Option<Regex>,
    ids: Option<(JobId, JobId)>,
}

impl Wanted {
    fn parse(expressions: &[String]) -> Result<Self, CliError> {
        let invalid = |text: &str| CliError::usage(format!("expression error: {text}"));
        let mut wanted = Self::default();
        for expression in expressions {
            if let Some(ids) = range(expression) {
                if wanted.ids.replace(ids).is_some() {
                    return Err(invalid("Only one range of ids can be provided"));
                }
                continue;
            }
            let pattern = expression.strip_prefix("name:").unwrap_or(expression);
            let regex = Regex::new(pattern).map_err(|error| invalid(&error.to_string()))?;
            if wanted.name.replace(regex).is_some() {
                return Err(invalid("Only one pattern can be provided"));
            }
        }
        Ok(wanted)
    }

    fn matches(&self, job: &JobRow<'_>) -> bool {
        self.name.as_ref().is_none_or(|name| name.is_match(job.text("name")))
            && self.ids.is_none_or(|(first, last)| (first..=last).contains(&job.id))
    }
}

/// Parses a range of ids `ID1..ID2`. Returns `None` for any other text, which is a regular expression.
fn range(expression: &str) -> Option<(JobId, JobId)> {
    let (first, last) = expression.split_once("..")?;
    Some((first.parse().ok()?, last.parse().ok()?))
}

/// Runs `pgrep`.
pub(crate) fn grep(args: PgrepArgs) -> ExitCode {
    session::run(PGREP, Family::Script, async {
        let setting = setting()?;
        let chosen = args.format.as_deref().unwrap_or("default");
        let format = setting.formats.resolve(chosen)?;
        // The builtin default has no header, since its ids are read by other commands.
        let is_ids = chosen == "default" && format == IDS;
        let template = template(format)?;
        let wanted = Wanted::parse(&args.selection.expressions)?;
        let client = Client::connect().await?;
        let mut jobs = find(&args.selection, &wanted, &setting, &client).await?;
        sort_rows(&mut jobs, template.sort_keys()).map_err(CliError::failure)?;
        let header = !args.no_header && !is_ids && !jobs.is_empty();
        let options = RenderOptions { header, zone: setting.display.zone.clone() };
        let table = render(&template, &jobs, &options).map_err(CliError::failure)?;
        let filled = table.lines.iter().filter(|line| !line.trim().is_empty());
        let lines = table.header.iter().chain(filled);
        session::print(&lines.map(|line| format!("{line}\n")).collect::<String>())?;
        Ok(u8::from(jobs.is_empty()))
    })
}

/// Runs `pkill`.
pub(crate) fn kill(args: PkillArgs) -> ExitCode {
    session::run(PKILL, Family::Script, async {
        let setting = setting()?;
        let wanted = Wanted::parse(&args.selection.expressions)?;
        let client = Client::connect().await?;
        let jobs = find(&args.selection, &wanted, &setting, &client).await?;
        let mut canceled = Vec::new();
        for job in &jobs {
            match client.call(Raise::cancel(job.id, "")).await {
                Ok(_) => canceled.push(job.id),
                Err(error) => {
                    let text =
                        format!("{}: cancel: [Errno {}] {error}", show_id(job.id), error.errno);
                    session::print_error(PKILL, Family::Script, &text);
                }
            }
        }
        if !jobs.is_empty() {
            let text = format!("Canceled {}", plural(canceled.len() as u64, "job"));
            session::print_message(&Prog::current().info(PKILL, text));
        }
        if args.wait {
            for id in &canceled {
                let mut events = EventStream::open(&client, *id, "eventlog", false).await?;
                // The eventlog ends when the job is inactive.
                while events.next().await.transpose()?.is_some() {}
            }
        }
        Ok(u8::from(canceled.is_empty() || canceled.len() < jobs.len()))
    })
}

/// The setting with the formats of `pgrep`: the default format of `jobs` is called `full` here.
fn setting() -> Result<Setting, CliError> {
    let mut formats = vec![("default", "Only the ids", IDS)];
    formats.extend(JOB_FORMATS.iter().filter_map(|(name, what, format)| match *name {
        "default" => Some(("full", *what, *format)),
        "long" | "deps" => Some((*name, *what, *format)),
        _ => None,
    }));
    Setting::current(PGREP, &formats)
}

/// The jobs that match the expressions.
async fn find<'a>(
    selection: &Selection,
    wanted: &Wanted,
    setting: &'a Setting,
    client: &Client,
) -> Result<Vec<JobRow<'a>>, CliError> {
    let args = JobsArgs {
        all: selection.all,
        all_users: selection.all_users,
        user: selection.user.clone(),
        filter: selection.filter.iter().cloned().collect(),
        queue: selection.queue.iter().cloned().collect(),
        count: Some(selection.max_entries.unwrap_or(MAX_ENTRIES)),
        // Suppresses the warning about more jobs, which refers to an option of `jobs`.
        no_header: true,
        ..JobsArgs::default()
    };
    let mut streams = Streams {
        input: &mut io::stdin().lock(),
        out: &mut io::stdout().lock(),
        err: &mut io::stderr(),
    };
    let mut jobs = fetch(&args, setting, client, &mut streams).await?.rows;
    jobs.retain(|job| wanted.matches(job));
    jobs.truncate(selection.count.unwrap_or(usize::MAX));
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wanted(expressions: &[&str]) -> Result<Wanted, CliError> {
        let expressions: Vec<String> = expressions.iter().map(|&text| text.to_owned()).collect();
        Wanted::parse(&expressions)
    }

    #[test]
    fn an_expression_is_a_pattern_or_a_range_of_ids() {
        let both = wanted(&["^a.c$", "1..0x10"]).unwrap();
        assert!(both.name.unwrap().is_match("abc"));
        assert_eq!(both.ids, Some((JobId::new(1), JobId::new(16))));
        assert!(wanted(&["name:x..y"]).unwrap().name.unwrap().is_match("xaay"));
        assert!(wanted(&["a..?"]).unwrap().ids.is_none());
    }

    #[test]
    fn an_invalid_expression_is_a_usage_error() {
        let error = wanted(&["a", "b"]).unwrap_err();
        assert_eq!(error.text, "expression error: Only one pattern can be provided");
        assert_eq!(error.code, 2);
        assert!(wanted(&["1..2", "3..4"]).is_err());
        let error = wanted(&["a["]).unwrap_err();
        assert_eq!(error.text, "expression error: found unclosed character class");
    }
}
