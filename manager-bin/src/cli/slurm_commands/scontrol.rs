//! `scontrol`: shows jobs, nodes and partitions, changes jobs and nodes, and expands lists of hosts. Prologs and
//! epilogs of Slurm call it.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::str::FromStr;

use jobtap_core::job::{JobId, State, StateSet, Urgency};
use jobtap_core::resource::Hostlist;
use jobtap_core::slurm::{JobDescriptor, minutes_of};
use serde_json::{Map, Value, json};

use super::job_line::{ANONYMOUS, lines, states};
use super::names::print_version;
use super::nodes::{Cluster, hostlist};
use super::show;
use super::squeue::{known, named};
use crate::cli::common::arrays::{Named, jobspecs};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::sbatch::read_version;
use crate::client::{Client, RpcError};
use crate::files::input;
use crate::rpc::services::job_list::{ALL, List, ListId};
use crate::rpc::services::job_manager::{GetUptime, Requeue, Requeued, SetUrgency, Update};
use crate::rpc::services::queue::{Enable, GetOverview, Start};
use crate::rpc::services::resource::{Drain, Undrain};

const COMMAND: &str = "scontrol";

/// Options and words of `scontrol`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    after_help = "\
Words:
  show hostnames|hostlist|hostlistsorted [HOSTS]
  show job|node|partition [NAME]
  update NodeName=HOSTS State=DRAIN|RESUME Reason=TEXT
  update JobId=ID [TimeLimit=TIME] [Partition=NAME] [JobName=NAME] [Account=NAME] [Priority=N]
  update PartitionName=NAME State=UP|DOWN|DRAIN|INACTIVE
  hold|release|requeue|requeuehold ID...
  write batch_script ID [FILE|-]
  ping, version

Left out: create, delete, reconfigure, shutdown, reboot, suspend, resume, top, notify, show of anything else, and
the interactive mode. A requeued job gets an id of its own."
)]
pub(crate) struct ScontrolArgs {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// Everything, as always here
    #[arg(short = 'a', long)]
    all: bool,
    /// Details, which are not shown here
    #[arg(short = 'd', long)]
    details: bool,
    /// A line for each entity
    #[arg(short = 'o', long)]
    oneliner: bool,
    /// Print only errors
    #[arg(short = 'Q', long)]
    quiet: bool,
    /// What to do
    #[arg(value_name = "WORD", required_unless_present = "version")]
    words: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: ScontrolArgs) -> ExitCode {
    if args.version {
        return print_version(COMMAND);
    }
    session::run(COMMAND, Family::Slurm, async {
        let words: Vec<&str> = args.words.iter().map(String::as_str).collect();
        let Some((keyword, rest)) = words.split_first() else { return Ok(0u8) };
        match (keyword.to_ascii_lowercase().as_str(), rest) {
            ("show", [entity, rest @ ..]) => return show(&args, entity, rest).await,
            ("update", settings @ [_, ..]) => return update(settings).await,
            ("hold" | "uhold" | "holdu", ids @ [_, ..]) => {
                return urgency(ids, Urgency::HOLD).await;
            }
            ("release", ids @ [_, ..]) => return urgency(ids, Urgency::DEFAULT).await,
            ("requeue", ids @ [_, ..]) => return requeue(&args, ids, false).await,
            ("requeuehold", ids @ [_, ..]) => return requeue(&args, ids, true).await,
            ("write", ["batch_script", id, file @ ..]) => return write_script(id, file).await,
            ("ping", []) => {
                Client::connect().await?.call(GetUptime {}).await?;
                let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
                session::print(&format!("Slurmctld(primary) at {host} is UP\n"))?;
            }
            ("version", []) => session::print(&read_version())?,
            (word, []) if is_known(word) => {
                return Err(CliError::failure(format!("too few arguments for keyword:{word}")));
            }
            (word, _) => return Err(left_out(word)),
        }
        Ok(0)
    })
}

fn is_known(keyword: &str) -> bool {
    matches!(
        keyword,
        "show" | "update" | "hold" | "uhold" | "holdu" | "release" | "requeue" | "requeuehold"
    )
}

