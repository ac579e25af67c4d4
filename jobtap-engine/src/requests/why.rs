//! What a job waits for: `job-manager.why`.
//!
//! In every state there is an answer, from the same data by which the engine decides. A reason names
//! what has to happen, and who can do something about it: a plugin, another job, an administrator or
//! the user.

use serde_json::{Value, json};

use super::waits_for::{self, Blocked};
use crate::alloc::nodes::PlannedMaintenance;
use crate::allocations;
use crate::api::{Cred, RequestError, WaitsFor};
use crate::arrays::Array;
use crate::core::Core;
use crate::dispatch::retention;
use crate::host::errno::{ENOENT, EPERM};
use crate::host::{BoundHandler, WorkKind};
use crate::job::{JobId, State, Timestamp};
use crate::jobs::Record;
use crate::plugin::Perilog;
use crate::resource::{Idset, ResourceSet};
use crate::topic::TopicId;

/// The maximum number of jobs or nodes that one reason names.
const MAX_NAMED: usize = 8;

/// `{"id","state","reasons":[{"kind","text",..}]}`. The text of a reason is a sentence for the user.
pub(crate) fn why(core: &Core, id: JobId, cred: Cred) -> Result<Value, RequestError> {
    if let Some(array) = core.arrays.get(id) {
        return why_array(core, array, cred);
    }
    let record = core.jobs.accepted(id, ENOENT, "unknown job id")?;
    if !cred.owner && record.job.userid() != cred.userid {
        return Err(RequestError::new(EPERM, "guests can only access their own jobs"));
    }
    let mut reasons = why_state(core, record);
    reasons.extend(why_jobs_before(core, record, cred));
    Ok(json!({ "id": id, "state": record.job.state().long_name(), "reasons": reasons }))
}

/// What holds the elements of an array that have no resources.
fn why_array(core: &Core, array: &Array, cred: Cred) -> Result<Value, RequestError> {
    if !cred.owner && array.userid() != cred.userid {
        return Err(RequestError::new(EPERM, "guests can only access their own jobs"));
    }
    let mut reasons = Vec::new();
    if waits_for::is_array_held(array) {
        let text = "its elements are held: their urgency is 0 (jobtap job urgency)";
        reasons.push(reason(WaitsFor::Held, text));
    }
    if let Some(refusal) = array.refusal() {
        let seconds = (refusal.next - core.turn.clock.now).max(0.0);
        let text = format!(
            "its next elements are refused, and tried again in {seconds:.0} s: {}",
            refusal.reason
        );
        reasons.push(reason(WaitsFor::Refused, text));
    }
    if array.is_limited() {
        let text = "as many of its elements are active as its submission allows at once";
        reasons.push(reason(WaitsFor::ArrayLimit, text));
    }
    if let Some(record) = waits_for::first_pending(core, array) {
        reasons.extend(why_state(core, record));
        reasons.extend(why_jobs_before(core, record, cred));
    }
    if let Some(end) = array.end() {
        let ago = core.turn.clock.now - end;
        let text = format!("all of its elements ended {ago:.0} s ago");
        reasons.push(json!({ "kind": "inactive", "text": text }));
    }
    Ok(json!({ "id": array.id(), "state": array.state().long_name(), "reasons": reasons }))
}

/// What holds a job in its state.
fn why_state(core: &Core, record: &Record) -> Vec<Value> {
    let mut reasons = match record.job.state() {
        State::New => vec![reason(WaitsFor::Submission, "it is being accepted")],
        State::Depend => why_depend(core, record),
        State::Priority => why_priority(core, record),
        State::Sched => why_sched(core, record),
        State::Run => why_run(core, record),
        State::Cleanup => why_cleanup(core, record),
        State::Inactive => return vec![why_inactive(record)],
    };
    let waits = record.job.state() != State::Run || record.perilogs.is_open(Perilog::Prolog);
    if waits {
        reasons.extend(why_annotations(core, record));
    }
    reasons
}

fn reason(kind: WaitsFor, text: impl Into<String>) -> Value {
    json!({ "kind": kind.word(), "text": text.into() })
}

fn why_depend(core: &Core, record: &Record) -> Vec<Value> {
    let open = record.job.dependencies().map(|description| {
        let plugin = dependency_owner(core, record, description);
        let text = match &plugin {
            Some(plugin) => format!("dependency {description} holds it, by plugin {plugin}"),
            None => format!(
                "dependency {description} holds it, and no loaded plugin looks after that: load the \
                 one that did"
            ),
        };
        let kind = WaitsFor::of_dependency(description).word();
        json!({ "kind": kind, "text": text, "dependency": description, "plugin": plugin })
    });
    open.collect()
}

