//! The Standard Workload Format (SWF), version 2.2: one job per line, with 18 numbers each; -1 means unknown.
//!
//! Comments begin with a semicolon. Those at the beginning of a file describe the machine.

/// One line of a trace, with its fields in order. -1 means unknown.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SwfRecord([f64; FIELDS]);

const FIELDS: usize = 18;

/// Why a line isn't a record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SwfError {
    /// The line has too few or too many fields.
    #[error("{0} instead of 18 fields")]
    Fields(usize),
    /// A field is not a number.
    #[error("field {place} is no number: {text:?}")]
    Number {
        /// Which field, from 1.
        place: usize,
        /// Its text.
        text: String,
    },
}

impl SwfRecord {
    /// Reads one line. `Ok(None)` means a comment or an empty line.
    ///
    /// ```
    /// use jobtap_core::simulation::SwfRecord;
    ///
    /// let line = "7 3600 -1 120 32 -1 -1 -1 600 -1 1 5 1 -1 2 -1 -1 -1";
    /// let record = SwfRecord::parse(line)?.unwrap();
    /// assert_eq!((record.submit(), record.run_time(), record.queue()), (3600.0, 120.0, Some(2)));
    /// assert_eq!(SwfRecord::parse("; MaxNodes: 128")?, None);
    /// # Ok::<(), jobtap_core::simulation::SwfError>(())
    /// ```
    ///
    /// # Errors
    /// [`SwfError`].
    pub fn parse(line: &str) -> Result<Option<Self>, SwfError> {
        let line = line.trim();
        if line.is_empty() || line.starts_with(';') {
            return Ok(None);
        }
        let mut fields = [-1.0; FIELDS];
        let (mut count, mut wrong) = (0, None);
        for text in line.split_ascii_whitespace() {
            if let Some(field) = fields.get_mut(count) {
                match text.parse().ok().filter(|number: &f64| number.is_finite()) {
                    Some(number) => *field = number,
                    None => wrong = wrong.or(Some((count + 1, text))),
                }
            }
            count += 1;
        }
        match wrong {
            _ if count != FIELDS => Err(SwfError::Fields(count)),
            Some((place, text)) => {
                Err(SwfError::Number { place, text: text.chars().take(40).collect() })
            }
            None => Ok(Some(Self(fields))),
        }
    }

    /// A field by its number in the format, from 1.
    fn field(&self, number: usize) -> f64 {
        self.0.get(number - 1).copied().unwrap_or(-1.0)
    }

    /// A field that counts something; `None` when it is unknown.
    fn count(&self, number: usize) -> Option<u64> {
        let value = self.field(number);
        // Numbers this large are mistakes in any field.
        (value >= 0.0 && value < 2f64.powi(53)).then_some(value as u64)
    }

    /// The number of the job.
    pub fn number(&self) -> u64 {
        self.count(1).unwrap_or(0)
    }

    /// The submission, in seconds from the start of the trace; negative when it is unknown.
    pub fn submit(&self) -> f64 {
        self.field(2)
    }

    /// The recorded wait in seconds; `None` when it is unknown.
    pub fn wait(&self) -> Option<f64> {
        Some(self.field(3)).filter(|wait| *wait >= 0.0)
    }

    /// The time from start to end in seconds; negative when it is unknown.
    pub fn run_time(&self) -> f64 {
        self.field(4)
    }

    /// The processors that the job asked for, or else those that it got; `None` when both are unknown.
    pub fn processors(&self) -> Option<u64> {
        let known = |number| self.count(number).filter(|count| *count > 0);
        known(8).or_else(|| known(5))
    }

    /// The time limit in seconds; `None` when it is unknown.
    pub fn requested_time(&self) -> Option<f64> {
        Some(self.field(9)).filter(|limit| *limit > 0.0)
    }

    /// Whether the job was canceled before it started: status 5 without a run time.
    pub fn never_ran(&self) -> bool {
        self.field(11) == 5.0 && self.run_time() <= 0.0
    }

