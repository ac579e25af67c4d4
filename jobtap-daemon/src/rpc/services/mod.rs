//! The table of services: every topic that the manager serves, with its request, its response, who may call
//! it, how many responses it has and when, and whether it is recorded.
//!
//! Both ends use it. The commands send requests and get responses of these types. The daemon has a handler
//! for each row (`daemon/services`), and checks access and privacy and records changes as the row says. A
//! new service is a type in the file of its family and a row here; without a handler it does not compile.
//!
//! Most types of responses have a default for each field, so that a command can read a response that lacks
//! some.

pub mod allocation;
pub mod attr;
pub mod config;
pub mod entries;
pub mod exec;
pub mod ingest;
pub mod job_exec;
pub mod job_info;
pub mod job_list;
pub mod job_manager;
pub mod kvs;
pub mod log;
pub mod plugin;
pub mod queue;
pub mod resource;
pub mod service;

use jobtap_core::engine::ShadowReport;
use jobtap_core::job::JobId;
use schemars::JsonSchema;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::Value;

use super::service::{Access, Audited, Responses, Service, Size};

/// The response to a request that was carried out: an empty object. A different response of a plugin is
/// ignored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Done {}

impl<'de> Deserialize<'de> for Done {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        IgnoredAny::deserialize(deserializer).map(|_| Self {})
    }
}

/// Makes each row an implementation of [`Service`], and a macro that hands the types of all rows to
/// another macro.
///
/// A row is `TOPIC: REQUEST => RESPONSE, ACCESS, RESPONSES`, and where they apply, in this order, `+ large`
/// (a payload may fill a message) or `+ array` (it may have the elements of a job array), `jobspec = FUNCTION` (takes out the jobspec that is sent beside the payload),
/// `job = FIELD`, perhaps one within another (the job that a request is about) and `audit = FUNCTION` (what the audit log records of a request).
macro_rules! services {
    (@job $self:ident) => { None };
    (@job $self:ident $($field:tt).+) => { $self.$($field).+.into() };
    (@audited $self:ident) => { None };
    (@audited $self:ident $audit:path) => { $audit($self) };
    (@size) => { Size::Normal };
    (@size large) => { Size::Large };
    (@size array) => { Size::Array };
    ($each:ident: $($topic:literal: $request:ty => $response:ty, $access:ident, $responses:ident
        $(+ $size:ident)? $(, jobspec = $take_jobspec:path)? $(, job = $($job:tt).+)? $(, audit = $audit:path)?;)*) => {
        $(
            impl Service for $request {
                type Response = $response;

                const TOPIC: &'static str = $topic;
                const ACCESS: Access = Access::$access;
                const RESPONSES: Responses = Responses::$responses;
                const SIZE: Size = services!(@size $($size)?);

                fn job(&self) -> Option<JobId> {
                    services!(@job self $($($job).+)?)
                }

                fn audited(&self) -> Option<Audited> {
                    services!(@audited self $($audit)?)
                }

                $(
                    fn take_jobspec(&mut self) -> Option<String> {
                        $take_jobspec(self)
                    }
                )?
            }
        )*

        /// Calls a macro with the types of all requests of this table.
        macro_rules! $each {
            ($callback:ident) => { $callback! { $($request),* } };
        }
        pub(crate) use $each;
    };
}

