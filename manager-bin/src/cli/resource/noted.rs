//! Nodes that are set apart for a reason: drained ones, and those that a maintenance is planned for.

use jiff::tz::TimeZone;
use jobtap_core::resource::Idset;
use serde_json::Value;

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

/// The drained nodes of an answer to `resource.status`.
pub(super) fn drained(status: &Value) -> Vec<Noted> {
    let groups = status.get("drain").and_then(Value::as_object);
    let groups = groups.into_iter().flatten().filter_map(|(ranks, about)| {
        Some(Noted {
            ranks: ranks.parse().ok()?,
            reason: text(about, "reason").to_owned(),
            timestamp: about.get("timestamp").and_then(Value::as_f64).unwrap_or_default(),
            userid: about.get("userid").and_then(Value::as_i64),
        })
    });
    groups.collect()
}

impl Maintenance {
    /// What an answer to `resource.status` tells, seen at `now` by somebody in `zone`. A reason begins
    /// with the time that matters: the end of what is under way, the beginning of what is to come.
    pub(super) fn of(status: &Value, now: f64, zone: &TimeZone) -> Self {
        let mut found = Self::default();
        let planned = status.get("maintenance").and_then(Value::as_array);
        for plan in planned.into_iter().flatten() {
            let time = |key| plan.get(key).and_then(Value::as_f64);
            let from = time("from").unwrap_or_default();
            let under_way = from <= now;
            let when = match (under_way, time("to")) {
                (false, _) => Some(format!("from {}", show(from, zone))),
                (true, Some(to)) => Some(format!("until {}", show(to, zone))),
                (true, None) => None,
            };
            let why = Some(text(plan, "reason").to_owned()).filter(|why| !why.is_empty());
            let reason = when.into_iter().chain(why).collect::<Vec<_>>().join(": ");
            let Ok(ranks) = text(plan, "ranks").parse() else { continue };
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

fn text<'a>(object: &'a Value, key: &str) -> &'a str {
    object.get(key).and_then(Value::as_str).unwrap_or_default()
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
        let found = Maintenance::of(&status, 10.0, &TimeZone::UTC);
        let reasons = |noted: &[Noted]| noted.iter().map(|n| n.reason.clone()).collect::<Vec<_>>();
        assert_eq!(reasons(&found.under_way), ["until Jan02 00:00: firmware", ""]);
        assert_eq!(reasons(&found.to_come), ["from Jan03 00:00: new disks"]);
        assert_eq!(found.ranks_under_way().to_string(), "0-1");
    }
}
