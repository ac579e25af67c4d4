//! A job as `squeue` and `scontrol show job` show it, in Slurm's words.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use jobtap_core::array::Element;
use jobtap_core::engine::WaitsFor;
use jobtap_core::job::{JobId, JobResult, State};
use jobtap_core::jobspec::path;
use jobtap_core::resource::Idset;
use jobtap_core::slurm::JobDescriptor;
use serde_json::Value;

use super::names::variable;
use crate::cli::accounting;
use crate::cli::common::arrays::{jobspecs, shown};
use crate::cli::common::message::CliError;
use crate::cli::jobs::row::{DisplayContext, JobRow};
use crate::client::Client;
use crate::rpc::services::job_list::ListId;

/// What Slurm shows for a text that isn't set.
pub(super) const NULL: &str = "(null)";

/// The partition of a job of a manager without queues.
pub(super) const ANONYMOUS: &str = "default";

/// What the lines of this process depend on besides the jobs.
pub(super) fn display() -> &'static DisplayContext {
    thread_local! {
        // A command has one thread, and ends when it has printed its lines.
        static DISPLAY: &'static DisplayContext = Box::leak(Box::new(accounting::display()));
    }
    DISPLAY.with(|display| *display)
}

/// Slurm's states of jobs, in the order in which `squeue` lists them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum JobState {
    Pending,
    Running,
    Completing,
    Completed,
    Failed,
    Cancelled,
    Timeout,
}

impl JobState {
    pub(super) const ALL: [Self; 7] = [
        Self::Pending,
        Self::Running,
        Self::Completing,
        Self::Completed,
        Self::Failed,
        Self::Cancelled,
        Self::Timeout,
    ];

    /// Slurm's word.
    pub(super) fn long(self) -> &'static str {
        match self {
            Self::Pending => "PENDING",
            Self::Running => "RUNNING",
            Self::Completing => "COMPLETING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
            Self::Timeout => "TIMEOUT",
        }
    }

    /// Slurm's abbreviation.
    pub(super) fn short(self) -> &'static str {
        match self {
            Self::Pending => "PD",
            Self::Running => "R",
            Self::Completing => "CG",
            Self::Completed => "CD",
            Self::Failed => "F",
            Self::Cancelled => "CA",
            Self::Timeout => "TO",
        }
    }

    /// The state that a word or an abbreviation in any case names.
    pub(super) fn named(word: &str) -> Option<Self> {
        let is = |state: &Self| {
            word.eq_ignore_ascii_case(state.long()) || word.eq_ignore_ascii_case(state.short())
        };
        Self::ALL.into_iter().find(is)
    }

    /// Whether the job is inactive in this state.
    pub(super) fn is_final(self) -> bool {
        self > Self::Completing
    }
}

/// A listed job, and what its jobspec adds.
pub(super) struct JobLine {
    pub(super) row: JobRow<'static>,
    /// The job's place in an array; that of the first pending element if the line stands for all of them.
    pub(super) place: Option<Element>,
    /// The indexes in the array if the line stands for pending elements of it.
    pub(super) pending: Idset,
    /// How often the job was submitted again.
    pub(super) restarts: u64,
    /// The request in Slurm's terms; `None` for a job whose jobspec the user may not read.
    pub(super) request: Option<JobDescriptor>,
}

/// The lines of listed jobs.
///
/// # Errors
/// A response describes no job.
pub(super) async fn lines(client: &Client, jobs: Vec<Value>) -> Result<Vec<JobLine>, CliError> {
    let rows = jobs.into_iter().map(|job| JobRow::from_json(job, display()));
    let rows: Vec<JobRow<'static>> = rows.collect::<Result<_, _>>().map_err(CliError::failure)?;
    let ids: Vec<JobId> = rows.iter().map(|row| row.id).collect();
    let jobspecs = jobspecs(client, &ids).await;
    let jobspecs = jobspecs.into_iter().map(Result::ok);
    let lines = rows.into_iter().zip(jobspecs).map(|(row, jobspec)| JobLine {
        place: match row.elements().first().or(row.element()) {
            Some(index) => Some(Element { array: row.id, index }),
            None => jobspec.as_ref().and_then(Element::of),
        },
        pending: row.elements(),
        row,
        restarts: jobspec.as_ref().and_then(restarts).unwrap_or(0),
        request: jobspec.as_ref().map(JobDescriptor::from_jobspec),
    });
    Ok(lines.collect())
}

/// The state of each of some jobs; `None` for one that isn't known.
pub(super) async fn states(client: &Client, ids: &[JobId]) -> Vec<Option<State>> {
    let requests = ids.iter().map(|id| ListId { id: *id, attrs: &["state"] });
    let state = |job: &Value| serde_json::from_value(job.get("state")?.clone()).ok();
    let found = client.call_all(requests).await.into_iter();
    found.map(|found| found.ok().and_then(|found| state(&found.job))).collect()
}

