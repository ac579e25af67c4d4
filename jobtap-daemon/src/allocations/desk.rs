//! The loop that deals with one outer job manager: it orders allocations there, watches them, and cancels them.
//!
//! The outer manager is asked with one command for all allocations, at most once a second. It may be away for any time:
//! then it is asked again, and nothing is ordered twice, since an order whose outcome isn't known is looked for by its
//! name first.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jobtap_core::allocation::Table;
use jobtap_core::engine::{AllocationEvent, AllocationId, Level};
use jobtap_core::job::Timestamp;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender};
use tokio::time::{Instant, sleep_until};

use super::outer::{Found, Order, OrderError, OuterManager, OuterState, Wanted};
use super::program::ProgramError;
use crate::clock::now;
use crate::exec::nodes::{Guests, Notice};

/// The interval at which the outer manager is asked while something is about to change there.
const SOON: Duration = Duration::from_secs(1);

/// The interval at which it is asked while all allocations run.
const LATER: Duration = Duration::from_secs(10);

/// How long the end of an allocation is looked for that one of its nodes has announced.
const ALERT: Duration = Duration::from_secs(30);

/// How long the reason of the end may take.
const REASON: Duration = Duration::from_secs(3);

/// How long before its end an allocation is given back, in seconds. Otherwise the outer manager would kill its jobs, and
/// they would have failed.
const MARGIN: f64 = 5.0;

/// The shortest pause between two questions.
const SHORTEST: Duration = Duration::from_millis(200);

/// How long an order whose outcome isn't known may take to be seen: the command of a killed manager may still run.
const SEEN_AT_LAST: Duration = Duration::from_secs(5);

/// How long the nodes of an allocation may take to end before it is cancelled.
const PARTING: Duration = Duration::from_secs(5);

/// How long an allocation whose nodes have ended may take to end by itself.
const BY_ITSELF: Duration = Duration::from_secs(2);

/// When an allocation is cancelled again that is still there.
const AGAIN: Duration = Duration::from_secs(10);

/// How often in a row an allocation must be missing before it counts as gone.
const MISSING: u32 = 2;

/// What comes to the loop.
pub(super) enum Message {
    /// Order an allocation; if `again`, an earlier manager may have done so.
    Order { id: AllocationId, table: Box<Table>, time_limit: Option<f64>, again: bool },
    /// Watch one that an earlier manager has ordered.
    Follow { id: AllocationId, job: String, started: bool },
    /// Cancel one.
    End(AllocationId),
    /// What has happened to its nodes.
    Notice(Notice),
    /// Cancel all; `done` is dropped when none is left.
    EndAll { done: UnboundedSender<()> },
}

/// What the loops of all outer managers share.
#[derive(Clone)]
pub(super) struct Shared {
    /// Takes what happens to allocations.
    pub(super) report: Arc<dyn Fn(AllocationEvent) + Send + Sync>,
    /// Takes lines for the manager's log.
    pub(super) log: Arc<dyn Fn(Level, String) + Send + Sync>,
    /// The nodes of allocations.
    pub(super) guests: Guests,
    /// The name of an allocation outside.
    pub(super) name: Arc<dyn Fn(AllocationId) -> String + Send + Sync>,
    /// What the nodes of an allocation need to join.
    pub(super) invitation: Arc<dyn Fn(AllocationId) -> String + Send + Sync>,
}

/// How far an allocation has come.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    /// It is to be ordered.
    Asked,
    /// It may have been ordered. If it isn't found from this time on, it is ordered (again). The reason is why the outer
    /// manager can't be asked.
    Sought { until: Instant, reason: Option<String> },
    /// It is ordered, and waits for this reason, if one is known.
    Waits { job: String, reason: Option<String> },
    /// It runs. It is given back at `expires`, shortly before the outer manager ends it.
    Runs { job: String, ends_at: Option<f64>, expires: Option<Instant> },
    /// It is to be cancelled at `cancel`. Without a job it is looked for until then.
    Ends { job: Option<String>, reason: String, cancel: Instant },
}

