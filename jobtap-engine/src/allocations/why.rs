//! What a pending job waits for, as far as allocations are concerned.

use serde_json::{Value, json};

use super::state::State;
use super::{Allocations, demand};
use crate::allocation::Table;
use crate::api::WaitsFor;
use crate::core::Core;
use crate::job::Timestamp;
use crate::jobs::Record;
use crate::plugin::Fit;
use crate::resource::Idset;

/// A reason for each table that could run the job, or why none could. Empty if the instance isn't elastic.
pub(crate) fn reasons(core: &Core, record: &Record) -> Vec<Value> {
    let allocations = &core.allocations;
    if allocations.tables.is_empty() {
        return Vec::new();
    }
    let fits = demand::fits_of(core, record);
    if fits.is_empty() {
        let text = match demand::fits_but_for_time(core, record) {
            true => {
                "no allocation lasts as long as its time limit: lower the limit, or raise the \
                     time-limit of a table [[allocation]]"
            }
            false => "no allocations of a single table could run it, so none is asked for",
        };
        return vec![json!({ "kind": WaitsFor::Allocation.word(), "text": text })];
    }
    let (now, drained) = (core.turn.clock.now, core.alloc.nodes.drained_ranks());
    let tables = fits.iter().filter_map(|fit| Some((fit, allocations.tables.get(&fit.table)?)));
    let reasons = tables.map(|(fit, table)| {
        let text = text(allocations, fit, table, &drained, now);
        json!({ "kind": WaitsFor::Allocation.word(), "text": text, "table": table.name })
    });
    reasons.collect()
}

fn text(
    allocations: &Allocations,
    fit: &Fit,
    table: &Table,
    drained: &Idset,
    now: Timestamp,
) -> String {
    let name = &table.name;
    let mut words = Vec::new();
    let (mut asked, mut starting) = (0u32, 0u32);
    let mut unanswered = None;
    let mut waiting: Vec<(Option<&str>, u32)> = Vec::new();
    let bracketed =
        |reason: Option<&str>| reason.map(|reason| format!(" ({reason})")).unwrap_or_default();
    for (_, known) in allocations.of_table(name) {
        match &known.state {
            State::Asked => {
                asked += 1;
                unanswered = known.unanswered.as_deref().or(unanswered);
            }
            State::Waiting { reason, .. } => {
                let reason = reason.as_deref();
                match waiting.iter_mut().find(|(known, _)| *known == reason) {
                    Some((_, count)) => *count += 1,
                    None => waiting.push((reason, 1)),
                }
            }
            State::Running { .. } if known.joined.len() < known.ranks.len() => starting += 1,
            _ => {}
        }
    }
    if asked > 0 {
        let why = bracketed(unanswered);
        words.push(format!("{asked} {} being asked for{why}", plural(asked)));
    }
    for (reason, count) in waiting {
        words.push(format!("{count} on order{}", bracketed(reason)));
    }
    if starting > 0 {
        words.push(format!("{starting} {} starting", plural(starting)));
    }
    words.extend(bounds(allocations, table, drained, now));
    let needs = match fit.allocations {
        1 => format!("it needs an allocation of {name}"),
        count => format!("it needs {count} allocations of {name} at once"),
    };
    match words.is_empty() {
        true => needs,
        false => format!("{needs}: {}", words.join("; ")),
    }
}

fn plural(count: u32) -> &'static str {
    if count == 1 { "is" } else { "are" }
}

/// Why no further allocation is asked for.
fn bounds(
    allocations: &Allocations,
    table: &Table,
    drained: &Idset,
    now: Timestamp,
) -> Vec<String> {
    let mut words = Vec::new();
    if let Some(history) = allocations.histories.get(&table.name) {
        let next = history.next_try(now, table.requests_per_hour);
        let when = next.map(|next| format!(", asked again in {:.0} s", (next - now).max(1.0)));
        match (&history.refusal, &when) {
            (Some((reason, _)), when) => {
                let when = when.as_deref().unwrap_or_default();
                words.push(format!("refused ({reason}){when}"));
            }
            (None, Some(when)) => {
                let most = table.requests_per_hour;
                words.push(format!("{most} requests were made in an hour{when}"));
            }
            (None, None) => {}
        }
    }
    if allocations.free_slots(table, drained).next().is_none() {
        words.push(match allocations.of_table(&table.name).count() {
            count if count < table.max as usize => "its other places are drained".to_owned(),
            count => format!("there are {count}, as many as there may be"),
        });
    }
    let limit = table.time_limit.map_or(0.0, |limit| table.core_hours(limit.as_secs()));
    let used = allocations.core_hours(table, now);
    if let Some(most) = table.core_hours_per_day
        && used + limit > most
    {
        words.push(format!("{used:.0} of {most:.0} core hours of a day are used or granted"));
    }
    words
}
