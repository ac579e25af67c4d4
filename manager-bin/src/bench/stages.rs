//! Processor time of each stage of a job's life, measured alone on one thread: what the threads of a manager do
//! with a job, without wake-ups, sockets and waiting for each other.

use std::time::Duration;

use jobtap_core::engine::{Cred, Effect, Effects, Input, ReplyTo, Request, Submission, Write};
use jobtap_core::host::{Registry, Ticks};
use jobtap_core::job::Timestamp;

use super::connection::Submissions;
use super::error::BenchError;
use super::figures::Found;
use super::offline::{Offline, owner};
use super::{CORES, cluster, cpu, plugins};
use crate::daemon::stages::{Publication, decode};
use crate::daemon::store_ops;
use crate::store::{EmbeddedStore, Op, Store, coalesce};

/// The time of simulated execution in seconds.
const RUN_DURATION: f64 = 0.001;

/// How many jobs go through a stage together, so that the cost of reading the clock is negligible.
const TOGETHER: u64 = 500;

/// The start of virtual time: the same in each run, so that ids and events are the same.
const STARTED: f64 = 1.7e9;

/// Measures each stage with this many jobs.
pub(super) fn measure(jobs: u64) -> Result<Found, BenchError> {
    let directory = tempfile::tempdir()?;
    let store = EmbeddedStore::open(&directory.path().join("store"))?;
    let mut times = Times::with_clock(cpu::of_this_thread);
    let (all, thread) = (cpu::of_this_process(), cpu::of_this_thread());
    through_all(jobs, Registry::linked()?, Some(&store), &mut times)?;
    drop(store);
    // The store has threads of its own.
    times.store += (cpu::of_this_process() - all).saturating_sub(cpu::of_this_thread() - thread);
    let mut bare = Times::with_clock(cpu::of_this_thread);
    through_all(jobs, plugins::priorities_only()?, None, &mut bare)?;

    let mut found = Found::default();
    let each = |time: Duration| time.as_secs_f64() * 1e6 / jobs.max(1) as f64;
    let mut stage = |name: &str, time: Duration, text: &str| {
        found.less(&format!("stages.{name}"), jobs, each(time), "us/job", text);
    };
    let plugins = times.engine.saturating_sub(bare.engine);
    stage("decode", times.decode, "from the line of a request to a submission");
    let text =
        "the linked plugins: the engine with them - the engine with one that gives priorities";
    stage("plugins", plugins, text);
    stage("engine", times.engine - plugins, "the engine with one plugin, events as text included");
    stage("encode", times.encode, "from what the engine wants stored to operations of the store");
    stage("store", times.store, "commits, and the store's own threads");
    stage("publish", times.publish, "publishing events while nothing is watched, and the answer");
    let sum = times.decode + times.engine + times.encode + times.store + times.publish;
    let text = "their sum; throughput.cpu has wake-ups and sockets, too";
    stage("sum", sum, text);
    Ok(found)
}

/// The time that each stage takes.
#[derive(Debug)]
struct Times {
    clock: fn() -> Duration,
    decode: Duration,
    engine: Duration,
    encode: Duration,
    store: Duration,
    publish: Duration,
}

/// Takes jobs through the stages, some at a time.
fn through_all(
    jobs: u64,
    registry: Registry,
    store: Option<&dyn Store>,
    times: &mut Times,
) -> Result<(), BenchError> {
    let mut stages = Stages::new(registry, Submissions::simulated(RUN_DURATION)?)?;
    let mut done = 0;
    while done < jobs {
        let some = TOGETHER.min(jobs - done);
        let requests = stages.requests(done, some);
        let submissions = times.timed(|times| &mut times.decode, || stages.decode(&requests))?;
        let effects = times.timed(|times| &mut times.engine, || stages.submit(submissions))?;
        stages.through(effects, store, times)?;
        let effects = times.timed(|times| &mut times.engine, || stages.run())?;
        stages.through(effects, store, times)?;
        done += some;
    }
    stages.manager.expect("inactive", jobs)
}

