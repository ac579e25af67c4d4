//! The table of Slurm's fields, made from the code: which scripts can read and write them, and where they
//! stand in a jobspec.

use std::fmt::Write as _;

use jobtap_core::slurm::{
    CONSTANTS, Field, JobDescriptor, JobRecord, Kind, Partition, Place, Reservation, Versions,
    errno,
};

fn yes(holds: bool) -> &'static str {
    if holds { "yes" } else { "–" }
}

/// What scripts of one version can do with a field.
fn access(read: bool, write: bool) -> &'static str {
    match (read, write) {
        (true, true) => "read, write",
        (true, false) => "read",
        (false, true) => "write",
        (false, false) => "–",
    }
}

fn kind<T>(field: &Field<T>) -> String {
    let kind = match field.kind {
        Kind::Text => "text",
        Kind::Number => "number",
        Kind::Boolean => "boolean",
        Kind::Environment => "variables",
        _ => "list",
    };
    match field.unit {
        "" => kind.to_owned(),
        unit => format!("{kind}, {unit}"),
    }
}

/// Where a field stands, in the words of the table.
fn place(field: &Field<JobDescriptor>) -> String {
    if let Some(source) = field.view_of.first() {
        return format!("as `{source}`");
    }
    match Place::for_field(field.name) {
        Some(Place::Jobspec(place)) => match place.split_once(": ") {
            Some((path, words)) => format!("`{path}`: {words}"),
            None => match place.split_once(", ") {
                Some((path, words)) => format!("`{path}`, {words}"),
                None if place.contains(' ') => place.to_owned(),
                None => format!("`{place}`"),
            },
        },
        Some(Place::Urgency) => "the urgency of the request; a number above 31 is kept".to_owned(),
        Some(Place::Request) => "comes with the request".to_owned(),
        _ => "kept".to_owned(),
    }
}

/// The rows of the description of a request.
fn descriptor() -> String {
    let mut fields: Vec<&Field<JobDescriptor>> = JobDescriptor::FIELDS.iter().collect();
    fields.sort_by_key(|field| field.name);
    let mut text = String::from(
        "| field | type | `sbatch` | scripts of 22.05 | newest scripts | in a jobspec |\n|---|---|---|---|---|---|\n",
    );
    for field in fields {
        let (name, kind, place) = (field.name, kind(field), place(field));
        let option = match field.option {
            "" => "–".to_owned(),
            option => format!("`{option}`"),
        };
        let old = access(field.readable.v22_05, field.writable.v22_05);
        let new = access(field.readable.newest, field.writable.newest);
        let _ = writeln!(text, "| `{name}` | {kind} | {option} | {old} | {new} | {place} |");
    }
    text
}

/// The rows of a record, which scripts only read.
fn record<T>(fields: &'static [Field<T>]) -> String {
    let mut fields: Vec<&Field<T>> = fields.iter().collect();
    fields.sort_by_key(|field| field.name);
    let mut text =
        String::from("| field | type | 22.05 | newest | meaning |\n|---|---|---|---|---|\n");
    for field in fields {
        let (name, kind, doc) = (field.name, kind(field), field.doc);
        let (old, new) = (yes(field.readable.v22_05), yes(field.readable.newest));
        let _ = writeln!(text, "| `{name}` | {kind} | {old} | {new} | {doc} |");
    }
    text
}

fn count<T>(fields: &[Field<T>], of: impl Fn(&Field<T>) -> bool) -> usize {
    fields.iter().filter(|field| of(field)).count()
}

/// Whether something holds in one of the versions.
type Holds = fn(Versions) -> bool;

/// The rows with the numbers of fields.
fn counts() -> String {
    let mut text = String::from(
        "| | readable in 22.05 | writable in 22.05 | readable in the newest | writable in the newest |\n\
         |---|---|---|---|---|\n",
    );
    let mut row = |name: &str, of: &dyn Fn(Holds, bool) -> usize| {
        let old: Holds = |versions| versions.v22_05;
        let new: Holds = |versions| versions.newest;
        let (a, b, c, d) = (of(old, false), of(old, true), of(new, false), of(new, true));
        let _ = writeln!(text, "| {name} | {a} | {b} | {c} | {d} |");
    };
    fn in_table<T>(fields: &[Field<T>], holds: Holds, write: bool) -> usize {
        count(fields, |field| holds(if write { field.writable } else { field.readable }))
    }
    row("`job_desc`", &|holds, write| in_table(JobDescriptor::FIELDS, holds, write));
    row("`job_rec`, `slurm.jobs`", &|holds, write| in_table(JobRecord::FIELDS, holds, write));
    row("`part_list`", &|holds, write| in_table(Partition::FIELDS, holds, write));
    row("`slurm.reservations`", &|holds, write| in_table(Reservation::FIELDS, holds, write));
    text
}