/// The loaded plugin that will remove a dependency.
fn dependency_owner(core: &Core, record: &Record, description: &str) -> Option<String> {
    let mut owners = record.dependency_owners.iter();
    let (_, plugin) = owners.find(|(known, _)| **known == *description)?;
    Some(core.plugins.stack.get(*plugin)?.name().to_string())
}

/// The chain of jobs that a job has to wait for, or has waited for in vain, up to a job that waits for none. Jobs of
/// other users are not shown to guests.
fn why_jobs_before(core: &Core, record: &Record, cred: Cred) -> Vec<Value> {
    let mut reasons = Vec::new();
    let mut next = job_before(record);
    while let Some(id) = next.filter(|_| reasons.len() < MAX_NAMED) {
        let Some(before) = core.jobs.get(id) else { break };
        if !cred.owner && before.job.userid() != cred.userid {
            break;
        }
        let why = why_state(core, before);
        let texts: Vec<&str> = why.iter().filter_map(|why| why.get("text")?.as_str()).collect();
        let state = before.job.state().long_name();
        let text = format!("{id} is in {state}: {}", texts.join("; "));
        reasons.push(json!({ "kind": "chain", "text": text, "job": id }));
        next = job_before(before);
    }
    reasons
}

/// The job that is named by an open dependency of a job, or by the dependency that has ended it.
fn job_before(record: &Record) -> Option<JobId> {
    let named = |text: &str| text.split_once('=')?.1.split_whitespace().next()?.parse().ok();
    match (record.job.state(), record.job.end_event()) {
        (State::Depend, _) => record.job.dependencies().find_map(named),
        (State::Inactive | State::Cleanup, Some(end)) => {
            let raised = end.exception().filter(|raised| raised.kind == "dependency");
            raised.and_then(|raised| named(raised.note))
        }
        _ => None,
    }
}

