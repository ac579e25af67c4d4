//! The implementation of `job_submit` and `job_modify`, which slurmctld calls.

use jobtap_core::plugin::Level;
use jobtap_core::slurm::{JobDescriptor, JobRecord, Partition, Release, SlurmError, errno};
use jobtap_core::topic::TopicId;

use crate::structure::{Mismatch, Structure, read, write_changes};
use crate::worker::{Plugins, Request};

/// What slurmctld knows in addition to the request. It is queried only if a plugin handles the request.
pub trait Surroundings {
    /// The release that slurmctld is of.
    fn release(&self) -> Release;

    /// The partitions that the request's user may use.
    ///
    /// # Errors
    /// When slurmctld's partitions can't be read.
    fn partitions(&self) -> Result<Vec<Partition>, Mismatch>;

    /// Returns the name of a user.
    fn user_name(&self, user: u32) -> Option<String>;
}

/// The result of a request for slurmctld.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Decision {
    /// 0, or the error with which the request is refused.
    pub code: i32,
    /// The message to the user, which has one or more lines.
    pub message: Option<String>,
}

impl Decision {
    const ACCEPTED: Self = Self { code: 0, message: None };

    /// Returns a refusal because the plugins couldn't decide on the request.
    pub fn failed(text: impl Into<String>) -> Self {
        Self { code: errno::SLURM_ERROR.code(), message: Some(text.into()) }
    }
}

/// The topics of a submission.
const SUBMIT: &[TopicId] =
    &[TopicId::SlurmJobSubmit, TopicId::JobValidate, TopicId::JobStatePriority];

/// The topics of a modification.
const MODIFY: &[TopicId] = &[TopicId::SlurmJobModify, TopicId::JobValidate];

/// Calls the plugins for a submission and writes their changes into its description.
pub fn submit(
    plugins: &Plugins,
    descriptor: &mut dyn Structure,
    user: u32,
    surroundings: &dyn Surroundings,
) -> Decision {
    if !plugins.handles_any(SUBMIT) {
        return Decision::ACCEPTED;
    }
    let mut before: JobDescriptor = read(descriptor);
    before.user_name = surroundings.user_name(before.user_id);
    let request = Request { user, ..Request::default() };
    decide(plugins, descriptor, before, request, surroundings)
}

/// Calls the plugins for a modification of a job and writes their changes into its description.
///
/// slurmctld 22.05 can't pass a message to the user here, so the text goes to its log.
pub fn modify(
    plugins: &Plugins,
    descriptor: &mut dyn Structure,
    record: impl FnOnce() -> Result<JobRecord, Mismatch>,
    user: u32,
    surroundings: &dyn Surroundings,
) -> Decision {
    if !plugins.handles_any(MODIFY) {
        return Decision::ACCEPTED;
    }
    let before: JobDescriptor = read(descriptor);
    let mut record = match record() {
        Ok(record) => record,
        Err(mismatch) => return unreadable(plugins, user, &mismatch),
    };
    if record.user_name.is_none() {
        record.user_name = surroundings.user_name(record.user_id);
    }
    let job = record.job_id;
    let request = Request { user, record: Some(record), ..Request::default() };
    let mut decision = decide(plugins, descriptor, before, request, surroundings);
    if surroundings.release() == Release::V22_05
        && let Some(text) = decision.message.take()
    {
        let text = format!("jobtap: job {job}: change by user {user}: {text}");
        plugins.daemon().log(Level::Info, &text);
    }
    decision
}

/// Refuses a request since what slurmctld passes with it can't be read.
fn unreadable(plugins: &Plugins, user: u32, mismatch: &Mismatch) -> Decision {
    let text = format!("jobtap: request of user {user}: {mismatch}");
    plugins.daemon().log(Level::Error, &text);
    Decision::failed("the site's plugins were built for another Slurm; please report it")
}

fn decide(
    plugins: &Plugins,
    structure: &mut dyn Structure,
    before: JobDescriptor,
    request: Request,
    surroundings: &dyn Surroundings,
) -> Decision {
    let user = request.user;
    let partitions = match surroundings.partitions() {
        Ok(partitions) => partitions,
        Err(mismatch) => return unreadable(plugins, user, &mismatch),
    };
    let request = Request { descriptor: before.clone(), partitions, ..request };
    let answer = match plugins.request(request) {
        Ok(answer) => answer,
        Err(error) => {
            let text = format!("jobtap: request of user {user}: {error}");
            plugins.daemon().log(Level::Error, &text);
            return Decision::failed(error.to_string());
        }
    };
    let mut messages = answer.messages;
    let mut code = 0;
    if let Some(error) = answer.refusal {
        let (number, text) = refusal(&error, surroundings.release());
        code = number;
        messages.extend(text);
    } else {
        match write_changes(structure, &before, &answer.descriptor, surroundings.release()) {
            Ok(left_out) if left_out.is_empty() => {}
            Ok(left_out) => {
                let names = left_out.join(", ");
                let text =
                    format!("jobtap: request of user {user}: changes without effect: {names}");
                plugins.daemon().log(Level::Warning, &text);
            }
            Err(error) => {
                let text = format!("jobtap: request of user {user}: {error}");
                plugins.daemon().log(Level::Error, &text);
                return Decision::failed(format!("a plugin's change can't be made: {error}"));
            }
        }
    }
    Decision { code, message: Some(messages.join("\n")).filter(|text| !text.is_empty()) }
}

/// Returns the number of a refusal and its message. If this version of Slurm has the number, its commands print the
/// text for it themselves.
fn refusal(error: &SlurmError, release: Release) -> (i32, Option<String>) {
    if SlurmError::in_release(error.code(), release)
        .is_some_and(|known| known.name() == error.name())
    {
        return (error.code(), error.message().map(str::to_owned));
    }
    (errno::SLURM_ERROR.code(), Some(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_that_this_slurm_lacks_is_sent_in_words() {
        let known = errno::ESLURM_ACCESS_DENIED.with("no");
        assert_eq!(refusal(&known, Release::V22_05), (2002, Some("no".to_owned())));
        assert_eq!(refusal(&errno::ESLURM_ACCESS_DENIED, Release::V22_05), (2002, None));
        let newer = errno::ESLURM_RES_CORES_PER_GPU_UNIQUE;
        let text = newer.text().to_owned();
        assert_eq!(refusal(&newer, Release::V22_05), (-1, Some(text)));
        // 22.05 has this number for another error.
        let (code, text) = refusal(&errno::ESLURM_MAX_JOB_COUNT, Release::V22_05);
        assert_eq!((code, text.is_some()), (-1, true));
    }
}
