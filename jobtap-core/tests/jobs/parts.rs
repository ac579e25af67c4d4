//! Work on very many jobs, which a host makes durable part by part.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use jobtap_core::engine::{
    Cred, Effect, Effects, Engine, Gathered, HostCheck, Input, ReplyTo, Request, Setup, Submission,
    Write,
};
use jobtap_core::host::{NoReturn, Registry, Ticks};
use jobtap_core::jobspec::JobspecBuilder;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::resource::{Idset, ResourceSet};
use serde_json::json;

/// Gives all jobs the priority that its service was told, and counts them afterwards.
struct Bank {
    priority: u32,
    jobs: Vec<JobId>,
    remote: Remote<Self>,
}

#[jobtap_plugin(name = "bank")]
impl Bank {
    #[init]
    fn new(remote: Remote<Self>) -> Self {
        Self { priority: 1, jobs: Vec::new(), remote }
    }

    #[on("job.new")]
    fn accepted(&mut self, job: &Job, cx: Cx<'_, JobNew>) -> Result<(), HandlerError> {
        self.jobs.push(job.id());
        Ok(cx.subscribe(job)?)
    }

    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self) -> Priority {
        Priority::new(self.priority)
    }

    /// What is asked for last must not be separated from the event.
    #[on("job.event.urgency")]
    fn urgent(&mut self, job: &Job, cx: Cx<'_, JobEvent>) -> Result<(), HandlerError> {
        self.priority += 1;
        cx.reprioritize_all();
        Ok(cx.memo(job, "note", "urgent")?)
    }

    #[service("set")]
    fn set(&mut self, request: jobtap_core::plugin::Request<u32>, cx: Cx<'_, Service>) {
        self.priority = request.into_inner();
        cx.reprioritize_all();
        cx.then(&self.remote, |bank, cx| {
            let has_it = |job: JobRef<'_>| job.priority() == Some(bank.priority);
            let changed = bank.jobs.iter().filter(|id| cx.job(**id).is_ok_and(has_it)).count();
            cx.log(Level::Info, format!("{changed} jobs"));
        });
    }
}

const JOBS: usize = 10_000;
const OWNER: Cred = Cred { userid: Uid::new(1000), owner: true };
const NOW: Timestamp = Timestamp::from_secs(1.7e9);

fn request(request: Request) -> Input {
    Input::Request { reply: ReplyTo(0), cred: OWNER, request }
}

/// An engine with many jobs that wait for one that runs.
fn engine() -> Engine {
    let setup = Setup {
        owner: OWNER.userid,
        resources: ResourceSet::single_host("host", Idset::from(0..=0)).unwrap(),
        config: json!({}),
        config_directory: None,
        registry: Registry::builder().plugins([Bank::DESCRIPTOR]).build().unwrap(),
        remote: Arc::new(NoReturn),
        ticks: Ticks::new(Arc::new(AtomicU64::new(0)), || 0),
        host_check: HostCheck::default(),
    };
    let mut engine = Engine::new(NOW, setup).unwrap();
    engine.start(NOW);
    for _ in 0..=JOBS {
        let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
        let submission =
            Submission { jobspec, signed: "{}".to_owned(), urgency: 16, flags: 0, elements: None };
        engine.handle(NOW, request(Request::Submit(Box::new(submission))));
    }
    engine
}

fn set() -> Input {
    let topic = "job-manager.bank.set".to_owned();
    request(Request::Service { topic, payload: json!(7), streaming: false })
}

fn writes(effects: Effects) -> Vec<Write> {
    effects.writes.into_list()
}

#[test]
fn new_priorities_of_many_jobs_come_in_parts() {
    let mut engine_of_parts = engine();
    let mut parts = Vec::new();
    let mut gathered = engine_of_parts.gather(NOW, set());
    while gathered == Gathered::Part {
        parts.push(engine_of_parts.take_effects());
        gathered = engine_of_parts.go_on();
    }
    let last = engine_of_parts.take_effects();
    assert_eq!(parts.len(), 2);
    // What the handler does afterwards sees all priorities.
    assert_eq!(last.log[0].text, format!("bank: {JOBS} jobs"));
    let whole = engine().handle(NOW, set());
    let written: Vec<Write> = parts.into_iter().chain([last]).flat_map(writes).collect();
    assert_eq!(written.len(), JOBS);
    assert_eq!(written, writes(whole));
}

#[test]
fn what_follows_from_an_event_is_not_parted_from_it() {
    let mut engine = engine();
    let submission = JobspecBuilder::new(["true"]).build().unwrap();
    let submission = Submission {
        jobspec: submission,
        signed: "{}".to_owned(),
        urgency: 16,
        flags: 0,
        elements: None,
    };
    let effects = engine.handle(NOW, request(Request::Submit(Box::new(submission))));
    let id = effects.after.iter().find_map(|effect| match effect {
        Effect::Reply { result: Ok(answer), .. } => answer.get("id")?.as_u64(),
        _ => None,
    });
    let id = JobId::new(id.unwrap());
    let gathered = engine.gather(NOW, request(Request::Urgency { id, urgency: 20 }));
    assert_eq!(gathered, Gathered::All);
    assert!(writes(engine.take_effects()).len() > JOBS);
}
