//! The columns of the report: sacct's names, widths and forms.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobtap_core::job::{Encoding, JobResult, State};

use crate::cli::common::message::CliError;
use crate::cli::jobs::row::JobRow;

/// A column that can be chosen.
struct Known {
    name: &'static str,
    width: usize,
    value: fn(&JobRow<'_>, &TimeZone) -> String,
}

/// A column of a report.
pub(super) struct Column {
    /// The heading.
    pub(super) name: &'static str,
    width: usize,
    /// Whether the text is left-aligned.
    left: bool,
    value: fn(&JobRow<'_>, &TimeZone) -> String,
}

/// The column that shows a job in the form of this program, or in Slurm's.
pub(super) const ID: &str = "JobID";

/// What sacct shows without `--format`.
pub(super) const DEFAULT: &str = "jobid,jobname,partition,account,alloccpus,state,exitcode";

const KNOWN: &[Known] = &[
    Known { name: "Account", width: 10, value: |row, _| row.text("bank").to_owned() },
    Known { name: "AllocCPUS", width: 10, value: |row, _| allocated(row, "ncores") },
    Known { name: "AllocNodes", width: 10, value: |row, _| allocated(row, "nnodes") },
    Known { name: "Comment", width: 14, value: |row, _| reason(row) },
    Known { name: "CPUTime", width: 10, value: |row, _| span(cpu_seconds(row)) },
    Known { name: "CPUTimeRAW", width: 10, value: |row, _| whole(cpu_seconds(row)) },
    Known { name: "Elapsed", width: 10, value: |row, _| span(row.runtime()) },
    Known { name: "ElapsedRaw", width: 10, value: |row, _| whole(row.runtime()) },
    Known { name: "Eligible", width: 19, value: |row, zone| time(row, "t_sched", zone) },
    Known { name: "End", width: 19, value: |row, zone| time(row, "t_inactive", zone) },
    Known { name: "ExitCode", width: 8, value: |row, _| exit_code(row) },
    Known { name: ID, width: 12, value: |row, _| row.display.ids.show(row.id) },
    Known { name: "JobIDRaw", width: 20, value: |row, _| row.id.encode(Encoding::Dec) },
    Known { name: "JobName", width: 10, value: |row, _| row.text("name").to_owned() },
    Known { name: "NCPUS", width: 10, value: |row, _| allocated(row, "ncores") },
    Known { name: "NNodes", width: 8, value: |row, _| number(row, "nnodes") },
    Known { name: "NodeList", width: 15, value: |row, _| nodes(row) },
    Known { name: "NTasks", width: 8, value: |row, _| number(row, "ntasks") },
    Known { name: "Partition", width: 10, value: |row, _| row.text("queue").to_owned() },
    Known { name: "Planned", width: 10, value: |row, _| span(waited(row)) },
    Known { name: "PlannedRaw", width: 10, value: |row, _| whole(waited(row)) },
    Known { name: "Priority", width: 10, value: |row, _| number(row, "priority") },
    Known { name: "ReqCPUS", width: 8, value: |row, _| number(row, "ncores") },
    Known { name: "ReqNodes", width: 8, value: |row, _| number(row, "nnodes") },
    Known { name: "Start", width: 19, value: |row, zone| time(row, "t_run", zone) },
    Known { name: "State", width: 10, value: |row, _| state(row).to_owned() },
    Known { name: "Submit", width: 19, value: |row, zone| time(row, "t_submit", zone) },
    Known { name: "Timelimit", width: 10, value: |row, _| limit(row, span) },
    Known { name: "TimelimitRaw", width: 12, value: |row, _| limit(row, |t| whole(t / 60.0)) },
    Known {
        name: "UID",
        width: 6,
        value: |row, _| row.userid().map_or_else(String::new, |uid| uid.to_string()),
    },
    Known { name: "User", width: 9, value: |row, _| row.username().unwrap_or_default() },
    Known { name: "WorkDir", width: 20, value: |row, _| row.text("cwd").to_owned() },
];

/// The columns of `--format`: names in any case, each with `%WIDTH` or `%-WIDTH` where the width differs.
///
/// # Errors
/// A column doesn't exist, or a width is not a number from 1 to 4096.
pub(super) fn chosen(format: &str) -> Result<Vec<Column>, CliError> {
    let column = |text: &str| {
        let (name, width) = text.split_once('%').unwrap_or((text, ""));
        let known = KNOWN.iter().find(|known| known.name.eq_ignore_ascii_case(name));
        let known = known.ok_or_else(|| {
            CliError::failure(format!("there is no column '{name}'; --helpformat lists them"))
        })?;
        let (left, digits) = match width.strip_prefix('-') {
            Some(digits) => (true, digits),
            None => (false, width),
        };
        let width = match digits {
            "" => known.width,
            // Enough for a wide terminal; longer texts are for --parsable2.
            digits => {
                digits.parse().ok().filter(|width| (1..=4096).contains(width)).ok_or_else(|| {
                    CliError::failure(format!("'{text}': the width is a number from 1 to 4096"))
                })?
            }
        };
        Ok(Column { name: known.name, width, left, value: known.value })
    };
    format.split(',').filter(|text| !text.is_empty()).map(column).collect()
}

/// The names of all columns, for `--helpformat`.
pub(super) fn names() -> impl Iterator<Item = &'static str> {
    KNOWN.iter().map(|known| known.name)
}

impl Column {
    /// The column's text for a job.
    pub(super) fn value(&self, row: &JobRow<'_>, zone: &TimeZone) -> String {
        crate::shown::in_line(&(self.value)(row, zone)).into_owned()
    }

