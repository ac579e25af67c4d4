//! `hostlist`: combines lists of hosts (RFC 29), some of which come from jobs or from the manager.

use std::collections::HashMap;
use std::io::BufRead;
use std::process::ExitCode;

use jobtap_core::job::JobId;
use jobtap_core::resource::{Hostlist, Idset, ResourceSet};
use serde_json::Value;

use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::{Client, RpcError};
use crate::rpc::errno::ENOENT;
use crate::rpc::services::attr::Get;
use crate::rpc::services::job_list::{ALL, ListId};
use crate::rpc::services::resource::GetStatus;

const COMMAND: &str = "hostlist";

/// The variables with the id of the job that this command is a task of.
const JOB: [&str; 2] = ["JOBTAP_JOB_ID", "FLUX_JOB_ID"];

/// Options and arguments of `hostlist`.
#[derive(Debug, Default, clap::Args)]
#[command(after_help = concat!(
    "Sources:\n",
    "  instance      all hosts of the manager\n",
    "  JOBID         the hosts of a job\n",
    "  local         the hosts of the current job, or those of the manager outside of a job\n",
    "  avail[able]   the hosts of the manager that are neither offline nor drained\n",
    "  stdin, -      lines of standard input; the default\n",
    "  HOSTS         a list of hosts, such as node[1-3],login",
))]
pub(crate) struct HostlistArgs {
    /// Print each host, separated by the delimiter
    #[arg(short = 'e', long, conflicts_with = "count")]
    expand: bool,
    /// Delimiter of --expand; \n is a newline [default: a blank]
    #[arg(short = 'd', long, value_name = "S")]
    delimiter: Option<String>,
    /// Print the number of hosts
    #[arg(short = 'c', long)]
    count: bool,
    /// Print the hosts at these indices, or with - at these indices from the end
    #[arg(short = 'n', long, value_name = "[-]IDS", allow_hyphen_values = true)]
    nth: Option<String>,
    /// Print the indices of these hosts; a missing host is an error
    #[arg(short = 'F', long, value_name = "HOSTS")]
    find: Option<String>,
    /// Print at most N hosts, or with -N the last N hosts
    #[arg(short = 'L', long, value_name = "N", allow_negative_numbers = true)]
    limit: Option<i64>,
    /// Sort the hosts
    #[arg(short = 'S', long)]
    sort: bool,
    /// Remove these hosts, or the hosts at these indices
    #[arg(short = 'x', long, value_name = "IDS|HOSTS")]
    exclude: Option<String>,
    /// Sort the hosts and print each once
    #[arg(short = 'u', long, visible_alias = "unique")]
    union: bool,
    /// Print the hosts that are in all sources
    #[arg(short = 'i', long, group = "operation")]
    intersect: bool,
    /// Remove the hosts of the other sources from the first, as often as they are there
    #[arg(short = 'm', long, group = "operation")]
    minus: bool,
    /// Print the hosts that are in an odd number of sources
    #[arg(short = 'X', long, group = "operation")]
    xor: bool,
    /// Take a source for a host if it looks like a job id but no job has it
    #[arg(short = 'f', long)]
    fallback: bool,
    /// Without sources, take local instead of stdin
    #[arg(short = 'l', long)]
    local: bool,
    /// Print nothing; the exit code is 1 if there is no host
    #[arg(short = 'q', long)]
    quiet: bool,
    /// Sources of hosts
    #[arg(value_name = "SOURCES")]
    sources: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: HostlistArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let lists = Sources::default().read(&args).await?;
        let hosts = combined(&args, lists)?;
        let text = text(&args, &hosts)?;
        if !args.quiet {
            session::print(&text)?;
        }
        Ok(u8::from(args.quiet && hosts.is_empty()))
    })
}

/// The sources of hosts. Connects to the manager only if a source needs it.
#[derive(Default)]
struct Sources {
    client: Option<Client>,
}

