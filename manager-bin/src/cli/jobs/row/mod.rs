//! A listed job, with the values that are derived from its attributes: status, run time, return code, and why
//! it is pending or became inactive.

mod fields;
mod json;
#[cfg(test)]
pub(super) mod tests;

use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use jobtap_core::job::{JobId, JobResult, State, WaitStatus};
use jobtap_core::resource::Idset;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::cli::common::format::fsd;
use crate::cli::common::ids::IdStyle;
use crate::users::Users;

/// The time, time zone, id style and users on which the displayed values of a job depend.
pub(crate) struct DisplayContext {
    /// Seconds since the epoch.
    pub(crate) now: f64,
    pub(crate) zone: TimeZone,
    pub(crate) ids: IdStyle,
    pub(crate) users: Users,
}

/// A job as `job-list` describes it.
pub(crate) struct JobRow<'a> {
    pub(in crate::cli) id: JobId,
    pub(in crate::cli) state: Option<State>,
    pub(in crate::cli) result: Option<JobResult>,
    pub(in crate::cli) attributes: Map<String, Value>,
    pub(in crate::cli) display: &'a DisplayContext,
}

/// A JSON value that is no job.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JobRowError {
    #[error("a job must be a JSON object")]
    NoObject,
    #[error("a job must have an id")]
    NoId,
    /// A member of the wrong type.
    #[error("{name}: {error}")]
    Member { name: &'static str, error: serde_json::Error },
}

impl JobRow<'_> {
    /// The indexes of the pending elements of a job array, if the row stands for them.
    pub(in crate::cli) fn elements(&self) -> Idset {
        let elements = self.attributes.get("array").and_then(|array| array.get("elements"));
        elements.and_then(Value::as_str).and_then(|text| text.parse().ok()).unwrap_or_default()
    }

    /// The index of a pending element of a job array, if the row stands for it alone.
    pub(in crate::cli) fn element(&self) -> Option<u32> {
        let element = self.attributes.get("array")?.get("element")?.as_u64()?;
        u32::try_from(element).ok()
    }

    /// What follows the id of an array: the indexes of the elements, shortened if they are many.
    fn indexes_shown(&self) -> String {
        let elements = self.elements();
        if elements.is_empty() {
            return String::new();
        }
        let text = elements.to_string();
        match text.char_indices().nth(MOST_INDEXES) {
            None => format!("[{text}]"),
            Some((end, _)) => {
                let whole = text.get(..end).unwrap_or_default();
                let whole = whole.rsplit_once(',').map_or(whole, |(whole, _)| whole);
                format!("[{whole},...]")
            }
        }
    }
}

/// How many characters of the indexes of an array are shown.
const MOST_INDEXES: usize = 32;

impl<'a> JobRow<'a> {
    /// Reads a job from its JSON object.
    ///
    /// # Errors
    /// [`JobRowError`].
    pub(crate) fn from_json(job: Value, display: &'a DisplayContext) -> Result<Self, JobRowError> {
        let Value::Object(attributes) = job else { return Err(JobRowError::NoObject) };
        let id = member(&attributes, "id")?.ok_or(JobRowError::NoId)?;
        let (state, result) = (member(&attributes, "state")?, member(&attributes, "result")?);
        Ok(JobRow { id, state, result, attributes, display })
    }

    /// Whether the job is inactive.
    pub(in crate::cli) fn inactive(&self) -> bool {
        self.state == Some(State::Inactive)
    }

    /// The result of an inactive job.
    pub(in crate::cli) fn final_result(&self) -> Option<JobResult> {
        self.result.filter(|_| self.inactive())
    }

    pub(in crate::cli) fn text(&self, name: &str) -> &str {
        self.attributes.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    /// A number; zero while it isn't known.
    pub(in crate::cli) fn float(&self, name: &str) -> f64 {
        self.attributes.get(name).and_then(Value::as_f64).unwrap_or_default()
    }

    pub(in crate::cli) fn int(&self, name: &str) -> Option<i64> {
        self.attributes.get(name).and_then(Value::as_i64)
    }

    pub(in crate::cli) fn userid(&self) -> Option<u32> {
        self.int("userid").and_then(|uid| u32::try_from(uid).ok())
    }

    pub(in crate::cli) fn username(&self) -> Option<String> {
        self.userid().map(|uid| self.display.users.name(uid))
    }

    /// The annotation at a dotted path. The empty path returns all annotations.
    pub(in crate::cli) fn annotation(&self, path: &str) -> Option<&Value> {
        let all = self.attributes.get("annotations")?;
        path.split('.').filter(|key| !key.is_empty()).try_fold(all, |value, key| value.get(key))
    }

    /// The state of an active job, the result of an inactive one.
    pub(in crate::cli) fn status(&self) -> &'static str {
        match (self.final_result(), self.state) {
            (Some(result), _) => result.long_name(),
            (None, state) => state.map_or("", State::long_name),
        }
    }

