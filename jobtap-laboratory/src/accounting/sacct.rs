//! The output of `sacct --parsable2`.

use jiff::civil::DateTime;
use jiff::tz::TimeZone;
use jobtap_core::simulation::TraceJob;
use thiserror::Error;

use super::listed::{Listed, Names};
use crate::error::ListFault;

/// Where the columns are.
struct Columns {
    names: Vec<String>,
    id: usize,
    submit: usize,
    start: usize,
    end: usize,
    cpus: Option<usize>,
    requested_cpus: Option<usize>,
    /// Lists such as `cpu=4,gres/gpu=2,node=1`: what the job had, and what it asked for.
    tres: [Option<usize>; 2],
    /// Lists such as `gpu:2`, which older versions of Slurm have instead.
    gres: [Option<usize>; 2],
    user: Option<usize>,
    uid: Option<usize>,
    gid: Option<usize>,
    nodes: Option<usize>,
    partition: Option<usize>,
    limit_in_minutes: Option<usize>,
    limit: Option<usize>,
    account: Option<usize>,
    job_name: Option<usize>,
}

impl Columns {
    /// Reads the first line.
    ///
    /// # Errors
    /// [`ListFault::NoColumn`].
    fn from_heading(heading: &str) -> Result<Self, ListFault> {
        let names: Vec<String> =
            heading.split('|').map(|name| name.trim().to_ascii_lowercase()).collect();
        let find = |name: &str| names.iter().position(|known| known == name);
        // If a column can have several names, the first one that is present counts.
        let needed = |all: &'static [&'static str]| {
            let found = all.iter().find_map(|name| find(name));
            found.ok_or(ListFault::NoColumn(all))
        };
        Ok(Self {
            id: needed(&["jobidraw", "jobid"])?,
            submit: needed(&["submit"])?,
            start: needed(&["start"])?,
            end: needed(&["end"])?,
            cpus: needed(&["alloccpus", "ncpus", "reqcpus", "alloctres", "reqtres"])
                .map(|_| ["alloccpus", "ncpus", "reqcpus"].into_iter().find_map(find))?,
            tres: [find("alloctres"), find("reqtres")],
            gres: [find("allocgres"), find("reqgres")],
            requested_cpus: find("reqcpus"),
            user: find("user"),
            uid: find("uid"),
            gid: find("gid"),
            nodes: find("nnodes").or_else(|| find("allocnodes")),
            partition: find("partition"),
            limit_in_minutes: find("timelimitraw"),
            limit: find("timelimit"),
            account: find("account"),
            job_name: find("jobname"),
            names,
        })
    }

    /// The names of the columns that are not read.
    fn unused(&self) -> Vec<&str> {
        let read = [
            Some(self.id),
            Some(self.submit),
            Some(self.start),
            Some(self.end),
            self.cpus,
            self.requested_cpus,
            self.user,
            self.uid,
            self.gid,
            self.nodes,
            self.partition,
            self.limit_in_minutes,
            self.limit,
            self.account,
            self.job_name,
            self.tres[0],
            self.tres[1],
            self.gres[0],
            self.gres[1],
        ];
        let is_unused = |(index, name): &(usize, &String)| {
            // `--parsable` ends each line with a bar, so that its last column has no name.
            !name.is_empty() && !read.contains(&Some(*index))
        };
        let unused = self.names.iter().enumerate().filter(is_unused);
        unused.map(|(_, name)| name.as_str()).collect()
    }
}

/// The kind of a line.
enum Line {
    Job(Box<TraceJob>),
    NeverRan,
    /// A part of a job, which has a line of its own.
    Step,
}

/// A line that describes no job.
#[derive(Debug, Error)]
enum LineError {
    #[error("{found} columns instead of {expected}")]
    Columns { found: usize, expected: usize },
    #[error("{column}: {text:?} is no time")]
    NoTime { column: String, text: String },
    /// It doesn't say when the job was submitted.
    #[error("no time of submission: {0:?}")]
    NoSubmission(String),
}

/// The cells of a line.
struct Row<'t> {
    columns: &'t Columns,
    cells: Vec<&'t str>,
}

