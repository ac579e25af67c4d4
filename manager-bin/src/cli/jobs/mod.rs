//! `jobs`: lists jobs.

pub(super) mod fetch;
mod inner;
pub(super) mod query;
pub(super) mod row;
#[cfg(test)]
mod tests;

use std::io::{self, IsTerminal};
use std::process::ExitCode;

use jiff::tz::TimeZone;
use jobtap_core::job::JobId;
use serde_json::Value;

use self::fetch::{JobSource, fetch, print_stats, read_rows};
use self::inner::Look;
use self::row::{JobRow, Viewpoint};
use crate::cli::format::named::NamedFormats;
use crate::cli::format::{RenderOptions, Template, parse_sort_keys, render, sort_rows};
use crate::cli::ids::IdStyle;
use crate::cli::message::{CliError, Prog, Streams};
use crate::cli::session;
use crate::cli::usage::Family;
use crate::client::Client;
use crate::shown;
use crate::users::Users;

/// The name of this command in messages.
pub(super) const COMMAND: &str = "jobs";

/// The builtin formats: name, description, format.
pub(super) const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "One line for each job with its status and where it runs",
        "{id.f58:>12} ?:{queue:<8.8} +:{username:<8} {name:<10.10+} {status_abbrev:>2.2} \
         {ntasks:>6} {nnodes:>6h} {contextual_time!F:>8h} {contextual_info}",
    ),
    (
        "cute",
        "The default with symbols for the status",
        "{id.f58:>12} ?:{queue:<8.8} +:{username:<8} {name:<10.10+} {status_emoji:>5.5} \
         {ntasks:>6} {nnodes:>6h} {contextual_time!F:>8h} {contextual_info}",
    ),
    (
        "long",
        "The default with more about time",
        "{id.f58:>12} ?:{queue:<8.8} +:{username:<8} {name:<10.10+} {status:>9.9} \
         {ntasks:>6} {nnodes:>6h} {t_submit!d:%b%d %R::>12} {t_remaining!F:>12h} \
         {contextual_time!F:>8h} {contextual_info}",
    ),
    (
        "deps",
        "Urgencies, priorities and dependencies",
        "{id.f58:>12} ?:{queue:<8.8} {name:<10.10+} {urgency:<3} {priority:<12} {state:<8.8} \
         {dependencies}",
    ),
    (
        "endreason",
        "Why jobs ended",
        "{id.f58:>12} ?:{queue:<8.8} +:{username:<8} {name:<10.10+} {status_abbrev:>2.2} \
         {t_inactive!d:%b%d %R::>12h} {inactive_reason}",
    ),
];

/// Options and arguments of `jobs`.
#[derive(Debug, Clone, Default, clap::Args)]
#[command(args_override_self = true)]
pub(crate) struct JobsArgs {
    /// List jobs in all states
    #[arg(short = 'a')]
    pub(super) all: bool,
    /// List jobs of all users
    #[arg(short = 'A')]
    pub(super) all_users: bool,
    /// List jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    pub(super) user: Option<String>,
    /// List jobs in these states or with these results
    #[arg(short = 'f', long, value_name = "STATE|RESULT,..")]
    pub(super) filter: Option<String>,
    /// List jobs of these queues
    #[arg(short = 'q', long, value_name = "QUEUE,..")]
    pub(super) queue: Option<String>,
    /// List jobs of this name
    #[arg(long, value_name = "NAME")]
    pub(super) name: Option<String>,
    /// List jobs that have these hosts or ranks allocated
    #[arg(short = 'i', long, value_name = "HOSTS|RANKS")]
    pub(super) include: Option<String>,
    /// List jobs that were active after this time
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(super) since: Option<String>,
    /// List at most this many jobs; 0 for all
    #[arg(short = 'c', long, value_name = "N")]
    pub(super) count: Option<u64>,
    /// Print no header line
    #[arg(short = 'n', long, alias = "suppress-header")]
    pub(super) no_header: bool,
    /// Output format, or the name of one ("help" lists the names)
    #[arg(short = 'o', long, value_name = "FORMAT")]
    pub(super) format: Option<String>,
    /// Order by these fields; a leading "-" reverses
    #[arg(long, value_name = "KEY,..", allow_hyphen_values = true)]
    pub(super) sort: Option<String>,
    /// Cut lines at N columns; without N at those of the terminal
    #[arg(short = 'w', long, value_name = "N", num_args = 0..=1, default_missing_value = "0")]
    pub(super) width: Option<usize>,
    /// Print JSON
    #[arg(long)]
    pub(super) json: bool,
    /// Colour lines by result
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "always")]
    pub(super) color: Option<Color>,
    /// Print a line of statistics before the list
    #[arg(long)]
    pub(super) stats: bool,
    /// Also list the jobs of jobs that are managers themselves
    #[arg(short = 'R', long)]
    pub(super) recursive: bool,
    /// Go down so many levels, as --recursive does
    #[arg(short = 'L', long, value_name = "N")]
    pub(super) level: Option<usize>,
    /// Also go into managers of other users, as --recursive does
    #[arg(long)]
    pub(super) recurse_all: bool,
    /// How many managers are asked at a time; they are asked one by one
    #[arg(long, value_name = "N", hide = true)]
    pub(super) threads: Option<usize>,
    /// Print only the line of statistics; the exit code tells if any job is active
    #[arg(long)]
    pub(super) stats_only: bool,
    /// Read the jobs from standard input, a JSON object on each line
    #[arg(long, hide = true)]
    pub(super) from_stdin: bool,
    /// List these jobs
    #[arg(value_name = "JOBID")]
    pub(super) jobids: Vec<JobArg>,
}

