//! Carries out the commands of handlers, in order, by calling Flux.
//!
//! Flux carries out most of them at once: if a job is idle, posting an event to it runs its transitions, and
//! the callbacks of all plugins, before the call returns. So no `RefCell` of the adapter may be borrowed
//! during a call of Flux.

use jobtap_core::eventlog::Name;
use jobtap_core::host::{
    Command, HostKind, LoadedPlugin, PluginKey, RemoteWork, TIME_BUDGET, over_budget,
};
use jobtap_core::job::{JobId, State};
use jobtap_core::plugin::{CallError, Level, Perilog, Priority};
use serde_json::{Map, Value, json};

use super::Adapter;
use super::queued::Queued;
use crate::flux::{Errno, Flux};

/// How deeply callbacks may be nested before their commands are put off until the outermost has ended. Each
/// level uses stack space in Flux and in the adapter: a long chain of jobs that depend on each other would
/// overflow the stack.
const MAX_NESTED: usize = 24;

/// Why a command wasn't carried out.
enum Dropped {
    /// The command isn't possible any more.
    Check(CallError),
    /// Flux has refused it.
    Flux(&'static str, Errno),
}

/// Adds the name of a function of Flux to its result.
fn with_function(function: &'static str, result: Result<(), Errno>) -> Result<(), Dropped> {
    result.map_err(|errno| Dropped::Flux(function, errno))
}

impl<F: Flux> Adapter<F> {
    /// Carries out the commands of one callback.
    pub(super) fn carry_out(&self, origin: &'static str, commands: Vec<Queued>) {
        if commands.is_empty() {
            return;
        }
        if self.depth.get() > MAX_NESTED {
            self.put_off.borrow_mut().extend(commands.into_iter().map(|queued| (origin, queued)));
            return;
        }
        for queued in merge_updates(commands) {
            self.carry_out_one(origin, queued);
        }
        self.settle();
    }

    /// Carries out the commands that were put off and stores data, unless a callback is in progress.
    pub(super) fn settle(&self) {
        if self.depth.get() > 0 {
            return;
        }
        // Count this as a callback, since the calls of Flux below may get back here.
        let nested = self.nested();
        loop {
            let next = self.put_off.borrow_mut().pop_front();
            let Some((origin, queued)) = next else { break };
            self.carry_out_one(origin, queued);
        }
        drop(nested);
        self.store_data();
    }

    /// Carries out the commands for a job that were held back until its submission was stored.
    pub(super) fn release(&self, id: JobId) {
        let held = self.open.borrow_mut().held.remove(&id).unwrap_or_default();
        for (origin, queued) in held {
            self.carry_out_one(origin, queued);
        }
    }

    fn carry_out_one(&self, origin: &'static str, queued: Queued) {
        if let Some(id) = changed_job(&queued.command)
            && let Some(held) = self.open.borrow_mut().held.get_mut(&id)
        {
            return held.push((origin, queued));
        }
        let Queued { plugin, command } = queued;
        let checked = HostKind::Flux
            .check_call(&command)
            .and_then(|()| match self.removes_posted(&command) {
                true => Ok(()),
                false => self.mirror.borrow().check(plugin, &command),
            })
            .map_err(Dropped::Check);
        let Err(dropped) = checked.and_then(|()| self.execute(plugin, command)) else { return };
        let reason = match dropped {
            Dropped::Check(error) => error.to_string(),
            Dropped::Flux(function, errno) => format!("{function}: {errno}"),
        };
        let name = self.name(plugin);
        self.log(Level::Warning, &format!("{name}: {origin}: dropped: {reason}"));
    }

