//! `pstree`: shows running jobs as a tree. The jobs of a manager that runs as a job are below that job.

use std::borrow::Cow;
use std::io;
use std::pin::Pin;
use std::process::ExitCode;

use serde_json::{Value, json};

use super::common::format::{FieldValue, RenderOptions, Row, Template, render};
use super::common::ids::Target;
use super::common::message::{CliError, Streams};
use super::common::session;
use super::common::usage::Family;
use super::instance::attr;
use super::jobs::fetch::{JobSource, fetch};
use super::jobs::options::{FORMATS, JobsArgs, Setting};
use super::jobs::row::JobRow;
use crate::client::Client;
use crate::rpc::services::job_list::{ALL, ListId};
use crate::rpc::services::job_manager::GetUptime;
use crate::rpc::uri::to_path;

const COMMAND: &str = "pstree";

/// The formats of `--details`.
const DETAILS: [(&str, &str); 3] = [
    (
        "default",
        "{id.f58:>12} {username:<8.8} {status_abbrev:>2.2} {ntasks:>6h} {nnodes:>6h} \
         {runtime!F:>8h}",
    ),
    (
        "resources",
        "{id.f58:>12} {instance.resources.all.nnodes:>5} \
         {instance.resources.allocated.nnodes:>5} {instance.resources.all.ncores:>5} \
         {instance.resources.allocated.ncores:>5} {instance.resources.all.ngpus:>5} \
         {instance.resources.allocated.ngpus:>5}",
    ),
    (
        "progress",
        "{id.f58:>12} {ntasks:>6h} {instance.stats.total:>6} {instance.progress!P:>5} \
         {instance.utilization!P:>5} {instance.gpu_utilization!P:>5} {runtime!H:>10}",
    ),
];

/// The width of lines if that of the terminal isn't known.
const WIDTH: usize = 132;

/// Options and arguments of `pstree`.
#[derive(Debug, clap::Args)]
pub(crate) struct PstreeArgs {
    /// Show jobs in all states, with their status
    #[arg(short = 'a', long)]
    all: bool,
    /// Show at most N jobs of each manager [default: 1000]
    #[arg(short = 'c', long, value_name = "N")]
    count: Option<i64>,
    /// Show jobs in these states or with these results [default: running]
    #[arg(short = 'f', long, value_name = "STATE|RESULT,..")]
    filter: Option<String>,
    /// Show details before the tree, as --details=default
    #[arg(short = 'x', long)]
    extended: bool,
    /// Don't cut lines to the width of the terminal
    #[arg(short = 'l', long)]
    long: bool,
    /// Descend only N levels
    #[arg(short = 'L', long, value_name = "N")]
    level: Option<usize>,
    /// Put job ids before the labels of jobs that are managers
    #[arg(short = 'p', long)]
    parent_ids: bool,
    /// Print no header line over the details
    #[arg(short = 'n', long)]
    no_header: bool,
    /// Show each of identical jobs
    #[arg(short = 'X', long)]
    no_combine: bool,
    /// Format of labels [default: {name}]
    #[arg(short = 'o', long, value_name = "FORMAT")]
    label: Option<String>,
    /// Format of the labels of jobs that are managers
    #[arg(long, value_name = "FORMAT")]
    parent_label: Option<String>,
    /// Format of the details before the tree
    #[arg(long, value_name = "FORMAT")]
    detail_format: Option<String>,
    /// Name of a format of the details: default, resources, progress
    #[arg(short = 'd', long, value_name = "NAME")]
    details: Option<String>,
    /// Use narrow connectors
    #[arg(short = 'C', long, conflicts_with = "ascii")]
    compact: bool,
    /// Use connectors in ASCII
    #[arg(long)]
    ascii: bool,
    /// Leave out or show the manager itself [default: no, with details or job ids yes]
    #[arg(long, value_name = "yes|no")]
    skip_root: Option<String>,
    /// Show only these jobs
    #[arg(value_name = "JOBID")]
    jobids: Vec<Target>,
}

