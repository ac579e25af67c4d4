//! What jobs wait for, counted part by part: the engine serves others between two parts, however many jobs there are.

use std::time::{Duration, Instant};

use jobtap_core::engine::{Engine, WaitCount};
use jobtap_core::job::{JobId, Uid};

use crate::daemon::engine::{EngineHandle, answered};
use crate::rpc::RpcError;
use crate::rpc::services::job_list::{WaitingJob, Waits};

/// A part ends after this time.
const TIME: Duration = Duration::from_millis(5);
/// The clock is read after this many jobs.
const CLOCK: usize = 64;

/// Counts the jobs of one user or of all, and says what some jobs wait for. When this returns, the request for the first
/// part has been sent to the engine.
pub(super) fn count(
    engine: EngineHandle,
    ids: Vec<JobId>,
    userid: Option<Uid>,
) -> impl Future<Output = Result<Waits, RpcError>> + Send {
    let first = engine.read(move |engine| {
        let jobs = named(engine, ids, userid);
        Ok((jobs, part(engine, engine.begin_waits(userid))))
    });
    async move {
        let (jobs, (mut count, mut more)) = answered(first).await?;
        while more {
            (count, more) = answered(engine.read(|engine| Ok(part(engine, count)))).await?;
        }
        let counts = count.counts().map(|(what, jobs)| (what.word().to_owned(), jobs));
        Ok(Waits { counts: counts.collect(), jobs })
    }
}

/// Counts jobs for a while. Returns whether there are more.
fn part(engine: &Engine, mut count: WaitCount) -> (WaitCount, bool) {
    let begun = Instant::now();
    loop {
        if !engine.count_waits(&mut count, CLOCK) {
            return (count, false);
        }
        if begun.elapsed() > TIME {
            return (count, true);
        }
    }
}

/// Those of the named jobs that wait, of one user or of all.
fn named(engine: &Engine, ids: Vec<JobId>, userid: Option<Uid>) -> Vec<WaitingJob> {
    let is_shown = |id: &JobId| {
        let user = engine.job_exists(*id).map(|job| job.userid);
        user.is_some_and(|user| userid.is_none_or(|wanted| wanted == user))
    };
    let waiting = |id: JobId| {
        let why = engine.waits_for(id)?.word().to_owned();
        Some(WaitingJob { id, why })
    };
    ids.into_iter().filter(is_shown).filter_map(waiting).collect()
}