/// The annotations of plugins on a job that waits. Annotations of users and of the scheduler are not reasons.
fn why_annotations(core: &Core, record: &Record) -> Vec<Value> {
    let told = record.job.annotations().iter().filter_map(|(key, note)| {
        let plugin = core.jobs.attributions.annotator(record.job.id(), key);
        if key == "sched" || (key == "user" && plugin.is_none()) {
            return None;
        }
        let plugin = plugin.map(|plugin| core.plugins.name(plugin).to_string());
        let mut notes = Vec::new();
        write_note(key, note, &mut notes);
        let more = notes.len().saturating_sub(MAX_NAMED);
        notes.truncate(MAX_NAMED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let who =
            plugin.as_ref().map_or("it is noted".to_owned(), |name| format!("plugin {name} says"));
        let text = format!("{who}: {}{more}", notes.join(", "));
        Some(json!({ "kind": "annotation", "text": text, "annotation": key, "plugin": plugin }))
    });
    told.collect()
}

/// Writes an annotation as `KEY.KEY=VALUE`, one for each value.
fn write_note(path: &str, note: &Value, notes: &mut Vec<String>) {
    match note {
        Value::Object(inner) => {
            inner.iter().for_each(|(key, note)| write_note(&format!("{path}.{key}"), note, notes));
        }
        Value::String(text) => notes.push(format!("{path}={text}")),
        other => notes.push(format!("{path}={other}")),
    }
}

fn why_priority(core: &Core, record: &Record) -> Vec<Value> {
    let mut reasons = Vec::new();
    for work in record.async_work.running.iter().filter(|work| work.kind == WorkKind::Priority) {
        let text = format!("{} is at work on its priority", work.what);
        let plugin = &*core.plugins.name(work.plugin);
        let kind = WaitsFor::Priority.word();
        reasons.push(json!({ "kind": kind, "text": text, "plugin": plugin }));
    }
    for bound in faulted_deciders(core) {
        let name = bound.instance().name();
        let text = format!(
            "plugin {name}, which sets priorities, has failed repeatedly: an administrator must \
             reload it"
        );
        reasons.push(json!({ "kind": WaitsFor::Plugin.word(), "text": text, "plugin": &**name }));
    }
    let withheld_by = core.jobs.attributions.withheld_by(record.job.id());
    if let Some(plugin) = withheld_by.and_then(|plugin| core.plugins.stack.get(plugin))
        && reasons.is_empty()
    {
        let name = plugin.name();
        let text = format!("plugin {name} holds it: it has not given it a priority yet");
        reasons.push(json!({ "kind": WaitsFor::Plugin.word(), "text": text, "plugin": &**name }));
    }
    if reasons.is_empty() {
        let names: Vec<&str> = deciders(core).map(|bound| &**bound.instance().name()).collect();
        let text = if names.is_empty() {
            "no loaded plugin sets priorities: load .priority-default or another one".to_owned()
        } else {
            format!("no plugin has given it a priority yet ({})", names.join(", "))
        };
        let kind = WaitsFor::Priority.word();
        reasons.push(json!({ "kind": kind, "text": text, "plugins": names }));
    }
    reasons
}

/// The handlers that set priorities. Others decide nothing.
fn deciders(core: &Core) -> impl Iterator<Item = &BoundHandler> {
    let handlers = core.plugins.stack.handlers(TopicId::JobStatePriority);
    handlers.into_iter().flat_map(|list| list.iter()).filter(|bound| bound.sets_priority())
}

/// Those of plugins that have failed repeatedly.
pub(super) fn faulted_deciders(core: &Core) -> impl Iterator<Item = &BoundHandler> {
    deciders(core).filter(|bound| bound.instance().is_faulted())
}

fn why_sched(core: &Core, record: &Record) -> Vec<Value> {
    if let Some(before) = core.alloc.prefill.before(record.job.id()) {
        let text = format!("its turn comes as soon as {before} has ended, on the same resources");
        let kind = WaitsFor::Order.word();
        return vec![json!({ "kind": kind, "text": text, "ahead": 1, "first": before })];
    }
    let mut reasons = Vec::new();
    if record.job.kept().urgency.value() == 0 {
        reasons.push(reason(WaitsFor::Held, "it is held: its urgency is 0 (jobtap job urgency)"));
    } else if record.job.priority() == Some(0) {
        reasons.push(reason(WaitsFor::Held, "it is held: a plugin gave it priority 0"));
    }
    reasons.extend(why_queue(core, record));
    if !reasons.is_empty() {
        return reasons;
    }
    let ahead = core.alloc.alloc_queues.ahead_of(record);
    if let Some(first) = ahead.first() {
        let text = match ahead.len() {
            1 => format!("{first} goes first"),
            count => format!("{count} jobs go first, {first} before all"),
        };
        reasons.push(json!({
            "kind": WaitsFor::Order.word(), "text": text, "ahead": ahead.len(), "first": first,
        }));
    }
    reasons.extend(allocations::why::reasons(core, record));
    reasons.push(why_resources(core, record));
    reasons
}

/// The queue of the job, if it is not started or no longer configured.
fn why_queue(core: &Core, record: &Record) -> Option<Value> {
    let queues = &core.alloc.queues;
    let blocked = Blocked::find(core, record)?;
    let kind = blocked.waits_for();
    let queue = match blocked {
        Blocked::Stopped(queue) => queue,
        Blocked::Offline => {
            let text = "the scheduler of its queue is offline after an error of its own: an \
                        administrator must load the configuration again (jobtap config reload)";
            return Some(reason(kind, text));
        }
        Blocked::Unknown(error) => {
            let text = format!("{error}: it waits until its queue is configured, or it is moved");
            let queue = record.job.kept().jobspec.queue();
            return Some(json!({ "kind": kind.word(), "text": text, "queue": queue }));
        }
    };
    // If its parent blocks a virtual queue, the reason is that of the parent.
    let stopped = queue.blocked_by().and_then(|parent| queues.get(parent)).unwrap_or(queue);
    let why = stopped.stop_reason().map(|why| format!(": {why}")).unwrap_or_default();
    let text = match (queue.name(), queue.blocked_by()) {
        (None, _) => format!("jobs are not scheduled{why}"),
        (Some(name), None) => format!("queue {name} is stopped{why}"),
        (Some(name), Some(parent)) => {
            format!("queue {parent}, the parent of its queue {name}, is stopped{why}")
        }
    };
    Some(json!({ "kind": kind.word(), "text": text, "queue": queue.name() }))
}

fn why_run(core: &Core, record: &Record) -> Vec<Value> {
    let prologs = why_perilogs(core, record, Perilog::Prolog);
    if !prologs.is_empty() {
        return prologs;
    }
    if record.job.kept().times.start().is_none() {
        return vec![reason(WaitsFor::Start, "its tasks are being started")];
    }
    let until = record.job.resources().and_then(|resources| resources.expiration());
    let text = match until {
        Some(until) => {
            format!("its tasks run, for {} at the most", span(until, core.turn.clock.now))
        }
        None => "its tasks run, without a time limit".to_owned(),
    };
    vec![json!({ "kind": WaitsFor::Tasks.word(), "text": text, "until": until })]
}

fn why_cleanup(core: &Core, record: &Record) -> Vec<Value> {
    let mut reasons: Vec<Value> = why_ended(record)
        .map(|text| json!({ "kind": "exception", "text": text }))
        .into_iter()
        .collect();
    let ended = reasons.len();
    reasons.extend(why_perilogs(core, record, Perilog::Prolog));
    reasons.extend(why_perilogs(core, record, Perilog::Epilog));
    if record.execution.phase.is_open() {
        reasons.push(reason(WaitsFor::Tasks, "its tasks are being ended"));
    }
    if reasons.len() == ended {
        reasons.push(reason(WaitsFor::Release, "its resources are being freed"));
    }
    reasons
}

fn why_perilogs(core: &Core, record: &Record, kind: Perilog) -> Vec<Value> {
    let word = kind.word();
    let one = |description: &str| {
        let owner = record.perilogs.owner(kind, description);
        let plugin = owner.map(|plugin| core.plugins.name(plugin).to_string());
        let of = plugin.as_ref().map(|plugin| format!(" of plugin {plugin}")).unwrap_or_default();
        let text = format!("{word} {description}{of} is not finished");
        json!({ "kind": word, "text": text, "description": description, "plugin": plugin })
    };
    record.perilogs.open(kind).iter().map(|description| one(description)).collect()
}

/// An inactive job waits for nothing; what is left to say is how it came out.
fn why_inactive(record: &Record) -> Value {
    let text = match why_ended(record) {
        Some(text) => text,
        None if record.wait_status == Some(0) => "it has completed".to_owned(),
        None => "its tasks failed".to_owned(),
    };
    json!({ "kind": "over", "text": text })
}

/// The exception that has ended a job, if one did.
fn why_ended(record: &Record) -> Option<String> {
    let raised = record.job.end_event()?.exception()?;
    let note = if raised.note.is_empty() { String::new() } else { format!(": {}", raised.note) };
    Some(format!("it was ended by exception {}{note}", raised.kind))
}

/// Resources that a job could use and cannot have yet.
pub(super) struct InUse<'a> {
    by: String,
    job: JobId,
    pub(super) resources: &'a ResourceSet,
    /// When they become free at the latest, in UNIX seconds; `None` if that is unknown.
    until: Option<f64>,
}

