//! The result of a job as `job status --json` prints it: the object that Flux's library derives from the events.

use jobtap_core::eventlog::{Event, EventEntry, Name, Raised};
use jobtap_core::job::{JobId, JobResult, Timestamp};
use serde::Serialize;

/// The result of a job, according to its events.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(super) struct Outcome {
    id: JobId,
    exception_occurred: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    t_submit: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t_run: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_type: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_note: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    exception_severity: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    t_cleanup: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    waitstatus: Option<i64>,
}

impl Outcome {
    pub(super) fn new(id: JobId) -> Self {
        Self {
            id,
            exception_occurred: false,
            t_submit: None,
            t_run: None,
            exception_type: None,
            exception_note: None,
            exception_severity: None,
            t_cleanup: None,
            waitstatus: None,
        }
    }

    /// Takes the next event of the main eventlog into account.
    pub(super) fn update(&mut self, event: &EventEntry) {
        // Matched by name, since only the time of `submit` is needed, whatever its context says.
        if event.name == Name::Submit {
            self.t_submit = Some(event.timestamp);
        }
        match event.event() {
            Ok(Event::Alloc(_)) => self.t_run = Some(event.timestamp),
            Ok(Event::Finish { status }) => {
                self.t_cleanup = Some(event.timestamp);
                self.waitstatus = Some(status.into());
            }
            Ok(Event::Exception(Raised { kind, severity, note, .. })) => {
                // Of several exceptions the most severe counts, and of those the last; but none replaces a fatal one,
                // which has ended the job.
                if self.exception_severity.is_some_and(|known| known < severity || known == 0) {
                    return;
                }
                self.exception_occurred = true;
                self.exception_severity = Some(severity);
                self.exception_type = Some(kind.to_owned());
                self.exception_note = Some(note.to_owned());
            }
            _ => {}
        }
    }

    fn result(&self) -> JobResult {
        match self.exception_type.as_deref() {
            _ if self.t_run.is_some() && self.waitstatus == Some(0) => JobResult::Completed,
            Some("cancel") => JobResult::Canceled,
            Some("timeout") => JobResult::Timeout,
            _ => JobResult::Failed,
        }
    }

    /// The object, with Flux's number for the result.
    pub(super) fn to_json(&self) -> String {
        #[derive(Serialize)]
        struct Whole<'a> {
            #[serde(flatten)]
            outcome: &'a Outcome,
            result: u32,
        }
        let whole = Whole { outcome: self, result: self.result().value().into() };
        serde_json::to_string(&whole).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn outcome(events: &[Value]) -> Value {
        let mut outcome = Outcome::new(JobId::new(7));
        for event in events {
            outcome.update(&EventEntry::decode(&format!("{event}\n")).unwrap());
        }
        serde_json::from_str(&outcome.to_json()).unwrap()
    }

    fn event(at: f64, name: &str, context: Value) -> Value {
        json!({"timestamp": at, "name": name, "context": context})
    }

    #[test]
    fn times_status_and_the_gravest_exception_are_told() {
        let exception = |severity: i64, kind: &str| {
            event(3.0, "exception", json!({"type": kind, "severity": severity, "note": "n"}))
        };
        let begin = [event(1.0, "submit", json!({})), event(2.0, "alloc", json!({}))];
        let finish = |status: i64| event(4.0, "finish", json!({"status": status}));
        let told = outcome(&[&begin[..], &[exception(3, "note"), finish(0)]].concat());
        let expected = json!({
            "id": 7, "exception_occurred": true, "t_submit": 1.0, "t_run": 2.0, "t_cleanup": 4.0,
            "exception_type": "note", "exception_severity": 3, "exception_note": "n",
            "waitstatus": 0, "result": 1,
        });
        assert_eq!(told, expected);
        let results = [
            (
                vec![exception(3, "x"), exception(0, "cancel"), exception(2, "y"), finish(15)],
                "cancel",
                4,
            ),
            (vec![exception(0, "timeout"), exception(0, "cancel"), finish(15)], "timeout", 8),
            (vec![exception(0, "exec"), finish(256)], "exec", 2),
        ];
        for (events, kind, result) in results {
            let told = outcome(&[&begin[..], &events].concat());
            assert_eq!((&told["exception_type"], &told["result"]), (&json!(kind), &json!(result)));
        }
        let failed = outcome(&[&begin[..], &[finish(256)]].concat());
        let expected = json!({
            "id": 7, "exception_occurred": false, "t_submit": 1.0, "t_run": 2.0, "t_cleanup": 4.0,
            "waitstatus": 256, "result": 2,
        });
        assert_eq!(failed, expected);
    }
}
