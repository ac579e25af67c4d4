//! Jobs across nodes. Each node runs its part of a job as if the part were the whole; this state machine makes one job
//! of what the nodes report about their parts.
//!
//! | report about the job | when |
//! |---|---|
//! | an entry of the exec eventlog | when the first node has one: its part stands for the job, as Flux's leader shell does |
//! | started | when all parts have started |
//! | an exception | when any part raises one |
//! | finished, with the highest status | when no part has tasks any more, if all had started |
//! | a rank is released | when its part has nothing left and the job has finished |
//! | released | when no part has anything left |
//!
//! A node that is lost ends its parts, and the job goes on to its end on the nodes that are left. The exception of the job
//! comes from the engine, which the executor tells that the node is offline.
//!
//! No I/O and no clock: the executor says what has happened, and decides when a node counts as lost.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use crate::api::{ExecEvent, RaisedException};
use crate::job::JobId;
use crate::resource::Idset;

/// The wait status of a part whose node is lost: that of a process that SIGKILL has ended, which is what a job sees of
/// the end of its node.
const LOST: i32 = (128 + 9) << 8;

/// The jobs, and how far each of their parts has come.
#[derive(Debug, Default)]
pub struct Parts {
    jobs: BTreeMap<JobId, Spread>,
}

/// A job, from the request to start it until its end is acknowledged.
#[derive(Debug)]
struct Spread {
    /// In the order of the job's nodes. There is at least one.
    parts: Vec<Part>,
    reported: Reported,
    attach: Attach,
    /// The highest wait status of the parts that have one.
    status: Option<i32>,
}

/// What one node does for a job.
#[derive(Debug)]
struct Part {
    rank: u32,
    stage: Stage,
    /// Whether the node still has to report what the part did while no manager ran.
    is_behind: bool,
}

/// How far a part has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    /// Its start was requested.
    Requested,
    /// Its tasks were started.
    Started,
    /// Its tasks have exited.
    Finished,
    /// It has nothing left on its node.
    Released,
    /// It has nothing left, and has never started.
    Failed,
}

impl Part {
    fn is_over(&self) -> bool {
        matches!(self.stage, Stage::Released | Stage::Failed)
    }
}

/// The last of its milestones that was reported about a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Reported {
    /// None.
    Nothing,
    /// It has started.
    Started,
    /// It has finished.
    Finished,
}

/// Whether a job is found again after a restart of the manager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Attach {
    /// No: this manager has started it.
    Unneeded,
    /// No node has answered yet.
    Awaited,
    /// A node has found its part.
    Reported,
}

/// How the parts of a job begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Begin {
    /// They are started. Those that their nodes know from before a restart of the manager report again what they did.
    Start,
    /// They had started before the manager was restarted, and are found again.
    Reattach,
}

impl Parts {
    /// Notes that parts of a job were requested on these nodes. The first one is the leader.
    pub fn begin(&mut self, id: JobId, ranks: impl IntoIterator<Item = u32>, begin: Begin) {
        let (stage, reported, attach) = match begin {
            Begin::Start => (Stage::Requested, Reported::Nothing, Attach::Unneeded),
            Begin::Reattach => (Stage::Started, Reported::Started, Attach::Awaited),
        };
        let is_behind = begin == Begin::Reattach;
        let parts: Vec<Part> =
            ranks.into_iter().map(|rank| Part { rank, stage, is_behind }).collect();
        if !parts.is_empty() {
            self.jobs.insert(id, Spread { parts, reported, attach, status: None });
        }
    }

    /// The nodes that have a part of a job, or had one until its end.
    pub fn ranks(&self, id: JobId) -> impl Iterator<Item = u32> {
        self.jobs.get(&id).into_iter().flat_map(|job| job.parts.iter().map(|part| part.rank))
    }

    /// The jobs that still have something on a node.
    pub fn jobs_on(&self, rank: u32) -> impl Iterator<Item = JobId> {
        let is_there = move |part: &Part| part.rank == rank && !part.is_over();
        let jobs = self.jobs.iter().filter(move |(_, job)| job.parts.iter().any(is_there));
        jobs.map(|(id, _)| *id)
    }

    /// Forgets a job whose end is acknowledged. Returns the nodes that had a part of it.
    pub fn forget(&mut self, id: JobId) -> Vec<u32> {
        let job = self.jobs.remove(&id);
        job.into_iter().flat_map(|job| job.parts).map(|part| part.rank).collect()
    }

