//! Traces from files, compressed or not, and from the generator. A file is read while the simulation runs, so
//! that its size doesn't matter.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use flate2::read::MultiGzDecoder;
use jobtap_core::simulation::{Counts, Header, Reader, Rules, TraceJob};
use jobtap_daemon::files::input;

use crate::accounting::{Format, Listed, is_archive, of_recorded};
use crate::error::{LineFault, SimulateError};
use crate::generate::{Generator, Workload};
use crate::recorded;

/// The longest line that is read. A longer line counts as broken.
const LONGEST_LINE: u64 = 1 << 16;

/// The most lines in a row without a job: a file that has more is no trace, and may have no end.
const MOST_BARREN: u64 = 1_000_000;

/// The most bytes of a list that is read whole: enough for some million jobs.
const LARGEST_LIST: u64 = 1 << 30;

/// Where the jobs of a simulation come from.
#[derive(Debug, Clone)]
pub enum Origin {
    /// A file: SWF, a list of accounting, or a dump; or a state directory.
    File(PathBuf),
    /// The generator.
    Generated(Box<Workload>),
}

impl Origin {
    /// The name in reports.
    pub fn name(&self) -> String {
        match self {
            Self::File(path) => {
                let name = path.file_name().unwrap_or(path.as_os_str());
                name.to_string_lossy().into_owned()
            }
            Self::Generated(workload) => format!("generated: {workload}"),
        }
    }

    /// Whether it can be read once more, for another policy: a pipe can't.
    pub fn can_be_read_again(&self) -> bool {
        match self {
            // A file that doesn't exist is reported when it is opened.
            Self::File(path) => path.is_file() || path.is_dir() || !path.exists(),
            Self::Generated(_) => true,
        }
    }
}

/// A trace that is being read.
pub(crate) struct Source {
    name: String,
    strict: bool,
    reader: Reader,
    input: Input,
    ended: bool,
    /// The lines since the last job, and how many jobs there were then.
    barren: (u64, u64),
}

enum Input {
    Lines(Box<dyn BufRead>),
    /// The jobs of a list that was read whole, in the order of submission.
    Listed(std::vec::IntoIter<TraceJob>),
    Generator(Box<Generator>),
}

impl Source {
    /// Opens a trace. With `strict`, a broken line is an error.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn open(origin: &Origin, rules: Rules, strict: bool) -> Result<Self, SimulateError> {
        let name = origin.name();
        let mut reader = Reader::new(rules);
        let input = match origin {
            Origin::File(path) if path.is_dir() => Input::Listed(recorded_jobs(path, &mut reader)?),
            Origin::File(path) => {
                let name = path.display().to_string();
                let mut input = open(path).map_err(|reason| read_error(&name, reason))?;
                let begin = input.fill_buf().map_err(|reason| read_error(&name, reason))?;
                match Format::detect(begin) {
                    _ if is_archive(begin) => Input::Listed(recorded_jobs(path, &mut reader)?),
                    None => Input::Lines(input),
                    Some(format) => Input::Listed(listed(&name, format, input, &mut reader)?),
                }
            }
            Origin::Generated(workload) => Input::Generator(Box::new(workload.start())),
        };
        if let (true, Some(broken)) = (strict, reader.counts.first_broken.first()) {
            return Err(SimulateError::BrokenList { name, first: broken.clone() });
        }
        Ok(Self { name, strict, reader, input, ended: false, barren: (0, 0) })
    }

    /// Reads the comments at the beginning, which say how large the machine is.
    ///
    /// # Errors
    /// The file can't be read.
    pub(crate) fn header(&mut self) -> Result<&Header, SimulateError> {
        while let Input::Lines(input) = &mut self.input {
            let begin = input.fill_buf().map_err(|reason| read_error(&self.name, reason))?;
            match begin.first() {
                Some(b';' | b'\n' | b'\r') => self.line()?,
                _ => break,
            }
        }
        Ok(&self.reader.header)
    }

    /// Sets the number of cores of the machine, which tells which jobs are too large.
    pub(crate) fn set_capacity(&mut self, cores: u64) {
        self.reader.set_capacity(cores);
    }

    /// What was read, left out and changed so far.
    pub(crate) fn counts(&self) -> &Counts {
        &self.reader.counts
    }

    /// How many jobs there are, if it is known.
    pub(crate) fn expected(&self) -> Option<u64> {
        match &self.input {
            Input::Lines(_) => self.reader.header.jobs,
            Input::Listed(jobs) => Some(self.reader.counts.jobs + jobs.len() as u64),
            Input::Generator(generator) => Some(generator.jobs()),
        }
    }

    /// The next job in the order of submission.
    ///
    /// # Errors
    /// The file can't be read further, or a line is broken and the reader is strict.
    pub(crate) fn next(&mut self) -> Result<Option<TraceJob>, SimulateError> {
        loop {
            if let Some(job) = self.reader.next(self.ended) {
                return Ok(Some(job));
            }
            if self.ended {
                return Ok(None);
            }
            match &mut self.input {
                Input::Lines(_) => self.line()?,
                Input::Listed(jobs) => match jobs.next() {
                    Some(job) => self.reader.job(job),
                    None => self.ended = true,
                },
                Input::Generator(generator) => match generator.next() {
                    Some(job) => self.reader.job(job),
                    None => self.ended = true,
                },
            }
        }
    }

    /// Reads one line.
    fn line(&mut self) -> Result<(), SimulateError> {
        let Input::Lines(input) = &mut self.input else { return Ok(()) };
        let mut bytes = Vec::new();
        let mut limited = input.by_ref().take(LONGEST_LINE);
        let read = limited.read_until(b'\n', &mut bytes);
        if read.map_err(|reason| read_error(&self.name, reason))? == 0 {
            self.ended = true;
            return Ok(());
        }
        let broken = if bytes.len() as u64 == LONGEST_LINE && bytes.last() != Some(&b'\n') {
            skip_line(input).map_err(|reason| read_error(&self.name, reason))?;
            self.reader.counts.lines += 1;
            let fault = LineFault::TooLong { most: LONGEST_LINE };
            self.reader.broken_line(&fault.to_string());
            Some(fault)
        } else {
            let line = String::from_utf8_lossy(&bytes);
            self.reader.swf_line(&line).err().map(LineFault::Swf)
        };
        self.note_barren()?;
        match broken {
            Some(fault) if self.strict => {
                let (name, line) = (self.name.clone(), self.reader.counts.lines);
                Err(SimulateError::Broken { name, line, fault })
            }
            _ => Ok(()),
        }
    }
}