/// An allocation.
struct Watched {
    stage: Stage,
    order: Option<Order>,
    /// Nodes that have joined before the outer manager has said that it runs.
    joined: Vec<(u32, String)>,
    /// By how many seconds the clocks of its nodes, and so that of the outer manager, are ahead of this host's.
    ahead: f64,
    /// How often in a row it was not found.
    missing: u32,
    /// Since when the outer manager is ending it.
    ending: Option<Instant>,
}

impl Watched {
    fn new(stage: Stage, order: Option<Order>) -> Self {
        Self { stage, order, joined: Vec::new(), ahead: 0.0, missing: 0, ending: None }
    }

    fn job(&self) -> Option<&str> {
        match &self.stage {
            Stage::Asked | Stage::Sought { .. } => None,
            Stage::Waits { job, .. } | Stage::Runs { job, .. } => Some(job),
            Stage::Ends { job, .. } => job.as_deref(),
        }
    }
}

/// The loop's state.
pub(super) struct Desk<M> {
    outer: M,
    shared: Shared,
    inbox: UnboundedReceiver<Message>,
    watched: BTreeMap<AllocationId, Watched>,
    next_look: Instant,
    last_look: Instant,
    /// Until when something is about to change, although all allocations run.
    alert: Instant,
    /// Whether the outer manager couldn't be asked last.
    is_in_trouble: bool,
    /// Who waits until no allocation is left.
    ending: Option<UnboundedSender<()>>,
}

impl<M: OuterManager> Desk<M> {
    pub(super) fn new(outer: M, shared: Shared, inbox: UnboundedReceiver<Message>) -> Self {
        let now = Instant::now();
        Self {
            outer,
            shared,
            inbox,
            watched: BTreeMap::new(),
            next_look: now,
            alert: now,
            last_look: now.checked_sub(LATER).unwrap_or(now),
            is_in_trouble: false,
            ending: None,
        }
    }

    /// Runs until nobody sends messages any more.
    pub(super) async fn run(mut self) {
        loop {
            self.order().await;
            if self.is_look_due() {
                self.look().await;
            }
            self.expire();
            self.cancel().await;
            if self.watched.is_empty() {
                self.ending = None;
            }
            let wake = self.next_wake();
            let message = tokio::select! {
                message = self.inbox.recv() => match message {
                    Some(message) => Some(message),
                    None => return,
                },
                () = sleep_until(wake.unwrap_or_else(Instant::now)), if wake.is_some() => None,
            };
            message.into_iter().for_each(|message| self.take(message));
            while let Ok(message) = self.inbox.try_recv() {
                self.take(message);
            }
        }
    }

    fn report(&self, event: AllocationEvent) {
        (self.shared.report)(event);
    }

    fn take(&mut self, message: Message) {
        match message {
            Message::Order { id, table, time_limit, again } => {
                let stage = match again {
                    true => Stage::Sought { until: Instant::now() + SEEN_AT_LAST, reason: None },
                    false => Stage::Asked,
                };
                let order = self.order_of(id, &table, time_limit);
                self.watched.entry(id).or_insert(Watched::new(stage, Some(order)));
                self.look_at(Instant::now());
            }
            Message::Follow { id, job, started } => {
                let stage = match started {
                    true => Stage::Runs { job, ends_at: None, expires: None },
                    false => Stage::Waits { job, reason: None },
                };
                self.watched.entry(id).or_insert(Watched::new(stage, None));
                self.look_at(Instant::now());
            }
            Message::End(id) => self.end(id, "released"),
            Message::Notice(notice) => self.notice(notice),
            Message::EndAll { done } => {
                for id in self.watched.keys().copied().collect::<Vec<_>>() {
                    self.end(id, "the instance has ended");
                }
                self.ending = Some(done);
            }
        }
    }

    fn order_of(&self, id: AllocationId, table: &Table, time_limit: Option<f64>) -> Order {
        Order {
            name: (self.shared.name)(id),
            options: table.options.clone(),
            nodes: table.nodes,
            cores: table.cores,
            gpus: table.gpus,
            time_limit,
            invitation: (self.shared.invitation)(id),
        }
    }