/// When lines are coloured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On terminals, unless NO_COLOR is set.
    Auto,
    /// Also in files and pipes.
    Always,
    /// Not at all.
    Never,
}

/// A job id, with its spelling on the command line for messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct JobArg {
    pub(super) typed: String,
    pub(super) id: JobId,
}

impl std::str::FromStr for JobArg {
    type Err = jobtap_core::job::JobIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(JobArg { typed: text.to_owned(), id: text.parse()? })
    }
}

impl JobsArgs {
    /// The names of `--queue`.
    pub(super) fn queues(&self) -> Option<Vec<&str>> {
        self.queue.as_ref().map(|queues| queues.split(',').collect())
    }

    /// Whether the jobs of inner managers are wanted too.
    pub(super) fn recurses(&self) -> bool {
        self.recursive || self.recurse_all || self.level.is_some()
    }

    /// Whether an option selects jobs.
    pub(super) fn filtered(&self) -> bool {
        let options =
            [&self.user, &self.filter, &self.queue, &self.name, &self.include, &self.since];
        self.all || self.all_users || self.count.is_some() || options.iter().any(|o| o.is_some())
    }
}

/// What `jobs` uses of its process. Tests set it.
pub(super) struct Setting {
    pub(super) prog: Prog,
    pub(super) uid: u32,
    pub(super) view: Viewpoint,
    pub(super) formats: NamedFormats,
    /// Whether lines are coloured if no option tells.
    pub(super) color: bool,
    /// Columns of the terminal.
    pub(super) columns: Option<usize>,
}

impl Setting {
    /// The setting of this process, for `command` with these formats.
    pub(super) fn current(
        command: &'static str,
        formats: &[(&str, &str, &str)],
    ) -> Result<Self, CliError> {
        let formats = NamedFormats::builtin(command, formats);
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Ok(Setting {
            prog: Prog::current(),
            uid: rustix::process::getuid().as_raw(),
            view: Viewpoint {
                now: jiff::Timestamp::now().as_microsecond() as f64 / 1e6,
                zone: TimeZone::system(),
                ids: IdStyle::current(),
                users: Users::system(),
            },
            formats: formats.with_environment(|name| std::env::var_os(name))?,
            color: !no_color && io::stdout().is_terminal(),
            columns: columns(),
        })
    }

    #[cfg(test)]
    pub(super) fn builtin_formats() -> NamedFormats {
        NamedFormats::builtin(COMMAND, FORMATS)
    }
}

/// The width of the terminal: `COLUMNS` wins, as in other tools.
fn columns() -> Option<usize> {
    let variable = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse().ok());
    let terminal =
        || rustix::termios::tcgetwinsize(io::stdout()).ok().map(|size| size.ws_col.into());
    variable.or_else(terminal).filter(|columns| *columns > 0)
}

/// Runs the command.
pub(super) fn run(args: JobsArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let setting = Setting::current(COMMAND, FORMATS)?;
        let mut streams = Streams {
            input: &mut io::stdin().lock(),
            out: &mut io::stdout().lock(),
            err: &mut io::stderr(),
        };
        let connect = async || Ok(Client::connect().await?);
        execute(&args, &setting, connect, &mut streams).await.map(ExitCode::from)
    })
}

