//! A submission: checked, given an id, and shown to the plugins' gates, until it is accepted or
//! nothing of it is left.

use serde_json::json;

use super::api::{Cred, ReplyTo, RequestError, Submission};
use super::frames::{Frame, Given, Then};
use super::notices::{Cause, Progress};
use super::record::{Record, Unaccepted};
use super::work::Work;
use super::{Engine, Write, events};
use crate::host::{AsyncPolicy, Bound, OnRestart, PluginKey};
use crate::job::{Flags, Job, JobId, State, Uid, Urgency};
use crate::jobspec::{Dependency, Jobspec};
use crate::topic::TopicId;

const EPERM: i32 = 1;
const EINVAL: i32 = 22;

/// Where a submission stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// Before `job.create`.
    Create,
    /// Before `job.validate`.
    Validate,
    /// Before the dependency of this index is asked for.
    Dependency(usize),
    /// All gates have passed: `job.new`, then `validate`.
    Accept,
    /// `job.new` was called.
    Accepted,
}

fn invalid(text: impl Into<String>) -> RequestError {
    RequestError { errno: EINVAL, text: text.into() }
}

fn denied(text: &str) -> RequestError {
    RequestError { errno: EPERM, text: text.to_owned() }
}

impl Engine {
    /// `job-ingest.submit`.
    pub(super) fn submit(&mut self, reply: ReplyTo, cred: Cred, submission: Submission) {
        match self.admit(cred, &submission) {
            Ok((urgency, flags)) => match self.create(submission, flags) {
                Ok(id) => {
                    self.submitters.insert(id, reply);
                    self.work.push(Work::Submit(id, Step::Create));
                    // On top: the gates see the job with its user and urgency.
                    self.post(id, events::submit(self.now, cred.userid, urgency, flags.bits()));
                }
                Err(error) => self.reply(reply, Err(error)),
            },
            Err(error) => self.reply(reply, Err(error)),
        }
    }

    /// Who may submit with what.
    fn admit(&self, cred: Cred, submission: &Submission) -> Result<(Urgency, Flags), RequestError> {
        let flags = Flags::from_bits(submission.flags).map_err(|_| invalid("invalid job flags"))?;
        let guest = !cred.owner;
        if guest && flags.contains(Flags::NOVALIDATE) {
            return Err(denied("only the instance owner can submit with FLUX_JOB_NOVALIDATE"));
        }
        let urgency =
            Urgency::new(submission.urgency).map_err(|_| invalid("urgency range is [0:31]"))?;
        if guest && urgency > Urgency::DEFAULT {
            return Err(invalid("only the instance owner can submit with urgency >16"));
        }
        if guest && flags.contains(Flags::WAITABLE) {
            return Err(invalid("only the instance owner can submit with FLUX_JOB_WAITABLE"));
        }
        Ok((urgency, flags))
    }

    /// Makes the record, in state NEW; its writes are held back.
    fn create(&mut self, submission: Submission, flags: Flags) -> Result<JobId, RequestError> {
        let jobspec = self.queued(submission.jobspec, flags)?;
        // Whole milliseconds since the start; the generator continues where the last run ended.
        let elapsed = ((self.now - self.started_at) * 1000.0).max(0.0) as u64;
        let id = self.ids.next(elapsed).map_err(|error| invalid(error.to_string()))?;
        self.max_jobid = Some(id);
        let jobspec = jobspec.into_redacted();
        let text = jobspec.text().to_owned();
        let mut record = Record::new(blank_job(id, jobspec));
        record.unaccepted = Some(Unaccepted::default());
        self.jobs.insert(id, Box::new(record));
        self.active.insert(id);
        self.put(id, "J", submission.signed);
        self.put(id, "jobspec", text);
        Ok(id)
    }

    pub(super) fn submit_step(&mut self, id: JobId, step: Step) {
        match step {
            Step::Create => self.gate(id, TopicId::JobCreate, Step::Validate),
            Step::Validate => self.gate(id, TopicId::JobValidate, Step::Dependency(0)),
            Step::Dependency(index) => self.dependency_step(id, index),
            Step::Accept => {
                self.work.push(Work::Submit(id, Step::Accepted));
                self.notify(TopicId::JobNew, id, Cause::None);
            }
            Step::Accepted => self.accept(id),
        }
    }

    fn gate(&mut self, id: JobId, topic: TopicId, next: Step) {
        self.stack_frame(Frame::new(topic, id, Then::Gate(next)));
    }

