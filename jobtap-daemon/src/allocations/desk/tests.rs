//! The loop with an outer job manager that is played by the test, in the time of a clock that the test moves.

use std::num::NonZeroU64;
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, channel};

use jobtap_core::allocation::Tables;
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::time::sleep;

use super::*;

/// What the outer manager is like.
#[derive(Default)]
struct World {
    /// The jobs by their ids: name and state.
    jobs: BTreeMap<String, (String, OuterState)>,
    orders: u32,
    looks: u32,
    cancelled: Vec<String>,
    /// Why it refuses orders.
    refusal: Option<&'static str>,
    /// Whether nobody reaches it.
    is_away: bool,
    /// Whether it takes orders without saying so.
    is_mute: bool,
}

#[derive(Clone, Default)]
struct Played(Arc<Mutex<World>>);

impl Played {
    fn with<T>(&self, body: impl FnOnce(&mut World) -> T) -> T {
        body(&mut self.0.lock().unwrap())
    }

    /// All jobs have this state from now on.
    fn all(&self, state: &OuterState) {
        self.with(|world| world.jobs.values_mut().for_each(|(_, now)| *now = state.clone()));
    }
}

fn away() -> ProgramError {
    ProgramError::Failed("Unable to contact slurm controller".to_owned())
}

impl OuterManager for Played {
    fn title(&self) -> &'static str {
        "Played"
    }

    async fn order(&self, order: &Order) -> Result<String, OrderError> {
        self.with(|world| {
            if world.is_away {
                return Err(OrderError::Unclear("Unable to contact slurm controller".to_owned()));
            }
            if let Some(reason) = world.refusal {
                return Err(OrderError::Refused(reason.to_owned()));
            }
            world.orders += 1;
            let job = world.orders.to_string();
            let waits = OuterState::Waits("Priority".to_owned());
            world.jobs.insert(job.clone(), (order.name.clone(), waits));
            match world.is_mute {
                true => Err(OrderError::Unclear("timed out".to_owned())),
                false => Ok(job),
            }
        })
    }

    async fn look(&self, wanted: &[Wanted]) -> Result<Vec<Found>, ProgramError> {
        self.with(|world| {
            world.looks += 1;
            if world.is_away {
                return Err(away());
            }
            let is_wanted = |name: &String| wanted.iter().any(|wanted| wanted.name == *name);
            let all = world.jobs.iter().filter(|(_, (name, _))| is_wanted(name));
            let found = |(job, (name, state)): (&String, &(String, OuterState))| Found {
                name: name.clone(),
                job: job.clone(),
                state: state.clone(),
            };
            Ok(all.map(found).collect())
        })
    }

    async fn cancel(&self, job: &str) -> Result<(), ProgramError> {
        self.with(|world| {
            world.cancelled.push(job.to_owned());
            if let Some((_, state)) = world.jobs.get_mut(job) {
                *state = OuterState::Ended("CANCELLED".to_owned());
            }
        });
        Ok(())
    }
}

const ID: AllocationId = AllocationId(NonZeroU64::MIN);

struct Bench {
    outer: Played,
    desk: UnboundedSender<Message>,
    events: Receiver<AllocationEvent>,
}

impl Bench {
    fn new() -> Self {
        Self::of(Played::default())
    }

    /// The loop of a manager that begins with this outer one.
    fn of(outer: Played) -> Self {
        let (to_test, events) = channel();
        let (desk, inbox) = unbounded_channel();
        let shared = Shared {
            report: Arc::new(move |event| drop(to_test.send(event))),
            log: Arc::new(|_, _| {}),
            guests: Guests::default(),
            name: Arc::new(|id| format!("jobtap-x-{id}")),
            invitation: Arc::new(|_| String::new()),
        };
        tokio::spawn(Desk::new(outer.clone(), shared, inbox).run());
        Self { outer, desk, events }
    }