    /// Handles what a node reports about its part of a job. Returns the reports about the job.
    pub fn report(&mut self, rank: u32, event: ExecEvent) -> Vec<ExecEvent> {
        let id = event.id();
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        let is_alone = job.parts.len() == 1;
        let own = |part: &Part| part.rank == rank && !part.is_over();
        let Some(place) = job.parts.iter().position(own) else { return Vec::new() };
        let is_leader = place == 0;
        let Some(part) = job.parts.get_mut(place) else { return Vec::new() };
        match event {
            ExecEvent::Log { .. } | ExecEvent::Output { .. } => match is_leader {
                true => vec![event],
                false => Vec::new(),
            },
            ExecEvent::Exception { .. } | ExecEvent::Unkillable { .. } => vec![event],
            // The other nodes of the job are as good as before.
            ExecEvent::Lost { note, reason, .. } if !is_alone => {
                let exception = RaisedException::new("exec", 0, note);
                let ranks = Idset::from(rank..=rank);
                vec![
                    ExecEvent::Exception { id, exception },
                    ExecEvent::Unkillable { id, ranks, reason },
                ]
            }
            ExecEvent::Lost { .. } => vec![event],
            // Nothing is handed to several nodes ahead of its turn.
            ExecEvent::Begun { .. } | ExecEvent::Recalled { .. } => Vec::new(),
            ExecEvent::Started { .. } => {
                part.stage = part.stage.max(Stage::Started);
                job.progress(id)
            }
            ExecEvent::Reattached { .. } => match job.attach {
                Attach::Awaited => {
                    job.attach = Attach::Reported;
                    vec![event]
                }
                Attach::Unneeded | Attach::Reported => Vec::new(),
            },
            ExecEvent::CaughtUp { .. } => {
                part.is_behind = false;
                job.caught_up(id)
            }
            ExecEvent::Finished { status, .. } => {
                part.stage = Stage::Finished;
                job.status = job.status.max(Some(status));
                job.progress(id)
            }
            // A part isn't released in parts.
            ExecEvent::PartlyReleased { .. } => Vec::new(),
            ExecEvent::Released { .. } => job.release(id, place),
        }
    }

    /// Handles the loss of a node. Returns the reports about its jobs.
    pub fn lose(&mut self, rank: u32) -> Vec<ExecEvent> {
        let ids: Vec<JobId> = self.jobs_on(rank).collect();
        ids.into_iter().flat_map(|id| self.lose_part(rank, id)).collect()
    }

    /// Handles that the node of one part is lost.
    pub fn lose_part(&mut self, rank: u32, id: JobId) -> Vec<ExecEvent> {
        let Some(job) = self.jobs.get_mut(&id) else { return Vec::new() };
        let Some(place) = job.parts.iter().position(|part| part.rank == rank) else {
            return Vec::new();
        };
        if job.parts.get(place).is_some_and(|part| part.stage == Stage::Started) {
            job.status = job.status.max(Some(LOST));
        }
        job.release(id, place)
    }
}

impl Spread {
    fn all(&self, has: impl Fn(&Part) -> bool) -> bool {
        self.parts.iter().all(has)
    }

    /// Handles that a part has nothing left on its node.
    fn release(&mut self, id: JobId, place: usize) -> Vec<ExecEvent> {
        let had_finished = self.reported == Reported::Finished;
        let Some(part) = self.parts.get_mut(place) else { return Vec::new() };
        part.stage = match part.stage {
            Stage::Requested => Stage::Failed,
            _ => Stage::Released,
        };
        let (rank, was_behind) = (part.rank, std::mem::take(&mut part.is_behind));
        let mut reports = self.progress(id);
        if was_behind {
            reports.extend(self.caught_up(id));
        }
        if self.all(Part::is_over) {
            reports.push(ExecEvent::Released { id });
        } else if had_finished {
            reports.push(ExecEvent::PartlyReleased { id, ranks: Idset::from(rank..=rank) });
        }
        reports
    }

    /// Reports the milestones that all parts have reached.
    fn progress(&mut self, id: JobId) -> Vec<ExecEvent> {
        let mut reports = Vec::new();
        let has_started =
            |part: &Part| part.stage != Stage::Requested && part.stage != Stage::Failed;
        if self.reported == Reported::Nothing && self.all(has_started) {
            self.reported = Reported::Started;
            reports.push(ExecEvent::Started { id });
        }
        if self.reported == Reported::Started
            && self.all(|part| part.stage >= Stage::Finished)
            && let Some(status) = self.status
        {
            self.reported = Reported::Finished;
            reports.push(ExecEvent::Finished { id, status });
            let over = self.parts.iter().filter(|part| part.is_over());
            let ranks: Idset = over.map(|part| part.rank).collect();
            if !ranks.is_empty() && ranks.len() < self.parts.len() {
                reports.push(ExecEvent::PartlyReleased { id, ranks });
            }
        }
        reports
    }

    /// Reports, once, that all parts have reported what they did while no manager ran.
    fn caught_up(&self, id: JobId) -> Vec<ExecEvent> {
        match self.all(|part| !part.is_behind) {
            true => vec![ExecEvent::CaughtUp { id }],
            false => Vec::new(),
        }
    }
}
