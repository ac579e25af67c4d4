//! `sinfo`: lists nodes by partition and state, in Slurm's columns.

use std::process::ExitCode;

use jobtap_core::resource::Hostlist;

use super::fields::{Field, Format};
use super::job_line::{NULL, display, short_span, time};
use super::names::split;
use super::nodes::{Cluster, Node, Reason, hostlist};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::rpc::services::queue::Queue;

const COMMAND: &str = "sinfo";

/// Options of `sinfo`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    disable_help_flag = true,
    after_help = "Left out: -i, reservations (-T), clusters, and the fields of memory, disks and load."
)]
pub(crate) struct SinfoArgs {
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// All partitions, as always here
    #[arg(short = 'a', long)]
    all: bool,
    /// Print no headings
    #[arg(short = 'h', long)]
    noheader: bool,
    /// More columns
    #[arg(short = 'l', long)]
    long: bool,
    /// A line for each node
    #[arg(short = 'N', long = "Node")]
    node: bool,
    /// Only these nodes
    #[arg(short = 'n', long, value_name = "HOSTS")]
    nodes: Option<String>,
    /// Fields by their letters: "%P %.6D %t %N"
    #[arg(short = 'o', long, value_name = "FORMAT")]
    format: Option<String>,
    /// Fields by their names: partition,nodes:6,nodelist
    #[arg(short = 'O', long = "Format", value_name = "FIELD,..", conflicts_with = "format")]
    names: Option<String>,
    /// Only these partitions
    #[arg(short = 'p', long, value_name = "PARTITION,..")]
    partition: Option<String>,
    /// The reasons of nodes that are unavailable
    #[arg(short = 'R', long)]
    list_reasons: bool,
    /// A line for each partition
    #[arg(short = 's', long)]
    summarize: bool,
    /// Only nodes in these states: idle, alloc, mix, drain, down, maint
    #[arg(short = 't', long, value_name = "STATE,..")]
    states: Option<String>,
}

/// A line: nodes of a partition that the format shows alike.
struct Line {
    partition: Queue,
    nodes: Vec<Node>,
}

/// The widths follow from the longest text, as Slurm's `%#P` does.
const TABLE: &str = "%{P} %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%{P} %.5a %.10l %.10s %.6D %.11T %N";
const OF_NODES: &str = "%{N} %.6D %.9P %6t";
const OF_NODES_LONG: &str = "%{N} %.6D %.9P %.11T %4c %.8f %20E";
const REASONS: &str = "%20E %9u %19H %N";
const SUMMARY: &str = "%{P} %.5a %.10l %.16F %N";

/// Runs the command.
pub(crate) fn run(args: SinfoArgs) -> ExitCode {
    session::with_manager(COMMAND, Family::Slurm, |client| async move {
        let Cluster { mut nodes, mut partitions } = Cluster::fetch(&client).await?;
        if let Some(hosts) = &args.nodes {
            let hosts: Hostlist = hosts.parse().map_err(CliError::failure)?;
            nodes.retain(|node| hosts.contains(&node.host));
        }
        if let Some(states) = &args.states {
            let words = split(states);
            nodes.retain(|node| words.iter().any(|word| node.state.is_named(word)));
        }
        if args.list_reasons {
            nodes.retain(|node| node.reason.is_some());
        }
        if let Some(names) = &args.partition {
            let names = split(names);
            partitions.retain(|partition| names.contains(&partition.name));
        }
        let empty = args.nodes.is_none() && args.states.is_none() && !args.node;
        let lines = match args.list_reasons {
            true => by_reason(nodes),
            false => lines(&args, &nodes, &partitions, empty),
        };
        let format = format(&args, &lines)?;
        let mut text = String::new();
        if !args.noheader {
            text += &format!("{}\n", format.heading());
        }
        for line in &lines {
            text += &format!("{}\n", format.line(line));
        }
        session::print(&text)?;
        Ok(0)
    })
}

