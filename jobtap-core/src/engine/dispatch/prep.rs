//! Slurm's prologs and epilogs: when their handlers are called, and what follows from their failure.
//!
//! | failure of | what the manager does |
//! |---|---|
//! | `slurm.prolog` | drains the node, ends the job, and submits it again, held |
//! | `slurm.prolog_slurmctld` | ends the job, and submits it again; held after some times |
//! | `slurm.epilog` | drains the node |
//! | `slurm.epilog_slurmctld` | writes to the log |
//!
//! A job of RFC 21 can't go back, so where Slurm queues a job again this manager submits an identical one, which
//! names the first. A job with the terminal of its user (`run`), and one that isn't to be requeued, only ends.

use serde_json::{Value, json};

use super::{frames, perilogs};
use crate::engine::agenda::{Frame, Purpose, Subject, Work};
use crate::engine::alloc::node_events;
use crate::engine::api::{Effect, Level, Resubmission};
use crate::engine::core::Core;
use crate::engine::jobs::PrepStage;
use crate::host::prep::{Node, PrepFailure};
use crate::host::{Perilog, PluginKey};
use crate::job::{JobId, Urgency};
use crate::jobspec::path;
use crate::resource::Idset;
use crate::slurm::JobDescriptor;
use crate::topic::TopicId;

/// Where a job that was submitted again has the id of the first, and how often that has happened.
const REQUEUED: &str = "attributes.system.slurm.requeue_of";
const RESTARTS: &str = "attributes.system.slurm.restart_cnt";

/// How often a job is submitted again before it is held: a controller prolog that always fails would go on for
/// ever.
const ATTEMPTS: u64 = 3;

/// Calls the next handlers that the start of a job has to wait for. Returns false when all were called.
pub(crate) fn begin_prologs(core: &mut Core, id: JobId) -> bool {
    let stack = &core.plugins.stack;
    let (controller, nodes) = (TopicId::SlurmPrologSlurmctld, TopicId::SlurmProlog);
    let Some(record) = core.jobs.get_mut(id) else { return false };
    let stage = record.execution.prep;
    if stage == PrepStage::None && stack.handles(controller) {
        record.execution.prep = PrepStage::Controller;
        call(core, id, &[controller]);
        return true;
    }
    if stage < PrepStage::Nodes && stack.handles(nodes) {
        record.execution.prep = PrepStage::Nodes;
        call(core, id, &[nodes]);
        return true;
    }
    false
}

/// Calls the handlers that the release of a job's resources has to wait for, once. Returns false when no
/// plugin handles them, or when they were called.
pub(crate) fn begin_epilogs(core: &mut Core, id: JobId) -> bool {
    let topics = [TopicId::SlurmEpilogSlurmctld, TopicId::SlurmEpilog];
    let handled = topics.iter().any(|topic| core.plugins.stack.handles(*topic));
    let Some(record) = core.jobs.get_mut(id) else { return false };
    if !handled
        || record.execution.prep == PrepStage::Epilogs
        || record.job.resources().is_none()
        || !record.allocation.is_allocated()
    {
        return false;
    }
    record.execution.prep = PrepStage::Epilogs;
    call(core, id, &topics);
    true
}

/// Calls the handlers of these topics, those of nodes for each node of the job. Then the job's action follows.
fn call(core: &mut Core, id: JobId, topics: &[TopicId]) {
    let nodes = nodes_of(core, id);
    core.agenda.push(Work::Act(id));
    // The agenda is a stack: what comes first is pushed last.
    for topic in topics.iter().rev() {
        let of_nodes = matches!(*topic, TopicId::SlurmProlog | TopicId::SlurmEpilog);
        let frame = || Frame::new(*topic, id, Purpose::Notify);
        match of_nodes {
            true => {
                for node in nodes.iter().rev() {
                    let subject = Subject::Node(node.clone());
                    frames::push(core, Frame { subject, ..frame() });
                }
            }
            false => frames::push(core, frame()),
        }
    }
}

