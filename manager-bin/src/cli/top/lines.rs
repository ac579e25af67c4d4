//! What the screen shows, as texts: the manager's responses without control characters, and never longer than a
//! screen is wide.

use std::collections::BTreeMap;

use jobtap_core::eventlog::{EventEntry, LogError, Name, decode_log};
use jobtap_core::job::{JobId, JobResult, State};
use jobtap_core::resource::Idset;
use serde_json::Value;
use thiserror::Error;

use crate::cli::common::format::fsd;
use crate::cli::common::ids::IdStyle;
use crate::cli::common::message::CliError;
use crate::cli::common::resources::resources;
use crate::cli::jobs::row::{JobRow, JobRowError};
use crate::rpc::RpcError;
use crate::rpc::services::job_list::Stats;
use crate::rpc::services::job_manager::Reasons;
use crate::rpc::services::queue::{Overview, Queue};
use crate::rpc::services::{plugin, resource};
use crate::shown;

/// The maximum number of characters of a text: users choose names and notes, and no screen is wider.
const LONGEST: usize = 512;

/// The maximum number of events of a job; the last ones are shown.
const EVENTS: usize = 500;

/// The number of characters in the bar of a share.
pub(super) const BAR: usize = 10;

/// How a line is colored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Tone {
    #[default]
    Plain,
    /// What runs, or succeeded.
    Good,
    /// What waits, or is on its way out.
    Waiting,
    /// What failed.
    Bad,
}

/// A line of a table.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) cells: Vec<String>,
    pub(super) tone: Tone,
}

/// A job in the table of jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct JobLine {
    pub(super) id: JobId,
    pub(super) line: Line,
}

/// One job with its history.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Detail {
    pub(super) id: Option<JobId>,
    pub(super) lines: Vec<Line>,
}

/// Why something is not known. The text stands in its place.
#[derive(Debug, Error)]
pub(super) enum Missing {
    #[error("only shown to the owner")]
    OwnerOnly,
    #[error("{}", text(&.0.to_string()))]
    Refused(RpcError),
    /// A listed job that can't be read.
    #[error("{}", text(&.0.to_string()))]
    Job(JobRowError),
    /// The resources can't be read.
    #[error("{0}")]
    Resources(CliError),
    #[error("{0}")]
    Eventlog(LogError),
}

/// A text of a user as the screen shows it.
pub(super) fn text(text: &str) -> String {
    let end = text.char_indices().nth(LONGEST).map_or(text.len(), |(at, _)| at);
    shown::in_line(text.get(..end).unwrap_or_default()).into_owned()
}

/// A job as a line of the table.
pub(super) fn job(row: &JobRow<'_>) -> JobLine {
    let number = |name: &str| row.int(name).map_or_else(String::new, |number| number.to_string());
    let time = row.contextual_time();
    let info = if row.inactive() { row.inactive_reason() } else { active_info(row) };
    let cells = vec![
        row.display.ids.show(row.id),
        text(row.text("queue")),
        text(&row.username().unwrap_or_default()),
        row.status_abbrev().to_owned(),
        number("ntasks"),
        number("nnodes"),
        if time > 0.0 { fsd(time) } else { String::new() },
        text(row.text("name")),
        text(&info),
    ];
    JobLine { id: row.id, line: Line { cells, tone: tone(row) } }
}

/// What an active job waits for in a word, then what is known of it besides: a dependency, when it may start, or its hosts.
fn active_info(row: &JobRow<'_>) -> String {
    let (why, info) = (row.text("why"), row.contextual_info());
    match (why, &*info) {
        ("", _) => info,
        (_, "") => why.to_owned(),
        // These two say the same.
        ("held", "held") | ("priority" | "plugin", "priority-wait") => why.to_owned(),
        _ => format!("{why} {info}"),
    }
}

fn tone(row: &JobRow<'_>) -> Tone {
    match (row.final_result(), row.state) {
        (Some(JobResult::Completed), _) | (None, Some(State::Run)) => Tone::Good,
        (Some(JobResult::Failed | JobResult::Timeout), _) => Tone::Bad,
        (None, Some(State::Depend | State::Priority | State::Cleanup)) => Tone::Waiting,
        _ => Tone::Plain,
    }
}

/// Whether a job contains all words, which are in lower case.
pub(super) fn contains(line: &JobLine, words: &[String]) -> bool {
    let has = |word: &String| line.line.cells.iter().any(|cell| cell.to_lowercase().contains(word));
    words.iter().all(has)
}

