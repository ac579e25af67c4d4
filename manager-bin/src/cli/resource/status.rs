//! `resource status`: lists the states of nodes, with the reasons of drained nodes and of maintenance.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use jobtap_core::resource::{Idset, ResourceSet};

use super::list::resources;
use super::listing::{EmptyArgs, Listing, ListingArgs, is_utf8};
use super::refused;
use super::selection::{NodeArgs, Queues};
use super::unavailable::{Maintenance, Unavailable, all_ranks, drained};
use crate::cli::format::{FieldValue, Row};
use crate::cli::message::CliError;
use crate::cli::when::now;
use crate::client::Client;
use crate::rpc::services::resource::GetStatus;

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "States of nodes",
        "{state:>12} {color_up}{up:>2}{color_off} {nnodes:>6} {nodelist}",
    ),
    (
        "long",
        "The default with the reasons of drained nodes and of maintenance",
        "{state:>12} {color_up}{up:>2}{color_off} {nnodes:>6} +:{reason:<30.30} {nodelist}",
    ),
];

const HEADINGS: &[(&str, &str)] = &[
    ("state", "STATE"),
    ("statex", "STATE"),
    ("up", "UP"),
    ("up.ascii", "UP"),
    ("color_up", ""),
    ("color_off", ""),
    ("status", "STATUS"),
    ("nnodes", "NNODES"),
    ("ranks", "RANKS"),
    ("nodelist", "NODELIST"),
    ("reason", "REASON"),
    ("timestamp", "TIME"),
    ("userid", "UID"),
];

/// All states.
const STATES: [&str; 13] = [
    "avail",
    "offline",
    "exclude",
    "allocated",
    "housekeeping",
    "torpid",
    "draining",
    "drained",
    "maintenance",
    "reserved",
    "online",
    "drain",
    "all",
];

/// The states that are listed without `--states`.
const DEFAULT_STATES: &str = "avail,offline,exclude,torpid,draining,drained,maintenance,reserved";

/// Options of `resource status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// States to list: online, avail, offline, exclude, drain, draining, drained, maintenance, reserved,
    /// torpid, allocated, housekeeping, all
    #[arg(short = 's', long, value_name = "STATE,..")]
    states: Option<String>,
    #[command(flatten)]
    empty: EmptyArgs,
    #[command(flatten)]
    listing: ListingArgs,
    #[command(flatten)]
    nodes: NodeArgs,
}

/// The nodes and their states.
pub(super) struct Nodes {
    all: ResourceSet,
    online: Idset,
    offline: Idset,
    excluded: Idset,
    allocated: Idset,
    housekeeping: Idset,
    drained: Vec<Unavailable>,
    maintenance: Maintenance,
    /// The ranks that the options select.
    selected: Idset,
}

impl Nodes {
    pub(super) async fn fetch(client: &Client, nodes: &NodeArgs) -> Result<Self, CliError> {
        let status = client.call(GetStatus {}).await.map_err(|error| refused(&error))?;
        let ranks = |key: &str, text: &str| -> Result<Idset, CliError> {
            text.parse().map_err(|error| CliError::failure(format!("{key}: {error}")))
        };
        let all = resources("R", &status.r)?;
        let selected = nodes.ranks(&all, &Queues::fetch(client).await)?;
        Ok(Self {
            online: ranks("online", &status.online)?,
            offline: ranks("offline", &status.offline)?,
            excluded: ranks("exclude", &status.exclude)?,
            allocated: ranks("allocated", &status.allocated)?,
            housekeeping: ranks("housekeeping", &status.housekeeping)?,
            drained: drained(&status),
            maintenance: Maintenance::of(&status, now(), &TimeZone::system()),
            all,
            selected,
        })
    }

    /// The ranks in a state that has no reasons.
    fn ranks_in(&self, state: &str) -> Idset {
        match state {
            "avail" => self.online.difference(&all_ranks(&self.drained)).difference(&self.excluded),
            "online" => self.online.clone(),
            "offline" => self.offline.clone(),
            "exclude" => self.excluded.clone(),
            "allocated" => self.allocated.clone(),
            "all" => self.all.ranks(),
            "housekeeping" => self.housekeeping.clone(),
            // Torpid: the brokers of Flux can be slow to respond. This manager has none.
            _ => Idset::new(),
        }
    }

    /// The nodes in a state that has reasons. `None` for other states.
    fn unavailable(&self, state: &str) -> Option<Vec<(&'static str, Idset, &Unavailable)>> {
        match state {
            "maintenance" => Some(in_state("maintenance", &self.maintenance.current)),
            "reserved" => Some(in_state("reserved", &self.maintenance.planned)),
            "drain" | "drained" | "draining" => {
                let parts = self.drained.iter().flat_map(|group| {
                    let (idle, busy) = (
                        group.ranks.difference(&self.allocated),
                        group.ranks.intersection(&self.allocated),
                    );
                    [("drained", idle, group), ("draining", busy, group)]
                });
                let wanted = |name: &str| state == "drain" || state == name;
                Some(parts.filter(|(name, ..)| wanted(name)).collect())
            }
            _ => None,
        }
    }