    /// Cancels an allocation.
    fn end(&mut self, id: AllocationId, reason: &str) {
        let now = Instant::now();
        let unknown = Watched::new(Stage::Sought { until: now, reason: None }, None);
        let watched = self.watched.entry(id).or_insert(unknown);
        let reason = reason.to_owned();
        watched.stage = match &watched.stage {
            Stage::Ends { .. } => return,
            Stage::Asked => return self.finish(id, reason),
            Stage::Sought { .. } => Stage::Ends { job: None, reason, cancel: now + SEEN_AT_LAST },
            Stage::Waits { job, .. } => Stage::Ends { job: Some(job.clone()), reason, cancel: now },
            Stage::Runs { job, .. } => {
                Stage::Ends { job: Some(job.clone()), reason, cancel: now + PARTING }
            }
        };
        self.shared.guests.dismiss(id);
        self.look_at(now + SOON);
    }

    fn notice(&mut self, notice: Notice) {
        let now = Instant::now();
        match notice {
            Notice::Joined { id, rank, host, ends_at, ahead } => {
                let Some(watched) = self.watched.get_mut(&id) else { return };
                let has_changed = std::mem::replace(&mut watched.ahead, ahead) != ahead;
                match &watched.stage {
                    Stage::Runs { ends_at, .. } => {
                        let known = ends_at.filter(|_| has_changed);
                        self.report(AllocationEvent::Joined { id, rank, host });
                        if known.is_some() {
                            self.start(id, known);
                        }
                    }
                    Stage::Waits { .. } if ends_at.is_some() => {
                        watched.joined.push((rank, host));
                        self.start(id, ends_at);
                    }
                    Stage::Asked | Stage::Sought { .. } | Stage::Waits { .. } => {
                        watched.joined.push((rank, host));
                        self.look_at(now);
                    }
                    // It has started when it was to be cancelled.
                    Stage::Ends { .. } => self.shared.guests.dismiss(id),
                }
            }
            Notice::Refused { id, reason } | Notice::Lost { id, reason } => {
                let Some(watched) = self.watched.get_mut(&id) else { return };
                if !matches!(watched.stage, Stage::Ends { .. }) {
                    let job = watched.job().map(str::to_owned);
                    let cancel = if job.is_some() { now } else { now + SEEN_AT_LAST };
                    watched.stage = Stage::Ends { job, reason, cancel };
                    self.shared.guests.dismiss(id);
                }
                self.look_at(now);
            }
            Notice::Cut { id } if self.watched.contains_key(&id) => {
                self.alert = now + ALERT;
                self.look_at(now + SHORTEST);
            }
            Notice::Empty { id } => {
                if let Some(Watched { stage: Stage::Ends { cancel, .. }, .. }) =
                    self.watched.get_mut(&id)
                {
                    *cancel = (*cancel).min(now + BY_ITSELF);
                }
                self.look_at(now + SHORTEST);
            }
            Notice::Cut { .. } => {}
        }
    }

    /// The allocation is over.
    fn finish(&mut self, id: AllocationId, reason: String) {
        self.watched.remove(&id);
        // First, so that its jobs end by this reason.
        self.report(AllocationEvent::Ended { id, reason });
        self.shared.guests.forget(id);
        self.outer.forget(&(self.shared.name)(id));
    }

