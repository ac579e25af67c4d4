//! `attributes.system.dependencies`: the jobs that a job depends on, the time before which it doesn't start,
//! and its licenses.
//!
//! | Slurm | the dependency |
//! |---|---|
//! | `after:ID` | `afterstart:ID`; the minutes of `after:ID+5` are kept only |
//! | `afterany`, `afterok`, `afternotok`, `singleton` | the same |
//! | `aftercorr:ID` | `afterok:ID`, on the whole job |
//! | `afterburstbuffer:ID` | `afterany:ID` |
//! | `expand:ID` | `afterstart:ID` |
//!
//! Alternatives that `?` separates become dependencies that must all be satisfied, since there is no
//! scheme for one of several: the job starts later than it could, and never too early. The same holds for
//! licenses that `|` separates.

use super::place::Group;
use super::remove;
use crate::jobspec::{Dependency, path};
use crate::slurm::descriptor::JobDescriptor;
use serde_json::{Map, Value};

const DEPENDENCIES: &str = "attributes.system.dependencies";
const BEGIN_TIME: &str = "begin-time";
const LICENSE: &str = "license";

pub(super) const GROUP: Group = Group {
    fields: &[
        ("dependency", "attributes.system.dependencies"),
        ("begin_time", "attributes.system.dependencies: scheme begin-time"),
        ("licenses", "attributes.system.dependencies: scheme license"),
    ],
    read,
    same: |a, b| wanted(a) == wanted(b),
    put: |before, after, jobspec| {
        let (old, new) = (wanted(before), wanted(after));
        let own = |value: &Value| is_described(value) || old.contains(value) || new.contains(value);
        let others = all(jobspec).into_iter().filter(|value| !own(value));
        let list: Vec<Value> = others.chain(new.iter().cloned()).collect();
        if list.is_empty() {
            remove(jobspec, DEPENDENCIES);
            return Ok(());
        }
        path::set(jobspec, DEPENDENCIES, Value::Array(list))
    },
};

/// The dependencies that a description asks for.
fn wanted(desc: &JobDescriptor) -> Vec<Value> {
    let mut list: Vec<Dependency> = Vec::new();
    let texts = desc.dependency.as_deref().unwrap_or_default();
    for text in texts.split([',', '?']).map(str::trim).filter(|text| !text.is_empty()) {
        let (kind, ids) = text.split_once(':').unwrap_or((text, ""));
        let scheme = scheme_of(&kind.to_ascii_lowercase());
        for id in ids.split(':') {
            list.push(entry(&scheme, job_id(id)));
        }
    }
    let licenses = desc.licenses.as_deref().unwrap_or_default();
    for license in licenses.split([',', ';', '|']).map(str::trim).filter(|text| !text.is_empty()) {
        let (name, count) = license.rsplit_once([':', '=']).unwrap_or((license, ""));
        let mut dependency = entry(LICENSE, name);
        match count.parse::<u64>() {
            Ok(1) => {}
            Ok(count) => drop(dependency.options.insert("count".to_owned(), count.into())),
            // The plugin refuses the name as it was written.
            Err(_) => license.clone_into(&mut dependency.value),
        }
        list.push(dependency);
    }
    // Last, as the commands add it.
    if let Some(time) = desc.begin_time.filter(|time| *time > 0) {
        list.push(entry(BEGIN_TIME, &time.to_string()));
    }
    list.iter().map(Dependency::to_value).collect()
}

fn entry(scheme: &str, value: &str) -> Dependency {
    Dependency { scheme: scheme.to_owned(), value: value.to_owned(), options: Map::new() }
}

/// The scheme for a type of Slurm's. Another word is taken for a scheme itself.
fn scheme_of(kind: &str) -> String {
    match kind {
        "after" | "expand" => "afterstart",
        "aftercorr" => "afterok",
        "afterburstbuffer" => "afterany",
        other => other,
    }
    .to_owned()
}

/// The job of `12+5`, which adds minutes, and of `12_*`, which is all tasks of an array.
fn job_id(text: &str) -> &str {
    let text = text.split('+').next().unwrap_or_default();
    text.strip_suffix("_*").unwrap_or(text)
}

fn all(jobspec: &Value) -> Vec<Value> {
    path::get(jobspec, DEPENDENCIES).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// Whether the fields describe an entry of the list.
fn is_described(value: &Value) -> bool {
    let mut desc = JobDescriptor::default();
    describe(value, &mut desc);
    desc != JobDescriptor::default()
}

fn read(jobspec: &Value, desc: &mut JobDescriptor) {
    for value in all(jobspec) {
        describe(&value, desc);
    }
}

/// Adds an entry to a description, if the fields can describe it.
fn describe(value: &Value, desc: &mut JobDescriptor) {
    let Ok(Dependency { scheme, value, options }) = Dependency::from_value(value) else { return };
    match scheme.as_str() {
        BEGIN_TIME if options.is_empty() && desc.begin_time.is_none() => {
            let seconds = value.parse::<f64>().ok().filter(|time| *time > 0.0 && time.is_finite());
            let whole = value.parse::<u64>().ok().filter(|time| *time > 0);
            desc.begin_time = whole.or(seconds.map(|seconds| seconds.ceil() as u64));
        }
        LICENSE if is_word(&value) => {
            let count = options.get("count").map_or(Some(1), Value::as_u64);
            let others = options.keys().any(|key| key != "count");
            let Some(count) = count.filter(|_| !others) else { return };
            let text = if count == 1 { value } else { format!("{value}:{count}") };
            append(&mut desc.licenses, ",", &text);
        }
        BEGIN_TIME | LICENSE => {}
        "singleton" if options.is_empty() => append(&mut desc.dependency, ",", "singleton"),
        _ if !options.is_empty() || !is_word(&value) || scheme_of(&scheme) != scheme => {}
        _ => {
            let kind = if scheme == "afterstart" { "after" } else { &scheme };
            // Jobs of one type in a row share it: `afterok:1:2`.
            let last = desc.dependency.as_deref().and_then(|text| text.rsplit(',').next());
            if last.and_then(|last| last.split(':').next()) == Some(kind) {
                append(&mut desc.dependency, ":", &value);
            } else {
                append(&mut desc.dependency, ",", &format!("{kind}:{value}"));
            }
        }
    }
}

/// Whether a value reads as the same value in Slurm's text.
fn is_word(value: &str) -> bool {
    !value.is_empty()
        && !value.ends_with("_*")
        && !value.contains([',', '?', ':', '+', ';', '|', '=', ' '])
}

fn append(text: &mut Option<String>, separator: &str, more: &str) {
    match text {
        Some(text) => *text = format!("{text}{separator}{more}"),
        None => *text = Some(more.to_owned()),
    }
}