impl Sources {
    async fn read(mut self, args: &HostlistArgs) -> Result<Vec<Hostlist>, CliError> {
        if args.sources.is_empty() {
            let source = if args.local { "local" } else { "stdin" };
            return Ok(vec![self.source(source, args.fallback).await?]);
        }
        let mut lists = Vec::new();
        for source in &args.sources {
            lists.push(self.source(source, args.fallback).await?);
        }
        Ok(lists)
    }

    async fn source(&mut self, source: &str, fallback: bool) -> Result<Hostlist, CliError> {
        match source {
            "stdin" | "-" => from_lines(std::io::stdin().lock()),
            "instance" => self.instance().await,
            "avail" | "available" => self.available().await,
            "local" => match JOB.iter().find_map(|name| std::env::var(name).ok()) {
                Some(job) => self.job(&job, false).await,
                None => self.instance().await,
            },
            _ => self.job(source, fallback).await,
        }
    }

    async fn client(&mut self) -> Result<&Client, CliError> {
        match &mut self.client {
            Some(client) => Ok(client),
            none => Ok(none.insert(Client::connect().await?)),
        }
    }

    async fn instance(&mut self) -> Result<Hostlist, CliError> {
        let name = "hostlist".to_owned();
        let hosts = self.client().await?.call(Get { name }).await?.value;
        parse(&hosts)
    }

    async fn available(&mut self) -> Result<Hostlist, CliError> {
        let status = self.client().await?.call(GetStatus {}).await?;
        let all = ResourceSet::from_value(&status.r).map_err(CliError::failure)?;
        let ids = |text: &str| text.parse::<Idset>().unwrap_or_default();
        let mut ranks = ids(&status.online).difference(&ids(&status.exclude));
        for (drained, _) in &status.drain {
            ranks = ranks.difference(&ids(drained));
        }
        Ok(all.with_ranks(&ranks).nodelist())
    }

    /// The hosts of a job. A source that is not a job id is a list of hosts.
    async fn job(&mut self, source: &str, fallback: bool) -> Result<Hostlist, CliError> {
        let Ok(id) = source.parse::<JobId>() else {
            return parse(source);
        };
        match self.client().await?.call(ListId { id, attrs: ALL }).await {
            Ok(job) => parse(job.job.get("nodelist").and_then(Value::as_str).unwrap_or_default()),
            Err(RpcError { errno: ENOENT, .. }) if fallback => parse(source),
            Err(RpcError { errno: ENOENT, .. }) => {
                Err(CliError::failure(format!("job {source} not found")))
            }
            Err(error) => Err(CliError::failure(format!("job {source}: {error}"))),
        }
    }
}

fn parse(text: &str) -> Result<Hostlist, CliError> {
    let invalid = |_| CliError::failure(format!("Invalid jobid or hostlist {text}"));
    text.parse().map_err(invalid)
}

fn from_lines(input: impl BufRead) -> Result<Hostlist, CliError> {
    let mut hosts = Hostlist::new();
    for (number, line) in (1..).zip(input.lines()) {
        let invalid =
            |error| CliError::failure(format!("stdin: line {number}: invalid hostlist: {error}"));
        hosts.append(&line?.trim_end().parse().map_err(invalid)?);
    }
    Ok(hosts)
}

/// The hosts of `first` for which `keep` is true.
fn filtered(first: &Hostlist, keep: impl Fn(&str) -> bool) -> Result<Hostlist, CliError> {
    collected(first.iter().filter(|host| keep(host)))
}

/// The hosts of `first`, without the first N occurrences of each name that `removed` has N times.
fn minus(first: &Hostlist, removed: &Hostlist) -> Result<Hostlist, CliError> {
    let mut unique = first.clone();
    unique.uniq();
    if unique.len() == first.len() {
        // Faster than the loop below, which looks at each name; there may be very many.
        unique = first.clone();
        unique.delete(removed);
        return Ok(unique);
    }
    let mut left: HashMap<String, usize> = HashMap::new();
    for host in removed.iter() {
        *left.entry(host).or_default() += 1;
    }
    collected(first.iter().filter(|host| match left.get_mut(host) {
        Some(count @ 1..) => {
            *count -= 1;
            false
        }
        _ => true,
    }))
}

