//! What a job waits for, and on whom: `job-manager.why`.
//!
//! In every state there is an answer, from what the engine itself goes by. A reason names who can do
//! something about it: a plugin, another job, an administrator, the user.

use serde_json::{Value, json};

use super::Engine;
use super::api::{Cred, RequestError};
use super::record::{Exec, Record, field};
use super::requests::refused;
use crate::host::{Hold, Perilog};
use crate::job::{JobId, State, Timestamp};
use crate::topic::TopicId;

const EPERM: i32 = 1;
const ENOENT: i32 = 2;

impl Engine {
    /// `{"id","state","reasons":[{"kind","text",..}]}`; a reason's text is a sentence for the user.
    ///
    /// # Errors
    /// ENOENT for an unknown job, EPERM for another user's.
    pub fn why(&self, id: JobId, cred: Cred) -> Result<Value, RequestError> {
        let record = self.known(id, ENOENT, "unknown job id")?;
        if !cred.owner && record.job.userid != cred.userid {
            return Err(refused(EPERM, "guests can only access their own jobs"));
        }
        let reasons = match record.job.state {
            State::New => vec![reason("submission", "it is being accepted")],
            State::Depend => self.why_depend(record),
            State::Priority => self.why_priority(record),
            State::Sched => self.why_sched(record),
            State::Run => self.why_run(record),
            State::Cleanup => self.why_cleanup(record),
            State::Inactive => vec![why_over(record)],
        };
        Ok(json!({ "id": id, "state": record.job.state.long_name(), "reasons": reasons }))
    }

    fn why_depend(&self, record: &Record) -> Vec<Value> {
        let held = record.job.dependencies().map(|description| {
            let by = self.who_holds(record, description);
            let text = match &by {
                Some(plugin) => format!("dependency {description} holds it, by plugin {plugin}"),
                None => format!(
                    "dependency {description} holds it, and no loaded plugin looks after that: load \
                     the one that did"
                ),
            };
            json!({ "kind": "dependency", "text": text, "dependency": description, "plugin": by })
        });
        held.collect()
    }

    /// The loaded plugin that will remove a dependency.
    fn who_holds(&self, record: &Record, description: &str) -> Option<String> {
        let (_, plugin) = record.holders.iter().find(|(held, _)| **held == *description)?;
        let plugin = self.plugins.stack.get(*plugin)?;
        Some(plugin.name().to_string())
    }

    fn why_priority(&self, record: &Record) -> Vec<Value> {
        let at_work = record.working.iter().filter(|work| work.hold == Hold::Priority);
        let mut reasons: Vec<Value> = at_work
            .map(|work| {
                let text = format!("{} is at work on its priority", work.what);
                json!({ "kind": "priority", "text": text, "plugin": &*self.plugins.name(work.plugin) })
            })
            .collect();
        let handlers = self.plugins.stack.handlers(TopicId::JobStatePriority);
        let handlers: Vec<_> = handlers.into_iter().flat_map(|list| list.iter()).collect();
        for bound in &handlers {
            let name = bound.instance().name();
            if bound.instance().is_faulted() {
                let text = format!(
                    "plugin {name}, which sets priorities, has failed repeatedly: an administrator \
                     must reload it"
                );
                reasons.push(json!({ "kind": "plugin", "text": text, "plugin": &**name }));
            }
        }
        if reasons.is_empty() {
            // Others only look on.
            let decide = handlers.iter().filter(|bound| bound.entry().answers);
            let names: Vec<&str> = decide.map(|bound| &**bound.instance().name()).collect();
            let text = if names.is_empty() {
                "no loaded plugin sets priorities: load .priority-default or another one".to_owned()
            } else {
                format!("no plugin has given it a priority yet ({})", names.join(", "))
            };
            reasons.push(json!({ "kind": "priority", "text": text, "plugins": names }));
        }
        reasons
    }

    fn why_sched(&self, record: &Record) -> Vec<Value> {
        let mut reasons = Vec::new();
        if record.job.urgency.value() == 0 {
            reasons.push(reason("held", "it is held: its urgency is 0 (jobtap job urgency)"));
        } else if record.job.priority == Some(0) {
            reasons.push(reason("held", "it is held: a plugin gave it priority 0"));
        }
        reasons.extend(self.why_queue(record));
        if !reasons.is_empty() {
            return reasons;
        }
        let ahead = self.lanes.ahead_of(record.job.id);
        if let Some(first) = ahead.first() {
            let text = match ahead.len() {
                1 => format!("{first} goes first"),
                count => format!("{count} jobs go first, {first} before all"),
            };
            reasons.push(
                json!({ "kind": "order", "text": text, "ahead": ahead.len(), "first": first }),
            );
        }
        reasons.push(self.why_resources(record));
        reasons
    }