/// The keywords of Slurm that have no meaning here, with what to do.
const LEFT_OUT: &[(&str, &str)] = &[
    ("abort", "use jobtap shutdown"),
    ("cancel_reboot", "nodes are not rebooted here"),
    ("create", "reservations are maintenance: jobtap resource maintenance"),
    ("delete", "reservations are maintenance: jobtap resource maintenance"),
    ("listpids", "use jobtap job hostpids"),
    ("notify", "use jobtap job memo"),
    ("reboot", "nodes are not rebooted here"),
    ("reconfigure", "use jobtap config reload"),
    ("resume", "jobs are not suspended here"),
    ("setdebug", "use jobtap setattr log-level"),
    ("shutdown", "use jobtap shutdown"),
    ("suspend", "jobs are not suspended here"),
    ("takeover", "there is one manager"),
    ("top", "use jobtap job urgency ID expedite"),
    ("wait_job", "use jobtap job wait-event ID start"),
    ("write", "only batch_script; for others use jobtap config get"),
];

fn left_out(keyword: &str) -> CliError {
    let known = LEFT_OUT.iter().find(|(word, _)| *word == keyword);
    CliError::failure(match known {
        Some((word, instead)) => format!("{word} is left out here: {instead}"),
        None => format!("invalid keyword: {keyword}"),
    })
}

/// What `show` shows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shown {
    Hostnames,
    Hostlist,
    SortedHostlist,
    Jobs,
    Nodes,
    Partitions,
}

impl Shown {
    /// The words, each with the number of characters that are enough to name it.
    const WORDS: [(&str, usize, Self); 9] = [
        ("hostnames", 5, Self::Hostnames),
        ("hostlist", 5, Self::Hostlist),
        ("hostlistsorted", 9, Self::SortedHostlist),
        ("jobs", 1, Self::Jobs),
        ("jobids", 4, Self::Jobs),
        ("nodes", 1, Self::Nodes),
        ("nodename", 5, Self::Nodes),
        ("partitions", 1, Self::Partitions),
        ("partitionname", 10, Self::Partitions),
    ];

    /// What a word or its beginning names.
    fn named(word: &str) -> Option<Self> {
        let is = |(full, least, _): &&(&str, usize, Self)| {
            word.len() >= *least && full.starts_with(word)
        };
        Self::WORDS.iter().find(is).map(|(_, _, shown)| *shown)
    }
}

/// The words of Slurm that name nothing here.
const NOT_SHOWN: [&str; 15] = [
    "aliases",
    "assoc_mgr",
    "bbstat",
    "burstbuffer",
    "config",
    "daemons",
    "dwstat",
    "federation",
    "frontend",
    "licenses",
    "reservation",
    "slurmd",
    "step",
    "steps",
    "topology",
];

async fn show(args: &ScontrolArgs, entity: &str, rest: &[&str]) -> Result<u8, CliError> {
    // `show job=7` is `show job 7`.
    let (word, value) = entity.split_once('=').unzip();
    let word = word.unwrap_or(entity).to_ascii_lowercase();
    let rest: Vec<&str> = value.into_iter().chain(rest.iter().copied()).collect();
    let text = match (Shown::named(&word), rest.as_slice()) {
        (Some(Shown::Hostnames), rest) => {
            let hosts = hosts(rest)?;
            hosts.iter().map(|host| format!("{host}\n")).collect()
        }
        (Some(Shown::Hostlist), rest @ [_, ..]) => format!("{}\n", compact(&hosts(rest)?)),
        (Some(Shown::SortedHostlist), rest @ [_, ..]) => {
            let mut hosts = hosts(rest)?;
            hosts.sort();
            format!("{}\n", compact(&hosts))
        }
        (Some(Shown::Jobs), ids) => jobs(args, ids).await?,
        (Some(Shown::Nodes), names) => nodes(args, names).await?,
        (Some(Shown::Partitions), names) => partitions(args, names).await?,
        (Some(Shown::Hostlist | Shown::SortedHostlist), []) => {
            return Err(CliError::failure("invalid encode argument"));
        }
        (None, _) if NOT_SHOWN.iter().any(|known| !word.is_empty() && known.starts_with(&word)) => {
            let text = format!(
                "show {word} is left out here: there are job, node, partition and hostnames"
            );
            return Err(CliError::failure(text));
        }
        (None, _) => {
            return Err(CliError::failure(format!("invalid entity:{word} for keyword:show")));
        }
    };
    session::print(&text)?;
    Ok(0)
}

