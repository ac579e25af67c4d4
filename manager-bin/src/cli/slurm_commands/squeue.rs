//! `squeue`: lists jobs in Slurm's columns.

use std::process::ExitCode;

use serde_json::{Value, json};

use super::fields::{Field, Format};
use super::job_line::{JobLine, JobState, display, lines, or_null, short_span};
use super::names::{split, split_ids, uids};
use crate::cli::common::arrays::Named;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::rpc::services::job_list::{ALL, Constraint, List};
use jobtap_core::job::StateSet;

const COMMAND: &str = "squeue";

/// Options of `squeue`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    disable_help_flag = true,
    after_help = "Left out: steps (-s), --start, -i, reservations, federations and clusters."
)]
pub(crate) struct SqueueArgs {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// Only jobs of these accounts
    #[arg(short = 'A', long, alias = "accounts", value_name = "ACCOUNT,..")]
    account: Option<String>,
    /// All partitions, as always here
    #[arg(short = 'a', long)]
    all: bool,
    /// Print no headings
    #[arg(short = 'h', long)]
    noheader: bool,
    /// Only these jobs: ID, or ID_3, ID_[1-4] of an array
    #[arg(short = 'j', long, value_name = "ID,..")]
    jobs: Vec<String>,
    /// More columns
    #[arg(short = 'l', long)]
    long: bool,
    /// Only jobs of the user
    #[arg(long)]
    me: bool,
    /// Only jobs with these names
    #[arg(short = 'n', long, value_name = "NAME,..")]
    name: Option<String>,
    /// Fields by their letters: "%.18i %.9P %j"
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,
    /// Fields by their names: jobid:18,name,state
    #[arg(short = 'O', long = "Format", value_name = "FIELD,..", conflicts_with = "format")]
    names: Option<String>,
    /// Only jobs of these partitions
    #[arg(short = 'p', long, alias = "partitions", value_name = "PARTITION,..")]
    partition: Option<String>,
    /// A line for each job of an array, as always here
    #[arg(short = 'r', long)]
    array: bool,
    /// Only jobs in these states: PD, R, CG, CD, F, CA, TO, or all
    #[arg(short = 't', long, value_name = "STATE,..")]
    states: Option<String>,
    /// Only jobs of these users
    #[arg(short = 'u', long, alias = "users", value_name = "USER,..")]
    user: Option<String>,
    /// Only jobs on these hosts
    #[arg(short = 'w', long, value_name = "HOSTS")]
    nodelist: Option<String>,
}

const DEFAULT: &str = "%.18i %.9P %.8j %.8u %.2t %.10M %.6D %R";
const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";

/// Runs the command.
pub(crate) fn run(args: SqueueArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Slurm, |client| async move {
        let format = format(&args)?;
        let wanted: Vec<Named> = named(&args.jobs)?;
        let states = args.states.as_deref().map(states).transpose()?;
        let inactive = !wanted.is_empty()
            || states.as_ref().is_some_and(|states| states.iter().any(|state| state.is_final()));
        let mut constraints = Vec::new();
        if !inactive {
            constraints.push(Constraint::States(vec![StateSet::ACTIVE.state_bits().into()]));
        }
        if args.me {
            constraints.push(Constraint::Userid(vec![rustix::process::getuid().as_raw()]));
        }
        if let Some(users) = &args.user {
            constraints.push(Constraint::Userid(uids(users, &display().users)?));
        }
        if let Some(names) = &args.name {
            constraints.push(Constraint::Name(split(names)));
        }
        if let Some(hosts) = &args.nodelist {
            constraints.push(Constraint::Hostlist(vec![hosts.clone()]));
        }
        let constraint: Value = match constraints.is_empty() {
            true => json!({}),
            false => Constraint::And(constraints).into(),
        };
        let list =
            List { max_entries: Some(0), constraint: Some(constraint), attrs: ALL, since: None };
        let jobs = client.call(list).await?.jobs;
        let mut shown = lines(&client, jobs).await?;
        let in_list = |list: &Option<String>, text: &str| {
            list.as_ref().is_none_or(|list| split(list).iter().any(|word| word == text))
        };
        shown.retain(|job| {
            in_list(&args.partition, &job.partition())
                && in_list(&args.account, job.row.text("bank"))
                && states.as_ref().is_none_or(|states| states.contains(&job.state()))
                && (wanted.is_empty()
                    || wanted.iter().any(|named| named.means(job.row.id, job.place)))
        });
        if !wanted.is_empty() && states.is_none() {
            let known = !shown.is_empty();
            shown.retain(|job| !job.row.inactive());
            if !known && wanted.len() == 1 {
                return Err(CliError::failure("Invalid job id specified"));
            }
        }
        let rank = |job: &JobLine| {
            let priority = job.row.int("priority").unwrap_or(0);
            (job.partition(), job.state(), std::cmp::Reverse(priority), job.row.id)
        };
        shown.sort_by_cached_key(rank);
        let mut text = String::new();
        if !args.noheader {
            text += &format!("{}\n", format.heading());
        }
        for job in &shown {
            text += &format!("{}\n", format.line(job));
        }
        session::print(&text)?;
        Ok(0)
    })
}

