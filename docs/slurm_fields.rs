//! The table of Slurm's fields, made from the code: which scripts can read and write them, and where they
//! stand in a jobspec.

use std::fmt::Write as _;

use jobtap_core::slurm::shown::CHANGES;
use jobtap_core::slurm::{
    CONSTANTS, Field, JobDescriptor, JobRecord, Kind, Partition, Place, Release, Releases,
    Reservation, errno,
};

/// What scripts can do with a field, and since or until when.
fn access<T>(field: &Field<T>) -> String {
    let of = |releases: Releases| match releases {
        Releases::ALL => String::new(),
        part => format!(" {part}"),
    };
    match (field.readable, field.writable) {
        (Releases::NONE, Releases::NONE) => "–".to_owned(),
        (read, Releases::NONE) => format!("read{}", of(read)),
        (read, write) if read == write => format!("read, write{}", of(read)),
        (read, write) => format!("read{}, write{}", of(read), of(write)),
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
        "| field | type | `sbatch` | scripts | in a jobspec |\n|---|---|---|---|---|\n",
    );
    for field in fields {
        let (name, kind, place) = (field.name, kind(field), place(field));
        let option = match field.option {
            "" => "–".to_owned(),
            option => format!("`{option}`"),
        };
        let access = access(field);
        let _ = writeln!(text, "| `{name}` | {kind} | {option} | {access} | {place} |");
    }
    text
}

/// The rows of a record, which scripts only read.
fn record<T>(fields: &'static [Field<T>]) -> String {
    let mut fields: Vec<&Field<T>> = fields.iter().collect();
    fields.sort_by_key(|field| field.name);
    let mut text = String::from("| field | type | scripts | meaning |\n|---|---|---|---|\n");
    for field in fields {
        let (name, kind, doc) = (field.name, kind(field), field.doc);
        let access = access(field);
        let _ = writeln!(text, "| `{name}` | {kind} | {access} | {doc} |");
    }
    text
}

fn count<T>(fields: &[Field<T>], of: impl Fn(&Field<T>) -> bool) -> usize {
    fields.iter().filter(|field| of(field)).count()
}

/// The rows with the numbers of fields, constants and errors by release.
fn counts() -> String {
    let mut text = String::from(
        "| release | `job_desc` read, written | `job_rec` | `part_list` | `slurm.reservations` | constants | errors |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for release in Release::ALL {
        let read = count(JobDescriptor::FIELDS, |field| field.readable.has(*release));
        let written = count(JobDescriptor::FIELDS, |field| field.writable.has(*release));
        let jobs = count(JobRecord::FIELDS, |field| field.readable.has(*release));
        let partitions = count(Partition::FIELDS, |field| field.readable.has(*release));
        let reservations = count(Reservation::FIELDS, |field| field.readable.has(*release));
        let constants = CONSTANTS.iter().filter(|of| of.releases.has(*release)).count();
        let errors = errno::ERRORS.iter().filter(|error| error.is_in_scripts(*release)).count();
        let _ = writeln!(
            text,
            "| {release} | {read}, {written} | {jobs} | {partitions} | {reservations} | {constants} | {errors} |"
        );
    }
    text
}

/// The rows of what scripts see in another form since some release.
fn changes() -> String {
    let mut text = String::from("| since | fields | scripts see |\n|---|---|---|\n");
    for change in CHANGES {
        let fields: Vec<String> = change.fields.iter().map(|name| format!("`{name}`")).collect();
        let _ = writeln!(text, "| {} | {} | {} |", change.release, fields.join(", "), change.text);
    }
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
    let (descriptor, counts, changes) = (descriptor(), counts(), changes());
    let jobs = record(JobRecord::FIELDS);
    let partitions = record(Partition::FIELDS);
    let reservations = record(Reservation::FIELDS);
    format!(
        "# Slurm's fields in a jobspec\n\n\
         <!-- Generated. `UPDATE_DOCS=1 cargo test -p jobtap-guide` writes it again. -->\n\n\
         A policy of Slurm speaks of `time_limit` and `min_nodes`. These are the fields of\n\
         `jobtap_core::slurm::JobDescriptor`, with Slurm's names, units and unset values, and this is where\n\
         each stands in a jobspec. The tables are generated from those that the code uses.\n\n\
         {counts}\n\
         A script sees what the release has for which it was [written](slurm-lua.md). In jobtap's manager,\n\
         plugins see all of them, in one form; these are the forms that change:\n\n\
         {changes}\n\
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