fn nodes_of(core: &Core, id: JobId) -> Vec<Node> {
    let resources = core.job(id).and_then(|job| job.resources());
    let ranks = resources.into_iter().flat_map(|resources| resources.iter());
    ranks.map(|rank| Node { rank: rank.rank(), host: rank.host().unwrap_or_default() }).collect()
}

/// Handles the failure of a handler.
pub(crate) fn fail(core: &mut Core, plugin: PluginKey, failure: PrepFailure) {
    let PrepFailure { topic, job, description, node, note } = failure;
    let kind = match topic {
        TopicId::SlurmProlog | TopicId::SlurmPrologSlurmctld => Perilog::Prolog,
        _ => Perilog::Epilog,
    };
    if let Some(description) = &description
        && !perilogs::disown(&mut core.jobs, plugin, job, kind, description)
    {
        // The job has gone on without it.
        return;
    }
    let on = node.as_ref().map(|node| format!(" on {}", node.host)).unwrap_or_default();
    let name = core.plugins.name(plugin);
    core.log(Level::Error, format!("{name}: {}{on}: job {job}: {note}", topic.name()));
    if let Some(node) = &node {
        let what = if kind == Perilog::Prolog { "Prolog" } else { "Epilog" };
        let reason = format!("{what} error: {note}");
        node_events::drain_for_owner(core, &Idset::from(node.rank..=node.rank), &reason);
    }
    if kind == Perilog::Prolog {
        end_job(core, job, topic == TopicId::SlurmProlog, &format!("prolog{on}: {note}"));
    }
    if let Some(description) = &description {
        // After the exception: once its last prolog is finished the job would start.
        perilogs::finish(core, job, kind, description, 1, None);
    }
}

/// Ends a job whose prolog has failed, and submits it again if it can wait. `held` says that an administrator has
/// to look first.
fn end_job(core: &mut Core, id: JobId, held: bool, why: &str) {
    let Some(record) = core.jobs.get_mut(id) else { return };
    if std::mem::replace(&mut record.execution.prep, PrepStage::Failed) == PrepStage::Failed {
        // The prologs of several nodes have failed.
        return;
    }
    let mut document = record.job.jobspec().value().clone();
    let may_requeue = JobDescriptor::from_jobspec(&document).requeue != Some(0);
    if is_interactive(&document) {
        return core.raise_fatal(id, "prolog", &format!("{why}; job killed"));
    }
    if !may_requeue {
        return core.raise_fatal(id, "prolog", why);
    }
    let attempts = path::get(&document, RESTARTS).and_then(Value::as_u64).unwrap_or(0) + 1;
    let held = held || attempts > ATTEMPTS;
    for (path, value) in [(REQUEUED, json!(id.to_string())), (RESTARTS, attempts.into())] {
        if let Err(error) = path::set(&mut document, path, value) {
            let text = format!("{id}: can't be submitted again: {error}");
            core.log(Level::Error, text);
            return core.raise_fatal(id, "prolog", why);
        }
    }
    let job = &record.job;
    let resubmission = Resubmission {
        of: id,
        userid: job.userid(),
        urgency: if held { Urgency::HOLD } else { job.urgency() },
        flags: job.flags(),
        jobspec: document,
    };
    core.effects.after.push(Effect::Resubmit(Box::new(resubmission)));
    let held = if held { ", held" } else { "" };
    core.raise_fatal(id, "prolog", &format!("{why}; submitted again{held}"));
}

/// Whether the job's tasks read what its user types, as with `run`: the user waits for it, and for no other.
fn is_interactive(jobspec: &Value) -> bool {
    let stdin = "attributes.system.shell.options.input.stdin.type";
    path::get(jobspec, stdin).and_then(Value::as_str) == Some("service")
}

/// Whether this is one of these topics.
pub(crate) fn is_prep(topic: TopicId) -> bool {
    matches!(
        topic,
        TopicId::SlurmProlog
            | TopicId::SlurmPrologSlurmctld
            | TopicId::SlurmEpilog
            | TopicId::SlurmEpilogSlurmctld
    )
}
