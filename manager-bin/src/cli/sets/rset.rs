//! `R`: reads, makes and combines sets of resources (RFC 20), which are read from standard input.

use std::io;
use std::path::PathBuf;
use std::process::ExitCode;

use jobtap_core::resource::{Constraint, Hostlist, Idset, ResourceSet};
use serde_json::{Deserializer, Value, json};

use crate::cli::common::json::resource_line;
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::daemon::config::Source;
use crate::daemon::resources;
use crate::files::input;

const COMMAND: &str = "R";

/// Arguments of `R`.
#[derive(Debug, clap::Args)]
pub(crate) struct RsetArgs {
    #[command(subcommand)]
    command: RsetCommand,
}

/// The subcommands.
#[derive(Debug, clap::Subcommand)]
enum RsetCommand {
    /// Make a resource set from ranks, hosts, cores and GPUs
    #[command(infer_long_args = true)]
    Encode(EncodeArgs),
    /// Print the union of the sets, or what the options select of it
    #[command(infer_long_args = true)]
    Decode(DecodeArgs),
    /// Join the sets, which must have no resource in common
    Append,
    /// Subtract the other sets from the first
    Diff,
    /// Print what all sets have in common
    Intersect,
    /// Print the union of the sets with ranks that count from 0
    Remap,
    /// Print the union of the sets with ranks in the order of these hosts
    Rerank {
        /// All hosts of the sets
        #[arg(value_name = "HOSTLIST")]
        hosts: String,
    },
    /// Check that the second of two sets has all resources of the first
    Verify,
    /// Give properties to ranks of the union of the sets
    SetProperty {
        /// Property, for these ranks or for all
        #[arg(value_name = "NAME[:RANKS]", required = true)]
        properties: Vec<String>,
    },
    /// Print the resources that a configuration names
    ParseConfig {
        /// TOML file, or directory of TOML files
        #[arg(value_name = "PATH")]
        path: PathBuf,
    },
}

/// Options of `R encode`.
#[derive(Debug, Default, clap::Args)]
struct EncodeArgs {
    /// Ranks [default: one for each host, or rank 0]
    #[arg(short = 'r', long, value_name = "IDSET")]
    ranks: Option<String>,
    /// Cores of each rank [default: 0, unless --gpus is given]
    #[arg(short = 'c', long, value_name = "IDS")]
    cores: Option<String>,
    /// GPUs of each rank
    #[arg(short = 'g', long, value_name = "IDS")]
    gpus: Option<String>,
    /// Hosts of the ranks [default: this host for each]
    #[arg(short = 'H', long, value_name = "HOSTS")]
    hosts: Option<String>,
    /// Give a property to ranks, or to all (repeatable)
    #[arg(short = 'p', long, value_name = "NAME[:RANKS]")]
    property: Vec<String>,
    /// Take the cores of this host
    #[arg(short = 'l', long, conflicts_with_all = ["cores", "gpus"])]
    local: bool,
}

/// Options of `R decode`.
#[derive(Debug, Default, clap::Args)]
struct DecodeArgs {
    /// Print the short form, such as rank[0-1]/core[0-3]
    #[arg(short = 's', long)]
    short: bool,
    /// Print the hosts
    #[arg(short = 'n', long)]
    nodelist: bool,
    /// Print the ranks
    #[arg(short = 'r', long)]
    ranks: bool,
    /// Print the number of resources of a type: node, core, gpu
    #[arg(short = 'c', long, value_name = "TYPE")]
    count: Option<String>,
    /// Only these ranks
    #[arg(short = 'i', long, value_name = "RANKS")]
    include: Option<String>,
    /// Without these ranks
    #[arg(short = 'x', long, value_name = "RANKS")]
    exclude: Option<String>,
    /// Only ranks with all of these properties; ^NAME for ranks without it
    #[arg(short = 'p', long, value_name = "LIST")]
    properties: Option<String>,
}

/// Runs the command.
pub(crate) fn run(args: RsetArgs) -> ExitCode {
    session::run(COMMAND, Family::Compiled, async {
        session::print(&output(args.command, input::stdin_text)?)?;
        Ok(0)
    })
}