/// What `squeue` shows in the column REASON.
fn in_slurms_words(what: WaitsFor) -> &'static str {
    match what {
        WaitsFor::Dependency => "Dependency",
        WaitsFor::BeginTime => "BeginTime",
        WaitsFor::Limit => "AssocMaxJobsLimit",
        WaitsFor::License => "Licenses",
        // Slurm gives a job its priority at once, and has no word for one that has none yet.
        WaitsFor::Submission | WaitsFor::Priority | WaitsFor::Plugin | WaitsFor::Order => {
            "Priority"
        }
        WaitsFor::Held => "JobHeldAdmin",
        WaitsFor::Queue => "PartitionDown",
        WaitsFor::Nodes | WaitsFor::Maintenance => "ReqNodeNotAvail",
        WaitsFor::ArrayLimit => "JobArrayTaskLimit",
        WaitsFor::Prolog => "Prolog",
        WaitsFor::Resources
        | WaitsFor::Allocation
        | WaitsFor::Scheduler
        | WaitsFor::Refused
        | WaitsFor::Start
        | WaitsFor::Tasks
        | WaitsFor::Epilog
        | WaitsFor::Release => "Resources",
    }
}

fn restarts(jobspec: &Value) -> Option<u64> {
    path::get(jobspec, "attributes.system.slurm.restart_cnt")?.as_u64()
}

impl JobLine {
    /// `7`, `7_3` for a job of an array, or `7_[3-4]` for several.
    pub(super) fn id(&self) -> String {
        match self.place {
            Some(place) if !self.pending.is_empty() => {
                format!("{}_[{}]", place.array.as_u64(), self.pending_indexes())
            }
            Some(place) => shown(place),
            None => self.row.id.as_u64().to_string(),
        }
    }

    /// The indexes of the pending jobs that the line stands for, as short as `SLURM_BITSTR_LEN` says.
    pub(super) fn pending_indexes(&self) -> String {
        let length = variable("SLURM_BITSTR_LEN").and_then(|length| length.parse().ok());
        indexes(&self.pending, length.unwrap_or(64))
    }

    /// A field of the request, or `(null)`.
    pub(super) fn asked(&self, field: impl Fn(&JobDescriptor) -> Option<String>) -> String {
        or_null(self.request.as_ref().and_then(field).unwrap_or_default())
    }

    pub(super) fn partition(&self) -> String {
        match self.row.text("queue") {
            "" => ANONYMOUS.to_owned(),
            queue => queue.to_owned(),
        }
    }

    pub(super) fn state(&self) -> JobState {
        match (self.row.final_result(), self.row.state) {
            (Some(JobResult::Completed), _) => JobState::Completed,
            (Some(JobResult::Failed), _) => JobState::Failed,
            (Some(JobResult::Canceled), _) => JobState::Cancelled,
            (Some(JobResult::Timeout), _) => JobState::Timeout,
            (None, Some(State::Run)) => JobState::Running,
            (None, Some(State::Cleanup)) => JobState::Completing,
            (None, _) => JobState::Pending,
        }
    }

    /// Slurm's word for what a pending job waits for; `None` for any other job.
    pub(super) fn reason(&self) -> &'static str {
        match WaitsFor::named(self.row.text("why")) {
            _ if self.state() != JobState::Pending => "None",
            None => "None",
            Some(WaitsFor::Held) if self.row.int("urgency") == Some(0) => "JobHeldUser",
            Some(what) => in_slurms_words(what),
        }
    }

    /// What a job waits for in Slurm's words, or `(null)`.
    pub(super) fn dependency(&self) -> String {
        let words = self.row.dependencies().iter().map(|text| dependency(text)).collect::<Vec<_>>();
        or_null(words.join(","))
    }

    /// The hosts of a job that has some, or in parentheses what it waits for.
    pub(super) fn hosts_or_reason(&self) -> String {
        match self.row.text("nodelist") {
            "" => format!("({})", self.reason()),
            hosts => hosts.to_owned(),
        }
    }

    /// A time, or `unknown`.
    pub(super) fn time(&self, name: &str, unknown: &str) -> String {
        let seconds = self.row.float(name);
        match seconds > 0.0 {
            true => time(seconds, &self.row.display.zone).unwrap_or_else(|| unknown.to_owned()),
            false => unknown.to_owned(),
        }
    }

    /// When an inactive job ended, or a job's time limit is up.
    pub(super) fn end_time(&self, unknown: &str) -> String {
        let name = if self.row.inactive() { "t_inactive" } else { "expiration" };
        self.time(name, unknown)
    }

    pub(super) fn time_limit(&self) -> Option<f64> {
        Some(self.row.float("duration")).filter(|limit| *limit > 0.0)
    }

    pub(super) fn number(&self, name: &str) -> String {
        self.row.int(name).unwrap_or(0).to_string()
    }
}