    /// A text, padded or cut to the column's width. A cut text ends in `+`. An id is never cut: a part of it names
    /// another job.
    pub(super) fn fit(&self, text: &str) -> String {
        let least = if self.name.starts_with("JobID") { text.chars().count() } else { 0 };
        fit(text, self.width.max(least), self.left)
    }

    /// The heading, cut to the column's width.
    pub(super) fn heading(&self) -> String {
        self.name.chars().take(self.width).collect()
    }

    /// The line below the heading.
    pub(super) fn rule(&self) -> String {
        "-".repeat(self.width)
    }
}

/// Pads or cuts a text to `width`. A cut text ends in `+`.
pub(super) fn fit(text: &str, width: usize, left: bool) -> String {
    if text.chars().count() > width {
        let cut: String = text.chars().take(width.saturating_sub(1)).collect();
        return format!("{cut}+");
    }
    match left {
        true => format!("{text:<width$}"),
        false => format!("{text:>width$}"),
    }
}

/// Sacct's word for the state or the result.
pub(super) fn state(row: &JobRow<'_>) -> &'static str {
    match (row.final_result(), row.state) {
        (Some(JobResult::Completed), _) => "COMPLETED",
        (Some(JobResult::Failed), _) => "FAILED",
        (Some(JobResult::Canceled), _) => "CANCELLED",
        (Some(JobResult::Timeout), _) => "TIMEOUT",
        (None, Some(State::Run)) => "RUNNING",
        (None, Some(State::Cleanup)) => "COMPLETING",
        (None, _) => "PENDING",
    }
}

/// Seconds from the submission to the start; without a start, until the job became inactive or until now.
pub(super) fn waited(row: &JobRow<'_>) -> f64 {
    let (submit, run, end) = (row.float("t_submit"), row.float("t_run"), row.float("t_inactive"));
    let until = match (run > 0.0, end > 0.0) {
        (true, _) => run,
        (false, true) => end,
        (false, false) => row.display.now,
    };
    (until - submit).max(0.0)
}

/// The cores that a job had, times the seconds that it ran.
pub(super) fn cpu_seconds(row: &JobRow<'_>) -> f64 {
    row.int("ncores").unwrap_or(0) as f64 * row.runtime()
}

/// `[DAYS-]HH:MM:SS`, in whole seconds.
pub(in crate::cli) fn span(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    let clock = format!("{:02}:{:02}:{:02}", rest / 3600, rest / 60 % 60, rest % 60);
    if days > 0 { format!("{days}-{clock}") } else { clock }
}

fn whole(number: f64) -> String {
    (number.max(0.0) as u64).to_string()
}

fn number(row: &JobRow<'_>, name: &str) -> String {
    row.int(name).map_or_else(String::new, |number| number.to_string())
}

/// A number of resources; 0 for a job that never had any.
fn allocated(row: &JobRow<'_>, name: &str) -> String {
    if row.float("t_run") > 0.0 { number(row, name) } else { "0".to_owned() }
}

fn nodes(row: &JobRow<'_>) -> String {
    match row.text("nodelist") {
        "" => "None assigned".to_owned(),
        nodes => nodes.to_owned(),
    }
}

/// Why the job ended, for a job that did not succeed.
fn reason(row: &JobRow<'_>) -> String {
    match row.final_result() {
        Some(JobResult::Completed) | None => String::new(),
        Some(_) => row.inactive_reason(),
    }
}

/// `CODE:SIGNAL`.
pub(in crate::cli) fn exit_code(row: &JobRow<'_>) -> String {
    // A shell reports the signal that has ended its command as a code.
    let ended = matches!(row.final_result(), Some(JobResult::Canceled | JobResult::Timeout));
    match row.returncode() {
        Some(code @ 129..=192) if ended => format!("0:{}", code - 128),
        Some(code @ 0..) => format!("{code}:0"),
        // The job was canceled before it had an exit status.
        Some(-128) | None => "0:0".to_owned(),
        Some(signal) => format!("0:{}", signal.unsigned_abs()),
    }
}

fn limit(row: &JobRow<'_>, show: impl Fn(f64) -> String) -> String {
    match row.float("duration") {
        limit if limit > 0.0 => show(limit),
        _ => "UNLIMITED".to_owned(),
    }
}

/// A local time in sacct's format.
fn time(row: &JobRow<'_>, name: &str, zone: &TimeZone) -> String {
    let seconds = row.float(name);
    let known = Timestamp::from_second(seconds as i64).ok().filter(|_| seconds > 0.0);
    known.map_or_else(
        || "Unknown".to_owned(),
        |time| time.to_zoned(zone.clone()).strftime("%Y-%m-%dT%H:%M:%S").to_string(),
    )
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cli::accounting::finished::display;

    fn shown(job: Value, format: &str) -> Vec<String> {
        let display = display();
        let row = JobRow::from_json(job, &display).unwrap();
        let columns = chosen(format).unwrap();
        columns.iter().map(|column| column.value(&row, &TimeZone::UTC)).collect()
    }

    #[test]
    fn a_finished_job_has_the_forms_of_sacct() {
        let job = json!({"id": 7, "state": 64, "result": 2, "ncores": 8, "nnodes": 2, "waitstatus": 768,
            "duration": 5400.0, "name": "a\u{1b}b", "queue": "batch", "bank": "x",
            "t_submit": 1_700_000_000.2, "t_run": 1_700_000_010.0, "t_cleanup": 1_700_090_010.9,
            "t_inactive": 1_700_090_011.0});
        let format = "jobidraw,JobName,partition,account,state,exitcode,elapsed,elapsedraw,cputimeraw,\
                      timelimit,TimelimitRaw,submit,start,planned,alloccpus,nodelist";
        let wanted = [
            "7",
            "a\\u001bb",
            "batch",
            "x",
            "FAILED",
            "3:0",
            "1-01:00:00",
            "90000",
            "720007",
            "01:30:00",
            "90",
            "2023-11-14T22:13:20",
            "2023-11-14T22:13:30",
            "00:00:09",
            "8",
            "None assigned",
        ];
        assert_eq!(shown(job, format), wanted);
    }

    #[test]
    fn a_signal_that_the_manager_has_sent_is_no_exit_code() {
        let job = |result: u32, status: u32| json!({"id": 7, "state": 64, "result": result, "waitstatus": status});
        assert_eq!(shown(job(4, 143 << 8), "exitcode"), ["0:15"]);
        assert_eq!(shown(job(8, 15), "exitcode"), ["0:15"]);
        assert_eq!(shown(job(2, 143 << 8), "exitcode"), ["143:0"]);
        assert_eq!(shown(job(4, 3 << 8), "exitcode"), ["3:0"]);
    }

    #[test]
    fn a_job_that_never_ran_has_no_times() {
        let job = json!({"id": 7, "state": 64, "result": 4, "ncores": 8, "t_submit": 100.0, "t_inactive": 103.0});
        let format = "state,exitcode,start,alloccpus,reqcpus,timelimit,elapsed,plannedraw";
        let wanted = ["CANCELLED", "0:0", "Unknown", "0", "8", "UNLIMITED", "00:00:00", "3"];
        assert_eq!(shown(job, format), wanted);
    }

    #[test]
    fn columns_have_widths() {
        let columns = chosen("uid%4,user%-6,State,jobid%4").unwrap();
        let fit: Vec<String> = columns.iter().map(|column| column.fit("abcde")).collect();
        assert_eq!(fit, ["abc+", "abcde ", "     abcde", "abcde"]);
        for (format, refusal) in [
            ("jobid,nosuch", "there is no column 'nosuch'; --helpformat lists them"),
            ("jobid%x", "'jobid%x': the width is a number from 1 to 4096"),
            ("jobid%0", "'jobid%0': the width is a number from 1 to 4096"),
        ] {
            assert_eq!(chosen(format).err().unwrap().text, refusal);
        }
    }
}
