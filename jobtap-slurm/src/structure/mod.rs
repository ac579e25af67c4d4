//! Slurm's structures as the adapter sees them: values with the names of their fields.
//!
//! A real structure is in slurmctld's memory, which only the module `ffi` accesses. The adapter reads it as a
//! [`JobDescriptor`](jobtap_core::slurm::JobDescriptor), a [`JobRecord`](jobtap_core::slurm::JobRecord) or a
//! [`Partition`](jobtap_core::slurm::Partition), and writes a changed description back, through
//! [`Structure`].

mod mismatch;
mod read;
mod write;

use std::borrow::Cow;

use jobtap_core::slurm::{Field, Value as Shown};

pub use mismatch::Mismatch;
pub use read::read;
pub use write::{WriteError, write_changes};

/// The value of a field of a structure in C.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Value<'a> {
    /// A text; `None` for a null pointer.
    Text(Option<Cow<'a, str>>),
    /// A list of texts.
    Texts(Vec<Cow<'a, str>>),
    /// A number or a time, as stored in C.
    Number(u64),
}

/// The type of a field in C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A pointer to a text.
    Text,
    /// A pointer to pointers to texts.
    Texts,
    /// An unsigned number of this many bytes.
    Number(u8),
    /// A `time_t`.
    Time,
}

/// A field that a structure of this version of Slurm has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Slot {
    /// The name of the field.
    pub name: &'static str,
    /// The index in the field table of the Rust type.
    pub index: usize,
    /// The type in C.
    pub kind: Kind,
    /// The number that means that the field isn't set.
    pub unset: u64,
}

impl Slot {
    /// Returns the slot of a field in this table; `None` if the Rust type doesn't store a field with this name.
    pub fn for_field<T: Default>(
        table: &'static [Field<T>],
        name: &str,
        kind: Kind,
    ) -> Option<Self> {
        let index = table.iter().position(|field| field.name == name)?;
        let field = table.get(index).filter(|field| field.view_of.is_empty())?;
        Some(Self { name: field.name, index, kind, unset: unset(field, kind) })
    }
}

/// Returns the number that is stored for a field that isn't set: the number that Lua scripts see in a new structure, or
/// `NO_VAL` of the field's width if they see nil.
fn unset<T: Default>(field: &Field<T>, kind: Kind) -> u64 {
    let Kind::Number(bytes) = kind else { return 0 };
    let bits = 8 * u32::from(bytes.clamp(1, 8));
    let no_val = (u64::MAX >> (64 - bits)) - 1;
    match (field.get)(&T::default()) {
        // Lua's numbers can't represent all 64-bit integers, so NO_VAL64 is seen as 2^64.
        Shown::Number(number) if number < no_val as f64 => number as u64,
        _ => no_val,
    }
}

/// A structure of Slurm's.
pub trait Structure {
    /// The fields of the structure.
    fn slots(&self) -> &[Slot];

    /// Returns the value of a field. Bytes of a text that aren't UTF-8 are replaced.
    fn get(&self, slot: usize) -> Value<'_>;

    /// Replaces the value of a field. The old value is freed with Slurm's allocator.
    ///
    /// # Errors
    /// When the value has another type than the field, or a text contains a NUL byte.
    fn set(&mut self, slot: usize, value: Value<'_>) -> Result<(), WriteError>;
}

#[cfg(test)]
mod tests {
    use jobtap_core::slurm::{JobDescriptor, NO_VAL, NO_VAL16, NO_VAL64, Release};

    use super::*;
    use crate::testing::Record;

    #[test]
    fn what_is_not_set_has_slurms_number() {
        let unset = |name, kind| Slot::for_field(JobDescriptor::FIELDS, name, kind).unwrap().unset;
        assert_eq!(unset("time_limit", Kind::Number(4)), u64::from(NO_VAL));
        assert_eq!(unset("cpus_per_task", Kind::Number(2)), u64::from(NO_VAL16));
        assert_eq!(unset("pn_min_memory", Kind::Number(8)), NO_VAL64);
        assert_eq!(unset("core_spec", Kind::Number(2)), u64::from(NO_VAL16));
        assert_eq!(unset("overcommit", Kind::Number(1)), 254);
        assert_eq!(unset("site_factor", Kind::Number(4)), u64::from(NO_VAL));
        assert_eq!(unset("begin_time", Kind::Time), 0);
        assert_eq!(unset("power_flags", Kind::Number(1)), 0);
        assert_eq!(unset("profile", Kind::Number(4)), 0);
        assert_eq!(unset("warn_signal", Kind::Number(2)), 0);
        assert_eq!(unset("mem_update_delay", Kind::Number(2)), 0);
        assert_eq!(unset("mem_update_margin", Kind::Number(2)), 0);
        assert_eq!(Slot::for_field(JobDescriptor::FIELDS, "oversubscribe", Kind::Number(2)), None);
    }

