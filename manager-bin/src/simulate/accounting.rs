//! Traces from accounting: `sacct --parsable2`, `flux jobs --json` or `jobtap jobs --json`, and what `jobtap dump` or
//! `flux dump` has written, with the eventlog of each job.
//!
//! Such lists aren't in the order of submission, so they are read as a whole. Their times are UNIX times; second 0 of
//! the trace is the first submission.

use std::collections::BTreeMap;

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jobtap_core::engine::RecordedJob;
use jobtap_core::eventlog::decode_log;
use jobtap_core::jobspec::Jobspec;
use jobtap_core::resource::ResourceSet;
use jobtap_core::simulation::TraceJob;
use serde::Deserialize;

use crate::archive::RecordedJobs;

/// The jobs of a list, with what could not be mapped.
#[derive(Debug, Default)]
pub(super) struct Listed {
    /// The jobs. Their times are UNIX times; what is unknown is -1.
    pub(super) jobs: Vec<TraceJob>,
    /// Jobs that never started.
    pub(super) never_ran: u64,
    /// Broken lines, or jobs of a dump, by number, each with its reason.
    pub(super) broken: Vec<(u64, String)>,
    /// What is not replayed as it was, a sentence each.
    pub(super) notes: Vec<String>,
}

/// Whether a file that begins like this is an archive, as `jobtap dump` and `flux dump` write it.
pub(super) fn is_archive(begin: &[u8]) -> bool {
    begin.get(257..262) == Some(b"ustar") || begin.starts_with(b"BZh")
}

/// Which list a text is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Format {
    /// `sacct --parsable2`.
    Sacct,
    /// `flux jobs --json`.
    Json,
}

impl Format {
    /// The format of a text that begins like this; `None` is SWF.
    pub(super) fn of(begin: &[u8]) -> Option<Self> {
        let text = begin.trim_ascii_start();
        let first_line = text.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let heading = first_line.windows(5).any(|word| word.eq_ignore_ascii_case(b"JobID"));
        match text.first()? {
            b'{' => Some(Self::Json),
            _ if heading && first_line.contains(&b'|') => Some(Self::Sacct),
            _ => None,
        }
    }

    /// Reads a whole list.
    ///
    /// # Errors
    /// Why it is no such list.
    pub(super) fn read(self, bytes: &[u8]) -> Result<Listed, String> {
        match self {
            Self::Sacct => sacct(&String::from_utf8_lossy(bytes)),
            Self::Json => json(&String::from_utf8_lossy(bytes)),
        }
    }
}

/// Numbers for users of whom only the name is known.
#[derive(Debug, Default)]
struct Names(BTreeMap<String, u32>);

impl Names {
    /// The first number: those of people are below on most systems.
    const FIRST: u32 = 100_001;

    fn number(&mut self, name: &str) -> u32 {
        let next = Self::FIRST + u32::try_from(self.0.len()).unwrap_or(0);
        *self.0.entry(name.to_owned()).or_insert(next)
    }
}

/// The columns of sacct that are read. Either of two names of one line is enough.
const COLUMNS: [&str; 17] = [
    "jobid",
    "jobidraw",
    "user",
    "uid",
    "gid",
    "account",
    "partition",
    "submit",
    "start",
    "end",
    "elapsedraw",
    "timelimitraw",
    "timelimit",
    "nnodes",
    "alloccpus",
    "reqcpus",
    "jobname",
];