/// The lines of all queues, with their jobs.
pub(super) fn queues(overview: &Overview, stats: Option<&Stats>) -> Vec<Line> {
    let of = |queue: &Queue| {
        let tally = stats.and_then(|stats| match queue.name.as_str() {
            "" => Some(&stats.all),
            name => stats.queues.iter().find(|known| known.name == name).map(|known| &known.tally),
        });
        let count = |number: Option<u64>| match stats {
            // A queue without jobs has no tally.
            Some(_) => number.unwrap_or(0).to_string(),
            None => "-".to_owned(),
        };
        let states = tally.map(|tally| tally.job_states);
        let share = |used: Option<i64>, all: Option<i64>| {
            format!("{}/{}", used.unwrap_or(0), all.unwrap_or(0))
        };
        let (used, all) = (queue.resources.allocated, queue.resources.all);
        let (accepts, starts) =
            (queue.status.enable == Some(true), queue.status.start == Some(true));
        let name = match queue.name.as_str() {
            "" => "(all)".to_owned(),
            name if queue.default => format!("{}*", text(name)),
            name => text(name),
        };
        let cells = vec![
            name,
            if accepts { "enabled" } else { "disabled" }.to_owned(),
            if starts { "started" } else { "stopped" }.to_owned(),
            count(states.map(|states| states.depend + states.priority + states.sched)),
            count(states.map(|states| states.run + states.cleanup)),
            share(used.nnodes, all.nnodes),
            share(used.ncores, all.ncores),
            bar(used.ncores.unwrap_or(0), all.ncores.unwrap_or(0)),
        ];
        Line { cells, tone: if accepts && starts { Tone::Plain } else { Tone::Bad } }
    };
    overview.queues.iter().map(of).collect()
}

/// A share as a bar, in characters that every terminal has. A small share isn't shown as empty, nor a large one as
/// full.
fn bar(used: i64, all: i64) -> String {
    let part = |number: i64| usize::try_from(number).unwrap_or(0);
    let (used, all) = (part(used), part(all).max(1));
    let filled = match used * BAR / all {
        0 => usize::from(used > 0),
        filled => filled.min(BAR),
    };
    format!("{}{}", "|".repeat(filled), ".".repeat(BAR - filled))
}

/// The lines of nodes by their state, those without nodes left out.
pub(super) fn nodes(status: &resource::Status) -> Result<Vec<Line>, Missing> {
    let all = resources("R", &status.r).map_err(Missing::Resources)?;
    let ranks = |text: &str| text.parse::<Idset>().unwrap_or_default();
    let drained = status.drain.iter().map(|(ranks, _)| ranks.parse::<Idset>().unwrap_or_default());
    let drained = drained.fold(Idset::new(), |all, ranks| all.union(&ranks));
    let (online, excluded, offline) =
        (ranks(&status.online), ranks(&status.exclude), ranks(&status.offline));
    let (allocated, kept) = (ranks(&status.allocated), ranks(&status.housekeeping));
    let free = online.difference(&allocated).difference(&drained);
    let free = free.difference(&excluded).difference(&kept);
    let line = |state: &str, ranks: &Idset, reason: &str, tone| {
        let hosts = text(&all.with_ranks(ranks).nodelist().to_string());
        let cells = vec![state.to_owned(), ranks.len().to_string(), hosts, text(reason)];
        Line { cells, tone }
    };
    let mut lines = vec![
        line("free", &free, "", Tone::Plain),
        line("allocated", &allocated, "", Tone::Good),
        line("housekeeping", &kept, "", Tone::Waiting),
        line("excluded", &excluded, "", Tone::Waiting),
        line("offline", &offline, "", Tone::Bad),
    ];
    for (ranks, why) in &status.drain {
        let ranks = ranks.parse().unwrap_or_default();
        lines.push(line("drained", &ranks, why.reason.as_deref().unwrap_or(""), Tone::Bad));
    }
    lines.retain(|line| line.cells.get(1).is_some_and(|count| count != "0"));
    Ok(lines)
}

