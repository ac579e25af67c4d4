//! The lines of jobs that were handed to the executor ahead of their turn: who waits behind whom.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use rustc_hash::FxHashMap;

use crate::api::ExecEvent;
use crate::job::{JobId, Timestamp};
use crate::kept::Place;
use crate::resource::ResourceSet;

/// All lines.
#[derive(Debug, Default)]
pub(super) struct Lines {
    /// By the job whose resources the jobs of the line get: their holder.
    lines: FxHashMap<JobId, Line>,
    /// The holder of the line that each job is in.
    holders: FxHashMap<JobId, JobId>,
    /// The places of the jobs that aren't begun, by the indices of their alloc queues.
    places: BTreeSet<(usize, Place)>,
}

/// The jobs behind one holder.
#[derive(Debug)]
pub(super) struct Line {
    members: VecDeque<Member>,
    /// Since when the holder has the resources.
    pub(super) since: Timestamp,
    /// What the holder has freed, until the first job of the line gets it at once.
    pub(super) freed: Option<ResourceSet>,
}

impl Line {
    /// Whether the executor has begun the first job.
    pub(super) fn has_begun(&self) -> bool {
        self.members.front().is_some_and(|first| matches!(first.stage, Stage::Begun(_)))
    }
}

/// A job in a line.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) id: JobId,
    /// Its alloc queue and its place there, until it is begun.
    place: Option<(usize, Place)>,
    /// Whether the executor has begun it for an earlier manager.
    pub(super) is_restored: bool,
    pub(super) stage: Stage,
}

/// What is known about a job in a line.
#[derive(Debug)]
pub(super) enum Stage {
    /// It waits for its turn.
    Waiting,
    /// The executor was asked to give it back.
    Recalled,
    /// The executor has begun it, and has reported these events, which are handled when the job has its resources.
    Begun(Vec<ExecEvent>),
}

impl Lines {
    /// Whether no job is in a line.
    pub(super) fn are_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a job is in a line.
    pub(super) fn have(&self, id: JobId) -> bool {
        self.holders.contains_key(&id)
    }

    /// The line behind a holder.
    pub(super) fn behind(&mut self, holder: JobId) -> Option<&mut Line> {
        self.lines.get_mut(&holder)
    }

    /// Whether the first job behind a holder isn't begun.
    pub(super) fn is_undecided(&self, holder: JobId) -> bool {
        self.lines.get(&holder).is_some_and(|line| !line.has_begun())
    }

    /// The number of jobs behind a holder, and the last of them, or the holder itself.
    pub(super) fn end_of(&self, holder: JobId) -> (usize, JobId) {
        let members = self.lines.get(&holder).map(|line| &line.members);
        let last = members.and_then(|members| members.back()).map_or(holder, |last| last.id);
        (members.map_or(0, VecDeque::len), last)
    }

    /// The job directly before one in its line.
    pub(super) fn before(&self, id: JobId) -> Option<JobId> {
        let holder = *self.holders.get(&id)?;
        let members = &self.lines.get(&holder)?.members;
        let at = members.iter().position(|member| member.id == id)?;
        Some(at.checked_sub(1).and_then(|before| members.get(before)).map_or(holder, |job| job.id))
    }

    /// Puts a job at the end of the line behind `holder`.
    pub(super) fn join(&mut self, now: Timestamp, holder: JobId, id: JobId, place: (usize, Place)) {
        self.places.insert(place);
        let stage = Stage::Waiting;
        self.push(now, holder, Member { id, place: Some(place), is_restored: false, stage });
    }

    /// Notes a job that the executor has begun after `before` for an earlier manager. Returns false if `before` neither
    /// is in a line nor `holds` resources.
    pub(super) fn restore(
        &mut self,
        now: Timestamp,
        before: JobId,
        id: JobId,
        holds: impl Fn(JobId) -> bool,
    ) -> bool {
        let holder = self.holders.get(&before).copied();
        let Some(holder) = holder.or_else(|| holds(before).then_some(before)) else { return false };
        let stage = Stage::Begun(Vec::new());
        self.push(now, holder, Member { id, place: None, is_restored: true, stage });
        true
    }

