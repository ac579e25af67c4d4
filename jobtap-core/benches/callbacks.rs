//! What a callback costs: one topic through the stack of plugins, metering on.
//!
//! `cargo bench -p jobtap-core --bench callbacks`. Read the medians of one run side by side: the cost
//! of one more plugin is (`priority/32` − `priority/1`) / 31.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use divan::{Bencher, black_box};
use jobtap_core::engine::{Cred, Effect, Engine, Input, ReplyTo, Request, Setup, Submission};
use jobtap_core::jobspec::JobspecBuilder;
use jobtap_core::plugin::{Plugin, PluginDescriptor, Registry, RemoteCall, RemoteSink, Ticks};
use jobtap_core::prelude::*;
use jobtap_core::resource::Idset;

fn main() {
    divan::main();
}

/// Nothing to do at `job.inactive-add`; a priority at `job.priority.get`.
#[derive(Default)]
struct NoOp;

#[jobtap_plugin(name = "p0")]
impl NoOp {
    #[on("job.new")]
    fn nothing(&self) {}

    #[on("job.destroy")]
    fn priority(&self) {}
}

/// Reads the job and returns a priority.
#[derive(Default)]
struct ByUrgency;

#[jobtap_plugin(name = "urgency")]
impl ByUrgency {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(job.urgency().value().into())
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

struct Nowhere;

impl RemoteSink for Nowhere {
    fn send(&self, _: RemoteCall) {}
}

fn nanoseconds() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    let elapsed = START.get_or_init(Instant::now).elapsed();
    u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX)
}

/// An engine with these plugins, and a job that waits in it.
fn engine(plugins: &[&'static PluginDescriptor]) -> (Engine, JobId) {
    let owner = Uid::new(1000);
    let setup = Setup {
        owner,
        resources: ResourceSet::single_host("host", Idset::from(0..=3)).unwrap(),
        config: serde_json::json!({}),
        registry: Registry::builder().plugins(plugins.iter().copied()).build().unwrap(),
        remote: Arc::new(Nowhere),
        ticks: Ticks::new(Arc::new(AtomicU64::new(0)), nanoseconds),
    };
    let now = Timestamp::from_secs(1.7e9);
    let mut engine = Engine::new(now, setup).unwrap();
    engine.start(now);
    let jobspec = JobspecBuilder::new(["true"]).build().unwrap();
    let submission = Submission { jobspec, signed: "{}".to_owned(), urgency: 16, flags: 0 };
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

#[divan::bench]
fn no_op(bencher: Bencher) {
    let (mut engine, id) = engine(&[NoOp::DESCRIPTOR]);
    bencher.bench_local(|| engine.call_topic(black_box(TopicId::JobNew), black_box(id)));
}

#[divan::bench]
fn job_read_and_priority(bencher: Bencher) {
    let (mut engine, id) = engine(&[ByUrgency::DESCRIPTOR]);
    bencher.bench_local(|| engine.call_topic(black_box(TopicId::JobStatePriority), black_box(id)));
}

#[divan::bench]
fn nobody_handles(bencher: Bencher) {
    let (mut engine, id) = engine(&[NoOp::DESCRIPTOR]);
    bencher.bench_local(|| engine.call_topic(black_box(TopicId::JobInactiveAdd), black_box(id)));
}

#[divan::bench(args = [1, 2, 8, 32])]
fn stack_of(bencher: Bencher, plugins: usize) {
    let (mut engine, id) = engine(&PLUGINS[..plugins]);
    bencher.bench_local(|| engine.call_topic(black_box(TopicId::JobNew), black_box(id)));
}