impl<'t> Row<'t> {
    /// # Errors
    /// [`LineError::Columns`].
    fn parse(columns: &'t Columns, line: &'t str) -> Result<Self, LineError> {
        let cells: Vec<&str> = line.split('|').collect();
        match (cells.len(), columns.names.len()) {
            (found, expected) if found == expected => Ok(Self { columns, cells }),
            (found, expected) => Err(LineError::Columns { found, expected }),
        }
    }

    fn cell(&self, index: usize) -> &'t str {
        self.cells.get(index).copied().unwrap_or_default().trim()
    }

    /// A cell, if it exists and is not empty.
    fn some(&self, index: Option<usize>) -> Option<&'t str> {
        index.map(|index| self.cell(index)).filter(|text| !text.is_empty())
    }

    /// A count in the lists of resources; of what the job asked for if it never had any.
    fn tres(&self, count: fn(&Tres) -> Option<u64>) -> Option<u64> {
        let tres = self.columns.tres.into_iter().map(|column| self.some(column).map(Tres::of_tres));
        let gres = self.columns.gres.into_iter().map(|column| self.some(column).map(Tres::of_gres));
        tres.chain(gres).flatten().find_map(|list| count(&list))
    }

    /// A whole number.
    fn whole(&self, index: Option<usize>) -> Option<u64> {
        self.some(index)?.parse().ok()
    }

    /// The time limit in seconds.
    fn limit(&self) -> Option<f64> {
        let minutes = self.some(self.columns.limit_in_minutes).and_then(|text| text.parse().ok());
        let seconds = minutes.map(|minutes: f64| minutes * 60.0);
        seconds.or_else(|| span(self.some(self.columns.limit)?)).filter(|limit| *limit > 0.0)
    }

    /// Reads the line. The user of a job without a UID gets a number from `names`.
    ///
    /// # Errors
    /// [`LineError`] about a time.
    fn read(&self, names: &mut Names) -> Result<Line, LineError> {
        let columns = self.columns;
        let id = self.cell(columns.id);
        if id.contains('.') {
            return Ok(Line::Step);
        }
        let [submitted, start, end] = [columns.submit, columns.start, columns.end].map(|index| {
            let text = self.cell(index);
            time(text).map_err(|NoTime| LineError::NoTime {
                column: columns.names.get(index).cloned().unwrap_or_default(),
                text: text.to_owned(),
            })
        });
        let (submitted, start, end) = (submitted?, start?, end?);
        let Some(submit) = submitted else {
            return Err(LineError::NoSubmission(self.cell(columns.submit).to_owned()));
        };
        if start.is_none() && end.is_some() {
            return Ok(Line::NeverRan);
        }
        // A pending job has no CPUs yet.
        let allocated = self.whole(columns.cpus).filter(|cores| *cores > 0);
        let cores = allocated.or_else(|| self.whole(columns.requested_cpus));
        let cores = cores.or_else(|| self.tres(|list| list.cpus)).unwrap_or(0);
        let gpus = self.tres(|list| list.gpus).unwrap_or(0);
        let nodes = self.whole(columns.nodes).or_else(|| self.tres(|list| list.nodes));
        // Without a number of nodes the GPUs are those of one node.
        let nodes = nodes.unwrap_or(u64::from(gpus > 0)).min(cores);
        let name = self.some(columns.user);
        let uid = self.some(columns.uid).and_then(|uid| uid.parse().ok());
        // The number of the job, without the task of an array (`JOB_TASK`) or the part of a heterogeneous job
        // (`JOB+PART`).
        let number = id.split(['_', '+']).next().and_then(|id| id.parse().ok());
        // A job may name several partitions; it ran in the first one that had room.
        let partition = self.some(columns.partition).and_then(|all| all.split(',').next());
        Ok(Line::Job(Box::new(TraceJob {
            submit,
            run_time: start.zip(end).map_or(-1.0, |(start, end)| end - start),
            cores,
            nodes,
            gpus: gpus.div_ceil(nodes.max(1)),
            time_limit: self.limit(),
            user: uid.unwrap_or_else(|| names.number(name.unwrap_or_default())),
            user_name: name.map(Box::from),
            group: self.some(columns.gid).and_then(|gid| gid.parse().ok()),
            queue: partition.map(Box::from),
            name: self.some(columns.job_name).map(Box::from),
            bank: self.some(columns.account).map(Box::from),
            ..TraceJob::new(number.unwrap_or(0), 0.0)
        })))
    }
}