/// The hosts of a list, a file that names them, or the job's own.
fn hosts(words: &[&str]) -> Result<Hostlist, CliError> {
    let own = || {
        let variables = ["SLURM_JOB_NODELIST", "SLURM_NODELIST"];
        variables.iter().find_map(|name| std::env::var(name).ok())
    };
    let text = match words {
        [] => own().ok_or_else(|| {
            CliError::failure("host list is empty: SLURM_JOB_NODELIST is not set")
        })?,
        [file] if file.starts_with('/') => {
            let text = input::text(file)?;
            text.split_whitespace().collect::<Vec<_>>().join(",")
        }
        words => words.join(","),
    };
    text.parse().map_err(|error| CliError::failure(format!("Invalid hostlist: {text}: {error}")))
}

fn compact(hosts: &Hostlist) -> String {
    let names: Vec<String> = hosts.iter().collect();
    hostlist(names.iter().map(String::as_str))
}

async fn jobs(args: &ScontrolArgs, ids: &[&str]) -> Result<String, CliError> {
    let client = Client::connect().await?;
    let found = match ids {
        [] => {
            let list = List {
                max_entries: Some(0),
                constraint: Some(json!({})),
                attrs: ALL,
                arrays: true,
                since: None,
            };
            client.call(list).await?.jobs
        }
        ids => {
            let mut found = Vec::new();
            let words: Vec<String> = ids.iter().map(|word| (*word).to_owned()).collect();
            for named in named(&words)? {
                found.extend(known(&client, &[named], false, true).await?);
            }
            found
        }
    };
    let jobs = lines(&client, found).await?;
    Ok(show::joined(jobs.iter().map(show::job), args.oneliner))
}

async fn nodes(args: &ScontrolArgs, names: &[&str]) -> Result<String, CliError> {
    let cluster = Cluster::fetch(&Client::connect().await?).await?;
    let wanted = match names {
        [] => None,
        names => Some(hosts(names)?),
    };
    if let Some(missing) = wanted.as_ref().and_then(|hosts| {
        hosts.iter().find(|host| cluster.nodes.iter().all(|node| node.host != *host))
    }) {
        return Err(CliError::failure(format!("Node {missing} not found")));
    }
    let shown = cluster
        .nodes
        .iter()
        .filter(|node| wanted.as_ref().is_none_or(|hosts| hosts.contains(&node.host)));
    Ok(show::joined(shown.map(show::node), args.oneliner))
}

async fn partitions(args: &ScontrolArgs, names: &[&str]) -> Result<String, CliError> {
    let cluster = Cluster::fetch(&Client::connect().await?).await?;
    if let Some(missing) =
        names.iter().find(|name| cluster.partitions.iter().all(|queue| queue.name != **name))
    {
        return Err(CliError::failure(format!("Partition {missing} not found")));
    }
    let shown = cluster
        .partitions
        .iter()
        .filter(|queue| names.is_empty() || names.contains(&queue.name.as_str()));
    Ok(show::joined(shown.map(|queue| show::partition(queue, &cluster.nodes)), args.oneliner))
}

/// The keys of `update` that name what is changed. Their value may be a word of its own: `update job 7`.
const ENTITIES: [&str; 5] = ["job", "jobid", "nodename", "partition", "partitionname"];

