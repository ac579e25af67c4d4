//! Nodes that are unavailable for a reason: drained nodes, and nodes with current or planned maintenance.

use jiff::tz::TimeZone;
use jobtap_core::resource::Idset;

use crate::rpc::services::resource::Status;

/// Nodes that are unavailable for the same reason.
pub(super) struct Unavailable {
    pub(super) ranks: Idset,
    pub(super) reason: String,
    /// The start of their unavailability, in seconds since the epoch. It can be in the future.
    pub(super) timestamp: f64,
    pub(super) userid: Option<i64>,
}

/// The nodes that are under maintenance now, and those whose maintenance is planned.
#[derive(Default)]
pub(super) struct Maintenance {
    pub(super) current: Vec<Unavailable>,
    pub(super) planned: Vec<Unavailable>,
}

/// The drained nodes in a response of `resource.status`.
pub(super) fn drained(status: &Status) -> Vec<Unavailable> {
    let groups = status.drain.iter().filter_map(|(ranks, about)| {
        Some(Unavailable {
            ranks: ranks.parse().ok()?,
            reason: about.reason.clone().unwrap_or_default(),
            timestamp: about.timestamp,
            userid: about.userid,
        })
    });
    groups.collect()
}

impl Maintenance {
    /// The maintenance in a response of `resource.status`, at the time `now`. The reasons start with the end
    /// of current maintenance or with the beginning of planned maintenance, in the time zone `zone`.
    pub(super) fn from_status(status: &Status, now: f64, zone: &TimeZone) -> Self {
        let mut found = Self::default();
        for plan in &status.maintenance {
            let from = plan.from.unwrap_or_default();
            let started = from <= now;
            let when = match (started, plan.to) {
                (false, _) => Some(format!("from {}", show(from, zone))),
                (true, Some(to)) => Some(format!("until {}", show(to, zone))),
                (true, None) => None,
            };
            let reason = Some(plan.reason.clone()).filter(|reason| !reason.is_empty());
            let reason = when.into_iter().chain(reason).collect::<Vec<_>>().join(": ");
            let Ok(ranks) = plan.ranks.parse() else { continue };
            let list = if started { &mut found.current } else { &mut found.planned };
            list.push(Unavailable { ranks, reason, timestamp: from, userid: None });
        }
        found
    }

    /// The ranks that are under maintenance now: no job can start on them.
    pub(super) fn current_ranks(&self) -> Idset {
        all_ranks(&self.current)
    }
}

/// The ranks of all groups.
pub(super) fn all_ranks(groups: &[Unavailable]) -> Idset {
    groups.iter().fold(Idset::new(), |all, group| all.union(&group.ranks))
}

/// Formats a time in the short form of these listings.
fn show(seconds: f64, zone: &TimeZone) -> String {
    let instant = jiff::Timestamp::from_microsecond((seconds * 1e6) as i64);
    instant.map_or_else(
        |_| "-".to_owned(),
        |at| at.to_zoned(zone.clone()).strftime("%b%d %R").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_maintenance_shows_its_end_or_its_begin() {
        let status = json!({"maintenance": [
            {"ranks": "0", "from": 0.0, "to": 86_400.0, "reason": "firmware"},
            {"ranks": "1", "from": 0.0, "to": null, "reason": ""},
            {"ranks": "2-3", "from": 172_800.0, "to": null, "reason": "new disks"},
        ]});
        let status = serde_json::from_value(status).unwrap();
        let found = Maintenance::from_status(&status, 10.0, &TimeZone::UTC);
        let reasons =
            |groups: &[Unavailable]| groups.iter().map(|n| n.reason.clone()).collect::<Vec<_>>();
        assert_eq!(reasons(&found.current), ["until Jan02 00:00: firmware", ""]);
        assert_eq!(reasons(&found.planned), ["from Jan03 00:00: new disks"]);
        assert_eq!(found.current_ranks().to_string(), "0-1");
    }
}