    fn push(&mut self, now: Timestamp, holder: JobId, member: Member) {
        self.holders.insert(member.id, holder);
        let new = || Line { members: VecDeque::new(), since: now, freed: None };
        self.lines.entry(holder).or_insert_with(new).members.push_back(member);
    }

    /// Notes that the executor has begun a job. Returns the holder of its line.
    pub(super) fn begin(&mut self, id: JobId) -> Option<JobId> {
        let member = self.get_mut(id)?;
        if !matches!(member.stage, Stage::Begun(_)) {
            member.stage = Stage::Begun(Vec::new());
            if let Some(place) = member.place.take() {
                self.places.remove(&place);
            }
        }
        self.holder(id)
    }

    /// A job of a line.
    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Member> {
        let line = self.lines.get_mut(self.holders.get(&id)?)?;
        line.members.iter_mut().find(|member| member.id == id)
    }

    /// Takes a job out of its line.
    pub(super) fn leave(&mut self, id: JobId) {
        let Some(holder) = self.holders.remove(&id) else { return };
        let Some(line) = self.lines.get_mut(&holder) else { return };
        let at = line.members.iter().position(|member| member.id == id);
        if let Some(place) = at.and_then(|at| line.members.remove(at)).and_then(|job| job.place) {
            self.places.remove(&place);
        }
        if line.members.is_empty() {
            self.lines.remove(&holder);
        }
    }

    /// Takes the first job of a line if it was begun and the holder has freed its resources. The job becomes the holder
    /// for the others. Returns its events and the resources.
    pub(super) fn take_begun(
        &mut self,
        now: Timestamp,
        holder: JobId,
    ) -> Option<(Member, ResourceSet)> {
        let freed = self.lines.get_mut(&holder).filter(|line| line.has_begun())?.freed.take()?;
        let mut line = self.lines.remove(&holder)?;
        let first = line.members.pop_front()?;
        self.holders.remove(&first.id);
        if !line.members.is_empty() {
            line.members.iter().for_each(|job| {
                self.holders.insert(job.id, first.id);
            });
            line.since = now;
            self.lines.insert(first.id, line);
        }
        Some((first, freed))
    }

    /// The holder of a job's line.
    pub(super) fn holder(&self, id: JobId) -> Option<JobId> {
        self.holders.get(&id).copied()
    }

    /// The last job of each alloc queue that waits.
    pub(super) fn last_of_queues(&self) -> impl Iterator<Item = (usize, Place)> {
        let first: Place = (Reverse(u32::MAX), JobId::new(0));
        let mut below = usize::MAX;
        std::iter::from_fn(move || {
            let last = self.places.range(..(below, first)).next_back().copied()?;
            below = last.0;
            Some(last)
        })
    }

    /// The jobs behind a holder that wait, the last one first.
    pub(super) fn waiting_behind(&self, holder: JobId) -> Vec<JobId> {
        let members =
            self.lines.get(&holder).into_iter().flat_map(|line| line.members.iter().rev());
        let waiting = members.filter(|member| matches!(member.stage, Stage::Waiting));
        waiting.map(|member| member.id).collect()
    }

    /// The jobs in lines that fulfill a condition and wait.
    pub(super) fn waiting(&self, which: impl Fn(&Line, &Member) -> bool) -> Vec<JobId> {
        let members = self.lines.values().flat_map(|line| {
            // The last ones first, so that none of them begins in the place of one that is given back.
            line.members.iter().rev().map(move |member| (line, member))
        });
        let waits = |(_, member): &(&Line, &Member)| matches!(member.stage, Stage::Waiting);
        let members = members.filter(waits).filter(|(line, member)| which(line, member));
        members.map(|(_, member)| member.id).collect()
    }
}

impl Member {
    /// Its alloc queue and its place there, unless it is begun.
    pub(super) fn place(&self) -> Option<(usize, Place)> {
        self.place
    }
}
