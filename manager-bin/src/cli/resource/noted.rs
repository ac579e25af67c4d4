//! Nodes with a reason why they are not available: drained ones, and those reserved for maintenance.

use jiff::tz::TimeZone;
use jobtap_core::resource::Idset;

use crate::rpc::services::resource::Status;

/// Nodes that are in one state for one reason.
pub(super) struct Noted {
    pub(super) ranks: Idset,
    pub(super) reason: String,
    /// Since when, or from when on: UNIX seconds.
    pub(super) timestamp: f64,
    pub(super) userid: Option<i64>,
}

/// The nodes whose maintenance is under way, and those whose maintenance is still to come.
#[derive(Default)]
pub(super) struct Maintenance {
    pub(super) under_way: Vec<Noted>,
    pub(super) to_come: Vec<Noted>,
}

/// The drained nodes of a response of `resource.status`.
pub(super) fn drained(status: &Status) -> Vec<Noted> {
    let groups = status.drain.iter().filter_map(|(ranks, about)| {
        Some(Noted {
            ranks: ranks.parse().ok()?,
            reason: about.reason.clone().unwrap_or_default(),
            timestamp: about.timestamp,
            userid: about.userid,
        })
    });
    groups.collect()
}

impl Maintenance {
    /// The maintenances in a response of `resource.status` at the time `now`. A reason begins with the end
    /// of a maintenance that is under way, or with the beginning of one that is still to come, in `zone`.
    pub(super) fn of(status: &Status, now: f64, zone: &TimeZone) -> Self {
        let mut found = Self::default();
        for plan in &status.maintenance {
            let from = plan.from.unwrap_or_default();
            let under_way = from <= now;
            let when = match (under_way, plan.to) {
                (false, _) => Some(format!("from {}", show(from, zone))),
                (true, Some(to)) => Some(format!("until {}", show(to, zone))),
                (true, None) => None,
            };
            let why = Some(plan.reason.clone()).filter(|why| !why.is_empty());
            let reason = when.into_iter().chain(why).collect::<Vec<_>>().join(": ");
            let Ok(ranks) = plan.ranks.parse() else { continue };
            let side = if under_way { &mut found.under_way } else { &mut found.to_come };
            side.push(Noted { ranks, reason, timestamp: from, userid: None });
        }
        found
    }

    /// The nodes on which no job can start now.
    pub(super) fn ranks_under_way(&self) -> Idset {
        all_ranks(&self.under_way)
    }
}

/// The nodes of all entries.
pub(super) fn all_ranks(noted: &[Noted]) -> Idset {
    noted.iter().fold(Idset::new(), |all, noted| all.union(&noted.ranks))
}

/// Now, in UNIX seconds.
pub(in crate::cli) fn now() -> f64 {
    jiff::Timestamp::now().as_microsecond() as f64 / 1e6
}

/// A time in the short form of these listings.
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
    fn a_maintenance_is_told_with_the_time_that_matters() {
        let status = json!({"maintenance": [
            {"ranks": "0", "from": 0.0, "to": 86_400.0, "reason": "firmware"},
            {"ranks": "1", "from": 0.0, "to": null, "reason": ""},
            {"ranks": "2-3", "from": 172_800.0, "to": null, "reason": "new disks"},
        ]});
        let status = serde_json::from_value(status).unwrap();
        let found = Maintenance::of(&status, 10.0, &TimeZone::UTC);
        let reasons = |noted: &[Noted]| noted.iter().map(|n| n.reason.clone()).collect::<Vec<_>>();
        assert_eq!(reasons(&found.under_way), ["until Jan02 00:00: firmware", ""]);
        assert_eq!(reasons(&found.to_come), ["from Jan03 00:00: new disks"]);
        assert_eq!(found.ranks_under_way().to_string(), "0-1");
    }
}