    fn dependency_step(&mut self, id: JobId, index: usize) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let dependencies = match record.job.jobspec.dependencies() {
            Ok(dependencies) => dependencies,
            Err(error) => return self.reject(id, error.to_string()),
        };
        match dependencies.into_iter().nth(index) {
            None => self.work.push(Work::Submit(id, Step::Accept)),
            Some(dependency) => {
                let then = Then::Gate(Step::Dependency(index + 1));
                self.stack_dependency(id, dependency, then, None);
            }
        }
    }

    /// Asks the plugins of a scheme for one dependency.
    fn stack_dependency(
        &mut self,
        id: JobId,
        dependency: Dependency,
        then: Then,
        only: Option<PluginKey>,
    ) {
        let asks = |key| only.is_none_or(|only| only == key);
        let topic = TopicId::JobDependency;
        let mut handlers = self.plugins.stack.members(topic, &dependency.scheme, asks);
        let mut called = 0;
        if then == Then::Recheck && handlers.iter().any(fails_at_restart) {
            // Those that are not asked again support the scheme all the same.
            called = handlers.len();
            handlers = self.fail_interrupted(id, &dependency, &handlers);
        }
        let given = Given::Dependency(dependency);
        let progress = Progress { called, ..Progress::default() };
        let handlers = Some(handlers);
        let frame = Frame { given, handlers, progress, ..Frame::new(topic, id, then) };
        self.work.push(Work::Frame(Box::new(frame)));
    }

    /// Ends the job when work on its dependency was interrupted and doesn't begin again; gives the
    /// handlers that are to be asked.
    fn fail_interrupted(
        &mut self,
        id: JobId,
        dependency: &Dependency,
        handlers: &[Bound],
    ) -> std::rc::Rc<[Bound]> {
        let Dependency { scheme, value, .. } = dependency;
        for bound in handlers.iter().filter(|bound| fails_at_restart(bound)) {
            let (plugin, method) = (bound.instance().name(), bound.entry().method);
            let what = format!("{plugin}.{method}={scheme}:{value}");
            let held = self.seen(id).is_some_and(|job| job.dependencies().any(|d| d == what));
            if held {
                let note =
                    format!("dependency {what}: the manager was restarted while it was open");
                self.raise_fatal(id, "dependency", &note);
            }
        }
        handlers.iter().filter(|bound| !fails_at_restart(bound)).cloned().collect()
    }

    /// Asks again for the dependencies of a job that waits in DEPEND.
    pub(super) fn recheck_dependencies(&mut self, id: JobId, only: Option<PluginKey>) {
        let Some(record) = self.jobs.get(&id) else {
            return;
        };
        let dependencies = record.job.jobspec.dependencies().unwrap_or_default();
        for dependency in dependencies.into_iter().rev() {
            let then = if only.is_some() { Then::Introduce } else { Then::Recheck };
            self.stack_dependency(id, dependency, then, only);
        }
    }

    /// All handlers of a gate were called.
    pub(super) fn gate_ended(&mut self, frame: Frame, next: Step) {
        let id = frame.job;
        if let Some(text) = frame.refusal {
            return self.reject(id, text);
        }
        if !frame.awaited.is_empty() {
            let then = Then::Gate(next);
            self.suspended.insert(id, Frame { then, ..frame });
            return;
        }
        match &frame.given {
            Given::Dependency(dependency) if frame.progress.called == 0 => {
                let scheme = &dependency.scheme;
                self.reject(id, format!("dependency scheme \"{scheme}\" not supported"));
            }
            _ => self.work.push(Work::Submit(id, next)),
        }
    }

    /// A dependency was asked for again after a restart.
    pub(super) fn recheck_ended(&mut self, frame: &Frame) {
        let refusal = match (&frame.refusal, &frame.given) {
            (Some(text), _) => Some(text.clone()),
            (None, Given::Dependency(dependency)) if frame.progress.called == 0 => {
                Some(format!("dependency scheme \"{}\" not supported", dependency.scheme))
            }
            _ => None,
        };
        let stuck = self.jobs.get(&frame.job).is_some_and(|r| r.job.state == State::Depend);
        if let (Some(text), true) = (refusal, stuck) {
            let note = format!("{text} (job may be stuck in DEPEND state)");
            let owner = self.owner;
            self.post(frame.job, events::exception(self.now, "dependency", 4, &note, owner));
        }
    }

    /// The job is in: its writes go out, and the answer with them.
    fn accept(&mut self, id: JobId) {
        let Some(record) = self.jobs.get_mut(&id) else {
            return;
        };
        let held = record.unaccepted.take().unwrap_or_default();
        self.effects.writes.extend(held.writes);
        self.effects.writes.push(Write::Accepted { id });
        self.effects.after.extend(held.published);
        self.tally_new(id);
        self.wait_begins(id);
        if let Some(reply) = self.submitters.remove(&id) {
            self.reply(reply, Ok(json!({ "id": id })));
        }
        self.post(id, events::bare(self.now, "validate"));
    }

    /// Nothing of the job is left but the answer, once the plugins have heard of it.
    fn reject(&mut self, id: JobId, text: String) {
        let text = if text.is_empty() { "rejected by plugin".to_owned() } else { text };
        if let Some(reply) = self.submitters.remove(&id) {
            self.reply(reply, Err(invalid(text)));
        }
        self.abort_all_work(id);
        if let Some(record) = self.jobs.get_mut(&id) {
            record.rejected = true;
        }
        self.work.push(Work::Forget(id));
        self.notify(TopicId::JobDestroy, id, Cause::None);
    }

    /// The last of a job that was rejected, or purged.
    pub(super) fn forget(&mut self, id: JobId) {
        self.jobs.remove(&id);
        self.active.remove(&id);
    }
}

/// Its work doesn't begin again after a restart, as its handler says.
fn fails_at_restart(bound: &Bound) -> bool {
    let fail = Some(OnRestart::Fail);
    bound.entry().policy.is_some_and(|policy: AsyncPolicy| policy.on_restart == fail)
}

/// A job of which nothing is known yet but id and jobspec.
pub(super) fn blank_job(id: JobId, jobspec: Jobspec) -> Job {
    Job {
        id,
        userid: Uid(0),
        urgency: Urgency::DEFAULT,
        flags: Flags::NONE,
        state: State::New,
        priority: None,
        t_submit: crate::job::Timestamp::from_secs(0.0),
        jobspec,
        resources: Default::default(),
        end_event: Default::default(),
        dependencies: Default::default(),
        annotations: Default::default(),
        posted: Default::default(),
    }
}