fn lines(args: &SinfoArgs, nodes: &[Node], partitions: &[Queue], empty: bool) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    if args.node {
        for node in nodes {
            let of_node = partitions.iter().filter(|queue| node.partitions.contains(&queue.name));
            let line = |queue: &Queue| Line { partition: queue.clone(), nodes: vec![node.clone()] };
            lines.extend(of_node.map(line));
        }
        return lines;
    }
    for partition in partitions {
        let of_partition = nodes.iter().filter(|node| node.partitions.contains(&partition.name));
        let mut groups: Vec<Vec<Node>> = Vec::new();
        for node in of_partition {
            let same = |group: &&mut Vec<Node>| {
                args.summarize
                    || group
                        .iter()
                        .all(|other| other.state == node.state && other.cores == node.cores)
            };
            match groups.iter_mut().find(same) {
                Some(group) => group.push(node.clone()),
                None => groups.push(vec![node.clone()]),
            }
        }
        groups.sort_by_key(|group| group.first().map(|node| node.state));
        if groups.is_empty() && empty {
            groups.push(Vec::new());
        }
        lines.extend(groups.into_iter().map(|nodes| Line { partition: partition.clone(), nodes }));
    }
    lines
}

/// A line for each reason.
fn by_reason(nodes: Vec<Node>) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for node in nodes {
        match lines
            .iter_mut()
            .find(|line| line.nodes.first().is_some_and(|n| n.reason == node.reason))
        {
            Some(line) => line.nodes.push(node),
            None => lines.push(Line { partition: Queue::default(), nodes: vec![node] }),
        }
    }
    lines
}

fn format(args: &SinfoArgs, lines: &[Line]) -> Result<Format<Line>, CliError> {
    let widest = |field: fn(&Line) -> String, least: usize| {
        let longest = lines.iter().map(|line| field(line).chars().count()).max();
        longest.unwrap_or(0).max(least)
    };
    let text = match (&args.format, args.list_reasons, args.node, args.summarize) {
        (Some(format), ..) => format,
        (None, true, ..) => REASONS,
        (None, _, true, _) => {
            if args.long {
                OF_NODES_LONG
            } else {
                OF_NODES
            }
        }
        (None, _, _, true) => SUMMARY,
        (None, ..) => {
            if args.long {
                LONG
            } else {
                TABLE
            }
        }
    };
    let text = text.replace("%{P}", &format!("%{}P", widest(partition, 9)));
    let text = text.replace("%{N}", &format!("%{}N", widest(hosts, 10)));
    let format = match &args.names {
        Some(names) => Format::names(names, FIELDS),
        None => Format::letters(&text, FIELDS),
    };
    format.map_err(CliError::failure)
}

fn partition(line: &Line) -> String {
    format!("{}{}", line.partition.name, if line.partition.default { "*" } else { "" })
}

fn hosts(line: &Line) -> String {
    hostlist(line.nodes.iter().map(|node| node.host.as_str()))
}

fn first<T>(line: &Line, of: impl Fn(&Node) -> T) -> Option<T> {
    line.nodes.first().map(of)
}

fn reason(line: &Line, show: impl Fn(&Reason) -> String, none: &str) -> String {
    let reason = line.nodes.first().and_then(|node| node.reason.as_ref());
    reason.map_or_else(|| none.to_owned(), show)
}

/// The nodes, or with `weight` what they have, as allocated, idle, other and in total.
fn counts(line: &Line, weight: impl Fn(&Node) -> (usize, usize)) -> [usize; 4] {
    line.nodes.iter().fold([0; 4], |[used, idle, other, total], node| {
        let (busy, all) = weight(node);
        let free = all.saturating_sub(busy);
        let (idle, other) = match node.state.is_unavailable() {
            true => (idle, other + free),
            false => (idle + free, other),
        };
        [used + busy, idle, other, total + all]
    })
}

fn nodes_of(line: &Line) -> [usize; 4] {
    counts(line, |node| (usize::from(node.busy_cores > 0), 1))
}

fn four([used, idle, other, total]: [usize; 4]) -> String {
    format!("{used}/{idle}/{other}/{total}")
}

fn limit(seconds: Option<f64>, none: &str) -> String {
    seconds.map_or_else(|| none.to_owned(), short_span)
}

