//! `resource status`: lists the states of nodes, with the reasons of drained nodes and of maintenance.

use std::borrow::Cow;

use jiff::tz::TimeZone;
use jobtap_core::resource::{Idset, ResourceSet};

use super::listing::{EmptyArgs, Listing, ListingArgs, is_utf8};
use super::messages::{COMMAND, refused};
use super::selection::{NodeArgs, Queues};
use super::unavailable::{Maintenance, Unavailable, all_ranks, drained};
use crate::cli::common::format::named::NamedFormats;
use crate::cli::common::format::{FieldValue, Row};
use crate::cli::common::message::{CliError, Prog};
use crate::cli::common::resources::resources;
use crate::cli::common::when::now;
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

/// What `--states` takes. `drain` stands for two of the states that follow, `online` and `offline` select
/// nodes of any state.
const CHOICES: [&str; 13] = [
    "all",
    "online",
    "avail",
    "offline",
    "exclude",
    "drain",
    "draining",
    "drained",
    "torpid",
    "allocated",
    "housekeeping",
    "maintenance",
    "reserved",
];

/// The states, in the order of their lines.
const STATES: [&str; 9] = [
    "avail",
    "exclude",
    "allocated",
    "torpid",
    "housekeeping",
    "draining",
    "drained",
    "maintenance",
    "reserved",
];

/// The fields that depend on the state of nodes.
const STATE_FIELDS: [&str; 7] =
    ["state", "statex", "status", "up", "up.ascii", "color_up", "color_off"];

/// Options of `resource status`.
#[derive(Debug, clap::Args)]
pub(super) struct StatusArgs {
    /// States to list: online, avail, offline, exclude, drain, draining, drained, maintenance, reserved,
    /// torpid, allocated, housekeeping, all
    #[arg(short = 's', long, alias = "state", value_name = "STATE,..")]
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
            maintenance: Maintenance::from_status(&status, now(), &TimeZone::system()),
            all,
            selected,
        })
    }

    /// The ranks in a state that has no reasons.
    fn ranks_in(&self, state: &str) -> Idset {
        match state {
            "avail" => {
                let all = self.online.union(&self.offline);
                all.difference(&all_ranks(&self.drained)).difference(&self.excluded)
            }
            "exclude" => self.excluded.clone(),
            "allocated" => self.allocated.clone(),
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

    /// The rows of the chosen states, those of online nodes first.
    fn listed(&self, chosen: &Chosen, listing: &Listing) -> Vec<StatusRow> {
        let mut listed = Vec::new();
        for state in chosen.states() {
            let mut rows = self.rows(state, listing);
            for up in [true, false] {
                if chosen.shows_empty(state, up) && !rows.iter().any(|row| row.up == up) {
                    rows.push(self.row(state, up, Idset::new(), None, listing));
                }
            }
            rows.retain(|row| chosen.shows(row.up));
            rows.sort_by_key(|row| !row.up);
            listed.extend(rows);
        }
        listed
    }

    /// The rows of a state that have nodes. Online and offline nodes are on separate lines.
    fn rows(&self, state: &str, listing: &Listing) -> Vec<StatusRow> {
        let mut rows: Vec<StatusRow> = Vec::new();
        let mut add = |name: &str, ranks: &Idset, group: Option<&Unavailable>| {
            let ranks = ranks.intersection(&self.selected);
            for (up, ranks) in [
                (true, ranks.difference(&self.offline)),
                (false, ranks.intersection(&self.offline)),
            ] {
                if !ranks.is_empty() {
                    merge(&mut rows, self.row(name, up, ranks, group, listing), &self.all);
                }
            }
        };
        let Some(groups) = self.unavailable(state) else {
            add(state, &self.ranks_in(state), None);
            return rows;
        };
        let reasons = listing.shows("reason") || listing.shows("timestamp");
        for (name, ranks, group) in groups {
            add(name, &ranks, reasons.then_some(group));
        }
        rows
    }

    fn row(
        &self,
        state: &str,
        up: bool,
        ranks: Idset,
        group: Option<&Unavailable>,
        listing: &Listing,
    ) -> StatusRow {
        StatusRow {
            state: if up { state.to_owned() } else { format!("{state}*") },
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
            let up = !ranks.intersects(&self.offline);
            let mut row = self.row(state, up, ranks, Some(group), listing);
            if !listing.shows("timestamp") {
                row.timestamp = 0.0;
            }
            merge(&mut rows, row, &self.all);
        }
        rows
    }
}

/// The lines that the options select.
struct Chosen {
    /// The words of `--states`; `None` without the option.
    words: Option<Vec<String>>,
    empty: EmptyArgs,
}

impl Chosen {
    fn new(states: Option<&str>, empty: EmptyArgs) -> Result<Self, CliError> {
        let states = states.filter(|text| !text.is_empty());
        let words = states.map(|text| text.split(',').map(|word| word.trim().to_owned()).collect());
        let words: Option<Vec<String>> = words;
        let unknown = words.iter().flatten().find(|word| !CHOICES.contains(&word.as_str()));
        if let Some(word) = unknown {
            // As in Flux, the valid states are printed too, below the error.
            let text = format!("Invalid resource state {word} specified");
            let known =
                Prog::current().info(COMMAND, format!("valid states: {}", CHOICES.join(",")));
            return Err(CliError::failure(format!("{text}\n{known}")));
        }
        Ok(Self { words, empty })
    }

    fn names(&self, word: &str) -> bool {
        self.words.iter().flatten().any(|named| named == word)
    }

    /// The states that are listed. With only `online` or `offline`, they are the same as without the option.
    fn states(&self) -> impl Iterator<Item = &'static str> {
        let usual = !STATES.iter().any(|state| self.names_state(state)) && !self.names("all");
        STATES.into_iter().filter(move |state| match usual {
            true => *state != "allocated",
            false => self.names("all") || self.names_state(state),
        })
    }

    fn names_state(&self, state: &str) -> bool {
        self.names(state) || (self.names("drain") && matches!(state, "draining" | "drained"))
    }

    /// Whether lines of online nodes (`up`), or of offline nodes, are shown.
    fn shows(&self, up: bool) -> bool {
        let (online, offline) = (self.names("online"), self.names("offline"));
        if up { online || !offline } else { offline || !online }
    }

    /// Whether a state has a line even without nodes: if `--states` is given, or the options ask for empty lines.
    /// Maintenance, which Flux doesn't know, must be named for that. As in Flux, there is no such line of drained nodes
    /// that are offline.
    fn shows_empty(&self, state: &str, up: bool) -> bool {
        if matches!(state, "maintenance" | "reserved") && !self.names(state) {
            return false;
        }
        if self.empty.skip_empty {
            return false;
        }
        let offline = self.names("offline") && !matches!(state, "draining" | "drained");
        (self.empty.no_skip_empty || self.words.is_some()) && (up || offline)
    }
}