/// The settings `KEY=VALUE` of `update`, by their keys in lower case.
fn settings(words: &[&str]) -> Result<BTreeMap<String, String>, CliError> {
    if let [entity, name, rest @ ..] = words
        && ENTITIES.contains(&entity.to_ascii_lowercase().as_str())
    {
        let mut settings = settings(rest)?;
        settings.insert(entity.to_ascii_lowercase(), (*name).to_owned());
        return Ok(settings);
    }
    let setting = |word: &&str| {
        let (key, value) = word
            .split_once('=')
            .ok_or_else(|| CliError::failure(format!("Invalid input: {word}  Request aborted")))?;
        Ok((key.to_ascii_lowercase(), value.to_owned()))
    };
    words.iter().map(setting).collect()
}

async fn update(words: &[&str]) -> Result<u8, CliError> {
    let mut settings = settings(words)?;
    if let Some(nodes) = settings.remove("nodename") {
        update_nodes(&nodes, settings).await?;
        return Ok(0);
    }
    if let Some(id) = settings.remove("jobid").or_else(|| settings.remove("job")) {
        return update_jobs(&id, settings).await;
    }
    if let Some(name) = settings.remove("partitionname").or_else(|| settings.remove("partition")) {
        update_partition(name, settings).await?;
        return Ok(0);
    }
    let text = "No valid entity in update command: only NodeName, JobId and PartitionName can be updated here";
    Err(CliError::failure(text))
}

async fn update_nodes(nodes: &str, mut settings: BTreeMap<String, String>) -> Result<(), CliError> {
    let (state, reason) = (settings.remove("state"), settings.remove("reason"));
    if let Some((key, value)) = settings.pop_first() {
        return Err(unsupported(&key, &value));
    }
    let Some(state) = state else {
        return Err(CliError::failure("NodeName needs a State here: DRAIN or RESUME"));
    };
    let client = Client::connect().await?;
    let targets = match nodes.eq_ignore_ascii_case("all") {
        true => {
            let cluster = Cluster::fetch(&client).await?;
            hostlist(cluster.nodes.iter().map(|node| node.host.as_str()))
        }
        false => nodes.to_owned(),
    };
    match state.to_ascii_lowercase().as_str() {
        "drain" | "fail" => {
            if reason.as_ref().is_none_or(String::is_empty) {
                let text =
                    "You must specify a reason when DOWNING or DRAINING a node. Request denied";
                return Err(CliError::failure(text));
            }
            let mode = Some(Drain::OVERWRITE.to_owned());
            client.call(Drain { targets, reason, mode }).await?;
        }
        "resume" | "idle" | "undrain" => {
            let mode = Some(Drain::UPDATE.to_owned());
            client.call(Undrain { targets, reason, mode }).await?;
        }
        "down" => {
            let text = "state=down is left out here: drain the node, or end its jobs with jobtap resource offline";
            return Err(CliError::failure(text));
        }
        other => {
            return Err(CliError::failure(format!("Invalid state: {other}; use DRAIN or RESUME")));
        }
    }
    Ok(())
}

/// Slurm's states of a partition, which say whether jobs are accepted, and whether they are started.
fn partition_state(word: &str) -> Option<(bool, bool)> {
    let states = [
        ("up", (true, true)),
        ("down", (true, false)),
        ("drain", (false, true)),
        ("inactive", (false, false)),
    ];
    states.into_iter().find(|(state, _)| word.eq_ignore_ascii_case(state)).map(|(_, both)| both)
}

async fn update_partition(
    name: String,
    mut settings: BTreeMap<String, String>,
) -> Result<(), CliError> {
    let state = settings.remove("state");
    if let Some((key, value)) = settings.pop_first() {
        let text = format!(
            "Update of this parameter is not supported: {key}={value}: of a partition only State can be updated here; \
             limits are in the configuration of its queue\nRequest aborted"
        );
        return Err(CliError::failure(text));
    }
    let Some(state) = state else { return Err(CliError::failure("No changes specified")) };
    let Some((enable, start)) = partition_state(&state) else {
        return Err(CliError::failure(format!(
            "Invalid input: state={state}\nAcceptable State values are UP, DOWN, DRAIN and INACTIVE"
        )));
    };
    let client = Client::connect().await?;
    let queues = client.call(GetOverview {}).await?.queues;
    let (name, all) = match queues.iter().any(|queue| queue.name == name) {
        true => (Some(name), false),
        false if name == ANONYMOUS && queues.iter().any(|queue| queue.name.is_empty()) => {
            (None, true)
        }
        false => return Err(CliError::failure("Invalid partition name specified")),
    };
    let reason =
        |closed: bool| closed.then(|| format!("the partition is {}", state.to_lowercase()));
    let request = Enable { name: name.clone(), all, enable, reason: reason(!enable) };
    client.call(request).await?;
    let request = Start { name, all, start, reason: reason(!start), nocheckpoint: false };
    client.call(request).await?;
    Ok(())
}

