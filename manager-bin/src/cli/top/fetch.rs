//! Asks the manager for what the screen shows, and for no more: the jobs of a page and some around it, however
//! many jobs there are. The next round begins some time after the end of the one before, so that a slow manager
//! has never more than one round to answer.

use std::time::Duration;

use jobtap_core::job::{JobId, State, StateSet};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use super::filter::Filter;
use super::lines::{self, Detail, JobLine, Line};
use crate::cli::common::when;
use crate::cli::jobs::row::{DisplayContext, JobRow};
use crate::client::{Client, RpcError};
use crate::rpc::errno::{ECONNRESET, ENOENT, EPERM};
use crate::rpc::service::Service;
use crate::rpc::services::job_info::Lookup;
use crate::rpc::services::job_list::{ALL, Constraint, GetStats, List, ListId, Stats};
use crate::rpc::services::job_manager::{GetUptime, Uptime, Why};
use crate::rpc::services::queue::GetOverview;
use crate::rpc::services::{plugin, resource};

/// How long further keys are awaited before a round that a key has caused.
const PAUSE: Duration = Duration::from_millis(60);

/// What the screen wants to know.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wanted {
    /// How many jobs at most.
    pub(super) jobs: usize,
    pub(super) filter: Filter,
    /// Whether inactive jobs are listed, too.
    pub(super) inactive: bool,
    /// The job whose details are shown.
    pub(super) detail: Option<JobId>,
}

/// What the manager said. A text is the reason why something is not known.
#[derive(Debug, Clone)]
pub(super) struct Snapshot {
    /// When it was asked, in seconds since the epoch.
    pub(super) at: f64,
    pub(super) uptime: Option<f64>,
    pub(super) owner: String,
    pub(super) stats: Result<Stats, String>,
    pub(super) nodes: Result<Vec<Line>, String>,
    pub(super) queues: Result<Vec<Line>, String>,
    pub(super) plugins: Result<Vec<Line>, String>,
    pub(super) jobs: Result<Vec<JobLine>, String>,
    /// Whether there are jobs after the listed ones.
    pub(super) more: bool,
    pub(super) detail: Option<Detail>,
}

/// Asks the manager again and again, until the receiver is gone or the connection is lost.
pub(super) async fn poll(
    client: &Client,
    display: &mut DisplayContext,
    interval: Duration,
    mut wanted: watch::Receiver<Wanted>,
    snapshots: mpsc::Sender<Snapshot>,
) -> RpcError {
    loop {
        let want = wanted.borrow_and_update().clone();
        display.now = when::now();
        match ask(client, display, &want).await {
            Ok(snapshot) => drop(snapshots.send(snapshot).await),
            Err(lost) => return lost,
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            _ = wanted.changed() => tokio::time::sleep(PAUSE).await,
        }
    }
}

/// One round of requests.
///
/// # Errors
/// The connection is lost.
async fn ask(
    client: &Client,
    display: &DisplayContext,
    want: &Wanted,
) -> Result<Snapshot, RpcError> {
    let uptime = call(client, GetUptime {}).await?;
    let stats = call(client, GetStats {}).await?;
    let overview = call(client, GetOverview {}).await?;
    let nodes = call(client, resource::GetStatus {}).await?;
    let loaded = call(client, plugin::Jobtap::default()).await?;
    let handlers = call(client, plugin::GetStats::default()).await?;
    let (jobs, more) = match jobs(client, display, want, stats.as_ref().ok()).await? {
        Ok((jobs, more)) => (Ok(jobs), more),
        Err(refused) => (Err(refused), false),
    };
    let detail = match want.detail {
        Some(id) => Some(detail(client, display, id).await?),
        None => None,
    };
    let owner = |uptime: &Uptime| display.users.name(uptime.owner.as_u32());
    Ok(Snapshot {
        at: display.now,
        owner: uptime.as_ref().map(owner).unwrap_or_default(),
        uptime: uptime.ok().map(|uptime| (display.now - uptime.starttime).max(0.0)),
        queues: overview.map(|overview| lines::queues(&overview, stats.as_ref().ok())),
        nodes: nodes.and_then(|status| lines::nodes(&status)),
        plugins: loaded.and_then(|loaded| Ok(lines::plugins(&loaded, &handlers?))),
        stats,
        jobs,
        more,
        detail,
    })
}

/// Sends a request. A refusal is a text for the screen.
async fn call<S: Service>(
    client: &Client,
    request: S,
) -> Result<Result<S::Response, String>, RpcError> {
    match client.call(request).await {
        Ok(response) => Ok(Ok(response)),
        Err(error) if error.errno == ECONNRESET => Err(error),
        Err(error) if error.errno == EPERM => Ok(Err("only shown to the owner".to_owned())),
        Err(error) => Ok(Err(lines::text(&error.to_string()))),
    }
}

