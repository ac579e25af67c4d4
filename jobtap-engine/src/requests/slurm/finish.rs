//! Continues a request after plugins have decided on it.

use serde_json::{Map, Value};

use super::{changed, fields, from_fields, invalid};
use crate::agenda::{Chain, ChainPurpose};
use crate::api::{Effects, HostCheck, Level, RequestError, Submission};
use crate::core::Core;
use crate::job::{Flags, JobId, Urgency};
use crate::jobs::Jobs;
use crate::jobspec::{Jobspec, path};
use crate::requests::submit::Checked;
use crate::requests::update::Updates;
use crate::requests::{arrays, jobs, submit, update};
use crate::slurm::{JobDescriptor, apply_changes, updates_between};
use crate::submissions::Submitter;

/// Continues a request that all plugins have accepted, or refuses it.
pub(crate) fn finish(core: &mut Core, chain: Chain) {
    let Chain { reply, cred, request, before, messages, refusal, purpose, .. } = chain;
    if let Some(error) = refusal {
        return core.turn.effects.reply_with(reply, messages, Err(error));
    }
    let after = request.descriptor.into_inner();
    let changes = (after != *before).then_some((&*before, &after));
    let refused = match purpose {
        ChainPurpose::Submit { submission, urgency, flags } => {
            let check = &core.submissions.host_check;
            match rewrite_submission(changes, *submission, urgency, flags, check) {
                Ok(rewritten) => {
                    let submitter = Submitter::new(reply, messages);
                    return submit::take_to_gates(core, submitter, cred, rewritten);
                }
                Err(error) => error,
            }
        }
        ChainPurpose::Update { id, updates } => {
            match rewrite_updates(&core.jobs, changes, id, updates) {
                Ok(updates) => {
                    return update::ask_plugins(core, reply, messages, cred, id, updates);
                }
                Err(error) => error,
            }
        }
        ChainPurpose::Urgency { id, urgency } => {
            let urgency = rewrite_urgency(&mut core.turn.effects, changes, id, urgency);
            let done = jobs::post_urgency(&mut core.turn, &mut core.jobs, cred, id, urgency);
            return core.turn.effects.reply_with(reply, messages, done);
        }
        ChainPurpose::ArrayUrgency { array, urgency, .. } => {
            let urgency = rewrite_urgency(&mut core.turn.effects, changes, array, urgency);
            let done = arrays::post_urgency(core, cred, array, urgency);
            return core.turn.effects.reply_with(reply, messages, done);
        }
    };
    core.turn.effects.reply_with(reply, messages, Err(refused));
}

/// The description of a request before and after plugins have changed it; `None` if they have changed nothing.
type Changes<'a> = Option<(&'a JobDescriptor, &'a JobDescriptor)>;

/// Applies what plugins have changed to a submission.
fn rewrite_submission(
    changes: Changes<'_>,
    submission: Submission,
    urgency: Urgency,
    flags: Flags,
    host_check: &HostCheck,
) -> Result<Checked, RequestError> {
    let mut checked = Checked::new(submission, urgency, flags);
    if let Some((before, after)) = changes {
        let jobspec = &mut checked.submission.jobspec;
        *jobspec = rewrite(jobspec, before, after)?;
        host_check.check(jobspec).map_err(|refusal| invalid(refusal.to_string()))?;
        checked.new_environment = after.environment != before.environment;
        checked.urgency = new_urgency(before, after, urgency);
    }
    Ok(checked)
}

/// The urgency that the plugins have chosen by setting the priority.
fn new_urgency(before: &JobDescriptor, after: &JobDescriptor, urgency: Urgency) -> Urgency {
    match after.priority {
        _ if after.priority == before.priority => urgency,
        None => Urgency::DEFAULT,
        // Slurm's priorities have a wider range than urgencies; a priority outside of theirs is kept in the jobspec.
        Some(_) => after.urgency().unwrap_or(urgency),
    }
}

/// Applies what plugins have changed to the new values that the user wants.
fn rewrite_updates(
    jobs: &Jobs,
    changes: Changes<'_>,
    id: JobId,
    mut wanted: Map<String, Value>,
) -> Result<Updates, RequestError> {
    let Some((before, after)) = changes else { return Ok(Updates::wanted(wanted)) };
    let (_, new) = changed(jobs, id, &wanted)?;
    // The plugins saw only what the user wants to change, but a jobspec is made from a whole description.
    let whole = JobDescriptor::from_jobspec(new.value());
    let rewritten = rewrite(&new, &whole, &overlaid(&whole, before, after))?;
    for (path, value) in &mut wanted {
        *value = path::get(rewritten.value(), path).cloned().unwrap_or_default();
    }
    let is_wanted = |path: &str| wanted.keys().any(|outer| is_within(path, outer));
    let differences = updates_between(new.value(), rewritten.value());
    let added = differences.into_iter().filter(|(path, _)| !is_wanted(path)).collect();
    Ok(Updates { wanted, added })
}

/// Whether a path is `outer` or leads further into it.
fn is_within(path: &str, outer: &str) -> bool {
    path.strip_prefix(outer).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// Applies what plugins have changed to a request about the urgency, which can change the priority only.
fn rewrite_urgency(
    effects: &mut Effects,
    changes: Changes<'_>,
    id: JobId,
    urgency: Urgency,
) -> Urgency {
    let Some((before, after)) = changes else { return urgency };
    let others = JobDescriptor { priority: before.priority, ..after.clone() };
    if others != *before {
        let text = format!(
            "job {id}: slurm.job_modify: a request about the urgency can change the priority only; the \
             other changes of plugins are dropped"
        );
        effects.log(Level::Warning, text);
    }
    new_urgency(before, after, urgency)
}

/// Applies the changes of a description to the jobspec.
fn rewrite(
    jobspec: &Jobspec,
    before: &JobDescriptor,
    after: &JobDescriptor,
) -> Result<Jobspec, RequestError> {
    let invalid =
        |error| invalid(format!("what plugins have made of the request is no valid job: {error}"));
    let document = apply_changes(before, after, jobspec.value()).map_err(invalid)?;
    match jobspec.is_validated() {
        true => Jobspec::from_value(document).map_err(invalid),
        false => Ok(Jobspec::unvalidated(document)),
    }
}

/// A description with the changes that were made to another one.
fn overlaid(whole: &JobDescriptor, before: &JobDescriptor, after: &JobDescriptor) -> JobDescriptor {
    let (mut whole, before) = (fields(whole), fields(before));
    let changed = |(name, value): &(String, Value)| before.get(name) != Some(value);
    whole.extend(fields(after).into_iter().filter(changed));
    from_fields(whole)
}