/// The value of `TimeLimit`.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeLimit {
    /// In seconds; 0 is no limit.
    To(f64),
    /// More or less seconds than it is.
    By(f64),
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
enum TimeLimitError {
    #[error("Invalid TimeLimit value: {0}")]
    Invalid(String),
    #[error("TimeLimit can't be changed by {0} s: the job has no limit")]
    Unlimited(i64),
    #[error("TimeLimit can't be less than it is by {0} s")]
    TooMuch(i64),
}

impl FromStr for TimeLimit {
    type Err = TimeLimitError;

    fn from_str(text: &str) -> Result<Self, TimeLimitError> {
        let bare = text.trim_start_matches(['+', '-']);
        let invalid = || TimeLimitError::Invalid(text.to_owned());
        let minutes = minutes_of(bare).ok_or_else(invalid)?;
        let seconds = f64::from(minutes) * 60.0;
        match (text.strip_suffix(bare), minutes == jobtap_core::slurm::INFINITE) {
            (Some(""), true) => Ok(Self::To(0.0)),
            (Some(""), false) => Ok(Self::To(seconds)),
            (Some("+"), false) => Ok(Self::By(seconds)),
            (Some("-"), false) => Ok(Self::By(-seconds)),
            _ => Err(invalid()),
        }
    }
}

impl TimeLimit {
    /// The new limit of a job in seconds.
    async fn seconds(self, client: &Client, id: JobId) -> Result<f64, CliError> {
        let by = match self {
            Self::To(seconds) => return Ok(seconds),
            Self::By(by) => by,
        };
        let job = client.call(ListId { id, attrs: &["duration"] }).await?.job;
        let now = job.get("duration").and_then(Value::as_f64).filter(|limit| *limit > 0.0);
        let now = now.ok_or_else(|| CliError::failure(TimeLimitError::Unlimited(by as i64)))?;
        let too_much = || CliError::failure(TimeLimitError::TooMuch(-by as i64));
        Some(now + by).filter(|limit| *limit > 0.0).ok_or_else(too_much)
    }
}

async fn update_jobs(list: &str, settings: BTreeMap<String, String>) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let mut updates: Map<String, Value> = Map::new();
    let (mut urgency, mut limit) = (None, None);
    for (key, value) in settings {
        match key.as_str() {
            "timelimit" => limit = Some(value.parse::<TimeLimit>().map_err(CliError::failure)?),
            "jobname" | "name" => {
                drop(updates.insert("attributes.system.job.name".to_owned(), value.into()))
            }
            "partition" => drop(updates.insert("attributes.system.queue".to_owned(), value.into())),
            "account" => drop(updates.insert("attributes.system.bank".to_owned(), value.into())),
            "priority" => {
                let number =
                    value.parse::<u64>().ok().and_then(|number| Urgency::new(number as i64).ok());
                let out = || {
                    CliError::failure(format!(
                        "Priority={value}: priorities are urgencies here, 0 to 31"
                    ))
                };
                urgency = Some(number.ok_or_else(out)?);
            }
            _ => return Err(unsupported(&key, &value)),
        }
    }
    each_job(
        &client,
        &[list],
        Waiting::Kept,
        |state| state != State::Inactive,
        async |id| {
            let mut updates = updates.clone();
            if let Some(limit) = limit {
                let seconds = limit.seconds(&client, id).await?;
                updates.insert("attributes.system.duration".to_owned(), seconds.into());
            }
            if !updates.is_empty() {
                let response = client.call(Update { id, updates: updates.clone() }).await;
                let response = session::print_refusal_messages(COMMAND, response);
                let updated = response.map_err(|error| for_job(id, error))?;
                session::print_plugin_messages(COMMAND, &updated.messages);
            }
            match urgency {
                Some(urgency) => set_urgency(&client, id, urgency).await,
                None => Ok(()),
            }
        },
    )
    .await
}

