//! What of a script changes its meaning from one release of Slurm to another.

use std::collections::BTreeSet;

use jobtap_core::slurm::shown::{CHANGES, FAILURE_REFUSES};
use jobtap_core::slurm::{
    CONSTANTS, FUNCTIONS, Field, JobDescriptor, JobRecord, Kind, Partition, Release, errno,
};

use super::uses::{Object, Place, Places, Uses};

/// The first release that delivers messages of `slurm_job_modify`.
const MODIFY_TELLS: Release = Release::V23_02;

/// The first release that writes `gres/` before the name of a resource.
const NEW_PREFIX: Release = Release::V23_11;

/// A change, with the line of the script that it concerns; without one it concerns the script as a whole.
pub(super) type Changes = BTreeSet<(Option<Place>, String)>;

/// Returns what changes for the script.
pub(super) fn changes(uses: &Uses, from: Release, to: Release) -> Changes {
    let mut changes = Changes::new();
    let between = |release: Release| {
        let (old, new) = (from.min(to), from.max(to));
        old < release && release <= new
    };
    fields(&mut changes, uses, Object::Description, JobDescriptor::FIELDS, from, to);
    fields(&mut changes, uses, Object::Job, JobRecord::FIELDS, from, to);
    fields(&mut changes, uses, Object::Partition, Partition::FIELDS, from, to);
    names(&mut changes, uses, from, to);
    for change in CHANGES.iter().filter(|change| between(change.release)) {
        for ((object, name), places) in &uses.fields {
            let shows = matches!(object, Object::Description | Object::Job);
            if shows && change.fields.contains(&name.as_str()) {
                let text = format!("{object}.{name}: since {}, {}", change.release, change.text);
                add(&mut changes, &places.read, &text);
            }
        }
    }
    if between(NEW_PREFIX) {
        for (text, places) in uses.texts.iter().filter(|(text, _)| text.contains("gres:")) {
            let line = format!(
                "\"{text}\": since {NEW_PREFIX}, resources are shown with gres/ in place of gres:"
            );
            add(&mut changes, places, &line);
        }
    }
    if between(FAILURE_REFUSES) {
        let rule = format!(
            "a script that fails at run time accepts the job up to 25.11, and refuses it since {FAILURE_REFUSES}"
        );
        changes.insert((None, rule));
        for ((object, name), places) in &uses.maybe_nil {
            let is_text = match object {
                Object::Description => {
                    let field = Field::find(JobDescriptor::FIELDS, name);
                    field.is_some_and(|field| field.kind == Kind::Text && field.writable.has(to))
                }
                Object::Environment => true,
                _ => false,
            };
            if is_text {
                let text =
                    format!("{object}.{name}: nil fails here, which accepts the job up to 25.11");
                add(&mut changes, places, &text);
            }
        }
        for name in ["error", "assert"] {
            let places = uses.called.get(name).into_iter().flatten();
            changes.extend(
                places.map(|place| {
                    (Some(*place), format!("{name}: this accepts the job up to 25.11"))
                }),
            );
        }
    }
    if between(MODIFY_TELLS) && uses.modify_tells {
        let text = format!("messages of slurm_job_modify reach the user since {MODIFY_TELLS}");
        changes.insert((None, text));
    }
    changes
}

fn add(changes: &mut Changes, places: &BTreeSet<Place>, text: &str) {
    changes.extend(places.iter().map(|place| (Some(*place), text.to_owned())));
}

/// Fields that one of the releases lacks, or that can be written in one of them only.
fn fields<T>(
    changes: &mut Changes,
    uses: &Uses,
    object: Object,
    table: &'static [Field<T>],
    from: Release,
    to: Release,
) {
    for ((_, name), Places { read, written }) in
        uses.fields.iter().filter(|((owner, _), _)| *owner == object)
    {
        let Some(field) = Field::find(table, name) else { continue };
        let access = |read: bool| if read { "is read" } else { "reads as nil" };
        let (old, new) = (field.readable.has(from), field.readable.has(to));
        if old != new {
            let (old, new) = (access(old), access(new));
            add(changes, read, &format!("{object}.{name}: {old} in {from}, {new} in {to}"));
        }
        let access = |write: bool| if write { "written" } else { "logged and ignored" };
        let (old, new) = (field.writable.has(from), field.writable.has(to));
        if old != new {
            let (old, new) = (access(old), access(new));
            let text = format!("{object}.{name}: {old} in {from}, {new} in {to}");
            add(changes, written, &text);
        }
    }
}

