//! Carries out the commands of handlers.

use std::rc::Rc;
use std::time::Duration;

use jobtap_core::host::{
    BlockingCommand, Command, PluginFuture, PluginKey, RemoteCall, RemoteWork, TIME_BUDGET,
    TimerDue, TimerKey, WorkKind, over_budget,
};
use jobtap_core::plugin::Level;

use super::callback::now;
use super::core::{Core, Queued};
use super::messages::Message;
use crate::job;

impl Core {
    /// Carries out commands in order.
    pub(super) fn carry_out(&mut self, commands: Vec<Queued>) {
        for (plugin, command) in commands {
            self.carry_out_one(plugin, command);
        }
    }

    fn carry_out_one(&mut self, plugin: PluginKey, command: Command) {
        match command {
            Command::UserMessage { request, text } => self.note_message(request, text),
            Command::BeginRequestWork(work) => {
                self.begin_request_work(plugin, work.request, work.abort, work.future);
            }
            Command::AnswerRequest { request, answer } => {
                self.take_answer(plugin, request, answer);
            }
            Command::BeginWork(work)
                if matches!(work.kind, WorkKind::Verdict | WorkKind::Priority) =>
            {
                let request = job::request_of(work.job);
                self.begin_request_work(plugin, request, work.abort, work.future);
            }
            Command::Verdict { job, verdict } => self.take_verdict(plugin, job, verdict),
            Command::Reprioritize { job, priority } => self.take_priority(plugin, job, priority),
            Command::UpdateJobspec { job, updates } => self.update_jobspec(job, updates),
            Command::StartProlog { job, description }
            | Command::StartEpilog { job, description } => {
                self.open_prep(plugin, job, description);
            }
            Command::BeginWork(work) => {
                self.begin_prep_work(plugin, work.job, &work.what, work.abort, work.run_on);
                spawn(work.future);
            }
            Command::FinishProlog { job, description, failure, .. }
            | Command::FinishEpilog { job, description, failure, .. } => {
                self.finish_prep(plugin, job, &description, failure);
            }
            Command::FailPrep(failure) => match failure.description {
                Some(description) => {
                    self.finish_prep(plugin, failure.job, &description, Some(failure.note));
                }
                None => self.log_of(plugin, Level::Error, &failure.note),
            },
            // The work has sent its result before this command, unless it couldn't compute a priority.
            Command::WorkEnded { job, .. } => self.end_request_work(plugin, job),
            Command::SetData { job, value, .. } => {
                self.data.insert((plugin, job), value);
            }
            Command::SetInstanceData { value, .. } => {
                self.instance_data.insert(plugin, value);
            }
            Command::Process(command) => self.processes.carry_out(plugin, command),
            Command::Blocking(command) => self.run_blocking(command),
            Command::StartTimer { key, due, work } => self.start_timer(plugin, key, due, work),
            Command::CancelTimer { key } => {
                if let Some(timer) = self.timers.remove(&key) {
                    timer.abort();
                }
            }
            // As a message, so that a long chain of such work doesn't overflow the stack.
            Command::Then { work } => {
                self.inbox.send(Message::Remote(RemoteCall { plugin, work }));
            }
            Command::Spawn(future) => spawn(future),
            Command::PollTook { topic, milliseconds, .. } => {
                if milliseconds > TIME_BUDGET {
                    let what = format_args!("{topic}: a poll of its future");
                    let text = over_budget(what, milliseconds, TIME_BUDGET);
                    self.log_of(plugin, Level::Warning, &text);
                }
            }
            Command::Log { level, text } => self.log_of(plugin, level, &text),
            Command::LogForJob { job, level, text } => {
                self.log_of(plugin, level, &format!("job {}: {text}", job.as_u64()));
            }
            other => {
                if let (Err(error), Some(plugin)) =
                    (self.kind.check_call(&other), self.stack.get(plugin))
                {
                    self.log_unsupported_call(plugin, &error);
                }
            }
        }
    }

    /// Writes a line with the plugin's name to the daemon's log.
    pub(super) fn log_of(&self, plugin: PluginKey, level: Level, text: &str) {
        match self.stack.get(plugin).map(Rc::clone) {
            Some(plugin) => self.log(&plugin, level, text),
            None => self.daemon.log(level, &format!("jobtap: {text}")),
        }
    }

    fn run_blocking(&self, command: BlockingCommand) {
        let BlockingCommand::Run(work) = command else { return };
        let daemon = std::sync::Arc::clone(&self.daemon);
        // The work is passed in a slot, from which it is taken back and refused if no thread can be started.
        let slot = std::sync::Arc::new(std::sync::Mutex::new(Some(work)));
        let take = {
            let slot = std::sync::Arc::clone(&slot);
            move || slot.lock().unwrap_or_else(std::sync::PoisonError::into_inner).take()
        };
        let run = {
            let take = take.clone();
            move || {
                daemon.prepare_thread();
                if let Some(work) = take().filter(|work| work.awaited().holds()) {
                    work.run();
                }
            }
        };
        let started = std::thread::Builder::new().name("jobtap-work".to_owned()).spawn(run);
        if let (Err(error), Some(work)) = (started, take()) {
            work.refuse(error.to_string());
        }
    }

    fn start_timer(&mut self, plugin: PluginKey, key: TimerKey, due: TimerDue, work: RemoteWork) {
        let seconds = match due {
            TimerDue::At(at) => at - now(),
            TimerDue::After(seconds) => seconds,
        };
        let delay = Duration::try_from_secs_f64(seconds.max(0.0)).unwrap_or(Duration::MAX);
        let timer = self.after(delay, Message::Remote(RemoteCall { plugin, work }));
        self.timers.retain(|_, timer| !timer.is_finished());
        self.timers.insert(key, timer);
    }
}

/// Runs a future on this thread.
pub(super) fn spawn(future: PluginFuture) {
    // The SDK catches panics of the work; the future that waits for its result gets an error.
    drop(tokio::spawn(future));
}