/// What the command prints. `input` reads standard input.
fn output(
    command: RsetCommand,
    input: impl FnOnce() -> io::Result<String>,
) -> Result<String, CliError> {
    let sets = || -> Result<Vec<ResourceSet>, CliError> { read(&input()?) };
    let set = match command {
        RsetCommand::Encode(args) => encode(&args)?,
        RsetCommand::Decode(args) => return decode(union(sets()?)?, &args),
        RsetCommand::Append => fold(sets()?, |all, set| {
            all.append(set).map_err(|error| CliError::failure(format!("append: {error}")))
        })?,
        RsetCommand::Diff => fold(several("diff", sets()?)?, |all, set| {
            all.subtract(set);
            Ok(())
        })?,
        RsetCommand::Intersect => fold(several("intersect", sets()?)?, |all, set| {
            *all = all.intersection(set);
            Ok(())
        })?,
        RsetCommand::Remap => union(sets()?)?.remap(),
        RsetCommand::Rerank { hosts } => {
            let hosts = hostlist(&hosts)?;
            let set = union(sets()?)?.rerank(&hosts);
            set.map_err(|error| CliError::failure(format!("rerank: {error}")))?
        }
        RsetCommand::Verify => return verify(&sets()?).map(|()| String::new()),
        RsetCommand::SetProperty { properties } => with_properties(union(sets()?)?, &properties)?,
        RsetCommand::ParseConfig { path } => {
            let source = Source::new(&[path], Vec::new()).map_err(CliError::failure)?;
            let config = source.read().map_err(CliError::failure)?;
            let set = resources::configured_set(&config);
            let set =
                set.map_err(|error| CliError::failure(format!("Config file error: {error}")))?;
            let none = "Config file error: resource.config or resource.path must be defined";
            set.ok_or_else(|| CliError::failure(none))?
        }
    };
    Ok(resource_line(&set))
}

/// Reads all objects of a text.
fn read(text: &str) -> Result<Vec<ResourceSet>, CliError> {
    let mut sets = Vec::new();
    for value in Deserializer::from_str(text).into_iter::<Value>() {
        let number = sets.len() + 1;
        let failed = |error: &dyn std::fmt::Display| {
            CliError::failure(format!("R object {number} on stdin: {error}"))
        };
        let value = value.map_err(|error| failed(&error))?;
        sets.push(ResourceSet::from_value(&value).map_err(|error| failed(&error))?);
    }
    Ok(sets)
}

/// Returns the sets, or an error for a single set, for a command that compares several.
fn several(command: &str, sets: Vec<ResourceSet>) -> Result<Vec<ResourceSet>, CliError> {
    match sets.len() {
        1 => Err(CliError::failure(format!("{command} requires at least 2 resource sets"))),
        _ => Ok(sets),
    }
}

fn fold(
    sets: Vec<ResourceSet>,
    mut combine: impl FnMut(&mut ResourceSet, &ResourceSet) -> Result<(), CliError>,
) -> Result<ResourceSet, CliError> {
    let mut sets = sets.into_iter();
    let mut all = sets.next().ok_or_else(|| CliError::failure("failed to read R on stdin"))?;
    sets.try_for_each(|set| combine(&mut all, &set))?;
    Ok(all)
}

fn union(sets: Vec<ResourceSet>) -> Result<ResourceSet, CliError> {
    fold(sets, |all, set| {
        all.union_with(set);
        Ok(())
    })
}

fn idset(option: &str, text: &str) -> Result<Idset, CliError> {
    let failed = |_| CliError::failure(format!("Failed to decode {option}='{text}' as idset"));
    text.parse().map_err(failed)
}

fn hostlist(text: &str) -> Result<Hostlist, CliError> {
    text.parse().map_err(|error| CliError::failure(format!("invalid hostlist '{text}': {error}")))
}

fn encode(args: &EncodeArgs) -> Result<ResourceSet, CliError> {
    let hosts = args.hosts.as_deref().map(hostlist).transpose()?;
    let ranks = match (&args.ranks, &hosts) {
        (Some(ranks), _) => idset("ranks", ranks)?,
        (None, Some(hosts)) => (0..).take(hosts.len()).collect(),
        (None, None) => Idset::from(0..=0),
    };
    let hosts = match (hosts, &args.hosts) {
        (Some(hosts), Some(text)) if hosts.len() != ranks.len() => {
            let count = ranks.len();
            let text = format!("hostname count in '{text}' does not match nranks ({count})");
            return Err(CliError::failure(text));
        }
        (Some(hosts), _) => hosts,
        (None, _) => this_host(ranks.len())?,
    };
    let mut children = serde_json::Map::new();
    let gpus = args.gpus.as_deref().filter(|text| !text.is_empty());
    let cores = args.cores.as_deref().filter(|text| !text.is_empty());
    let cores = match (args.local, cores, gpus) {
        (true, ..) => Some(resources::available_cores(false).map_err(CliError::failure)?),
        (false, Some(cores), _) => Some(idset("cores", cores)?),
        (false, None, None) => Some(Idset::from(0..=0)),
        (false, None, Some(_)) => None,
    };
    let gpus = gpus.map(|gpus| idset("gpus", gpus)).transpose()?;
    for (kind, ids) in [("core", cores), ("gpu", gpus)] {
        children.extend(ids.map(|ids| (kind.to_owned(), json!(ids.to_string()))));
    }
    let set = json!({
        "version": 1,
        "execution": {
            "R_lite": [{"rank": ranks.to_string(), "children": children}],
            "nodelist": [hosts.to_string()],
            "starttime": 0,
            "expiration": 0,
        },
    });
    let set = ResourceSet::from_value(&set)
        .map_err(|error| CliError::failure(format!("encode: {error}")))?;
    with_properties(set, &args.property)
}