    /// Orders what is to be ordered.
    async fn order(&mut self) {
        let asked = |(_, watched): &(&AllocationId, &Watched)| watched.stage == Stage::Asked;
        while let Some((id, watched)) = self.watched.iter().find(asked) {
            let (id, Some(order)) = (*id, watched.order.clone()) else { return };
            let ordered = self.outer.order(&order).await;
            let Some(watched) = self.watched.get_mut(&id) else { continue };
            match ordered {
                Ok(job) => {
                    watched.stage = Stage::Waits { job: job.clone(), reason: None };
                    self.report(AllocationEvent::Ordered { id, job });
                    self.look_at(Instant::now());
                }
                Err(OrderError::Refused(reason)) => {
                    self.watched.remove(&id);
                    self.report(AllocationEvent::Refused { id, reason });
                    self.shared.guests.forget(id);
                    self.outer.forget(&order.name);
                }
                Err(OrderError::Unclear(reason)) => {
                    let until = Instant::now() + SEEN_AT_LAST;
                    watched.stage = Stage::Sought { until, reason: Some(reason.clone()) };
                    self.report(AllocationEvent::Waits { id, reason: reason.clone() });
                    self.note_trouble(&reason);
                    self.look_at(Instant::now() + SOON);
                }
            }
        }
    }

    /// Asks the outer manager about all allocations.
    async fn look(&mut self) {
        let name = |id: AllocationId| (self.shared.name)(id);
        let is_wanted = |watched: &Watched| watched.stage != Stage::Asked;
        let wanted = self.watched.iter().filter(|(_, watched)| is_wanted(watched));
        let wanted = wanted.map(|(id, watched)| {
            (*id, Wanted { name: name(*id), job: watched.job().map(str::to_owned) })
        });
        let (ids, wanted): (Vec<AllocationId>, Vec<Wanted>) = wanted.unzip();
        let begun = Instant::now();
        let found = self.outer.look(&wanted).await;
        self.last_look = Instant::now();
        match found {
            Ok(found) => {
                self.note_end_of_trouble();
                let mut by_name: BTreeMap<String, Vec<Found>> = BTreeMap::new();
                for found in found {
                    by_name.entry(found.name.clone()).or_default().push(found);
                }
                for (id, wanted) in ids.into_iter().zip(wanted) {
                    let found = by_name.remove(&wanted.name).unwrap_or_default();
                    self.learn(id, found, begun).await;
                }
            }
            Err(error) => self.cannot_look(&error),
        }
        let is_settled = |watched: &Watched| {
            matches!(watched.stage, Stage::Runs { .. }) && watched.ending.is_none()
        };
        let is_calm = self.alert < self.last_look && self.watched.values().all(is_settled);
        let pause = if is_calm { LATER } else { SOON };
        self.next_look = self.last_look + pause;
    }

    /// Notes that the outer manager can't be asked.
    fn cannot_look(&mut self, error: &ProgramError) {
        let reason = error.to_string();
        for (id, watched) in &mut self.watched {
            let known = match &mut watched.stage {
                Stage::Waits { reason, .. } | Stage::Sought { reason, .. } => reason,
                Stage::Asked | Stage::Runs { .. } | Stage::Ends { .. } => continue,
            };
            if known.as_ref() != Some(&reason) {
                *known = Some(reason.clone());
                (self.shared.report)(AllocationEvent::Waits { id: *id, reason: reason.clone() });
            }
        }
        self.note_trouble(&reason);
        // Nodes that have joined take jobs all the same.
        let has_joined =
            |(id, watched): (&AllocationId, &Watched)| (!watched.joined.is_empty()).then_some(*id);
        for id in self.watched.iter().filter_map(has_joined).collect::<Vec<_>>() {
            self.start(id, None);
        }
    }

    fn note_trouble(&mut self, reason: &str) {
        if !std::mem::replace(&mut self.is_in_trouble, true) {
            let text = format!("{} can't be asked about allocations: {reason}", self.outer.title());
            (self.shared.log)(Level::Warning, text);
        }
    }

    fn note_end_of_trouble(&mut self) {
        if std::mem::take(&mut self.is_in_trouble) {
            let text = format!("{} answers again", self.outer.title());
            (self.shared.log)(Level::Info, text);
        }
    }

