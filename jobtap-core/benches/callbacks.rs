//! What plugins cost, with metering on. Compare the medians of a single run.
//!
//! - `callbacks`: one handler that a bare host calls through the stack of plugins: extracting the parameters, the panic
//!   boundary, metering and merging the outcome. Every host pays this.
//! - `topics`: a whole topic in the engine: the same, plus looking up the job and carrying out what was decided.
//! - `topics::stack_of`: a topic that this many plugins handle; each further plugin costs (`32` - `1`) / 31.
//!
//! `cargo bench -p jobtap-core --bench callbacks`
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use divan::{Bencher, black_box};
use jobtap_core::engine::{
    Cred, Effect, Engine, HostCheck, Input, ReplyTo, Request, Setup, Submission,
};
use jobtap_core::host::{
    Args, Command, Detail, Host, LoadedPlugin, NoReturn, Outcome, PluginDescriptor, PluginKey,
    Registry, RemoteHandle, Stack, Ticks,
};
use jobtap_core::jobspec::JobspecBuilder;
use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::resource::{Idset, ResourceSet};
use serde_json::Value;

fn main() {
    divan::main();
}

/// Does nothing.
#[derive(Default)]
struct NoOp;

#[jobtap_plugin(name = "no-op")]
impl NoOp {
    #[on("job.new")]
    fn nothing(&self) {}
}

/// Reads the job and returns a priority.
#[derive(Default)]
struct ByUrgency;

#[jobtap_plugin(name = "urgency")]
impl ByUrgency {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()))
    }
}

/// The same plugin under 32 names.
macro_rules! plugins {
    ($($name:ident = $text:literal)*) => {
        $(
            #[derive(Default)]
            struct $name;

            #[jobtap_plugin(name = $text)]
            impl $name {
                #[on("job.new")]
                fn nothing(&self) {}
            }
        )*
        const PLUGINS: &[&PluginDescriptor] = &[$($name::DESCRIPTOR),*];
    };
}
plugins! {
    P01 = "p01" P02 = "p02" P03 = "p03" P04 = "p04" P05 = "p05" P06 = "p06" P07 = "p07" P08 = "p08"
    P09 = "p09" P10 = "p10" P11 = "p11" P12 = "p12" P13 = "p13" P14 = "p14" P15 = "p15" P16 = "p16"
    P17 = "p17" P18 = "p18" P19 = "p19" P20 = "p20" P21 = "p21" P22 = "p22" P23 = "p23" P24 = "p24"
    P25 = "p25" P26 = "p26" P27 = "p27" P28 = "p28" P29 = "p29" P30 = "p30" P31 = "p31" P32 = "p32"
}