fn sacct(text: &str) -> Result<Listed, String> {
    let mut lines = text.lines().zip(1u64..);
    let Some((heading, _)) = lines.find(|(line, _)| !line.trim().is_empty()) else {
        return Err("it is empty".to_owned());
    };
    let columns: Vec<String> =
        heading.split('|').map(|name| name.trim().to_ascii_lowercase()).collect();
    let column = |names: &[&str]| names.iter().find_map(|n| columns.iter().position(|c| c == n));
    let needed = |names: &[&str]| {
        column(names).ok_or_else(|| format!("there is no column {}", names.join(" or ")))
    };
    let (id, submit) = (needed(&["jobidraw", "jobid"])?, needed(&["submit"])?);
    let (start, end) = (needed(&["start"])?, needed(&["end"])?);
    let cpus = needed(&["alloccpus", "ncpus", "reqcpus"])?;
    let requested = column(&["reqcpus"]);
    let (user, uid, gid) = (column(&["user"]), column(&["uid"]), column(&["gid"]));
    let (nodes, partition) = (column(&["nnodes", "allocnodes"]), column(&["partition"]));
    let (raw_limit, limit) = (column(&["timelimitraw"]), column(&["timelimit"]));
    let (account, name) = (column(&["account"]), column(&["jobname"]));
    let mut listed = Listed::default();
    let (mut names, mut steps, mut named) = (Names::default(), 0u64, 0u64);
    for (line, number) in lines {
        if line.trim().is_empty() {
            continue;
        }
        let cells: Vec<&str> = line.split('|').collect();
        if cells.len() != columns.len() {
            let (found, expected) = (cells.len(), columns.len());
            listed.broken.push((number, format!("{found} columns instead of {expected}")));
            continue;
        }
        let cell = |index: usize| cells.get(index).copied().unwrap_or_default().trim();
        let some = |index: Option<usize>| index.map(cell).filter(|text| !text.is_empty());
        if cell(id).contains('.') {
            steps += 1;
            continue;
        }
        let (Some(submit), start, end) = (time(cell(submit)), time(cell(start)), time(cell(end)))
        else {
            listed.broken.push((number, format!("no time of submission: {:?}", cell(submit))));
            continue;
        };
        if start.is_none() && end.is_some() {
            listed.never_ran += 1;
            continue;
        }
        let run_time = start.zip(end).map_or(-1.0, |(start, end)| end - start);
        let whole = |index| some(index).and_then(|text: &str| text.parse::<u64>().ok());
        let cores = whole(Some(cpus)).filter(|n| *n > 0).or_else(|| whole(requested)).unwrap_or(0);
        let minutes = some(raw_limit).and_then(|minutes| minutes.parse::<f64>().ok());
        let allowed = minutes.map(|minutes| minutes * 60.0).or_else(|| some(limit).and_then(span));
        let number = cell(id).split(['_', '+']).next().and_then(|id| id.parse().ok());
        let user_name = some(user);
        let user = match some(uid).and_then(|uid| uid.parse().ok()) {
            Some(uid) => uid,
            None => {
                named += 1;
                names.number(user_name.unwrap_or_default())
            }
        };
        listed.jobs.push(TraceJob {
            submit,
            run_time,
            cores,
            nodes: whole(nodes).unwrap_or(0).min(cores),
            time_limit: allowed.filter(|limit| *limit > 0.0),
            user,
            user_name: user_name.map(Box::from),
            group: some(gid).and_then(|gid| gid.parse().ok()),
            // A job may name several partitions; it ran in the first one that had room.
            queue: some(partition).and_then(|p| p.split(',').next()).map(Box::from),
            name: some(name).map(Box::from),
            bank: some(account).map(Box::from),
            ..TraceJob::new(number.unwrap_or(0), 0.0)
        });
    }
    if steps > 0 {
        listed.notes.push(format!("{steps} lines are steps of jobs, which are not replayed"));
    }
    if named > 0 {
        let text =
            "jobs have no UID: their users are numbered from 100001 in the order of the list";
        listed.notes.push(format!("{named} {text}"));
    }
    let known = |name: &&String| {
        !COLUMNS.contains(&name.as_str()) && *name != "ncpus" && *name != "allocnodes"
    };
    let unused: Vec<&str> = columns.iter().filter(known).map(String::as_str).collect();
    if !unused.is_empty() {
        listed.notes.push(format!("columns that are not replayed: {}", unused.join(", ")));
    }
    if limit.is_none() && raw_limit.is_none() {
        listed.notes.push("there is no column timelimit or timelimitraw".to_owned());
    }
    Ok(listed)
}