services! { each_service:
    "job-ingest.submit":           ingest::Submit => ingest::Submitted, Anyone, Short + large,
                                       jobspec = ingest::Submit::take_jobspec;
    "job-ingest.submit-array":     ingest::SubmitArray => ingest::Submitted, Anyone, Short + array,
                                       jobspec = ingest::SubmitArray::take_jobspec;

    "job-manager.raise":           job_manager::Raise => Done, Anyone, Short, job = id;
    "job-manager.array-raise":     job_manager::RaiseElements => job_manager::Matched, Anyone, Short,
                                       job = raise.id;
    "job-manager.array-wait":      job_manager::WaitArray => job_list::Array, Reader, Late, job = id;
    "job-manager.raiseall":        job_manager::RaiseAll => job_manager::Matched, Anyone, Short,
                                       audit = job_manager::RaiseAll::audit;
    "job-manager.kill":            job_manager::Kill => Done, Anyone, Short, job = id,
                                       audit = job_manager::Kill::audit;
    "job-manager.killall":         job_manager::KillAll => job_manager::Matched, Anyone, Short,
                                       audit = job_manager::KillAll::audit;
    "job-manager.requeue":         job_manager::Requeue => job_manager::Requeued, Anyone, Short, job = id,
                                       audit = job_manager::Requeue::audit;
    "job-manager.urgency":         job_manager::SetUrgency => job_manager::OldUrgency, Anyone, Short, job = id;
    "job-manager.update":          job_manager::Update => job_manager::Updated, Anyone, Short, job = id;
    "job-manager.memo":            job_manager::Memo => Done, Anyone, Short, job = id;
    "job-manager.why":             job_manager::Why => job_manager::Reasons, Reader, Long, job = id;
    "job-manager.wait":            job_manager::Wait => job_manager::Ended, Owner, Late;
    "job-manager.purge":           job_manager::Purge => job_manager::Purged, Owner, Short,
                                       audit = job_manager::Purge::audit;
    "job-manager.purge-id":        job_manager::PurgeId => job_manager::Purged, Owner, Short, job = id,
                                       audit = job_manager::PurgeId::audit;
    "job-manager.events-journal":  job_manager::EventsJournal => Value, Owner, Stream;
    "job-manager.getinfo":         job_manager::GetInfo => job_manager::Info, UnlessPrivate, Long;
    "job-manager.stats-get":       job_manager::GetStats => Value, UnlessPrivate, Long;
    "job-manager.uptime":          job_manager::GetUptime => job_manager::Uptime, Reader, Short;
    "job-manager.restart":         job_manager::Restart => job_manager::Restarting, Owner, Short;

    "job-manager.queue-enable":    queue::Enable => Done, Owner, Short, audit = queue::Enable::audit;
    "job-manager.queue-start":     queue::Start => Done, Owner, Short, audit = queue::Start::audit;
    "job-manager.queue-list":      queue::List => queue::Names, Reader, Long;
    "job-manager.queue-status":    queue::GetStatus => queue::Status, Reader, Long;
    "job-manager.queue-overview":  queue::GetOverview => queue::Overview, Reader, Long;
    "job-manager.alloc-query":     queue::AllocQuery => queue::Counts, UnlessPrivate, Long;
    "job-manager.drain":           queue::Drain => Done, Owner, Late;
    "job-manager.idle":            queue::Idle => queue::Pending, Owner, Late;

    "job-manager.jobtap":          plugin::Jobtap => plugin::Plugins, Owner, Long,
                                       audit = plugin::Jobtap::audit;
    "job-manager.jobtap-reload":   plugin::Reload => Done, Owner, Short, audit = plugin::Reload::audit;
    "job-manager.jobtap-shadow":   plugin::GetShadow => ShadowReport, Owner, Long;
    "job-manager.jobtap-shadow-load": plugin::LoadShadow => Done, Owner, Short,
                                       audit = plugin::LoadShadow::audit;
    "job-manager.jobtap-shadow-remove": plugin::RemoveShadow => Done, Owner, Short,
                                       audit = plugin::RemoveShadow::audit;
    "job-manager.jobtap-shadow-query": plugin::QueryShadow => Value, Owner, Long;
    "job-manager.jobtap-promote":  plugin::Promote => plugin::Promoted, Owner, Short,
                                       audit = plugin::Promote::audit;
    "job-manager.jobtap-demote":   plugin::Demote => plugin::Demoted, Owner, Short,
                                       audit = plugin::Demote::audit;
    "job-manager.jobtap-query":    plugin::Query => Value, Owner, Long;
    "job-manager.jobtap-stats":    plugin::GetStats => plugin::Stats, Owner, Long;
    "job-manager.jobtap-schema":   plugin::GetSchema => plugin::Schema, Owner, Long;

    "job-list.list":               job_list::List => job_list::Jobs, Reader, Long;
    "job-list.list-id":            job_list::ListId => job_list::Job, Reader, Long, job = id;
    "job-list.array":              job_list::GetArray => job_list::Array, Reader, Long, job = id;
    "job-list.arrays":             job_list::ListArrays => job_list::Arrays, Reader, Long;
    "job-list.elements":           job_list::ListElements => job_list::Elements, Reader, Long, job = id;
    "job-list.job-stats":          job_list::GetStats => job_list::Stats, UnlessPrivate, Long;
    "job-list.waits":              job_list::GetWaits => job_list::Waits, Reader, Late;
    "job-list.changes":            job_list::Changes => job_list::Jobs, UnlessPrivate, Stream;
    "job-list.users":              job_list::GetUsers => job_list::Users, UnlessPrivate, Late;

    "job-info.lookup":             job_info::Lookup => job_info::Values, Reader, Long, job = id;
    "job-info.eventlog-watch":     job_info::Watch => job_info::Event, Reader, Late, job = id;

    "job-exec.proctable":          job_exec::Proctable => job_exec::Tasks, Reader, Short, job = id;
    "job-exec.override":           job_exec::Override => Done, Anyone, Short, job = jobid;
    "job-exec.resize":             job_exec::Resize => Done, Anyone, Short, job = id;
    "job-exec.stdin":              job_exec::Stdin => Done, Anyone, Short, job = id;

    "kvs.lookup":                  kvs::Lookup => kvs::Found, Reader, Long;
    "kvs.watch":                   kvs::Watch => kvs::Found, Reader, Stream;
    "kvs.list":                    kvs::List => kvs::Keys, Reader, Long;
    "kvs.dump":                    kvs::Dump => kvs::Dumped, Owner, Long;

    "allocation.list":             allocation::List => allocation::Allocations, Reader, Long;
    "allocation.release":          allocation::Release => Done, Owner, Short, audit = allocation::Release::audit;

    "resource.status":             resource::GetStatus => resource::Status, Reader, Long;
    "resource.journal":            resource::Journal => resource::Events, Owner, Stream;
    "resource.drain":              resource::Drain => Done, Owner, Short, audit = resource::Drain::audit;
    "resource.undrain":            resource::Undrain => Done, Owner, Short, audit = resource::Undrain::audit;
    "resource.offline":            resource::Offline => Done, Owner, Short, audit = resource::Offline::audit;
    "resource.online":             resource::Online => Done, Owner, Short, audit = resource::Online::audit;
    "resource.reload":             resource::Reload => Done, Owner, Short, audit = resource::Reload::audit;
    "resource.maintenance-add":    resource::AddMaintenance => resource::Added, Owner, Short,
                                       audit = resource::AddMaintenance::audit;
    "resource.maintenance-remove": resource::RemoveMaintenance => Done, Owner, Short,
                                       audit = resource::RemoveMaintenance::audit;
    "sched.resource-status":       resource::GetSchedStatus => resource::SchedStatus, Reader, Long;

    "config.get":                  config::Get => Value, Reader, Long;
    "config.load":                 config::Load => config::Loaded, Owner, Long + large, audit = config::Load::audit;
    "config.reload":               config::Reload => config::Loaded, Owner, Long, audit = config::Reload::audit;

    "attr.get":                    attr::Get => attr::Found, Reader, Short;
    "attr.list":                   attr::List => attr::Names, Reader, Short;
    "attr.set":                    attr::Set => Done, Owner, Short, audit = attr::Set::audit;
    "shutdown.start":              attr::Shutdown => attr::Ending, Owner, Short, audit = attr::Shutdown::audit;

    "rexec.announce":              exec::Announce => Done, Owner, Short, audit = exec::Announce::audit;
    "rexec.exec":                  exec::Exec => exec::Happened, Owner, Stream + large;
    "rexec.write":                 exec::Write => Done, Owner, Short;
    "rexec.kill":                  exec::Kill => Done, Owner, Short;

    "service.add":                 service::Add => service::ServiceRequest, Owner, Stream;
    "service.respond":             service::Respond => Done, Owner, Short + large;

    "log.append":                  log::Append => Done, Owner, Short;
    "log.dmesg":                   log::Dmesg => log::Shown, Owner, LongOrStream;
    "log.clear":                   log::Clear => Done, Owner, Short;
}

// Services of builtin plugins that the commands call, or whose job the manager must know to keep it hidden.
// The plugin decodes the request and responds. Services of other plugins have no row.
services! { each_plugin_service:
    "job-manager.housekeeping.list": plugin::HousekeepingList => plugin::Housekeeping, UnlessPrivate, Plugin;
    "job-manager.housekeeping-kill": plugin::HousekeepingKill => Done, Anyone, Plugin;
    "job-manager.history.get":       plugin::History => plugin::HistoryJobs, Anyone, Plugin;
    "job-manager.post-event.post":   plugin::PostEvent => Done, Anyone, Plugin;
    "job-manager.limits.why":        plugin::LimitsWhy => Value, Anyone, Plugin, job = 0;
    "job-manager.fairshare.why":     plugin::FairshareWhy => Value, Anyone, Plugin, job = 0;
}