fn nanoseconds() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// Returns an engine with these plugins, and a job that was submitted to it.
fn engine(plugins: &[&'static PluginDescriptor]) -> (Engine, JobId) {
    let owner = Uid::new(1000);
    let setup = Setup {
        owner,
        resources: ResourceSet::single_host("host", Idset::from(0..=3)).unwrap(),
        config: serde_json::json!({}),
        config_directory: None,
        registry: Registry::builder().plugins(plugins.iter().copied()).build().unwrap(),
        remote: Arc::new(NoReturn),
        ticks: Ticks::new(Arc::new(AtomicU64::new(0)), nanoseconds),
        host_check: HostCheck::default(),
    };
    let now = Timestamp::from_secs(1.7e9);
    let mut engine = Engine::new(now, setup).unwrap();
    engine.start(now);
    let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
    let submission =
        Submission { jobspec, signed: "{}".to_owned(), urgency: 16, flags: 0, elements: None };
    let request = Request::Submit(Box::new(submission));
    let cred = Cred { userid: owner, owner: true };
    let effects = engine.handle(now, Input::Request { reply: ReplyTo(0), cred, request });
    let answer = effects.after.into_iter().find_map(|effect| match effect {
        Effect::Reply { result, .. } => result.ok(),
        _ => None,
    });
    let id = answer.and_then(|answer| answer.get("id")?.as_u64()).expect("it is accepted");
    (engine, JobId::new(id))
}

/// A host that has no jobs and no data, and whose clock stands still.
struct Bare {
    remote: RemoteHandle,
    queues: Queues,
    resources: ResourceSet,
}

impl Host for Bare {
    fn now(&self) -> Timestamp {
        Timestamp::from_secs(0.0)
    }
    fn owner(&self) -> Uid {
        Uid::new(0)
    }
    fn instance_resources(&self) -> &ResourceSet {
        &self.resources
    }
    fn current(&self) -> Option<JobId> {
        None
    }
    fn job(&self, _: JobId) -> Option<&Job> {
        None
    }
    fn active_jobs(&self) -> Vec<JobId> {
        Vec::new()
    }
    fn retainable(&self, _: JobId) -> Option<ResourceSet> {
        None
    }

    fn data(&self, _: JobId) -> Option<Value> {
        None
    }
    fn instance_data(&self) -> Option<Value> {
        None
    }
    fn queues(&self) -> &Queues {
        &self.queues
    }
    fn call_own_topic(
        &self,
        _: &'static str,
        _: Option<JobId>,
        _: &dyn Any,
    ) -> Result<Vec<Box<dyn Any>>, CallError> {
        Ok(Vec::new())
    }
    fn call(&self, _: Command) -> Result<(), CallError> {
        Ok(())
    }
    fn push(&self, _: Command) {}
    fn remote(&self) -> RemoteHandle {
        self.remote.clone()
    }
}

/// Measures a call of a plugin's handler of this topic by the bare host.
fn callback<P: Plugin + Default>(bencher: Bencher, topic: TopicId) {
    let (engine, id) = engine(&[]);
    let job = engine.job(id);
    let remote = RemoteHandle::new(PluginKey(0), Arc::from("p"), Arc::new(NoReturn));
    let mut stack = Stack::default();
    stack.push(LoadedPlugin::new(
        P::DESCRIPTOR,
        P::DESCRIPTOR.name,
        Box::new(P::default()),
        remote.clone(),
    ));
    let ticks = Ticks::new(Arc::new(AtomicU64::new(0)), nanoseconds);
    let (queues, resources) = (Queues::default(), ResourceSet::new());
    let host = Bare { remote, queues, resources };
    let detail = Detail::State { prev: None, entry: None };
    bencher.bench_local(|| {
        let args = Args { host: &host, topic: black_box(topic), job, detail };
        let mut outcome = Outcome::default();
        if let Some(handlers) = stack.handlers(args.topic) {
            for bound in handlers.iter() {
                if let Ok(decided) = bound.call(&args, &ticks).0 {
                    outcome.merge(decided);
                }
            }
        }
        black_box(outcome.priority);
    });
}

mod callbacks {
    use super::*;

    #[divan::bench(sample_count = 200, sample_size = 20_000)]
    fn no_op(bencher: Bencher) {
        callback::<NoOp>(bencher, TopicId::JobNew);
    }

    #[divan::bench(sample_count = 200, sample_size = 20_000)]
    fn job_read_and_priority(bencher: Bencher) {
        callback::<ByUrgency>(bencher, TopicId::JobStatePriority);
    }

    #[divan::bench(sample_count = 200, sample_size = 20_000)]
    fn nobody_handles(bencher: Bencher) {
        callback::<NoOp>(bencher, TopicId::JobInactiveAdd);
    }
}

mod topics {
    use super::*;

    #[divan::bench(sample_count = 200, sample_size = 20_000)]
    fn no_op(bencher: Bencher) {
        let (mut engine, id) = engine(&[NoOp::DESCRIPTOR]);
        bencher.bench_local(|| {
            engine.dispatch_for_benchmark(black_box(TopicId::JobNew), black_box(id))
        });
    }

    #[divan::bench(sample_count = 200, sample_size = 20_000)]
    fn job_read_and_priority(bencher: Bencher) {
        let (mut engine, id) = engine(&[ByUrgency::DESCRIPTOR]);
        let topic = TopicId::JobStatePriority;
        bencher.bench_local(|| engine.dispatch_for_benchmark(black_box(topic), black_box(id)));
    }

    #[divan::bench(sample_count = 200, sample_size = 20_000)]
    fn nobody_handles(bencher: Bencher) {
        let (mut engine, id) = engine(&[NoOp::DESCRIPTOR]);
        bencher.bench_local(|| {
            engine.dispatch_for_benchmark(black_box(TopicId::JobInactiveAdd), black_box(id))
        });
    }

    #[divan::bench(args = [1, 2, 8, 32], sample_count = 200, sample_size = 5_000)]
    fn stack_of(bencher: Bencher, plugins: usize) {
        let (mut engine, id) = engine(PLUGINS.get(..plugins).unwrap_or_default());
        bencher.bench_local(|| {
            engine.dispatch_for_benchmark(black_box(TopicId::JobNew), black_box(id))
        });
    }
}