/// A time of sacct in UNIX seconds: a local time, or seconds with `SLURM_TIME_FORMAT=%s`. `Unknown` and `None` are
/// no time.
fn time(text: &str) -> Option<f64> {
    if let Ok(seconds) = text.parse::<u64>() {
        return Some(seconds as f64);
    }
    let local: DateTime = text.parse().ok()?;
    let zoned = local.to_zoned(TimeZone::system()).ok()?;
    Some(zoned.timestamp().as_second() as f64)
}

/// A span of sacct in seconds: `[D-]HH:MM:SS`. Limits like `UNLIMITED` are no limit.
fn span(text: &str) -> Option<f64> {
    let (days, clock) = match text.split_once('-') {
        Some((days, clock)) => (days.parse::<f64>().ok()?, clock),
        None => (0.0, text),
    };
    let parts: Option<Vec<f64>> = clock.split(':').map(|part| part.parse().ok()).collect();
    match *parts?.as_slice() {
        [hours, minutes, seconds] => {
            Some(days * 86_400.0 + hours * 3600.0 + minutes * 60.0 + seconds)
        }
        [minutes, seconds] => Some(minutes * 60.0 + seconds),
        _ => None,
    }
}

/// `flux jobs --json`.
#[derive(Debug, Deserialize)]
struct Jobs {
    jobs: Vec<Job>,
}

/// What is read of a job. Keys that the list doesn't have are unknown.
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