/// Runs the command.
pub(crate) fn run(args: PstreeArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async {
        let setting = Setting::current(super::jobs::options::COMMAND, FORMATS)?;
        let labels = Labels::new(&args)?;
        let client = Client::connect().await?;
        let skip_root = match args.skip_root.as_deref() {
            Some("yes") => true,
            Some("no") => false,
            Some(_) => {
                return Err(CliError::failure("--skip-root requires either 'yes' or 'no'"));
            }
            None => labels.details.is_some() || !args.jobids.is_empty(),
        };
        let mut tree = match skip_root {
            true => Tree::default(),
            false => root(&client, &args, &labels, &setting).await?,
        };
        let forest = Forest { args: &args, labels: &labels, setting: &setting, skip_root };
        tree.children = forest.jobs_of(&client, 0, &[]).await?;
        let width = setting.columns.unwrap_or(WIDTH);
        let width = if args.long { None } else { Some(width) };
        let mut text = String::new();
        if let Some(details) = labels.details.as_ref().filter(|_| !args.no_header) {
            text.push_str(&header(details, &setting)?);
        }
        match skip_root {
            true => tree.children.iter().for_each(|child| child.draw(&args, width, &mut text)),
            false => tree.draw(&args, width, &mut text),
        }
        session::print(&text)?;
        Ok(0)
    })
}

/// The formats for a job's node.
struct Labels {
    job: Template,
    parent: Template,
    details: Option<Template>,
}

impl Labels {
    fn new(args: &PstreeArgs) -> Result<Self, CliError> {
        let label = args.label.as_deref();
        let all = if args.all { "{name}:{status_abbrev}" } else { "{name}" };
        // A label that the user gives is used for managers too.
        let parent = args.parent_label.as_deref().or(label).unwrap_or("{name}");
        let details = args.details.as_deref().or(args.extended.then_some("default"));
        let find = |name: &str| {
            let unknown = || CliError::failure(format!("Unknown --details format '{name}'"));
            DETAILS.iter().find(|(known, _)| *known == name).ok_or_else(unknown)
        };
        let named = details.map(find).transpose()?;
        let details = args.detail_format.as_deref().or(named.map(|(_, format)| *format));
        Ok(Self {
            job: template(label.unwrap_or(all))?,
            parent: template(parent)?,
            details: details.map(template).transpose()?,
        })
    }

    /// The node of a job, without children.
    fn node(&self, row: &JobRow<'_>, args: &PstreeArgs) -> Result<Tree, CliError> {
        let is_parent = row.inner_manager().is_some();
        let mut label = line(if is_parent { &self.parent } else { &self.job }, row)?;
        if is_parent && args.parent_ids {
            // The manager itself has no job id.
            let id =
                if row.id.as_u64() == 0 { ".".to_owned() } else { row.display.ids.show(row.id) };
            label = format!("{id} {label}");
        }
        let details = match &self.details {
            Some(details) => line(details, row)? + " ",
            None => String::new(),
        };
        Ok(Tree { label, details, ..Tree::default() })
    }
}

/// The fields of a job, or of the manager itself, which has no job id.
struct Node<'a>(&'a JobRow<'a>);

impl Row for Node<'_> {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        JobRow::heading(name)
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let is_id = name == "id" || name.starts_with("id.");
        match is_id && self.0.id.as_u64() == 0 {
            true => Some(FieldValue::Text(".".to_owned())),
            false => self.0.field(name),
        }
    }
}

fn template(format: &str) -> Result<Template, CliError> {
    Template::parse::<JobRow<'_>>(format).map_err(CliError::failure)
}

fn line(template: &Template, row: &JobRow<'_>) -> Result<String, CliError> {
    let options = RenderOptions { header: false, zone: row.display.zone.clone() };
    let table = render(template, &[Node(row)], &options).map_err(CliError::failure)?;
    Ok(table.lines.into_iter().next().unwrap_or_default())
}

fn header(template: &Template, setting: &Setting) -> Result<String, CliError> {
    let options = RenderOptions { header: true, zone: setting.display.zone.clone() };
    let table = render::<JobRow<'_>>(template, &[], &options).map_err(CliError::failure)?;
    Ok(table.header.unwrap_or_default() + "\n")
}

/// The node of the manager itself: the job that it runs as, or else a job of all its nodes with the name `.`.
async fn root(
    client: &Client,
    args: &PstreeArgs,
    labels: &Labels,
    setting: &Setting,
) -> Result<Tree, CliError> {
    let enclosing = enclosing_job(client).await;
    let job = match enclosing {
        Some(job) => job,
        None => {
            let uptime = client.call(GetUptime {}).await?;
            let attribute = async |name: &str| attr::value(client, name.to_owned()).await;
            let size: u64 = attribute("size").await?.parse().unwrap_or(1);
            json!({
                "id": 0,
                "userid": uptime.owner.as_u32(),
                "state": u64::from(jobtap_core::job::State::Run.value()),
                "name": ".",
                "ntasks": size,
                "nnodes": size,
                "nodelist": attribute("hostlist").await?,
                "t_run": uptime.starttime,
                "annotations": {"user": {"uri": attribute("local-uri").await?}},
            })
        }
    };
    let row = JobRow::from_json(job, &setting.display).map_err(CliError::failure)?;
    labels.node(&row, args)
}