/// The indexes of an array as Slurm 22.05.8 writes them into `length` bytes. The last byte stays unused; 0 means as
/// many as they need. Even steps are shown as such from six indexes on.
fn indexes(all: &Idset, length: usize) -> String {
    let text = steps(all).unwrap_or_else(|| all.to_string());
    if length == 0 || text.len() + 3 <= length {
        return text;
    }
    let kept = text.chars().take(length.saturating_sub(4));
    kept.chain("...".chars()).take(length.saturating_sub(1)).collect()
}

/// Indexes with the same distance of 2 or more, as `FIRST-LAST:STEP`.
fn steps(all: &Idset) -> Option<String> {
    let (first, last) = (all.first()?, all.last()?);
    let step = all.next_after(first)? - first;
    let are_even = || all.iter().zip(all.iter().skip(1)).all(|(one, next)| next - one == step);
    let are_many = all.len() > 5 && last - first > 10;
    (step > 1 && are_many && are_even()).then(|| format!("{first}-{last}:{step}"))
}

/// A dependency that isn't satisfied, in Slurm's words if it has some for it.
fn dependency(text: &str) -> String {
    let schemes = [
        ("after-success=", "afterok"),
        ("after-finish=", "afterany"),
        ("after-failure=", "afternotok"),
        ("after-start=", "after"),
    ];
    let known = schemes.iter().find_map(|(own, word)| Some((*word, text.strip_prefix(own)?)));
    known.map_or_else(|| text.to_owned(), |(word, id)| format!("{word}:{id}(unfulfilled)"))
}

/// A text, or `(null)` if it is empty.
pub(super) fn or_null(text: String) -> String {
    if text.is_empty() { NULL.to_owned() } else { text }
}

/// The line with the time of the listing, which Slurm prints above long ones.
pub(super) fn date_line() -> String {
    let now = Timestamp::now().to_zoned(display().zone.clone());
    format!("{}\n", now.strftime("%a %b %d %H:%M:%S %Y"))
}

/// A local time in Slurm's form.
pub(super) fn time(seconds: f64, zone: &TimeZone) -> Option<String> {
    let time = Timestamp::from_second(seconds as i64).ok()?.to_zoned(zone.clone());
    Some(time.strftime("%Y-%m-%dT%H:%M:%S").to_string())
}

/// A duration as listings show it: `0:22`, `10:00`, `1:00:00`, `2-03:00:00`.
pub(super) fn short_span(seconds: f64) -> String {
    let all = seconds.max(0.0) as u64;
    let (days, hours, minutes, seconds) = (all / 86_400, all / 3600 % 24, all / 60 % 60, all % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}:{seconds:02}"),
        (0, _) => format!("{hours}:{minutes:02}:{seconds:02}"),
        _ => format!("{days}-{hours:02}:{minutes:02}:{seconds:02}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_have_slurms_words() {
        assert_eq!(dependency("after-success=7"), "afterok:7(unfulfilled)");
        assert_eq!(dependency("begin@12:00"), "begin@12:00");
    }

    /// As Slurm 22.05.8 prints them.
    #[test]
    fn indexes_are_as_short_as_in_slurm() {
        let shown = |list: &str, length| indexes(&list.parse().unwrap(), length);
        let list = "1,3,5,10-20,30-31,35,40-50,61,63,65,67,70-80,90-91,95";
        for (length, wanted) in [
            (0, list),
            (1, ""),
            (3, ".."),
            (4, "..."),
            (8, "1,3,..."),
            (55, "1,3,5,10-20,30-31,35,40-50,61,63,65,67,70-80,90-91,..."),
            (56, list),
        ] {
            assert_eq!(shown(list, length), wanted, "{length}");
        }
        for (from, count, step, wanted) in [
            (1, 5, 10, "1,11,21,31,41"),
            (1, 6, 10, "1-51:10"),
            (10, 6, 2, "10,12,14,16,18,20"),
            (0, 7, 2, "0-12:2"),
            (4, 9, 1, "4-12"),
            (100_001, 10_000, 2, "100001-119999:2"),
        ] {
            let all: Idset = (0..count).map(|place| from + place * step).collect();
            assert_eq!(indexes(&all, 64), wanted);
        }
    }

    #[test]
    fn durations_are_as_short_as_in_slurm() {
        let shown = [22.9, 600.0, 3600.0, 183_600.0].map(short_span);
        assert_eq!(shown, ["0:22", "10:00", "1:00:00", "2-03:00:00"]);
    }
}
