//! Slurm's structures as the adapter reads and writes them.

use std::ffi::{c_char, c_void};
use std::marker::PhantomData;
use std::sync::OnceLock;

use jobtap_core::slurm::{CORE_SPEC_THREAD, Field, JobDescriptor, JobRecord, Partition};

use super::canary::check_job;
use super::layout::{self, Kind, Member, find};
use super::memory::{free, free_texts, read_text, read_texts, text, texts};
use crate::structure::{Mismatch, Slot, Structure, Value, WriteError, read};

/// The structure that a member belongs to: the one that Slurm passes, or one that it points to.
#[derive(Debug, Clone, Copy)]
enum Base {
    Itself,
    Details,
    Array,
    Qos,
}

/// Where a field is in memory.
#[derive(Debug)]
struct Place {
    base: Base,
    member: Member,
    /// The member with the number of texts in a list.
    count: Option<Member>,
}

/// The name of a member, and for a list the name of the member with its length.
struct Named {
    base: Base,
    layout: &'static [Member],
    member: &'static str,
    count: &'static str,
}

impl Named {
    /// Names a member of the structure that Slurm passes.
    fn in_structure(layout: &'static [Member], member: &'static str) -> Self {
        Self { base: Base::Itself, layout, member, count: count_of(member) }
    }
}

/// The fields of a structure, and where they are in memory.
#[derive(Debug)]
struct Plan {
    slots: Vec<Slot>,
    places: Vec<Place>,
}

impl Plan {
    /// Finds the fields of a table, whose members `locate` names. A field whose member this version of Slurm doesn't
    /// have is left out.
    fn for_table<T: Default>(
        table: &'static [Field<T>],
        locate: fn(&'static str) -> Named,
    ) -> Self {
        let mut plan = Self { slots: Vec::new(), places: Vec::new() };
        for field in table {
            let Named { base, layout, member, count } = locate(field.name);
            let Some(member) = find(layout, member) else { continue };
            let Some(kind) = member.kind.stored() else { continue };
            let Some(slot) = Slot::for_field(table, field.name, kind) else { continue };
            let count = find(layout, count);
            if member.kind == Kind::Texts && count.is_none() {
                continue;
            }
            plan.slots.push(slot);
            plan.places.push(Place { base, member, count });
        }
        plan
    }
}

/// Returns the name of the member with the number of texts in a list.
fn count_of(field: &str) -> &'static str {
    match field {
        "argv" => "argc",
        "environment" => "env_size",
        "spank_job_env" => "spank_job_env_size",
        _ => "",
    }
}

/// A structure in the daemon's memory, which may be accessed during `'a`, the daemon's call.
pub(super) struct InMemory<'a> {
    plan: &'static Plan,
    /// Indexed by [`Base`]; null if there is no such structure.
    bases: [*mut u8; 4],
    call: PhantomData<&'a mut ()>,
}

impl<'a> InMemory<'a> {
    /// Wraps the description of a request.
    ///
    /// # Safety
    /// `descriptor` points to slurmctld's `job_desc_msg_t`, which no other thread uses during `'a`, and whose
    /// texts and lists were allocated by slurmctld's allocator.
    pub(super) unsafe fn descriptor(descriptor: *mut c_void) -> Self {
        static PLAN: OnceLock<Plan> = OnceLock::new();
        let plan = PLAN.get_or_init(|| {
            Plan::for_table(JobDescriptor::FIELDS, |field| {
                Named::in_structure(layout::JOB_DESCRIPTOR, field)
            })
        });
        let none = std::ptr::null_mut();
        Self { plan, bases: [descriptor.cast(), none, none, none], call: PhantomData }
    }

    fn base(&self, base: Base) -> *mut u8 {
        let [itself, details, array, qos] = self.bases;
        match base {
            Base::Itself => itself,
            Base::Details => details,
            Base::Array => array,
            Base::Qos => qos,
        }
    }

    /// Returns the address of a member; null if there is no such structure.
    fn at(&self, base: Base, member: Member) -> *mut u8 {
        let base = self.base(base);
        if base.is_null() {
            return base;
        }
        // SAFETY: the base points to one of the daemon's structures, and the offset is from the headers of the daemon's
        // release, which the daemon has checked by `plugin_version`.
        unsafe { base.add(member.offset) }
    }