impl Source {
    /// Refuses a file with too many lines in a row without a job.
    fn note_barren(&mut self) -> Result<(), SimulateError> {
        let (lines, jobs) = &mut self.barren;
        let now = self.reader.counts.jobs;
        *lines = if *jobs == now { *lines + 1 } else { 0 };
        *jobs = now;
        match *lines > MOST_BARREN {
            true => {
                let (name, line) = (self.name.clone(), self.reader.counts.lines);
                Err(SimulateError::Barren { name, line, most: MOST_BARREN })
            }
            false => Ok(()),
        }
    }
}

/// Reads a list of another format than SWF whole, and puts it in order.
fn listed(
    name: &str,
    format: Format,
    mut input: Box<dyn BufRead>,
    reader: &mut Reader,
) -> Result<std::vec::IntoIter<TraceJob>, SimulateError> {
    let bytes =
        input::all_of(&mut input, LARGEST_LIST).map_err(|reason| read_error(name, reason))?;
    let wrong = |fault| SimulateError::List { name: name.to_owned(), fault };
    let list = format.read(&bytes).map_err(wrong)?;
    let lines = bytes.iter().filter(|byte| **byte == b'\n').count() as u64;
    Ok(in_order(list, lines, reader))
}

/// Reads what a manager has recorded, in a dump or in a state directory.
fn recorded_jobs(
    path: &Path,
    reader: &mut Reader,
) -> Result<std::vec::IntoIter<TraceJob>, SimulateError> {
    let recorded = recorded::jobs(path)?;
    let jobs = (recorded.jobs.len() + recorded.unusable.len()) as u64;
    Ok(in_order(of_recorded(recorded), jobs, reader))
}

/// Puts the jobs of a list in the order of their submission, and counts what is left out.
fn in_order(mut list: Listed, lines: u64, reader: &mut Reader) -> std::vec::IntoIter<TraceJob> {
    let counts = &mut reader.counts;
    counts.never_ran = list.never_ran;
    counts.notes = list.notes;
    counts.lines = lines;
    list.broken.into_iter().for_each(|text| reader.broken(text));
    list.jobs.sort_by(|a, b| a.submit.total_cmp(&b.submit));
    let known = list.jobs.iter().map(|job| job.submit).find(|submit| *submit >= 0.0);
    let start = known.unwrap_or(0.0);
    for job in &mut list.jobs {
        job.submit = if job.submit < 0.0 { -1.0 } else { job.submit - start };
    }
    reader.header.start = Some(start).filter(|start| *start > 0.0);
    list.jobs.into_iter()
}

fn read_error(name: &str, reason: std::io::Error) -> SimulateError {
    SimulateError::Read { name: name.to_owned(), reason }
}

/// Skips the rest of a line.
fn skip_line(input: &mut dyn BufRead) -> std::io::Result<()> {
    loop {
        let buffer = input.fill_buf()?;
        let end = buffer.iter().position(|byte| *byte == b'\n');
        let (length, done) =
            (end.map_or(buffer.len(), |end| end + 1), end.is_some() || buffer.is_empty());
        input.consume(length);
        if done {
            return Ok(());
        }
    }
}