/// Runs `resource status`.
pub(super) async fn run(client: &Client, args: &StatusArgs) -> Result<u8, CliError> {
    let chosen = Chosen::new(args.states.as_deref(), args.empty)?;
    let formats = NamedFormats::builtin(COMMAND, FORMATS).of_subcommand("status");
    let Some(listing) = args.listing.listing::<StatusRow>(formats)? else {
        return Ok(0);
    };
    let listing = listing.without_colors(&["color_up", "color_off"]);
    let nodes = Nodes::fetch(client, &args.nodes).await?;
    let mut rows = nodes.listed(&chosen, &listing);
    if !STATE_FIELDS.iter().any(|field| listing.shows(field)) {
        rows = merged(rows, &nodes.all);
    }
    listing.print(rows)?;
    Ok(0)
}

/// Merges the rows of all states, for a listing that displays neither the states nor which nodes are online.
fn merged(rows: Vec<StatusRow>, all: &ResourceSet) -> Vec<StatusRow> {
    let mut merged = Vec::new();
    for row in rows {
        merge(&mut merged, StatusRow { state: String::new(), up: true, ..row }, all);
    }
    merged
}

/// Adds a row, or only its nodes if there is a row that differs in nothing else.
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
    use crate::cli::common::format::{RenderOptions, render};

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

    fn chosen(states: &str) -> Chosen {
        let states = if states.is_empty() { None } else { Some(states) };
        Chosen::new(states, EmptyArgs::default()).unwrap()
    }

    #[test]
    fn status_lines_have_their_own_order() {
        let listing = Listing::from_format::<StatusRow>("{state} {nnodes} {ranks}");
        let listed =
            |states: &str| lines(&nodes().listed(&chosen(states), &listing), &listing).join(", ");
        assert_eq!(listed(""), "avail 1 0, draining 1 3, drained 2 1-2");
        assert_eq!(listed("drained,avail"), "avail 1 0, drained 2 1-2");
        assert_eq!(listed("drain,allocated"), "allocated 1 3, draining 1 3, drained 2 1-2");
        assert_eq!(listed("drain,online"), "draining 1 3, drained 2 1-2");
        let online =
            "avail 1 0, exclude 0 , torpid 0 , housekeeping 0 , draining 1 3, drained 2 1-2";
        assert_eq!(listed("online"), online);
        let all = online.replace("torpid", "allocated 1 3, torpid");
        assert_eq!(listed("all"), all);
    }

    #[test]
    fn nodes_that_are_offline_have_lines_of_their_own() {
        let listing = Listing::from_format::<StatusRow>("{state} {nnodes} {ranks}");
        let mut nodes = nodes();
        nodes.online = "1-3".parse().unwrap();
        nodes.offline = "0".parse().unwrap();
        let listed =
            |states: &str| lines(&nodes.listed(&chosen(states), &listing), &listing).join(", ");
        assert_eq!(listed(""), "avail* 1 0, draining 1 3, drained 2 1-2");
        assert_eq!(listed("avail"), "avail 0 , avail* 1 0");
        assert_eq!(listed("offline"), "avail* 1 0, exclude* 0 , torpid* 0 , housekeeping* 0 ");
        assert_eq!(listed("offline,drained"), "");
    }

    #[test]
    fn without_colours_their_columns_are_left_out_with_the_blanks_before_them() {
        let shown = |format: &str, color: bool| {
            let mut listing = Listing::from_format::<StatusRow>(format);
            listing.color = color;
            let listing = listing.without_colors(&["color_up", "color_off"]);
            lines(&nodes().listed(&chosen("avail"), &listing), &listing).join(", ")
        };
        let format = "{state:>6} {color_up}{up.ascii:>2}{color_off} {nnodes:>3}";
        assert_eq!(shown(format, true), " avail \x1b[01;32m y\x1b[0;0m   1");
        assert_eq!(shown(format, false), " avail y   1");
        assert_eq!(shown("{state}X {color_up}Y{nnodes} {color_off}", false), "availX Y1");
    }

    #[test]
    fn drained_nodes_of_one_reason_are_on_one_line() {
        let mut nodes = nodes();
        let drained = |nodes: &Nodes, format: &str| {
            let listing = Listing::from_format::<StatusRow>(format);
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
