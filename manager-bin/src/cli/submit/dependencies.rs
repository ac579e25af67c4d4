//! `--dependency` and `--begin-time`: what a job waits for, in the order of the command line. The manager adds the
//! dependencies of a job in that order, and its eventlog shows it.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Args, Command, FromArgMatches};
use jobtap_core::jobspec::Dependency;

use super::error::ArgError;
use super::values::begin_time;

const DEPENDENCY: &str = "dependency";
const BEGIN_TIME: &str = "begin-time";

/// The values of both options. clap's derive can't preserve the order of values across options.
#[derive(Debug, Clone, Default)]
pub(crate) struct DependencyOptions {
    /// The values of `--dependency`.
    pub(crate) uris: Vec<String>,
    /// The values of `--begin-time`.
    pub(crate) begin_times: Vec<String>,
    /// For each value of both, in the order of the command line, whether it is one of `--begin-time`.
    order: Vec<bool>,
}

impl Args for DependencyOptions {
    fn augment_args(command: Command) -> Command {
        let dependency = "Dependency of the job: SCHEME:VALUE, e.g. afterok:JOBID (repeatable)";
        let begin_time = "Earliest time at which the job may start: +FSD from now, a date or a time of \
                          day (repeatable)";
        [(DEPENDENCY, "URI", dependency), (BEGIN_TIME, "TIME", begin_time)].into_iter().fold(
            command,
            |command, (name, value, help)| {
                let option = Arg::new(name).long(name).value_name(value).help(help);
                command.arg(option.action(ArgAction::Append))
            },
        )
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for DependencyOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self::default();
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let values = |name| matches.get_many::<String>(name).into_iter().flatten().cloned();
        self.uris = values(DEPENDENCY).collect();
        self.begin_times = values(BEGIN_TIME).collect();
        // Ordered by the index of the value on the command line.
        let mut order = BTreeMap::new();
        for (name, is_begin_time) in [(DEPENDENCY, false), (BEGIN_TIME, true)] {
            let indices = matches.indices_of(name).into_iter().flatten();
            order.extend(indices.map(|index| (index, is_begin_time)));
        }
        self.order = order.into_values().collect();
        Ok(())
    }
}

impl DependencyOptions {
    /// The dependencies, in the order of the command line. Times are counted from `now`, in seconds since the epoch.
    ///
    /// # Errors
    /// [`ArgError`] if a value is not a dependency or not a time.
    pub(crate) fn dependencies(&self, now: f64) -> Result<Vec<Dependency>, ArgError> {
        let mut uris = self.uris.iter();
        let mut begin_times = self.begin_times.iter();
        let next = |is_begin_time: &bool| match is_begin_time {
            true => begin_times.next().map(|time| begin_time(time, now)),
            // In a directive, a value of several lines contains line ends, which no URI has.
            false => uris.next().map(|uri| Ok(Dependency::from_uri(&uri.replace('\n', ""))?)),
        };
        self.order.iter().filter_map(next).collect()
    }
}
