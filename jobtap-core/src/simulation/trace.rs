//! The jobs of a trace, and the rules for data that a trace lacks or has wrong.
//!
//! A trace is read job by job, so that its size doesn't matter. Whatever is left out or changed is counted.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use super::swf::{Header, SwfError, SwfRecord};
use crate::jobspec::{Jobspec, JobspecBuilder, JobspecError};

/// A job of a trace.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceJob {
    /// Its number in the trace.
    pub number: u64,
    /// The submission, in seconds from the start of the trace.
    pub submit: f64,
    /// How long it runs, in seconds.
    pub run_time: f64,
    /// Its cores, each a slot of its own; with `nodes` spread evenly over the nodes.
    pub cores: u64,
    /// Its nodes; 0 when it doesn't matter on which nodes the cores are.
    pub nodes: u64,
    /// GPUs for each slot.
    pub gpus: u64,
    /// Its time limit in seconds; `None` for none.
    pub time_limit: Option<f64>,
    /// The user's number.
    pub user: u32,
    /// The user's name, for plugins that ask for it.
    pub user_name: Option<Box<str>>,
    /// The number of the user's group.
    pub group: Option<u32>,
    /// The queue to which it is submitted.
    pub queue: Option<Box<str>>,
    /// The name of the job.
    pub name: Option<Box<str>>,
    /// The account or bank, the attribute `bank`.
    pub bank: Option<Box<str>>,
    /// 0 to 31.
    pub urgency: u8,
}

impl TraceJob {
    /// A job of one core without a limit that runs this long. The owner of the instance submits it at second 0.
    pub fn new(number: u64, run_time: f64) -> Self {
        Self {
            number,
            submit: 0.0,
            run_time,
            cores: 1,
            nodes: 0,
            gpus: 0,
            time_limit: None,
            user: 0,
            user_name: None,
            group: None,
            queue: None,
            name: None,
            bank: None,
            urgency: 16,
        }
    }

    /// The jobspec with which it is submitted.
    ///
    /// # Errors
    /// The job has neither cores nor nodes, or its time limit is negative or not finite.
    pub fn jobspec(&self) -> Result<Jobspec, JobspecError> {
        let name = self.name.as_deref().unwrap_or("job");
        let mut builder = JobspecBuilder::new([name]).name(name);
        builder = match self.nodes {
            0 => builder.ntasks(self.cores),
            nodes => {
                let each = self.cores.div_ceil(nodes).max(1);
                builder.nodes(nodes).ntasks(nodes).cores_per_task(each)
            }
        };
        builder = builder.gpus_per_task(self.gpus).duration(self.time_limit.unwrap_or(0.0));
        if let Some(queue) = &self.queue {
            builder = builder.queue(queue);
        }
        if let Some(bank) = &self.bank {
            builder = builder.attribute("bank", (**bank).into())?;
        }
        builder.build()
    }
}

/// What is done with a job that is larger than the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Oversized {
    /// It is left out.
    #[default]
    Skip,
    /// It gets the whole machine.
    Clip,
    /// It is submitted, and the manager refuses it.
    Submit,
}

/// Which time limits jobs have.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum TimeLimits {
    /// The recorded ones; a job without one has its run time as its limit.
    #[default]
    Recorded,
    /// Every job has its run time as its limit.
    Exact,
    /// The run time, multiplied by this.
    Factor(f64),
    /// The recorded ones; a job without one has no limit.
    RecordedOrNone,
}

/// What is done about data that a trace lacks, or that can't be replayed.
#[derive(Debug, Clone, Default)]
pub struct Rules {
    /// Jobs that are larger than the machine.
    pub oversized: Oversized,
    /// Time limits.
    pub time_limits: TimeLimits,
    /// The cores of the machine; `None` when it isn't known yet.
    pub capacity: Option<u64>,
    /// Names of queues by their numbers in SWF. Jobs with other numbers have no queue.
    pub queues: Vec<(u64, String)>,
}

/// The user of jobs whose user isn't known: Linux's overflow user id.
const UNKNOWN_USER: u32 = 65_534;

