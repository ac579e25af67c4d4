//! Simulated schedules, compared with some computed by hand and with a second simulator that shares no code with the
//! engine.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use jobtap_core::engine::{NodeRequest, Request};
use jobtap_core::host::{Registry, Ticks};
use jobtap_core::job::JobResult;
use jobtap_core::plugin::Plugin as _;
use jobtap_core::prelude::*;
use jobtap_core::queue::Target;
use jobtap_core::simulation::{
    Results, Rules, Setup, Simulation, Simulator, Span, TimeLimits, Trace, TraceJob, machine,
};
use proptest::prelude::*;
use serde_json::{Value, json};

/// Orders jobs by urgency, and jobs of one urgency by submission.
#[derive(Default)]
struct InOrder;

#[jobtap_plugin(name = "in-order")]
impl InOrder {
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()))
    }
}

fn policy(name: &str) -> Value {
    json!({"policy": {"scheduler": {"queue-policy": name}}})
}

/// A job by submission, cores, run time and time limit.
fn job(number: u64, [submit, cores, run_time, limit]: [u32; 4]) -> TraceJob {
    TraceJob {
        submit: submit.into(),
        cores: cores.into(),
        time_limit: Some(limit.into()),
        user: 1,
        ..TraceJob::new(number, run_time.into())
    }
}

fn trace(jobs: &[[u32; 4]]) -> Trace {
    let rules = Rules { time_limits: TimeLimits::RecordedOrNone, ..Rules::default() };
    Trace::from_jobs(jobs.iter().zip(1..).map(|(each, number)| job(number, *each)), &rules)
}

fn run(scheduler: &str, cores: u32, jobs: &[[u32; 4]]) -> Results {
    let simulation = Simulation::new().plugin::<InOrder>().cores(cores).config(policy(scheduler));
    simulation.run(&trace(jobs)).unwrap()
}

fn starts(results: &Results) -> Vec<f64> {
    results.jobs.iter().map(|job| job.start.unwrap_or(-1.0)).collect()
}

#[test]
fn what_jobs_waited_for_is_summed_up() {
    // One job runs for an hour; the second is the first of the queue, two more are behind it until they all start.
    let jobs = [[0, 4, 3600, 3600], [0, 4, 3600, 3600], [0, 2, 60, 60], [0, 2, 60, 60]];
    let results = run("fcfs", 4, &jobs);
    // In the first hour one waits for resources and two for those before them, in the second hour one of these two waits
    // for resources, and the other one for it.
    let hours = |word: &str| {
        let found = results.waited_for.iter().find(|(known, _)| *known == word);
        found.map_or(0.0, |(_, seconds)| seconds / 3600.0)
    };
    assert!((hours("resources") - 2.0).abs() < 0.1, "{:?}", results.waited_for);
    assert!((hours("order") - 3.0).abs() < 0.1, "{:?}", results.waited_for);
    assert_eq!(results.waited_for.len(), 2, "{:?}", results.waited_for);
}

/// Asks for an allocation for every four cores that pending jobs need, and gives back what is idle.
#[derive(Default)]
struct Asks;

#[jobtap_plugin(name = "asks")]
impl Asks {
    #[on("allocation.plan")]
    fn plan(&self, demand: &Demand) -> Plan {
        let needed: f64 = demand.pending.iter().map(|jobs| jobs.count as f64 / 4.0).sum();
        let on_order = demand.allocations.iter().filter(|known| known.is_on_order()).count();
        let more = (needed.ceil() as u32).saturating_sub(on_order as u32);
        let idle = demand.allocations.iter().filter(|known| known.idle_for(demand.now) >= 60.0);
        idle.fold(Plan::new().order("slurm", more), |plan, known| plan.release(known.id))
    }
}

#[test]
fn an_elastic_instance_asks_for_its_nodes() {
    let table = json!({"engine": "slurm", "cores": 4, "max": 2, "time-limit": "1h"});
    let config = json!({ "allocation": [table] });
    let simulation = Simulation::new().plugin::<InOrder>().plugin::<Asks>().config(config);
    let jobs = [[0, 1, 100, 0], [10, 1, 100, 0], [4000, 1, 100, 0]];
    let results = simulation.queue_wait(300.0).run(&trace(&jobs)).unwrap();
    let started: Vec<f64> = starts(&results).iter().map(|start| start.round()).collect();
    assert_eq!(started, [300.0, 300.0, 4300.0]);
    let figures = results.allocations.unwrap();
    assert_eq!((results.cores, figures.asked, figures.started), (8, 2, 2));
    assert_eq!(figures.mean_wait, 300.0);
    // The first one is given back a minute after its jobs have ended; the second one runs to the end of the simulation.
    let hours = 4.0 * (160.0 + 100.0) / 3600.0;
    assert!((figures.core_hours - hours).abs() < 0.01, "{figures:?}");
    assert_eq!(run("easy", 4, &jobs).allocations, None);
}

