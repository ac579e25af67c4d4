//! The metrics of a schedule, as defined in the literature.
//!
//! | metric | definition | source |
//! |---|---|---|
//! | wait | start - submission | |
//! | turnaround | end - submission, also called response or flow time | |
//! | bounded slowdown | max(1, turnaround / max(run time, 10 s)) | Feitelson et al. 1997; Mu'alem, Feitelson 2001 |
//! | utilization | core seconds allocated / (cores of the machine × time from the first submission to the last end) | |
//! | fairness | (Σx)² / (n Σx²) over the users' mean bounded slowdowns x: 1 if equal, 1/n at worst | Jain et al. 1984 |
//! | backfill rate | jobs that got resources while a job of their queue was before them / jobs that got resources | |
//!
//! The sources' authors are Feitelson, Rudolph, Schwiegelshohn, Sevcik, Wong (1997); Mu'alem, Feitelson (2001); and
//! Jain, Chiu, Hawe (1984).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::results::{Results, SimulatedJob};
use crate::job::JobResult;

/// The distribution of a value over jobs. All fields are 0 when there are no jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The mean.
    pub mean: f64,
    /// The value that half of the jobs don't exceed.
    pub median: f64,
    /// The value that 90 % of the jobs don't exceed.
    pub p90: f64,
    /// The value that 99 % of the jobs don't exceed.
    pub p99: f64,
    /// The greatest value.
    pub max: f64,
}

impl Distribution {
    /// The distribution of these values. Quantiles are values that occur (nearest rank).
    ///
    /// ```
    /// use jobtap_core::simulation::Distribution;
    ///
    /// let of = Distribution::from_values([4.0, 1.0, 3.0, 2.0]);
    /// assert_eq!((of.mean, of.median, of.p90, of.max), (2.5, 2.0, 4.0, 4.0));
    /// ```
    pub fn from_values(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let Some(max) = values.last().copied() else { return Self::default() };
        let quantile = |share: f64| {
            let rank = (share * values.len() as f64).ceil() as usize;
            values.get(rank.saturating_sub(1)).copied().unwrap_or(max)
        };
        Self {
            mean: values.iter().sum::<f64>() / values.len() as f64,
            median: quantile(0.5),
            p90: quantile(0.9),
            p99: quantile(0.99),
            max,
        }
    }
}

/// The metrics of some of the jobs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The user, the queue, or the sizes in cores.
    pub name: String,
    /// The number of jobs that finished.
    pub jobs: u64,
    /// The core seconds of all jobs in the group, including running ones.
    pub core_seconds: f64,
    /// From submission to start, in seconds.
    pub wait: Distribution,
    /// From submission to end, in seconds.
    pub turnaround: Distribution,
    /// Bounded slowdown.
    pub slowdown: Distribution,
}

/// The metrics of a simulation.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Metrics {
    /// Jobs of the trace that were submitted.
    pub submitted: u64,
    /// Those whose submission was refused.
    pub refused: u64,
    /// Those that ran until they ended by themselves.
    pub completed: u64,
    /// Those that reached their time limit.
    pub timeout: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were canceled.
    pub canceled: u64,
    /// Those that were pending at the end.
    pub pending: u64,
    /// Those that were running at the end.
    pub running: u64,
    /// From the first submission to the last end, in seconds.
    pub makespan: f64,
    /// The share of the machine that was allocated in this time.
    pub utilization: f64,
    /// Jobs that got resources while a job of their queue was before them.
    pub backfilled: u64,
    /// Their share of the jobs that got resources.
    pub backfill_rate: f64,
    /// Jain's index over the users' mean bounded slowdown.
    pub fairness: f64,
    /// From submission to start, in seconds.
    pub wait: Distribution,
    /// From submission to end, in seconds.
    pub turnaround: Distribution,
    /// Bounded slowdown.
    pub slowdown: Distribution,
    /// By user, in the order of their numbers.
    pub users: Vec<Group>,
    /// By size: 1, 2, 3-4, 5-8 and so on, in cores.
    pub sizes: Vec<Group>,
    /// By queue, in the order of their names. Jobs without a queue are under an empty name.
    pub queues: Vec<Group>,
}

/// How long a job had its resources, times its cores. At the end of a simulation it may still have them.
fn core_seconds(job: &SimulatedJob, end: f64) -> f64 {
    let Some(from) = job.allocated else { return 0.0 };
    (job.freed.unwrap_or(end) - from) * job.cores as f64
}

impl Group {
    fn from_jobs(name: String, jobs: &[&SimulatedJob], end: f64) -> Self {
        let ended = || jobs.iter().filter(|job| job.turnaround().is_some());
        Self {
            name,
            jobs: ended().count() as u64,
            core_seconds: jobs.iter().map(|job| core_seconds(job, end)).sum(),
            wait: Distribution::from_values(ended().filter_map(|job| job.wait())),
            turnaround: Distribution::from_values(ended().filter_map(|job| job.turnaround())),
            slowdown: Distribution::from_values(ended().filter_map(|job| job.slowdown())),
        }
    }
}