    fn number(&self, base: Base, member: Member) -> Option<u64> {
        let at = self.at(base, member);
        if at.is_null() {
            return None;
        }
        // SAFETY: the address is that of a member with this width, which C has aligned, and the structure doesn't
        // change during the call.
        unsafe {
            Some(match member.kind {
                Kind::Number(1) => u64::from(at.read()),
                Kind::Number(2) => u64::from(at.cast::<u16>().read()),
                Kind::Number(4) => u64::from(at.cast::<u32>().read()),
                Kind::Number(8) => at.cast::<u64>().read(),
                // Times before 1970 have no meaning here.
                Kind::Time => u64::try_from(at.cast::<i64>().read()).unwrap_or(0),
                _ => return None,
            })
        }
    }

    fn set_number(&mut self, base: Base, member: Member, number: u64) {
        let at = self.at(base, member);
        if at.is_null() {
            return;
        }
        // A number is truncated to the member's width, as in C.
        // SAFETY: the address is valid and aligned as in `number`, and no other thread uses the structure.
        unsafe {
            match member.kind {
                Kind::Number(1) => at.write(number as u8),
                Kind::Number(2) => at.cast::<u16>().write(number as u16),
                Kind::Number(4) => at.cast::<u32>().write(number as u32),
                Kind::Number(8) => at.cast::<u64>().write(number),
                Kind::Time => at.cast::<i64>().write(number as i64),
                _ => {}
            }
        }
    }

    fn pointer<T>(&self, base: Base, member: Member) -> *mut T {
        let at = self.at(base, member);
        if at.is_null() {
            return std::ptr::null_mut();
        }
        // SAFETY: the address is that of a member that is a pointer, and the structure doesn't change during the call.
        unsafe { at.cast::<*mut T>().read() }
    }

    fn set_pointer<T>(&mut self, base: Base, member: Member, pointer: *mut T) {
        let at = self.at(base, member);
        if !at.is_null() {
            // SAFETY: the address is that of a member that is a pointer, and no other thread uses the structure.
            unsafe { at.cast::<*mut T>().write(pointer) };
        }
    }

    fn count(&self, place: &Place) -> usize {
        let count = place.count.and_then(|count| self.number(place.base, count));
        usize::try_from(count.unwrap_or(0)).unwrap_or(0)
    }
}

impl Structure for InMemory<'_> {
    fn slots(&self) -> &[Slot] {
        &self.plan.slots
    }

    fn get(&self, slot: usize) -> Value<'_> {
        let (Some(place), Some(row)) = (self.plan.places.get(slot), self.plan.slots.get(slot))
        else {
            return Value::Text(None);
        };
        let Place { base, member, .. } = *place;
        match member.kind {
            Kind::Text => {
                let text: *mut c_char = self.pointer(base, member);
                // SAFETY: the daemon's texts are NUL-terminated and don't change during the call.
                Value::Text(unsafe { read_text(text) })
            }
            Kind::Texts => {
                let texts: *mut *mut c_char = self.pointer(base, member);
                // SAFETY: the daemon's list has as many texts as the member with its count says.
                Value::Texts(unsafe { read_texts(texts.cast_const().cast(), self.count(place)) })
            }
            _ => Value::Number(self.number(base, member).unwrap_or(row.unset)),
        }
    }

    fn set(&mut self, slot: usize, value: Value<'_>) -> Result<(), WriteError> {
        let (Some(place), Some(row)) = (self.plan.places.get(slot), self.plan.slots.get(slot))
        else {
            return Ok(());
        };
        let Place { base, member, count } = *place;
        match (member.kind, value) {
            (Kind::Text, Value::Text(new)) => {
                let new = match new {
                    None => std::ptr::null_mut(),
                    Some(new) => text(&new).ok_or(WriteError::ZeroByte(row.name))?,
                };
                let old: *mut c_void = self.pointer(base, member);
                self.set_pointer(base, member, new);
                // SAFETY: the old text is from the daemon's allocator, and the structure doesn't point to it any more.
                unsafe { free(old) };
            }
            (Kind::Texts, Value::Texts(new)) => {
                let list = texts(&new).ok_or(WriteError::ZeroByte(row.name))?;
                let old: *mut *mut c_char = self.pointer(base, member);
                let old_count = self.count(place);
                self.set_pointer(base, member, list);
                if let Some(count) = count {
                    self.set_number(base, count, new.len() as u64);
                }
                // SAFETY: the old list and its texts, as many as its count said, are from the daemon's allocator, and
                // the structure doesn't point to the list any more.
                unsafe { free_texts(old, old_count) };
            }
            (Kind::Number(_) | Kind::Time, Value::Number(number)) => {
                self.set_number(base, member, number);
            }
            _ => return Err(WriteError::Type(row.name)),
        }
        Ok(())
    }
}

