//! Jobs through a whole manager: submitted over the socket, every event durable before it is acknowledged,
//! executed in simulation, until they are inactive.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{BenchError, config, cpu_seconds, document};
use crate::client::Client;
use crate::daemon::config::{Source, setting};
use crate::daemon::resources::TestSize;
use crate::daemon::statedir::StateDir;
use crate::daemon::{Daemon, Options, resources};
use crate::rpc::services::ingest::Submit;
use crate::rpc::services::job_list::GetStats;
use jobtap_core::engine::Level;

/// The number of submissions that wait for an answer at once.
const IN_FLIGHT: u64 = 512;

/// The interval at which the number of inactive jobs is polled.
const POLL: Duration = Duration::from_millis(20);

/// A size is measured until this many jobs have run, so that chance counts as little for few jobs as for
/// many...
const ENOUGH: u64 = 100_000;

/// ...but not more often than this.
const MOST_RUNS: u64 = 9;

/// The result of the measurement.
#[derive(Debug, Clone, Copy)]
pub struct Throughput {
    /// The number of jobs.
    pub jobs: u64,
    /// The time from the first submission to the last job's end.
    pub elapsed: Duration,
    /// Seconds of processor time that manager and client used together.
    pub cpu: f64,
}

impl Throughput {
    /// Returns microseconds for each job.
    pub fn micros(&self) -> f64 {
        self.elapsed.as_secs_f64() * 1e6 / self.jobs.max(1) as f64
    }

    /// Returns microseconds of processor time for each job.
    pub fn cpu_micros(&self) -> f64 {
        self.cpu * 1e6 / self.jobs.max(1) as f64
    }
}

/// Returns how often a size is measured: an odd number, so that there is a median.
pub fn runs(jobs: u64) -> u64 {
    (ENOUGH / jobs.max(1)).clamp(1, MOST_RUNS).div_ceil(2) * 2 - 1
}

/// Returns the median of [`runs`] measurements.
///
/// # Errors
/// As [`measure`].
pub async fn median(jobs: u64) -> Result<Throughput, BenchError> {
    let mut measured = vec![measure(jobs).await?];
    for _ in 1..runs(jobs) {
        measured.push(measure(jobs).await?);
    }
    measured.sort_by_key(|one| one.elapsed);
    Ok(measured.swap_remove(measured.len() / 2))
}

/// Sends jobs through a fresh manager.
///
/// # Errors
/// When the manager doesn't start or refuses a job.
pub async fn measure(jobs: u64) -> Result<Throughput, BenchError> {
    let manager = Manager::start(StateDir::temporary()?).await?;
    let (begin, cpu) = (Instant::now(), cpu_seconds()?);
    let lanes: Vec<_> = (0..IN_FLIGHT)
        .map(|lane| tokio::spawn(submit(manager.client.clone(), lane, jobs)))
        .collect();
    for lane in lanes {
        lane.await.map_err(std::io::Error::other)??;
    }
    while manager.inactive().await? < jobs {
        tokio::time::sleep(POLL).await;
    }
    let measured = Throughput { jobs, elapsed: begin.elapsed(), cpu: cpu_seconds()? - cpu };
    manager.end().await;
    Ok(measured)
}

/// Submits every [`IN_FLIGHT`]th job and waits for each answer.
async fn submit(client: Client, lane: u64, jobs: u64) -> Result<(), BenchError> {
    for number in (lane..jobs).step_by(IN_FLIGHT as usize) {
        let jobspec = Some(document(0.001, 1, number).into());
        client.call(Submit { jobspec, ..Submit::default() }).await?;
    }
    Ok(())
}

/// A manager in this process, and a connection to it.
pub(super) struct Manager {
    daemon: Daemon,
    pub(super) client: Client,
}

impl Manager {
    /// Starts a manager in this state directory.
    pub(super) async fn start(statedir: StateDir) -> Result<Self, BenchError> {
        let socket = statedir.path().join("local-0");
        let text = config(&resources::hostname()).to_string();
        let config = setting(&text)?;
        let source = Source::new(&[], vec![text])?;
        let log_level = Level::Warning;
        let path: &Path = &socket.clone();
        let daemon = Daemon::start(Options {
            source,
            config,
            statedir,
            socket,
            log_level,
            test_size: TestSize::default(),
            given: None,
            dump: None,
            recovery: false,
            attributes: Arc::default(),
        })?;
        let client = Client::connect_to(path).await?;
        Ok(Self { daemon, client })
    }

    async fn inactive(&self) -> Result<u64, BenchError> {
        Ok(self.client.call(GetStats {}).await?.all.job_states.inactive)
    }

    /// Ends the manager.
    pub(super) async fn end(self) {
        self.daemon.finish_jobs().await;
        // Only the writing of an archive can fail, and none is written.
        let _ = self.daemon.shutdown().await;
    }
}