    fn send(&self, message: Message) {
        self.desk.send(message).ok().unwrap();
    }

    fn order(&self, again: bool) {
        let config = json!({"allocation": [{"engine": "slurm", "cores": 2}]});
        let table = Box::new(Tables::read(&config).unwrap().get("slurm").unwrap().clone());
        self.send(Message::Order { id: ID, table, time_limit: None, again });
    }

    fn joined(&self, ends_at: Option<f64>) {
        self.joined_ahead(ends_at, 0.0);
    }

    /// A node has joined whose clock is so many seconds ahead.
    fn joined_ahead(&self, ends_at: Option<f64>, ahead: f64) {
        let host = "n1".to_owned();
        self.send(Message::Notice(Notice::Joined { id: ID, rank: 3, host, ends_at, ahead }));
    }

    /// What was reported within so many seconds, in short.
    async fn told(&self, seconds: f64) -> Vec<String> {
        sleep(Duration::from_secs_f64(seconds)).await;
        let short = |event| match event {
            AllocationEvent::Ordered { job, .. } => format!("ordered {job}"),
            AllocationEvent::Refused { reason, .. } => format!("refused: {reason}"),
            AllocationEvent::Waits { reason, .. } => format!("waits: {reason}"),
            AllocationEvent::Started { ends_at, .. } => {
                let left = ends_at.map(|at| (at.as_secs() - now().as_secs()).round());
                left.map_or("started".to_owned(), |left| format!("started for {left} s"))
            }
            AllocationEvent::Joined { rank, host, .. } => format!("{host} is {rank}"),
            AllocationEvent::Ended { reason, .. } => format!("ended: {reason}"),
        };
        self.events.try_iter().map(short).collect()
    }

    /// An allocation that runs.
    async fn running() -> Self {
        let bench = Self::new();
        bench.order(false);
        bench.told(1.0).await;
        bench.outer.all(&OuterState::Runs(None));
        assert_eq!(bench.told(2.0).await, ["started"]);
        bench
    }
}