    #[test]
    fn a_new_request_reads_as_the_default() {
        let record = Record::descriptor(&JobDescriptor::default());
        assert_eq!(read::<JobDescriptor>(&record), JobDescriptor::default());
    }

    #[test]
    fn every_field_is_read_and_written() {
        let mut full = JobDescriptor::default();
        for field in JobDescriptor::FIELDS {
            if let Some(set) = field.set {
                // A text accepts a number too.
                set(&mut full, 5_u32.into()).unwrap();
            }
        }
        full.environment.set("HOME", "/a=b");
        full.environment.set("EMPTY", "");
        full.argv = vec!["run".to_owned(), "-x".to_owned()];
        full.argc = 2;
        let record = Record::descriptor(&full);
        assert_eq!(read::<JobDescriptor>(&record), full);

        let mut record = Record::descriptor(&JobDescriptor::default());
        let before: JobDescriptor = read(&record);
        let left_out = write_changes(&mut record, &before, &full, Release::V26_05).unwrap();
        assert_eq!(left_out, ["argc", "argv"]);
        let mut written: JobDescriptor = read(&record);
        (written.argc, written.argv) = (full.argc, full.argv.clone());
        assert_eq!(written, full);
    }

    #[test]
    fn only_what_changed_is_written() {
        let before = JobDescriptor { account: Some("a".into()), ..Default::default() };
        let mut record = Record::descriptor(&before);
        let mut after = before.clone();
        after.time_limit = Some(7);
        after.account = None;
        write_changes(&mut record, &before, &after, Release::V26_05).unwrap();
        assert_eq!(record.written(), ["account", "time_limit"]);
        assert_eq!(read::<JobDescriptor>(&record), after);
    }

    #[test]
    fn a_field_is_unset_by_slurms_number() {
        let before =
            JobDescriptor { time_limit: Some(9), begin_time: Some(9), ..Default::default() };
        let mut record = Record::descriptor(&before);
        write_changes(&mut record, &before, &JobDescriptor::default(), Release::V26_05).unwrap();
        assert_eq!(record.value("time_limit"), Some(Value::Number(NO_VAL.into())));
        assert_eq!(record.value("begin_time"), Some(Value::Number(0)));
    }

    #[test]
    fn a_field_that_this_slurm_lacks_is_none_and_not_written() {
        for (release, field, refusal) in [
            (
                Release::V22_05,
                "segment_size",
                "segment_size: Slurm 22.05 has no such field, only those since 24.05",
            ),
            (
                Release::V24_11,
                "power_flags",
                "power_flags: Slurm 24.11 has no such field, only those until 23.11",
            ),
        ] {
            let full = JobDescriptor {
                segment_size: Some(4),
                power_flags: Some(1),
                ..JobDescriptor::default()
            };
            let mut record = Record::descriptor(&full);
            record.keep_fields_of(release);
            let before: JobDescriptor = read(&record);
            let stored = Field::find(JobDescriptor::FIELDS, field).unwrap().stored(&before);
            assert_eq!(stored, Some(serde_json::Value::Null), "{field}");
            let error = write_changes(&mut record, &before, &full, release).unwrap_err();
            assert_eq!(error.to_string(), refusal);
        }
    }

    #[test]
    fn a_text_with_a_zero_byte_is_refused() {
        let mut record = Record::descriptor(&JobDescriptor::default());
        let after = JobDescriptor { comment: Some("a\0b".into()), ..Default::default() };
        let error = write_changes(&mut record, &JobDescriptor::default(), &after, Release::V26_05);
        let error = error.unwrap_err();
        assert_eq!(error.to_string(), "comment: a text of Slurm's can't have a byte 0");
    }
}
