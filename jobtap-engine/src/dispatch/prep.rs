//! Slurm's prologs and epilogs: when their handlers are called, and what follows from their failure.
//!
//! | failure of | what the manager does |
//! |---|---|
//! | `slurm.prolog` | drains the node, ends the job, and submits it again, held |
//! | `slurm.prolog_slurmctld` | ends the job, and submits it again; held after several attempts |
//! | `slurm.epilog` | drains the node |
//! | `slurm.epilog_slurmctld` | writes to the log |
//!
//! A job that its user's terminal is attached to (`run`), or that must not be requeued, only ends.

use super::perilogs::{self, PerilogEnd};
use super::pushing;
use super::resubmission::{self, allows_requeue, attempts, is_interactive};
use crate::agenda::{Agenda, Frame, Purpose, Subject, Work};
use crate::alloc::node_events;
use crate::api::Level;
use crate::core::Core;
use crate::host::PluginKey;
use crate::host::PrepFailure;
use crate::job::JobId;
use crate::jobs::{Jobs, PrepStage};
use crate::plugin::Node;
use crate::plugin::Perilog;
use crate::plugins::Plugins;
use crate::resource::Idset;
use crate::submissions::{Failed, Requeue, Submissions};
use crate::topic::TopicId;
use crate::turn::Turn;

/// The number of times that a job is submitted again before it is held: with a controller prolog that always fails,
/// this would go on forever.
const ATTEMPTS: u64 = 3;

/// Calls the next handlers that the start of a job has to wait for. Returns false when all were called.
pub(crate) fn begin_prologs(
    agenda: &mut Agenda,
    jobs: &mut Jobs,
    plugins: &Plugins,
    id: JobId,
) -> bool {
    let (controller, nodes) = (TopicId::SlurmPrologSlurmctld, TopicId::SlurmProlog);
    if jobs.get(id).is_some_and(|record| record.execution.prep == PrepStage::Failed) {
        // The job ends instead of starting, whatever plugins are loaded by then.
        return true;
    }
    let handles = |topic| plugins.stack.handles(topic);
    let (has_controller, has_nodes) = (handles(controller), handles(nodes));
    if !has_controller && !has_nodes {
        return false;
    }
    let Some(record) = jobs.get_mut(id) else { return false };
    let stage = record.execution.prep;
    if stage == PrepStage::None && has_controller {
        record.execution.prep = PrepStage::Controller;
        call(agenda, jobs, plugins, id, &[controller]);
        return true;
    }
    if stage < PrepStage::Nodes && has_nodes {
        record.execution.prep = PrepStage::Nodes;
        call(agenda, jobs, plugins, id, &[nodes]);
        return true;
    }
    false
}

/// Calls the handlers that the release of a job's resources has to wait for, once. Returns false when no
/// plugin handles them, or when they were called.
pub(crate) fn begin_epilogs(
    agenda: &mut Agenda,
    jobs: &mut Jobs,
    plugins: &Plugins,
    id: JobId,
) -> bool {
    let topics = [TopicId::SlurmEpilogSlurmctld, TopicId::SlurmEpilog];
    if !topics.iter().any(|topic| plugins.stack.handles(*topic)) {
        return false;
    }
    let Some(record) = jobs.get_mut(id) else { return false };
    if record.execution.prep == PrepStage::Epilogs
        || record.job.resources().is_none()
        || !record.allocation.is_allocated()
    {
        return false;
    }
    record.execution.prep = PrepStage::Epilogs;
    call(agenda, jobs, plugins, id, &topics);
    true
}

