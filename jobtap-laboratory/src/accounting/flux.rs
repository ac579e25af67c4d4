//! The output of `flux jobs --json` or `jobtap jobs --json`.

use jobtap_core::simulation::TraceJob;
use serde::Deserialize;

use super::listed::{Listed, Names};
use crate::error::ListFault;

/// The whole output.
#[derive(Debug, Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

/// The keys of a job that are read. The values of missing keys are unknown.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Job {
    userid: Option<u32>,
    username: Option<String>,
    urgency: Option<u8>,
    t_submit: Option<f64>,
    t_run: Option<f64>,
    t_cleanup: Option<f64>,
    t_inactive: Option<f64>,
    ntasks: Option<u64>,
    ncores: Option<u64>,
    nnodes: Option<u64>,
    duration: Option<f64>,
    queue: Option<String>,
    name: Option<String>,
    bank: Option<String>,
    state: Option<String>,
    dependencies: Option<serde_json::Value>,
}

/// Reads the list.
///
/// # Errors
/// [`ListFault::NoJson`].
pub(super) fn read(text: &str) -> Result<Listed, ListFault> {
    // `flux jobs --json ID` prints the job alone.
    let jobs = match serde_json::from_str::<Jobs>(text) {
        Ok(list) => list.jobs,
        Err(error) => match serde_json::from_str::<Job>(text) {
            Ok(job) if job.t_submit.is_some() => vec![job],
            _ => return Err(ListFault::NoJson(error)),
        },
    };
    let mut listed = Listed::default();
    let (mut names, mut cores_of_tasks, mut dependent, mut active) =
        (Names::default(), 0u64, 0u64, 0u64);
    for (job, number) in jobs.into_iter().zip(1u64..) {
        let end = job.t_cleanup.or(job.t_inactive).filter(|end| *end > 0.0);
        let start = job.t_run.filter(|start| *start > 0.0);
        if start.is_none() && end.is_some() {
            listed.never_ran += 1;
            continue;
        }
        let run_time = start.zip(end).map_or(-1.0, |(start, end)| end - start);
        active += u64::from(job.state.is_some_and(|state| state != "INACTIVE"));
        let depends = job.dependencies.as_ref().and_then(serde_json::Value::as_array);
        dependent += u64::from(depends.is_some_and(|depends| !depends.is_empty()));
        cores_of_tasks += u64::from(job.ncores.is_none());
        let cores = job.ncores.or(job.ntasks).unwrap_or(0);
        let named = job.username.as_deref().map(|name| names.number(name));
        listed.jobs.push(TraceJob {
            submit: job.t_submit.unwrap_or(-1.0),
            run_time,
            cores,
            nodes: job.nnodes.unwrap_or(0).min(cores),
            time_limit: job.duration.filter(|limit| *limit > 0.0),
            user: job.userid.or(named).unwrap_or(0),
            user_name: job.username.map(Box::from),
            queue: job.queue.map(Box::from),
            name: job.name.map(Box::from),
            bank: job.bank.map(Box::from),
            urgency: job.urgency.unwrap_or(16).min(31),
            ..TraceJob::new(number, 0.0)
        });
    }
    for (count, text) in [
        (cores_of_tasks, "jobs without a number of cores, replayed with one for each task"),
        (dependent, "jobs with dependencies, which are not replayed"),
        (active, "active jobs, left out if they have no end"),
    ] {
        if count > 0 {
            listed.notes.push(format!("{text}: {count}"));
        }
    }
    Ok(listed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_flux_are_mapped() {
        let text = r#"{"jobs": [
            {"id": 7, "userid": 1001, "urgency": 20, "t_submit": 100.5, "t_run": 110.5, "t_cleanup": 130.5,
             "t_inactive": 131.0, "ntasks": 2, "ncores": 8, "nnodes": 2, "duration": 3600.0, "queue": "batch",
             "name": "app", "state": "INACTIVE"},
            {"id": 8, "userid": 1001, "t_submit": 90.0, "t_inactive": 95.0, "ntasks": 1, "state": "INACTIVE"},
            {"id": 9, "userid": 1001, "t_submit": 95.0, "ntasks": 3, "state": "RUN"}]}"#;
        let listed = read(text).unwrap();
        let job = &listed.jobs[0];
        assert_eq!((job.submit, job.run_time, job.cores, job.nodes), (100.5, 20.0, 8, 2));
        assert_eq!(
            (job.urgency, job.time_limit, job.queue.as_deref()),
            (20, Some(3600.0), Some("batch"))
        );
        assert_eq!((listed.never_ran, listed.jobs.len()), (1, 2));
        assert_eq!((listed.jobs[1].cores, listed.jobs[1].run_time), (3, -1.0));
        assert_eq!(listed.notes.len(), 2);
        assert!(read("{\"a\": 1}").unwrap_err().to_string().contains("no output of flux jobs"));
    }
}