/// What has to happen until there are enough resources for a job that is the first of its queue.
fn why_resources(core: &Core, record: &Record) -> Value {
    let (alloc, now) = (&core.alloc, core.turn.clock.now);
    let spec = &record.job.kept().jobspec;
    let mut free = alloc.pool.free().clone();
    if alloc.pool.choose_at(&free, spec, now.as_secs()).is_some() {
        return reason(
            WaitsFor::Resources,
            "there is enough for it; it may not delay those before it",
        );
    }
    // The jobs, in the order of their ends, that must end before there is enough.
    let (mut jobs, mut named) = (Vec::new(), Vec::new());
    for InUse { by, job, resources, until } in in_use(core, record) {
        free.union_with(resources);
        jobs.push(job);
        named.push(by);
        if alloc.pool.choose_at(&free, spec, now.as_secs()).is_some() {
            let more = named.len().saturating_sub(MAX_NAMED);
            named.truncate(MAX_NAMED);
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            let when = match until {
                Some(until) => format!(", in {} at the latest", span(until, now)),
                None => String::new(),
            };
            let text = format!("its resources are held by {}{more}{when}", named.join(", "));
            let kind = WaitsFor::Resources.word();
            return json!({ "kind": kind, "text": text, "jobs": jobs, "until": until });
        }
    }
    if alloc.pool.could_run_without_maintenance(spec) {
        return why_maintenance(core, record);
    }
    why_nodes(core, record)
}

/// What is in use on nodes that the job could use, in the order in which it becomes free.
pub(super) fn in_use<'a>(core: &'a Core, record: &Record) -> Vec<InUse<'a>> {
    let alloc = &core.alloc;
    // Retained resources come first: they become free soon, though it is not known when.
    let retained = retention::by_name(&alloc.retained, &core.plugins);
    let retained = retained.map(|(job, plugin, resources)| {
        let by = format!("plugin {plugin} since the end of {job}");
        InUse { by, job, resources, until: None }
    });
    let allocated = alloc.allocated_jobs.iter().filter_map(|id| {
        let resources = core.jobs.get(*id)?.unreleased_resources()?;
        let until = resources.expiration();
        Some(InUse { by: id.to_string(), job: *id, resources, until })
    });
    let mut allocated: Vec<InUse<'_>> = allocated.collect();
    allocated.sort_by(|a, b| {
        let end = |used: &InUse<'_>| used.until.unwrap_or(f64::INFINITY);
        end(a).total_cmp(&end(b)).then(a.job.cmp(&b.job))
    });
    let usable = alloc.pool.usable_ranks(&record.job.kept().jobspec, core.turn.clock.now.as_secs());
    let all = retained.chain(allocated);
    all.filter(|used| used.resources.ranks().intersects(&usable)).collect()
}