/// The job that the manager runs as. `None` if it doesn't run as a job, or if the manager of that job doesn't respond.
async fn enclosing_job(client: &Client) -> Option<Value> {
    let attribute = async |name: &str| attr::value(client, name.to_owned()).await.ok();
    let id = attribute("jobid").await?.parse().ok()?;
    let parent = Client::connect_to(&to_path(&attribute("parent-uri").await?).ok()?).await.ok()?;
    Some(parent.call(ListId { id, attrs: ALL }).await.ok()?.job)
}

/// Turns the jobs of managers into nodes.
struct Forest<'a> {
    args: &'a PstreeArgs,
    labels: &'a Labels,
    setting: &'a Setting,
    skip_root: bool,
}

/// The nodes of a manager: boxed, since the nodes of jobs can have nodes of managers below them.
type Nodes<'f> = Pin<Box<dyn Future<Output = Result<Vec<Tree>, CliError>> + 'f>>;

impl Forest<'_> {
    /// The nodes of the jobs of a manager. `ancestors` are the addresses of the managers on the path to it.
    /// Users can write any address into the memo of a job, so that addresses can form a cycle.
    fn jobs_of<'f>(
        &'f self,
        source: &'f Client,
        level: usize,
        ancestors: &'f [&'f str],
    ) -> Nodes<'f> {
        Box::pin(async move {
            let mut streams =
                Streams { input: &mut io::empty(), out: &mut io::stdout(), err: &mut io::stderr() };
            let wanted = self.wanted(level);
            let jobs = fetch(&wanted, self.setting, source, &mut streams).await?.rows;
            let mut nodes = Vec::new();
            for row in &jobs {
                let mut node = self.labels.node(row, self.args)?;
                let inner = row.inner_manager().filter(|uri| !ancestors.contains(uri));
                let deeper = self.args.level.is_none_or(|deepest| level < deepest);
                if let Some(uri) = inner.filter(|_| deeper)
                    && let Some(manager) = source.inner(uri, row.ranks()).await
                {
                    let ancestors: Vec<&str> = ancestors.iter().copied().chain([uri]).collect();
                    // The socket of another user's manager refuses the caller.
                    let below = self.jobs_of(&manager, level + 1, &ancestors).await;
                    node.children = below.unwrap_or_default();
                }
                nodes.push(node);
            }
            Ok(if self.args.no_combine { nodes } else { combined(nodes) })
        })
    }

    /// The options of `jobs` that select the jobs of a manager.
    fn wanted(&self, level: usize) -> JobsArgs {
        let args = self.args;
        let top = level == 0;
        let filter = match (&args.filter, args.all) {
            // As in Flux, if the manager itself isn't shown, the options don't apply to its jobs but to the jobs below
            // these.
            _ if top && self.skip_root => "running",
            (_, true) => "pending,running,inactive",
            (Some(filter), false) => filter,
            (None, false) => "running",
        };
        let jobids = if top { args.jobids.clone() } else { Vec::new() };
        let by_id = !jobids.is_empty();
        JobsArgs {
            filter: (!by_id).then(|| filter.to_owned()).into_iter().collect(),
            count: args.count.filter(|_| !by_id),
            no_header: true,
            jobids,
            ..JobsArgs::default()
        }
    }
}

/// A job, and below it the jobs of the manager that it runs, if any.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct Tree {
    label: String,
    /// What is shown before the tree.
    details: String,
    /// The number of further jobs that look the same.
    repeated: usize,
    children: Vec<Self>,
}

/// Combines nodes that look the same and have no children. Each keeps the place of the first.
fn combined(nodes: Vec<Tree>) -> Vec<Tree> {
    let mut kept: Vec<Tree> = Vec::new();
    let mut known = std::collections::HashMap::new();
    for node in nodes {
        if node.children.is_empty() {
            let looks = (node.details.clone(), node.label.clone());
            let at = *known.entry(looks).or_insert(kept.len());
            if let Some(first) = kept.get_mut(at) {
                first.repeated += 1;
                continue;
            }
        }
        kept.push(node);
    }
    kept
}

/// The parts of a line before the label of a node.
struct Connectors {
    /// Beside the children of a node that has another node after it.
    pipe: &'static str,
    tee: &'static str,
    elbow: &'static str,
    blank: &'static str,
}

impl Connectors {
    fn from_args(args: &PstreeArgs) -> Self {
        let [pipe, tee, elbow, blank] = match (args.ascii, args.compact) {
            (true, _) => ["|   ", "|-- ", "`-- ", "    "],
            (false, true) => ["│ ", "├─", "└─", "  "],
            (false, false) => ["│   ", "├── ", "└── ", "    "],
        };
        Self { pipe, tee, elbow, blank }
    }
}

