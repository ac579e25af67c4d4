//! What clients ask for, family by family.
//!
//! | file | requests |
//! |---|---|
//! | `submit` | a submission, from its checks through the gates of the plugins |
//! | `slurm` | submissions, updates and urgencies that plugins see in Slurm's terms first |
//! | `access` | which users may use a queue |
//! | `update` | a user's change to a jobspec |
//! | `arrays` | what clients do with arrays, and read about them |
//! | `jobs` | exceptions, signals, urgency and memos |
//! | `waiters` | requests that wait until jobs are inactive |
//! | `purge` | the purge of inactive jobs |
//! | `queues`, `nodes` | what administrators do with queues and nodes |
//! | `plugins`, `services` | what administrators do with plugins; requests for plugin services |
//! | `listing`, `selection`, `why`, `waits_for` | what clients read about jobs |

mod access;
pub(super) mod arrays;
mod jobs;
pub(super) mod listing;
pub(super) mod nodes;
pub(super) mod plugins;
pub(super) mod purge;
pub(super) mod queues;
mod requeue;
mod selection;
mod services;
pub(super) mod slurm;
pub(super) mod submit;
pub(super) mod update;
mod waiters;
pub(super) mod waits_for;
pub(super) mod why;

use serde_json::json;

pub(super) use self::jobs::post_to_next;

use super::allocations::release;
use super::api::{Cred, ReplyTo, Request, RequestError};
use super::core::Core;
use super::dispatch::shadow;
use super::exec::simulated;

/// Handles a request. The response is sent now, or as soon as it can be.
pub(super) fn handle(core: &mut Core, reply: ReplyTo, cred: Cred, request: Request) {
    let Core { turn, jobs, timers, waiters, arrays, .. } = &mut *core;
    let result = match request {
        // Their own parts respond to these, since they may have to wait.
        Request::Submit(submission) => return submit::submit(core, reply, cred, *submission),
        Request::Resubmit { of, submission } => {
            return submit::resubmit(core, reply, cred, of, submission);
        }
        Request::Requeue { id, hold } => return requeue::requeue(core, reply, cred, id, hold),
        Request::Update { id, updates } => return update::update(core, reply, cred, id, updates),
        Request::Wait { id } => {
            return waiters::wait(&mut turn.effects, jobs, waiters, reply, cred, id);
        }
        Request::Drain => {
            return waiters::drain(&mut turn.effects, waiters, reply, cred);
        }
        Request::Idle => {
            return waiters::idle(&mut turn.effects, waiters, reply, cred);
        }
        Request::Service { topic, payload, streaming } => {
            return services::request(core, reply, cred, &topic, payload, streaming);
        }
        Request::Nodes(request) => return nodes::handle(core, reply, cred, request),
        Request::ReleaseAllocation { id } => owner_only(cred).and_then(|()| {
            release::release(core, id, "its release was asked for").map(|()| json!({}))
        }),
        Request::WaitArray { id } => return arrays::wait(core, reply, cred, id),
        Request::RaiseElements { id, indexes, exception } => {
            arrays::raise(core, cred, id, Some(&indexes), &exception)
        }
        Request::Raise { id, exception } if arrays.get(id).is_some() => {
            arrays::raise(core, cred, id, None, &exception)
        }
        Request::Raise { id, exception } => {
            jobs::raise(turn, jobs, cred, id, &exception).map(|()| json!({}))
        }
        Request::RaiseAll { dry_run, userid, states, exception } => {
            arrays::raise_all(core, cred, dry_run, userid, states, &exception)
        }
        Request::Kill { id, signum, reach } if arrays.get(id).is_some() => {
            arrays::kill(turn, jobs, arrays, cred, id, signum, reach)
        }
        Request::Kill { id, signum, reach } => {
            jobs::kill(&mut turn.effects, jobs, cred, id, signum, reach).map(|()| json!({}))
        }
        Request::KillAll { dry_run, userid, signum } => {
            jobs::kill_all(&mut turn.effects, jobs, cred, dry_run, userid, signum)
        }
        Request::Override { id, event, status } => {
            simulated::override_job(turn, jobs, timers, cred, id, &event, status)
                .map(|()| json!({}))
        }
        Request::Memo { id, volatile, memo } => {
            jobs::memo(turn, jobs, cred, id, volatile, memo).map(|()| json!({}))
        }
        Request::Urgency { id, urgency } if arrays.get(id).is_some() => {
            return arrays::set_urgency(core, reply, cred, id, urgency);
        }
        Request::Urgency { id, urgency } => {
            return jobs::set_urgency(core, reply, cred, id, urgency);
        }
        Request::QueueEnable { target, enable, reason } => {
            queues::enable(core, cred, &target, enable, reason.as_deref())
        }
        Request::QueueStart { target, start, reason, nocheckpoint } => {
            queues::start(core, cred, &target, start, reason.as_deref(), nocheckpoint)
        }
        Request::PurgeId { id, force } => purge::purge_one(core, cred, id, force),
        Request::Purge { age_limit, num_limit, batch, force } => {
            purge::purge_many(core, cred, age_limit, num_limit, batch, force)
        }
        Request::Plugins { remove, load, conf } => owner_only(cred).and_then(|()| {
            plugins::remove_and_load(core, remove.as_deref(), load.as_deref(), conf)
        }),
        Request::PluginReload { name, conf } => {
            owner_only(cred).and_then(|()| plugins::reload(core, &name, conf))
        }
        Request::PluginQuery { name } => {
            owner_only(cred).and_then(|()| plugins::query(core, &name))
        }
        Request::Shadow(request) => {
            owner_only(cred).and_then(|()| shadow::manage::handle(core, request))
        }
        Request::Configure { config } => {
            let configured = owner_only(cred).and_then(|()| plugins::configure(core, config));
            configured.map(|waiting| json!(waiting))
        }
    };
    core.turn.effects.reply(reply, result);
}

/// Refuses a request that only the owner of the instance may make.
fn owner_only(cred: Cred) -> Result<(), RequestError> {
    match cred.owner {
        true => Ok(()),
        false => Err(RequestError::owner_only()),
    }
}