/// The reason if nodes are reserved for maintenance, and without them there is not enough, whichever jobs end.
fn why_maintenance(core: &Core, record: &Record) -> Value {
    let (alloc, spec) = (&core.alloc, &record.job.kept().jobspec);
    let eligible = alloc.pool.eligible_ranks(spec);
    let now = core.turn.clock.now.as_secs();
    let named = waits_for::planned(core, record).map(
        |PlannedMaintenance { maintenance, reason, .. }| {
            let hosts = alloc.nodes.label(&maintenance.ranks.intersection(&eligible));
            let when = match maintenance.from > now {
                true => format!("in {}", span(maintenance.from, core.turn.clock.now)),
                false => "now".to_owned(),
            };
            let why = if reason.is_empty() { String::new() } else { format!(" ({reason})") };
            format!("{hosts} {when}{why}")
        },
    );
    let named: Vec<String> = named.take(MAX_NAMED).collect();
    let kind = waits_for::of_maintenance(core, record);
    if kind == WaitsFor::Allocation {
        let text = "its time limit reaches beyond the end of the allocations that run";
        return reason(kind, text);
    }
    let text = format!(
        "it could still run when a maintenance begins, so it waits until that is over: {}",
        named.join(", ")
    );
    reason(kind, text)
}

/// The reason if nodes are drained or offline, and without them there is not enough, whichever jobs end. Nodes that the
/// job could not use are not named.
fn why_nodes(core: &Core, record: &Record) -> Value {
    let (alloc, spec) = (&core.alloc, &record.job.kept().jobspec);
    let nodes = &alloc.nodes;
    let eligible = alloc.pool.eligible_ranks(spec);
    let down = nodes.down().intersection(&eligible);
    if down.is_empty() || alloc.pool.feasible(spec).is_err() {
        return reason(WaitsFor::Resources, "there are not enough resources for it at present");
    }
    let mut named: Vec<String> = Vec::new();
    for (ranks, drained) in nodes.drained_groups() {
        let ranks = ranks.intersection(&eligible);
        let why = drained.reason.as_deref().unwrap_or("no reason given");
        let online = ranks.difference(&nodes.offline);
        let offline = ranks.intersection(&nodes.offline);
        for (ranks, state) in [(online, ""), (offline, "offline: ")] {
            if !ranks.is_empty() {
                named.push(format!("{} ({state}{why})", nodes.label(&ranks)));
            }
        }
    }
    let only_offline = named.is_empty();
    let offline: Idset = nodes.offline.difference(&nodes.drained_ranks());
    let offline = offline.intersection(&eligible);
    if !offline.is_empty() {
        let label = nodes.label(&offline);
        named.push(if only_offline { label } else { format!("{label} (offline)") });
    }
    let more = named.len().saturating_sub(MAX_NAMED);
    named.truncate(MAX_NAMED);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    // If these nodes alone would not be enough, jobs must end too.
    let jobs =
        if alloc.pool.could_start_with_all_nodes_up(spec) { "" } else { "jobs to end, and for " };
    let how = if only_offline { "offline" } else { "drained" };
    let text = format!("it waits for {jobs}nodes that are {how}: {}{more}", named.join(", "));
    let passed_over = alloc.alloc_queues.is_passed_over(record);
    json!({
        "kind": WaitsFor::Nodes.word(), "text": text, "ranks": down.to_string(), "passed_over": passed_over,
    })
}

/// The time from now until then, for messages.
fn span(until: f64, now: Timestamp) -> String {
    // Whole seconds, not negative.
    let seconds = (until - now.as_secs()).max(0.0).round() as u64;
    match (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60) {
        (0, 0, 0, s) => format!("{s} s"),
        (0, 0, m, s) => format!("{m} min {s} s"),
        (0, h, m, _) => format!("{h} h {m} min"),
        (d, h, _, _) => format!("{d} d {h} h"),
    }
}