#[tokio::test(start_paused = true)]
async fn an_order_goes_its_way() {
    let bench = Bench::new();
    bench.order(false);
    assert_eq!(bench.told(0.5).await, ["ordered 1", "waits: Priority"]);
    bench.outer.all(&OuterState::Waits("QOSMaxJobsPerUser".to_owned()));
    assert_eq!(bench.told(2.0).await, ["waits: QOSMaxJobsPerUser"]);
    assert_eq!(bench.told(10.0).await, [""; 0], "what is known isn't said again");
    // The node itself is faster than the next question.
    bench.joined(Some(now().as_secs() + 600.0));
    bench.outer.all(&OuterState::Runs(Some(now().as_secs() + 600.0)));
    let told = bench.told(0.1).await;
    assert_eq!(told, ["started for 595 s", "n1 is 3"]);
    let before = bench.outer.with(|world| world.looks);
    bench.told(60.0).await;
    let looks = bench.outer.with(|world| world.looks) - before;
    assert!((5..=8).contains(&looks), "{looks} looks in a minute in which nothing happens");
    bench.outer.all(&OuterState::Ended("TIMEOUT (TimeLimit)".to_owned()));
    assert_eq!(bench.told(11.0).await, ["ended: Played job 1: TIMEOUT (TimeLimit)"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_is_by_the_clock_of_the_outer_manager() {
    for ahead in [-300.0, 300.0] {
        let its_end = now().as_secs() + 600.0 + ahead;
        // The node joins when the outer manager has said that the allocation runs.
        let bench = Bench::new();
        bench.order(false);
        bench.told(1.0).await;
        bench.outer.all(&OuterState::Runs(Some(its_end)));
        assert_eq!(bench.told(2.0).await, [format!("started for {} s", 595.0 + ahead)]);
        bench.joined_ahead(None, ahead);
        assert_eq!(bench.told(0.1).await, ["n1 is 3", "started for 595 s"]);
        // It joins first.
        let bench = Bench::new();
        bench.order(false);
        bench.told(0.5).await;
        bench.joined_ahead(Some(its_end), ahead);
        bench.outer.all(&OuterState::Runs(Some(its_end)));
        assert_eq!(bench.told(3.0).await, ["started for 595 s", "n1 is 3"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_joins_first_shows_that_its_allocation_runs() {
    let bench = Bench::new();
    bench.order(false);
    bench.told(0.5).await;
    bench.outer.all(&OuterState::Runs(Some(now().as_secs() + 600.0)));
    bench.joined(None);
    assert_eq!(bench.told(0.5).await, ["started for 595 s", "n1 is 3"]);
}

#[tokio::test(start_paused = true)]
async fn a_refusal_is_the_last_word() {
    let bench = Bench::new();
    bench.outer.with(|world| world.refusal = Some("Invalid partition name specified"));
    bench.order(false);
    assert_eq!(bench.told(1.0).await, ["refused: Invalid partition name specified"]);
    assert_eq!(bench.told(60.0).await, [""; 0]);
    assert_eq!(bench.outer.with(|world| world.looks), 0, "there is nothing to ask about");
}

#[tokio::test(start_paused = true)]
async fn an_order_whose_outcome_is_unknown_is_looked_for_first() {
    let bench = Bench::new();
    bench.outer.with(|world| world.is_mute = true);
    bench.order(false);
    assert_eq!(bench.told(3.0).await, ["waits: timed out", "ordered 1", "waits: Priority"]);
    assert_eq!(bench.outer.with(|world| world.orders), 1);
}

#[tokio::test(start_paused = true)]
async fn an_order_waits_for_an_outer_manager_that_is_away() {
    let bench = Bench::new();
    bench.outer.with(|world| world.is_away = true);
    bench.order(false);
    let unreachable = "waits: Unable to contact slurm controller";
    assert_eq!(bench.told(600.0).await, [unreachable]);
    bench.outer.with(|world| world.is_away = false);
    assert_eq!(bench.told(20.0).await, ["ordered 1", "waits: Priority"]);
    bench.outer.with(|world| world.is_away = true);
    assert_eq!(bench.told(2.0).await, [unreachable]);
    bench.outer.with(|world| world.is_away = false);
    assert_eq!(bench.told(2.0).await, ["waits: Priority"]);
}

#[tokio::test(start_paused = true)]
async fn the_order_of_a_killed_manager_is_found_or_ordered_again() {
    let outer = Played::default();
    let first = Bench::of(outer.clone());
    first.order(false);
    first.told(1.0).await;
    drop(first);
    let second = Bench::of(outer.clone());
    second.order(true);
    assert_eq!(second.told(1.0).await, ["ordered 1", "waits: Priority"]);
    drop(second);
    outer.with(|world| world.jobs.clear());
    let third = Bench::of(outer.clone());
    third.order(true);
    assert_eq!(third.told(4.0).await, [""; 0], "its command may still run");
    assert_eq!(third.told(3.0).await, ["ordered 2", "waits: Priority"]);
}

#[tokio::test(start_paused = true)]
async fn two_jobs_of_one_allocation_become_one() {
    let bench = Bench::new();
    bench.order(false);
    bench.told(0.5).await;
    bench.outer.with(|world| {
        let waits = OuterState::Waits("Priority".to_owned());
        world.jobs.insert("9".to_owned(), ("jobtap-x-1".to_owned(), waits));
    });
    bench.told(2.0).await;
    assert_eq!(bench.outer.with(|world| world.cancelled.clone()), ["9"]);
}

#[tokio::test(start_paused = true)]
async fn a_waiting_allocation_is_cancelled_at_once() {
    let bench = Bench::new();
    bench.order(false);
    bench.told(0.5).await;
    bench.send(Message::End(ID));
    assert_eq!(bench.told(1.0).await, ["ended: released"]);
    assert_eq!(bench.outer.with(|world| world.cancelled.clone()), ["1"]);
}

#[tokio::test(start_paused = true)]
async fn the_nodes_of_a_running_allocation_end_before_it_is_cancelled() {
    let bench = Bench::running().await;
    bench.send(Message::End(ID));
    bench.told(1.0).await;
    assert!(bench.outer.with(|world| world.cancelled.is_empty()), "its nodes get time to end");
    bench.send(Message::Notice(Notice::Empty { id: ID }));
    assert_eq!(bench.told(3.0).await, ["ended: released"]);
    let bench = Bench::running().await;
    bench.send(Message::End(ID));
    assert_eq!(bench.told(7.0).await, ["ended: released"], "but not for long");
}

#[tokio::test(start_paused = true)]
async fn an_end_is_carried_out_for_an_allocation_of_an_earlier_manager() {
    let outer = Played::default();
    let waits = OuterState::Waits("Priority".to_owned());
    outer.with(|world| {
        world.jobs.insert("7".to_owned(), ("jobtap-x-1".to_owned(), waits));
    });
    let bench = Bench::of(outer);
    bench.send(Message::End(ID));
    assert_eq!(bench.told(3.0).await, ["ended: released"]);
    assert_eq!(bench.outer.with(|world| world.cancelled.clone()), ["7"]);
    let bench = Bench::new();
    bench.send(Message::End(ID));
    assert_eq!(bench.told(10.0).await, ["ended: released"], "there is none");
}

#[tokio::test(start_paused = true)]
async fn an_allocation_that_is_put_back_or_unusable_is_given_up() {
    let bench = Bench::running().await;
    bench.outer.all(&OuterState::Waits("BeginTime".to_owned()));
    assert_eq!(bench.told(13.0).await, ["ended: Played has put it back: BeginTime"]);
    for notice in [
        Notice::Refused { id: ID, reason: "n1 has 1 core".to_owned() },
        Notice::Lost { id: ID, reason: "n1 has 1 core".to_owned() },
    ] {
        let bench = Bench::running().await;
        bench.send(Message::Notice(notice));
        assert_eq!(bench.told(3.0).await, ["ended: n1 has 1 core"]);
        assert_eq!(bench.outer.with(|world| world.cancelled.clone()), ["1"]);
    }
}

#[tokio::test(start_paused = true)]
async fn an_allocation_that_nobody_knows_any_more_is_over() {
    let bench = Bench::running().await;
    bench.outer.with(|world| world.jobs.clear());
    assert_eq!(bench.told(21.0).await, ["ended: Played doesn't know its job any more"]);
}

#[tokio::test(start_paused = true)]
async fn the_end_that_a_node_announces_is_looked_for() {
    let bench = Bench::running().await;
    bench.told(1.0).await;
    bench.send(Message::Notice(Notice::Cut { id: ID }));
    bench.told(0.5).await;
    bench.outer.all(&OuterState::Ending("COMPLETING".to_owned()));
    bench.told(1.5).await;
    bench.outer.all(&OuterState::Ended("CANCELLED".to_owned()));
    assert_eq!(bench.told(1.5).await, ["ended: Played job 1: CANCELLED"]);
    let bench = Bench::running().await;
    bench.outer.all(&OuterState::Ending("COMPLETING".to_owned()));
    assert_eq!(bench.told(15.0).await, ["ended: Played job 1: COMPLETING"], "the reason is late");
}

#[tokio::test(start_paused = true)]
async fn all_are_cancelled_when_the_instance_ends() {
    let bench = Bench::running().await;
    let (done, mut ended) = unbounded_channel();
    bench.send(Message::EndAll { done });
    assert!(ended.recv().await.is_none());
    assert_eq!(bench.outer.with(|world| world.cancelled.clone()), ["1"]);
}
