//! Requests from the manager what the screen shows, and no more: the jobs of a page and some around it, however many
//! jobs there are. The next round begins some time after the end of the one before, so that a slow manager never has
//! more than one round to respond to.

use std::time::Duration;

use jobtap_core::job::{JobId, State, StateSet};
use serde_json::{Map, Value};
use tokio::sync::{mpsc, watch};

use super::filter::Filter;
use super::lines::{self, Detail, JobLine, Line, Missing};
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

/// How long to wait for further keys before a round that a key has caused.
const PAUSE: Duration = Duration::from_millis(60);

/// What the screen needs.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Wanted {
    /// The maximum number of jobs.
    pub(super) jobs: usize,
    pub(super) filter: Filter,
    /// Whether inactive jobs are listed, too.
    pub(super) inactive: bool,
    /// The job whose details are shown.
    pub(super) detail: Option<JobId>,
}

/// The responses of the manager.
#[derive(Debug)]
pub(super) struct Snapshot {
    /// The time of the requests, in seconds since the epoch.
    pub(super) at: f64,
    pub(super) uptime: Option<f64>,
    pub(super) owner: String,
    pub(super) stats: Result<Stats, Missing>,
    pub(super) nodes: Result<Vec<Line>, Missing>,
    pub(super) queues: Result<Vec<Line>, Missing>,
    pub(super) plugins: Result<Vec<Line>, Missing>,
    pub(super) jobs: Result<Vec<JobLine>, Missing>,
    /// Whether there are jobs after the listed ones.
    pub(super) more: bool,
    pub(super) detail: Option<Detail>,
}

/// Sends rounds of requests, until the receiver is dropped or the connection is lost.
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

/// Sends a request. The inner error is a refusal; after the outer one, the connection is lost.
async fn call<S: Service>(
    client: &Client,
    request: S,
) -> Result<Result<S::Response, Missing>, RpcError> {
    match client.call(request).await {
        Ok(response) => Ok(Ok(response)),
        Err(error) if error.errno == ECONNRESET => Err(error),
        Err(error) if error.errno == EPERM => Ok(Err(Missing::OwnerOnly)),
        Err(error) => Ok(Err(Missing::Refused(error))),
    }
}

/// The listed jobs, those that run first, and whether there are more.
async fn jobs(
    client: &Client,
    display: &DisplayContext,
    want: &Wanted,
    stats: Option<&Stats>,
) -> Result<Result<(Vec<JobLine>, bool), Missing>, RpcError> {
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
            arrays: true,
            since: None,
        };
        let found = match call(client, request).await? {
            Ok(found) => found.jobs,
            Err(refused) => return Ok(Err(refused)),
        };
        for job in found {
            match JobRow::from_json(job, display) {
                Ok(row) => listed.push(lines::job(&row)),
                Err(error) => return Ok(Err(Missing::Job(error))),
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

/// The lists that make up the table, by the states of their jobs; `None` means any state. The manager lists pending
/// jobs first, but running jobs are of more interest, and must not be hidden behind 100,000 others.
fn parts(want: &Wanted, stats: Option<&Stats>) -> Vec<Option<StateSet>> {
    if want.filter.states {
        return vec![None];
    }
    let mut parts = Vec::new();
    // For each list the manager looks at all active jobs, so a list that must be empty isn't requested.
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
                _ => Missing::Refused(error).to_string(),
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
            let cells = vec![display.ids.show(id), Missing::Job(error).to_string()];
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
        // Guests in private mode don't get the numbers of jobs.
        assert_eq!(parts(&active, None), [Some(StateSet::RUNNING), Some(StateSet::PENDING)]);
        let all = Wanted { inactive: true, ..Wanted::default() };
        let wanted = [Some(StateSet::PENDING), Some(State::Inactive.into())];
        assert_eq!(parts(&all, Some(&stats)), wanted);
        let filter = Filter { states: true, ..Filter::default() };
        assert_eq!(parts(&Wanted { filter, ..all }, Some(&stats)), [None]);
    }
}
