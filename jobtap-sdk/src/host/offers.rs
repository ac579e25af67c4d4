//! Which parts of the plugin interface each host serves.
//!
//! A plugin crate names topics and calls, and no host. Our manager serves all of them, Flux those that its C
//! interface offers, and Slurm those for the requests and scripts for which it calls plugins. The tables here
//! say which, so that `jobtap build --host` can refuse a plugin before it compiles it, a host's adapter refuses
//! the same, and the guide shows the same tables.

use super::command::Command;
use super::errors::call_error::CallError;
use super::kind::HostKind;
use super::linked::descriptor::HandlerEntry;
use super::off_thread::rpc::{RpcCommand, RpcRequest};
use crate::topic::TopicId;

/// Whether a host serves a topic or a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// As our manager does.
    Full,
    /// With this difference.
    With(&'static str),
    /// Not at all, for this reason. It is a clause that begins in lower case and has no full stop.
    Missing(&'static str),
}

impl Offer {
    /// Whether the host serves the topic or call, perhaps with a difference.
    pub const fn is_served(self) -> bool {
        !matches!(self, Offer::Missing(_))
    }

    /// The reason why it isn't served.
    pub const fn gap(self) -> Option<&'static str> {
        match self {
            Offer::Missing(reason) => Some(reason),
            _ => None,
        }
    }
}

impl HostKind {
    /// Whether the host calls handlers of a topic. Authors' own topics are served everywhere: plugins call them
    /// on each other.
    pub fn topic(self, id: TopicId) -> Offer {
        let row = TOPIC_OFFERS.iter().find(|row| row.id == id);
        row.map_or(Offer::Full, |row| row.offers.for_host(self))
    }

    /// Whether the host waits for an asynchronous handler of a topic.
    pub fn async_topic(self, id: TopicId) -> Offer {
        match self.topic(id) {
            Offer::Missing(reason) => Offer::Missing(reason),
            _ if self == HostKind::Flux && id == TopicId::JobValidate => Offer::Missing(
                "Flux's job manager would stand still until it is decided: decide at once, or hold the job \
                 by an async handler of `job.state.depend`",
            ),
            offer => offer,
        }
    }

    /// Whether the host calls this handler.
    pub fn handler(self, entry: &HandlerEntry) -> Offer {
        match entry.topic {
            "service" => SERVICE_OFFERS.for_host(self),
            _ if entry.policy.is_some() => self.async_topic(entry.id),
            _ => self.topic(entry.id),
        }
    }

    /// Refuses a command that the host doesn't carry out.
    ///
    /// # Errors
    /// [`CallError::NotServed`].
    pub fn check_call(self, command: &Command) -> Result<(), CallError> {
        let call = call_name(command);
        match self.call_named(call).gap() {
            Some(reason) => Err(CallError::NotServed { host: self, call, reason }),
            None => Ok(()),
        }
    }

    /// Whether the host serves a call of [`Cx`](crate::plugin::Cx) or [`Remote`](crate::plugin::Remote) by its
    /// method's name.
    pub fn call_named(self, name: &str) -> Offer {
        let name = row_of(name);
        let row = CALL_OFFERS.iter().find(|row| row.name == name);
        row.map_or(Offer::Full, |row| row.offers.for_host(self))
    }
}

/// How the hosts other than our manager serve one topic or call.
#[derive(Debug, Clone, Copy)]
pub struct Offers {
    /// [`HostKind::Flux`].
    pub flux: Offer,
    /// [`HostKind::SlurmSubmit`].
    pub submit: Offer,
    /// [`HostKind::SlurmPrep`].
    pub prep: Offer,
}

impl Offers {
    /// How one host serves it.
    pub const fn for_host(self, host: HostKind) -> Offer {
        match host {
            HostKind::Jobtap => Offer::Full,
            HostKind::Flux => self.flux,
            HostKind::SlurmSubmit => self.submit,
            HostKind::SlurmPrep => self.prep,
        }
    }
}

