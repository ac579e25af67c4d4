//! `resource status`: the states of nodes, drained ones with their reasons.

use std::borrow::Cow;

use jobtap_core::resource::{Idset, ResourceSet};
use serde_json::{Value, json};

use super::list::resources;
use super::listing::{FormArgs, Listing, is_utf8};
use super::refused;
use super::selection::{NodeArgs, Queues};
use crate::cli::format::{FieldValue, Row};
use crate::cli::message::CliError;
use crate::client::Client;

/// The builtin formats: name, description, format.
const FORMATS: &[(&str, &str, &str)] = &[
    (
        "default",
        "States of nodes",
        "{state:>12} {color_up}{up:>2}{color_off} {nnodes:>6} {nodelist}",
    ),
    (
        "long",
        "The default with the reasons of drained nodes",
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

/// All states in the order of the listing.
const STATES: [&str; 11] = [
    "avail",
    "offline",
    "exclude",
    "allocated",
    "housekeeping",
    "torpid",
    "draining",
    "drained",
    "online",
    "drain",
    "all",
];

/// What is shown if no states are chosen.
const USUAL: &str = "avail,offline,exclude,torpid,draining,drained";

/// Options of `resource status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// States: online, avail, offline, exclude, drain, draining, drained, torpid, allocated,
    /// housekeeping, all
    #[arg(short = 's', long, value_name = "STATE,..")]
    states: Option<String>,
    /// Leave out states without nodes, also if states are chosen
    #[arg(long)]
    skip_empty: bool,
    /// Show states without nodes
    #[arg(long, conflicts_with = "skip_empty")]
    no_skip_empty: bool,
    #[command(flatten)]
    form: FormArgs,
    #[command(flatten)]
    nodes: NodeArgs,
}

/// What the manager knows of the nodes.
pub(super) struct Nodes {
    all: ResourceSet,
    online: Idset,
    offline: Idset,
    excluded: Idset,
    allocated: Idset,
    drained: Vec<Drained>,
    wanted: Idset,
}

/// Nodes that were drained together.
struct Drained {
    ranks: Idset,
    reason: String,
    timestamp: f64,
    userid: Option<i64>,
}

impl Nodes {
    pub(super) async fn fetch(client: &Client, nodes: &NodeArgs) -> Result<Self, CliError> {
        let status =
            client.rpc("resource.status", json!({})).await.map_err(|error| refused(&error))?;
        let ranks = |key: &str| -> Result<Idset, CliError> {
            let text = status.get(key).and_then(Value::as_str).unwrap_or_default();
            text.parse().map_err(|error| CliError::failure(format!("{key}: {error}")))
        };
        let all = resources(&status, "R")?;
        let wanted = nodes.ranks(&all, &Queues::fetch(client).await)?;
        let drained = status.get("drain").and_then(Value::as_object);
        let drained = drained.into_iter().flatten().filter_map(|(ranks, about)| {
            let text = |key| about.get(key).and_then(Value::as_str).unwrap_or_default();
            Some(Drained {
                ranks: ranks.parse().ok()?,
                reason: text("reason").to_owned(),
                timestamp: about.get("timestamp").and_then(Value::as_f64).unwrap_or_default(),
                userid: about.get("userid").and_then(Value::as_i64),
            })
        });
        Ok(Self {
            online: ranks("online")?,
            offline: ranks("offline")?,
            excluded: ranks("exclude")?,
            allocated: ranks("allocated")?,
            drained: drained.collect(),
            all,
            wanted,
        })
    }

    fn drained_ranks(&self) -> Idset {
        self.drained.iter().fold(Idset::new(), |all, drained| all.union(&drained.ranks))
    }

    /// The ranks in a state that isn't about drained nodes.
    fn plain(&self, state: &str) -> Idset {
        match state {
            "avail" => self.online.difference(&self.drained_ranks()).difference(&self.excluded),
            "online" => self.online.clone(),
            "offline" => self.offline.clone(),
            "exclude" => self.excluded.clone(),
            "allocated" => self.allocated.clone(),
            "all" => self.all.ranks(),
            // Nothing is ever slow to answer on this host, and no cleanup holds nodes.
            _ => Idset::new(),
        }
    }

    /// The rows of a state.
    fn rows(&self, state: &str, listing: &Listing) -> Vec<StatusRow> {
        if !["drain", "drained", "draining"].contains(&state) {
            let ranks = self.plain(state).intersection(&self.wanted);
            return match ranks.is_empty() {
                true => Vec::new(),
                false => vec![self.row(state, ranks, None, listing)],
            };
        }
        let mut rows: Vec<StatusRow> = Vec::new();
        let reasons = listing.shows("reason") || listing.shows("timestamp");
        for drained in &self.drained {
            let ranks = drained.ranks.intersection(&self.wanted);
            let parts = [
                ("drained", ranks.difference(&self.allocated)),
                ("draining", ranks.intersection(&self.allocated)),
            ];
            for (name, ranks) in parts.iter().filter(|(name, _)| state == "drain" || state == *name)
            {
                for ranks in [ranks.difference(&self.offline), ranks.intersection(&self.offline)] {
                    if ranks.is_empty() {
                        continue;
                    }
                    let row = self.row(name, ranks, reasons.then_some(drained), listing);
                    match rows.iter_mut().find(|known| known.is_like(&row)) {
                        Some(known) => known.add(&row, &self.all),
                        None => rows.push(row),
                    }
                }
            }
        }
        rows
    }

    fn row(
        &self,
        state: &str,
        ranks: Idset,
        drained: Option<&Drained>,
        listing: &Listing,
    ) -> StatusRow {
        let up = !ranks.is_empty() && !ranks.intersects(&self.offline);
        StatusRow {
            state: state.to_owned(),
            up,
            nodelist: self.all.with_ranks(&ranks).nodelist().to_string(),
            ranks,
            reason: drained.map(|drained| drained.reason.clone()).unwrap_or_default(),
            timestamp: drained.map_or(0.0, |drained| drained.timestamp),
            userid: drained.and_then(|drained| drained.userid),
            color: listing.color,
        }
    }

    /// Drained nodes, those that were drained first in front.
    pub(super) fn drain_rows(&self, listing: &Listing) -> Vec<StatusRow> {
        let mut rows = Vec::new();
        for drained in &self.drained {
            let ranks = drained.ranks.intersection(&self.wanted);
            let done = ranks.difference(&self.allocated);
            let busy = ranks.intersection(&self.allocated);
            for (state, ranks) in [("drained", done), ("draining", busy)] {
                if !ranks.is_empty() {
                    rows.push(self.row(state, ranks, Some(drained), listing));
                }
            }
        }
        rows.sort_by(|a, b| a.timestamp.total_cmp(&b.timestamp));
        rows
    }
}

/// Runs `resource status`.
pub(super) async fn run(client: &Client, args: &StatusArgs) -> Result<u8, CliError> {
    let states = args.states.as_deref().unwrap_or(USUAL);
    let chosen = args.states.is_some();
    for state in states.split(',').map(str::trim) {
        if !STATES.contains(&state) {
            let text = format!("Invalid resource state {state} specified");
            return Err(CliError::failure(text));
        }
    }
    let Some(listing) = args.form.listing::<StatusRow>("resource-status", FORMATS)? else {
        return Ok(0);
    };
    let nodes = Nodes::fetch(client, &args.nodes).await?;
    let mut rows = Vec::new();
    for state in states.split(',').map(str::trim) {
        let some = nodes.rows(state, &listing);
        let kept = args.no_skip_empty || (chosen && !args.skip_empty) || state == "avail";
        if some.is_empty() && kept {
            rows.push(nodes.row(state, Idset::new(), None, &listing));
        }
        rows.extend(some);
    }
    listing.print(rows)?;
    Ok(0)
}

/// One line.
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
    /// Whether it differs in nothing but its nodes.
    fn is_like(&self, other: &Self) -> bool {
        (&self.state, self.up, &self.reason) == (&other.state, other.up, &other.reason)
            && self.timestamp == other.timestamp
    }

    fn add(&mut self, other: &Self, all: &ResourceSet) {
        self.ranks = self.ranks.union(&other.ranks);
        self.nodelist = all.with_ranks(&self.ranks).nodelist().to_string();
    }
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