fn collected(names: impl Iterator<Item = String>) -> Result<Hostlist, CliError> {
    let mut hosts = Hostlist::new();
    for name in names {
        hosts.push(&name).map_err(CliError::failure)?;
    }
    Ok(hosts)
}

/// The hosts of all sources, combined and selected by the options.
fn combined(args: &HostlistArgs, lists: Vec<Hostlist>) -> Result<Hostlist, CliError> {
    let mut lists = lists.into_iter();
    let mut hosts = lists.next().unwrap_or_default();
    for list in lists {
        if args.intersect {
            hosts = filtered(&hosts, |host| list.contains(host))?;
            hosts.uniq();
        } else if args.minus {
            hosts = minus(&hosts, &list)?;
        } else if args.xor {
            let mut either = filtered(&hosts, |host| !list.contains(host))?;
            either.append(&filtered(&list, |host| !hosts.contains(host))?);
            either.uniq();
            hosts = either;
        } else {
            hosts.append(&list);
        }
    }
    if let Some(excluded) = &args.exclude {
        hosts = without(hosts, excluded)?;
    }
    if args.sort {
        hosts.sort();
    }
    if args.union {
        hosts.uniq();
    }
    if let Some(limit) = args.limit.filter(|limit| *limit != 0) {
        let count = usize::try_from(limit.unsigned_abs()).unwrap_or(usize::MAX);
        let skipped = if limit > 0 { 0 } else { hosts.len().saturating_sub(count) };
        hosts = collected(hosts.iter().skip(skipped).take(count))?;
    }
    match &args.nth {
        Some(indices) => nth(&hosts, indices),
        None => Ok(hosts),
    }
}

/// Removes hosts or, if none of them is in the list, the hosts at these indices.
fn without(mut hosts: Hostlist, excluded: &str) -> Result<Hostlist, CliError> {
    let invalid = |error| CliError::failure(format!("--exclude={excluded}: {error}"));
    if hosts.delete(&excluded.parse().map_err(invalid)?) > 0 {
        return Ok(hosts);
    }
    match excluded.parse::<Idset>() {
        Ok(indices) => {
            let kept = (0u32..).zip(hosts.iter()).filter(|(index, _)| !indices.contains(*index));
            collected(kept.map(|(_, host)| host))
        }
        Err(_) => Ok(hosts),
    }
}

/// The hosts at these indices, in the order of the list.
fn nth(hosts: &Hostlist, indices: &str) -> Result<Hostlist, CliError> {
    let from_end = indices.strip_prefix('-');
    let wanted: Idset = from_end
        .unwrap_or(indices)
        .parse()
        .map_err(|error| CliError::failure(format!("--nth={indices}: {error}")))?;
    let count = hosts.len();
    let name = |index: u32| {
        let at = usize::try_from(index).ok();
        let at = if from_end.is_some() { at.and_then(|at| count.checked_sub(at)) } else { at };
        at.and_then(|at| hosts.nth(at))
            .ok_or_else(|| CliError::failure("Hostlist index out of range"))
    };
    let names: Result<Vec<String>, CliError> = match from_end {
        Some(_) => wanted.iter().rev().map(name).collect(),
        None => wanted.iter().map(name).collect(),
    };
    collected(names?.into_iter())
}

