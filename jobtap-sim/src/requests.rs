//! What clients ask for.

use jobtap_core::job::{JobId, State};
use jobtap_core::jobspec::{Dependency, JobspecBuilder};
use serde_json::{Map, Value, json};

use crate::client::{Asked, Client};
use crate::dice::Dice;
use crate::hostile::PLACES;
use crate::oracle::Oracle;
use crate::plugins::LOADABLE;
use crate::profile::{Kind, Profile};

/// Sends a request of any kind. Returns what was asked for.
pub fn any(client: &mut Client, profile: &Profile, oracle: &Oracle, dice: &mut Dice) -> Asked {
    let jobs: Vec<u64> = oracle.jobs().keys().copied().collect();
    // Mostly one of the newest.
    let newest = jobs.iter().rev().take(6).copied().collect::<Vec<_>>();
    let from = if dice.hits(3, 4) { &newest } else { &jobs };
    let id = dice.one_of(from).copied().unwrap_or(4711);
    let is_owner = client.user == 0;
    let of_user = oracle.jobs().get(&id).is_some_and(|job| job.user == u64::from(client.user));
    match dice.below(40) {
        0..17 => submit(client, profile, id, dice),
        17..21 => {
            let kind = dice.one_of(&["cancel", "timeout", "odd"]).copied().unwrap_or("cancel");
            let severity = if dice.hits(3, 4) { 0 } else { 1 + dice.below(7) };
            let payload = json!({ "id": id, "type": kind, "severity": severity, "note": "" });
            send(client, Asked::Raise { id, kind: kind.to_owned() }, "job-manager.raise", &payload)
        }
        21 | 22 => {
            let urgency = dice.one_of(&[0, 1, 16, 16, 20, 31]).copied().unwrap_or(16);
            let payload = json!({ "id": id, "urgency": urgency });
            send(client, Asked::Other("urgency"), "job-manager.urgency", &payload)
        }
        23..26 => {
            let payload = json!({ "id": id, "path": "eventlog", "flags": 0 });
            let asked = match is_owner || of_user {
                true => Asked::Watch { id, seen: 0 },
                false => Asked::Forbidden { id },
            };
            send(client, asked, "job-info.eventlog-watch", &payload)
        }
        26 => {
            let asked =
                if is_owner || of_user { Asked::Other("lookup") } else { Asked::Forbidden { id } };
            let payload = json!({ "id": id, "keys": ["eventlog", "jobspec"], "flags": 0 });
            send(client, asked, "job-info.lookup", &payload)
        }
        27 | 28 => {
            let payload = json!({ "max_entries": 100, "attrs": ["all"] });
            send(client, Asked::List, "job-list.list", &payload)
        }
        29 => send(client, Asked::Why { id }, "job-manager.why", &json!({ "id": id })),
        30 => {
            let value = dice.below(1 << 40);
            let payload = json!({ "id": id, "volatile": false, "memo": { "sim": value } });
            send(client, Asked::Memo { id, value }, "job-manager.memo", &payload)
        }
        31 => {
            let seconds = 1 + dice.below(50);
            let payload = json!({ "id": id, "updates": { "attributes.system.duration": seconds } });
            send(client, Asked::Other("update"), "job-manager.update", &payload)
        }
        32 => {
            let signal = dice.one_of(&[1, 9, 15]).copied().unwrap_or(15);
            let payload = json!({ "id": id, "signum": signal });
            send(client, Asked::Other("kill"), "job-manager.kill", &payload)
        }
        33 => {
            let payload = json!({ "id": id, "hold": dice.hits(1, 3) });
            send(client, Asked::Other("requeue"), "job-manager.requeue", &payload)
        }
        _ if !is_owner => send(client, Asked::List, "job-list.list", &json!({ "attrs": ["all"] })),
        34 => {
            let is_over =
                oracle.jobs().get(&id).is_some_and(|job| job.state == Some(State::Inactive));
            let asked = if is_over { Asked::Purge { id } } else { Asked::Other("purge") };
            send(client, asked, "job-manager.purge-id", &json!({ "id": id, "force": is_over }))
        }
        35 | 36 => {
            let payload = json!({ "all": true, "start": dice.hits(2, 3) });
            send(client, Asked::Other("queue-start"), "job-manager.queue-start", &payload)
        }
        37 => {
            let rank = dice.below(u64::from(profile.nodes)).to_string();
            let payload = json!({ "targets": rank, "reason": "sim" });
            send(client, Asked::Other("drain"), "resource.drain", &payload)
        }
        38 if dice.hits(1, 2) => {
            let payload = json!({ "full": false });
            send(client, Asked::Journal, "job-manager.events-journal", &payload)
        }
        38 => {
            let rank = dice.below(u64::from(profile.nodes)).to_string();
            send(client, Asked::Other("undrain"), "resource.undrain", &json!({ "targets": rank }))
        }
        _ => {
            let payload = json!({
                "dry_run": false, "userid": 1001, "states": 0x7f, "type": "cancel", "severity": 0,
            });
            send(client, Asked::Other("raiseall"), "job-manager.raiseall", &payload)
        }
    }
}

