//! Where the fields are in a jobspec, and the places that hold a single field.

use super::{GROUPS, remove};
use crate::jobspec::{JobspecError, path};
use crate::slurm::constants::INFINITE;
use crate::slurm::descriptor::{FIELDS, JobDescriptor};
use crate::slurm::table::Field;
use serde_json::Value;

/// Where a field is in a jobspec.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Place {
    /// At this place; what the place can't express is also kept under `attributes.system.slurm`.
    Jobspec(&'static str),
    /// Under `attributes.system.slurm` by its name.
    Kept,
    /// It is the urgency of the request. A number that is not an urgency is kept.
    Urgency,
    /// Nowhere: it comes with the request, and changes to it have no effect.
    Request,
}

/// Fields that describe the request or what the site knows about the user.
const REQUEST: &[&str] = &[
    "alloc_node",
    "argc",
    "assoc_comment",
    "assoc_qos",
    "default_account",
    "default_qos",
    "group_id",
    "job_id",
    "user_id",
    "user_name",
];

/// Texts that are in a jobspec unchanged, each with its place.
pub(super) const TEXTS: &[(&str, &str)] = &[
    ("account", "attributes.system.bank"),
    ("comment", "attributes.user.comment"),
    ("name", "attributes.system.job.name"),
    ("qos", "attributes.system.qos"),
    ("wckey", "attributes.system.project"),
    ("work_dir", "attributes.system.cwd"),
];

impl Place {
    /// The place of the field with this name; for a view of another field, the place of that field. `None` if
    /// there is no such field.
    #[must_use]
    pub fn for_field(name: &str) -> Option<Self> {
        let field = Field::find(FIELDS, name)?;
        let name = field.view_of.first().copied().unwrap_or(field.name);
        if name == "priority" {
            return Some(Self::Urgency);
        }
        if REQUEST.contains(&name) {
            return Some(Self::Request);
        }
        let texts = TEXTS.iter();
        let all = texts.chain(GROUPS.iter().flat_map(|group| group.fields));
        let found = all.into_iter().find(|(field, _)| *field == name);
        Some(found.map_or(Self::Kept, |(_, place)| Self::Jobspec(place)))
    }
}

type Put = fn(&JobDescriptor, &JobDescriptor, &mut Value) -> Result<(), JobspecError>;

/// Fields that describe one place of the jobspec together.
#[derive(Clone, Copy)]
pub(super) struct Group {
    /// The fields, each with its place in words.
    pub(super) fields: &'static [(&'static str, &'static str)],
    /// Sets the fields from the place. What is not there stays unset.
    pub(super) read: fn(&Value, &mut JobDescriptor),
    /// Whether two descriptions want the same at the place.
    pub(super) same: fn(&JobDescriptor, &JobDescriptor) -> bool,
    /// Changes the place from what the first description wants to what the second does.
    pub(super) put: Put,
}

impl Group {
    pub(super) fn has(&self, field: &str) -> bool {
        self.fields.iter().any(|(name, _)| *name == field)
    }

    /// Whether the place is already as `wanted` wants it; `read` is the description that was read from it.
    pub(super) fn already_matches(
        &self,
        read: &JobDescriptor,
        wanted: &JobDescriptor,
        jobspec: &Value,
    ) -> bool {
        let mut new = jobspec.clone();
        (self.same)(read, wanted) || ((self.put)(read, wanted, &mut new).is_ok() && new == *jobspec)
    }
}

const DURATION: &str = "attributes.system.duration";

/// Minutes in Slurm, seconds in a jobspec, where 0 seconds are no limit.
pub(super) const TIME_LIMIT: Group = Group {
    fields: &[("time_limit", DURATION)],
    read: |jobspec, desc| {
        let seconds = path::get(jobspec, DURATION).and_then(Value::as_f64);
        let minutes =
            seconds.filter(|seconds| *seconds > 0.0).map(|seconds| (seconds / 60.0).ceil());
        // A limit that is longer than Slurm can express counts as no limit.
        desc.time_limit = minutes.map(|minutes| minutes.min(f64::from(INFINITE)) as u32);
    },
    same: |a, b| seconds(a) == seconds(b),
    put: |_, desc, jobspec| path::set(jobspec, DURATION, seconds(desc).into()),
};

fn seconds(desc: &JobDescriptor) -> u64 {
    desc.time_limit
        .filter(|minutes| *minutes != INFINITE)
        .map_or(0, |minutes| u64::from(minutes) * 60)
}

const QUEUE: &str = "attributes.system.queue";

/// A jobspec has one queue: the first of the partitions.
pub(super) const PARTITION: Group = Group {
    fields: &[("partition", QUEUE)],
    read: |jobspec, desc| {
        let queue = path::get(jobspec, QUEUE).and_then(Value::as_str);
        desc.partition = queue.filter(|queue| !queue.is_empty()).map(str::to_owned);
    },
    same: |a, b| first_partition(a) == first_partition(b),
    put: |_, desc, jobspec| match first_partition(desc) {
        Some(queue) => path::set(jobspec, QUEUE, queue.into()),
        None => {
            remove(jobspec, QUEUE);
            Ok(())
        }
    },
};

fn first_partition(desc: &JobDescriptor) -> Option<&str> {
    desc.partition.as_deref()?.split(',').map(str::trim).find(|name| !name.is_empty())
}
