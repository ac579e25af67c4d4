//! Shows a callback on its jobs what it has asked for, until the callback is over.

use serde_json::{Map, Value};

use crate::engine::jobs::Jobs;
use crate::host::{Command, JobFlag};
use crate::job::{Change, Flags, Job, JobId, merge_annotations};

/// Notes a command on the job that it concerns. `place` is its place among the commands of the callback.
/// Returns the job if this is the first note on it.
pub(crate) fn note(jobs: &Jobs, place: usize, command: &Command) -> Option<JobId> {
    let (id, event) = posted_event(command)?;
    let job = &jobs.get(id)?.job;
    let first = job.asked.is_empty();
    if !job.event_posted(event) {
        job.asked.note(place, Change::Event(event.to_owned()));
    }
    if let Some(change) = change(job, command) {
        job.asked.note(place, change);
    }
    (first && !job.asked.is_empty()).then_some(id)
}

/// The event that a command posts, and on which job.
fn posted_event(command: &Command) -> Option<(JobId, &str)> {
    Some(match command {
        Command::AddDependency { job, .. } => (*job, "dependency-add"),
        Command::RemoveDependency { job, .. } => (*job, "dependency-remove"),
        Command::StartProlog { job, .. } => (*job, "prolog-start"),
        Command::FinishProlog { job, .. } => (*job, "prolog-finish"),
        Command::StartEpilog { job, .. } | Command::EndWithEpilog { job, .. } => {
            (*job, "epilog-start")
        }
        Command::FinishEpilog { job, .. } => (*job, "epilog-finish"),
        Command::Raise { job, .. } => (*job, "exception"),
        Command::UpdateJobspec { job, .. } => (*job, "jobspec-update"),
        Command::PostEvent { job, name, .. } => (*job, name.as_str()),
        Command::SetUrgency { job, .. } => (*job, "urgency"),
        Command::Memo { job, .. } => (*job, "memo"),
        Command::Annotate { job, .. } => (*job, "annotations"),
        Command::SetExpiration { job, .. } => (*job, "resource-update"),
        Command::SetFlag { job, .. } => (*job, "set-flags"),
        _ => return None,
    })
}

/// What the command changes on the job, beside the event.
fn change(job: &Job, command: &Command) -> Option<Change> {
    let dependency = |description: &String, open| {
        Some(Change::Dependency { description: description.clone(), open })
    };
    match command {
        Command::AddDependency { description, .. } => dependency(description, true),
        Command::RemoveDependency { description, .. } => dependency(description, false),
        Command::UpdateJobspec { updates, .. } => {
            let mut jobspec = job.jobspec().clone();
            // An update that can't be applied was refused by `check` before.
            jobspec.update_all(updates).ok()?;
            Some(Change::Jobspec(Box::new(jobspec)))
        }
        Command::SetUrgency { urgency, .. } => Some(Change::Urgency(*urgency)),
        Command::Memo { memo, .. } => {
            let mut all = job.annotations().clone();
            let user = Map::from_iter([("user".to_owned(), Value::Object(memo.clone()))]);
            merge_annotations(&mut all, user);
            Some(Change::Annotations(all))
        }
        Command::Annotate { annotations: notes, .. } => {
            let mut all = job.annotations().clone();
            merge_annotations(&mut all, notes.clone());
            Some(Change::Annotations(all))
        }
        Command::SetFlag { flag: JobFlag::Debug, .. } => Some(Change::Flag(Flags::DEBUG)),
        _ => None,
    }
}

/// No longer shows what the commands from this place on asked for, or only their updates of the jobspec.
pub(crate) fn undo(jobs: &Jobs, noted: &[JobId], from: usize, only_updates: bool) {
    for record in noted.iter().filter_map(|id| jobs.get(*id)) {
        record.job.asked.undo(from, only_updates);
    }
}

/// Ends what was shown to a callback: from here on the jobs change by events only.
pub(crate) fn forget(jobs: &mut Jobs, noted: Vec<JobId>) {
    for id in noted {
        if let Some(record) = jobs.get_mut(id) {
            record.job.asked = Default::default();
        }
    }
}