/// What a reader took, changed and left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Counts {
    /// Lines, comments included.
    pub lines: u64,
    /// Jobs that are replayed.
    pub jobs: u64,
    /// Lines that aren't records, or jobs of a dump that can't be read.
    pub broken: u64,
    /// The first of them, each with its place and what is wrong with it.
    pub first_broken: Vec<String>,
    /// Left out: the time of the submission is unknown.
    pub no_submit: u64,
    /// Left out: the run time is unknown.
    pub no_run_time: u64,
    /// Left out: the number of processors is unknown.
    pub no_processors: u64,
    /// Left out: canceled before they started.
    pub never_ran: u64,
    /// Left out: parts of jobs with checkpoints, which also have a line for the whole job.
    pub parts: u64,
    /// Larger than the machine.
    pub oversized: u64,
    /// Without a recorded time limit.
    pub no_time_limit: u64,
    /// Without a known user.
    pub no_user: u64,
    /// Submitted after another job that they waited for. They are replayed at the recorded time of the
    /// submission.
    pub preceding: u64,
    /// Lines that were not in the order of their times, and were put in order.
    pub reordered: u64,
    /// Jobs that came so late in the trace that they are submitted after later ones.
    pub late: u64,
    /// What else is not replayed as recorded, one sentence each.
    pub notes: Vec<String>,
}

/// The maximum number of broken lines or jobs in the report.
const SHOWN: usize = 5;

/// The number of jobs that are buffered, to sort them by submission time.
const WINDOW: usize = 16_384;

/// Reads a trace line by line, and yields its jobs in the order of their submission.
#[derive(Debug)]
pub struct Reader {
    rules: Rules,
    /// What the comments say.
    pub header: Header,
    /// The counts of what was read so far.
    pub counts: Counts,
    waiting: BinaryHeap<Waiting>,
    read: u64,
    newest: f64,
    given: f64,
}

/// A job in the order of submission: the earliest is the greatest, so that the heap yields it first.
#[derive(Debug)]
struct Waiting {
    place: u64,
    job: TraceJob,
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Waiting {}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        let order = self.job.submit.total_cmp(&other.job.submit).then(self.place.cmp(&other.place));
        order.reverse()
    }
}

impl Reader {
    /// A reader with these rules.
    pub fn new(rules: Rules) -> Self {
        Self {
            rules,
            header: Header::default(),
            counts: Counts::default(),
            waiting: BinaryHeap::new(),
            read: 0,
            newest: 0.0,
            given: 0.0,
        }
    }

    /// Sets the cores of the machine.
    pub fn set_capacity(&mut self, cores: u64) {
        self.rules.capacity = Some(cores);
    }

    /// Reads one line of SWF.
    ///
    /// # Errors
    /// [`SwfError`] if the line is broken. It is counted and left out.
    pub fn swf_line(&mut self, line: &str) -> Result<(), SwfError> {
        self.counts.lines += 1;
        if line.starts_with(';') {
            self.header.read(line);
            return Ok(());
        }
        match SwfRecord::parse(line) {
            Ok(Some(record)) => self.swf_record(&record),
            Ok(None) => {}
            Err(error) => {
                self.broken_line(&error.to_string());
                return Err(error);
            }
        }
        Ok(())
    }

    /// Counts the last line as broken.
    pub fn broken_line(&mut self, reason: &str) {
        self.broken(format!("line {}: {reason}", self.counts.lines));
    }

    /// Counts something that isn't a job. The text says where it is and what is wrong with it.
    pub fn broken(&mut self, text: String) {
        self.counts.broken += 1;
        if self.counts.first_broken.len() < SHOWN {
            self.counts.first_broken.push(text);
        }
    }