/// The counts in a list of trackable resources.
#[derive(Debug, Default, PartialEq)]
struct Tres {
    cpus: Option<u64>,
    nodes: Option<u64>,
    gpus: Option<u64>,
}

impl Tres {
    /// Reads `billing=8,cpu=4,gres/gpu=2,gres/gpu:a100=2,mem=8G,node=1`.
    fn of_tres(text: &str) -> Self {
        let mut found = Self::default();
        let mut of_types = None;
        for (name, count) in text.split(',').filter_map(|entry| entry.split_once('=')) {
            let Ok(count) = count.trim().parse::<u64>() else { continue };
            match name.trim() {
                "cpu" => found.cpus = Some(count),
                "node" => found.nodes = Some(count),
                "gres/gpu" => found.gpus = Some(count),
                // GPUs with a type count again in the sum above, if the list has it.
                typed if typed.starts_with("gres/gpu:") => {
                    of_types = Some(count.saturating_add(of_types.unwrap_or(0)));
                }
                _ => {}
            }
        }
        found.gpus = found.gpus.or(of_types);
        found
    }

    /// Reads `gpu:2`, `gres:gpu:a100:2`, `gpu`.
    fn of_gres(text: &str) -> Self {
        let gpus = text.split(',').filter_map(|entry| {
            let entry = entry.trim();
            let rest = entry.strip_prefix("gres:").unwrap_or(entry).strip_prefix("gpu")?;
            match rest.rsplit_once(':') {
                None => rest.is_empty().then_some(1),
                Some((_, count)) => count.split('(').next()?.parse::<u64>().ok(),
            }
        });
        let gpus: Vec<u64> = gpus.collect();
        Self {
            gpus: (!gpus.is_empty()).then(|| gpus.iter().copied().fold(0, u64::saturating_add)),
            ..Self::default()
        }
    }
}

/// Reads the list.
///
/// # Errors
/// [`ListFault`].
pub(super) fn read(text: &str) -> Result<Listed, ListFault> {
    let lines = text.lines().zip(1u64..);
    let mut lines = lines.filter(|(line, _)| !line.trim().is_empty());
    let Some((heading, _)) = lines.next() else { return Err(ListFault::Empty) };
    let columns = Columns::from_heading(heading)?;
    let mut listed = Listed::default();
    let (mut names, mut steps) = (Names::default(), 0u64);
    for (line, number) in lines {
        match Row::parse(&columns, line).and_then(|row| row.read(&mut names)) {
            Ok(Line::Job(job)) => listed.jobs.push(*job),
            Ok(Line::NeverRan) => listed.never_ran += 1,
            Ok(Line::Step) => steps += 1,
            Err(reason) => listed.broken.push(format!("line {number}: {reason}")),
        }
    }
    if steps > 0 {
        listed.notes.push(format!("lines of steps of jobs, not replayed: {steps}"));
    }
    if names.given > 0 {
        let (text, first) = ("jobs without a UID, their users numbered from", Names::FIRST);
        listed.notes.push(format!("{text} {first} in the order of the list: {}", names.given));
    }
    let unused = columns.unused();
    if !unused.is_empty() {
        listed.notes.push(format!("columns that are not replayed: {}", unused.join(", ")));
    }
    if columns.limit.is_none() && columns.limit_in_minutes.is_none() {
        listed.notes.push("there is no column timelimit or timelimitraw".to_owned());
    }
    Ok(listed)
}

/// A text that should be a time and is none, such as a day that doesn't exist.
#[derive(Debug, PartialEq)]
struct NoTime;

/// A time of sacct in UNIX seconds: a local time, or seconds with `SLURM_TIME_FORMAT=%s`; `None` if there is
/// none.
fn time(text: &str) -> Result<Option<f64>, NoTime> {
    if ["", "Unknown", "None"].contains(&text) {
        return Ok(None);
    }
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Some(seconds as f64));
    }
    let local: DateTime = text.parse().map_err(|_| NoTime)?;
    let zoned = local.to_zoned(TimeZone::system()).map_err(|_| NoTime)?;
    Ok(Some(zoned.timestamp().as_second() as f64))
}

