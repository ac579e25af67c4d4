//! What a handler has returned and asked for, as text that can be compared and shown.

use serde_json::{Map, Value};

use crate::host::{Command, Fault, Outcome, RpcCommand};
use crate::job::JobId;
use crate::plugin::Priority;

/// What an action is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Whether a submission, an update or a request is accepted.
    Verdict,
    Priority,
    Dependency,
    Jobspec,
    Exception,
    Prolog,
    Epilog,
    Urgency,
    Expiration,
    Annotations,
    Memo,
    Flag,
    Event,
    Signal,
    Guest,
    Resources,
    Nodes,
    /// The response of a service.
    Reply,
    Message,
    /// Work outside of the manager's thread, which a shadow's calls don't start.
    Outside,
    /// The handler has failed where a failure decides nothing.
    Failure,
}

impl Kind {
    /// The word for it in reports.
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Kind::Verdict => "verdict",
            Kind::Priority => "priority",
            Kind::Dependency => "dependency",
            Kind::Jobspec => "jobspec",
            Kind::Exception => "exception",
            Kind::Prolog => "prolog",
            Kind::Epilog => "epilog",
            Kind::Urgency => "urgency",
            Kind::Expiration => "expiration",
            Kind::Annotations => "annotations",
            Kind::Memo => "memo",
            Kind::Flag => "flag",
            Kind::Event => "event",
            Kind::Signal => "signal",
            Kind::Guest => "guest",
            Kind::Resources => "resources",
            Kind::Nodes => "nodes",
            Kind::Reply => "reply",
            Kind::Message => "message",
            Kind::Outside => "outside",
            Kind::Failure => "failure",
        }
    }
}

/// One thing that a handler asked for or decided.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Action {
    pub(crate) kind: Kind,
    /// The job that it is about.
    pub(crate) job: Option<JobId>,
    pub(crate) text: String,
}

/// What one handler has returned and asked for in one callback.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    /// Why the handler failed, which is a refusal at a gate.
    pub(crate) failed: Option<String>,
    /// The handler decides later.
    pub(crate) deferred: bool,
    pub(crate) priority: Priority,
    pub(crate) actions: Vec<Action>,
}

impl Transcript {
    /// Adds the outcome of a handler.
    pub(crate) fn add_outcome(&mut self, outcome: &Outcome, job: Option<JobId>) {
        self.priority = outcome.priority;
        let Some(more) = outcome.peek() else { return };
        self.deferred = more.deferred;
        let mut add = |kind, text: String| self.actions.push(Action { kind, job, text });
        if let Some(notes) = &more.annotations {
            add(Kind::Annotations, text_of(notes));
        }
        if let Some(resources) = &more.resources {
            add(Kind::Resources, resources.to_string());
        }
        if let Some(update) = &more.update {
            let checks = match (update.validated, update.feasibility) {
                (true, false) => "is valid",
                (true, true) => "is valid if it is feasible",
                (false, false) => "is to be validated",
                (false, true) => "is to be validated, and must be feasible",
            };
            add(Kind::Verdict, checks.to_owned());
            for (path, value) in &update.further {
                add(Kind::Jobspec, format!("{path} = {value}"));
            }
        }
        if let Some(reply) = &more.reply {
            add(Kind::Reply, reply.to_string());
        }
    }

    /// Adds what a handler asked for.
    pub(crate) fn add_command(&mut self, command: &Command) {
        add_actions(command, &mut self.actions);
    }
}

/// The text of a fault, as it is shown.
pub(crate) fn fault_text(fault: &Fault) -> String {
    match fault {
        Fault::Failure(failure) if failure.text().is_empty() => "no reason given".to_owned(),
        Fault::Failure(failure) => failure.text().to_owned(),
        Fault::Panic(text) => format!("panicked: {text}"),
        Fault::Busy => "called while it is being called".to_owned(),
    }
}

fn text_of(map: &Map<String, Value>) -> String {
    serde_json::to_string(map).unwrap_or_default()
}

