//! The kinds of the values of options and arguments, by the names that the help gives them.

use clap::{Arg, Command, ValueHint};
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};

use super::candidates::{self, Jobs, Plugins};

/// The commands that also take inactive jobs; the others take only active ones.
const ENDED_JOBS: &[&str] = &[
    "resubmit",
    "unpack",
    "attach",
    "eventlog",
    "hostpids",
    "id",
    "info",
    "jobs",
    "memo",
    "namespace",
    "proxy",
    "purge",
    "status",
    "taskmap",
    "uri",
    "wait",
    "wait-event",
    "watch",
];

/// Values that a manager, or this program, knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Jobs(Jobs),
    Plugins(Plugins),
    Queues,
    Hosts,
    Attributes,
    ConfigKeys,
    Users,
}

/// Adds the values to a command and all below it.
pub(super) fn with_values(command: Command) -> Command {
    let path = command.get_name().to_owned();
    let command = command.mut_args(|arg| with_kind(&path, arg));
    command.mut_subcommands(with_values)
}

/// `command` is the innermost name: `cancel`, or `info` of `job info`.
fn with_kind(command: &str, arg: Arg) -> Arg {
    let Some(name) = arg.get_value_names().and_then(|names| names.first()) else {
        return arg;
    };
    let name = name.as_str().to_owned();
    if let Some(kind) = kind(command, arg.get_id().as_str(), &name) {
        let is_list = name.ends_with(",..");
        return arg.add(ArgValueCompleter::new(move |typed: &std::ffi::OsStr| {
            let Some(typed) = typed.to_str() else { return Vec::new() };
            values(kind, typed, is_list)
        }));
    }
    match name.as_str() {
        "FILE" | "PATH" | "SCRIPT" => arg.value_hint(ValueHint::AnyPath),
        "DIR" => arg.value_hint(ValueHint::DirPath),
        "COMMAND" => arg.value_hint(ValueHint::CommandString),
        _ => arg,
    }
}

fn kind(command: &str, id: &str, value: &str) -> Option<Kind> {
    let jobs = if ENDED_JOBS.contains(&command) { Jobs::All } else { Jobs::Active };
    Some(match (command, id, value) {
        (_, _, "JOBID" | "JOBID|MAP") => Kind::Jobs(jobs),
        ("proxy" | "uri", _, "TARGET" | "URI") => Kind::Jobs(Jobs::Active),
        ("load" | "build" | "inspect", _, "PLUGIN" | "BUILTIN" | "MODULE") => {
            Kind::Plugins(Plugins::Linked)
        }
        ("load", "remove", _) | (_, _, "PLUGIN" | "PLUGIN[.METHOD]" | "MODULE") => {
            Kind::Plugins(Plugins::Loaded)
        }
        (_, "queue", _) | (_, _, "QUEUE" | "QUEUE,..") => Kind::Queues,
        (_, _, "TARGETS" | "HOSTS|RANKS") => Kind::Hosts,
        ("getattr" | "setattr", _, "NAME") => Kind::Attributes,
        ("get" | "set" | "unset", "key", _) => Kind::ConfigKeys,
        (_, _, "USER") => Kind::Users,
        _ => return None,
    })
}

/// The values of a kind that begin with what was typed. In a list, the last value is completed.
fn values(kind: Kind, typed: &str, is_list: bool) -> Vec<CompletionCandidate> {
    let (before, last) = match typed.rsplit_once(',').filter(|_| is_list) {
        Some((before, last)) => (format!("{before},"), last),
        None => (String::new(), typed),
    };
    let found = match kind {
        Kind::Jobs(which) => candidates::jobs(which, last),
        Kind::Plugins(which) => candidates::plugins(which),
        Kind::Queues => candidates::queues(),
        Kind::Hosts => candidates::hosts(),
        Kind::Attributes => candidates::attributes(),
        Kind::ConfigKeys => candidates::config_keys(),
        Kind::Users => candidates::users(),
    };
    let begins = found.into_iter().filter(|value| value.text.starts_with(last));
    let order = begins.enumerate().map(|(place, value)| {
        let text = format!("{before}{}", value.text);
        // The manager's order: active jobs come first.
        let candidate = CompletionCandidate::new(text).display_order(Some(place));
        candidate.help(value.about.map(Into::into))
    });
    order.collect()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;
    use crate::cli::CommandLine;

    /// The kinds of all values of the command with this path.
    fn kinds_of(line: &str) -> Vec<(String, Option<Kind>)> {
        let top = CommandLine::command();
        let command = line.split(' ').fold(&top, |at, word| at.find_subcommand(word).unwrap());
        let named = command.get_arguments().filter_map(|arg| {
            let value = arg.get_value_names()?.first()?;
            let found = kind(command.get_name(), arg.get_id().as_str(), value);
            Some((arg.get_id().to_string(), found))
        });
        named.collect()
    }

    #[track_caller]
    fn is(line: &str, id: &str, wanted: Kind) {
        let kinds = kinds_of(line);
        let found = kinds.iter().find(|(name, _)| name == id);
        assert_eq!(found, Some(&(id.to_owned(), Some(wanted))), "{line}: {kinds:?}");
    }

    #[test]
    fn values_are_known_by_command_and_name() {
        is("cancel", "ids", Kind::Jobs(Jobs::Active));
        is("resubmit", "ids", Kind::Jobs(Jobs::All));
        is("job kill", "ids", Kind::Jobs(Jobs::Active));
        is("job info", "id", Kind::Jobs(Jobs::All));
        is("plugin load", "plugin", Kind::Plugins(Plugins::Linked));
        is("plugin load", "remove", Kind::Plugins(Plugins::Loaded));
        is("plugin remove", "name", Kind::Plugins(Plugins::Loaded));
        is("plugin query", "plugin", Kind::Plugins(Plugins::Loaded));
        is("module remove", "module", Kind::Plugins(Plugins::Loaded));
        is("submit", "queue", Kind::Queues);
        is("queue stop", "queue", Kind::Queues);
        is("jobs", "queue", Kind::Queues);
        is("resource drain", "words", Kind::Hosts);
        is("getattr", "name", Kind::Attributes);
        is("config set", "key", Kind::ConfigKeys);
        is("jobs", "user", Kind::Users);
    }

    #[test]
    fn job_names_and_keys_of_the_kvs_are_not_completed() {
        let found = kinds_of("submit").into_iter().find(|(name, _)| name == "job_name");
        assert_eq!(found.unwrap().1, None);
        let found = kinds_of("kvs get").into_iter().find(|(name, _)| name == "keys");
        assert_eq!(found.unwrap().1, None);
    }

    #[test]
    fn the_commands_named_here_exist() {
        let top = CommandLine::command();
        let inner: Vec<&str> = top
            .get_subcommands()
            .flat_map(|command| {
                std::iter::once(command.get_name())
                    .chain(command.get_subcommands().map(Command::get_name))
            })
            .collect();
        for name in ENDED_JOBS {
            assert!(inner.contains(name), "{name}");
        }
    }
}