    fn execute(&self, plugin: PluginKey, command: Command) -> Result<(), Dropped> {
        let flux = &self.flux;
        match command {
            Command::AddDependency { job, description } => {
                self.mirror.borrow_mut().own_dependency(plugin, job, &description);
                let added = flux.dependency_add(job, &description);
                let is_known = {
                    let mirror = self.mirror.borrow();
                    mirror.job(job).is_some_and(|job| job.dependency(&description).is_some())
                };
                if added.is_ok() && !is_known {
                    // Flux will apply it after the job's current event.
                    self.open.borrow_mut().additions.insert((job, description));
                }
                with_function("flux_jobtap_dependency_add", added)
            }
            Command::RemoveDependency { job, description } => {
                // Don't post a second removal while the first waits to be applied. Flux would accept it, but when
                // it fails later, Flux drops the job's other posted events, and the job stays in DEPEND.
                let removal = (job, description);
                if !self.open.borrow_mut().removals.insert(removal.clone()) {
                    return Ok(());
                }
                let result = flux.dependency_remove(job, &removal.1);
                if result.is_err() {
                    self.open.borrow_mut().removals.remove(&removal);
                }
                with_function("flux_jobtap_dependency_remove", result)
            }
            Command::StartProlog { job, description } => {
                self.start(plugin, job, Perilog::Prolog, &description)
            }
            Command::StartEpilog { job, description } => {
                self.start(plugin, job, Perilog::Epilog, &description)
            }
            Command::FinishProlog { job, description, status, failure } => {
                self.finish_own(plugin, job, Perilog::Prolog, &description, status, failure)
            }
            Command::FinishEpilog { job, description, status, failure } => {
                self.finish_own(plugin, job, Perilog::Epilog, &description, status, failure)
            }
            Command::TakeOver { job, perilog, description } => {
                self.mirror.borrow_mut().own_perilog(plugin, job, perilog, &description);
                Ok(())
            }
            Command::LeaveOpen { job, perilog, description } => {
                self.mirror.borrow_mut().disown_perilog(plugin, job, perilog, &description);
                Ok(())
            }
            Command::Raise { job, exception } => {
                let severity = exception.severity().get();
                let raised =
                    flux.raise_exception(job, exception.kind(), severity, exception.note());
                with_function("flux_jobtap_raise_exception", raised)
            }
            Command::EndWithEpilog { job, description, exception } => {
                self.mirror.borrow_mut().own_perilog(plugin, job, Perilog::Epilog, &description);
                if self.state(job) == Some(State::Cleanup) {
                    self.post_start(plugin, job, Perilog::Epilog, &description)?;
                } else {
                    // Flux counts an epilog only if it is started in CLEANUP. So the callback for the exception
                    // posts it, which is before the job's resources are freed.
                    let waiting = (plugin, description);
                    self.open.borrow_mut().epilogs.entry(job).or_default().push(waiting);
                }
                let severity = exception.severity().get();
                let raised =
                    flux.raise_exception(job, exception.kind(), severity, exception.note());
                with_function("flux_jobtap_raise_exception", raised)
            }
            Command::Reprioritize { job, priority } => match priority {
                Priority::Set(wanted) => {
                    // The urgencies 0 and 31 override the priorities of all plugins.
                    let forced = self
                        .mirror
                        .borrow()
                        .job(job)
                        .and_then(|job| job.urgency().forced_priority());
                    let result = flux.reprioritize_job(job, forced.unwrap_or(wanted));
                    with_function("flux_jobtap_reprioritize_job", result)
                }
                Priority::Unavailable | Priority::Unchanged => Ok(()),
            },
            Command::ReprioritizeAll => {
                with_function("flux_jobtap_reprioritize_all", flux.reprioritize_all())
            }
            // Don't use flux_jobtap_jobspec_update_pack: its updates are posted only if the whole callback succeeds.
            // Otherwise they are posted with the updates of the next callback, which may be for another job.
            Command::UpdateJobspec { job, updates } => {
                self.post(job, Name::JobspecUpdate, Some(&updates))
            }
            Command::PostEvent { job, name, context } => {
                self.post(job, name.as_str(), context.as_ref())
            }
            Command::SetUrgency { job, urgency } => {
                let context = object(json!({"userid": self.owner, "urgency": urgency}));
                self.post(job, Name::Urgency, Some(&context))
            }
            Command::Memo { job, memo } => self.post(job, Name::Memo, Some(&memo)),
            Command::SetExpiration { job, at } => {
                let context = object(json!({"expiration": at.as_secs()}));
                self.post(job, Name::ResourceUpdate, Some(&context))
            }
            Command::Annotate { job, annotations } => {
                self.annotate(job, annotations);
                Ok(())
            }
            Command::SetFlag { job, flag } => {
                with_function("flux_jobtap_job_set_flag", flux.job_set_flag(job, flag.name()))
            }
            Command::Signal { job, signal } => {
                let payload = json!({"id": job, "signum": signal.number()});
                flux.rpc("job-manager.kill", &payload, format!("signal to job {job}"));
                Ok(())
            }
            Command::Drain { ranks, reason } => {
                // Send one request per rank: if one of several ranks is already drained, a request for all fails.
                for rank in ranks.iter() {
                    let payload =
                        json!({"targets": rank.to_string(), "reason": reason, "overwrite": 0});
                    flux.rpc("resource.drain", &payload, format!("drain of rank {rank}"));
                }
                Ok(())
            }
            Command::Subscribe { job } => {
                let mut open = self.open.borrow_mut();
                let subscribers = open.subscribers.entry(job).or_default();
                if !subscribers.contains(&plugin) {
                    subscribers.push(plugin);
                }
                Ok(())
            }
            Command::Unsubscribe { job } => {
                if let Some(subscribers) = self.open.borrow_mut().subscribers.get_mut(&job) {
                    subscribers.retain(|subscriber| *subscriber != plugin);
                }
                Ok(())
            }
            Command::SetData { job, value, volatile } => {
                self.set_data(&self.name(plugin), job, value, volatile);
                Ok(())
            }
            Command::SetInstanceData { value, volatile } => {
                self.set_instance_data(&self.name(plugin), value, volatile);
                Ok(())
            }
            Command::Respond { to, payload } => {
                self.respond(plugin, to, &payload);
                Ok(())
            }
            Command::Answer { to, result } => {
                self.answer(plugin, to, result);
                Ok(())
            }
            Command::Process(command) => {
                if let Some(runtime) = self.runtime.get() {
                    runtime.process(plugin, command);
                }
                Ok(())
            }
            Command::Rpc(command) => {
                self.rpc(plugin, command);
                Ok(())
            }
            // Counted as nested, so that a long chain of such work is put off instead of overflowing the stack.
            Command::Then { work } => {
                let nested = self.nested();
                self.resume(plugin, work);
                drop(nested);
                Ok(())
            }
            Command::Blocking(command) => {
                if let Some(runtime) = self.runtime.get() {
                    runtime.blocking(plugin, command);
                }
                Ok(())
            }
            Command::Spawn(future) => {
                self.spawn(future);
                Ok(())
            }
            Command::BeginWork(work) => {
                self.begin_work(plugin, work);
                Ok(())
            }
            Command::WorkEnded { job, what } => {
                self.mirror.borrow_mut().end_work(plugin, job, &what);
                Ok(())
            }
            Command::NotifyAtJobEnd { job, work } => {
                self.at_end(plugin, job, work);
                Ok(())
            }
            Command::StartTimer { key, due, work } => {
                self.start_timer(plugin, key, due, work);
                Ok(())
            }
            Command::CancelTimer { key } => {
                self.timers.borrow_mut().cancel(key);
                Ok(())
            }
            Command::PollTook { topic, job, milliseconds } => {
                if milliseconds > TIME_BUDGET {
                    let job = job.map(|id| format!(": job {id}")).unwrap_or_default();
                    let what = format!("{}: {topic}{job}: a poll of its future", self.name(plugin));
                    self.log(Level::Warning, &over_budget(what, milliseconds, TIME_BUDGET));
                }
                Ok(())
            }
            Command::Log { level, text } => {
                let name = self.name(plugin);
                self.log(level, &format!("{name}: {text}"));
                Ok(())
            }
            Command::LogForJob { job, level, text } => {
                self.log(level, &format!("{job}: {text}"));
                Ok(())
            }
            // These are refused above, or come from handlers with which the file can't be loaded.
            Command::PutGuest { .. }
            | Command::Retain { .. }
            | Command::FreeRetained { .. }
            | Command::FailPrep(_)
            | Command::Verdict { .. }
            | Command::UserMessage { .. }
            | Command::BeginRequestWork(_)
            | Command::AnswerRequest { .. } => Ok(()),
        }
    }

