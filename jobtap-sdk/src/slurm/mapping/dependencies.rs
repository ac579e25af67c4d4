//! `attributes.system.dependencies`: the jobs that a job depends on, the time before which it doesn't start,
//! and its licenses.
//!
//! | Slurm | the dependency |
//! |---|---|
//! | `after:ID`, `after:ID+5` | `afterstart:ID`, `afterstart:ID+5m` |
//! | `afterany`, `afterok`, `afternotok`, `singleton` | the same |
//! | `aftercorr:ID` | `afterok:ID`, on the whole job |
//! | `afterburstbuffer:ID` | `afterany:ID` |
//! | `expand:ID` | `afterstart:ID` |
//!
//! Alternatives that `?` separates, such as `afterok:1?afterany:2`, become one dependency
//! `any-of:afterok:1|afterany:2`. The plugin of that scheme refuses what can't be in it.
//!
//! Licenses that `|` separates become dependencies that must all be satisfied, since there is no scheme for one
//! of several licenses: the job may start later than it could, but never too early.

use super::place::Group;
use super::remove;
use crate::jobspec::{Dependency, path};
use crate::slurm::descriptor::JobDescriptor;
use serde_json::{Map, Value};

const DEPENDENCIES: &str = "attributes.system.dependencies";
const BEGIN_TIME: &str = "begin-time";
const LICENSE: &str = "license";
const ANY_OF: &str = "any-of";

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
        let own = |value: &Value| old.contains(value) || new.contains(value);
        let others = undescribed(jobspec).into_iter().filter(|value| !own(value));
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
    let text = desc.dependency.as_deref().unwrap_or_default();
    if text.contains('?') {
        list.push(entry(ANY_OF, &alternatives(text)));
    } else {
        list.extend(conditions(text, ',').map(|(scheme, value)| entry(&scheme, &value)));
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

/// The scheme for a dependency type of Slurm. Any other word is taken as a scheme itself.
fn scheme_of(kind: &str) -> String {
    match kind {
        "after" | "expand" => "afterstart",
        "aftercorr" => "afterok",
        "afterburstbuffer" => "afterany",
        other => other,
    }
    .to_owned()
}

/// The conditions of a text, each as a scheme and a value: two for `afterok:1:2`.
fn conditions(text: &str, separator: char) -> impl Iterator<Item = (String, String)> {
    let parts = text.split(separator).map(str::trim).filter(|text| !text.is_empty());
    parts.flat_map(|text| {
        let (kind, ids) = text.split_once(':').unwrap_or((text, ""));
        let scheme = scheme_of(&kind.to_ascii_lowercase());
        ids.split(':').map(move |id| (scheme.clone(), job(id)))
    })
}

/// The value of [`ANY_OF`]. A list with both separators has no meaning in Slurm; the plugin refuses it as it was
/// written.
fn alternatives(text: &str) -> String {
    if text.contains(',') {
        return text.to_owned();
    }
    let all = conditions(text, '?').map(|(scheme, value)| match value.as_str() {
        "" => scheme,
        value => format!("{scheme}:{value}"),
    });
    all.collect::<Vec<_>>().join("|")
}

/// The value for a job: `12_*` names all tasks of an array, and `12+5` adds minutes.
fn job(text: &str) -> String {
    let (id, delay) = text.split_once('+').unwrap_or((text, ""));
    let id = id.strip_suffix("_*").unwrap_or(id);
    match delay {
        "" => id.to_owned(),
        minutes => format!("{id}+{minutes}m"),
    }
}

fn all(jobspec: &Value) -> Vec<Value> {
    path::get(jobspec, DEPENDENCIES).and_then(Value::as_array).cloned().unwrap_or_default()
}

/// The entries of the list that the fields don't describe.
fn undescribed(jobspec: &Value) -> Vec<Value> {
    let mut desc = JobDescriptor::default();
    let mut is_described = |value: &Value| {
        let before = desc.clone();
        describe(value, &mut desc);
        desc != before
    };
    alternatives_last(all(jobspec)).filter(|value| !is_described(value)).collect()
}

/// Slurm has either a list or alternatives, and the list takes precedence.
fn alternatives_last(values: Vec<Value>) -> impl Iterator<Item = Value> {
    let is_list = |value: &Value| value.get("scheme").is_none_or(|scheme| scheme != ANY_OF);
    let (list, alternatives): (Vec<_>, Vec<_>) = values.into_iter().partition(is_list);
    list.into_iter().chain(alternatives)
}

fn read(jobspec: &Value, desc: &mut JobDescriptor) {
    for value in alternatives_last(all(jobspec)) {
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
        ANY_OF if options.is_empty() && desc.dependency.is_none() => {
            let one = |text: &str| {
                let (scheme, value) = text.split_once(':')?;
                let (kind, job) = slurm_condition(scheme, value)?;
                Some(format!("{kind}:{job}"))
            };
            let all: Option<Vec<String>> = value.split('|').map(one).collect();
            let text = all.filter(|all| all.len() > 1).map(|all| all.join("?"));
            desc.dependency = text.filter(|text| alternatives(text) == value);
        }
        ANY_OF => {}
        _ if !options.is_empty() => {}
        _ => {
            let Some((kind, value)) = slurm_condition(&scheme, &value) else { return };
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

/// The type and the job of a condition in Slurm's text: `after`, `12+5` for `afterstart:12+5m`. `None` if Slurm
/// can't express it.
fn slurm_condition<'a>(scheme: &'a str, value: &str) -> Option<(&'a str, String)> {
    let (id, delay) = value.split_once('+').unwrap_or((value, ""));
    if !is_word(id) || scheme_of(scheme) != scheme || scheme == ANY_OF {
        return None;
    }
    let kind = if scheme == "afterstart" { "after" } else { scheme };
    if delay.is_empty() {
        return (id == value).then(|| (kind, id.to_owned()));
    }
    let minutes: u32 = delay.strip_suffix('m')?.parse().ok()?;
    (kind == "after").then(|| (kind, format!("{id}+{minutes}")))
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
