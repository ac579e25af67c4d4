//! `resource list`, `resource info` and `resource R`: print the resources in given states.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use jobtap_core::resource::{Idset, ResourceSet};

use super::hidden;
use super::listing::{EmptyArgs, Listing, ListingArgs};
use super::messages::{COMMAND, refused};
use super::selection::{NodeArgs, Queues};
use super::unavailable::Maintenance;
use crate::cli::common::format::named::NamedFormats;
use crate::cli::common::format::{FieldValue, Row};
use crate::cli::common::json::resource_line;
use crate::cli::common::message::CliError;
use crate::cli::common::resources::resources;
use crate::cli::common::session;
use crate::cli::common::when::now;
use crate::client::Client;
use crate::rpc::services::resource::{GetSchedStatus, GetStatus};

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "States and their resources",
        "{state:>10} ?+:{queue:<5} ?:{propertiesx:<10.10+} {nnodes:>6} +:{ncores:>6} \
         ?+:{ngpus:>5} {nodelist}",
    ),
    (
        "rlist",
        "The default with the ids of resources",
        "{state:>10} ?+:{queue:<5} ?:{propertiesx:<10.10+} {nnodes:>6} +:{ncores:>6} \
         ?:+{ngpus:>5} {rlist}",
    ),
];

const HEADINGS: &[(&str, &str)] = &[
    ("state", "STATE"),
    ("queue", "QUEUE"),
    ("properties", "PROPERTIES"),
    ("propertiesx", "PROPERTIES"),
    ("nnodes", "NNODES"),
    ("ncores", "NCORES"),
    ("ngpus", "NGPUS"),
    ("ranks", "RANKS"),
    ("nodelist", "NODELIST"),
    ("rlist", "LIST"),
];

const STATES: [&str; 6] = ["up", "down", "allocated", "free", "maintenance", "all"];

/// The states that are listed without `--states`.
const DEFAULT_STATES: &str = "free,maintenance,allocated,down";

/// Options of `resource list`.
#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// States to print: free, maintenance, allocated, down, up, all
    #[arg(short = 's', long, alias = "state", value_name = "STATE,..")]
    states: Option<String>,
    #[command(flatten)]
    empty: EmptyArgs,
    #[command(flatten)]
    listing: ListingArgs,
    #[command(flatten)]
    nodes: NodeArgs,
}

/// Options of `resource info`.
#[derive(Debug, clap::Args)]
pub(super) struct InfoArgs {
    /// States to print: free, maintenance, allocated, down, up, all
    #[arg(short = 's', long, alias = "state", value_name = "STATE,..", default_value = "all")]
    states: String,
    #[command(flatten)]
    nodes: NodeArgs,
}

/// Options of `resource R`.
#[derive(Debug, clap::Args)]
pub(super) struct RArgs {
    /// States to print: free, maintenance, allocated, down, up, all
    #[arg(short = 's', long, alias = "state", value_name = "STATE,..", default_value = "all")]
    states: String,
    #[command(flatten)]
    nodes: NodeArgs,
}

/// The resources of the scheduler.
struct Resources {
    all: ResourceSet,
    down: ResourceSet,
    allocated: ResourceSet,
    /// The ranks that are under maintenance now.
    maintenance: Idset,
    queues: Queues,
    /// The ranks that the options select.
    selected: Idset,
}

impl Resources {
    async fn fetch(client: &Client, nodes: &NodeArgs) -> Result<Self, CliError> {
        let sched = client.call(GetSchedStatus {}).await.map_err(|error| refused(&error))?;
        let (all, down) = (resources("all", &sched.all)?, resources("down", &sched.down)?);
        let allocated = resources("allocated", &sched.allocated)?;
        let status = client.call(GetStatus {}).await.map_err(|error| refused(&error))?;
        let maintenance = Maintenance::from_status(&status, now(), &TimeZone::UTC).current_ranks();
        let queues = Queues::fetch(client).await;
        let selected = nodes.ranks(&all, &queues)?;
        Ok(Self { all, down, allocated, maintenance, queues, selected })
    }

    fn in_state(&self, state: &str) -> ResourceSet {
        let up = || self.all.difference(&self.down);
        let set = match state {
            "all" => self.all.clone(),
            "up" => up(),
            "down" => self.down.clone(),
            // A node can be excluded while jobs use it. `all` doesn't contain it any more.
            "allocated" => self.all.intersection(&self.allocated),
            "maintenance" => up().difference(&self.allocated).with_ranks(&self.maintenance),
            _ => up().difference(&self.allocated).without_ranks(&self.maintenance),
        };
        set.with_ranks(&self.selected)
    }
}