/// Four cores. The second job needs all of them, so it waits for the first.
const SMALL: [[u32; 4]; 5] =
    [[0, 3, 100, 100], [1, 4, 50, 50], [2, 1, 30, 30], [3, 1, 200, 200], [4, 1, 60, 60]];

#[test]
fn strict_order_gives_the_schedule_computed_by_hand() {
    // The second job starts at 100, the others, which need three cores together, when it ends.
    let results = run("fifo", 4, &SMALL);
    assert_eq!(starts(&results), [0.0, 100.0, 150.0, 150.0, 150.0]);
    assert_eq!(results.metrics().backfilled, 0);
}

#[test]
fn easy_gives_the_schedule_computed_by_hand() {
    // On the free core the third job ends at 32 and the fifth at 92, before the second one starts at 100. The
    // fourth would not have ended then.
    let results = run("easy", 4, &SMALL);
    assert_eq!(starts(&results), [0.0, 100.0, 2.0, 150.0, 32.0]);
    let backfilled: Vec<bool> = results.jobs.iter().map(|job| job.backfilled).collect();
    assert_eq!(backfilled, [false, false, true, false, true]);
    let metrics = results.metrics();
    assert_eq!((metrics.backfill_rate, metrics.makespan), (0.4, 350.0));
    assert_eq!(metrics.utilization, f64::from(300 + 200 + 30 + 200 + 60) / (4.0 * 350.0));
}

#[test]
fn easy_looks_at_256_jobs_behind_the_first_one() {
    // The second job waits for the first, and so do the jobs between it and the last one. For the last one, a core is
    // free at once.
    let start_of_last = |between: usize| {
        let mut jobs = vec![[0, 3, 1000, 1000], [1, 4, 10, 10]];
        jobs.extend(std::iter::repeat_n([2, 4, 10, 10], between));
        jobs.push([3, 1, 5, 5]);
        *starts(&run("easy", 4, &jobs)).last().unwrap()
    };
    assert_eq!(start_of_last(255), 3.0);
    assert!(start_of_last(256) > 1000.0);
}

#[test]
fn a_job_ends_at_its_time_limit() {
    let results = run("easy", 4, &[[0, 4, 100, 60], [5, 4, 10, 10], [6, 1, 10, 10]]);
    assert_eq!(results.jobs[0].result, Some(JobResult::Timeout));
    assert_eq!(results.jobs[1].result, Some(JobResult::Completed));
    assert_eq!(starts(&results), [0.0, 60.0, 70.0]);
    assert_eq!((results.metrics().timeout, results.metrics().completed), (1, 2));
}

#[test]
fn a_high_urgency_is_given_by_the_owner() {
    let mut trace = trace(&[[0, 4, 100, 100], [1, 4, 10, 10], [2, 4, 10, 10]]);
    // The first job has its resources before the owner can raise its urgency.
    [trace.jobs[0].urgency, trace.jobs[2].urgency] = [25, 20];
    let simulation = Simulation::new().plugin::<InOrder>().config(policy("easy"));
    let results = simulation.run(&trace).unwrap();
    assert_eq!(starts(&results), [0.0, 110.0, 100.0]);
    assert_eq!(results.log, [""; 0]);
}

#[test]
fn a_refused_job_is_counted_with_its_reason() {
    let results = run("easy", 4, &[[0, 5, 10, 10], [1, 1, 10, 10]]);
    let metrics = results.metrics();
    assert_eq!((metrics.submitted, metrics.completed), (2, 1));
    assert_eq!(metrics.refused + metrics.failed, 1, "{results:?}");
}

#[test]
fn a_job_that_never_starts_is_pending_at_the_end() {
    let config = json!({"queues": {"batch": {}}, "policy": {"jobspec": {"defaults": {"system": {"queue": "batch"}}}}});
    let registry = Registry::builder().plugin(InOrder::DESCRIPTOR).build().unwrap();
    let mut simulator = simulator(config, registry);
    let target = Target::all();
    let (reason, nocheckpoint) = (None, false);
    simulator.plan(0.0, Request::QueueStart { target, start: false, reason, nocheckpoint });
    simulator.submit(&job(1, [10, 1, 5, 5]));
    simulator.finish();
    let results = simulator.into_results();
    assert_eq!(results.metrics().pending, 1);
    let [left] = &results.left[..] else { panic!("{:?}", results.left) };
    assert!(left.starts_with('ƒ') && left.ends_with(": queue batch is stopped"), "{left}");
}

