//! Converts the description of a request to a jobspec, and a jobspec to a description.
//!
//! The fields of a [`JobDescriptor`] are taken from their places in a jobspec. What a plugin changes is
//! written back, and nothing else: parts of the jobspec that no field describes stay as they are.
//!
//! Some fields have no place in a jobspec, and some values have one that can't express everything: a jobspec has one
//! queue where Slurm has a list of partitions, and seconds where Slurm has minutes. Such values are kept under
//! `attributes.system.slurm` by the name of the field. A kept value is outdated, and not read, if its place has since
//! been changed by other means.
//!
//! Places that several fields describe together, such as the resources, are [groups](Group): a projection of the fields
//! determines the place.

mod constraints;
mod dependencies;
mod place;
mod process;
mod resources;
#[cfg(test)]
mod tests;
mod tres;

pub use place::Place;
pub use tres::{TresError, check_tres};

use super::descriptor::{FIELDS, JobDescriptor};
use super::environment::check_variable;
use super::table::Field;
use crate::job::Urgency;
use crate::jobspec::path::remove;
use crate::jobspec::{JobspecError, path};
use place::{Group, TEXTS};
use serde_json::{Map, Value, json};

/// Where the values that have no other place are kept.
const KEPT: &str = "attributes.system.slurm";

/// The highest priority that is an urgency.
const HIGHEST_URGENCY: u32 = 31;

/// The groups, in the order in which they are written.
const GROUPS: &[Group] = &[
    place::TIME_LIMIT,
    place::PARTITION,
    dependencies::GROUP,
    constraints::GROUP,
    resources::GROUP,
    process::ENVIRONMENT,
    process::FILES,
    process::COMMAND,
    process::SIGNAL,
];

impl JobDescriptor {
    /// Describes a jobspec. Malformed parts of it count as not set.
    ///
    /// The fields of a request that are not in its jobspec are not set, such as [`user_id`](Self::user_id) and
    /// [`priority`](Self::priority): see [`set_urgency`](Self::set_urgency).
    ///
    /// ```
    /// use jobtap_core::jobspec::JobspecBuilder;
    /// use jobtap_core::slurm::JobDescriptor;
    ///
    /// let jobspec = JobspecBuilder::new(["app"]).nodes(2).ntasks(8).duration(5400.0).queue("batch");
    /// let desc = JobDescriptor::from_jobspec(&jobspec.to_value());
    /// assert_eq!(desc.partition.as_deref(), Some("batch"));
    /// assert_eq!((desc.time_limit, desc.min_nodes, desc.num_tasks), (Some(90), Some(2), Some(8)));
    /// ```
    #[must_use]
    pub fn from_jobspec(jobspec: &Value) -> Self {
        let mut desc = Self::default();
        for (field, place) in TEXTS {
            if let Some(text) = path::get(jobspec, place).and_then(Value::as_str) {
                load(&mut desc, field, &text.into());
            }
        }
        for group in GROUPS {
            (group.read)(jobspec, &mut desc);
        }
        let Some(Value::Object(kept)) = path::get(jobspec, KEPT) else { return desc };
        let kept: Vec<(&Field<Self>, Value)> =
            kept.iter().filter_map(|(name, value)| unkept(name, value)).collect();
        for group in GROUPS {
            let mut candidate = desc.clone();
            for (field, value) in kept.iter().filter(|(field, _)| group.has(field.name)) {
                load(&mut candidate, field.name, value);
            }
            if candidate != desc && group.already_matches(&desc, &candidate, jobspec) {
                desc = candidate;
            }
        }
        for (field, value) in &kept {
            if matches!(Place::for_field(field.name), Some(Place::Kept | Place::Urgency)) {
                load(&mut desc, field.name, value);
            }
        }
        desc.argc = u32::try_from(desc.argv.len()).unwrap_or(u32::MAX);
        desc
    }

    /// Makes the jobspec of a description. The job runs the [`script`](Self::script), or else [`argv`](Self::argv).
    ///
    /// The jobspec is not validated.
    ///
    /// # Errors
    /// [`JobspecError`] if a part of the jobspec can't be made.
    pub fn to_jobspec(&self) -> Result<Value, JobspecError> {
        let empty = json!({
            "resources": [{"type": "slot", "count": 1, "label": "task",
                "with": [{"type": "core", "count": 1}]}],
            "tasks": [{"command": [], "slot": "task", "count": {"per_slot": 1}}],
            "attributes": {"system": {"duration": 0}},
            "version": 1,
        });
        apply_changes(&Self::from_jobspec(&empty), self, &empty)
    }