/// What is printed for the hosts.
fn text(args: &HostlistArgs, hosts: &Hostlist) -> Result<String, CliError> {
    let text = if let Some(wanted) = &args.find {
        let wanted: Hostlist = wanted
            .parse()
            .map_err(|error| CliError::failure(format!("--find={wanted}: {error}")))?;
        let index = |host: String| {
            let found = hosts.find(&host).map(|index| index.to_string());
            found.ok_or_else(|| CliError::failure(format!("host '{host}' not found")))
        };
        wanted.iter().map(index).collect::<Result<Vec<String>, CliError>>()?.join(" ")
    } else if args.count {
        hosts.len().to_string()
    } else if hosts.is_empty() {
        return Ok(String::new());
    } else if args.expand {
        let delimiter = args.delimiter.as_deref().unwrap_or(" ").replace("\\n", "\n");
        hosts.iter().collect::<Vec<String>>().join(&delimiter)
    } else {
        hosts.to_string()
    };
    Ok(text + "\n")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: HostlistArgs,
    }

    /// The output for lists of hosts.
    fn try_hosts(line: &str) -> Result<String, CliError> {
        let words = ["hostlist"].into_iter().chain(line.split(' '));
        let args = Command::try_parse_from(words).unwrap().args;
        let lists = args.sources.iter().map(|text| parse(text)).collect::<Result<Vec<_>, _>>();
        let hosts = lists.and_then(|lists| combined(&args, lists));
        hosts.and_then(|hosts| text(&args, &hosts))
    }

    #[track_caller]
    fn hosts(line: &str) -> String {
        try_hosts(line).unwrap().trim_end_matches('\n').to_owned()
    }

    #[test]
    fn lists_are_joined_or_combined_as_sets() {
        assert_eq!(hosts("h2 h1 h[1-2]"), "h[2,1,1-2]");
        assert_eq!(hosts("-u h2 h1 h[1-2]"), "h[1-2]");
        assert_eq!(hosts("--sort h2 h1"), "h[1-2]");
        assert_eq!(hosts("-i h[1-5] h[4-9] h[5,4]"), "h[4-5]");
        assert_eq!(hosts("--minus h[1-5] h2 h4"), "h[1,3,5]");
        assert_eq!(hosts("-m h1,h1,h1 h1,h1"), "h1");
        assert_eq!(hosts("-m h1,h2,h1 h1,h3"), "h[2,1]");
        assert_eq!(hosts("-X h[1-3] h[3-4]"), "h[1-2,4]");
        assert_eq!(hosts("-i h1 h2"), "");
    }

    #[test]
    fn hosts_are_selected_by_name_and_by_index() {
        assert_eq!(hosts("-x h2 h[1-3]"), "h[1,3]");
        assert_eq!(hosts("-x 0 h[1-3]"), "h[2-3]");
        assert_eq!(hosts("-L 2 h[1-5]"), "h[1-2]");
        assert_eq!(hosts("-L -2 h[1-5]"), "h[4-5]");
        assert_eq!(hosts("-n 0,2 h[1-5]"), "h[1,3]");
        assert_eq!(hosts("-n -1 h[1-5]"), "h5");
        assert_eq!(hosts("-n -1-2 h[1-5]"), "h[4-5]");
        assert_eq!(hosts("--find h[3,1] h[1-5]"), "2 0");
    }

    #[test]
    fn hosts_are_counted_or_printed_one_by_one() {
        assert_eq!(hosts("-c h[1-5] h1"), "6");
        assert_eq!(hosts("-e h[1-3]"), "h1 h2 h3");
        assert_eq!(hosts("-e -d , h[1-3]"), "h1,h2,h3");
        assert_eq!(hosts(r"-ed\n h[1-2]"), "h1\nh2");
    }

    #[test]
    fn invalid_lists_and_indices_are_refused_by_their_place() {
        for (line, wanted) in [
            ("h[", "Invalid jobid or hostlist h["),
            ("-n 9 h1", "Hostlist index out of range"),
            ("-n -2 h1", "Hostlist index out of range"),
            ("-n x h1", "--nth=x: "),
            ("-F h9 h1", "host 'h9' not found"),
            ("-x h[ h1", "--exclude=h[: "),
        ] {
            let error = try_hosts(line).unwrap_err().text;
            assert!(error.starts_with(wanted), "{line}: {error}");
        }
        let error = from_lines("a\nb[\n".as_bytes()).unwrap_err();
        assert!(error.text.starts_with("stdin: line 2: invalid hostlist: "), "{}", error.text);
    }
}