#[test]
fn the_queues_of_a_configuration_are_started() {
    let config = json!({"queues": {"batch": {}, "debug": {}}});
    let registry = Registry::builder().plugin(InOrder::DESCRIPTOR).build().unwrap();
    let mut simulator = simulator(config, registry);
    for (number, queue) in [(1, "batch"), (2, "debug")] {
        let queue = Some(queue.into());
        simulator.submit(&TraceJob { queue, ..job(number, [10, 1, 5, 5]) });
    }
    simulator.finish();
    let results = simulator.into_results();
    assert_eq!((results.metrics().completed, &results.left[..]), (2, &[][..]));
    assert_eq!(results.log, [""; 0]);
}

fn simulator(config: Value, registry: Registry) -> Simulator {
    Simulator::new(Setup {
        config,
        config_directory: None,
        registry,
        resources: machine(2, 2, 0).unwrap(),
        ticks: Ticks::default(),
        start: None,
        places: 100,
        queue_wait: Box::new(|| 0.0),
    })
    .unwrap()
}

#[test]
fn planned_failures_of_nodes_end_their_jobs() {
    let registry = Registry::builder().plugin(InOrder::DESCRIPTOR).build().unwrap();
    let mut simulator = simulator(policy("easy"), registry);
    let offline = NodeRequest::Offline { targets: "0".to_owned(), reason: None };
    simulator.plan(50.0, Request::Nodes(offline));
    for number in 1..=3 {
        simulator.submit(&job(number, [0, 2, 100, 100]));
    }
    simulator.finish();
    let results = simulator.into_results();
    let ends: Vec<_> = results.jobs.iter().map(|job| (job.end, job.result)).collect();
    assert_eq!(ends[0], (Some(50.0), Some(JobResult::Failed)));
    assert_eq!(ends[1], (Some(100.0), Some(JobResult::Completed)));
    // The third job runs on the node that is left.
    assert_eq!(ends[2], (Some(200.0), Some(JobResult::Completed)));
}

#[test]
fn the_cores_of_jobs_are_kept() {
    let results = run("fifo", 4, &[[0, 3, 10, 10], [0, 1, 10, 10]]);
    let place = |number: usize| results.jobs[number].place.to_vec();
    assert_eq!(place(0), [Span { rank: 0, nodes: 1, core: 0, cores: 3 }]);
    assert_eq!(place(1), [Span { rank: 0, nodes: 1, core: 3, cores: 1 }]);
}

/// A simulator that steps from second to second instead of from event to event. It shares no code with the engine, and
/// follows the definitions of the policies literally.
struct Seconds {
    jobs: Vec<[u32; 4]>,
    /// The job on each core.
    cores: Vec<Option<usize>>,
    start: Vec<Option<u32>>,
    waiting: Vec<usize>,
    backfill: bool,
    /// The reservation of the first pending job: the job, its start and its cores. It stands until a job ends.
    reserved: Option<(usize, f64, Vec<usize>)>,
}

impl Seconds {
    fn run(jobs: &[[u32; 4]], cores: usize, backfill: bool) -> Vec<f64> {
        let mut all = Self {
            jobs: jobs.to_vec(),
            cores: vec![None; cores],
            start: vec![None; jobs.len()],
            waiting: Vec::new(),
            backfill,
            reserved: None,
        };
        let last: u32 = jobs.iter().map(|[submit, _, run, _]| submit + run + 1).sum();
        for now in 0..=last {
            let runs = |n: &usize| all.runs(*n) && all.end(*n) <= now;
            for ended in (0..jobs.len()).filter(runs).collect::<Vec<_>>() {
                for core in &mut all.cores {
                    *core = core.filter(|number| *number != ended);
                }
                all.reserved = None;
                all.schedule(now);
            }
            for number in (0..jobs.len()).filter(|n| jobs[*n][0] == now) {
                all.waiting.push(number);
                all.schedule(now);
            }
        }
        all.start.iter().map(|start| start.map_or(-1.0, f64::from)).collect()
    }

    fn runs(&self, number: usize) -> bool {
        self.cores.contains(&Some(number))
    }

    /// When a running job ends.
    fn end(&self, number: usize) -> u32 {
        self.start[number].unwrap() + self.jobs[number][2]
    }

