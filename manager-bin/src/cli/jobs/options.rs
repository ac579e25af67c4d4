//! The options of `jobs`, and what their meaning depends on: the user, the time, the terminal and the named formats.

use std::io::{self, IsTerminal};

use jiff::tz::TimeZone;

use super::row::DisplayContext;
use crate::cli::common::format::named::NamedFormats;
use crate::cli::common::ids::{IdStyle, Target};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::session;
use crate::cli::common::when;
use crate::users::Users;

/// The name of this command in messages.
pub(in crate::cli) const COMMAND: &str = "jobs";

/// The builtin formats: name, description, format.
pub(in crate::cli) const FORMATS: &[(&str, &str, &str)] = &[
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
        "Why jobs became inactive",
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
    pub(in crate::cli) all: bool,
    /// List jobs of all users
    #[arg(short = 'A')]
    pub(in crate::cli) all_users: bool,
    /// List jobs of this user (a name, a number or "all")
    #[arg(short = 'u', long, value_name = "USER")]
    pub(in crate::cli) user: Option<String>,
    /// List jobs in these states or with these results (repeatable)
    #[arg(short = 'f', long, value_name = "STATE|RESULT,..")]
    pub(in crate::cli) filter: Vec<String>,
    /// List jobs of these queues (repeatable)
    #[arg(short = 'q', long, value_name = "QUEUE,..")]
    pub(in crate::cli) queue: Vec<String>,
    /// List jobs of this name
    #[arg(long, value_name = "NAME")]
    pub(in crate::cli) name: Option<String>,
    /// List jobs that have these hosts or ranks allocated
    #[arg(short = 'i', long, value_name = "HOSTS|RANKS")]
    pub(in crate::cli) include: Option<String>,
    /// List jobs that were active after this time
    #[arg(long, value_name = "WHEN", allow_hyphen_values = true)]
    pub(in crate::cli) since: Option<String>,
    /// List at most this many jobs; 0 for all
    #[arg(short = 'c', long, value_name = "N", allow_negative_numbers = true)]
    pub(in crate::cli) count: Option<i64>,
    /// Print no header line
    #[arg(short = 'n', long, alias = "suppress-header")]
    pub(in crate::cli) no_header: bool,
    /// Output format, or the name of one ("help" lists the names)
    #[arg(short = 'o', long, value_name = "FORMAT")]
    pub(in crate::cli) format: Option<String>,
    /// Sort by these fields; a leading "-" reverses the order
    #[arg(long, value_name = "KEY,..", allow_hyphen_values = true)]
    pub(in crate::cli) sort: Option<String>,
    /// Cut lines to N columns; without N to the width of the terminal
    #[arg(short = 'w', long, value_name = "N", num_args = 0..=1, default_missing_value = "0",
          allow_negative_numbers = true)]
    pub(in crate::cli) width: Option<i64>,
    /// Print JSON
    #[arg(long)]
    pub(in crate::cli) json: bool,
    /// Colour lines by result
    #[arg(long, value_name = "WHEN", num_args = 0..=1, default_missing_value = "always")]
    pub(in crate::cli) color: Option<Color>,
    /// Print a line of statistics before the list
    #[arg(long)]
    pub(in crate::cli) stats: bool,
    /// Also list the jobs of jobs that are managers themselves
    #[arg(short = 'R', long)]
    pub(in crate::cli) recursive: bool,
    /// Limit --recursive, which this implies, to N levels
    #[arg(short = 'L', long, value_name = "N", allow_negative_numbers = true)]
    pub(in crate::cli) level: Option<i64>,
    /// Include managers of other users in --recursive, which this implies
    #[arg(long)]
    pub(in crate::cli) recurse_all: bool,
    /// Number of threads for --recursive; accepted for compatibility with Flux, one is used
    #[arg(long, value_name = "N", hide = true)]
    pub(in crate::cli) threads: Option<usize>,
    /// Print only the line of statistics; the exit code is 0 if any job is active
    #[arg(long)]
    pub(in crate::cli) stats_only: bool,
    /// Read the jobs from standard input, a JSON object on each line
    #[arg(long, hide = true)]
    pub(in crate::cli) from_stdin: bool,
    /// List these jobs
    #[arg(value_name = "JOBID")]
    pub(in crate::cli) jobids: Vec<Target>,
}

/// When lines are coloured: the values of `--color`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Color {
    /// On terminals, unless NO_COLOR is set.
    Auto,
    /// Always, also in files and pipes.
    Always,
    /// Never.
    Never,
}

impl JobsArgs {
    /// The queues that `--queue` names; `None` without the option.
    pub(in crate::cli) fn queues(&self) -> Option<Vec<&str>> {
        let queues = self.queue.iter().flat_map(|queues| queues.split(',')).collect();
        (!self.queue.is_empty()).then_some(queues)
    }

    /// Returns true if the jobs of managers that run as jobs are listed too.
    pub(in crate::cli) fn recurses(&self) -> bool {
        self.recursive || self.recurse_all || self.level.is_some()
    }

    /// Returns true if an option restricts or extends which jobs are listed.
    pub(in crate::cli) fn filtered(&self) -> bool {
        let one = [&self.user, &self.name, &self.include, &self.since];
        let several = [&self.filter, &self.queue];
        self.all
            || self.all_users
            || self.count.is_some()
            || one.iter().any(|option| option.is_some())
            || several.iter().any(|option| !option.is_empty())
    }
}

/// What the command takes from its process and its environment. Tests set it.
pub(in crate::cli) struct Setting {
    pub(in crate::cli) prog: Prog,
    pub(in crate::cli) uid: u32,
    pub(in crate::cli) display: DisplayContext,
    pub(in crate::cli) formats: NamedFormats,
    /// Whether lines are colored without `--color`.
    pub(in crate::cli) color: bool,
    /// The width of the terminal in columns.
    pub(in crate::cli) columns: Option<usize>,
}

impl Setting {
    /// The setting of this process for `command`, whose builtin formats are `formats`.
    pub(in crate::cli) fn current(
        command: &'static str,
        formats: &[(&str, &str, &str)],
    ) -> Result<Self, CliError> {
        let formats = NamedFormats::builtin(command, formats);
        let no_color = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        Ok(Setting {
            prog: Prog::current(),
            uid: rustix::process::getuid().as_raw(),
            display: DisplayContext {
                now: when::now(),
                zone: TimeZone::system(),
                ids: IdStyle::current(),
                users: Users::system(),
            },
            formats: formats.with_environment(|name| std::env::var_os(name))?,
            color: !no_color && io::stdout().is_terminal(),
            columns: session::columns(),
        })
    }

    #[cfg(test)]
    pub(in crate::cli) fn builtin_formats() -> NamedFormats {
        NamedFormats::builtin(COMMAND, FORMATS)
    }
}
