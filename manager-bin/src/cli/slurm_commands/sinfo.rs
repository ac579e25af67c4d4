//! `sinfo`: lists nodes by partition and state, in Slurm's columns.

use std::collections::HashMap;
use std::process::ExitCode;

use jobtap_core::resource::Hostlist;

use super::fields::{CONFIGURED, Field, Format, Order};
use super::job_line::{NULL, date_line, display, short_span, time};
use super::names::{print_version, split, variable};
use super::nodes::{Cluster, Node, NodeState, Reason, hostlist};
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
    after_help = "\
Variables: SINFO_FORMAT, SINFO_SORT.
Left out: -i, --json, reservations (-T), clusters, and the fields of memory, disks and load."
)]
pub(crate) struct SinfoArgs {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// Print help
    #[arg(long, action = clap::ArgAction::Help)]
    help: Option<bool>,
    /// All partitions, as always here
    #[arg(short = 'a', long)]
    all: bool,
    /// Lines of their own for nodes with other numbers of cores
    #[arg(short = 'e', long)]
    exact: bool,
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
    /// Only nodes that respond
    #[arg(short = 'r', long, conflicts_with = "dead")]
    responding: bool,
    /// Only nodes that don't respond
    #[arg(short = 'd', long)]
    dead: bool,
    /// The order of the lines by letters of fields, each descending with a "-": "#P,-t"
    #[arg(short = 'S', long, value_name = "FIELD,..", allow_hyphen_values = true)]
    sort: Option<String>,
    /// A line for each partition
    #[arg(short = 's', long)]
    summarize: bool,
    /// Only nodes in these states: idle, alloc, mix, drain, down, maint, or all
    #[arg(short = 't', long, value_name = "STATE,..")]
    states: Option<String>,
}

/// A line: nodes that the format shows alike.
#[derive(Clone)]
struct Line {
    partition: Queue,
    /// The partition's place in the configuration.
    place: usize,
    nodes: Vec<Node>,
    /// Whether it stands for one node, as with -N.
    single: bool,
}

/// The widths follow from the longest text, as Slurm's `%#P` does.
const TABLE: &str = "%{P} %.5a %.10l %.6D %.6t %N";
const LONG: &str = "%{P} %.5a %.10l %.10s %.6D %.11T %N";
const OF_NODES: &str = "%{N} %.6D %.9P %6t";
const OF_NODES_LONG: &str = "%{N} %.6D %.9P %.11T %4c %.8f %20E";
const REASONS: &str = "%20E %9u %19H %N";
const REASONS_LONG: &str = "%20E %12U %19H %6t %N";
const SUMMARY: &str = "%{P} %.5a %.10l %.16F %N";

/// Partitions as they are configured, then what can't be used first.
const ORDER: &str = "#P,-t";

/// Fields that count or list the nodes of a line, and so don't separate them.
const OF_ALL: [char; 5] = ['D', 'N', 'C', 'F', 'A'];

/// The number of cores: the least of a line, with a `+` where there are more.
const CPUS: char = 'c';