/// Calls the handlers of these topics, for topics about a node once for each node of the job. Then the job's action
/// follows.
fn call(agenda: &mut Agenda, jobs: &Jobs, plugins: &Plugins, id: JobId, topics: &[TopicId]) {
    let nodes = nodes_of(jobs, id);
    agenda.push(Work::Act(id));
    // The agenda is a stack: what comes first is pushed last.
    for topic in topics.iter().rev() {
        let of_nodes = matches!(*topic, TopicId::SlurmProlog | TopicId::SlurmEpilog);
        let frame = || Frame::new(*topic, id, Purpose::Notify);
        match of_nodes {
            true => {
                for node in nodes.iter().rev() {
                    let subject = Subject::Node(node.clone());
                    pushing::push(agenda, plugins, Frame { subject, ..frame() });
                }
            }
            false => pushing::push(agenda, plugins, frame()),
        }
    }
}

fn nodes_of(jobs: &Jobs, id: JobId) -> Vec<Node> {
    let resources = jobs.job(id).and_then(|job| job.resources());
    let ranks = resources.into_iter().flat_map(|resources| resources.iter());
    ranks.map(|rank| Node { rank: rank.rank(), host: rank.host().unwrap_or_default() }).collect()
}

/// Handles the failure of a handler.
pub(crate) fn fail(core: &mut Core, plugin: PluginKey, failure: PrepFailure) {
    let Core { turn, jobs, plugins, submissions, alloc, timers, .. } = core;
    let PrepFailure { topic, job, description, node, note } = failure;
    let kind = match topic {
        TopicId::SlurmProlog | TopicId::SlurmPrologSlurmctld => Perilog::Prolog,
        _ => Perilog::Epilog,
    };
    if let Some(description) = &description
        && !perilogs::disown(jobs, plugin, job, kind, description)
    {
        // The job no longer waits for this prolog or epilog.
        return;
    }
    let on = node.as_ref().map(|node| format!(" on {}", node.host)).unwrap_or_default();
    let name = plugins.name(plugin);
    turn.effects.log(Level::Error, format!("{name}: {}{on}: job {job}: {note}", topic.name()));
    if let Some(node) = &node {
        let what = if kind == Perilog::Prolog { "Prolog" } else { "Epilog" };
        let reason = format!("{what} error: {note}");
        let ranks = Idset::from(node.rank..=node.rank);
        node_events::drain_for_owner(turn, alloc, timers, &ranks, &reason);
    }
    if kind == Perilog::Prolog {
        let (why, held) = (format!("prolog{on}: {note}"), topic == TopicId::SlurmProlog);
        let failed = Failed { kind: "prolog", why, held, description };
        return end_job(turn, jobs, submissions, job, failed);
    }
    if let Some(description) = &description {
        perilogs::finish(turn, jobs, job, PerilogEnd::failed(kind, description, None));
    }
}

/// Ends a job whose prolog has failed, and submits it again unless it is interactive, must not be requeued, or was
/// requeued already.
fn end_job(
    turn: &mut Turn,
    jobs: &mut Jobs,
    submissions: &mut Submissions,
    id: JobId,
    mut failed: Failed,
) {
    let Some(record) = jobs.get_mut(id) else { return };
    if std::mem::replace(&mut record.execution.prep, PrepStage::Failed) == PrepStage::Failed {
        // The prologs of several nodes have failed.
        if let Some(description) = &failed.description {
            resubmission::finish_prolog(turn, jobs, id, description);
        }
        return;
    }
    failed.held |= attempts(record) > ATTEMPTS;
    if is_interactive(record.job.jobspec().value()) {
        return resubmission::end(turn, jobs, id, failed, "; job killed");
    }
    let may_requeue = allows_requeue(record);
    let waits = matches!(submissions.requeues.get(&id), Some(Requeue::Asked(_)));
    if !may_requeue || (record.execution.resubmitted && !waits) {
        return resubmission::end(turn, jobs, id, failed, "");
    }
    resubmission::after_failure(turn, jobs, submissions, id, failed);
}

/// Whether a topic is one of Slurm's prologs and epilogs.
pub(crate) fn is_prep(topic: TopicId) -> bool {
    matches!(
        topic,
        TopicId::SlurmProlog
            | TopicId::SlurmPrologSlurmctld
            | TopicId::SlurmEpilog
            | TopicId::SlurmEpilogSlurmctld
    )
}
