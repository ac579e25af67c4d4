//! What-if: failures of nodes, maintenance and bursts of jobs that are added to a trace, from a TOML file.

use std::collections::VecDeque;
use std::path::Path;

use jobtap_core::engine::{DrainMode, NodeRequest, Request};
use jobtap_core::job::Fsd;
use jobtap_core::simulation::TraceJob;
use jobtap_daemon::files::input;
use serde::Deserialize;

use crate::error::{ScenarioFault, SimulateError};

/// The file.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Scenario {
    #[serde(default)]
    node_failure: Vec<NodeFailure>,
    #[serde(default)]
    maintenance: Vec<Maintenance>,
    #[serde(default)]
    burst: Vec<Burst>,
}

/// Nodes that fail. Their jobs end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct NodeFailure {
    /// Ranks or hosts.
    nodes: String,
    /// When, from the start of the trace.
    at: Fsd,
    /// For how long; without it they never come back.
    r#for: Option<Fsd>,
}

/// Nodes that are reserved for maintenance.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Maintenance {
    nodes: String,
    /// When it begins, from the start of the trace.
    at: Fsd,
    r#for: Fsd,
    /// How long before its start the scheduler knows of it; if not set, from the start of the trace.
    notice: Option<Fsd>,
}

/// Jobs that a user submits in a row.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Burst {
    user: u32,
    at: Fsd,
    jobs: u64,
    /// The time from one submission to the next; 0 by default.
    every: Option<Fsd>,
    cores: u64,
    run: Fsd,
    /// The time limit; the run time by default.
    limit: Option<Fsd>,
    queue: Option<String>,
}

fn parse(path: &Path) -> Result<Scenario, ScenarioFault> {
    let scenario: Scenario = toml::from_str(&input::text(path)?)?;
    match scenario.burst.iter().find(|burst| burst.jobs > MOST_JOBS || burst.cores == 0) {
        Some(burst) if burst.cores == 0 => Err(ScenarioFault::NoCores),
        Some(_) => Err(ScenarioFault::TooManyJobs { most: MOST_JOBS }),
        None => Ok(scenario),
    }
}

/// The most jobs of one burst, so that a typo doesn't use up all memory.
const MOST_JOBS: u64 = 10_000_000;

/// The first number of jobs of bursts, above the numbers of any trace.
const FIRST_NUMBER: u64 = 1 << 40;

impl Scenario {
    /// Reads the file.
    ///
    /// # Errors
    /// It can't be read, or has a mistake.
    pub fn read(path: &Path) -> Result<Self, SimulateError> {
        parse(path).map_err(|fault| SimulateError::Scenario { path: path.to_owned(), fault })
    }

    /// Requests with their times in seconds from the start of the trace, which is at `start` in UNIX seconds.
    pub fn requests(&self, start: f64) -> Vec<(f64, Request)> {
        let mut requests = Vec::new();
        let reason = || Some("what-if".to_owned());
        for failure in &self.node_failure {
            let (targets, at) = (failure.nodes.clone(), failure.at.as_secs());
            let offline = NodeRequest::Offline { targets: targets.clone(), reason: reason() };
            requests.push((at, Request::Nodes(offline)));
            if let Some(duration) = failure.r#for {
                let back = at + duration.as_secs();
                let online = NodeRequest::Online { targets: targets.clone() };
                requests.push((back, Request::Nodes(online)));
                let undrain =
                    NodeRequest::Undrain { targets, reason: reason(), mode: DrainMode::Update };
                requests.push((back, Request::Nodes(undrain)));
            }
        }
        for maintenance in &self.maintenance {
            let at = maintenance.at.as_secs();
            let notice = maintenance.notice.map_or(at, |notice| notice.as_secs());
            let add = NodeRequest::AddMaintenance {
                targets: maintenance.nodes.clone(),
                from: Some(start + at),
                to: Some(start + at + maintenance.r#for.as_secs()),
                reason: "what-if".to_owned(),
            };
            requests.push(((at - notice).max(0.0), Request::Nodes(add)));
        }
        requests
    }

    /// The jobs of the bursts in the order of their submission.
    pub fn jobs(&self) -> VecDeque<TraceJob> {
        let mut jobs: Vec<TraceJob> = Vec::new();
        for burst in &self.burst {
            let every = burst.every.map_or(0.0, |every| every.as_secs());
            for n in 0..burst.jobs {
                let limit = burst.limit.unwrap_or(burst.run).as_secs().max(1.0);
                jobs.push(TraceJob {
                    submit: burst.at.as_secs() + every * n as f64,
                    cores: burst.cores,
                    time_limit: Some(limit),
                    user: burst.user,
                    queue: burst.queue.as_deref().map(Box::from),
                    ..TraceJob::new(FIRST_NUMBER + jobs.len() as u64, burst.run.as_secs())
                });
            }
        }
        jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
        jobs.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Scenario, SimulateError> {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), text).unwrap();
        Scenario::read(file.path())
    }

    #[test]
    fn a_failed_node_comes_back() {
        let scenario =
            read("[[node-failure]]\nnodes = \"3-5\"\nat = \"2h\"\nfor = \"30m\"").unwrap();
        let times: Vec<f64> = scenario.requests(0.0).into_iter().map(|(at, _)| at).collect();
        assert_eq!(times, [7200.0, 9000.0, 9000.0]);
    }

    #[test]
    fn a_maintenance_is_known_before_it_begins() {
        let text = "[[maintenance]]\nnodes = \"0\"\nat = \"10h\"\nfor = \"1h\"\nnotice = \"2h\"";
        let requests = read(text).unwrap().requests(1e9);
        let [(at, Request::Nodes(NodeRequest::AddMaintenance { from, to, .. }))] = &*requests
        else {
            panic!("{requests:?}");
        };
        assert_eq!((*at, *from, *to), (28_800.0, Some(1e9 + 36_000.0), Some(1e9 + 39_600.0)));
    }

    #[test]
    fn bursts_are_in_the_order_of_their_times() {
        let burst = |user: u32, at: &str, every: &str| {
            format!(
                "[[burst]]\nuser = {user}\nat = \"{at}\"\njobs = 2\nevery = \"{every}\"\ncores = 4\nrun = \"10m\"\n"
            )
        };
        let jobs = read(&(burst(7, "10s", "20s") + &burst(8, "15s", "1s"))).unwrap().jobs();
        let order: Vec<_> = jobs.iter().map(|job| (job.user, job.submit)).collect();
        assert_eq!(order, [(7, 10.0), (8, 15.0), (8, 16.0), (7, 30.0)]);
        assert_eq!((jobs[0].run_time, jobs[0].time_limit), (600.0, Some(600.0)));
    }

    #[test]
    fn a_file_with_a_mistake_is_refused_with_its_place() {
        let error = read("[[node-failure]]\nnode = \"3\"").unwrap_err().to_string();
        assert!(error.contains("--what-if=") && error.contains("unknown field `node`"), "{error}");
        let error = read("[[burst]]\nuser=1\nat=\"1s\"\njobs=3\ncores=0\nrun=\"1s\"");
        let error = error.unwrap_err().to_string();
        assert!(error.contains("a burst needs cores"), "{error}");
    }
}