    /// Whether a command removes a dependency whose addition is posted but not applied yet.
    fn removes_posted(&self, command: &Command) -> bool {
        match command {
            Command::RemoveDependency { job, description } => {
                self.open.borrow().additions.contains(&(*job, description.clone()))
            }
            _ => false,
        }
    }

    pub(super) fn state(&self, job: JobId) -> Option<State> {
        self.mirror.borrow().job(job).map(|job| job.state())
    }

    fn post(
        &self,
        job: JobId,
        name: impl AsRef<str>,
        context: Option<&Map<String, Value>>,
    ) -> Result<(), Dropped> {
        with_function(
            "flux_jobtap_event_post_pack",
            self.flux.event_post(job, name.as_ref(), context),
        )
    }

    /// Starts a prolog or epilog, or takes over one that was open at the last restart.
    fn start(
        &self,
        plugin: PluginKey,
        job: JobId,
        kind: Perilog,
        description: &str,
    ) -> Result<(), Dropped> {
        let orphan = {
            let mut mirror = self.mirror.borrow_mut();
            let mut orphans = mirror.orphans(job).into_iter();
            let orphan = orphans.any(|(of, what)| of == kind && what == description);
            mirror.own_perilog(plugin, job, kind, description);
            orphan
        };
        match orphan {
            true => Ok(()),
            false => {
                let started = self.post_start(plugin, job, kind, description);
                if started.is_err() {
                    self.mirror.borrow_mut().disown_perilog(plugin, job, kind, description);
                }
                started
            }
        }
    }