/// The lines of the plugins in the order of the stack, then those of the shadows.
pub(super) fn plugins(loaded: &plugin::Plugins, stats: &plugin::Stats) -> Vec<Line> {
    let mut handlers: BTreeMap<&str, &[plugin::Handler]> = BTreeMap::new();
    for plugin in &stats.plugins {
        handlers.insert(&plugin.name, &plugin.handlers);
    }
    let live = loaded.details.iter().map(|plugin| (plugin, "live"));
    let shadows = loaded.shadows.iter().map(|plugin| (plugin, "shadow"));
    let of = |(plugin, kind): (&plugin::Loaded, &str)| {
        let handlers = match kind {
            "live" => handlers.get(plugin.name.as_str()).copied().unwrap_or_default(),
            _ => &[],
        };
        let sum = |of: fn(&plugin::Handler) -> u64| handlers.iter().map(of).sum::<u64>();
        let most = |of: fn(&plugin::Handler) -> Option<u64>| {
            let most = handlers.iter().filter_map(of).max();
            most.map_or_else(|| "-".to_owned(), duration)
        };
        let (errors, panics) = (sum(|handler| handler.errors), sum(|handler| handler.panics));
        let tone = match (plugin.faulted || panics > 0, errors > 0) {
            (true, _) => Tone::Bad,
            (_, true) => Tone::Waiting,
            _ => Tone::Plain,
        };
        let cells = vec![
            text(&plugin.name),
            if plugin.faulted { "FAULTED" } else { kind }.to_owned(),
            sum(|handler| handler.calls).to_string(),
            errors.to_string(),
            panics.to_string(),
            most(|handler| handler.p50),
            most(|handler| handler.p99),
        ];
        Line { cells, tone }
    };
    live.chain(shadows).map(of).collect()
}

/// An upper bound of a duration, from nanoseconds.
fn duration(nanoseconds: u64) -> String {
    match nanoseconds {
        0..1_000 => format!("{nanoseconds}ns"),
        1_000..1_000_000 => format!("{}us", nanoseconds / 1_000),
        1_000_000..1_000_000_000 => format!("{}ms", nanoseconds / 1_000_000),
        _ => format!("{}s", nanoseconds / 1_000_000_000),
    }
}

/// One job: what it is, what it waits for, and what has happened.
pub(super) fn detail(
    row: &JobRow<'_>,
    why: Result<Reasons, Missing>,
    log: Result<String, Missing>,
) -> Detail {
    let style = row.display.ids;
    let mut lines = Vec::new();
    let mut say = |label: &str, value: &str, tone| {
        if !value.is_empty() {
            lines.push(Line { cells: vec![label.to_owned(), text(value)], tone });
        }
    };
    let number = |name: &str| row.int(name).map_or_else(String::new, |number| number.to_string());
    say("job", &style.show(row.id), Tone::Plain);
    say("name", row.text("name"), Tone::Plain);
    say("user", &row.username().unwrap_or_default(), Tone::Plain);
    say("queue", row.text("queue"), Tone::Plain);
    say("bank", row.text("bank"), Tone::Plain);
    say("project", row.text("project"), Tone::Plain);
    say("state", row.status(), tone(row));
    say("reason", &row.inactive_reason(), tone(row));
    say("urgency", &number("urgency"), Tone::Plain);
    say("priority", &number("priority"), Tone::Plain);
    let size = format!("{} tasks, {} cores", number("ntasks"), number("ncores"));
    say("size", &size, Tone::Plain);
    say("nodes", row.text("nodelist"), Tone::Plain);
    let limit = row.float("duration");
    say("limit", &if limit > 0.0 { fsd(limit) } else { String::new() }, Tone::Plain);
    let run = row.runtime();
    say("run time", &if run > 0.0 { fsd(run) } else { String::new() }, Tone::Plain);
    say("directory", row.text("cwd"), Tone::Plain);
    if row.inner_manager().is_some() {
        let about = format!("this job is a manager: jobtap top {}", style.show(row.id));
        say("inside", &about, Tone::Plain);
    }
    match why {
        Ok(why) => {
            for reason in &why.reasons {
                let shown = match style {
                    IdStyle::Unicode => reason.text.clone(),
                    IdStyle::Ascii => reason.text.replace('ƒ', "f"),
                };
                say("waits", &shown, Tone::Waiting);
            }
        }
        Err(error) => say("waits", &error.to_string(), Tone::Bad),
    }
    match log.and_then(|log| decode_log(&log).map_err(Missing::Eventlog)) {
        Ok(events) => lines.extend(timeline(&events)),
        Err(error) => say("events", &error.to_string(), Tone::Bad),
    }
    Detail { id: Some(row.id), lines }
}

