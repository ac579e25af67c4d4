//! `squeue`: lists jobs in Slurm's columns.

use std::collections::HashSet;
use std::process::ExitCode;

use jobtap_core::job::{State, StateSet};
use jobtap_core::resource::{Hostlist, Idset};
use jobtap_core::slurm::MEM_PER_CPU;
use serde_json::{Value, json};

use super::fields::{Field, Format, Order};
use super::job_line::{JobLine, JobState, date_line, display, lines, or_null, short_span};
use super::names::{print_version, split, split_ids, uids, variable};
use crate::cli::common::arrays::Named;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::rpc::services::job_list::{ALL, Constraint, List, ListId};

const COMMAND: &str = "squeue";

/// Options of `squeue`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    disable_help_flag = true,
    after_help = "\
Variables: SQUEUE_FORMAT, SQUEUE_FORMAT2 (names), SQUEUE_SORT, SLURM_BITSTR_LEN.
Left out: steps (-s), --start, --json, -i, reservations, federations and clusters."
)]
pub(crate) struct SqueueArgs {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
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
    /// Only jobs with these qualities of service
    #[arg(short = 'q', long, value_name = "QOS,..")]
    qos: Option<String>,
    /// A line for each pending job of an array
    #[arg(short = 'r', long)]
    array: bool,
    /// The order of the jobs by letters of fields, each descending with a "-": "P,t,-p"
    #[arg(short = 'S', long, value_name = "FIELD,..", allow_hyphen_values = true)]
    sort: Option<String>,
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
/// By partition, and in a partition by state and priority.
const ORDER: &str = "P,t,-p";

const LONG: &str = "%.18i %.9P %.8j %.8u %.8T %.10M %.9l %.6D %R";

/// Runs the command.
pub(crate) fn run(args: SqueueArgs) -> ExitCode {
    if args.version {
        return print_version(COMMAND);
    }
    session::with_manager(COMMAND, Family::Slurm, |client| async move {
        let format = args.parsed()?;
        let sort = args.sort.clone().or_else(|| variable("SQUEUE_SORT"));
        let order = Order::parse(sort.as_deref().unwrap_or(ORDER), FIELDS);
        let order = order.map_err(CliError::failure)?;
        let wanted: Vec<Named> = named(&args.jobs)?;
        let states = args.states.as_deref().map(states).transpose()?;
        let users = args.user.as_ref().map(|list| uids(list, &display().users)).transpose()?;
        let own = args.me.then(|| rustix::process::getuid().as_raw());
        let hosts = args.nodelist.as_ref().map(|hosts| hosts.parse::<Hostlist>()).transpose();
        let hosts = hosts.map_err(CliError::failure)?;
        let jobs = match wanted.is_empty() {
            true => args.listed(&client, states.as_deref(), users.clone(), own).await?,
            false => known(&client, &wanted, args.array, states.is_some()).await?,
        };
        let mut shown = lines(&client, jobs).await?;
        let in_list = |list: &Option<String>, text: &str| {
            list.as_ref().is_none_or(|list| split(list).iter().any(|word| word == text))
        };
        let on_hosts = |job: &JobLine| {
            hosts.as_ref().is_none_or(|wanted| {
                let own = job.row.text("nodelist").parse::<Hostlist>();
                own.is_ok_and(|own| own.iter().any(|host| wanted.contains(&host)))
            })
        };
        shown.retain(|job| {
            let user = job.row.userid();
            in_list(&args.partition, &job.partition())
                && in_list(&args.account, job.row.text("bank"))
                && in_list(&args.name, job.row.text("name"))
                && in_list(&args.qos, &job.asked(|desc| desc.qos.clone()))
                && states.as_ref().is_none_or(|states| states.contains(&job.state()))
                && (own.is_none() || user == own)
                && users.as_ref().is_none_or(|users| user.is_some_and(|u| users.contains(&u)))
                && on_hosts(job)
        });
        if states.is_none() {
            shown.retain(|job| !job.row.inactive());
        }
        // The jobs of a partition and state are in the order in which they were submitted.
        shown.sort_by_key(|job| job.row.id);
        shown.sort_by(|a, b| order.compare(a, b, number));
        let mut text = String::new();
        if args.long && !args.noheader && args.format.is_none() && args.names.is_none() {
            text += &date_line();
        }
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

impl SqueueArgs {
    fn parsed(&self) -> Result<Format<JobLine>, CliError> {
        let (letters, names) = (variable("SQUEUE_FORMAT"), variable("SQUEUE_FORMAT2"));
        let format = match (&self.format, &self.names, self.long) {
            (Some(format), ..) => Format::letters(format, FIELDS),
            (_, Some(names), _) => Format::names(names, FIELDS),
            (.., true) => Format::letters(LONG, FIELDS),
            _ => match (letters, names) {
                (Some(format), _) => Format::letters(&format, FIELDS),
                (None, Some(names)) => Format::names(&names, FIELDS),
                (None, None) => Format::letters(DEFAULT, FIELDS),
            },
        };
        format.map_err(CliError::failure)
    }

    /// The jobs that the manager lists for the options; the rest of the options is left to be applied.
    async fn listed(
        &self,
        client: &Client,
        states: Option<&[JobState]>,
        users: Option<Vec<u32>>,
        own: Option<u32>,
    ) -> Result<Vec<Value>, CliError> {
        let mut constraints = Vec::new();
        if !states.is_some_and(|states| states.iter().any(|state| state.is_final())) {
            constraints.push(Constraint::States(vec![StateSet::ACTIVE.state_bits().into()]));
        }
        let users = own.map(|own| vec![own]).into_iter().chain(users);
        constraints.extend(users.map(Constraint::Userid));
        if let Some(names) = &self.name {
            constraints.push(Constraint::Name(split(names)));
        }
        if let Some(hosts) = &self.nodelist {
            constraints.push(Constraint::Hostlist(vec![hosts.clone()]));
        }
        let constraint: Value = match constraints.is_empty() {
            true => json!({}),
            false => Constraint::And(constraints).into(),
        };
        let list = List {
            max_entries: Some(0),
            constraint: Some(constraint),
            attrs: ALL,
            arrays: true,
            since: None,
        };
        let mut jobs = client.call(list).await?.jobs;
        if self.array {
            jobs = single(jobs);
        }
        Ok(jobs)
    }
}

/// The jobs, with a line for each pending element of an array.
fn single(jobs: Vec<Value>) -> Vec<Value> {
    let mut all = Vec::with_capacity(jobs.len());
    for job in jobs {
        match elements(&job) {
            None => all.push(job),
            Some(indexes) => all.extend(indexes.iter().map(|index| of_element(&job, index))),
        }
    }
    all
}

/// The indexes of the pending elements that this line of an array stands for.
fn elements(job: &Value) -> Option<Idset> {
    job.pointer("/array/elements")?.as_str()?.parse().ok()
}

/// The line of one pending element of an array.
fn of_element(job: &Value, index: u32) -> Value {
    let mut line = job.clone();
    if let Some(array) = line.get_mut("array").and_then(Value::as_object_mut) {
        array.remove("elements");
        array.insert("element".to_owned(), index.into());
    }
    line
}

/// The line of an array for these elements alone.
fn of_elements(job: &Value, indexes: &Idset) -> Value {
    let mut line = job.clone();
    if let Some(elements) = line.pointer_mut("/array/elements") {
        *elements = indexes.to_string().into();
    }
    line
}

/// The named jobs, without asking for any other. As in Slurm, an id that isn't known is refused only if it is alone.
/// Those of an array that have ended are listed if states are asked for.
pub(super) async fn known(
    client: &Client,
    wanted: &[Named],
    each: bool,
    ended: bool,
) -> Result<Vec<Value>, CliError> {
    let (mut ids, mut elements_of) = (Vec::new(), HashSet::new());
    let mut jobs = Vec::new();
    for named in wanted {
        match named.found(client, !ended).await {
            Ok(None) => ids.push(named.id),
            Ok(Some(found)) => {
                elements_of.extend(found.jobs.values().copied());
                ids.extend(found.jobs.into_values());
                jobs.extend(pending(client, named).await?);
            }
            Err(error) if wanted.len() == 1 => return Err(error),
            Err(_) => {}
        }
    }
    ids.sort_unstable();
    ids.dedup();
    let requests = ids.iter().map(|id| ListId { id: *id, attrs: ALL });
    for (id, found) in ids.iter().zip(client.call_all(requests).await) {
        let Ok(found) = found else { continue };
        // Pending elements are on the line of their array.
        if !elements_of.contains(id) || !is_pending(&found.job) {
            jobs.push(found.job);
        }
    }
    if jobs.is_empty() && wanted.len() == 1 && elements_of.is_empty() {
        return Err(CliError::failure("Invalid job id specified"));
    }
    Ok(if each { single(jobs) } else { jobs })
}

/// The line of the pending elements of an array, of those that are named.
async fn pending(client: &Client, named: &Named) -> Result<Option<Value>, CliError> {
    let job = client.call(ListId { id: named.id, attrs: ALL }).await?.job;
    let Some(all) = elements(&job).filter(|_| is_pending(&job)) else { return Ok(None) };
    let wanted = named.indexes().map_or(all.clone(), |indexes| all.intersection(indexes));
    Ok((!wanted.is_empty()).then(|| of_elements(&job, &wanted)))
}

fn is_pending(job: &Value) -> bool {
    let state = job.get("state").cloned().and_then(|state| serde_json::from_value(state).ok());
    state.is_some_and(|state: State| StateSet::PENDING.contains(state))
}

/// The values by which jobs are sorted that their texts don't show.
fn number(letter: char, job: &JobLine) -> Option<f64> {
    match letter {
        't' | 'T' => Some(f64::from(job.state() as u8)),
        'M' => Some(job.row.runtime()),
        'l' => Some(job.time_limit().unwrap_or(f64::INFINITY)),
        'L' => Some(job.time_limit().map_or(f64::INFINITY, |limit| limit - job.row.runtime())),
        _ => None,
    }
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

pub(super) const FIELDS: &[Field<JobLine>] = &[
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
        value: |job| job.place.map_or(job.row.id, |place| place.array).as_u64().to_string(),
    },
    Field {
        letter: 'K',
        names: &["arraytaskid"],
        heading: "ARRAY_TASK_ID",
        value: |job| match job.place {
            _ if !job.pending.is_empty() => job.pending_indexes(),
            Some(place) => place.index.to_string(),
            None => "N/A".to_owned(),
        },
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
            let hosts = job.row.text("nodelist").parse::<Hostlist>();
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
        value: |job| job.dependency(),
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
    Field { letter: 'y', names: &["nice"], heading: "NICE", value: |_| "0".to_owned() },
    Field {
        letter: 'm',
        names: &["minmemory"],
        heading: "MIN_MEMORY",
        value: |job| memory(job).unwrap_or_else(|| "0".to_owned()),
    },
    Field {
        letter: 'n',
        names: &["reqnodes"],
        heading: "REQ_NODES",
        value: |job| {
            job.request.as_ref().and_then(|desc| desc.req_nodes.clone()).unwrap_or_default()
        },
    },
    Field {
        letter: 'x',
        names: &["exc_nodes"],
        heading: "EXC_NODES",
        value: |job| {
            job.request.as_ref().and_then(|desc| desc.exc_nodes.clone()).unwrap_or_default()
        },
    },
    Field {
        letter: 'W',
        names: &["licenses"],
        heading: "LICENSES",
        value: |job| job.asked(|desc| desc.licenses.clone()),
    },
    Field {
        letter: 'b',
        names: &["tres-per-node"],
        heading: "TRES_PER_NODE",
        value: |job| {
            let asked = job.request.as_ref().and_then(|desc| desc.tres_per_node.clone());
            asked.unwrap_or_else(|| "N/A".to_owned())
        },
    },
    Field {
        letter: 'Z',
        names: &["workdir"],
        heading: "WORK_DIR",
        value: |job| job.row.text("cwd").to_owned(),
    },
];

/// The memory of each node or CPU, as `2G` or `500M`.
fn memory(job: &JobLine) -> Option<String> {
    let asked = job.request.as_ref()?.pn_min_memory? & !MEM_PER_CPU;
    Some(match asked {
        0 => return None,
        mib if mib % 1024 == 0 => format!("{}G", mib / 1024),
        // A unit that would need more digits stays as it is.
        mib if mib > 1024 && mib * 100 % 1024 == 0 => format!("{:.2}G", mib as f64 / 1024.0),
        mib => format!("{mib}M"),
    })
}

/// The number of nodes; 1 for a pending job that leaves it to the scheduler.
fn nodes(job: &JobLine) -> String {
    job.row.int("nnodes").filter(|count| *count > 0).unwrap_or(1).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pending_elements_have_lines_of_their_own_if_asked_for() {
        let array = json!({"id": 7, "state": 8, "array": {"elements": "1-2,9", "limited": true}});
        let lines = single(vec![json!({"id": 3}), array]);
        let shown: Vec<String> = lines.iter().map(|line| line.to_string()).collect();
        assert_eq!(shown.len(), 4, "{shown:?}");
        let elements = lines.iter().filter_map(|line| line.pointer("/array/element")?.as_u64());
        assert_eq!(elements.collect::<Vec<_>>(), [1, 2, 9]);
    }

    #[test]
    fn states_have_the_words_of_slurm() {
        assert_eq!(states("pd,RUNNING").unwrap(), [JobState::Pending, JobState::Running]);
        assert_eq!(states("all").unwrap(), JobState::ALL);
        assert!(
            states("x").unwrap_err().text.starts_with("Invalid job state specified: x; use PD")
        );
    }
}