    /// Posts the event that starts a prolog or epilog.
    ///
    /// This doesn't use flux_jobtap_prolog_start, which accepts only the current job, and whose event doesn't name the
    /// plugin. After a restart, the event is the only source for that.
    fn post_start(
        &self,
        plugin: PluginKey,
        job: JobId,
        kind: Perilog,
        description: &str,
    ) -> Result<(), Dropped> {
        let event = match kind {
            Perilog::Prolog => Name::PrologStart,
            Perilog::Epilog => Name::EpilogStart,
        };
        let context = object(json!({"description": description, "plugin": &*self.name(plugin)}));
        self.post(job, event, Some(&context))
    }

    /// Starts the epilogs that wait until this job is in CLEANUP.
    pub(super) fn start_waiting_epilogs(&self, job: JobId) {
        let waiting = self.open.borrow_mut().epilogs.remove(&job).unwrap_or_default();
        for (plugin, description) in waiting {
            if let Err(Dropped::Flux(_, errno)) =
                self.post_start(plugin, job, Perilog::Epilog, &description)
            {
                let name = self.name(plugin);
                self.log(Level::Error, &format!("{name}: epilog {description} of {job}: {errno}"));
            }
        }
    }

    fn finish_own(
        &self,
        plugin: PluginKey,
        job: JobId,
        kind: Perilog,
        description: &str,
        status: i32,
        failure: Option<String>,
    ) -> Result<(), Dropped> {
        let owned = self.mirror.borrow_mut().disown_perilog(plugin, job, kind, description);
        match owned {
            true => self.finish(job, kind, description, status, failure),
            false => Ok(()),
        }
    }

    /// Finishes a prolog or epilog. With `failure`, a fatal exception is raised first.
    fn finish(
        &self,
        job: JobId,
        kind: Perilog,
        description: &str,
        status: i32,
        failure: Option<String>,
    ) -> Result<(), Dropped> {
        let mut raised = Ok(());
        if let Some(note) = failure {
            // The exception must come first: the job would start when its last prolog is finished.
            raised = with_function(
                "flux_jobtap_raise_exception",
                self.flux.raise_exception(job, kind.word(), 0, &note),
            );
        }
        let (function, finished) = match kind {
            Perilog::Prolog => {
                ("flux_jobtap_prolog_finish", self.flux.prolog_finish(job, description, status))
            }
            Perilog::Epilog => {
                ("flux_jobtap_epilog_finish", self.flux.epilog_finish(job, description, status))
            }
        };
        with_function(function, finished).and(raised)
    }

