//! Requests that wait until lines have dissolved: they change what the executor has been told about the jobs there, or
//! the policy by which these are next. Or they post an event: an event of a job in a line waits, and what is acknowledged
//! must be durable.

use super::lines::Lines;
use super::{recall, recall_all};
use crate::api::{Cred, NodeRequest, ReplyTo, Request, RequestError};
use crate::arrays::Arrays;
use crate::core::Core;
use crate::host::errno::EAGAIN;
use crate::job::JobId;

/// The number of seconds after which a request that posts no event goes on although the executor hasn't answered: its
/// shepherd may be stopped.
const PATIENCE: f64 = 1.0;

/// How many requests may wait. Those that post events wait for as long as a shepherd is stopped, and clients can send
/// more.
const MOST: usize = 4096;

/// A request with its client.
type Asked = (ReplyTo, Cred, Request);

/// The requests, in the order in which they came.
#[derive(Debug, Default)]
pub(super) struct HeldRequests(Vec<Held>);

#[derive(Debug)]
struct Held {
    asked: Asked,
    until: Until,
    /// When it came, in UNIX seconds.
    since: f64,
}

/// What a request waits for.
#[derive(Debug, Clone, Copy)]
enum Until {
    /// This job has left its line.
    Left(JobId),
    /// There are no lines.
    Dissolved,
    /// There are no lines, or it has waited for too long.
    DissolvedSoon,
    /// Nothing any longer.
    Now,
}

impl Until {
    /// What a request waits for; `None` if it may come at any time.
    fn needed_by(request: &Request, arrays: &Arrays) -> Option<Self> {
        match request {
            // These say what has happened already.
            Request::Nodes(
                NodeRequest::Offline { .. } | NodeRequest::Online { .. } | NodeRequest::Journal,
            ) => None,
            // Else the end of the first job would begin the next one.
            Request::RaiseAll { dry_run, .. } => (!dry_run).then_some(Self::Dissolved),
            Request::RaiseElements { .. } => Some(Self::Dissolved),
            Request::Raise { id, .. } if arrays.get(*id).is_some() => Some(Self::Dissolved),
            Request::Raise { id, .. }
            | Request::Memo { id, .. }
            | Request::Update { id, .. }
            | Request::Urgency { id, .. }
            | Request::Requeue { id, .. } => Some(Self::Left(*id)),
            Request::QueueStart { .. }
            | Request::Nodes(_)
            | Request::Plugins { .. }
            | Request::PluginReload { .. }
            | Request::Shadow(_)
            | Request::Configure { .. } => Some(Self::DissolvedSoon),
            Request::Submit(_)
            | Request::Resubmit { .. }
            | Request::Kill { .. }
            | Request::KillAll { .. }
            | Request::Override { .. }
            | Request::QueueEnable { .. }
            | Request::PurgeId { .. }
            | Request::Purge { .. }
            | Request::Wait { .. }
            | Request::WaitArray { .. }
            | Request::Drain
            | Request::Idle
            | Request::ReleaseAllocation { .. }
            | Request::Service { .. }
            | Request::PluginQuery { .. } => None,
        }
    }

    fn is_over(self, lines: &Lines) -> bool {
        match self {
            Self::Left(id) => !lines.have(id),
            Self::Dissolved | Self::DissolvedSoon => lines.are_empty(),
            Self::Now => true,
        }
    }
}

impl HeldRequests {
    /// Whether no request waits.
    pub(super) fn are_none(&self) -> bool {
        self.0.is_empty()
    }

    /// Lets requests go on that have waited for too long.
    pub(super) fn give_up(&mut self, now: f64) {
        let is_late = |held: &&mut Held| {
            matches!(held.until, Until::DissolvedSoon) && held.since + PATIENCE <= now
        };
        let late = self.0.iter_mut().filter(is_late);
        late.for_each(|held| held.until = Until::Now);
    }

    /// Takes a request that need not wait any longer.
    pub(super) fn take(&mut self, lines: &Lines) -> Option<Asked> {
        let at = self.0.iter().position(|held| held.until.is_over(lines))?;
        Some(self.0.remove(at).asked)
    }
}

/// Returns a request that can be handled at once. Another one waits until jobs that are recalled for it have left their
/// lines.
pub(crate) fn admit(
    core: &mut Core,
    reply: ReplyTo,
    cred: Cred,
    request: Request,
) -> Option<Asked> {
    let Core { turn, alloc, arrays, .. } = core;
    let until =
        Until::needed_by(&request, arrays).filter(|until| !until.is_over(&alloc.prefill.lines));
    let Some(until) = until else { return Some((reply, cred, request)) };
    if alloc.prefill.held.0.len() >= MOST && !matches!(until, Until::DissolvedSoon) {
        let text = format!(
            "{MOST} requests wait already until a node answers which of its jobs have begun: try again later"
        );
        turn.effects.reply(reply, Err(RequestError::new(EAGAIN, text)));
        return None;
    }
    match until {
        Until::Left(id) => recall(&mut turn.effects, &mut alloc.prefill, id),
        Until::Dissolved | Until::DissolvedSoon | Until::Now => {
            recall_all(&mut turn.effects, alloc)
        }
    }
    let since = turn.clock.now.as_secs();
    alloc.prefill.held.0.push(Held { asked: (reply, cred, request), until, since });
    None
}