/// Runs the command with everything outside of it given, and returns the exit code. `connect` is called
/// only if a manager is needed.
pub(super) async fn execute<S: JobSource>(
    args: &JobsArgs,
    setting: &Setting,
    connect: impl AsyncFnOnce() -> Result<S, CliError>,
    streams: &mut Streams<'_>,
) -> Result<u8, CliError> {
    let chosen = args.format.as_deref().unwrap_or("default");
    if let Some(help) = format_help(chosen, setting)? {
        streams.print(&help)?;
        return Ok(0);
    }
    if args.json && (args.stats || args.stats_only) {
        return Err(CliError::failure("--json incompatible with --stats or --stats-only"));
    }
    let template = Template::parse::<JobRow<'_>>(setting.formats.resolve(chosen)?)
        .map_err(CliError::failure)?;
    if args.from_stdin {
        let mut rows = read_rows(streams.input, &setting.view)?;
        sort(args, &template, &mut rows)?;
        let text = match args.json {
            true => {
                let text = json_text(args, rows.iter().map(JobRow::to_json).collect());
                shown::lines(&text).into_owned()
            }
            false => table_text(args, setting, &template, &rows)?,
        };
        streams.print(&text)?;
        return Ok(0);
    }
    let source = connect().await?;
    if args.stats || args.stats_only {
        let active = print_stats(&source, args.queues().as_deref(), streams).await?;
        if args.stats_only {
            return Ok(u8::from(!active));
        }
    }
    let fetched = fetch(args, setting, &source, streams).await?;
    let mut rows = fetched.rows;
    sort(args, &template, &mut rows)?;
    let look = Look { args, setting, template: &template };
    if args.json {
        let jobs = look.whole_json(&source, &rows, &[], streams).await?;
        streams.print(&shown::lines(&json_text(args, jobs)))?;
    } else {
        streams.print(&table_text(args, setting, &template, &rows)?)?;
        look.print_inner(&source, &rows, "", &[], streams).await?;
    }
    Ok(u8::from(fetched.none_found))
}

/// Puts jobs into the order that the options or the format ask for.
pub(super) fn sort(
    args: &JobsArgs,
    template: &Template,
    rows: &mut [JobRow<'_>],
) -> Result<(), CliError> {
    match &args.sort {
        Some(sort) => sort_rows(rows, &parse_sort_keys(sort)),
        None => sort_rows(rows, template.sort_keys()),
    }
    .map_err(CliError::failure)
}

/// The text that `-o help` and `-o get-config=NAME` print.
fn format_help(chosen: &str, setting: &Setting) -> Result<Option<String>, CliError> {
    let formats = &setting.formats;
    match chosen.strip_prefix("get-config=") {
        Some(name) => formats.config_of(name).map(Some),
        None if chosen == "help" => Ok(Some(formats.help(&setting.prog.command(COMMAND)))),
        None => Ok(None),
    }
}

/// `{"jobs":[..]}`, or the bare object for a single id.
fn json_text(args: &JobsArgs, mut jobs: Vec<Value>) -> String {
    match args.jobids.len() {
        1 => jobs.pop().map_or_else(String::new, |job| format!("{job}\n")),
        _ => format!("{}\n", serde_json::json!({"jobs": jobs})),
    }
}

pub(super) fn table_text(
    args: &JobsArgs,
    setting: &Setting,
    template: &Template,
    rows: &[JobRow<'_>],
) -> Result<String, CliError> {
    let options = RenderOptions { header: !args.no_header, zone: setting.view.zone.clone() };
    let table = render(template, rows, &options).map_err(CliError::failure)?;
    let width = args.width.and_then(|width| if width == 0 { setting.columns } else { Some(width) });
    let color = match args.color {
        Some(Color::Always) => true,
        Some(Color::Never) => false,
        Some(Color::Auto) | None => setting.color,
    };
    let mut text = String::new();
    if let Some(header) = &table.header {
        text += &format!("{}\n", cut(header, width));
    }
    for (line, row) in table.lines.iter().zip(rows) {
        let line = cut(line, width);
        match row.color().filter(|_| color) {
            Some(code) => text += &format!("\x1b[{code}m{line}\x1b[0;0m\n"),
            None => text += &format!("{line}\n"),
        }
    }
    Ok(text)
}

/// At most `width` characters of a line; the last is `+` if some were cut.
fn cut(line: &str, width: Option<usize>) -> String {
    match width {
        Some(width) if line.chars().count() > width => {
            line.chars().take(width.saturating_sub(1)).chain(['+']).collect()
        }
        _ => line.to_owned(),
    }
}
