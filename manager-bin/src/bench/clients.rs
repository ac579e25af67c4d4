//! Requests of clients: one asks for the list of all jobs, many watch the events of one job, and one watches
//! the events of all jobs.

use std::time::Instant;

use serde_json::{Value, json};

use super::connection::{Connection, NUMBER, Submissions};
use super::error::BenchError;
use super::figures::{Found, median, quantile};
use super::process::{Manager, ManagerSetup};
use super::{document, one_host};
use crate::open_files::OpenFiles;
use crate::rpc::service::Service;
use crate::rpc::services::ingest::Submit;
use crate::rpc::services::job_info::Watch;
use crate::rpc::services::job_list::List;
use crate::rpc::services::job_manager::{EventsJournal, Memo};

/// The number of requests for the list.
const LISTS: usize = 5;

/// The number of events that each watcher receives.
const EVENTS: u64 = 30;

/// Asks for a list of all jobs.
pub(super) fn list(jobs: u64) -> Result<Found, BenchError> {
    let setup = ManagerSetup { pending: jobs, ..ManagerSetup::with(one_host()) };
    let manager = Manager::start(&setup)?;
    let mut client = manager.connect()?;
    let (mut times, mut bytes) = (Vec::new(), 0);
    for _ in 0..LISTS {
        let begin = Instant::now();
        bytes = client.ask_line(List::TOPIC, json!({ "max_entries": 0, "attrs": ["all"] }))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    manager.end()?;
    let mut found = Found::default();
    let text = "a list of all jobs over the socket, to its last byte";
    found.less("list.time", jobs, median(&times), "ms", text);
    let each = |value: f64| value / jobs.max(1) as f64;
    found.less("list.each", jobs, each(median(&times) * 1e3), "us/job", "the same for each job");
    found.less("list.bytes", jobs, each(bytes as f64), "B/job", "");
    Ok(found)
}

/// Lets this many clients watch the eventlog of one job.
pub(super) fn watch_job(clients: u64) -> Result<Found, BenchError> {
    let mut found = Found::default();
    let room = OpenFiles::of_this_process().connections() as u64;
    if clients + 2 > room {
        let limit = OpenFiles::of_this_process().own();
        let text = format!(
            "{clients} clients are more than the limit of {limit} open files has room for (raise \
             it with ulimit -n)"
        );
        found.skip("watch.job", text);
        return Ok(found);
    }
    let setup = ManagerSetup::with(one_host());
    let manager = Manager::start(&setup)?;
    let mut owner = manager.connect()?;
    let jobspec = document(60.0, 1, NUMBER);
    let submitted = owner.ask(Submit::TOPIC, json!({ "jobspec": jobspec, "urgency": 0 }))?;
    let id = submitted.get("id").cloned().unwrap_or_default();
    let mut watchers = Vec::new();
    for _ in 0..clients {
        let mut watcher = manager.connect()?;
        watcher.stream(Watch::TOPIC, json!({ "id": id, "path": "eventlog", "flags": 0 }))?;
        watchers.push(watcher);
    }
    // This event comes after those that the eventlog already has.
    post(&mut owner, &id, 0)?;
    watchers.iter_mut().try_for_each(|watcher| until(watcher, 0))?;
    let mut times = Vec::new();
    let before = manager.cpu()?;
    for number in 1..=EVENTS {
        let begin = Instant::now();
        post(&mut owner, &id, number)?;
        watchers.iter_mut().try_for_each(|watcher| until(watcher, number))?;
        times.push(begin.elapsed().as_secs_f64() * 1e3);
    }
    let used = manager.cpu()?.since(&before);
    drop(watchers);
    manager.end()?;
    let text = "clients on one job: from a request until the last one has its event";
    found.less("watch.job.time", clients, median(&times), "ms", text);
    found.less("watch.job.p99", clients, quantile(&mut times, 0.99), "ms", "");
    let each = used.all * 1e6 / (EVENTS * clients).max(1) as f64;
    let text = "processor time of the manager for each event of each client";
    found.less("watch.job.cpu", clients, each, "us", text);
    Ok(found)
}

/// Adds to the memo of a job, which is an event.
fn post(owner: &mut Connection, id: &Value, number: u64) -> Result<(), BenchError> {
    let payload = json!({ "id": id, "volatile": false, "memo": { "bench": number } });
    owner.ask_line(Memo::TOPIC, payload).map(drop)
}

/// Reads responses until one contains the event with this number.
fn until(watcher: &mut Connection, number: u64) -> Result<(), BenchError> {
    // The event is a string in the response, so its quotes are escaped.
    let wanted = format!("bench\\\":{number}}}");
    while !watcher.response()?.contains(&wanted) {}
    Ok(())
}

/// Lets one client watch all jobs, from their submission until they are inactive.
pub(super) fn watch_all(jobs: u64) -> Result<Found, BenchError> {
    let setup = ManagerSetup::with(one_host());
    let manager = Manager::start(&setup)?;
    let mut watcher = manager.connect()?;
    watcher.stream(EventsJournal::TOPIC, json!({ "full": false }))?;
    // This response marks the end of past events.
    watcher.response()?;
    let mut client = manager.connect()?;
    let submissions = Submissions::simulated(0.001)?;
    let begin = Instant::now();
    let (events, elapsed) = std::thread::scope(|scope| {
        let watching = scope.spawn(move || {
            let (mut events, mut ended) = (0, 0);
            while ended < jobs {
                let line = watcher.response()?;
                events += line.matches("\"timestamp\"").count();
                ended += line.matches("\"name\":\"clean\"").count() as u64;
            }
            Ok::<_, BenchError>((events, begin.elapsed()))
        });
        client.submit_all(&submissions, jobs)?;
        watching.join().map_err(|_| BenchError::Panicked("the watching client"))?
    })?;
    manager.end()?;
    let mut found = Found::default();
    let seconds = elapsed.as_secs_f64();
    let text = "one client on all jobs: jobs whose last event it has";
    found.more("watch.all.rate", jobs, jobs as f64 / seconds, "jobs/s", text);
    found.more("watch.all.events", jobs, events as f64 / seconds, "1/s", "its events");
    Ok(found)
}