    /// When a running job reaches its time limit.
    fn limit(&self, number: usize) -> f64 {
        f64::from(self.start[number].unwrap()) + time_limit(&self.jobs, number)
    }

    /// The lowest free cores that are not among `except`, if there are enough.
    fn choose(free: &[bool], number: u32, except: &[usize]) -> Option<Vec<usize>> {
        let usable = (0..free.len()).filter(|core| free[*core] && !except.contains(core));
        let chosen: Vec<usize> = usable.take(number as usize).collect();
        (chosen.len() == number as usize).then_some(chosen)
    }

    fn free(&self) -> Vec<bool> {
        self.cores.iter().map(Option::is_none).collect()
    }

    fn begin(&mut self, number: usize, now: u32, except: &[usize]) -> bool {
        let Some(chosen) = Self::choose(&self.free(), self.jobs[number][1], except) else {
            return false;
        };
        chosen.into_iter().for_each(|core| self.cores[core] = Some(number));
        self.start[number] = Some(now);
        self.waiting.retain(|waiting| *waiting != number);
        true
    }

    fn schedule(&mut self, now: u32) {
        while let Some(head) = self.waiting.first().copied() {
            if !self.begin(head, now, &[]) {
                break;
            }
        }
        let Some(head) = self.waiting.first().copied().filter(|_| self.backfill) else { return };
        if self.reserved.as_ref().is_none_or(|(of, ..)| *of != head) {
            self.reserved = Some(self.reservation(head));
        }
        let (_, at, cores) = self.reserved.clone().unwrap();
        for number in self.waiting.clone().into_iter().skip(1) {
            let except = if f64::from(now) + time_limit(&self.jobs, number) <= at {
                &[][..]
            } else {
                &cores
            };
            self.begin(number, now, except);
        }
    }

    /// When and where the job can start if all jobs run until their limits.
    fn reservation(&self, head: usize) -> (usize, f64, Vec<usize>) {
        let mut running: Vec<usize> = (0..self.jobs.len()).filter(|n| self.runs(*n)).collect();
        running.sort_by(|a, b| self.limit(*a).total_cmp(&self.limit(*b)));
        let mut free = self.free();
        for number in running {
            for (core, holder) in self.cores.iter().enumerate() {
                free[core] |= *holder == Some(number);
            }
            if let Some(chosen) = Self::choose(&free, self.jobs[head][1], &[]) {
                return (head, self.limit(number), chosen);
            }
        }
        unreachable!("the job fits on the machine");
    }
}

/// A time limit that differs from those of all other jobs. If a job could end exactly when another one is due to start,
/// the microseconds between events would decide whether it is backfilled.
fn time_limit(jobs: &[[u32; 4]], number: usize) -> f64 {
    f64::from(jobs[number][3]) + 0.01 * (number + 1) as f64
}

prop_compose! {
    fn some_job()(gap in 0..30u32, cores in 1..=6u32, run in 1..60u32, slack in 0..30u32) -> [u32; 4] {
        [gap, cores, run, run + slack]
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(100))]

    /// Either on one host, or on hosts of one core each.
    #[test]
    fn schedules_are_those_of_a_second_simulator(
        mut jobs in proptest::collection::vec(some_job(), 1..40),
        many in any::<bool>(),
    ) {
        let mut submit = 0;
        for each in &mut jobs {
            submit += each[0];
            each[0] = submit;
        }
        let mut trace = trace(&jobs);
        for (number, job) in trace.jobs.iter_mut().enumerate() {
            job.time_limit = Some(time_limit(&jobs, number));
        }
        for (name, backfill) in [("fifo", false), ("easy", true)] {
            let (nodes, cores) = if many { (6, 1) } else { (1, 6) };
            let simulation = Simulation::new().plugin::<InOrder>().nodes(nodes, cores);
            let results = simulation.config(policy(name)).run(&trace).unwrap();
            prop_assert_eq!(starts(&results), Seconds::run(&jobs, 6, backfill), "{}", name);
        }
    }
}

#[test]
fn a_job_that_started_in_the_same_turn_counts_for_the_reservation() {
    // At 68 the second job ends, the fourth starts, and the fifth can start when the fourth ends at its limit. The last
    // one ends long before that.
    let jobs = [
        [0, 2, 13, 38],
        [0, 5, 50, 50],
        [0, 2, 18, 18],
        [8, 2, 17, 31],
        [23, 5, 1, 1],
        [38, 1, 31, 31],
        [38, 1, 1, 1],
    ];
    let of_all = starts(&run("easy", 6, &jobs));
    assert_eq!((of_all[3], of_all[6]), (68.0, 68.0));
}