fn states(text: &str) -> Result<Vec<&str>, CliError> {
    let states: Vec<&str> = text.split(',').map(str::trim).collect();
    match states.iter().find(|state| !STATES.contains(*state)) {
        Some(state) => Err(CliError::failure(format!("Invalid resource state {state} specified"))),
        None => Ok(states),
    }
}

/// Runs `resource list`.
pub(super) async fn run(client: &Client, args: &ListArgs) -> Result<u8, CliError> {
    let states = states(args.states.as_deref().unwrap_or(DEFAULT_STATES))?;
    let formats =
        NamedFormats::builtin(COMMAND, FORMATS).of_subcommand("list").beside(&[hidden::KEY]);
    let Some(listing) = args.listing.listing::<ListRow>(formats)? else {
        return Ok(0);
    };
    let resources = Resources::fetch(client, &args.nodes).await?;
    let skip = args.empty.skip_empty || (args.nodes.includes() && !args.empty.no_skip_empty);
    let hidden = hidden::hidden_queues(|name| std::env::var_os(name))?;
    let shown = resources.queues.shown(&args.nodes, &hidden);
    let mut rows = Vec::new();
    for state in states {
        let set = resources.in_state(state);
        if !set.is_empty() {
            rows.extend(split(state, &set, &resources.queues, &shown, &listing));
        // Flux doesn't know the state maintenance: an empty line for it is printed only on request.
        } else if !skip && (state != "maintenance" || args.states.is_some()) {
            rows.extend(empty(state, &shown, &listing));
        }
    }
    if !listing.shows("state") {
        rows = merged(rows);
    }
    listing.print(rows)?;
    Ok(0)
}

/// Merges the rows of all states, for a listing that doesn't display states: rows that show the same queues and
/// properties become one.
fn merged(rows: Vec<ListRow>) -> Vec<ListRow> {
    let mut merged: Vec<ListRow> = Vec::new();
    for row in rows {
        match merged.iter_mut().find(|known| known.differs_only_in_nodes(&row)) {
            Some(known) => known.resources = known.resources.union(&row.resources),
            None => merged.push(row),
        }
    }
    merged
}

/// Runs `resource info`.
pub(super) async fn info(client: &Client, args: &InfoArgs) -> Result<u8, CliError> {
    // As in Flux, an empty list of states means all of them here; other commands refuse it.
    let states = if args.states.is_empty() { "all" } else { &args.states };
    let set = union(client, states, &args.nodes).await?;
    // As in Flux, nothing is printed if none of the requested nodes exist.
    if set.is_empty() && args.nodes.includes() {
        return Ok(0);
    }
    // Always in the plural, so that scripts find the words.
    let (nodes, cores, gpus) = (set.nnodes(), set.ncores(), set.ngpus());
    session::print(&format!("{nodes} Nodes, {cores} Cores, {gpus} GPUs\n"))?;
    Ok(0)
}

/// Runs `resource R`.
pub(super) async fn print_r(client: &Client, args: &RArgs) -> Result<u8, CliError> {
    let set = union(client, &args.states, &args.nodes).await?;
    session::print(&resource_line(&set))?;
    Ok(0)
}

async fn union(client: &Client, text: &str, nodes: &NodeArgs) -> Result<ResourceSet, CliError> {
    let states = states(text)?;
    let resources = Resources::fetch(client, nodes).await?;
    let sets = states.into_iter().map(|state| resources.in_state(state));
    Ok(sets.reduce(|all, more| all.union(&more)).unwrap_or_default())
}

/// A line of `resource list`.
struct ListRow {
    state: String,
    queue: String,
    properties: String,
    propertiesx: String,
    resources: ResourceSet,
}

impl ListRow {
    /// Returns true if the lines of one state differ in nothing but their nodes.
    fn differs_only_in_nodes(&self, other: &Self) -> bool {
        (&self.queue, &self.properties, &self.propertiesx)
            == (&other.queue, &other.properties, &other.propertiesx)
    }

    fn empty(state: &str) -> Self {
        Self {
            state: state.to_owned(),
            queue: String::new(),
            properties: String::new(),
            propertiesx: String::new(),
            resources: ResourceSet::new(),
        }
    }
}