    fn swf_record(&mut self, record: &SwfRecord) {
        let counts = &mut self.counts;
        if record.is_part() {
            counts.parts += 1;
            return;
        }
        if record.never_ran() {
            counts.never_ran += 1;
            return;
        }
        let Some(cores) = record.processors() else {
            counts.no_processors += 1;
            return;
        };
        if record.preceding().is_some() {
            counts.preceding += 1;
        }
        let queues = &self.rules.queues;
        let queue = record.queue().and_then(|number| queues.iter().find(|(n, _)| *n == number));
        let name = record.program().map(|program| format!("app{program}").into());
        let user = record.user();
        if user.is_none() {
            counts.no_user += 1;
        }
        self.job(TraceJob {
            number: record.number(),
            submit: record.submit(),
            run_time: record.run_time(),
            cores,
            time_limit: record.requested_time(),
            user: user.unwrap_or(UNKNOWN_USER),
            group: record.group(),
            queue: queue.map(|(_, name)| name.as_str().into()),
            name,
            ..TraceJob::new(0, 0.0)
        });
    }

    /// Adds a job, which may come from another format. Times below 0 are unknown.
    pub fn job(&mut self, mut job: TraceJob) {
        let counts = &mut self.counts;
        if job.submit.is_nan() || job.submit < 0.0 {
            counts.no_submit += 1;
            return;
        }
        if job.run_time.is_nan() || job.run_time < 0.0 {
            counts.no_run_time += 1;
            return;
        }
        if job.cores == 0 {
            counts.no_processors += 1;
            return;
        }
        if self.rules.capacity.is_some_and(|capacity| job.cores > capacity) {
            counts.oversized += 1;
            match self.rules.oversized {
                Oversized::Skip => return,
                Oversized::Clip => job.cores = self.rules.capacity.unwrap_or(job.cores),
                Oversized::Submit => {}
            }
        }
        if job.time_limit.is_none() {
            counts.no_time_limit += 1;
        }
        // A limit of 0 would mean no limit.
        let exact = |factor: f64| Some((job.run_time * factor).max(1.0));
        job.time_limit = match self.rules.time_limits {
            TimeLimits::Recorded => job.time_limit.or_else(|| exact(1.0)),
            TimeLimits::Exact => exact(1.0),
            TimeLimits::Factor(factor) => exact(factor),
            TimeLimits::RecordedOrNone => job.time_limit,
        };
        if job.submit < self.newest {
            counts.reordered += 1;
        }
        counts.jobs += 1;
        self.newest = self.newest.max(job.submit);
        self.read += 1;
        self.waiting.push(Waiting { place: self.read, job });
    }

    /// The next job in the order of submission; `None` if more lines are needed to determine it or, after the
    /// last line (`ended`), if there are no more jobs.
    pub fn next(&mut self, ended: bool) -> Option<TraceJob> {
        if !ended && self.waiting.len() < WINDOW {
            return None;
        }
        let mut job = self.waiting.pop()?.job;
        if job.submit < self.given {
            self.counts.late += 1;
            job.submit = self.given;
        }
        self.given = job.submit;
        Some(job)
    }
}

/// A whole trace in memory, in the order of submission.
#[derive(Debug, Clone, Default)]
pub struct Trace {
    /// The jobs.
    pub jobs: Vec<TraceJob>,
    /// What the comments say about the machine.
    pub header: Header,
    /// What was left out and changed.
    pub counts: Counts,
}

impl Trace {
    /// Reads a trace in SWF. Broken lines are counted and left out.
    pub fn from_swf(text: &str, rules: &Rules) -> Self {
        let mut reader = Reader::new(rules.clone());
        for line in text.lines() {
            // The error is in the counts.
            let _ = reader.swf_line(line);
        }
        Self::rest_of(reader)
    }

    /// A trace of these jobs.
    pub fn from_jobs(jobs: impl IntoIterator<Item = TraceJob>, rules: &Rules) -> Self {
        let mut reader = Reader::new(rules.clone());
        jobs.into_iter().for_each(|job| reader.job(job));
        Self::rest_of(reader)
    }

