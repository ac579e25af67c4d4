//! What a large site costs: 10,000 associations and 100,000 pending jobs, in the engine alone.
//!
//! `cargo bench -p mf-priority --bench scale [ASSOCIATIONS [JOBS]]`
//!
//! Each line has the median of the rounds, in the processor time of the engine's thread: other programs of the machine
//! don't count. A round asks for all priorities by the service `reprioritize`, after the data that its line names has come.
//! The engine writes its events as text, which nobody stores.

#![allow(clippy::unwrap_used, clippy::print_stdout, missing_docs)]

use std::sync::Arc;

use jobtap_core::engine::{
    Cred, Effect, Engine, HostCheck, Input, RaisedException, ReplyTo, Request, Setup,
};
use jobtap_core::host::{Registry, RemoteQueue, Ticks};
use jobtap_core::plugin::Plugin as _;
use jobtap_core::prelude::*;
use jobtap_core::queue::Target;
use jobtap_core::resource::{Idset, ResourceSet};
use jobtap_core::testing::TestJob;
use mf_priority::MfPriority;
use rustix::time::{ClockId, clock_gettime};
use serde_json::{Value, json};

const ROUNDS: u32 = 5;
const UNLIMITED: i64 = 2_147_483_647;
const FIRST_USER: u32 = 10_000;
const NOW: Timestamp = Timestamp::from_secs(1.7e9);

fn main() {
    // Cargo adds options of its own, such as `--bench`.
    let mut numbers = std::env::args().filter_map(|word| word.parse::<u32>().ok());
    let associations = numbers.next().unwrap_or(10_000);
    let jobs = numbers.next().unwrap_or(100_000);
    println!("{associations} associations, {jobs} pending jobs");
    waiting_for_resources(associations, jobs);
    held_by_limits(associations, jobs);
    held_of_one_user(jobs);
    before_data(associations, jobs);
}

/// All jobs are in SCHED.
fn waiting_for_resources(associations: u32, jobs: u32) {
    let mut m = Site::new();
    let load = rows(associations, UNLIMITED, 0);
    measure("rec_update, new associations", 1, |_| m.send("rec_update", &load));
    let took = elapsed(|| m.fill(associations, jobs));
    println!("{:>10.3} us  a submission", took * 1e3 / f64::from(jobs));
    measure("reprioritize, nothing new", ROUNDS, |_| m.reprioritize());
    measure("reprioritize, other weights", ROUNDS, |round| {
        m.send("rec_fac_update", &json!([{"factor": "fairshare", "weight": 20_000 + round}]));
        m.reprioritize();
    });
    let next: Vec<Value> = (1..=ROUNDS).map(|round| rows(associations, UNLIMITED, round)).collect();
    let mut next = next.iter();
    measure("rec_update and reprioritize, other fair shares", ROUNDS, |_| {
        m.send("rec_update", next.next().unwrap());
        m.reprioritize();
    });
}

/// Each association has one job in SCHED, and the others are held.
fn held_by_limits(associations: u32, jobs: u32) {
    let mut m = Site::new();
    m.send("rec_update", &rows(associations, 1, 0));
    m.fill(associations, jobs);
    measure("reprioritize, most jobs held", ROUNDS, |_| m.reprioritize());
    m.send("rec_update", &rows(associations, UNLIMITED, 0));
    measure("reprioritize, all held jobs released", 1, |_| m.reprioritize());
}

/// One user has all jobs, and one of them after the other may go on.
fn held_of_one_user(jobs: u32) {
    const ENDS: u32 = 1000;
    let mut m = Site::new();
    m.send("rec_update", &rows(1, 1, 0));
    let ids: Vec<JobId> = (0..jobs).map(|_| m.submit(FIRST_USER)).collect();
    let mut ids = ids.into_iter();
    let took = elapsed(|| {
        for id in ids.by_ref().take(ENDS as usize) {
            m.cancel(id);
        }
    });
    println!(
        "{:>10.3} us  a job ends, all others of its user are held",
        took * 1e3 / f64::from(ENDS)
    );
    let took = elapsed(|| {
        for id in ids.rev().take(ENDS as usize) {
            m.cancel(id);
        }
    });
    println!("{:>10.3} us  a held job ends, the last of them", took * 1e3 / f64::from(ENDS));
}

/// The data comes after the jobs, an association at a time.
fn before_data(associations: u32, jobs: u32) {
    let mut m = Site::new();
    m.fill(associations, jobs);
    let load = rows(associations, UNLIMITED, 0);
    let each = load.as_array().unwrap();
    measure("rec_update, an association at a time", 1, |_| {
        for row in each {
            m.send("rec_update", &json!([row]));
        }
    });
    measure("reprioritize, the first data", 1, |_| m.reprioritize());
}