/// Runs the command.
pub(crate) fn run(args: SinfoArgs) -> ExitCode {
    if args.version {
        return print_version(COMMAND);
    }
    session::with_manager(COMMAND, Family::Slurm, |client| async move {
        let text = args.format_text();
        let sort = variable("SINFO_SORT");
        let sort = args.sort.as_deref().or(sort.as_deref());
        let sort = sort.unwrap_or(if args.node { "N" } else { ORDER });
        let order = Order::parse(sort, FIELDS).map_err(CliError::failure)?;
        let Cluster { mut nodes, mut partitions } = Cluster::fetch(&client).await?;
        if let Some(hosts) = &args.nodes {
            let hosts: Hostlist = hosts.parse().map_err(CliError::failure)?;
            nodes.retain(|node| hosts.contains(&node.host));
        }
        if let Some(states) = &args.states {
            let mut words = split(states);
            // As in Slurm, it adds nothing to other words.
            words.retain(|word| !word.eq_ignore_ascii_case("all"));
            let unknown = words.iter().find(|word| !NodeState::is_word(word));
            if let Some(word) = unknown {
                let words = NodeState::words().join(",");
                return Err(CliError::failure(format!(
                    "Bad state string: \"{word}\"\nvalid states: {words}"
                )));
            }
            nodes.retain(|node| words.is_empty() || words.iter().any(|word| node.is_named(word)));
        }
        if args.responding || args.dead {
            nodes.retain(|node| (node.state == NodeState::Down) == args.dead);
        }
        if args.list_reasons {
            nodes.retain(|node| node.reason.is_some());
        }
        if let Some(names) = &args.partition {
            let names = split(names);
            partitions.retain(|partition| names.contains(&partition.name));
        }
        let mut pairs = pairs(&nodes, &partitions, args.node);
        if args.list_reasons && args.partition.is_none() {
            let lone = nodes.iter().filter(|node| node.partitions.is_empty());
            let line = |node| line(&Queue::default(), partitions.len(), node, args.node);
            pairs.extend(lone.map(line));
        }
        // The widths have no influence on which nodes are shown alike.
        let format = args.parsed(&text, &pairs)?;
        let mut lines = grouped(pairs, &format, args.exact);
        let has_partition = format.fields().any(|field| field.letter == 'P');
        if has_partition && !args.node && !args.list_reasons {
            add_empty(&mut lines, &partitions);
        }
        lines.sort_by(|a, b| order.compare(a, b, number));
        let format = args.parsed(&text, &lines)?;
        let mut text = String::new();
        if args.long && !args.noheader && args.format.is_none() && args.names.is_none() {
            text += &date_line();
        }
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

/// A line for each node in each of its partitions.
fn pairs(nodes: &[Node], partitions: &[Queue], single: bool) -> Vec<Line> {
    let of = |(place, partition): (usize, &Queue)| {
        let own = nodes.iter().filter(|node| node.partitions.contains(&partition.name));
        own.map(|node| line(partition, place, node, single)).collect::<Vec<_>>()
    };
    partitions.iter().enumerate().flat_map(of).collect()
}

fn line(partition: &Queue, place: usize, node: &Node, single: bool) -> Line {
    Line { partition: partition.clone(), place, nodes: vec![node.clone()], single }
}

/// Puts together the lines whose printed fields are equal, apart from those that count or list nodes.
fn grouped(pairs: Vec<Line>, format: &Format<Line>, exact: bool) -> Vec<Line> {
    let separates =
        |letter: char| !OF_ALL.contains(&letter) && (exact || letter != CPUS) && letter != ' ';
    let fields: Vec<_> = format.fields().filter(|field| separates(field.letter)).collect();
    let mut places: HashMap<Vec<String>, usize> = HashMap::new();
    let mut lines: Vec<Line> = Vec::new();
    for pair in pairs {
        let key = fields.iter().map(|field| (field.value)(&pair)).collect();
        let found = places.get(&key).and_then(|place| lines.get_mut(*place));
        match found.filter(|_| !pair.single) {
            Some(line) => {
                let known = |node: &Node| line.nodes.iter().any(|known| known.host == node.host);
                let new: Vec<Node> = pair.nodes.into_iter().filter(|node| !known(node)).collect();
                line.nodes.extend(new);
            }
            None => {
                places.insert(key, lines.len());
                lines.push(pair);
            }
        }
    }
    lines
}

/// Adds a line for each partition that has none.
fn add_empty(lines: &mut Vec<Line>, partitions: &[Queue]) {
    for (place, partition) in partitions.iter().enumerate() {
        if lines.iter().all(|line| line.place != place) {
            let partition = partition.clone();
            lines.push(Line { partition, place, nodes: Vec::new(), single: false });
        }
    }
}

/// The values by which lines are sorted that their texts don't show.
fn number(letter: char, line: &Line) -> Option<f64> {
    match letter {
        CONFIGURED => Some(line.place as f64),
        // From idle to down.
        't' | 'T' => Some(first(line, |node| node.state).map_or(0.0, NodeState::rank)),
        _ => None,
    }
}

impl SinfoArgs {
    /// The format: that of -o, of an option that has one, or of the variable.
    fn format_text(&self) -> String {
        let of_option = match (self.list_reasons, self.node, self.summarize, self.long) {
            (true, _, _, long) => Some(if long { REASONS_LONG } else { REASONS }),
            (_, true, _, long) => Some(if long { OF_NODES_LONG } else { OF_NODES }),
            (_, _, true, _) => Some(SUMMARY),
            (.., true) => Some(LONG),
            _ => None,
        };
        let chosen = self.format.clone().or_else(|| of_option.map(str::to_owned));
        chosen.or_else(|| variable("SINFO_FORMAT")).unwrap_or_else(|| TABLE.to_owned())
    }

    fn parsed(&self, text: &str, lines: &[Line]) -> Result<Format<Line>, CliError> {
        let widest = |field: fn(&Line) -> String, least: usize| {
            let longest = lines.iter().map(|line| field(line).chars().count()).max();
            longest.unwrap_or(0).max(least)
        };
        let text = text.replace("%{P}", &format!("%{}P", widest(partition, 9)));
        let text = text.replace("%{N}", &format!("%{}N", widest(hosts, 9)));
        let format = match &self.names {
            Some(names) => Format::names(names, FIELDS),
            None => Format::letters(&text, FIELDS),
        };
        format.map_err(CliError::failure)
    }
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
        value: |line| {
            let cores = || line.nodes.iter().map(|node| node.cores);
            let (least, most) = (cores().min().unwrap_or(0), cores().max().unwrap_or(0));
            format!("{least}{}", if most > least { "+" } else { "" })
        },
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
        letter: 'U',
        names: &["userlong"],
        heading: "USER",
        value: |line| {
            let user = |reason: &Reason| match reason.userid {
                Some(uid) => format!("{}({uid})", display().users.name(uid)),
                None => "Unknown".to_owned(),
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

    fn partition(name: &str) -> Queue {
        Queue { name: name.to_owned(), ..Queue::default() }
    }

    /// What a format prints for four nodes. The first two are in two partitions.
    fn printed(format: &str, sort: &str, exact: bool) -> Vec<String> {
        let mut nodes = vec![
            node("n1", NodeState::Mixed, 1),
            node("n2", NodeState::Idle, 0),
            node("n3", NodeState::Drained, 0),
            node("n4", NodeState::Idle, 0),
        ];
        for node in nodes.iter_mut().take(2) {
            node.partitions.push("short".to_owned());
            node.properties.push("few".to_owned());
        }
        nodes[3].cores = 8;
        let format = Format::letters(format, FIELDS).unwrap();
        let pairs = pairs(&nodes, &[partition("batch"), partition("short")], false);
        let mut lines = grouped(pairs, &format, exact);
        let order = Order::parse(sort, FIELDS).unwrap();
        lines.sort_by(|a, b| order.compare(a, b, number));
        lines.iter().map(|line| format.line(line)).collect()
    }

    #[test]
    fn nodes_are_on_a_line_if_the_format_shows_them_alike() {
        let of = |format: &str| printed(format, ORDER, false);
        assert_eq!(of("%N"), ["n[1-4]"]);
        assert_eq!(of("%n"), ["n3", "n1", "n2", "n4"]);
        assert_eq!(of("%D %t"), ["1 drain", "1 mix", "2 idle"]);
        assert_eq!(of("%P %D"), ["batch 4", "short 2"]);
        assert_eq!(of("%f %N"), ["(null) n[3-4]", "few n[1-2]"]);
        // A node in two partitions counts once.
        assert_eq!(of("%C"), ["1/15/4/20"]);
        assert_eq!(of("%c %t"), ["4 drain", "4 mix", "4+ idle"]);
        assert_eq!(printed("%c %t", "t,c", true), ["4 idle", "8 idle", "4 mix", "4 drain"]);
        assert_eq!(printed("%P %n", "-P,-n", false)[..3], ["short n2", "short n1", "batch n4"]);
    }

    /// As Slurm 22.05.8 selects them.
    #[test]
    fn a_drained_node_is_also_in_the_state_that_its_jobs_give_it() {
        let nodes = [
            node("n1", NodeState::Draining, 4),
            node("n2", NodeState::Drained, 0),
            node("n3", NodeState::Idle, 0),
            node("n4", NodeState::Down, 0),
        ];
        for (word, wanted) in [
            ("idle", "n[2-3]"),
            ("alloc", "n1"),
            ("mix", ""),
            ("drained", "n2"),
            ("drain", "n[1-2]"),
            ("down", "n4"),
        ] {
            let named = nodes.iter().filter(|node| node.is_named(word));
            assert_eq!(hostlist(named.map(|node| &*node.host)), wanted, "{word}");
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
        let line = Line { partition: Queue::default(), place: 0, nodes, single: false };
        let format = Format::letters("%F %A %C %D %N", FIELDS).unwrap();
        assert_eq!(format.line(&line), "2/1/1/4 2/1 5/7/4/16 4 n[1-4]");
    }
}