    /// Finishes a prolog or epilog that its plugin can't finish any more. Errors are logged.
    pub(super) fn finish_lost(
        &self,
        job: JobId,
        kind: Perilog,
        description: &str,
        failure: Option<String>,
    ) {
        if let Err(Dropped::Flux(function, errno)) = self.finish(job, kind, description, 1, failure)
        {
            let word = kind.word();
            self.log(Level::Error, &format!("{word} {description} of {job}: {function}: {errno}"));
        }
    }

    /// Annotates a job. During a call for this job, the annotations become part of the answer. At other times Flux
    /// accepts only a memo, which it shows among the annotations below `user`. Like annotations, a volatile memo is
    /// lost at a restart.
    fn annotate(&self, job: JobId, annotations: Map<String, Value>) {
        if let Some((current, notes)) = self.answers.borrow_mut().last_mut()
            && *current == job
        {
            return merge(notes, annotations);
        }
        let payload = json!({"id": job, "volatile": true, "memo": annotations});
        self.flux.rpc("job-manager.memo", &payload, format!("annotations of job {job}"));
    }

    /// Logs once per plugin and call that the call isn't supported, since the plugin may ignore the error.
    pub(super) fn log_unsupported_call(&self, plugin: &LoadedPlugin, error: &CallError) {
        let text = format!("{}: {error}", plugin.name());
        if self.open.borrow_mut().unserved.insert(text.clone()) {
            self.log(Level::Error, &text);
        }
    }

    fn at_end(&self, plugin: PluginKey, job: JobId, work: RemoteWork) {
        let has_ended = {
            let mirror = self.mirror.borrow();
            mirror.job(job).is_none_or(|job| {
                job.state() == State::Inactive
                    || job.end_event().is_some_and(|end| end.name == Name::Exception)
            })
        };
        match has_ended {
            true => self.resume(plugin, work),
            false => self.open.borrow_mut().at_end.entry(job).or_default().push((plugin, work)),
        }
    }
}

/// Returns the job that a command changes by an event.
fn changed_job(command: &Command) -> Option<JobId> {
    match command {
        Command::AddDependency { job, .. }
        | Command::RemoveDependency { job, .. }
        | Command::StartProlog { job, .. }
        | Command::FinishProlog { job, .. }
        | Command::StartEpilog { job, .. }
        | Command::FinishEpilog { job, .. }
        | Command::Raise { job, .. }
        | Command::EndWithEpilog { job, .. }
        | Command::Reprioritize { job, .. }
        | Command::UpdateJobspec { job, .. }
        | Command::PostEvent { job, .. }
        | Command::SetUrgency { job, .. }
        | Command::Memo { job, .. }
        | Command::Annotate { job, .. }
        | Command::SetFlag { job, .. } => Some(*job),
        _ => None,
    }
}

/// Merges annotations. A `null` is kept, since it removes a key from the job.
pub(super) fn merge(mine: &mut Map<String, Value>, later: Map<String, Value>) {
    for (key, note) in later {
        match (mine.get_mut(&key), note) {
            (Some(Value::Object(inner)), Value::Object(more)) => merge(inner, more),
            (_, note) => {
                mine.insert(key, note);
            }
        }
    }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// Merges all updates of a callback by the same plugin to the same job into the last of them, so that they become one
/// event. If a path is updated twice, the later value wins.
fn merge_updates(commands: Vec<Queued>) -> Vec<Queued> {
    let is_update = |queued: &Queued| matches!(queued.command, Command::UpdateJobspec { .. });
    if commands.iter().filter(|queued| is_update(queued)).count() < 2 {
        return commands;
    }
    let mut merged: Vec<Queued> = Vec::with_capacity(commands.len());
    for mut queued in commands {
        if let Command::UpdateJobspec { job: id, updates } = &mut queued.command {
            let earlier = merged.iter().position(|earlier| {
                earlier.plugin == queued.plugin
                    && matches!(&earlier.command, Command::UpdateJobspec { job, .. } if job == id)
            });
            if let Some(index) = earlier
                && let Command::UpdateJobspec { updates: mut all, .. } =
                    merged.remove(index).command
            {
                all.extend(std::mem::take(updates));
                *updates = all;
            }
        }
        merged.push(queued);
    }
    merged
}