fn send(client: &mut Client, asked: Asked, topic: &str, payload: &Value) -> Asked {
    client.send(asked.clone(), topic, payload, None);
    asked
}

/// Submits some equal jobs that end at once.
fn submit_hasty(client: &mut Client, dice: &mut Dice) -> Asked {
    for _ in 0..=dice.below(5) {
        let job = JobspecBuilder::new(["run".to_owned(), dice.below(5).to_string()]);
        let payload = json!({ "urgency": 16 });
        let spec = job.to_value().to_string();
        client.send(Asked::Submit, "job-ingest.submit", &payload, Some(spec));
    }
    Asked::Submit
}

/// Submits a job, or now and then an array.
fn submit(client: &mut Client, profile: &Profile, other: u64, dice: &mut Dice) -> Asked {
    if profile.is_hasty && dice.hits(7, 8) {
        return submit_hasty(client, dice);
    }
    let runs = match dice.below(4) {
        0 => 0,
        1 | 2 => dice.below(3000),
        _ => dice.below(40_000),
    };
    let code = if dice.hits(1, 6) { 1 + dice.below(3) } else { 0 };
    let mut command = vec!["run".to_owned(), runs.to_string(), code.to_string()];
    let is_endless = dice.hits(1, 8);
    if is_endless {
        // Until it is canceled, or its time is up.
        command = vec!["run".to_owned(), "on".to_owned()];
    }
    if profile.has(Kind::Processes) && dice.hits(1, 8) {
        command.push("stuck".to_owned());
    }
    let mut job = JobspecBuilder::new(command);
    let nodes = u64::from(profile.nodes);
    match dice.below(4) {
        0 => {
            let count = 1 + dice.below(nodes);
            job = job.nodes(count).ntasks(count);
        }
        1 => job = job.ntasks(1 + dice.below(4)),
        _ => {}
    }
    if dice.hits(if is_endless { 2 } else { 1 }, 3) {
        job = job.duration((1 + dice.below(30)) as f64);
    }
    if dice.hits(1, 6) {
        let scheme = dice.one_of(&["afterok", "afterany", "afternotok", "after"]).copied();
        let uri = format!("{}:{}", scheme.unwrap_or("after"), JobId::new(other));
        job = Dependency::from_uri(&uri).into_iter().fold(job, JobspecBuilder::dependency);
    }
    if dice.hits(1, 12) {
        let singleton = Dependency::from_uri("singleton");
        job = singleton.into_iter().fold(job.name("alone"), JobspecBuilder::dependency);
    }
    let mut spec = job.to_value();
    if dice.hits(1, 5)
        && let Some(system) = spec.pointer_mut("/attributes/system").and_then(Value::as_object_mut)
    {
        system.insert("on-nodes".to_owned(), json!(1));
    }
    if profile.has(Kind::Plugins) && dice.hits(1, 2) {
        let mut asks = Map::new();
        for _ in 0..=dice.below(2) {
            if let Some((place, ways)) = dice.one_of(PLACES) {
                asks.insert((*place).to_owned(), json!(1 + dice.below(*ways)));
            }
        }
        if let Some(system) = spec.pointer_mut("/attributes/system").and_then(Value::as_object_mut)
        {
            system.insert("h".to_owned(), Value::Object(asks));
        }
    }
    let urgency = dice.one_of(&[16, 16, 16, 16, 0, 31, 5]).copied().unwrap_or(16);
    if dice.hits(1, 15) {
        let elements = json!({ "indexes": format!("0-{}", dice.below(5)) });
        let payload = json!({ "urgency": urgency, "elements": elements });
        client.send(
            Asked::SubmitArray,
            "job-ingest.submit-array",
            &payload,
            Some(spec.to_string()),
        );
        return Asked::SubmitArray;
    }
    let payload = json!({ "urgency": urgency });
    client.send(Asked::Submit, "job-ingest.submit", &payload, Some(spec.to_string()));
    Asked::Submit
}

/// Loads a plugin or the configuration again.
pub fn reload(client: &mut Client, dice: &mut Dice) -> Asked {
    let name = dice.one_of(&LOADABLE).copied().unwrap_or("slow");
    match dice.below(3) {
        0 => {
            let payload = json!({ "name": name });
            send(client, Asked::Other("reload"), "job-manager.jobtap-reload", &payload)
        }
        1 => send(client, Asked::Other("remove"), "job-manager.jobtap", &json!({ "remove": name })),
        _ => send(client, Asked::Other("load"), "job-manager.jobtap", &json!({ "load": name })),
    }
}