/// Adds what a command asks for. Leaves out a plugin's own bookkeeping, such as its data, timers and log.
fn add_actions(command: &Command, actions: &mut Vec<Action>) {
    let mut add = |kind, job, text| actions.push(Action { kind, job, text });
    let fails = |status: i32, failure: &Option<String>| match failure {
        Some(note) => format!("{status}: {note}"),
        None => status.to_string(),
    };
    match command {
        Command::AddDependency { job, description } => {
            add(Kind::Dependency, Some(*job), format!("adds {description}"));
        }
        Command::RemoveDependency { job, description } => {
            add(Kind::Dependency, Some(*job), format!("removes {description}"));
        }
        Command::StartProlog { job, description } => {
            add(Kind::Prolog, Some(*job), format!("starts {description}"));
        }
        Command::FinishProlog { job, description, status, failure } => {
            let text = format!("finishes {description} with {}", fails(*status, failure));
            add(Kind::Prolog, Some(*job), text);
        }
        Command::StartEpilog { job, description } => {
            add(Kind::Epilog, Some(*job), format!("starts {description}"));
        }
        Command::FinishEpilog { job, description, status, failure } => {
            let text = format!("finishes {description} with {}", fails(*status, failure));
            add(Kind::Epilog, Some(*job), text);
        }
        Command::FailPrep(failure) => {
            add(Kind::Prolog, Some(failure.job), format!("fails: {}", failure.note));
        }
        Command::Raise { job, exception } => {
            let (kind, severity) = (exception.kind(), exception.severity().get());
            let text = format!("{kind}, severity {severity}: {}", exception.note());
            add(Kind::Exception, Some(*job), text);
        }
        Command::EndWithEpilog { job, description, exception } => {
            add(Kind::Epilog, Some(*job), format!("starts {description}"));
            let (kind, note) = (exception.kind(), exception.note());
            add(Kind::Exception, Some(*job), format!("{kind}, severity 0: {note}"));
        }
        Command::UpdateJobspec { job, updates } => {
            for (path, value) in updates {
                add(Kind::Jobspec, Some(*job), format!("{path} = {value}"));
            }
        }
        Command::PostEvent { job, name, context } => {
            let context = context.as_ref().map(|context| format!(" {}", text_of(context)));
            add(
                Kind::Event,
                Some(*job),
                format!("{}{}", name.as_str(), context.unwrap_or_default()),
            );
        }
        Command::SetUrgency { job, urgency } => {
            add(Kind::Urgency, Some(*job), urgency.value().to_string());
        }
        Command::Signal { job, signal } => {
            add(Kind::Signal, Some(*job), signal.number().to_string());
        }
        Command::Memo { job, memo } => add(Kind::Memo, Some(*job), text_of(memo)),
        Command::SetExpiration { job, at } => {
            add(Kind::Expiration, Some(*job), at.as_secs().to_string());
        }
        Command::PutGuest { job, key, value } => {
            add(Kind::Guest, Some(*job), format!("{key} = {value}"));
        }
        Command::Annotate { job, annotations } => {
            add(Kind::Annotations, Some(*job), text_of(annotations));
        }
        Command::SetFlag { job, flag } => add(Kind::Flag, Some(*job), flag.name().to_owned()),
        Command::Drain { ranks, reason } => {
            add(Kind::Nodes, None, format!("drains {ranks}: {reason}"));
        }
        Command::Retain { job } => {
            add(Kind::Nodes, Some(*job), "retains the resources".to_owned());
        }
        Command::FreeRetained { job, ranks } => {
            add(Kind::Nodes, Some(*job), format!("frees {ranks}"));
        }
        Command::UserMessage { text, .. } => add(Kind::Message, None, text.clone()),
        Command::Respond { payload, .. } => add(Kind::Reply, None, payload.to_string()),
        Command::Answer { result, .. } => {
            let text = match result {
                Ok(payload) => payload.to_string(),
                Err(error) => format!("error {}: {}", error.errno, error.text),
            };
            add(Kind::Reply, None, text);
        }
        Command::Process(_) => add(Kind::Outside, None, "a process".to_owned()),
        Command::Rpc(RpcCommand::Request { request, .. }) => {
            add(Kind::Outside, None, format!("a request to {}", request.topic()));
        }
        Command::Blocking(_) => add(Kind::Outside, None, "work on a thread".to_owned()),
        Command::Spawn(_) => add(Kind::Outside, None, "a future".to_owned()),
        Command::PollTook { .. } => {}
        Command::BeginWork(work) => {
            add(Kind::Outside, Some(work.job), format!("the future of {}", work.what));
        }
        Command::BeginRequestWork(_) => {
            add(Kind::Outside, None, "the future of a request".to_owned());
        }
        Command::Reprioritize { job, priority: Priority::Set(value) } => {
            add(Kind::Priority, Some(*job), value.to_string());
        }
        // The plugin's own bookkeeping.
        Command::Reprioritize { .. }
        | Command::ReprioritizeAll
        | Command::TakeOver { .. }
        | Command::LeaveOpen { .. }
        | Command::Rpc(_)
        | Command::Then { .. }
        | Command::Subscribe { .. }
        | Command::Unsubscribe { .. }
        | Command::SetData { .. }
        | Command::SetInstanceData { .. }
        | Command::Verdict { .. }
        | Command::AnswerRequest { .. }
        | Command::StartTimer { .. }
        | Command::CancelTimer { .. }
        | Command::WorkEnded { .. }
        | Command::NotifyAtJobEnd { .. }
        | Command::Log { .. }
        | Command::LogForJob { .. } => {}
    }
}