/// A span of sacct in seconds: `[D-]HH:MM:SS`. `None` for texts like `UNLIMITED`, which mean no limit.
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
        let listed = read(SACCT).unwrap();
        let job = &listed.jobs[0];
        assert_eq!((job.number, job.user, job.cores, job.nodes), (101, 1001, 8, 2));
        assert_eq!((job.submit, job.run_time, job.time_limit), (1.7e9, 100.0, Some(300.0)));
        assert_eq!((job.queue.as_deref(), job.bank.as_deref()), (Some("batch"), Some("phys")));
        assert_eq!((listed.jobs[1].number, listed.jobs[1].run_time), (103, -1.0));
        assert_eq!(listed.never_ran, 1);
        assert_eq!(listed.broken, ["line 6: 3 columns instead of 14"]);
        assert_eq!(
            listed.notes,
            [
                "lines of steps of jobs, not replayed: 1",
                "columns that are not replayed: state, maxrss"
            ]
        );
    }

    #[test]
    fn gpus_are_those_that_a_job_had_or_asked_for() {
        let text = "JobID|Submit|Start|End|NNodes|AllocTRES|ReqTRES\n\
                    1|10|20|30|2|billing=4,cpu=8,gres/gpu=4,gres/gpu:a100=4,mem=8G,node=2|cpu=8\n\
                    2|10|Unknown|Unknown|1||billing=1,cpu=2,gres/gpu:h100=1,node=1\n\
                    3|10|20|30||cpu=4,mem=1G|cpu=4\n";
        let listed = read(text).unwrap();
        let sizes: Vec<_> =
            listed.jobs.iter().map(|job| (job.cores, job.nodes, job.gpus)).collect();
        assert_eq!(sizes, [(8, 2, 2), (2, 1, 1), (4, 0, 0)]);
        let text =
            "JobID|Submit|Start|End|NCPUS|AllocGRES\n1|10|20|30|4|gpu:a100:2\n2|10|20|30|4|\n";
        let listed = read(text).unwrap();
        let sizes: Vec<_> = listed.jobs.iter().map(|job| (job.nodes, job.gpus)).collect();
        assert_eq!(sizes, [(1, 2), (0, 0)]);
    }

    #[test]
    fn a_list_without_a_needed_column_is_refused() {
        let error = read("JobID|Start|End|NCPUS\n").unwrap_err();
        assert_eq!(error.to_string(), "there is no column submit");
    }

    #[test]
    fn a_line_with_a_day_that_does_not_exist_is_named() {
        let text = "JobID|Submit|Start|End|NCPUS\n\
                    1|2026-02-01T00:00:00|2026-02-31T00:00:00|2026-03-01T00:00:00|4\n";
        let listed = read(text).unwrap();
        assert_eq!(listed.broken, ["line 2: start: \"2026-02-31T00:00:00\" is no time"]);
        assert!(listed.jobs.is_empty());
    }

    #[test]
    fn users_without_a_uid_are_numbered_in_the_order_of_the_list() {
        let text = "JobID|User|Submit|Start|End|NCPUS|Elapsed|\n\
                    1|ada|10|20|30|4|10|\n2|bob|11|20|30|4|10|\n3_7|ada|12|20|30|4|10|\n";
        let listed = read(text).unwrap();
        let users: Vec<_> = listed.jobs.iter().map(|job| (job.number, job.user)).collect();
        assert_eq!(users, [(1, 100_001), (2, 100_002), (3, 100_001)]);
        assert_eq!(
            listed.notes,
            [
                "jobs without a UID, their users numbered from 100001 in the order of the list: 3",
                "columns that are not replayed: elapsed",
                "there is no column timelimit or timelimitraw"
            ]
        );
    }

    #[test]
    fn times_and_spans_of_sacct_are_read() {
        assert_eq!(time("1700000000"), Ok(Some(1.7e9)));
        let at = |text: &str| time(text).unwrap().unwrap();
        let later = at("2026-01-31T12:00:10") - at("2026-01-31T12:00:00");
        assert_eq!(later, 10.0);
        assert_eq!((time("Unknown"), time("None")), (Ok(None), Ok(None)));
        assert_eq!(time("2026-02-31T12:00:00"), Err(NoTime));
        assert_eq!(span("2-01:00:30"), Some(2.0 * 86_400.0 + 3630.0));
        assert_eq!((span("01:30:00"), span("UNLIMITED")), (Some(5400.0), None));
    }
}