/// A manager that consists of the engine alone, and schedules nothing.
struct Site {
    engine: Engine,
    returned: Arc<RemoteQueue>,
}

impl Site {
    fn new() -> Self {
        let returned = Arc::new(RemoteQueue::default());
        let setup = Setup {
            owner: Uid::new(TestJob::OWNER.0),
            resources: ResourceSet::single_host("host", Idset::from(0..=3)).unwrap(),
            config: json!({
                "job-manager": {"plugins": [{"load": "mf_priority"}]},
                "plugins": {"mf_priority": {"config": {"projects": [{"project": "*"}]}}},
            }),
            config_directory: None,
            registry: Registry::builder().plugins([MfPriority::DESCRIPTOR]).build().unwrap(),
            remote: Arc::clone(&returned) as _,
            ticks: Ticks::default(),
            host_check: HostCheck::default(),
        };
        let mut engine = Engine::new(NOW, setup).unwrap();
        engine.start(NOW);
        let mut site = Self { engine, returned };
        let (target, reason) = (Target::all(), None);
        site.ask(Request::QueueStart { target, start: false, reason, nocheckpoint: false });
        site
    }

    fn ask(&mut self, request: Request) -> Value {
        let owner = Cred { userid: Uid::new(TestJob::OWNER.0), owner: true };
        self.ask_as(owner, request)
    }

    /// Gives the engine a request, and then what plugins have left for later.
    fn ask_as(&mut self, cred: Cred, request: Request) -> Value {
        let effects = self.engine.handle(NOW, Input::Request { reply: ReplyTo(0), cred, request });
        let answer = effects.after.into_iter().find_map(|effect| match effect {
            Effect::Reply { result, .. } => Some(result.unwrap()),
            _ => None,
        });
        while let Some(call) = self.returned.pop() {
            self.engine.handle(NOW, Input::Remote(call));
        }
        answer.unwrap_or_default()
    }

    fn submit(&mut self, user: u32) -> JobId {
        let (cred, submission) = TestJob::new().user(user).submission().unwrap();
        let answer = self.ask_as(cred, Request::Submit(Box::new(submission)));
        JobId::new(answer.get("id").and_then(Value::as_u64).unwrap())
    }

    fn fill(&mut self, associations: u32, jobs: u32) {
        for number in 0..jobs {
            self.submit(FIRST_USER + number % associations);
        }
    }

    fn cancel(&mut self, id: JobId) {
        self.ask(Request::Raise { id, exception: RaisedException::new("cancel", 0, "") });
    }

    fn send(&mut self, service: &str, data: &Value) {
        self.call(service, json!({ "data": data }));
    }

    fn reprioritize(&mut self) {
        self.call("reprioritize", Value::Null);
    }

    fn call(&mut self, service: &str, payload: Value) {
        let topic = format!("job-manager.mf_priority.{service}");
        self.ask(Request::Service { topic, payload, streaming: false });
    }
}

/// The last of these has a fair share that depends on the round.
fn rows(associations: u32, most: i64, round: u32) -> Value {
    let row = |number: u32| {
        let fairshare = f64::from((number + round) % 1000) / 1000.0;
        json!({
            "userid": FIRST_USER + number, "bank": format!("bank{}", number % 100),
            "def_bank": format!("bank{}", number % 100), "fairshare": fairshare,
            "max_running_jobs": UNLIMITED, "max_active_jobs": UNLIMITED, "max_sched_jobs": most,
            "max_nodes": UNLIMITED, "max_cores": UNLIMITED,
            "queues": "", "active": 1, "projects": "*", "def_project": "*",
        })
    };
    Value::Array((0..associations).map(row).collect())
}

/// Prints the median time of a round.
fn measure(what: &str, rounds: u32, mut round: impl FnMut(u32)) {
    let mut times: Vec<f64> = (0..rounds).map(|number| elapsed(|| round(number))).collect();
    times.sort_by(f64::total_cmp);
    let median = times.get(times.len() / 2).copied().unwrap_or_default();
    println!("{median:>10.1} ms  {what}");
}

/// Milliseconds of this thread's processor time.
fn elapsed(work: impl FnOnce()) -> f64 {
    let now = || {
        let time = clock_gettime(ClockId::ThreadCPUTime);
        (time.tv_sec as f64).mul_add(1e3, time.tv_nsec as f64 / 1e6)
    };
    let begin = now();
    work();
    now() - begin
}