/// The topic with this name, such as `job.validate`; for a member such as `job.dependency.afterok`, its family.
pub fn topic_named(name: &str) -> Option<TopicId> {
    let rows = || TOPIC_OFFERS.iter().map(|row| row.id);
    let exact = rows().find(|id| id.name() == name);
    exact.or_else(|| {
        let family =
            |id: &TopicId| id.name().strip_suffix('*').is_some_and(|f| name.starts_with(f));
        // `job.*` has every prefix: the longest name is the nearest family.
        rows().filter(family).max_by_key(|id| id.name().len())
    })
}

/// A row of the table of topics.
#[derive(Debug, Clone, Copy)]
pub struct TopicOffers {
    /// The topic.
    pub id: TopicId,
    /// How the hosts serve it.
    pub offers: Offers,
}

/// A row of the table of calls.
#[derive(Debug, Clone, Copy)]
pub struct CallOffers {
    /// The name of the method.
    pub name: &'static str,
    /// How the hosts serve it.
    pub offers: Offers,
}

const FULL: Offer = Offer::Full;

const SLURM_ONLY: Offer = Offer::Missing(
    "it is Slurm's topic, for which Flux has no moment: use the topic of Flux that comes next to it, such as \
     `job.validate`",
);
const NO_LIFE_CYCLE: Offer = Offer::Missing(
    "Slurm tells job_submit plugins of requests only, and not of what a job does afterwards: run the plugin in \
     Flux or in jobtap's manager",
);
const NOT_IN_PREP: Offer = Offer::Missing(
    "Slurm asks PrEp plugins only before a job starts and after it has ended: build this plugin for \
     slurm-job-submit, or run it in Flux or in jobtap's manager",
);
const NOT_IN_SUBMIT: Offer =
    Offer::Missing("Slurm asks for it in PrEp plugins: build this plugin for slurm-prep");
const NO_SERVICES: Offer = Offer::Missing(
    "Slurm passes no requests to plugins: run the plugin in Flux or in jobtap's manager",
);

const NOT_ELASTIC: Offer = Offer::Missing(
    "only jobtap's own manager asks other job managers for allocations: run the plugin there",
);

const fn topic(id: TopicId, flux: Offer, submit: Offer, prep: Offer) -> TopicOffers {
    TopicOffers { id, offers: Offers { flux, submit, prep } }
}

