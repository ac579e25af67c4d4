//! Nodes of allocations: they join with a pass, get a place, and leave it.

use std::num::NonZeroU64;
use std::sync::{Arc, Mutex};

use jobtap_core::engine::AllocationId;
use tokio::time::advance;

use super::super::admission::Pass;
use super::super::channel::serve_node;
use super::super::notice::Notice;
use super::super::places::Expected;
use super::*;

const FIRST: AllocationId = AllocationId(NonZeroU64::MIN);

/// An elastic instance whose own node has joined.
struct Elastic {
    bench: Bench,
    admission: Admission,
    notices: Arc<Mutex<Vec<Notice>>>,
    _own: Node,
}

impl Elastic {
    async fn new() -> Self {
        let admission = Admission::new().unwrap();
        let bench = Bench::of_all(1, &[], Some(admission.clone()));
        bench.begin();
        let notices = Arc::<Mutex<Vec<Notice>>>::default();
        let told = Arc::clone(&notices);
        let notify = Box::new(move |notice| told.lock().unwrap().push(notice));
        bench.requests.send(Request::Notify(notify)).ok().unwrap();
        let own = Node::join(&bench, info(0), &[]).await;
        assert!(matches!(bench.joining.try_recv(), Ok(Joining::Joined(0))));
        assert!(
            matches!(bench.joining.try_recv(), Ok(Joining::Complete(_))),
            "it waits for no other"
        );
        Self { bench, admission, notices, _own: own }
    }

    async fn expect(&self, joined: &[(u32, &str)]) {
        let joined = joined.iter().map(|(rank, host)| (*rank, (*host).to_owned())).collect();
        let expected = Expected { ranks: Idset::from(5..=6), cores: 2, gpus: 0, joined };
        self.bench.requests.send(Request::Expect(FIRST, expected)).ok().unwrap();
        settle().await;
    }

    fn request(&self, request: Request) {
        self.bench.requests.send(request).ok().unwrap();
    }

    /// Connects as a node of an allocation, whose first lines these are.
    async fn connect(&self, process: &str, info: NodeInfo) -> Node {
        let (here, there) = tokio::io::duplex(1 << 16);
        let (inbox, admission) = (self.bench.inbox.clone(), self.admission.clone());
        tokio::spawn(async move { serve_node(there, inbox, Some(&admission)).await });
        let (read, write) = tokio::io::split(here);
        let mut node = Node { read: BufReader::new(read), write };
        let secret = self.admission.secret(FIRST);
        let process = process.to_owned();
        let pass = Pass { allocation: FIRST, secret, process, ends_at: Some(9.0) };
        node.send(&node_line(&FromNode::Pass(pass))).await;
        node.join_with(VERSION, info, now().as_secs()).await;
        node
    }

    async fn join(&self, process: &str, host: &str, held: &[HeldJob]) -> Node {
        let mut node = self.connect(process, NodeInfo { host: host.to_owned(), ..info(0) }).await;
        node.is_welcome(held).await;
        node
    }

    async fn noticed(&self) -> Vec<Notice> {
        settle().await;
        std::mem::take(&mut *self.notices.lock().unwrap())
    }
}

impl Node {
    /// Says what its shepherd holds, once the manager has taken it.
    async fn is_welcome(&mut self, held: &[HeldJob]) {
        assert_eq!(self.next_node().await, Some(ToNode::Welcome));
        assert!(matches!(self.next_request().await, Some(ShepherdRequest::Hello { .. })));
        assert_eq!(self.next_request().await, Some(ShepherdRequest::List));
        self.say(&ShepherdMessage::List { jobs: held.to_vec() }).await;
        assert!(matches!(self.next_node().await, Some(ToNode::Processes { .. })));
    }

    async fn refusal(&mut self) -> String {
        match self.next_node().await {
            Some(ToNode::Refused { reason }) => reason,
            other => panic!("{other:?}"),
        }
    }
}

fn joined(rank: u32, host: &str) -> Notice {
    Notice::Joined { id: FIRST, rank, host: host.to_owned(), ends_at: Some(9.0), ahead: 0.0 }
}

#[tokio::test(start_paused = true)]
async fn nodes_get_the_places_of_their_allocation_and_run_jobs() {
    let elastic = Elastic::new().await;
    let mut early = elastic.connect("a", info(0)).await;
    assert_eq!(early.refusal().await, "its allocation is over");
    elastic.expect(&[]).await;
    let mut node = elastic.join("a", "x1", &[]).await;
    let _other = elastic.join("b", "x2", &[]).await;
    assert_eq!(elastic.noticed().await, [joined(5, "x1"), joined(6, "x2")]);
    elastic.bench.start(&[5]);
    assert!(matches!(node.next_node().await, Some(ToNode::Follow { .. })));
    assert!(matches!(node.next_request().await, Some(ShepherdRequest::Start(_))));
    node.event(ExecEvent::Started { id: ID }).await;
    assert_eq!(elastic.bench.told().await, ["started"]);
    // The same process connects again, and has its place.
    drop(node);
    assert_eq!(elastic.noticed().await, [Notice::Cut { id: FIRST }]);
    let mut again = elastic.join("a", "x1", &[HeldJob::new(ID, false)]).await;
    assert!(matches!(again.next_node().await, Some(ToNode::Follow { .. })));
    assert_eq!(elastic.noticed().await, []);
    let mut third = elastic.connect("c", NodeInfo { host: "x3".to_owned(), ..info(0) }).await;
    assert!(third.refusal().await.contains("have all joined"));
}

