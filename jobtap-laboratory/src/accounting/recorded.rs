//! The jobs, with their eventlogs, of a dump by `jobtap dump` or `flux dump`, or of a state directory.

use jobtap_core::engine::RecordedJob;
use jobtap_core::eventlog::{LogError, Name, decode_log};
use jobtap_core::jobspec::{Jobspec, JobspecError};
use jobtap_core::resource::ResourceSet;
use jobtap_core::simulation::TraceJob;
use jobtap_daemon::archive::RecordedJobs;
use thiserror::Error;

use super::listed::Listed;

/// Maps the jobs that a manager has recorded.
pub(crate) fn of_recorded(recorded: RecordedJobs) -> Listed {
    let mut listed = Listed::default();
    for (job, number) in recorded.jobs.iter().zip(1u64..) {
        match traced(number, job) {
            Ok(Some(job)) => listed.jobs.push(job),
            Ok(None) => listed.never_ran += 1,
            Err(reason) => listed.broken.push(format!("{}: {reason}", job.id)),
        }
    }
    let unusable = recorded.unusable.into_iter();
    listed.broken.extend(unusable.map(|(id, reason)| format!("{id}: {reason}")));
    listed
}

/// Why a recorded job can't be replayed.
#[derive(Debug, Error)]
enum RecordError {
    #[error(transparent)]
    Eventlog(#[from] LogError),
    #[error(transparent)]
    Jobspec(#[from] JobspecError),
    #[error("its eventlog has no submit")]
    NoSubmit,
}

/// The job for a trace; `None` if it ended before it started.
fn traced(number: u64, stored: &RecordedJob) -> Result<Option<TraceJob>, RecordError> {
    let log = decode_log(&stored.eventlog)?;
    let jobspec = Jobspec::stored(stored.jobspec.clone())?;
    let find = |name: Name| log.iter().find(|entry| entry.name == name);
    let at = |name| find(name).map(|entry| entry.timestamp.as_secs());
    let submit = find(Name::Submit).ok_or(RecordError::NoSubmit)?;
    let number_of =
        |key: &str| submit.context.as_ref().and_then(|context| context.get(key)?.as_u64());
    let end = at(Name::Finish).or_else(|| at(Name::Clean));
    if at(Name::Start).is_none() && end.is_some() {
        return Ok(None);
    }
    let allocated: Option<ResourceSet> =
        stored.resources.as_ref().and_then(|text| text.parse().ok());
    let counts = jobspec.counts();
    let (cores, nodes) = match &allocated {
        Some(resources) => (resources.ncores() as u64, resources.nnodes() as u64),
        None => (counts.ncores(), counts.nnodes),
    };
    let bank = jobspec.attribute("bank").and_then(serde_json::Value::as_str);
    Ok(Some(TraceJob {
        submit: submit.timestamp.as_secs(),
        run_time: at(Name::Start).zip(end).map_or(-1.0, |(start, end)| end - start),
        cores,
        nodes: nodes.min(cores),
        time_limit: Some(jobspec.duration()).filter(|limit| *limit > 0.0),
        user: number_of("userid").and_then(|user| u32::try_from(user).ok()).unwrap_or(0),
        urgency: number_of("urgency").and_then(|n| u8::try_from(n).ok()).unwrap_or(16).min(31),
        queue: jobspec.queue().map(Box::from),
        name: Some(jobspec.display_name().into()),
        bank: bank.map(Box::from),
        ..TraceJob::new(number, 0.0)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_of_a_dump_are_mapped() {
        use jobtap_core::job::JobId;
        use jobtap_core::jobspec::JobspecBuilder;

        let jobspec =
            JobspecBuilder::new(["app"]).ntasks(4).duration(600.0).queue("batch").to_value();
        let submit = r#"{"timestamp":100.5,"name":"submit","context":{"userid":1001,"urgency":20,"flags":0}}"#;
        let start = r#"{"timestamp":110.5,"name":"start"}"#;
        let finish = r#"{"timestamp":130.5,"name":"finish","context":{"status":0}}"#;
        let recorded = |id, eventlog| RecordedJob {
            id: JobId::new(id),
            eventlog,
            jobspec: jobspec.to_string(),
            resources: None,
        };
        let listed = of_recorded(RecordedJobs {
            jobs: vec![
                recorded(7, format!("{submit}\n{start}\n{finish}\n")),
                recorded(8, "{".to_owned()),
            ],
            unusable: vec![(JobId::new(9), "it has no jobspec".to_owned())],
        });
        let job = &listed.jobs[0];
        assert_eq!((job.submit, job.run_time, job.cores, job.user), (100.5, 20.0, 4, 1001));
        assert_eq!(
            (job.urgency, job.time_limit, job.queue.as_deref()),
            (20, Some(600.0), Some("batch"))
        );
        assert!(listed.broken[0].starts_with("ƒ9: eventlog line 1: "), "{:?}", listed.broken);
        assert_eq!(listed.broken[1], "ƒA: it has no jobspec");
    }
}
