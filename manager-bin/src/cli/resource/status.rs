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

/// The states that can be lines, in the order of the lines.
const LINES: [&str; 11] = [
    "all",
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
];

/// The states whose nodes are in another state as well. `online` selects the lines of all other states.
const OVERLAPPING: [&str; 6] =
    ["all", "allocated", "housekeeping", "torpid", "maintenance", "reserved"];

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
            "drained" | "draining" => {
                let parts = self.drained.iter().flat_map(|group| {
                    let (idle, busy) = (
                        group.ranks.difference(&self.allocated),
                        group.ranks.intersection(&self.allocated),
                    );
                    [("drained", idle, group), ("draining", busy, group)]
                });
                Some(parts.filter(|(name, ..)| *name == state).collect())
            }
            _ => None,
        }
    }

    /// The rows of these states, in the order of [`LINES`]. `show_empty` says which states have a row without
    /// nodes.
    fn listed(
        &self,
        states: &[&str],
        show_empty: impl Fn(&str) -> bool,
        listing: &Listing,
    ) -> Vec<StatusRow> {
        let mut listed = Vec::new();
        for state in LINES {
            let drain = states.contains(&"drain") && matches!(state, "draining" | "drained");
            let mut rows = self.rows(state, listing);
            if states.contains(&state) || drain {
                if rows.is_empty() && show_empty(state) {
                    rows.push(self.row(state, Idset::new(), None, listing));
                }
            } else if states.contains(&"online") && !OVERLAPPING.contains(&state) {
                rows.retain(|row| row.up);
            } else {
                continue;
            }
            listed.extend(rows);
        }
        listed
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
                merge(&mut rows, row, &self.all);
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

    /// The rows of drained nodes: those with running jobs first, then by rank. Nodes of one state and reason
    /// are on the same line, unless the listing shows that they were drained at different times.
    pub(super) fn drain_rows(&self, listing: &Listing) -> Vec<StatusRow> {
        let groups =
            ["draining", "drained"].into_iter().filter_map(|state| self.unavailable(state));
        let mut rows: Vec<StatusRow> = Vec::new();
        for (state, ranks, group) in groups.flatten() {
            let ranks = ranks.intersection(&self.selected);
            if ranks.is_empty() {
                continue;
            }
            let mut row = self.row(state, ranks, Some(group), listing);
            if !listing.shows("timestamp") {
                row.timestamp = 0.0;
            }
            merge(&mut rows, row, &self.all);
        }
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
    let states: Vec<&str> = states.split(',').map(str::trim).collect();
    let show_empty = |state: &str| {
        let planned = state == "maintenance" || state == "reserved";
        (args.empty.no_skip_empty && !planned)
            || (chosen && !args.empty.skip_empty)
            || state == "avail"
    };
    listing.print(nodes.listed(&states, show_empty, &listing))?;
    Ok(0)
}

/// Adds a row to those that differ from each other in more than their nodes.
fn merge(rows: &mut Vec<StatusRow>, row: StatusRow, all: &ResourceSet) {
    match rows.iter_mut().find(|known| known.differs_only_in_nodes(&row)) {
        Some(known) => known.add(&row, all),
        None => rows.push(row),
    }
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

#[cfg(test)]
mod tests {
    use jobtap_core::resource::{Children, Hostlist};

    use super::*;
    use crate::cli::format::{RenderOptions, render};

    /// Four nodes: 0 is free, 1 to 3 are drained, and 3 still runs a job.
    fn nodes() -> Nodes {
        let set = |text: &str| text.parse::<Idset>().unwrap();
        let hosts: Hostlist = "n[0-3]".parse().unwrap();
        let all = ResourceSet::uniform(0, &hosts, Children::new(set("0"), Idset::new()));
        let drained = |ranks: &str, reason: &str, timestamp: f64| Unavailable {
            ranks: set(ranks),
            reason: reason.to_owned(),
            timestamp,
            userid: None,
        };
        Nodes {
            selected: all.ranks(),
            online: all.ranks(),
            offline: Idset::new(),
            excluded: Idset::new(),
            allocated: set("3"),
            housekeeping: Idset::new(),
            drained: vec![
                drained("1", "disk", 9.0),
                drained("2", "fan", 1.0),
                drained("3", "fan", 2.0),
            ],
            maintenance: Maintenance::default(),
            all,
        }
    }

    fn lines(rows: &[StatusRow], listing: &Listing) -> Vec<String> {
        let options = RenderOptions { header: false, zone: TimeZone::UTC };
        render(listing.template(), rows, &options).unwrap().lines
    }

    #[test]
    fn status_lines_have_their_own_order() {
        let listing = Listing::of::<StatusRow>("{state} {nnodes} {ranks}");
        let listed =
            |states: &[&str], empty| lines(&nodes().listed(states, |_| empty, &listing), &listing);
        assert_eq!(listed(&["drained", "avail"], false), ["avail 1 0", "drained 2 1-2"]);
        assert_eq!(
            listed(&["drain", "online", "offline"], true),
            ["avail 1 0", "offline 0 ", "draining 1 3", "drained 2 1-2"]
        );
    }

    #[test]
    fn drained_nodes_of_one_reason_are_on_one_line() {
        let mut nodes = nodes();
        let drained = |nodes: &Nodes, format: &str| {
            let listing = Listing::of::<StatusRow>(format);
            lines(&nodes.drain_rows(&listing), &listing)
        };
        let format = "{state} {ranks} {reason}";
        assert_eq!(drained(&nodes, format), ["draining 3 fan", "drained 1 disk", "drained 2 fan"]);
        nodes.allocated = Idset::new();
        assert_eq!(drained(&nodes, format), ["drained 1 disk", "drained 2-3 fan"]);
        // Their times are shown.
        assert_eq!(drained(&nodes, "{ranks} {timestamp!d:%S}"), ["1 09", "2 01", "3 02"]);
    }
}