/// Opens a file, which may be compressed with gzip.
fn open(path: &Path) -> std::io::Result<Box<dyn BufRead>> {
    let mut input = BufReader::with_capacity(1 << 16, File::open(path)?);
    let compressed = input.fill_buf()?.starts_with(&[0x1f, 0x8b]);
    Ok(if compressed {
        Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(input)))
    } else {
        Box::new(input)
    })
}

/// Describes what was left out and changed, a line each; empty for a clean trace.
pub(crate) fn remarks(counts: &Counts) -> Vec<String> {
    let rows = [
        ("jobs without a submit time, left out", counts.no_submit),
        ("jobs without a run time, left out", counts.no_run_time),
        ("jobs without a number of processors, left out", counts.no_processors),
        ("jobs canceled before they started, left out", counts.never_ran),
        ("parts of jobs with checkpoints, left out", counts.parts),
        ("jobs larger than the machine (--oversized)", counts.oversized),
        ("jobs without a recorded time limit (--time-limits)", counts.no_time_limit),
        ("jobs without a known user", counts.no_user),
        ("jobs that followed another one, with their recorded submit times", counts.preceding),
        ("jobs put into the order of their submit times", counts.reordered),
        ("jobs too late in the trace to be put into order, submitted at once", counts.late),
    ];
    let known = rows.iter().filter(|(_, count)| *count > 0);
    let mut lines: Vec<String> = known.map(|(text, count)| format!("{text}: {count}")).collect();
    lines.extend(counts.notes.iter().cloned());
    if counts.broken > 0 {
        lines.push(format!("broken lines or jobs, left out: {}, first:", counts.broken));
        lines.extend(counts.first_broken.iter().map(|line| format!("  {line}")));
    }
    lines
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    const TRACE: &str = "; MaxProcs: 8\n; MaxJobs: 2\n\n1 0 -1 5 1 -1 -1 -1 -1 -1 1 1 1 -1 0 -1 -1 -1\nrubbish\n2 3 -1 5 1 -1 -1 -1 -1 -1 1 1 1 -1 0 -1 -1 -1\n";

    fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, Origin) {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(name);
        std::fs::write(&path, bytes).unwrap();
        (directory, Origin::File(path))
    }

    fn numbers(source: &mut Source) -> Vec<u64> {
        std::iter::from_fn(|| source.next().unwrap()).map(|job| job.number).collect()
    }

    #[test]
    fn a_compressed_trace_is_read_as_a_plain_one() {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(TRACE.as_bytes()).unwrap();
        for bytes in [TRACE.as_bytes().to_vec(), gz.finish().unwrap()] {
            let (_directory, origin) = file("trace.swf", &bytes);
            let mut source = Source::open(&origin, Rules::default(), false).unwrap();
            assert_eq!(source.header().unwrap().processors, Some(8));
            assert_eq!(source.expected(), Some(2));
            assert_eq!(numbers(&mut source), [1, 2]);
            assert_eq!((source.counts().broken, source.counts().lines), (1, 6));
        }
    }

    #[test]
    fn a_file_of_endless_lines_without_a_job_is_refused() {
        for line in ["\n", "; comment\n", "rubbish\n"] {
            let lines = line.repeat(MOST_BARREN as usize + 2);
            let (_directory, origin) = file("trace.swf", lines.as_bytes());
            let mut source = Source::open(&origin, Rules::default(), false).unwrap();
            let read = source.header().map(drop).and_then(|()| source.next().map(drop));
            let error = read.unwrap_err().to_string();
            let text =
                "trace.swf: line 1000001: 1000000 lines in a row have no job that can be simulated";
            assert_eq!(error, text);
        }
    }

    #[test]
    fn a_strict_reader_names_the_broken_line() {
        let (_directory, origin) = file("trace.swf", TRACE.as_bytes());
        let mut source = Source::open(&origin, Rules::default(), true).unwrap();
        let error = source.next().unwrap_err().to_string();
        assert_eq!(error, "trace.swf: line 5: 1 instead of 18 fields");
    }

    #[test]
    fn an_endless_line_is_one_broken_line() {
        let long = format!("1 {}\n{TRACE}", "0".repeat(200_000));
        let (_directory, origin) = file("trace.swf", long.as_bytes());
        let mut source = Source::open(&origin, Rules::default(), false).unwrap();
        assert_eq!(numbers(&mut source), [1, 2]);
        assert_eq!(source.counts().first_broken[0], "line 1: longer than 65536 bytes");
    }

    #[test]
    fn a_trace_without_comments_keeps_its_first_job() {
        let (_directory, origin) = file("trace.swf", TRACE.split_at(28).1.as_bytes());
        let mut source = Source::open(&origin, Rules::default(), false).unwrap();
        assert_eq!(source.header().unwrap(), &Header::default());
        assert_eq!(numbers(&mut source), [1, 2]);
    }
}