impl Tree {
    /// Appends the lines of this node and of those below it.
    fn draw(&self, args: &PstreeArgs, width: Option<usize>, text: &mut String) {
        self.draw_below(&Connectors::from_args(args), ("", ""), width, text);
    }

    /// `indent` precedes this node; `connector` connects it to its parent.
    fn draw_below(
        &self,
        connectors: &Connectors,
        (indent, connector): (&str, &str),
        width: Option<usize>,
        text: &mut String,
    ) {
        let label = match self.repeated {
            0 => self.label.clone(),
            more => format!("{}*[{}]", more + 1, self.label),
        };
        let line = format!("{}{indent}{connector}{label}", self.details);
        match width {
            Some(width) if line.chars().count() > width => {
                text.extend(line.chars().take(width.saturating_sub(1)).chain(['+']));
            }
            _ => text.push_str(&line),
        }
        text.push('\n');
        // What stands beside the children depends on whether this node is the last child of its parent.
        let indent = match connector {
            "" => String::new(),
            _ if connector == connectors.tee => format!("{indent}{}", connectors.pipe),
            _ => format!("{indent}{}", connectors.blank),
        };
        let last = self.children.len().saturating_sub(1);
        for (index, child) in self.children.iter().enumerate() {
            let connector = if index == last { connectors.elbow } else { connectors.tee };
            child.draw_below(connectors, (&indent, connector), width, text);
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Command {
        #[command(flatten)]
        args: PstreeArgs,
    }

    fn args(words: &[&str]) -> PstreeArgs {
        Command::try_parse_from([&["pstree"], words].concat()).unwrap().args
    }

    fn node(label: &str, children: Vec<Tree>) -> Tree {
        Tree { label: label.to_owned(), children: combined(children), ..Tree::default() }
    }

    fn leaf(label: &str) -> Tree {
        node(label, Vec::new())
    }

    fn example() -> Tree {
        let first = node("flux", vec![leaf("sleep"), leaf("sleep")]);
        let second = node("flux", vec![leaf("sleep"), leaf("hostname"), leaf("sleep")]);
        node(".", vec![first, second])
    }

    fn drawn(words: &[&str], width: Option<usize>) -> String {
        let mut text = String::new();
        example().draw(&args(words), width, &mut text);
        text
    }

    #[test]
    fn identical_leaves_are_combined() {
        let wanted = "\
.
├── flux
│   └── 2*[sleep]
└── flux
    ├── 2*[sleep]
    └── hostname
";
        assert_eq!(drawn(&[], None), wanted);
    }

    #[test]
    fn connectors_are_boxes_narrow_or_ascii() {
        let narrow = ".\n├─flux\n│ └─2*[sleep]\n└─flux\n  ├─2*[sleep]\n  └─hostname\n";
        assert_eq!(drawn(&["--compact"], None), narrow);
        let ascii = ".\n|-- flux\n|   `-- 2*[sl+\n`-- flux\n    |-- 2*[sl+\n    `-- hostn+\n";
        assert_eq!(drawn(&["--ascii"], Some(14)), ascii);
    }

    #[test]
    fn the_manager_itself_has_a_dot_for_its_id() {
        let args = args(&["-o", "{id}|{id.f58}|{name}"]);
        let setting = Setting::current(super::super::jobs::options::COMMAND, FORMATS).unwrap();
        let labels = Labels::new(&args).unwrap();
        let label = |id: u64| {
            let job = json!({"id": id, "name": "x", "state": 16});
            let row = JobRow::from_json(job, &setting.display).unwrap();
            labels.node(&row, &args).unwrap().label
        };
        assert_eq!(label(0), ".|.|x");
        assert!(!label(5).contains('.'));
    }

    #[test]
    fn filters_apply_below_a_root_that_is_left_out() {
        let labels = Labels::new(&args(&[])).unwrap();
        let setting = Setting::current(super::super::jobs::options::COMMAND, FORMATS).unwrap();
        let filter = |words: &[&str], skip_root, level| {
            let args = args(words);
            let forest = Forest { args: &args, labels: &labels, setting: &setting, skip_root };
            forest.wanted(level).filter
        };
        assert_eq!(filter(&[], false, 0), ["running"]);
        assert_eq!(filter(&["-a"], false, 0), ["pending,running,inactive"]);
        assert_eq!(filter(&["-f", "failed"], true, 0), ["running"]);
        assert_eq!(filter(&["-f", "failed"], true, 1), ["failed"]);
        assert!(filter(&["f1"], true, 0).is_empty());
    }
}
