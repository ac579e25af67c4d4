//! Makes jobs show a callback what it has asked for, until the callback is over.

use serde_json::{Map, Value};

use crate::eventlog::Name;
use crate::host::Command;
use crate::job::{Flags, Job, JobFlag, JobId, merge_annotations};
use crate::jobs::Jobs;
use crate::kept::Change;

/// Notes a command on the job that it concerns. `place` is its place among the commands of the callback.
/// Returns the job if this is the first note on it.
pub(crate) fn note(jobs: &Jobs, place: usize, command: &Command) -> Option<JobId> {
    let (id, event) = posted_event(command)?;
    let job = &jobs.get(id)?.job;
    let first = job.overlay().is_empty();
    if !job.has_event(&event) {
        job.overlay().note(place, Change::Event(event));
    }
    if let Some(change) = change(job, command) {
        job.overlay().note(place, change);
    }
    (first && !job.overlay().is_empty()).then_some(id)
}

/// The event that a command posts, and the job that gets it.
fn posted_event(command: &Command) -> Option<(JobId, Name)> {
    Some(match command {
        Command::AddDependency { job, .. } => (*job, Name::DependencyAdd),
        Command::RemoveDependency { job, .. } => (*job, Name::DependencyRemove),
        Command::StartProlog { job, .. } => (*job, Name::PrologStart),
        Command::FinishProlog { job, .. } => (*job, Name::PrologFinish),
        Command::StartEpilog { job, .. } | Command::EndWithEpilog { job, .. } => {
            (*job, Name::EpilogStart)
        }
        Command::FinishEpilog { job, .. } => (*job, Name::EpilogFinish),
        Command::Raise { job, .. } => (*job, Name::Exception),
        Command::UpdateJobspec { job, .. } => (*job, Name::JobspecUpdate),
        Command::PostEvent { job, name, .. } => (*job, name.clone().into_inner().into()),
        Command::SetUrgency { job, .. } => (*job, Name::Urgency),
        Command::Memo { job, .. } => (*job, Name::Memo),
        Command::Annotate { job, .. } => (*job, Name::Annotations),
        Command::SetExpiration { job, .. } => (*job, Name::ResourceUpdate),
        Command::SetFlag { job, .. } => (*job, Name::SetFlags),
        _ => return None,
    })
}

/// What the command changes on the job, besides posting the event.
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

/// Stops showing what the commands from this place on asked for; with `only_updates`, only their updates of the
/// jobspec.
pub(crate) fn undo(jobs: &Jobs, noted: &[JobId], from: usize, only_updates: bool) {
    for record in noted.iter().filter_map(|id| jobs.get(*id)) {
        record.job.overlay().undo(from, only_updates);
    }
}

/// Stops showing what a callback has asked for: from now on only events change the jobs.
pub(crate) fn clear(jobs: &mut Jobs, noted: Vec<JobId>) {
    for id in noted {
        if let Some(record) = jobs.get_mut(id) {
            record.job.clear_overlay();
        }
    }
}