/// Returns the text of the chapter.
pub fn chapter() -> String {
    let stored = |field: &&Field<JobDescriptor>| field.view_of.is_empty();
    let places = |wanted: fn(Place) -> bool| {
        let all = JobDescriptor::FIELDS.iter().filter(stored);
        all.filter(|field| Place::for_field(field.name).is_some_and(wanted)).count()
    };
    let mapped = places(|place| matches!(place, Place::Jobspec(_) | Place::Urgency));
    let kept = places(|place| place == Place::Kept);
    let request = places(|place| place == Place::Request);
    let (descriptor, counts) = (descriptor(), counts());
    let jobs = record(JobRecord::FIELDS);
    let partitions = record(Partition::FIELDS);
    let reservations = record(Reservation::FIELDS);
    let errors = |of: fn(Versions) -> bool| errno::ERRORS.iter().filter(|e| of(e.scripts)).count();
    let constants = |of: fn(Versions) -> bool| CONSTANTS.iter().filter(|c| of(c.versions)).count();
    let (old_errors, new_errors) = (errors(|v| v.v22_05), errors(|v| v.newest));
    let (old_constants, new_constants) = (constants(|v| v.v22_05), constants(|v| v.newest));
    format!(
        "# Slurm's fields in a jobspec\n\n\
         <!-- Generated. `UPDATE_DOCS=1 cargo test -p jobtap-guide` writes it again. -->\n\n\
         A policy of Slurm speaks of `time_limit` and `min_nodes`. These are the fields of\n\
         `jobtap_core::slurm::JobDescriptor`, with Slurm's names, units and unset values, and this is where\n\
         each stands in a jobspec. The tables are generated from those that the code uses. The versions are 22.05.8,\n\
         which Debian 12 has, and 26.11 as the newest.\n\n\
         {counts}\n\
         All of them are readable and writable here as in the newest version, and those that only 22.05 has as\n\
         well. Of the names `slurm.NAME` there are {old_constants} numbers and {old_errors} errors in 22.05,\n\
         {new_constants} and {new_errors} in the newest.\n\n\
         ## The description of a request\n\n\
         Of the stored fields {mapped} have a place in the jobspec, {kept} are kept, and {request} come with the\n\
         request.\n\n\
         - *kept* means under `attributes.system.slurm` by the name of the field. No part of the manager acts on\n  \
           it; plugins can. `nice` and `site_factor` are kept without their offset, and memory as\n  \
           `min_mem_per_cpu` or `min_mem_per_node`.\n\
         - A value whose place can't say all of it is kept too: the queue is the first of several partitions,\n  \
           the number of nodes the smallest, and a list of features with counts says what each node must have.\n  \
           When the place is changed later by other means, the kept value is outdated and no longer read.\n\
         - *comes with the request*: who asks, and what the site knows of that user. Changes have no effect.\n\
         - Only what a plugin changes is written. What no field describes stays as it is: other dependencies,\n  \
           constraints on ranks, attributes of users.\n\n\
         {descriptor}\n\
         ## Dependencies\n\n\
         | Slurm | here |\n|---|---|\n\
         | `after:ID`, `after:ID+5` | `afterstart:ID`, `afterstart:ID+5m` |\n\
         | `afterany:ID`, `afterok:ID`, `afternotok:ID`, `singleton` | the same |\n\
         | `aftercorr:ID` | `afterok:ID`, on the whole job |\n\
         | `afterburstbuffer:ID` | `afterany:ID` |\n\
         | `expand:ID` | `afterstart:ID` |\n\
         | `A,B` | both |\n\
         | `afterok:1?afterany:2` | `any-of:afterok:1\\|afterany:2`, the first of them |\n\
         | `ID_*` | `ID` |\n\n\
         ## A job\n\n{jobs}\n\
         ## A partition\n\n{partitions}\n\
         ## A reservation\n\n{reservations}"
    )
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_chapter_agrees_with_the_code() {
        crate::generated::agrees("slurm-fields.md", &super::chapter());
    }
}