fn unsupported(key: &str, value: &str) -> CliError {
    CliError::failure(format!(
        "Update of this parameter is not supported: {key}={value}\nRequest aborted"
    ))
}

/// The jobs that some words name.
async fn jobs_named(client: &Client, words: &[&str]) -> Result<Vec<JobId>, CliError> {
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    let named: Vec<Named> = named(&words)?;
    let mut ids = Vec::new();
    for named in &named {
        ids.extend(named.jobs(client).await?);
    }
    Ok(ids)
}

/// What an action means to the elements of an array that aren't jobs yet.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Waiting {
    /// A whole array is acted on at once, with them.
    Changed,
    /// Nothing: it is about jobs that run.
    LeftOut,
    /// They keep the request of the array, which is an error.
    Kept,
}

/// Acts on each of the jobs that some words name. If some elements of an array are in a state
/// that `can` accepts, the others are left out. A refusal is printed, and the others follow. Returns the exit code.
async fn each_job(
    client: &Client,
    words: &[&str],
    waiting: Waiting,
    can: impl Fn(State) -> bool,
    act: impl AsyncFn(JobId) -> Result<(), CliError>,
) -> Result<u8, CliError> {
    // `hold "7 8"` is `hold 7 8`.
    let words = words.iter().flat_map(|word| word.split_whitespace());
    let words: Vec<String> = words.map(str::to_owned).collect();
    let mut code = 0;
    let mut check = |done: Result<(), CliError>| {
        if let Err(error) = done {
            session::print_error(COMMAND, Family::Slurm, &error.text);
            code = 1;
        }
    };
    for named in &named(&words)? {
        if waiting == Waiting::Changed && named.indexes().is_none() {
            check(act(named.id).await);
            continue;
        }
        let found = async {
            // Asked for first: what becomes a job meanwhile is acted on.
            let waiting = named.waiting(client).await?;
            Ok((waiting, named.jobs(client).await?))
        };
        let (elements, ids) = match found.await {
            Ok(found) => found,
            Err(error) => {
                check(Err(error));
                continue;
            }
        };
        if !elements.is_empty() && (waiting == Waiting::Kept || ids.is_empty()) {
            let text = format!(
                "{named}: the elements {elements} aren't jobs yet, and keep the request of the array"
            );
            check(Err(CliError::failure(text)));
        }
        let states = states(client, &ids).await;
        let can = |state: &Option<State>| state.is_some_and(&can);
        let skips = states.iter().any(can);
        for (id, state) in ids.into_iter().zip(states) {
            if !skips || can(&state) {
                check(act(id).await);
            }
        }
    }
    Ok(code)
}

/// `write batch_script ID [FILE]`: the script of a job; `-` as the file is standard output.
async fn write_script(word: &str, file: &[&str]) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let ids = jobs_named(&client, &[word]).await?;
    let jobspecs = jobspecs(&client, &ids).await;
    for (id, jobspec) in ids.into_iter().zip(jobspecs) {
        let script = JobDescriptor::from_jobspec(&jobspec?).script;
        let none = || CliError::failure(format!("job {} has no batch script", id.as_u64()));
        let script = script.ok_or_else(none)?;
        let name = match file {
            ["-"] if io::stdout().is_terminal() => {
                session::print(&script)?;
                continue;
            }
            ["-"] => {
                session::write(&mut io::stdout().lock(), script.as_bytes())?;
                continue;
            }
            [name] => (*name).to_owned(),
            _ => format!("slurm-{}.sh", id.as_u64()),
        };
        let failed = |error: io::Error| CliError::failure(format!("{name}: {error}"));
        std::fs::write(&name, script).map_err(failed)?;
        session::print(&format!("batch script for job {} written to {name}\n", id.as_u64()))?;
    }
    Ok(0)
}