    /// The urgency that the [`priority`](Self::priority) stands for: 0 holds the job, the numbers up to 31 are
    /// urgencies, and [`TOP_PRIORITY`](super::TOP_PRIORITY) is the highest. `None` if the priority is not set, or is a
    /// Slurm priority that is not an urgency; such a number is kept in the jobspec.
    #[must_use]
    pub fn urgency(&self) -> Option<Urgency> {
        match self.priority {
            // `scontrol release` gives a job the priority that Slurm computes.
            Some(super::INFINITE) => Some(Urgency::DEFAULT),
            Some(super::TOP_PRIORITY) => Some(Urgency::EXPEDITE),
            priority => Urgency::new(priority?.into()).ok(),
        }
    }

    /// Sets the [`priority`](Self::priority) to an urgency. The default urgency keeps a Slurm priority, which is above
    /// 31, and unsets any other.
    pub fn set_urgency(&mut self, urgency: Urgency) {
        let kept = self.priority.filter(|priority| *priority > HIGHEST_URGENCY);
        self.priority =
            if urgency == Urgency::DEFAULT { kept } else { Some(urgency.value().into()) };
    }
}

/// Writes the fields in which `after` differs from `before` into the jobspec that `before` describes. Everything else
/// stays as it is. Fields of the request, such as [`user_id`](JobDescriptor::user_id), are not written.
///
/// The result is not validated: a plugin may have asked for something that no jobspec can express, such as a task count
/// of 4 billion.
///
/// ```
/// use jobtap_core::jobspec::JobspecBuilder;
/// use jobtap_core::slurm::{JobDescriptor, apply_changes};
///
/// let jobspec = JobspecBuilder::new(["app"]).ntasks(4).to_value();
/// let before = JobDescriptor::from_jobspec(&jobspec);
/// let after = JobDescriptor { time_limit: Some(90), ..before.clone() };
/// let changed = apply_changes(&before, &after, &jobspec)?;
/// assert_eq!(changed["attributes"]["system"]["duration"], 5400);
/// assert_eq!(changed["resources"], jobspec["resources"]);
/// # Ok::<(), jobtap_core::jobspec::JobspecError>(())
/// ```
///
/// # Errors
/// [`JobspecError::Update`] if a part of the jobspec that has to be written is not an object, a text has a zero byte, a
/// variable has a name that no environment can have, or a count of generic resources is not a number.
pub fn apply_changes(
    before: &JobDescriptor,
    after: &JobDescriptor,
    jobspec: &Value,
) -> Result<Value, JobspecError> {
    let mut new = jobspec.clone();
    if before == after {
        return Ok(new);
    }
    check(before, after)?;
    let changed = |field: &str| stored(before, field) != stored(after, field);
    for (field, place) in TEXTS.iter().filter(|(field, _)| changed(field)) {
        match stored(after, field) {
            Value::Null => remove(&mut new, place),
            text => path::set(&mut new, place, text)?,
        }
    }
    let mut written = Vec::new();
    for group in GROUPS {
        let same = (group.same)(before, after);
        if !same {
            (group.put)(before, after, &mut new)?;
        }
        if !same || group.fields.iter().any(|(field, _)| changed(field)) {
            written.push(group);
        }
    }
    let mut kept = match path::get(&new, KEPT) {
        Some(Value::Object(kept)) => kept.clone(),
        _ => Map::new(),
    };
    let old = kept.clone();
    for group in written {
        let mut canonical = JobDescriptor::default();
        (group.read)(&new, &mut canonical);
        for (field, _) in group.fields {
            let value = stored(after, field);
            keep(&mut kept, field, (value != stored(&canonical, field)).then_some(value));
        }
    }
    for field in FIELDS.iter().filter(|field| field.is_changed(before, after)) {
        if matches!(Place::for_field(field.name), Some(Place::Kept | Place::Urgency)) {
            let value = stored(after, field.name);
            let told = field.name == "priority" && after.urgency().is_some();
            let unset = stored(&JobDescriptor::default(), field.name);
            keep(&mut kept, field.name, Some(value).filter(|value| !told && *value != unset));
        }
    }
    if kept.is_empty() {
        if !old.is_empty() {
            remove(&mut new, KEPT);
        }
    } else if kept != old {
        path::set(&mut new, KEPT, Value::Object(kept))?;
    }
    Ok(new)
}