/// This host, once for each rank.
fn this_host(count: usize) -> Result<Hostlist, CliError> {
    let name = resources::hostname();
    let mut hosts = Hostlist::new();
    for _ in 0..count {
        hosts.push(&name).map_err(CliError::failure)?;
    }
    Ok(hosts)
}

/// The set with properties, each written as `NAME` or `NAME:RANKS`.
fn with_properties(mut set: ResourceSet, properties: &[String]) -> Result<ResourceSet, CliError> {
    for property in properties {
        let (name, ranks) = match property.split_once(':') {
            Some((name, ranks)) => (name, idset(name, ranks)?),
            None => (property.as_str(), set.ranks()),
        };
        let failed =
            |error| CliError::failure(format!("failed to assign properties: {property}: {error}"));
        set.set_property(name, &ranks).map_err(failed)?;
    }
    Ok(set)
}

fn decode(mut set: ResourceSet, args: &DecodeArgs) -> Result<String, CliError> {
    if let Some(list) = &args.properties {
        let names: Vec<&str> = list.split(',').collect();
        let constraint = Constraint::from_value(&json!({ "properties": names }))
            .map_err(|error| CliError::failure(format!("Invalid property constraint: {error}")))?;
        set = set.matching(&constraint);
    }
    if let Some(ranks) = &args.include {
        set = set.with_ranks(&idset("include", ranks)?);
    }
    if let Some(ranks) = &args.exclude {
        set = set.without_ranks(&idset("exclude", ranks)?);
    }
    let mut lines = Vec::new();
    if args.short {
        lines.push(set.summary());
    }
    if args.nodelist {
        lines.push(set.nodelist().to_string());
    }
    if args.ranks {
        lines.push(set.ranks().to_string());
    }
    if let Some(kind) = &args.count {
        let of_kind = || set.iter().filter_map(|rank| Some(rank.children().get(kind)?.len())).sum();
        let count = if kind == "node" { set.nnodes() } else { of_kind() };
        lines.push(count.to_string());
    }
    if lines.is_empty() {
        return Ok(resource_line(&set));
    }
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// Checks that the second set has, for each rank of the first, the same host and at least the same resources.
fn verify(sets: &[ResourceSet]) -> Result<(), CliError> {
    let [expected, found] = sets else {
        return Err(CliError::failure("verify requires exactly 2 R objects on stdin"));
    };
    for rank in expected.iter() {
        let number = rank.rank();
        let host = rank.host().unwrap_or_default();
        let fail = |text: String| Err(CliError::failure(format!("rank {number} ({host}) {text}")));
        let Some(other) = found.rank(number) else {
            return fail("not found in second R".to_owned());
        };
        let other_host = other.host().unwrap_or_default();
        if other_host != host {
            return fail(format!("has the hostname {other_host} in second R"));
        }
        let missing = rank.children().difference(other.children());
        if !missing.is_empty() {
            return fail(format!("missing resources: {}", missing.summary()));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: RsetArgs,
    }

    /// The output of a command with this standard input, and its error.
    #[track_caller]
    fn r(line: &str, input: &str) -> Result<String, CliError> {
        let words = ["R"].into_iter().chain(line.split(' '));
        let command = Command::try_parse_from(words).unwrap().args.command;
        output(command, || Ok(input.to_owned()))
    }

    #[track_caller]
    fn short(line: &str, input: &str) -> String {
        r("decode -s", &r(line, input).unwrap()).unwrap().trim_end().to_owned()
    }

    #[test]
    fn encode_makes_a_set_that_decode_describes() {
        let set = r("encode -r 0-1 -c 0-3 -g 0 -H n[1-2]", "").unwrap();
        let wanted = "rank[0-1]/core[0-3],gpu0\nn[1-2]\n0-1\n8\n";
        assert_eq!(r("decode -s -n -r -c core", &set).unwrap(), wanted);
        assert_eq!(r("decode --count=node", &set).unwrap(), "2\n");
        assert_eq!(r("decode --count=gpu -i 1", &set).unwrap(), "1\n");
        assert_eq!(r("decode -x 0 --nodelist", &set).unwrap(), "n2\n");
        assert_eq!(r("decode", &set).unwrap(), set);
        assert_eq!(short("encode", ""), "rank0/core0");
        assert_eq!(short("encode -H n[5-6]", ""), "rank[0-1]/core0");
        assert_eq!(short("encode -g 1", ""), "rank0/gpu1");
    }

    #[test]
    fn properties_are_set_and_select_ranks() {
        let set = r("encode -r 0-3 -H n[0-3] -p all -p odd:1,3", "").unwrap();
        assert_eq!(r("decode -r -p odd", &set).unwrap(), "1,3\n");
        assert_eq!(r("decode -r -p all,^odd", &set).unwrap(), "0,2\n");
        let more = r("set-property new:0 all", &set).unwrap();
        assert_eq!(r("decode -r -p new", &more).unwrap(), "0\n");
        let error = r("set-property a:9", &set).unwrap_err().text;
        assert!(error.starts_with("failed to assign properties: a:9: "), "{error}");
    }

    #[test]
    fn sets_are_combined() {
        let one = r("encode -r 0-1 -c 0-1 -H n[0-1]", "").unwrap();
        let two = r("encode -r 1-2 -c 0 -H n[1-2]", "").unwrap();
        let both = format!("{one}{two}");
        assert_eq!(short("diff", &both), "rank0/core[0-1] rank1/core1");
        assert_eq!(short("intersect", &both), "rank1/core0");
        assert_eq!(r("decode -s", &both).unwrap(), "rank[0-1]/core[0-1] rank2/core0\n");
        assert!(r("append", &both).unwrap_err().text.starts_with("append: "));
        assert_eq!(r("diff", &one).unwrap_err().text, "diff requires at least 2 resource sets");
        let apart = format!("{}{one}", r("encode -r 7 -H n7", "").unwrap());
        assert_eq!(short("append", &apart), "rank[0-1]/core[0-1] rank7/core0");
        assert_eq!(short("remap", &apart), "rank[0-1]/core[0-1] rank2/core0");
        assert_eq!(short("rerank n7,n1,n0", &apart), "rank0/core0 rank[1-2]/core[0-1]");
        assert!(r("rerank n7", &apart).unwrap_err().text.starts_with("rerank: "));
    }

    #[test]
    fn verify_names_what_is_missing() {
        let set = |cores: &str| r(&format!("encode -r 0 -c {cores} -H n0"), "").unwrap();
        assert_eq!(r("verify", &format!("{}{}", set("0"), set("0-1"))).unwrap(), "");
        let error = r("verify", &format!("{}{}", set("0-1"), set("0"))).unwrap_err().text;
        assert_eq!(error, "rank 0 (n0) missing resources: core1");
        let error = r("verify", &set("0")).unwrap_err().text;
        assert_eq!(error, "verify requires exactly 2 R objects on stdin");
        let other = r("encode -r 1 -H n1", "").unwrap();
        let error = r("verify", &format!("{}{other}", set("0"))).unwrap_err().text;
        assert_eq!(error, "rank 0 (n0) not found in second R");
    }

    #[test]
    fn invalid_input_is_refused_by_its_place() {
        assert_eq!(r("decode", "").unwrap_err().text, "failed to read R on stdin");
        let set = r("encode", "").unwrap();
        let error = r("decode", &format!("{set}{{")).unwrap_err().text;
        assert!(error.starts_with("R object 2 on stdin: EOF while parsing"), "{error}");
        assert!(r("decode", "{}").unwrap_err().text.starts_with("R object 1 on stdin: "));
        let error = r("encode -r 0-", "").unwrap_err().text;
        assert_eq!(error, "Failed to decode ranks='0-' as idset");
        let error = r("encode -r 0-2 -H a,b", "").unwrap_err().text;
        assert_eq!(error, "hostname count in 'a,b' does not match nranks (3)");
        let error = r("encode -H a[", "").unwrap_err().text;
        assert!(error.starts_with("invalid hostlist 'a[': "), "{error}");
        let error = r("decode -x a", &set).unwrap_err().text;
        assert_eq!(error, "Failed to decode exclude='a' as idset");
    }

    #[test]
    fn the_configured_resources_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("r.toml");
        let parse = || r(&format!("parse-config {}", path.display()), "");
        std::fs::write(&path, "[[resource.config]]\nhosts = \"n[0-1]\"\ncores = \"0-3\"\n")
            .unwrap();
        let set = parse().unwrap();
        assert_eq!(r("decode -s -n", &set).unwrap(), "rank[0-1]/core[0-3]\nn[0-1]\n");
        std::fs::write(&path, "[resource]\n").unwrap();
        assert_eq!(
            parse().unwrap_err().text,
            "Config file error: resource.config or resource.path must be defined"
        );
    }
}