/// Reads a job of slurmctld's.
///
/// # Errors
/// When it isn't laid out as this file was built for.
///
/// # Safety
/// `record` is slurmctld's, which holds its lock on jobs.
pub(super) unsafe fn job_record(record: *const c_void) -> Result<JobRecord, Mismatch> {
    // SAFETY: both functions have the same contract.
    unsafe { check_job(record) }?;
    static PLAN: OnceLock<Plan> = OnceLock::new();
    let plan = PLAN.get_or_init(|| {
        Plan::for_table(JobRecord::FIELDS, |field| {
            let on = |base, layout, member| Named { base, ..Named::in_structure(layout, member) };
            match field {
                "array_task_cnt" => on(Base::Array, layout::JOB_ARRAY, "task_cnt"),
                "qos" => on(Base::Qos, layout::QOS, "name"),
                "curr_dependency" => on(Base::Details, layout::JOB_DETAILS, "dependency"),
                "argv" | "core_spec" | "features" | "max_cpus" | "max_nodes" | "min_cpus"
                | "min_nodes" | "nice" | "orig_dependency" | "pn_min_cpus" | "pn_min_memory"
                | "std_err" | "std_in" | "std_out" | "submit_time" | "work_dir" => {
                    on(Base::Details, layout::JOB_DETAILS, field)
                }
                // Some members have moved from one of the two to the other.
                _ if find(layout::JOB_RECORD, field).is_none() => {
                    on(Base::Details, layout::JOB_DETAILS, field)
                }
                _ => Named::in_structure(layout::JOB_RECORD, field),
            }
        })
    });
    let none = std::ptr::null_mut();
    let bases = [record.cast_mut().cast(), none, none, none];
    let mut structure = InMemory { plan, bases, call: PhantomData };
    let linked = |name| match find(layout::JOB_RECORD, name) {
        Some(member) => structure.pointer(Base::Itself, member),
        None => none,
    };
    let (details, array, qos) = (linked("details"), linked("array_recs"), linked("qos_ptr"));
    structure.bases = [record.cast_mut().cast(), details, array, qos];
    let mut record: JobRecord = read(&structure);
    const RESIZING: u32 = 1 << 13;
    record.resizing = u8::from(record.job_state & RESIZING != 0);
    // In C, one member holds either of the two, and a bit says which.
    if let Some(threads) = record.core_spec.filter(|kept| kept & CORE_SPEC_THREAD != 0) {
        record.core_spec = None;
        record.thread_spec = Some(threads & !CORE_SPEC_THREAD);
    }
    Ok(record)
}

/// A partition, and the users who may use it.
#[derive(Debug, Clone)]
pub(super) struct PartitionFor {
    pub(super) partition: Partition,
    /// `None` means all users.
    users: Option<Vec<u32>>,
}

impl PartitionFor {
    /// Reads a partition of slurmctld's.
    ///
    /// # Safety
    /// `partition` points to a `part_record_t` that doesn't change during the call.
    pub(super) unsafe fn read(partition: *const c_void) -> Self {
        static PLAN: OnceLock<Plan> = OnceLock::new();
        let plan = PLAN.get_or_init(|| {
            Plan::for_table(Partition::FIELDS, |field| {
                Named::in_structure(
                    layout::PARTITION,
                    if field == "qos" { "qos_char" } else { field },
                )
            })
        });
        let none = std::ptr::null_mut();
        let bases = [partition.cast_mut().cast(), none, none, none];
        let structure = InMemory { plan, bases, call: PhantomData };
        let member = find(layout::PARTITION, "allow_uids");
        let users: *mut u32 =
            member.map_or(std::ptr::null_mut(), |member| structure.pointer(Base::Itself, member));
        let count = find(layout::PARTITION, "allow_uids_cnt")
            .and_then(|member| structure.number(Base::Itself, member));
        let partition: Partition = read(&structure);
        // SAFETY: the list and its length are members of the same partition.
        let users = unsafe { users_of(users, count, partition.allow_groups.is_some()) };
        Self { partition, users }
    }