    /// Whether the line is for a part of a job with checkpoints, which also has a line for the whole job: status
    /// 2 to 4.
    pub fn is_part(&self) -> bool {
        (2.0..=4.0).contains(&self.field(11))
    }

    /// The user's number.
    pub fn user(&self) -> Option<u32> {
        self.count(12).and_then(|user| u32::try_from(user).ok())
    }

    /// The group's number.
    pub fn group(&self) -> Option<u32> {
        self.count(13).and_then(|group| u32::try_from(group).ok())
    }

    /// The number of the program.
    pub fn program(&self) -> Option<u64> {
        self.count(14)
    }

    /// The number of the queue.
    pub fn queue(&self) -> Option<u64> {
        self.count(15)
    }

    /// The job that this one waited for before it was submitted.
    pub fn preceding(&self) -> Option<u64> {
        self.count(17).filter(|job| *job > 0)
    }
}

/// What the comments at the beginning of a trace say about the machine.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Header {
    /// `Computer`.
    pub computer: Option<String>,
    /// `UnixStartTime`: the time of second 0 of the trace.
    pub start: Option<f64>,
    /// `MaxNodes`.
    pub nodes: Option<u32>,
    /// `MaxProcs`.
    pub processors: Option<u32>,
    /// `MaxJobs`.
    pub jobs: Option<u64>,
    /// `Queue`: the names of queues by their numbers.
    pub queues: Vec<(u64, String)>,
}

impl Header {
    /// Reads a line of the trace. Lines that aren't comments, and comments with other keys, change nothing.
    pub fn read(&mut self, line: &str) {
        let Some(comment) = line.trim_start().strip_prefix(';') else { return };
        let Some((key, value)) = comment.split_once(':') else { return };
        let value = value.trim();
        // Some traces have more text after the number.
        let number = || value.split([' ', '\t', '(', ',']).next().and_then(|n| n.parse().ok());
        match key.trim() {
            "Computer" => self.computer = Some(value.to_owned()),
            "UnixStartTime" => self.start = number().map(|start: u64| start as f64),
            "MaxNodes" => self.nodes = number().and_then(|n| u32::try_from(n).ok()),
            "MaxProcs" => self.processors = number().and_then(|n| u32::try_from(n).ok()),
            "MaxJobs" => self.jobs = number(),
            "Queue" => {
                let mut words = value.split_whitespace();
                if let (Some(Ok(number)), Some(name)) = (words.next().map(str::parse), words.next())
                {
                    self.queues.push((number, name.to_owned()));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_broken_line_is_refused_with_its_place() {
        let error = |line| SwfRecord::parse(line).unwrap_err().to_string();
        assert_eq!(error("1 2 3"), "3 instead of 18 fields");
        let long = "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19";
        assert_eq!(error(long), "19 instead of 18 fields");
        let text = "1 2 x 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18";
        assert_eq!(error(text), "field 3 is no number: \"x\"");
        let infinite = "1 inf 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18";
        assert_eq!(error(infinite), "field 2 is no number: \"inf\"");
    }

    #[test]
    fn unknown_fields_are_absent() {
        let line = "1 0 -1 60 8 -1 -1 -1 -1 -1 1 -1 -1 -1 -1 -1 -1 -1";
        let record = SwfRecord::parse(line).unwrap().unwrap();
        assert_eq!((record.processors(), record.requested_time()), (Some(8), None));
        assert_eq!((record.user(), record.queue(), record.wait()), (None, None, None));
    }

    #[test]
    fn the_header_describes_the_machine() {
        let mut header = Header::default();
        for line in [
            "; Computer: Intel iPSC/860",
            "; UnixStartTime: 749458803",
            ";  MaxNodes: 128 (of 140)",
            "; MaxProcs: 256",
            "; Queue: 1 batch  for all",
            "; Note: text",
            "1 2 3",
        ] {
            header.read(line);
        }
        assert_eq!((header.nodes, header.processors), (Some(128), Some(256)));
        assert_eq!(header.start, Some(749_458_803.0));
        assert_eq!(header.queues, [(1, "batch".to_owned())]);
    }
}