    fn rest_of(mut reader: Reader) -> Self {
        let jobs = std::iter::from_fn(|| reader.next(true)).collect();
        Self { jobs, header: reader.header, counts: reader.counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(number: u64, submit: i64, run_time: i64, processors: i64) -> String {
        format!("{number} {submit} -1 {run_time} {processors} -1 -1 -1 -1 -1 1 3 1 -1 0 -1 -1 -1\n")
    }

    fn numbers(trace: &Trace) -> Vec<u64> {
        trace.jobs.iter().map(|job| job.number).collect()
    }

    #[test]
    fn what_cannot_be_replayed_is_counted() {
        let text = [
            line(1, 0, 10, 1),
            line(2, -1, 10, 1),
            line(3, 0, -1, 1),
            line(4, 0, 10, -1),
            line(5, 0, 10, 9),
            "6 0 -1 0 1 -1 -1 -1 -1 -1 5 -1 -1 -1 -1 -1 -1 -1\n".to_owned(),
            "7 0 -1 5 1 -1 -1 -1 -1 -1 3 -1 -1 -1 -1 -1 -1 -1\n".to_owned(),
            "rubbish\n".to_owned(),
        ]
        .concat();
        let rules = Rules { capacity: Some(8), ..Rules::default() };
        let trace = Trace::from_swf(&text, &rules);
        let counts = &trace.counts;
        assert_eq!((numbers(&trace), counts.jobs, counts.lines), (vec![1], 1, 8));
        assert_eq!((counts.no_submit, counts.no_run_time, counts.no_processors), (1, 1, 1));
        assert_eq!((counts.oversized, counts.never_ran, counts.parts), (1, 1, 1));
        assert_eq!(counts.first_broken, ["line 8: 1 instead of 18 fields"]);
    }

    #[test]
    fn jobs_larger_than_the_machine_can_be_clipped_or_submitted() {
        let cores = |oversized| {
            let rules = Rules { capacity: Some(8), oversized, ..Rules::default() };
            let trace = Trace::from_swf(&line(1, 0, 10, 9), &rules);
            trace.jobs.iter().map(|job| job.cores).collect::<Vec<_>>()
        };
        assert_eq!(cores(Oversized::Skip), [0; 0]);
        assert_eq!(cores(Oversized::Clip), [8]);
        assert_eq!(cores(Oversized::Submit), [9]);
    }

    #[test]
    fn jobs_come_in_the_order_of_their_times() {
        let text = [line(1, 50, 1, 1), line(2, 10, 1, 1), line(3, 50, 1, 1), line(4, 20, 1, 1)];
        let trace = Trace::from_swf(&text.concat(), &Rules::default());
        assert_eq!(numbers(&trace), [2, 4, 1, 3]);
        assert_eq!((trace.counts.reordered, trace.counts.late), (2, 0));
    }

    #[test]
    fn a_job_that_comes_too_late_is_submitted_at_once() {
        let mut reader = Reader::new(Rules::default());
        let mut given = Vec::new();
        for number in 0..=WINDOW as u64 {
            reader.swf_line(&line(number, 100 + number as i64, 1, 1)).unwrap();
            given.extend(reader.next(false));
        }
        reader.swf_line(&line(77, 3, 1, 1)).unwrap();
        let late = reader.next(false).unwrap();
        assert_eq!((late.number, late.submit), (77, given.last().unwrap().submit));
        assert_eq!(reader.counts.late, 1);
    }

    #[test]
    fn time_limits_follow_the_rule() {
        let recorded = "1 0 -1 10 1 -1 -1 -1 60 -1 1 3 1 -1 0 -1 -1 -1\n";
        let text = format!("{recorded}{}", line(2, 1, 10, 1));
        let limits = |time_limits| {
            let trace = Trace::from_swf(&text, &Rules { time_limits, ..Rules::default() });
            trace.jobs.iter().map(|job| job.time_limit).collect::<Vec<_>>()
        };
        assert_eq!(limits(TimeLimits::Recorded), [Some(60.0), Some(10.0)]);
        assert_eq!(limits(TimeLimits::Exact), [Some(10.0), Some(10.0)]);
        assert_eq!(limits(TimeLimits::Factor(3.0)), [Some(30.0), Some(30.0)]);
        assert_eq!(limits(TimeLimits::RecordedOrNone), [Some(60.0), None]);
    }
}