/// A line for each event, with the time since the first one.
fn timeline(events: &[EventEntry]) -> Vec<Line> {
    let begin = events.first().map_or(0.0, |event| event.timestamp.as_secs());
    let left_out = events.len().saturating_sub(EVENTS);
    let mut lines = Vec::with_capacity(events.len() - left_out + 1);
    if left_out > 0 {
        let cells = vec!["...".to_owned(), format!("{left_out} earlier events")];
        lines.push(Line { cells, tone: Tone::Plain });
    }
    for event in events.iter().skip(left_out) {
        let mut about = event.name.to_string();
        for (key, value) in event.context.iter().flatten() {
            about.push_str(&match value {
                Value::String(value) => format!(" {key}={value}"),
                value => format!(" {key}={value}"),
            });
            if about.len() > LONGEST {
                break;
            }
        }
        let tone = if event.name == Name::Exception { Tone::Bad } else { Tone::Plain };
        let at = format!("+{:.3}s", event.timestamp.as_secs() - begin);
        lines.push(Line { cells: vec![at, text(&about)], tone });
    }
    lines
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::Timestamp;
    use serde_json::json;

    use super::*;

    fn words(lines: &[Line]) -> Vec<String> {
        lines.iter().map(|line| line.cells.join(" ").trim_end().to_owned()).collect()
    }

    #[test]
    fn texts_of_users_are_escaped_and_cut() {
        assert_eq!(text("a\x1b[2J\n"), "a\\u001b[2J\\u000a");
        assert_eq!(text(&"\u{e9}".repeat(600)).chars().count(), LONGEST);
    }

    #[test]
    fn queues_show_their_jobs_and_what_is_in_use() {
        let overview = json!({"queues": [
            {"name": "a", "default": true, "enable": true, "start": false,
             "resources": {"all": {"nnodes": 4, "ncores": 16}, "allocated": {"nnodes": 1, "ncores": 2}}},
            {"name": "b", "enable": true, "start": true},
        ]});
        let overview: Overview = serde_json::from_value(overview).unwrap();
        let stats =
            json!({"queues": [{"name": "a", "job_states": {"sched": 3, "depend": 1, "run": 2}}]});
        let stats: Stats = serde_json::from_value(stats).unwrap();
        let lines = queues(&overview, Some(&stats));
        assert_eq!(
            words(&lines),
            [
                "a* enabled stopped 4 2 1/4 2/16 |.........",
                "b enabled started 0 0 0/0 0/0 .........."
            ]
        );
        assert_eq!((lines[0].tone, lines[1].tone), (Tone::Bad, Tone::Plain));
        assert_eq!(words(&queues(&overview, None))[1], "b enabled started - - 0/0 0/0 ..........");
        assert_eq!(
            (bar(1, 1000), bar(999, 1000), bar(9, 9)),
            ("|.........".into(), "|||||||||.".into(), "|".repeat(BAR))
        );
    }

    #[test]
    fn nodes_are_listed_by_state() {
        let r = json!({"version": 1, "execution": {
            "R_lite": [{"rank": "0-3", "children": {"core": "0-3"}}],
            "nodelist": ["n[0-3]"], "starttime": 0, "expiration": 0}});
        let status = json!({"R": r, "online": "0-2", "offline": "3", "allocated": "1",
            "drain": {"2": {"timestamp": 1.0, "reason": "disk\u{1b}"}}});
        let status = serde_json::from_value(status).unwrap();
        let wanted = ["free 1 n0", "allocated 1 n1", "offline 1 n3", "drained 1 n2 disk\\u001b"];
        assert_eq!(words(&nodes(&status).unwrap()), wanted);
    }

    #[test]
    fn plugins_show_the_slowest_handler_and_faults() {
        let loaded = json!({"details": [{"name": "a"}, {"name": "b", "faulted": true}],
                            "shadows": [{"name": "a"}]});
        let stats = json!({"plugins": [{"name": "a", "handlers": [
            {"calls": 2, "errors": 1, "p50": 512, "p99": 2048},
            {"calls": 3, "p50": 256, "p99": 4_194_304},
        ]}]});
        let lines = plugins(
            &serde_json::from_value(loaded).unwrap(),
            &serde_json::from_value(stats).unwrap(),
        );
        assert_eq!(
            words(&lines),
            ["a live 5 1 0 512ns 4ms", "b FAULTED 0 0 0 - -", "a shadow 0 0 0 - -"]
        );
        assert_eq!((lines[0].tone, lines[1].tone), (Tone::Waiting, Tone::Bad));
    }

    #[test]
    fn a_long_history_shows_its_end() {
        let event = |at: f64| EventEntry::new(Timestamp::from_secs(at), "memo", None);
        let events: Vec<EventEntry> = (0..502).map(|at| event(f64::from(at))).collect();
        let lines = timeline(&events);
        assert_eq!(lines.len(), 501);
        assert_eq!(words(&lines)[..2], ["... 2 earlier events", "+2.000s memo"]);
    }
}