/// Names of `slurm` that one of the releases lacks.
fn names(changes: &mut Changes, uses: &Uses, from: Release, to: Release) {
    for ((_, name), Places { read, .. }) in
        uses.fields.iter().filter(|((owner, _), _)| *owner == Object::Slurm)
    {
        let is_in = |release: Release| {
            let function = FUNCTIONS.iter().find(|function| function.name == name);
            let constant = CONSTANTS.iter().find(|constant| constant.name == name);
            let error = errno::ERRORS.iter().find(|error| error.name == name);
            function.is_some_and(|function| function.releases.has(release))
                || constant.is_some_and(|constant| constant.releases.has(release))
                || error.is_some_and(|error| error.is_in_scripts(release))
        };
        let (lacks, has) = match (is_in(from), is_in(to)) {
            (false, true) => (from, to),
            (true, false) => (to, from),
            _ => continue,
        };
        let effect = if name.starts_with("ESLURM") || name.starts_with("SLURM") {
            ", so that a return of it accepts the job there"
        } else {
            ""
        };
        add(changes, read, &format!("slurm.{name}: nil in {lacks}{effect}; it is there in {has}"));
    }
}

#[cfg(test)]
mod tests {
    use super::super::uses::File;
    use super::super::walk::uses;
    use super::*;

    fn changed(body: &str, from: Release, to: Release) -> Vec<String> {
        let source = format!("function slurm_job_submit(job_desc, part_list) {body} end").into();
        let used = uses(&[File { path: "x.lua".into(), module: None, source }]);
        let text = |(place, text): (Option<Place>, String)| {
            place.map_or_else(|| text.clone(), |place| format!("{}: {text}", place.line))
        };
        changes(&used, from, to).into_iter().map(text).collect()
    }

    #[test]
    fn nothing_changes_for_a_script_that_uses_none_of_it() {
        let body = "job_desc.qos = job_desc.account return slurm.SUCCESS";
        assert!(changed(body, Release::V22_05, Release::V25_11).is_empty());
        let body = "return job_desc.gres";
        assert!(changed(body, Release::V23_11, Release::V25_11).is_empty());
    }

    #[test]
    fn fields_in_another_form_are_named_with_their_release() {
        let body = "if job_desc.gres == 'gres:gpu:1' then return 1 end\nreturn job_desc.min_nodes";
        assert_eq!(
            changed(body, Release::V22_05, Release::V24_11),
            [
                "1: \"gres:gpu:1\": since 23.11, resources are shown with gres/ in place of gres:",
                "1: job_desc.gres: since 23.11, --gres=gpu:2 shows as gres/gpu:2; it was gres:gpu:2",
                "2: job_desc.min_nodes: since 23.11, -n5 --ntasks-per-node=2 sets it to 3; it was NO_VAL",
            ]
        );
    }

    #[test]
    fn what_comes_and_goes_is_named() {
        let body = "job_desc.power_flags = job_desc.segment_size\nreturn slurm.ESLURM_INVALID_QOS";
        assert_eq!(
            changed(body, Release::V22_05, Release::V25_11),
            [
                "1: job_desc.power_flags: written in 22.05, logged and ignored in 25.11",
                "1: job_desc.segment_size: reads as nil in 22.05, is read in 25.11",
                "2: slurm.ESLURM_INVALID_QOS: nil in 22.05, so that a return of it accepts the job there; it is there in 25.11",
            ]
        );
    }

    #[test]
    fn a_value_that_may_be_nil_is_named() {
        let nil = "1: job_desc.qos: nil fails here, which accepts the job up to 25.11";
        for (body, is_named) in [
            ("local t = {} job_desc.qos = t[job_desc.account]", true),
            ("job_desc.qos = job_desc.account and job_desc.account:lower()", true),
            ("local t = {} job_desc.qos = t[job_desc.account] or 'normal'", false),
            ("job_desc.qos = job_desc.account and 'a' or 'b'", false),
            ("local t = {} if t[job_desc.name] then job_desc.qos = t[job_desc.name] end", false),
            ("local t = {} job_desc.qos = 'a' .. t[job_desc.name]", false),
            ("local t = {} job_desc.qos = t[job_desc.name] .. 'a'", false),
            ("local t = {} job_desc.min_nodes = t[job_desc.name]", false),
        ] {
            let found = changed(body, Release::V25_11, Release::V26_05);
            assert_eq!(found.contains(&nil.to_owned()), is_named, "{body}: {found:?}");
        }
    }

    #[test]
    fn failures_and_messages_change_with_the_release() {
        let body = "error('broken') end function slurm_job_modify() slurm.log_user('x')";
        assert_eq!(
            changed(body, Release::V22_05, Release::V26_05),
            [
                "a script that fails at run time accepts the job up to 25.11, and refuses it since 26.05",
                "messages of slurm_job_modify reach the user since 23.02",
                "1: error: this accepts the job up to 25.11",
            ]
        );
        assert!(changed(body, Release::V23_02, Release::V25_11).is_empty());
    }
}