fn for_job(id: JobId, error: RpcError) -> CliError {
    CliError::failure(format!("{error} for job {}", id.as_u64()))
}

async fn urgency(words: &[&str], urgency: Urgency) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let is_pending = |state| StateSet::PENDING.contains(state);
    each_job(&client, words, Waiting::Changed, is_pending, async |id| {
        set_urgency(&client, id, urgency).await
    })
    .await
}

async fn set_urgency(client: &Client, id: JobId, urgency: Urgency) -> Result<(), CliError> {
    let urgency = urgency.value().into();
    let response = client.call(SetUrgency { id, urgency }).await;
    let response = session::print_refusal_messages(COMMAND, response);
    let response = response.map_err(|error| for_job(id, error))?;
    session::print_plugin_messages(COMMAND, &response.messages);
    Ok(())
}

async fn requeue(args: &ScontrolArgs, words: &[&str], hold: bool) -> Result<u8, CliError> {
    let client = Client::connect().await?;
    let has_started = |state| StateSet::RUNNING.contains(state);
    each_job(&client, words, Waiting::LeftOut, has_started, async |id| {
        let response = client.call(Requeue { id, hold }).await;
        let response = session::print_refusal_messages(COMMAND, response);
        let Requeued { id: new, messages } = response.map_err(|error| for_job(id, error))?;
        session::print_plugin_messages(COMMAND, &messages);
        if !args.quiet {
            let (old, new) = (id.as_u64(), new.as_u64());
            session::print_message(&format!("{COMMAND}: job {old} runs again as job {new}"));
        }
        Ok(())
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keywords_that_are_left_out_say_what_to_do() {
        assert_eq!(
            left_out("reconfigure").text,
            "reconfigure is left out here: use jobtap config reload"
        );
        assert_eq!(left_out("foo").text, "invalid keyword: foo");
    }

    #[test]
    fn time_limits_are_set_or_changed() {
        let limit = |text: &str| text.parse::<TimeLimit>();
        assert_eq!(limit("20"), Ok(TimeLimit::To(1200.0)));
        assert_eq!(limit("+1:00:00"), Ok(TimeLimit::By(3600.0)));
        assert_eq!(limit("-5"), Ok(TimeLimit::By(-300.0)));
        assert_eq!(limit("UNLIMITED"), Ok(TimeLimit::To(0.0)));
        for text in ["", "+", "+UNLIMITED", "++5", "soon"] {
            assert_eq!(limit(text), Err(TimeLimitError::Invalid(text.to_owned())));
        }
    }

    #[test]
    fn what_is_updated_may_be_two_words() {
        let both = |words: &[&str]| settings(words).unwrap().into_iter().collect::<Vec<_>>();
        let wanted = [("job", "7"), ("timelimit", "5")].map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(both(&["JOB", "7", "TimeLimit=5"]), wanted);
        assert_eq!(both(&["job=7", "timelimit=5"]), wanted);
        assert!(settings(&["foo", "7"]).is_err());
    }

    #[test]
    fn what_is_shown_may_be_abbreviated() {
        let named =
            ["hostn", "part", "job", "jobid", "n", "hostlist", "hostlists"].map(Shown::named);
        let wanted = [
            Shown::Hostnames,
            Shown::Partitions,
            Shown::Jobs,
            Shown::Jobs,
            Shown::Nodes,
            Shown::Hostlist,
            Shown::SortedHostlist,
        ];
        assert_eq!(named, wanted.map(Some));
        assert_eq!(["host", "jobx", ""].map(Shown::named), [None; 3]);
    }

    #[test]
    fn hosts_are_lists_of_hosts() {
        let names =
            |words: &[&str]| hosts(words).map(|hosts| hosts.iter().collect::<Vec<_>>().join(" "));
        assert_eq!(names(&["a[1-2]", "b"]).unwrap(), "a1 a2 b");
        assert_eq!(compact(&hosts(&["a1,a2,a3"]).unwrap()), "a[1-3]");
        assert!(names(&["a["]).unwrap_err().text.starts_with("Invalid hostlist: a[: "));
    }
}