fn json(text: &str) -> Result<Listed, String> {
    // `flux jobs --json ID` prints the job alone.
    let jobs = match serde_json::from_str::<Jobs>(text) {
        Ok(list) => list.jobs,
        Err(error) => match serde_json::from_str::<Job>(text) {
            Ok(job) if job.t_submit.is_some() => vec![job],
            _ => return Err(format!("it is no output of flux jobs --json: {error}")),
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
        (cores_of_tasks, "jobs have no number of cores: one for each task"),
        (dependent, "jobs had dependencies, which are not replayed"),
        (active, "jobs were active; without an end they are left out"),
    ] {
        if count > 0 {
            listed.notes.push(format!("{count} {text}"));
        }
    }
    Ok(listed)
}

/// Maps the jobs that a manager has recorded.
pub(super) fn of_recorded(recorded: RecordedJobs) -> Listed {
    let mut listed = Listed::default();
    for (job, number) in recorded.jobs.iter().zip(1u64..) {
        match traced(number, job) {
            Ok(Some(job)) => listed.jobs.push(job),
            Ok(None) => listed.never_ran += 1,
            Err(reason) => listed.broken.push((number, format!("{}: {reason}", job.id))),
        }
    }
    for ((id, reason), number) in
        recorded.unusable.into_iter().zip(recorded.jobs.len() as u64 + 1..)
    {
        listed.broken.push((number, format!("{id}: {reason}")));
    }
    listed
}

/// The job of a trace; `None` when it ended before it started.
fn traced(number: u64, stored: &RecordedJob) -> Result<Option<TraceJob>, String> {
    let log = decode_log(&stored.eventlog).map_err(|error| error.to_string())?;
    let jobspec = Jobspec::stored(stored.jobspec.clone()).map_err(|error| error.to_string())?;
    let find = |name: &str| log.iter().find(|entry| entry.name == name);
    let at = |name| find(name).map(|entry| entry.timestamp.as_secs());
    let submit = find("submit").ok_or("its eventlog has no submit")?;
    let number_of =
        |key: &str| submit.context.as_ref().and_then(|context| context.get(key)?.as_u64());
    let end = at("finish").or_else(|| at("clean"));
    if at("start").is_none() && end.is_some() {
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
        run_time: at("start").zip(end).map_or(-1.0, |(start, end)| end - start),
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

    const SACCT: &str = "\
JobIDRaw|User|UID|Account|Partition|Submit|Start|End|TimelimitRaw|NNodes|AllocCPUS|JobName|State|MaxRSS
101|ada|1001|phys|batch,long|1700000000|1700000060|1700000160|5|2|8|relax|COMPLETED|
101.batch|||phys||1700000060|1700000060|1700000160||1|4|batch|COMPLETED|3K
102|bob|1002|chem|batch|1699999990|Unknown|1700000500|5|1|4|x|CANCELLED by 1002|
103|bob|1002|chem|batch|1700000100|1700000200|Unknown|5|1|4|x|RUNNING|
104|bob|1002
";

    #[test]
    fn jobs_of_sacct_are_mapped() {
        assert_eq!(Format::of(SACCT.as_bytes()), Some(Format::Sacct));
        let listed = Format::Sacct.read(SACCT.as_bytes()).unwrap();
        let job = &listed.jobs[0];
        assert_eq!((job.number, job.user, job.cores, job.nodes), (101, 1001, 8, 2));
        assert_eq!((job.submit, job.run_time, job.time_limit), (1.7e9, 100.0, Some(300.0)));
        assert_eq!((job.queue.as_deref(), job.bank.as_deref()), (Some("batch"), Some("phys")));
        assert_eq!((listed.jobs[1].number, listed.jobs[1].run_time), (103, -1.0));
        assert_eq!(listed.never_ran, 1);
        assert_eq!(listed.broken, [(6, "3 columns instead of 14".to_owned())]);
        assert_eq!(
            listed.notes,
            [
                "1 lines are steps of jobs, which are not replayed",
                "columns that are not replayed: state, maxrss"
            ]
        );
    }

    #[test]
    fn a_list_without_a_needed_column_is_refused() {
        let error = Format::Sacct.read(b"JobID|Start|End|NCPUS\n").unwrap_err();
        assert_eq!(error, "there is no column submit");
    }

    #[test]
    fn times_and_spans_of_sacct_are_read() {
        assert_eq!(time("1700000000"), Some(1.7e9));
        let later = time("2026-01-31T12:00:10").unwrap() - time("2026-01-31T12:00:00").unwrap();
        assert_eq!(later, 10.0);
        assert_eq!((time("Unknown"), time("None")), (None, None));
        assert_eq!(span("2-01:00:30"), Some(2.0 * 86_400.0 + 3630.0));
        assert_eq!((span("01:30:00"), span("UNLIMITED")), (Some(5400.0), None));
    }

    #[test]
    fn jobs_of_flux_are_mapped() {
        let text = r#"{"jobs": [
            {"id": 7, "userid": 1001, "urgency": 20, "t_submit": 100.5, "t_run": 110.5, "t_cleanup": 130.5,
             "t_inactive": 131.0, "ntasks": 2, "ncores": 8, "nnodes": 2, "duration": 3600.0, "queue": "batch",
             "name": "app", "state": "INACTIVE"},
            {"id": 8, "userid": 1001, "t_submit": 90.0, "t_inactive": 95.0, "ntasks": 1, "state": "INACTIVE"},
            {"id": 9, "userid": 1001, "t_submit": 95.0, "ntasks": 3, "state": "RUN"}]}"#;
        assert_eq!(Format::of(text.as_bytes()), Some(Format::Json));
        let listed = Format::Json.read(text.as_bytes()).unwrap();
        let job = &listed.jobs[0];
        assert_eq!((job.submit, job.run_time, job.cores, job.nodes), (100.5, 20.0, 8, 2));
        assert_eq!(
            (job.urgency, job.time_limit, job.queue.as_deref()),
            (20, Some(3600.0), Some("batch"))
        );
        assert_eq!((listed.never_ran, listed.jobs.len()), (1, 2));
        assert_eq!((listed.jobs[1].cores, listed.jobs[1].run_time), (3, -1.0));
        assert_eq!(listed.notes.len(), 2);
        assert!(Format::Json.read(b"{\"a\": 1}").unwrap_err().contains("no output of flux jobs"));
    }

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
        let reasons: Vec<&str> = listed.broken.iter().map(|(_, reason)| &**reason).collect();
        assert!(reasons[0].starts_with("ƒ9: eventlog line 1: "), "{reasons:?}");
        assert_eq!(reasons[1], "ƒA: it has no jobspec");
    }

    #[test]
    fn other_texts_are_swf() {
        assert_eq!(Format::of(b"; Computer: x\n"), None);
        assert_eq!(Format::of(b"1 0 -1 5 1 -1\n"), None);
        assert_eq!(Format::of(b""), None);
    }
}