/// The lines of a state without nodes: one for each of the queues where these are displayed.
fn empty(state: &str, queues: &[&str], listing: &Listing) -> Vec<ListRow> {
    if queues.is_empty() || !listing.shows("queue") {
        return vec![ListRow::empty(state)];
    }
    let row = |queue: &&str| ListRow { queue: (*queue).to_owned(), ..ListRow::empty(state) };
    queues.iter().map(row).collect()
}

/// Splits the nodes in a state into lines. Nodes are on the same line if the displayed fields of their queues
/// and properties are equal. Of the queues, only those in `selected` are displayed.
fn split(
    state: &str,
    set: &ResourceSet,
    queues: &Queues,
    selected: &[&str],
    listing: &Listing,
) -> Vec<ListRow> {
    let properties = set.properties();
    let shown = ["queue", "properties", "propertiesx"].map(|field| listing.shows(field));
    // Each property divides the groups of nodes into those with and those without it.
    let mut groups: Vec<(Vec<&str>, Idset)> = vec![(Vec::new(), set.ranks())];
    for (name, holders) in &properties {
        groups = groups
            .into_iter()
            .flat_map(|(names, ranks)| {
                let with = ranks.intersection(holders);
                let more = names.iter().copied().chain([name.as_str()]).collect();
                [(more, with), (names, ranks.difference(holders))]
            })
            .filter(|(_, ranks)| !ranks.is_empty())
            .collect();
    }
    let mut rows: Vec<(ListRow, Idset)> = Vec::new();
    for (names, ranks) in groups {
        let plain: Vec<&str> = names.iter().copied().filter(|p| !queues.has(p)).collect();
        let mut named = queues.for_properties(&names);
        named.retain(|queue| selected.contains(queue));
        let texts = [named, names, plain].map(|texts| texts.join(","));
        let [queue, properties, propertiesx] =
            [0, 1, 2].map(|at| texts.get(at).filter(|_| shown.get(at) == Some(&true)));
        let text = |text: Option<&String>| text.cloned().unwrap_or_default();
        let row = ListRow {
            queue: text(queue),
            properties: text(properties),
            propertiesx: text(propertiesx),
            ..ListRow::empty(state)
        };
        let same = |(known, _): &&mut (ListRow, Idset)| known.differs_only_in_nodes(&row);
        match rows.iter_mut().find(same) {
            Some((_, known)) => *known = known.union(&ranks),
            None => rows.push((row, ranks)),
        }
    }
    rows.sort_by_key(|(_, ranks)| ranks.first());
    rows.into_iter()
        .map(|(row, ranks)| ListRow { resources: set.with_ranks(&ranks), ..row })
        .collect()
}

impl Row for ListRow {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        let heading = HEADINGS.iter().find(|(field, _)| *field == name);
        heading.map(|(_, heading)| Cow::Borrowed(*heading))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let text = |text: &str| Some(FieldValue::Text(text.to_owned()));
        let set = &self.resources;
        let count = |number: usize| Some(FieldValue::Int(number as i128));
        match name {
            "state" => text(&self.state),
            "queue" => text(&self.queue),
            "properties" => text(&self.properties),
            "propertiesx" => text(&self.propertiesx),
            "nnodes" => count(set.nnodes()),
            "ncores" => count(set.ncores()),
            "ngpus" => count(set.ngpus()),
            "ranks" => text(&set.ranks().to_string()),
            "nodelist" => text(&set.nodelist().to_string()),
            "rlist" => text(&set.summary()),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn properties_that_are_names_of_queues_are_left_out_of_propertiesx() {
        let execution = json!({
            "R_lite": [{"rank": "0", "children": {"core": "0"}}],
            "nodelist": ["n0"],
            "properties": {"big": "0", "q1": "0"},
        });
        let set = resources("all", &json!({"version": 1, "execution": execution})).unwrap();
        let queues = Queues::from_config(&json!({"q1": {"requires": ["big"]}}));
        let listing = Listing::from_format::<ListRow>("{queue} {properties} {propertiesx}");
        let rows = split("free", &set, &queues, &["q1"], &listing);
        let shown =
            |row: &ListRow| [&row.queue, &row.properties, &row.propertiesx].map(String::clone);
        assert_eq!(rows.iter().map(shown).collect::<Vec<_>>(), [["q1", "big,q1", "big"]]);
    }
}