/// How the hosts serve each topic, in the order of a job's life.
pub const TOPIC_OFFERS: &[TopicOffers] = &[
    topic(
        TopicId::ConfUpdate,
        FULL,
        Offer::With(
            "when the plugin is loaded, and after `scontrol reconfigure`, where a refusal is logged",
        ),
        Offer::With(
            "when the plugin is loaded, and after `scontrol reconfigure`, where a refusal is logged",
        ),
    ),
    topic(TopicId::SlurmJobSubmit, SLURM_ONLY, FULL, NOT_IN_PREP),
    topic(TopicId::JobCreate, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(
        TopicId::JobValidate,
        FULL,
        Offer::With(
            "as part of job_submit, after `slurm.job_submit`, with the jobspec that the request means",
        ),
        NOT_IN_PREP,
    ),
    topic(TopicId::JobDependency, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobNew, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobStateDepend, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(
        TopicId::JobStatePriority,
        FULL,
        Offer::With(
            "once, as part of job_submit: a priority that is set becomes that of the request",
        ),
        NOT_IN_PREP,
    ),
    topic(TopicId::JobStateSched, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(
        TopicId::JobStateRun,
        FULL,
        NO_LIFE_CYCLE,
        Offer::With("as `slurm.prolog_slurmctld`: only asynchronous handlers hold the job's start"),
    ),
    topic(TopicId::SlurmPrologSlurmctld, SLURM_ONLY, NOT_IN_SUBMIT, FULL),
    topic(TopicId::SlurmProlog, SLURM_ONLY, NOT_IN_SUBMIT, FULL),
    topic(
        TopicId::JobStateCleanup,
        FULL,
        NO_LIFE_CYCLE,
        Offer::With(
            "as `slurm.epilog_slurmctld`: only asynchronous handlers hold the job's resources",
        ),
    ),
    topic(TopicId::SlurmEpilogSlurmctld, SLURM_ONLY, NOT_IN_SUBMIT, FULL),
    topic(TopicId::SlurmEpilog, SLURM_ONLY, NOT_IN_SUBMIT, FULL),
    topic(TopicId::JobStateInactive, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobState, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(
        TopicId::JobEvent,
        Offer::With("Flux delivers no event whose name has more than 53 bytes"),
        NO_LIFE_CYCLE,
        NOT_IN_PREP,
    ),
    topic(
        TopicId::JobPriorityGet,
        FULL,
        Offer::With("never called: Slurm doesn't ask again for the priority of a job"),
        NOT_IN_PREP,
    ),
    topic(TopicId::SlurmJobModify, SLURM_ONLY, FULL, NOT_IN_PREP),
    topic(TopicId::JobUpdateKey, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobUpdate, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobInactiveAdd, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobDestroy, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(TopicId::JobInactiveRemove, FULL, NO_LIFE_CYCLE, NOT_IN_PREP),
    topic(
        TopicId::JobAny,
        Offer::With(
            "of dependency schemes and update keys only those that another handler of the same file handles, \
             since Flux takes every topic that is handled as supported",
        ),
        NO_LIFE_CYCLE,
        NOT_IN_PREP,
    ),
    topic(TopicId::AllocationPlan, NOT_ELASTIC, NOT_ELASTIC, NOT_ELASTIC),
    topic(TopicId::PluginQuery, FULL, NO_SERVICES, NO_SERVICES),
    topic(
        TopicId::Unload,
        FULL,
        Offer::With("when the daemon ends"),
        Offer::With("when the daemon ends"),
    ),
];

/// How the hosts serve plugin services, which have no topic of their own.
pub const SERVICE_OFFERS: Offers = Offers { flux: FULL, submit: NO_SERVICES, prep: NO_SERVICES };

const OF_PENDING_JOBS: Offer = Offer::Missing(
    "Slurm lets a plugin change the request only, and not a job that exists: run the plugin in Flux or \
     in jobtap's manager",
);
const NO_PEER: Offer = Offer::Missing(
    "Flux's interface for plugins has no such call: run the plugin in jobtap's manager",
);

const NO_END: Offer = Offer::Missing(
    "Slurm doesn't tell a plugin of the end of a job that it waits for: run the plugin in Flux or in jobtap's \
     manager",
);

const NO_RPC: Offer = Offer::Missing(
    "Slurm has no services that a plugin could send requests to: run a program with `start_process`, or run the \
     plugin in Flux or in jobtap's manager",
);

const NO_KVS: Offer =
    Offer::Missing("Slurm has no KVS: run the plugin in Flux or in jobtap's manager");

const fn call(name: &'static str, flux: Offer, submit: Offer, prep: Offer) -> CallOffers {
    CallOffers { name, offers: Offers { flux, submit, prep } }
}

/// How the hosts serve each call that changes something or waits for a job. Other calls, such as reads and
/// timers, are served everywhere.
pub const CALL_OFFERS: &[CallOffers] = &[
    call("dependency_add", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("dependency_remove", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call(
        "prolog_start",
        FULL,
        OF_PENDING_JOBS,
        Offer::With("in `job.state.run`: it is a part of the job's PrologSlurmctld"),
    ),
    call(
        "epilog_start",
        FULL,
        OF_PENDING_JOBS,
        Offer::With("in `job.state.cleanup`: it is a part of the job's EpilogSlurmctld"),
    ),
    call("prolog_reopen", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call(
        "leave_open",
        FULL,
        OF_PENDING_JOBS,
        Offer::Missing("Slurm ends a prolog or epilog with the daemon that runs it"),
    ),
    call("raise", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("reprioritize", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("reprioritize_all", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call(
        "jobspec_update",
        FULL,
        Offer::With("in `job.validate`: what changes in the request's terms"),
        OF_PENDING_JOBS,
    ),
    call("post_event", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("urgency", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("fail_job_with_epilog", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("signal", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("memo", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("set_expiration", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call(
        "guest_put",
        Offer::Missing(
            "a running job's guest directory is a namespace of its own, which is not open to plugins of Flux: \
             store data on the job",
        ),
        OF_PENDING_JOBS,
        OF_PENDING_JOBS,
    ),
    call(
        "annotate",
        Offer::With(
            "shown under its own key for the job of the callback, at `job.new`, `job.state.*`, `job.update` and \
             later topics; otherwise, as from a timer or a future, below `user`, as a memo; lost at a restart, as \
             all annotations of Flux",
        ),
        OF_PENDING_JOBS,
        OF_PENDING_JOBS,
    ),
    call("ended", FULL, NO_END, NO_END),
    call("set_flag", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("subscribe", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call(
        "data",
        FULL,
        Offer::With(
            "in memory: that of a job until the request is answered, that of the instance until the daemon ends",
        ),
        Offer::With(
            "in memory: that of a job until the prolog or epilog has ended, that of the instance until the \
             daemon ends",
        ),
    ),
    call(
        "then",
        Offer::With(
            "events of the job whose handler has asked for it, and what follows from them, may come after it",
        ),
        FULL,
        FULL,
    ),
    call("rpc", FULL, NO_RPC, NO_RPC),
    call("kvs_lookup", FULL, NO_KVS, NO_KVS),
    call("drain", FULL, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call("retain_resources", NO_PEER, OF_PENDING_JOBS, OF_PENDING_JOBS),
    call(
        "user_message",
        Offer::Missing("it is a call of Slurm's topics"),
        FULL,
        Offer::Missing("it is a call of `slurm.job_submit` and `slurm.job_modify`"),
    ),
];

/// The name of a method's row: methods that ask their host for the same thing share one.
fn row_of(method: &str) -> &str {
    match method {
        "dependency_add_to" => "dependency_add",
        "dependency_remove_of" => "dependency_remove",
        "epilog_start_of" => "epilog_start",
        "epilog_reopen" => "prolog_reopen",
        "fail" | "fail_job" => "raise",
        "jobspec_update_of" => "jobspec_update",
        "instance_data" => "data",
        "until_ended" => "ended",
        "rpc_then" | "rpc_no_response" => "rpc",
        method => method,
    }
}

/// The name of the method of [`Cx`](crate::plugin::Cx) or [`Remote`](crate::plugin::Remote) that makes a
/// command.
pub const fn call_name(command: &Command) -> &'static str {
    match command {
        Command::AddDependency { .. } => "dependency_add",
        Command::RemoveDependency { .. } => "dependency_remove",
        Command::StartProlog { .. } | Command::FinishProlog { .. } => "prolog_start",
        Command::StartEpilog { .. } | Command::FinishEpilog { .. } => "epilog_start",
        Command::TakeOver { .. } => "prolog_reopen",
        Command::Raise { .. } => "raise",
        Command::Reprioritize { .. } => "reprioritize",
        Command::ReprioritizeAll => "reprioritize_all",
        Command::UpdateJobspec { .. } => "jobspec_update",
        Command::PostEvent { .. } => "post_event",
        Command::SetUrgency { .. } => "urgency",
        Command::EndWithEpilog { .. } => "fail_job_with_epilog",
        Command::Signal { .. } => "signal",
        Command::Memo { .. } => "memo",
        Command::SetExpiration { .. } => "set_expiration",
        Command::PutGuest { .. } => "guest_put",
        Command::Annotate { .. } => "annotate",
        Command::SetFlag { .. } => "set_flag",
        Command::Subscribe { .. } => "subscribe",
        Command::Unsubscribe { .. } => "unsubscribe",
        Command::Drain { .. } => "drain",
        Command::Retain { .. } | Command::FreeRetained { .. } => "retain_resources",
        Command::SetData { .. } | Command::SetInstanceData { .. } => "data",
        Command::Respond { .. } | Command::Answer { .. } => "answer",
        Command::Process(_) => "start_process",
        Command::Rpc(RpcCommand::Request { request: RpcRequest::Kvs { .. }, .. }) => "kvs_lookup",
        Command::Rpc(_) => "rpc",
        Command::Then { .. } => "then",
        Command::LeaveOpen { .. } => "leave_open",
        Command::Blocking(_) => "blocking",
        Command::UserMessage { .. } => "user_message",
        Command::StartTimer { .. } | Command::CancelTimer { .. } => "at",
        Command::Spawn(_) => "spawn",
        Command::Log { .. } | Command::LogForJob { .. } | Command::PollTook { .. } => "log",
        // Made by asynchronous handlers: see `HostKind::async_topic`.
        Command::FailPrep(_)
        | Command::Verdict { .. }
        | Command::BeginRequestWork(_)
        | Command::AnswerRequest { .. }
        | Command::BeginWork(_)
        | Command::WorkEnded { .. } => "async",
        Command::NotifyAtJobEnd { .. } => "ended",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topic::TOPICS;

    #[test]
    fn each_topic_has_a_row() {
        for info in TOPICS {
            let found = TOPIC_OFFERS.iter().filter(|row| row.id.name() == info.name).count();
            assert_eq!(found, 1, "{}", info.name);
        }
    }

    #[test]
    fn our_manager_serves_everything() {
        for row in TOPIC_OFFERS {
            assert_eq!(HostKind::Jobtap.topic(row.id), Offer::Full);
        }
        for row in CALL_OFFERS {
            assert_eq!(HostKind::Jobtap.call_named(row.name), Offer::Full);
        }
    }

    #[test]
    fn a_host_is_found_by_its_name() {
        for host in HostKind::ALL {
            assert_eq!(HostKind::named(host.name()), Some(host));
        }
        assert_eq!(HostKind::named("slurm"), None);
    }

    #[test]
    fn a_topic_is_found_by_its_name_or_its_family() {
        assert_eq!(topic_named("job.validate"), Some(TopicId::JobValidate));
        assert_eq!(topic_named("job.dependency.afterok"), Some(TopicId::JobDependency));
        assert_eq!(topic_named("job.update"), Some(TopicId::JobUpdate));
        assert_eq!(topic_named("job.state.run"), Some(TopicId::JobStateRun));
        assert_eq!(topic_named("fairshare.usage"), None);
    }

    /// The methods in the source of a type, each with its documentation.
    fn methods(source: &str) -> Vec<(&str, String)> {
        let mut methods = Vec::new();
        let mut documentation = String::new();
        for line in source.lines().map(str::trim_start) {
            let declared = line.strip_prefix("pub async fn ").or(line.strip_prefix("pub fn "));
            if let Some(declared) = declared {
                let end = declared.find(['(', '<']).unwrap();
                methods.push((&declared[..end], std::mem::take(&mut documentation)));
            } else if let Some(text) = line.strip_prefix("///") {
                documentation.push_str(text);
                documentation.push('\n');
            } else if !line.starts_with("#[") {
                documentation.clear();
            }
        }
        methods
    }

    #[test]
    fn the_documentation_of_a_call_names_the_hosts_that_serve_it() {
        let sources = [
            include_str!("../plugin/cx/context.rs"),
            include_str!("../plugin/cx/retained.rs"),
            include_str!("../plugin/handler/slurm.rs"),
            include_str!("../plugin/remote/handle.rs"),
            include_str!("../plugin/remote/rpc.rs"),
            include_str!("../plugin/remote/then.rs"),
        ];
        let all: Vec<_> = sources.iter().flat_map(|source| methods(source)).collect();
        let mut named = Vec::new();
        for (method, documentation) in &all {
            let of = |host: &HostKind| host.call_named(method);
            let hosts: Vec<String> = HostKind::ALL
                .iter()
                .filter(|host| of(host).is_served())
                .map(|host| match of(host) {
                    Offer::With(_) => format!("{host} (with a difference)"),
                    _ => host.to_string(),
                })
                .collect();
            let line = format!("\n **Hosts**: {}.\n", hosts.join(", "));
            let all_alike = HostKind::ALL.iter().all(|host| of(host) == Offer::Full);
            assert_eq!(documentation.contains(&line), !all_alike, "{method}: {line}");
            named.push(row_of(method));
        }
        // Every row is about a method that exists.
        for row in CALL_OFFERS {
            assert!(named.contains(&row.name), "{}", row.name);
        }
    }

    #[test]
    fn each_reason_is_a_clause_that_tells_what_to_do_or_why() {
        let topics = TOPIC_OFFERS.iter().map(|row| row.offers);
        for offers in topics.chain(CALL_OFFERS.iter().map(|row| row.offers)) {
            for host in HostKind::ALL {
                let (Offer::With(text) | Offer::Missing(text)) = offers.for_host(host) else {
                    continue;
                };
                assert!(!text.is_empty() && !text.ends_with('.'), "{text}");
            }
        }
    }
}