    /// The rows of a state.
    fn rows(&self, state: &str, listing: &Listing) -> Vec<StatusRow> {
        let Some(groups) = self.unavailable(state) else {
            let ranks = self.ranks_in(state).intersection(&self.selected);
            return match ranks.is_empty() {
                true => Vec::new(),
                false => vec![self.row(state, ranks, None, listing)],
            };
        };
        let mut rows: Vec<StatusRow> = Vec::new();
        let reasons = listing.shows("reason") || listing.shows("timestamp");
        for (name, ranks, group) in groups {
            let ranks = ranks.intersection(&self.selected);
            // Online and offline nodes are on separate lines, since the column `up` differs.
            for ranks in [ranks.difference(&self.offline), ranks.intersection(&self.offline)] {
                if ranks.is_empty() {
                    continue;
                }
                let row = self.row(name, ranks, reasons.then_some(group), listing);
                match rows.iter_mut().find(|known| known.differs_only_in_nodes(&row)) {
                    Some(known) => known.add(&row, &self.all),
                    None => rows.push(row),
                }
            }
        }
        rows
    }

    fn row(
        &self,
        state: &str,
        ranks: Idset,
        group: Option<&Unavailable>,
        listing: &Listing,
    ) -> StatusRow {
        let up = !ranks.is_empty() && !ranks.intersects(&self.offline);
        StatusRow {
            state: state.to_owned(),
            up,
            nodelist: self.all.with_ranks(&ranks).nodelist().to_string(),
            ranks,
            reason: group.map(|group| group.reason.clone()).unwrap_or_default(),
            timestamp: group.map_or(0.0, |group| group.timestamp),
            userid: group.and_then(|group| group.userid),
            color: listing.color,
        }
    }

    /// The rows of drained nodes, in the order in which they were drained.
    pub(super) fn drain_rows(&self, listing: &Listing) -> Vec<StatusRow> {
        let mut rows = Vec::new();
        for (state, ranks, group) in self.unavailable("drain").into_iter().flatten() {
            let ranks = ranks.intersection(&self.selected);
            if !ranks.is_empty() {
                rows.push(self.row(state, ranks, Some(group), listing));
            }
        }
        rows.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
        rows
    }
}

/// Runs `resource status`.
pub(super) async fn run(client: &Client, args: &StatusArgs) -> Result<u8, CliError> {
    let states = args.states.as_deref().unwrap_or(DEFAULT_STATES);
    let chosen = args.states.is_some();
    for state in states.split(',').map(str::trim) {
        if !STATES.contains(&state) {
            let text = format!("Invalid resource state {state} specified");
            return Err(CliError::failure(text));
        }
    }
    let Some(listing) = args.listing.listing::<StatusRow>("resource-status", FORMATS)? else {
        return Ok(0);
    };
    let nodes = Nodes::fetch(client, &args.nodes).await?;
    let mut rows = Vec::new();
    for state in states.split(',').map(str::trim) {
        let state_rows = nodes.rows(state, &listing);
        let planned = state == "maintenance" || state == "reserved";
        let show_empty = (args.empty.no_skip_empty && !planned)
            || (chosen && !args.empty.skip_empty)
            || state == "avail";
        if state_rows.is_empty() && show_empty {
            rows.push(nodes.row(state, Idset::new(), None, &listing));
        }
        rows.extend(state_rows);
    }
    listing.print(rows)?;
    Ok(0)
}

/// A line of `resource status` or `resource drain`.
pub(super) struct StatusRow {
    state: String,
    up: bool,
    ranks: Idset,
    nodelist: String,
    reason: String,
    timestamp: f64,
    userid: Option<i64>,
    color: bool,
}

impl StatusRow {
    /// Returns true if the lines differ in nothing but their nodes.
    fn differs_only_in_nodes(&self, other: &Self) -> bool {
        (&self.state, self.up, &self.reason) == (&other.state, other.up, &other.reason)
            && self.timestamp == other.timestamp
    }

    fn add(&mut self, other: &Self, all: &ResourceSet) {
        self.ranks = self.ranks.union(&other.ranks);
        self.nodelist = all.with_ranks(&self.ranks).nodelist().to_string();
    }
}

/// Groups of nodes that are all in the same state.
fn in_state<'a>(
    state: &'static str,
    groups: &'a [Unavailable],
) -> Vec<(&'static str, Idset, &'a Unavailable)> {
    groups.iter().map(|group| (state, group.ranks.clone(), group)).collect()
}

impl Row for StatusRow {
    fn heading(name: &str) -> Option<Cow<'static, str>> {
        let heading = HEADINGS.iter().find(|(field, _)| *field == name);
        heading.map(|(_, heading)| Cow::Borrowed(*heading))
    }

    fn field(&self, name: &str) -> Option<FieldValue> {
        let text = |text: &str| Some(FieldValue::Text(text.to_owned()));
        let sign = |yes: &str, no: &str| text(if self.up { yes } else { no });
        match name {
            "state" | "statex" => text(&self.state),
            "status" => sign("online", "offline"),
            "up" if is_utf8() => sign("✔", "✗"),
            "up" | "up.ascii" => sign("y", "n"),
            "color_up" if self.color => sign("\x1b[01;32m", "\x1b[01;31m"),
            "color_off" if self.color => text("\x1b[0;0m"),
            "nnodes" => Some(FieldValue::Int(self.ranks.len() as i128)),
            "ranks" => text(&self.ranks.to_string()),
            "nodelist" => text(&self.nodelist),
            "reason" => text(&self.reason),
            "timestamp" => Some(FieldValue::Float(self.timestamp)),
            "userid" => self.userid.map(|userid| FieldValue::Int(userid.into())),
            _ => None,
        }
    }
}