fn format(args: &SqueueArgs) -> Result<Format<JobLine>, CliError> {
    let format = match (&args.format, &args.names) {
        (Some(format), _) => Format::letters(format, FIELDS),
        (None, Some(names)) => Format::names(names, FIELDS),
        (None, None) => Format::letters(if args.long { LONG } else { DEFAULT }, FIELDS),
    };
    format.map_err(CliError::failure)
}

/// The jobs that an option names.
pub(super) fn named(lists: &[String]) -> Result<Vec<Named>, CliError> {
    let words = lists.iter().flat_map(|list| split_ids(list));
    words.map(|word| word.parse::<Named>().map_err(CliError::failure)).collect()
}

fn states(list: &str) -> Result<Vec<JobState>, CliError> {
    let mut found = Vec::new();
    for word in split(list) {
        if word.eq_ignore_ascii_case("all") {
            return Ok(JobState::ALL.to_vec());
        }
        let known = || JobState::ALL.map(JobState::short).join(", ");
        let invalid =
            || CliError::failure(format!("Invalid job state specified: {word}; use {}", known()));
        found.push(JobState::named(&word).ok_or_else(invalid)?);
    }
    Ok(found)
}

const FIELDS: &[Field<JobLine>] = &[
    Field { letter: 'i', names: &["jobarrayid"], heading: "JOBID", value: |job| job.id() },
    Field {
        letter: 'A',
        names: &["jobid"],
        heading: "JOBID",
        value: |job| job.row.id.as_u64().to_string(),
    },
    Field {
        letter: 'F',
        names: &["arrayjobid"],
        heading: "ARRAY_JOB_ID",
        value: |job| {
            job.place.map_or(job.row.id, |place| place.array(job.row.id)).as_u64().to_string()
        },
    },
    Field {
        letter: 'K',
        names: &["arraytaskid"],
        heading: "ARRAY_TASK_ID",
        value: |job| job.place.map_or("N/A".to_owned(), |place| place.index.to_string()),
    },
    Field {
        letter: 'P',
        names: &["partition"],
        heading: "PARTITION",
        value: |job| job.partition(),
    },
    Field {
        letter: 'j',
        names: &["name"],
        heading: "NAME",
        value: |job| job.row.text("name").to_owned(),
    },
    Field {
        letter: 'u',
        names: &["username"],
        heading: "USER",
        value: |job| job.row.username().unwrap_or_default(),
    },
    Field { letter: 'U', names: &["userid"], heading: "UID", value: |job| job.number("userid") },
    Field {
        letter: 'a',
        names: &["account"],
        heading: "ACCOUNT",
        value: |job| or_null(job.row.text("bank").to_owned()),
    },
    Field {
        letter: 't',
        names: &["statecompact"],
        heading: "ST",
        value: |job| job.state().short().to_owned(),
    },
    Field {
        letter: 'T',
        names: &["state"],
        heading: "STATE",
        value: |job| job.state().long().to_owned(),
    },
    Field {
        letter: 'M',
        names: &["timeused"],
        heading: "TIME",
        value: |job| short_span(job.row.runtime()),
    },
    Field {
        letter: 'l',
        names: &["timelimit"],
        heading: "TIME_LIMIT",
        value: |job| job.time_limit().map_or("UNLIMITED".to_owned(), short_span),
    },
    Field {
        letter: 'L',
        names: &["timeleft"],
        heading: "TIME_LEFT",
        value: |job| {
            let left = |limit: f64| short_span(limit - job.row.runtime());
            job.time_limit().map_or("UNLIMITED".to_owned(), left)
        },
    },
    Field { letter: 'D', names: &["numnodes"], heading: "NODES", value: |job| nodes(job) },
    Field { letter: 'C', names: &["numcpus"], heading: "CPUS", value: |job| job.number("ncores") },
    Field {
        letter: ' ',
        names: &["numtasks"],
        heading: "TASKS",
        value: |job| job.number("ntasks"),
    },
    Field {
        letter: 'R',
        names: &["reasonlist"],
        heading: "NODELIST(REASON)",
        value: |job| job.hosts_or_reason(),
    },
    Field {
        letter: 'r',
        names: &["reason"],
        heading: "REASON",
        value: |job| job.reason().to_owned(),
    },
    Field {
        letter: 'N',
        names: &["nodelist"],
        heading: "NODELIST",
        value: |job| job.row.text("nodelist").to_owned(),
    },
    Field {
        letter: 'B',
        names: &["batchhost"],
        heading: "EXEC_HOST",
        value: |job| {
            let hosts = job.row.text("nodelist").parse::<jobtap_core::resource::Hostlist>();
            hosts.ok().and_then(|hosts| hosts.first()).unwrap_or_else(|| "n/a".to_owned())
        },
    },
    Field {
        letter: 'S',
        names: &["starttime"],
        heading: "START_TIME",
        value: |job| job.time("t_run", "N/A"),
    },
    Field {
        letter: 'e',
        names: &["endtime"],
        heading: "END_TIME",
        value: |job| job.end_time("N/A"),
    },
    Field {
        letter: 'V',
        names: &["submittime"],
        heading: "SUBMIT_TIME",
        value: |job| job.time("t_submit", "N/A"),
    },
    Field {
        letter: 'Q',
        names: &["prioritylong"],
        heading: "PRIORITY",
        value: |job| job.number("priority"),
    },
    Field {
        letter: 'p',
        names: &["priority"],
        heading: "PRIORITY",
        value: |job| job.number("priority"),
    },
    Field {
        letter: 'E',
        names: &["dependency"],
        heading: "DEPENDENCY",
        value: |job| or_null(job.row.dependencies().join(",")),
    },
    Field {
        letter: 'q',
        names: &["qos"],
        heading: "QOS",
        value: |job| job.asked(|desc| desc.qos.clone()),
    },
    Field {
        letter: 'k',
        names: &["comment"],
        heading: "COMMENT",
        value: |job| job.asked(|desc| desc.comment.clone()),
    },
    Field {
        letter: 'f',
        names: &["feature"],
        heading: "FEATURES",
        value: |job| job.asked(|desc| desc.features.clone()),
    },
    Field {
        letter: 'o',
        names: &["command"],
        heading: "COMMAND",
        value: |job| job.asked(|desc| desc.argv.first().cloned()),
    },
    Field {
        letter: 'v',
        names: &["reservation"],
        heading: "RESERVATION",
        value: |job| job.asked(|desc| desc.reservation.clone()),
    },
    Field {
        letter: 'Z',
        names: &["workdir"],
        heading: "WORK_DIR",
        value: |job| job.row.text("cwd").to_owned(),
    },
];

/// The number of nodes; 1 for a pending job that leaves it to the scheduler.
fn nodes(job: &JobLine) -> String {
    job.row.int("nnodes").filter(|count| *count > 0).unwrap_or(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_have_the_words_of_slurm() {
        assert_eq!(states("pd,RUNNING").unwrap(), [JobState::Pending, JobState::Running]);
        assert_eq!(states("all").unwrap(), JobState::ALL);
        assert!(
            states("x").unwrap_err().text.starts_with("Invalid job state specified: x; use PD")
        );
    }
}