impl Metrics {
    /// The metrics of a simulation.
    pub fn from_results(results: &Results) -> Self {
        let jobs: Vec<&SimulatedJob> = results.jobs.iter().collect();
        let all = Group::from_jobs(String::new(), &jobs, results.end);
        let count =
            |is: fn(&SimulatedJob) -> bool| jobs.iter().filter(|job| is(job)).count() as u64;
        let users = grouped(&jobs, results.end, |job| job.user, |user| user.to_string());
        let sizes =
            grouped(&jobs, results.end, |job| size_class(job.cores), |class| size_name(*class));
        let queue = |job: &SimulatedJob| job.queue.clone().unwrap_or_default();
        let queues = grouped(&jobs, results.end, queue, |name| name.to_string());
        let first = jobs.iter().map(|job| job.submit).reduce(f64::min).unwrap_or(0.0);
        let last = jobs.iter().filter_map(|job| job.freed.or(job.end)).reduce(f64::max);
        // Jobs that run at the end of an interrupted simulation have used the machine until then.
        let busy = jobs.iter().any(|job| job.allocated.is_some() && job.freed.is_none());
        let last = if busy { results.end } else { last.unwrap_or(first) };
        let makespan = last - first;
        let capacity = makespan * results.cores as f64;
        let allocated = count(|job| job.allocated.is_some());
        let backfilled = count(|job| job.backfilled);
        Self {
            submitted: jobs.len() as u64,
            refused: count(|job| job.refused),
            completed: count(|job| job.result == Some(JobResult::Completed)),
            timeout: count(|job| job.result == Some(JobResult::Timeout)),
            failed: count(|job| job.result == Some(JobResult::Failed)),
            canceled: count(|job| job.result == Some(JobResult::Canceled)),
            pending: count(|job| !job.refused && job.result.is_none() && job.start.is_none()),
            running: count(|job| job.result.is_none() && job.start.is_some()),
            makespan,
            utilization: if capacity > 0.0 { all.core_seconds / capacity } else { 0.0 },
            backfilled,
            backfill_rate: if allocated > 0 { backfilled as f64 / allocated as f64 } else { 0.0 },
            fairness: jain(
                users.iter().filter(|user| user.jobs > 0).map(|user| user.slowdown.mean),
            ),
            wait: all.wait,
            turnaround: all.turnaround,
            slowdown: all.slowdown,
            users,
            sizes,
            queues,
        }
    }
}

fn grouped<'j, K: Ord>(
    jobs: &[&'j SimulatedJob],
    end: f64,
    key: impl Fn(&SimulatedJob) -> K,
    name: impl Fn(&K) -> String,
) -> Vec<Group> {
    let mut groups: BTreeMap<K, Vec<&'j SimulatedJob>> = BTreeMap::new();
    for job in jobs {
        groups.entry(key(job)).or_default().push(job);
    }
    groups.iter().map(|(key, jobs)| Group::from_jobs(name(key), jobs, end)).collect()
}

/// The least power of two that is not below the number of cores, as an exponent.
fn size_class(cores: u64) -> u32 {
    cores.max(1).next_power_of_two().trailing_zeros()
}

fn size_name(class: u32) -> String {
    match class {
        0 | 1 => (1 << class).to_string(),
        _ => format!("{}-{}", (1u64 << (class - 1)) + 1, 1u64 << class),
    }
}

/// Jain's index of fairness; 1 without values.
fn jain(values: impl Iterator<Item = f64>) -> f64 {
    let (mut n, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        n += 1.0;
        sum += value;
        squares += value * value;
    }
    if squares > 0.0 { sum * sum / (n * squares) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::super::trace::TraceJob;
    use super::*;

    fn ended(user: u32, cores: u64, times: [f64; 3]) -> SimulatedJob {
        let [submit, start, end] = times;
        let job = TraceJob { user, cores, ..TraceJob::new(1, end - start) };
        SimulatedJob {
            allocated: Some(start),
            start: Some(start),
            end: Some(end),
            freed: Some(end),
            result: Some(JobResult::Completed),
            ..SimulatedJob::submitted(&job, submit)
        }
    }

    #[test]
    fn metrics_of_three_jobs_are_those_computed_by_hand() {
        let jobs = vec![
            ended(1, 2, [0.0, 0.0, 100.0]),
            ended(1, 4, [10.0, 100.0, 105.0]),
            ended(2, 1, [20.0, 40.0, 60.0]),
        ];
        let metrics =
            Metrics::from_results(&Results { jobs, cores: 4, end: 105.0, ..Results::default() });
        assert_eq!((metrics.makespan, metrics.completed), (105.0, 3));
        assert_eq!(metrics.utilization, (200.0 + 20.0 + 20.0) / 420.0);
        assert_eq!(
            (metrics.wait.mean, metrics.wait.median, metrics.wait.max),
            (110.0 / 3.0, 20.0, 90.0)
        );
        // 100/100; (105 - 10)/10, since it ran for 5 s; 40/20.
        assert_eq!((metrics.slowdown.max, metrics.slowdown.median), (9.5, 2.0));
        let (first, second): (f64, f64) = ((1.0 + 9.5) / 2.0, 2.0);
        let fairness = (first + second).powi(2) / (2.0 * (first * first + second * second));
        assert_eq!(metrics.fairness, fairness);
        let sizes: Vec<&str> = metrics.sizes.iter().map(|group| group.name.as_str()).collect();
        assert_eq!(sizes, ["1", "2", "3-4"]);
    }

    #[test]
    fn fairness_is_one_when_all_fare_alike_and_one_by_n_at_worst() {
        assert_eq!(jain([3.0, 3.0, 3.0].into_iter()), 1.0);
        assert_eq!(jain([1.0, 0.0, 0.0, 0.0].into_iter()), 0.25);
    }

    #[test]
    fn sizes_are_grouped_by_powers_of_two() {
        let names: Vec<String> = [1, 2, 3, 4, 5, 64, 65].map(|n| size_name(size_class(n))).into();
        assert_eq!(names, ["1", "2", "3-4", "3-4", "5-8", "33-64", "65-128"]);
    }
}