    /// Takes over what the outer manager says about an allocation, at a question that was asked at `begun`.
    async fn learn(&mut self, id: AllocationId, found: Vec<Found>, begun: Instant) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        let known = watched.job().map(str::to_owned);
        let rank = |found: &Found| {
            let is_known = known.as_ref() == Some(&found.job);
            (!is_known, matches!(found.state, OuterState::Ended(_)))
        };
        let mut found = found;
        found.sort_by_key(rank);
        let mut found = found.into_iter();
        let Some(Found { job, state, .. }) = found.next() else {
            return self.miss(id, begun);
        };
        watched.missing = 0;
        let now = Instant::now();
        match (&mut watched.stage, state) {
            (Stage::Asked, _) => {}
            (Stage::Sought { .. }, state) => {
                watched.stage = Stage::Waits { job: job.clone(), reason: None };
                self.report(AllocationEvent::Ordered { id, job: job.clone() });
                self.advance(id, &job, state);
            }
            (Stage::Ends { reason, .. }, OuterState::Ended(_)) => {
                let reason = reason.clone();
                self.finish(id, reason);
            }
            (Stage::Ends { job: ended @ None, cancel, .. }, state)
                if !matches!(state, OuterState::Ending(_)) =>
            {
                *ended = Some(job.clone());
                *cancel = now;
            }
            (Stage::Ends { .. }, _) => {}
            (_, OuterState::Ending(reason)) => self.note_ending(id, &job, reason),
            (Stage::Waits { .. } | Stage::Runs { .. }, state) => self.advance(id, &job, state),
        }
        // Others of the same name can only be left from an order whose outcome wasn't known.
        for other in found.filter(|other| !matches!(other.state, OuterState::Ended(_))) {
            if let Err(error) = self.outer.cancel(&other.job).await {
                self.note_trouble(&error.to_string());
            }
        }
    }

    /// An allocation that is ordered is in this state now.
    fn advance(&mut self, id: AllocationId, job: &str, state: OuterState) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        match (&mut watched.stage, state) {
            (Stage::Waits { reason: known, .. }, OuterState::Waits(reason))
                if known.as_ref() != Some(&reason) =>
            {
                *known = Some(reason.clone());
                self.report(AllocationEvent::Waits { id, reason });
            }
            (Stage::Waits { .. }, OuterState::Runs(ends_at)) => self.start(id, ends_at),
            (Stage::Runs { ends_at: known, .. }, OuterState::Runs(ends_at))
                if ends_at.is_some() && ends_at != *known =>
            {
                self.start(id, ends_at);
            }
            (Stage::Runs { .. }, OuterState::Waits(reason)) => {
                // Its nodes are gone, and another allocation is ordered if one is still needed.
                let reason = format!("{} has put it back: {reason}", self.outer.title());
                let (job, cancel) = (Some(job.to_owned()), Instant::now());
                watched.stage = Stage::Ends { job, reason, cancel };
                self.shared.guests.dismiss(id);
            }
            (_, OuterState::Ended(reason)) => {
                let reason = format!("{} job {job}: {reason}", self.outer.title());
                self.finish(id, reason);
            }
            _ => {}
        }
    }

    /// An allocation runs, until this time (UNIX seconds) of the outer manager. The nodes that have joined take jobs.
    fn start(&mut self, id: AllocationId, ends_at: Option<f64>) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        let (Stage::Waits { job, .. } | Stage::Runs { job, .. }) = &watched.stage else { return };
        // A job manager and its nodes have one time; that of this host, often a login node, may be another one.
        let ends = ends_at.map(|ends_at| ends_at - watched.ahead - MARGIN);
        let left = |ends: f64| Duration::try_from_secs_f64(ends - now().as_secs());
        let expires = ends.map(|ends| Instant::now() + left(ends).unwrap_or_default());
        watched.stage = Stage::Runs { job: job.clone(), ends_at, expires };
        let joined = std::mem::take(&mut watched.joined);
        self.report(AllocationEvent::Started { id, ends_at: ends.map(Timestamp::from_secs) });
        for (rank, host) in joined {
            self.report(AllocationEvent::Joined { id, rank, host });
        }
    }

    /// The outer manager is ending an allocation. Its processes there are gone, so that its nodes end, too.
    fn note_ending(&mut self, id: AllocationId, job: &str, reason: String) {
        let Some(watched) = self.watched.get_mut(&id) else { return };
        let since = *watched.ending.get_or_insert_with(Instant::now);
        self.shared.guests.dismiss(id);
        if since.elapsed() >= REASON {
            self.finish(id, format!("{} job {job}: {reason}", self.outer.title()));
        }
    }

    /// Gives back what is about to reach its time limit.
    fn expire(&mut self) {
        let now = Instant::now();
        let due = |(id, watched): (&AllocationId, &Watched)| match &watched.stage {
            Stage::Runs { job, expires: Some(expires), .. } if *expires <= now => {
                Some((*id, job.clone()))
            }
            _ => None,
        };
        let due: Vec<(AllocationId, String)> = self.watched.iter().filter_map(due).collect();
        for (id, job) in due {
            let reason = "it has reached its time limit".to_owned();
            self.finish(id, reason.clone());
            // The outer manager still has it.
            let (job, cancel) = (Some(job), now + BY_ITSELF);
            self.watched.insert(id, Watched::new(Stage::Ends { job, reason, cancel }, None));
            self.look_at(now + SOON);
        }
    }

    /// The outer manager doesn't know an allocation.
    fn miss(&mut self, id: AllocationId, begun: Instant) {
        let title = self.outer.title().to_owned();
        let Some(watched) = self.watched.get_mut(&id) else { return };
        match &watched.stage {
            Stage::Asked => {}
            Stage::Sought { until, .. } if begun >= *until => match &watched.order {
                Some(_) => watched.stage = Stage::Asked,
                None => self.finish(id, format!("{title} has no such job")),
            },
            Stage::Sought { .. } => {}
            Stage::Ends { job: None, reason, cancel } if begun >= *cancel => {
                let reason = reason.clone();
                self.finish(id, reason);
            }
            Stage::Ends { job: None, .. } => {}
            Stage::Waits { .. } | Stage::Runs { .. } | Stage::Ends { job: Some(_), .. } => {
                watched.missing += 1;
                if watched.missing >= MISSING {
                    let reason = match &watched.stage {
                        Stage::Ends { reason, .. } => reason.clone(),
                        _ => format!("{title} doesn't know its job any more"),
                    };
                    self.finish(id, reason);
                }
            }
        }
    }

    /// Cancels what is to be cancelled now.
    async fn cancel(&mut self) {
        let now = Instant::now();
        let due = |(id, watched): (&AllocationId, &Watched)| match &watched.stage {
            Stage::Ends { job: Some(job), cancel, .. } if *cancel <= now => {
                Some((*id, job.clone()))
            }
            _ => None,
        };
        let due: Vec<(AllocationId, String)> = self.watched.iter().filter_map(due).collect();
        for (id, job) in due {
            let cancelled = self.outer.cancel(&job).await;
            let pause = if cancelled.is_ok() { AGAIN } else { SOON };
            if let Some(Watched { stage: Stage::Ends { cancel, .. }, .. }) =
                self.watched.get_mut(&id)
            {
                *cancel = Instant::now() + pause;
            }
            if let Err(error) = cancelled {
                self.note_trouble(&error.to_string());
            }
            self.look_at(Instant::now() + SHORTEST);
        }
    }

    /// Asks the outer manager at this time at the latest.
    fn look_at(&mut self, at: Instant) {
        self.next_look = self.next_look.min(at).max(self.last_look + SHORTEST);
    }

    fn is_look_due(&self) -> bool {
        let is_wanted = |watched: &Watched| watched.stage != Stage::Asked;
        self.next_look <= Instant::now() && self.watched.values().any(is_wanted)
    }

    /// When there is something to do again without a message.
    fn next_wake(&self) -> Option<Instant> {
        let cancel = |watched: &Watched| match &watched.stage {
            Stage::Ends { job: Some(_), cancel, .. } => Some(*cancel),
            Stage::Runs { expires, .. } => *expires,
            _ => None,
        };
        let cancels = self.watched.values().filter_map(cancel);
        let look = (!self.watched.is_empty()).then_some(self.next_look);
        cancels.chain(look).min()
    }
}