    /// Whether slurmctld accepts jobs of `user` in this partition if `submitter` makes the request.
    pub(super) fn is_for(&self, user: u32, submitter: u32) -> bool {
        const ROOT_ONLY: u32 = 1 << 3;
        const NO_ROOT: u32 = 1 << 2;
        if user == 0 {
            return self.partition.flags & NO_ROOT == 0;
        }
        if self.partition.flags & ROOT_ONLY != 0 && submitter != 0 {
            return false;
        }
        self.users.as_ref().is_none_or(|users| users.contains(&user))
    }
}

/// Reads the users of a partition; `None` means all users.
///
/// # Safety
/// `users` is the partition's list, or null. `count` is the member with its length, which Slurm has since 23.02.
unsafe fn users_of(users: *const u32, count: Option<u64>, has_groups: bool) -> Option<Vec<u32>> {
    if users.is_null() {
        // Groups without members admit no one.
        return has_groups.then(Vec::new);
    }
    let Some(count) = count else {
        // SAFETY: slurmctld 22.05 ends the list with a 0.
        return Some(unsafe { until_zero(users) });
    };
    // In C, the length is an `int`.
    let length = i32::try_from(count).ok().and_then(|count| usize::try_from(count).ok());
    // SAFETY: the list isn't null and has as many numbers as its length says.
    Some(unsafe { std::slice::from_raw_parts(users, length.unwrap_or(0)) }.to_vec())
}

/// Reads the numbers before the first 0.
///
/// # Safety
/// `numbers` points to an array that contains a 0.
unsafe fn until_zero(numbers: *const u32) -> Vec<u32> {
    let mut found = Vec::new();
    loop {
        // SAFETY: no number before this one was 0, so this one is still in the array.
        match unsafe { *numbers.add(found.len()) } {
            0 => return found,
            number => found.push(number),
        }
    }
}

/// Reads a text from any structure; `None` if it is null or there is no such member.
///
/// # Safety
/// `structure` points to a structure with this layout that doesn't change during the call.
pub(super) unsafe fn member_text(
    structure: *const u8,
    layout: &'static [Member],
    name: &str,
) -> Option<String> {
    let member = find(layout, name).filter(|member| member.kind == Kind::Text)?;
    // SAFETY: the caller guarantees the layout, in which this member is a pointer to a NUL-terminated string or null.
    unsafe {
        let text = structure.add(member.offset).cast::<*const c_char>().read();
        read_text(text).map(|text| text.into_owned())
    }
}

/// Reads a number or a time from any structure.
///
/// # Safety
/// As for [`member_text`].
pub(super) unsafe fn member_number(
    structure: *const u8,
    layout: &'static [Member],
    name: &str,
) -> Option<u64> {
    static EMPTY: Plan = Plan { slots: Vec::new(), places: Vec::new() };
    let none = std::ptr::null_mut();
    let bases = [structure.cast_mut(), none, none, none];
    let structure = InMemory { plan: &EMPTY, bases, call: PhantomData };
    structure.number(Base::Itself, find(layout, name)?)
}

/// Reads a list from any structure.
///
/// # Safety
/// As for [`member_text`]; the list has as many texts as the member `count` says.
pub(super) unsafe fn member_texts(
    structure: *const u8,
    layout: &'static [Member],
    (name, count): (&str, &str),
) -> Vec<String> {
    let Some(member) = find(layout, name).filter(|member| member.kind == Kind::Texts) else {
        return Vec::new();
    };
    // SAFETY: the caller guarantees the layout, in which this member is a list or null, and that `count` is its length.
    unsafe {
        let count = member_number(structure, layout, count).unwrap_or(0);
        let texts = structure.add(member.offset).cast::<*const *const c_char>().read();
        let read = read_texts(texts, usize::try_from(count).unwrap_or(0));
        read.into_iter().map(|text| text.into_owned()).collect()
    }
}

#[cfg(test)]
mod tests;