    /// The queue that isn't started, or isn't there any more.
    fn why_queue(&self, record: &Record) -> Option<Value> {
        let queue = match self.queues.of_job(&record.job.jobspec) {
            Ok(_) if record.bypass => return None,
            Ok(queue) if queue.is_started() => {
                let text = "the scheduler of its queue is offline after an error of its own: an \
                            administrator must load the configuration again (jobtap config reload)";
                return self.lanes.is_offline(&queue).then(|| reason("scheduler", text));
            }
            Ok(queue) => queue,
            Err(error) => {
                let text =
                    format!("{error}: it waits until its queue is configured, or it is moved");
                return Some(
                    json!({ "kind": "queue", "text": text, "queue": record.job.jobspec.queue() }),
                );
            }
        };
        // The one that somebody stopped.
        let stopped =
            queue.blocked_by().and_then(|parent| self.queues.get(parent)).unwrap_or(queue);
        let why = stopped.stop_reason().map(|why| format!(": {why}")).unwrap_or_default();
        let text = match (queue.name(), queue.blocked_by()) {
            (None, _) => format!("jobs are not scheduled{why}"),
            (Some(name), None) => format!("queue {name} is stopped{why}"),
            (Some(name), Some(parent)) => {
                format!("queue {parent}, the parent of its queue {name}, is stopped{why}")
            }
        };
        Some(json!({ "kind": "queue", "text": text, "queue": queue.name() }))
    }

    fn why_run(&self, record: &Record) -> Vec<Value> {
        let prologs = self.why_brackets(record, Perilog::Prolog, &record.prologs);
        if !prologs.is_empty() {
            return prologs;
        }
        if record.times.start.get().is_none() {
            return vec![reason("start", "its tasks are being started")];
        }
        let until = record.job.resources().and_then(|resources| resources.expiration());
        let text = match until {
            Some(until) => format!("its tasks run, for {} at the most", span(until, self.now)),
            None => "its tasks run, without a time limit".to_owned(),
        };
        vec![json!({ "kind": "tasks", "text": text, "until": until })]
    }

    fn why_cleanup(&self, record: &Record) -> Vec<Value> {
        let mut reasons = self.why_brackets(record, Perilog::Prolog, &record.prologs);
        reasons.extend(self.why_brackets(record, Perilog::Epilog, &record.epilogs));
        if matches!(record.exec, Exec::Open | Exec::Ending) {
            reasons.push(reason("tasks", "its tasks are being ended"));
        }
        if reasons.is_empty() {
            reasons.push(reason("release", "its resources are being freed"));
        }
        reasons
    }

    fn why_brackets(&self, record: &Record, bracket: Perilog, open: &[Box<str>]) -> Vec<Value> {
        let word = bracket.word();
        let one = |description: &str| {
            let mut opened = record.opened.iter();
            let by = opened.find(|o| o.bracket == bracket && *o.description == *description);
            let by = by.map(|o| self.plugins.name(o.plugin).to_string());
            let whose = by.as_ref().map(|by| format!(" of plugin {by}")).unwrap_or_default();
            let text = format!("{word} {description}{whose} is not finished");
            json!({ "kind": word, "text": text, "description": description, "plugin": by })
        };
        open.iter().map(|description| one(description)).collect()
    }
}

pub(super) fn reason(kind: &str, text: impl Into<String>) -> Value {
    json!({ "kind": kind, "text": text.into() })
}

/// Nothing is waited for any more; how it ended is what is left to say.
fn why_over(record: &Record) -> Value {
    let end = record.job.end_event();
    let text = |key: &str| end.and_then(|end| field(end, key)?.as_str()).unwrap_or_default();
    let said = match end {
        Some(end) if end.name == "exception" => {
            let note = text("note");
            let note = if note.is_empty() { String::new() } else { format!(": {note}") };
            format!("it was ended by exception {}{note}", text("type"))
        }
        Some(_) if record.wait_status == Some(0) => "it has completed".to_owned(),
        _ => "its tasks failed".to_owned(),
    };
    reason("over", said)
}

/// The time until then, for people.
pub(super) fn span(until: f64, now: Timestamp) -> String {
    let seconds = (until - now.as_secs()).max(0.0).round();
    // Whole and not negative.
    let whole = seconds as u64;
    match (whole / 86_400, whole / 3600 % 24, whole / 60 % 60, whole % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}