#[tokio::test(start_paused = true)]
async fn a_node_without_the_pass_is_no_node() {
    let elastic = Elastic::new().await;
    elastic.expect(&[]).await;
    let (here, there) = tokio::io::duplex(1 << 16);
    let (inbox, admission) = (elastic.bench.inbox.clone(), elastic.admission.clone());
    tokio::spawn(async move { serve_node(there, inbox, Some(&admission)).await });
    let (read, write) = tokio::io::split(here);
    let mut node = Node { read: BufReader::new(read), write };
    node.join_with(VERSION, info(5), now().as_secs()).await;
    assert_eq!(node.refusal().await, "its allocation is over");
    assert_eq!(elastic.noticed().await, []);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_too_small_ends_its_allocation() {
    let elastic = Elastic::new().await;
    elastic.expect(&[]).await;
    let small = NodeInfo { cores: Idset::from(0), host: "x1".to_owned(), ..info(0) };
    let mut node = elastic.connect("a", small).await;
    let reason = "x1 has 1 core for jobs, and the table says 2 cores".to_owned();
    assert_eq!(node.refusal().await, reason);
    assert_eq!(elastic.noticed().await, [Notice::Refused { id: FIRST, reason }]);
}

#[tokio::test(start_paused = true)]
async fn the_jobs_of_an_allocation_that_ends_end_after_their_reason() {
    let elastic = Elastic::new().await;
    elastic.expect(&[]).await;
    let mut node = elastic.join("a", "x1", &[]).await;
    elastic.bench.start(&[5]);
    settle().await;
    node.event(ExecEvent::Started { id: ID }).await;
    assert_eq!(elastic.bench.told().await, ["started"]);
    elastic.request(Request::Forget(FIRST));
    assert_eq!(elastic.bench.told().await, [""; 0], "the engine says first why the job ends");
    let kill = crate::exec::KillPolicy::default();
    elastic.bench.command(JobCommand::Cancel { id: ID, signal: kill.term_signal, kill });
    assert_eq!(elastic.bench.told().await, ["finished 35072", "released"]);
    // Its place is free for the node of another allocation, and its pass is worth nothing.
    let mut late = elastic.connect("a", NodeInfo { host: "x1".to_owned(), ..info(0) }).await;
    assert_eq!(late.refusal().await, "its allocation is over");
    elastic.expect(&[]).await;
    elastic.noticed().await;
    let _next = elastic.join("z", "x9", &[]).await;
    assert_eq!(elastic.noticed().await, [joined(5, "x9")]);
}

#[tokio::test(start_paused = true)]
async fn a_job_whose_end_the_engine_does_not_ask_for_ends_all_the_same() {
    let elastic = Elastic::new().await;
    elastic.expect(&[]).await;
    let mut node = elastic.join("a", "x1", &[]).await;
    elastic.bench.start(&[5]);
    settle().await;
    node.event(ExecEvent::Started { id: ID }).await;
    assert_eq!(elastic.bench.told().await, ["started"]);
    elastic.request(Request::Forget(FIRST));
    for _ in 0..7 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(elastic.bench.told().await, ["finished 35072", "released"]);
}

#[tokio::test(start_paused = true)]
async fn nodes_that_are_dismissed_end_and_their_place_is_empty() {
    let elastic = Elastic::new().await;
    elastic.expect(&[]).await;
    let mut node = elastic.join("a", "x1", &[]).await;
    elastic.noticed().await;
    elastic.request(Request::Dismiss(FIRST));
    assert_eq!(node.next_node().await, Some(ToNode::End));
    assert_eq!(node.next_request().await, Some(ShepherdRequest::Shutdown));
    assert_eq!(elastic.noticed().await, []);
    drop(node);
    let ends = [Notice::Cut { id: FIRST }, Notice::Empty { id: FIRST }];
    assert_eq!(elastic.noticed().await, ends);
}

#[tokio::test(start_paused = true)]
async fn an_allocation_without_any_node_left_is_lost() {
    let elastic = Elastic::new().await;
    let expected = Expected { ranks: Idset::from(5), cores: 2, gpus: 0, joined: Vec::new() };
    elastic.request(Request::Expect(FIRST, expected));
    settle().await;
    let node = elastic.join("a", "x1", &[]).await;
    drop(node);
    elastic.noticed().await;
    for _ in 0..32 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    let reason = "no connection for 30 s".to_owned();
    assert_eq!(elastic.noticed().await, [Notice::Lost { id: FIRST, reason }]);
}

#[tokio::test(start_paused = true)]
async fn nodes_of_an_earlier_manager_go_on_with_their_jobs() {
    let elastic = Elastic::new().await;
    elastic.expect(&[(6, "x2")]).await;
    let nodes = vec![NodeTasks { rank: 6, ntasks: 1 }];
    let job = StartJob { ntasks: 1, nodes, reattach: true, ..StartJob::new(ID) };
    elastic.request(Request::Start(Box::new(job)));
    let held = [HeldJob::new(ID, false), HeldJob::new(JobId::new(8), false)];
    let mut node = elastic.join("b", "x2", &held).await;
    assert_eq!(elastic.noticed().await, [joined(6, "x2")]);
    assert!(matches!(node.next_node().await, Some(ToNode::Follow { .. })));
    match node.next_request().await {
        Some(ShepherdRequest::Resume { jobs }) => assert_eq!(jobs[0].id, ID),
        other => panic!("{other:?}"),
    }
    assert_eq!(elastic.bench.told().await, ["2 held"], "the manager knows which of them go on");
}