/// Refuses changes with which no program could be started. A submission may not have them either.
fn check(before: &JobDescriptor, after: &JobDescriptor) -> Result<(), JobspecError> {
    let refuse =
        |path: &str, text: String| Err(JobspecError::Update { path: path.to_owned(), text });
    for field in FIELDS.iter().filter(|field| field.is_changed(before, after)) {
        let has_zero = match (field.get)(after) {
            super::Value::Text(text) => text.contains('\0'),
            super::Value::List(texts) => texts.iter().any(|text| text.contains('\0')),
            _ => false,
        };
        if has_zero {
            return refuse(field.name, "it has a zero byte".to_owned());
        }
        if TRES.contains(&field.name)
            && let super::Value::Text(list) = (field.get)(after)
            && let Err(error) = check_tres(&list)
        {
            return refuse(field.name, error.to_string());
        }
    }
    // Variables that the job has already are not checked.
    let (old, new) = (&before.environment, &after.environment);
    let mut changed =
        new.iter().filter(|(name, value)| old != new && old.get(name) != Some(*value));
    changed
        .try_for_each(|(name, value)| check_variable(name, value))
        .or_else(|error| refuse("environment", error.to_string()))
}

/// The fields that are lists of generic resources with counts.
const TRES: [&str; 4] = ["tres_per_job", "tres_per_node", "tres_per_socket", "tres_per_task"];

/// The entries of a `jobspec-update` event (RFC 21) that turn one jobspec into another: paths with their
/// new values, at the level of single system attributes. Empty if the two are the same.
#[must_use]
pub fn updates_between(old: &Value, new: &Value) -> Map<String, Value> {
    let mut updates = Map::new();
    for section in ["resources", "tasks"] {
        if old.get(section) != new.get(section) {
            updates.insert(section.to_owned(), new.get(section).cloned().unwrap_or_default());
        }
    }
    for section in ["attributes.system", "attributes.user"] {
        let (from, to) = (path::get(old, section), path::get(new, section));
        if from == to {
            continue;
        }
        let removed = |from: &Map<String, Value>, to: &Map<String, Value>| {
            // A path can't remove a key, nor name one with a period.
            from.keys().any(|key| !to.contains_key(key)) || to.keys().any(|key| key.contains('.'))
        };
        match (from.and_then(Value::as_object), to.and_then(Value::as_object)) {
            (Some(from), Some(to)) if !removed(from, to) => {
                for (key, value) in to.iter().filter(|(key, value)| from.get(*key) != Some(*value))
                {
                    updates.insert(format!("{section}.{key}"), value.clone());
                }
            }
            // An update can remove a key only by setting the object that has it.
            _ => {
                updates.insert(section.to_owned(), to.cloned().unwrap_or_else(|| json!({})));
            }
        }
    }
    updates
}

/// A field's value as it is stored in JSON.
fn stored(desc: &JobDescriptor, name: &str) -> Value {
    let store = Field::find(FIELDS, name).and_then(|field| field.json);
    store.map_or(Value::Null, |(store, _)| store(desc))
}

/// Sets a field to a value as it is stored in JSON. A value of a wrong type is ignored.
fn load(desc: &mut JobDescriptor, name: &str, value: &Value) {
    if let Some((_, load)) = Field::find(FIELDS, name).and_then(|field| field.json) {
        load(desc, value);
    }
}

/// Keeps a value, or stops keeping it. Numbers with an offset or a flag are kept as people write them.
fn keep(kept: &mut Map<String, Value>, field: &str, value: Option<Value>) {
    let names: &[&str] = match field {
        "pn_min_memory" => &["min_mem_per_cpu", "min_mem_per_node"],
        _ => &[],
    };
    for name in names.iter().chain([&field]) {
        kept.shift_remove(*name);
    }
    let Some(value) = value else { return };
    let offset = i64::from(super::NICE_OFFSET);
    let (name, value) = match (field, value.as_u64()) {
        ("pn_min_memory", Some(memory)) if memory & super::MEM_PER_CPU != 0 => {
            ("min_mem_per_cpu", (memory & !super::MEM_PER_CPU).into())
        }
        ("pn_min_memory", Some(memory)) => ("min_mem_per_node", memory.into()),
        ("nice" | "site_factor", Some(raw)) => {
            (field, i64::try_from(raw).map_or(Value::Null, |raw| (raw - offset).into()))
        }
        _ => (field, value),
    };
    kept.insert(name.to_owned(), value);
}

/// The field of a kept value, and the value as the field stores it.
fn unkept(name: &str, value: &Value) -> Option<(&'static Field<JobDescriptor>, Value)> {
    let offset = i64::from(super::NICE_OFFSET);
    let (name, value) = match name {
        "min_mem_per_cpu" => ("pn_min_memory", (value.as_u64()? | super::MEM_PER_CPU).into()),
        "min_mem_per_node" => ("pn_min_memory", value.clone()),
        "nice" | "site_factor" => (name, value.as_i64()?.checked_add(offset)?.into()),
        name => (name, value.clone()),
    };
    Some((Field::find(FIELDS, name)?, value))
}