    pub(in crate::cli) fn status_abbrev(&self) -> &'static str {
        match (self.final_result(), self.state) {
            (Some(result), _) => result.short_name(),
            (None, state) => state.map_or("", State::short_name),
        }
    }

    /// The status as an emoji.
    pub(in crate::cli) fn status_emoji(&self) -> &'static str {
        match self.final_result() {
            Some(result) => result_emoji(result),
            None => self.state.map_or("", state_emoji),
        }
    }

    /// The parameters of the terminal's escape sequence that colors the line of this job, if it is colored.
    pub(in crate::cli) fn color(&self) -> Option<&'static str> {
        match self.final_result() {
            Some(JobResult::Completed) => Some("01;32"),
            Some(JobResult::Failed | JobResult::Timeout) => Some("01;31"),
            Some(JobResult::Canceled) => Some("37"),
            None => self.inner_manager().map(|_| "01;34"),
        }
    }

    /// The address of the manager that runs as this job, from the memo `uri`.
    pub(in crate::cli) fn inner_manager(&self) -> Option<&str> {
        let uri = self.annotation("user.uri")?.as_str()?;
        // The memo remains after the manager has exited.
        (self.state == Some(State::Run)).then_some(uri)
    }

    /// The ranks of its nodes.
    pub(in crate::cli) fn ranks(&self) -> &str {
        self.text("ranks")
    }

    /// Seconds from the state RUN to CLEANUP, or until now.
    pub(in crate::cli) fn runtime(&self) -> f64 {
        let (start, end) = (self.float("t_run"), self.float("t_cleanup"));
        match (start > 0.0, end > 0.0) {
            (false, _) => 0.0,
            (true, true) => (end - start).max(0.0),
            (true, false) => (self.display.now - start).max(0.0),
        }
    }

    /// Seconds until the expiration of a running job.
    pub(in crate::cli) fn remaining(&self) -> f64 {
        let expiration = self.float("expiration");
        match self.state == Some(State::Run) && expiration > 0.0 {
            true => (expiration - self.display.now).max(0.0),
            false => 0.0,
        }
    }

    /// The field `returncode`: an exit code, or the negated number of a signal, from the `finish` event on. As in
    /// Flux, an inactive job without a wait status has -128 if it was canceled and 1 if it failed.
    pub(in crate::cli) fn returncode(&self) -> Option<i64> {
        match (self.wait_status(), self.result) {
            (Some(status), _) => status
                .signaled()
                .map(|signal| i64::from(-signal))
                .or_else(|| status.exited().map(i64::from)),
            (None, Some(JobResult::Canceled)) => Some(-128),
            (None, Some(JobResult::Failed)) => Some(1),
            (None, _) => None,
        }
    }

    fn wait_status(&self) -> Option<WaitStatus> {
        self.int("waitstatus").and_then(|status| i32::try_from(status).ok()).map(WaitStatus)
    }

    /// The requested duration of a pending job, otherwise the run time.
    pub(in crate::cli) fn contextual_time(&self) -> f64 {
        match self.state {
            Some(State::Run | State::Cleanup | State::Inactive) => self.runtime(),
            _ => self.float("duration"),
        }
    }

    /// Why the job is pending, or where it runs.
    pub(in crate::cli) fn contextual_info(&self) -> String {
        match self.state {
            Some(State::Depend) => format!("depends:{}", self.dependencies().join(",")),
            Some(State::Priority) => "priority-wait".to_owned(),
            Some(State::Sched) => self.sched_info(),
            Some(State::Run | State::Cleanup | State::Inactive) => self.text("nodelist").to_owned(),
            Some(State::New) | None => String::new(),
        }
    }

    fn sched_info(&self) -> String {
        if let Some(estimate) = self.annotation("sched.t_estimate").and_then(Value::as_f64) {
            let left = estimate - self.display.now;
            return match left > 0.0 {
                true => format!("eta:{}", fsd(left)),
                false => "eta:now".to_owned(),
            };
        }
        match (self.int("urgency"), self.int("priority")) {
            (Some(0), _) => "held".to_owned(),
            (_, Some(0)) => "priority-hold".to_owned(),
            _ => String::new(),
        }
    }

    /// The outstanding dependencies.
    pub(in crate::cli) fn dependencies(&self) -> Vec<String> {
        let list = self.attributes.get("dependencies").and_then(Value::as_array);
        let names = list.into_iter().flatten().filter_map(Value::as_str);
        names.map(|name| self.show_dependency(name)).collect()
    }

    /// Shows `begin-time=SECONDS` as a local time, and any other dependency unchanged.
    fn show_dependency(&self, name: &str) -> String {
        let begin = name.strip_prefix("begin-time=").and_then(|t| t.parse().ok());
        let times = begin.and_then(|t| self.local(t)).zip(self.local(self.display.now));
        let Some((begin, now)) = times else {
            return name.to_owned();
        };
        let format = match (begin.date() == now.date(), begin.second()) {
            (true, 0) => "begin@%H:%M",
            (true, _) => "begin@%H:%M:%S",
            (false, 0) => "begin@%b%d-%H:%M",
            (false, _) => "begin@%b%d-%H:%M:%S",
        };
        begin.strftime(format).to_string()
    }

    fn local(&self, seconds: f64) -> Option<Zoned> {
        let time = Timestamp::from_microsecond((seconds * 1e6) as i64).ok();
        Some(time.filter(|_| seconds.is_finite())?.to_zoned(self.display.zone.clone()))
    }

    /// Why the job became inactive; empty for an active job.
    pub(in crate::cli) fn inactive_reason(&self) -> String {
        match self.final_result() {
            None => String::new(),
            Some(JobResult::Canceled) => match self.text("exception_note") {
                "" => "Canceled".to_owned(),
                note => format!("Canceled: {note}"),
            },
            Some(JobResult::Timeout) => "Timeout".to_owned(),
            Some(JobResult::Completed) => "Exit 0".to_owned(),
            Some(JobResult::Failed) => self.failure(),
        }
    }

    fn failure(&self) -> String {
        let kind = self.text("exception_type");
        // For an exception of type exec the return code says more than the exception's note.
        let fatal = self.int("exception_severity") == Some(0);
        if fatal && !matches!(kind, "" | "exec") {
            return match self.text("exception_note") {
                "" => format!("Exception: type={kind}"),
                note => format!("Exception: type={kind} note={note}"),
            };
        }
        match self.returncode() {
            Some(126) => "Command invoked cannot execute".to_owned(),
            Some(127) => "command not found".to_owned(),
            Some(128) => "Invalid argument to exit".to_owned(),
            Some(code) if code > 128 => {
                let text = self.wait_status().map(WaitStatus::text).unwrap_or_default();
                let text = text.strip_prefix("task(s) ").unwrap_or(&text);
                text.replace("Unknown signal", "Signaled")
            }
            Some(code) => format!("Exit {code}"),
            None => String::new(),
        }
    }
}

pub(in crate::cli) fn state_emoji(state: State) -> &'static str {
    match state {
        State::New => "🎁",
        State::Depend => "🛑",
        State::Priority => "🚦",
        State::Sched => "📅",
        State::Run => "🏃",
        State::Cleanup => "🗑",
        State::Inactive => "💀",
    }
}

pub(in crate::cli) fn result_emoji(result: JobResult) -> &'static str {
    match result {
        JobResult::Completed => "😀",
        JobResult::Failed => "💩",
        JobResult::Canceled => "💥",
        JobResult::Timeout => "⌛",
    }
}

/// Deserializes a member. Returns `None` if it is missing, `null` or an empty string.
fn member<T: for<'de> Deserialize<'de>>(
    job: &Map<String, Value>,
    name: &'static str,
) -> Result<Option<T>, JobRowError> {
    match job.get(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) if text.is_empty() => Ok(None),
        Some(value) => {
            T::deserialize(value).map(Some).map_err(|error| JobRowError::Member { name, error })
        }
    }
}