/// The listed jobs, those that run first, and whether there are more.
async fn jobs(
    client: &Client,
    display: &DisplayContext,
    want: &Wanted,
    stats: Option<&Stats>,
) -> Result<Result<(Vec<JobLine>, bool), String>, RpcError> {
    let mut listed: Vec<JobLine> = Vec::new();
    for states in parts(want, stats) {
        let left = want.jobs.saturating_sub(listed.len());
        let mut all = want.filter.constraints.clone();
        all.extend(states.map(|states| Constraint::States(vec![u64::from(states.state_bits())])));
        let constraint = match all.is_empty() {
            true => Map::new().into(),
            false => Value::from(Constraint::And(all)),
        };
        // One more shows whether there are more.
        let limit = i64::try_from(left).unwrap_or(i64::MAX).saturating_add(1);
        let request = List {
            max_entries: Some(limit),
            constraint: Some(constraint),
            attrs: ALL,
            since: None,
        };
        let found = match call(client, request).await? {
            Ok(found) => found.jobs,
            Err(refused) => return Ok(Err(refused)),
        };
        for job in found {
            match JobRow::from_json(job, display) {
                Ok(row) => listed.push(lines::job(&row)),
                Err(error) => return Ok(Err(lines::text(&error))),
            }
        }
        if listed.len() > want.jobs {
            break;
        }
    }
    let more = listed.len() > want.jobs;
    listed.truncate(want.jobs);
    listed.retain(|job| lines::contains(job, &want.filter.words));
    Ok(Ok((listed, more)))
}

/// The lists of which the table consists, by the states of their jobs; `None` is any state. The manager lists
/// pending jobs first, but those that run are of more interest, and must not be hidden behind 100,000 others.
fn parts(want: &Wanted, stats: Option<&Stats>) -> Vec<Option<StateSet>> {
    if want.filter.states {
        return vec![None];
    }
    let mut parts = Vec::new();
    // The manager looks at each active job for a list: it isn't asked for one that must be empty.
    let states = stats.map(|stats| stats.all.job_states);
    if states.is_none_or(|states| states.run + states.cleanup > 0) {
        parts.push(Some(StateSet::RUNNING));
    }
    if states.is_none_or(|states| states.depend + states.priority + states.sched > 0) {
        parts.push(Some(StateSet::PENDING));
    }
    if want.inactive {
        parts.push(Some(State::Inactive.into()));
    }
    parts
}

/// One job with its history.
async fn detail(client: &Client, display: &DisplayContext, id: JobId) -> Result<Detail, RpcError> {
    let job = match client.call(ListId { id, attrs: ALL }).await {
        Ok(job) => job.job,
        Err(error) if error.errno == ECONNRESET => return Err(error),
        Err(error) => {
            let about = match error.errno {
                ENOENT => "the job doesn't exist any more".to_owned(),
                _ => lines::text(&error.to_string()),
            };
            let cells = vec![display.ids.show(id), about];
            let line = Line { cells, tone: lines::Tone::Bad };
            return Ok(Detail { id: Some(id), lines: vec![line] });
        }
    };
    let log = call(client, Lookup::key(id, "eventlog")).await?;
    let log = log.map(|values| values.get("eventlog").to_owned());
    let why = call(client, Why { id }).await?;
    Ok(match JobRow::from_json(job, display) {
        Ok(row) => lines::detail(&row, why, log),
        Err(error) => {
            let cells = vec![display.ids.show(id), lines::text(&error)];
            Detail { id: Some(id), lines: vec![Line { cells, tone: lines::Tone::Bad }] }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lists_that_can_have_jobs_are_asked_for() {
        let mut stats = Stats::default();
        stats.all.job_states.sched = 1;
        let active = Wanted::default();
        assert_eq!(parts(&active, Some(&stats)), [Some(StateSet::PENDING)]);
        // Guests in private mode don't get numbers.
        assert_eq!(parts(&active, None), [Some(StateSet::RUNNING), Some(StateSet::PENDING)]);
        let all = Wanted { inactive: true, ..Wanted::default() };
        let wanted = [Some(StateSet::PENDING), Some(State::Inactive.into())];
        assert_eq!(parts(&all, Some(&stats)), wanted);
        let filter = Filter { states: true, ..Filter::default() };
        assert_eq!(parts(&Wanted { filter, ..all }, Some(&stats)), [None]);
    }
}