impl Times {
    /// Returns zero times, to be measured with this clock.
    fn with_clock(clock: fn() -> Duration) -> Self {
        let zero = Duration::ZERO;
        Self { clock, decode: zero, engine: zero, encode: zero, store: zero, publish: zero }
    }

    /// Does some work and adds its time to a stage.
    fn timed<T>(&mut self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let begin = (self.clock)();
        let result = work();
        let time = (self.clock)().saturating_sub(begin);
        *stage(self) += time;
        result
    }
}

/// Selects the time of one stage.
type Stage = fn(&mut Times) -> &mut Duration;

/// The stages. Each is a function that is not inlined, so that a profiler tells them apart.
struct Stages {
    manager: Offline,
    submissions: Submissions,
    publication: Publication,
    written: usize,
}

impl Stages {
    fn new(registry: Registry, submissions: Submissions) -> Result<Self, BenchError> {
        let started = Timestamp::from_secs(STARTED);
        let (mut manager, _) =
            Offline::start_at(cluster("node"), registry, started, Ticks::default())?;
        // As in a manager without watchers.
        manager.engine().set_watched(false);
        Ok(Self { manager, submissions, publication: Publication::default(), written: 0 })
    }

    /// The next submissions, as a client sends them.
    fn requests(&self, done: u64, some: u64) -> String {
        let mut requests = String::new();
        for number in done + 1..=done + some {
            self.submissions.write(number, &mut requests);
        }
        requests
    }

    #[inline(never)]
    fn decode(&self, requests: &str) -> Result<Vec<Submission>, BenchError> {
        let cred = Cred { userid: owner(), owner: true };
        Ok(decode(requests, cred)?)
    }

    #[inline(never)]
    fn submit(&mut self, submissions: Vec<Submission>) -> Result<Vec<Effects>, BenchError> {
        let cred = Cred { userid: owner(), owner: true };
        let mut all = Vec::with_capacity(submissions.len());
        for submission in submissions {
            let request = Request::Submit(Box::new(submission));
            all.push(self.manager.handle(Input::Request { reply: ReplyTo(0), cred, request })?);
        }
        Ok(all)
    }

    /// Lets time pass until all jobs are inactive.
    #[inline(never)]
    fn run(&mut self) -> Result<Vec<Effects>, BenchError> {
        let mut all = Vec::new();
        let seconds = RUN_DURATION * (2 + TOGETHER.div_ceil(u64::from(CORES))) as f64;
        self.manager.pass(seconds, |effects| {
            all.push(effects);
            Ok(())
        })?;
        Ok(all)
    }

    /// Runs the stages that come after the engine.
    fn through(
        &mut self,
        all: Vec<Effects>,
        store: Option<&dyn Store>,
        times: &mut Times,
    ) -> Result<(), BenchError> {
        let (mut writes, mut after) = (Vec::new(), Vec::new());
        for effects in all {
            writes.extend(effects.writes);
            after.extend(effects.after);
        }
        let ops = times.timed(|times| &mut times.encode, || self.encode(writes))?;
        if let Some(store) = store {
            times.timed(|times| &mut times.store, || store.commit(coalesce(ops)))?;
        }
        self.written += times.timed(|times| &mut times.publish, || self.publish(after));
        Ok(())
    }

    #[inline(never)]
    fn encode(&self, writes: Vec<Write>) -> Result<Vec<Op>, BenchError> {
        let mut ops = Vec::with_capacity(writes.len());
        writes.into_iter().try_for_each(|write| store_ops(write, &mut ops))?;
        Ok(ops)
    }

    #[inline(never)]
    fn publish(&self, after: Vec<Effect>) -> usize {
        after.into_iter().map(|effect| self.publication.carry_out(effect)).sum()
    }
}

/// Takes jobs through the stages without a store: what `.ci/instructions` counts. There is no clock, since the
/// system's fast one can't be read under valgrind.
pub(super) fn without_store(jobs: u64) -> Result<Found, BenchError> {
    through_all(jobs, Registry::linked()?, None, &mut Times::with_clock(|| Duration::ZERO))?;
    Ok(Found::default())
}