const FIELDS: &[Field<Line>] = &[
    Field { letter: 'P', names: &["partition"], heading: "PARTITION", value: partition },
    Field {
        letter: 'R',
        names: &["partitionname"],
        heading: "PARTITION",
        value: |line| line.partition.name.clone(),
    },
    Field {
        letter: 'a',
        names: &["available"],
        heading: "AVAIL",
        value: |line| {
            let status = &line.partition.status;
            match (status.enable != Some(false), status.start != Some(false)) {
                (true, true) => "up",
                (true, false) => "down",
                (false, true) => "drain",
                (false, false) => "inact",
            }
            .to_owned()
        },
    },
    Field {
        letter: 'l',
        names: &["time"],
        heading: "TIMELIMIT",
        value: |line| limit(line.partition.limits.timelimit, "infinite"),
    },
    Field {
        letter: 'L',
        names: &["defaulttime"],
        heading: "DEFAULTTIME",
        value: |line| limit(line.partition.defaults.timelimit, "n/a"),
    },
    Field {
        letter: 's',
        names: &["size"],
        heading: "JOB_SIZE",
        value: |line| {
            let limits = line.partition.limits;
            let most = limits.max.nnodes.map_or("infinite".to_owned(), |most| most.to_string());
            format!("{}-{most}", limits.min.nnodes.unwrap_or(1))
        },
    },
    Field {
        letter: 'D',
        names: &["nodes"],
        heading: "NODES",
        value: |line| line.nodes.len().to_string(),
    },
    Field {
        letter: 't',
        names: &["statecompact"],
        heading: "STATE",
        value: |line| first(line, |node| node.state.short()).unwrap_or("n/a").to_owned(),
    },
    Field {
        letter: 'T',
        names: &["statelong"],
        heading: "STATE",
        value: |line| first(line, |node| node.state.long()).unwrap_or("n/a").to_owned(),
    },
    Field { letter: 'N', names: &["nodelist"], heading: "NODELIST", value: hosts },
    Field { letter: 'n', names: &["nodehost"], heading: "HOSTNAMES", value: hosts },
    Field {
        letter: 'c',
        names: &["cpus"],
        heading: "CPUS",
        value: |line| first(line, |node| node.cores).unwrap_or(0).to_string(),
    },
    Field {
        letter: 'C',
        names: &["cpusstate"],
        heading: "CPUS(A/I/O/T)",
        value: |line| four(counts(line, |node| (node.busy_cores, node.cores))),
    },
    Field {
        letter: 'F',
        names: &["nodeaiot"],
        heading: "NODES(A/I/O/T)",
        value: |line| four(nodes_of(line)),
    },
    Field {
        letter: 'A',
        names: &["nodeai"],
        heading: "NODES(A/I)",
        value: |line| {
            let [used, idle, ..] = nodes_of(line);
            format!("{used}/{idle}")
        },
    },
    Field {
        letter: 'G',
        names: &["gres"],
        heading: "GRES",
        value: |line| match first(line, |node| node.gpus).unwrap_or(0) {
            0 => NULL.to_owned(),
            gpus => format!("gpu:{gpus}"),
        },
    },
    Field {
        letter: 'f',
        names: &["features"],
        heading: "AVAIL_FEATURES",
        value: |line| match first(line, |node| node.properties.join(",")).unwrap_or_default() {
            none if none.is_empty() => NULL.to_owned(),
            features => features,
        },
    },
    Field {
        letter: 'E',
        names: &["reason"],
        heading: "REASON",
        value: |line| reason(line, |reason| reason.text.clone(), "none"),
    },
    Field {
        letter: 'u',
        names: &["user"],
        heading: "USER",
        value: |line| {
            let user = |reason: &Reason| {
                reason.userid.map_or("Unknown".to_owned(), |uid| display().users.name(uid))
            };
            reason(line, user, "Unknown")
        },
    },
    Field {
        letter: 'H',
        names: &["timestamp"],
        heading: "TIMESTAMP",
        value: |line| {
            let since = |reason: &Reason| time(reason.since, &display().zone).unwrap_or_default();
            reason(line, since, "Unknown")
        },
    },
];

#[cfg(test)]
mod tests {
    use super::super::nodes::NodeState;
    use super::*;

    fn node(host: &str, state: NodeState, busy_cores: usize) -> Node {
        Node {
            host: host.to_owned(),
            cores: 4,
            busy_cores,
            gpus: 0,
            busy_gpus: 0,
            properties: Vec::new(),
            state,
            reason: None,
            partitions: vec!["batch".to_owned()],
        }
    }

    #[test]
    fn nodes_are_counted_as_allocated_idle_and_other() {
        let nodes = vec![
            node("n1", NodeState::Allocated, 4),
            node("n2", NodeState::Mixed, 1),
            node("n3", NodeState::Drained, 0),
            node("n4", NodeState::Idle, 0),
        ];
        let line = Line { partition: Queue::default(), nodes };
        let format = Format::letters("%F %A %C %D %N", FIELDS).unwrap();
        assert_eq!(format.line(&line), "2/1/1/4 2/1 5/7/4/16 4 n[1-4]");
    }
}
