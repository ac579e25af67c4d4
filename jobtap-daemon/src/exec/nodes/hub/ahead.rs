//! Jobs that were handed to nodes ahead of their turn.
//!
//! A node's shepherd begins them by itself and says so; one that hears from a manager anew has forgotten those that it
//! hasn't begun. So a node that was away is asked nothing: what its shepherd holds when it is back has begun, and the rest
//! has not. If it doesn't come back, nobody knows, and all of them end with the node.

use std::collections::BTreeMap;

use jobtap_core::engine::parts::Begin;
use jobtap_core::engine::{ExecEvent, RaisedException};
use jobtap_core::job::JobId;

use super::super::wire::{ToNode, node_line, to_shepherd};
use super::Hub;
use crate::exec::local::OpenJob;
use crate::exec::protocol::{ShepherdRequest, encode};
use crate::exec::{HeldJob, JobCommand, NodeTasks, StartJob};

/// The jobs that nodes have not begun, as far as is known, each with its node.
#[derive(Default)]
pub(super) struct Ahead(BTreeMap<JobId, (u32, Box<StartJob>)>);

impl Ahead {
    /// Takes the jobs of a node.
    fn take_of(&mut self, rank: u32) -> impl Iterator<Item = (JobId, Box<StartJob>)> + use<> {
        let of_node = self.0.extract_if(.., |_, (own, _)| *own == rank);
        let jobs: Vec<_> = of_node.map(|(id, (_, job))| (id, job)).collect();
        jobs.into_iter()
    }
}

impl Hub {
    /// Hands a job to its node ahead of its turn. A node that is away doesn't get it, and the manager asks for it again.
    pub(super) fn hand_over(&mut self, mut job: StartJob) {
        let (id, &[NodeTasks { rank, .. }]) = (job.id, &*job.nodes) else { return };
        let Some(node) = self.nodes.get(&rank).filter(|node| node.is_ready()) else { return };
        node.name_manager(job.env.iter_mut().map(|(_, value)| value), &self.own.uri);
        let request = ShepherdRequest::Start(Box::new(job));
        let (Ok(line), ShepherdRequest::Start(job)) = (encode(&request), request) else { return };
        node.send(node_line(&ToNode::FollowOnceBegun { id }));
        node.send(to_shepherd(&line));
        self.ahead.0.insert(id, (rank, job));
    }

    /// Asks a node for a job. One that is away answers by what it holds when it is back.
    pub(super) fn recall(&mut self, id: JobId) {
        match self.ahead.0.get(&id).and_then(|(rank, _)| self.nodes.get(rank)) {
            Some(node) if node.is_ready() => {
                node.request(&ShepherdRequest::Job(JobCommand::Recall { id }));
            }
            Some(_) => {}
            // It was never sent, or the answer is on its way.
            None if self.parts.ranks(id).next().is_none() => {
                self.reports.push(ExecEvent::Recalled { id });
            }
            None => self.reports.push(ExecEvent::Begun { id }),
        }
    }

    /// Handles that a node has begun a job by itself.
    pub(super) fn begun(&mut self, rank: u32, id: JobId) {
        // It says so twice if it was asked for the job meanwhile.
        if let Some((_, job)) = self.ahead.0.remove(&id) {
            self.note_begun(rank, &job);
        }
    }

    fn note_begun(&mut self, rank: u32, job: &StartJob) {
        let id = job.id;
        self.parts.begin(id, [rank], Begin::Start);
        self.inputs.begin(job);
        if let Some(node) = self.nodes.get_mut(&rank) {
            node.open.insert(id, OpenJob::begun(0));
        }
        self.reports.push(ExecEvent::Begun { id });
    }

    /// Handles that a node has given a job back.
    pub(super) fn recalled(&mut self, rank: u32, id: JobId) {
        if self.ahead.0.remove(&id).is_some() {
            if let Some(node) = self.nodes.get(&rank) {
                node.send(node_line(&ToNode::Unfollow { id }));
            }
            self.reports.push(ExecEvent::Recalled { id });
        }
    }

    /// Handles what the shepherd of a node holds that was away.
    pub(super) fn settle_ahead(&mut self, rank: u32, held: &[HeldJob]) {
        for (id, job) in self.ahead.take_of(rank) {
            match held.iter().any(|held| held.id == id) {
                true => self.note_begun(rank, &job),
                false => self.reports.push(ExecEvent::Recalled { id }),
            }
        }
    }

    /// Handles the loss of a node: it may have begun each of them.
    pub(super) fn lose_ahead(&mut self, rank: u32) {
        for (id, _) in self.ahead.take_of(rank) {
            let note = format!("rank {rank} is lost: it may have begun the job");
            let exception = RaisedException::new("node-failure", 0, note);
            self.reports.push(ExecEvent::Begun { id });
            self.reports.push(ExecEvent::Exception { id, exception });
            self.reports.push(ExecEvent::Released { id });
        }
    }
}
