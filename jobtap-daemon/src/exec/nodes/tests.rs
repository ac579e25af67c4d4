//! The hub with nodes that are played by the test, in the time of a clock that the test moves.

mod guests;
mod hostile;

use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

use jobtap_core::engine::ExecEvent;
use jobtap_core::host::{PluginKey, ProcessAnswer, ProcessCommand, ProcessKey};
use jobtap_core::job::{JobId, WaitStatus};
use jobtap_core::plugin::{Process, ProcessEnd, ProcessResult};
use jobtap_core::resource::Idset;
use tokio::io::{AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf};
use tokio::sync::mpsc::UnboundedSender;
use tokio::time::{advance, timeout};

use super::admission::Admission;
use super::channel::serve_own;
use super::commands::{Asked, Command, FromCommand};
use super::hub::{Hub, Joining, Own, Request};
use super::inputs::Inputs;
use super::message::Message;
use super::outputs::Outputs;
use super::plugin_processes::Happening;
use super::wire::{Frame, FromNode, NodeInfo, ToNode, VERSION, node_line, read, to_shepherd};
use crate::clock::now;
use crate::exec::protocol::{ShepherdMessage, ShepherdRequest, decode_request, encode};
use crate::exec::{ExecutorReport, HeldJob, JobCommand, NodeChange, NodeTasks, StartJob};

const ID: JobId = JobId::new(7);
/// The number of the first process of a plugin.
const FIRST: u64 = 1000;
const GRACE: Duration = Duration::from_secs(30);

struct Bench {
    requests: UnboundedSender<Request>,
    inbox: tokio::sync::mpsc::Sender<Message>,
    report: Sender<ExecutorReport>,
    reports: Receiver<ExecutorReport>,
    joining: Receiver<Joining>,
    state: tempfile::TempDir,
}

fn info(rank: u32) -> NodeInfo {
    NodeInfo {
        rank,
        host: format!("n{rank}"),
        cores: Idset::from(0..=1),
        gpus: Idset::new(),
        program: "1.0".to_owned(),
        uri: None,
    }
}

impl Bench {
    /// A hub of an instance of so many nodes, none of which has joined.
    fn new(size: u32) -> Self {
        let bench = Self::of_known(size, &[]);
        bench.begin();
        bench
    }

    /// The hub of a manager that is restarted, whose last hub had these nodes.
    fn of_known(size: u32, known: &[NodeInfo]) -> Self {
        Self::of_all(size, known, None)
    }

    fn of_all(size: u32, known: &[NodeInfo], admission: Option<Admission>) -> Self {
        let state = tempfile::tempdir().unwrap();
        let (joined, joining) = channel();
        let (program, uri) = ("1.0".to_owned(), "local:///state/local-0".to_owned());
        let own = Own { program, uri, first_process: FIRST };
        let streams = (Inputs::open(state.path()).unwrap(), Outputs::open(state.path()).unwrap());
        let hub = Hub::new(own, size, GRACE, streams, known, admission, joined);
        let (requests, requested) = tokio::sync::mpsc::unbounded_channel();
        let (inbox, messages) = tokio::sync::mpsc::channel(64);
        tokio::spawn(hub.run(messages, requested));
        let (report, reports) = channel();
        Self { requests, inbox, report, reports, joining, state }
    }

    /// Lets the hub report.
    fn begin(&self) {
        let report = self.report.clone();
        let report = Box::new(move |told| drop(report.send(told)));
        self.requests.send(Request::Begin(report)).ok().unwrap();
    }

    async fn with_nodes(size: u32) -> (Self, Vec<Node>) {
        let bench = Self::new(size);
        let mut nodes = Vec::new();
        for rank in 0..size {
            nodes.push(Node::join(&bench, info(rank), &[]).await);
        }
        (bench, nodes)
    }

    fn start(&self, ranks: &[u32]) {
        let nodes = ranks.iter().map(|rank| NodeTasks { rank: *rank, ntasks: 1 }).collect();
        let ntasks = ranks.len() as u32;
        let job = StartJob { ntasks, nodes, takes_output: true, ..StartJob::new(ID) };
        self.requests.send(Request::Start(Box::new(job))).ok().unwrap();
    }

    fn command(&self, command: JobCommand) {
        self.requests.send(Request::Command(command)).ok().unwrap();
    }

    /// What was reported, in short.
    async fn told(&self) -> Vec<String> {
        settle().await;
        let mut told = Vec::new();
        while let Ok(report) = self.reports.try_recv() {
            match report {
                ExecutorReport::Events(events) => {
                    told.extend(events.iter().map(|event| match event {
                        ExecEvent::Started { .. } => "started".to_owned(),
                        ExecEvent::Finished { status, .. } => format!("finished {status}"),
                        ExecEvent::Released { .. } => "released".to_owned(),
                        ExecEvent::PartlyReleased { ranks, .. } => format!("released {ranks}"),
                        other => format!("{other:?}"),
                    }))
                }
                ExecutorReport::Node { rank, change: NodeChange::Lost { reason } } => {
                    told.push(format!("{rank} lost: {reason}"));
                }
                ExecutorReport::Node { rank, change: NodeChange::Back } => {
                    told.push(format!("{rank} back"));
                }
                ExecutorReport::Held(jobs) => told.push(format!("{} held", jobs.len())),
                ExecutorReport::Tasks { tasks, .. } => told.push(format!("{} tasks", tasks.len())),
                ExecutorReport::Warning(text) => told.push(text),
            }
        }
        told
    }
}

/// Lets all work that needs no time be done.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// A node's side of a channel.
struct Node {
    read: BufReader<ReadHalf<DuplexStream>>,
    write: WriteHalf<DuplexStream>,
}

impl Node {
    /// Connects without more.
    async fn connect(bench: &Bench, version: u32, node: NodeInfo) -> Self {
        let (here, there) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve_own(there, bench.inbox.clone()));
        let (read, write) = tokio::io::split(here);
        let mut node_side = Self { read: BufReader::new(read), write };
        node_side.join_with(version, node, now().as_secs()).await;
        node_side
    }

    /// Joins with a shepherd that holds these jobs.
    async fn join(bench: &Bench, node: NodeInfo, held: &[HeldJob]) -> Self {
        let mut node = Self::connect(bench, VERSION, node).await;
        assert_eq!(node.next_node().await, Some(ToNode::Welcome));
        assert!(matches!(node.next_request().await, Some(ShepherdRequest::Hello { .. })));
        assert_eq!(node.next_request().await, Some(ShepherdRequest::List));
        node.say(&ShepherdMessage::List { jobs: held.to_vec() }).await;
        assert!(matches!(node.next_node().await, Some(ToNode::Processes { .. })));
        node
    }

    async fn join_with(&mut self, version: u32, node: NodeInfo, time: f64) {
        self.send(&node_line(&FromNode::Join { version, node, time })).await;
    }

    async fn send(&mut self, line: &[u8]) {
        self.write.write_all(line).await.unwrap();
    }

    async fn say(&mut self, message: &ShepherdMessage) {
        self.send(&to_shepherd(&encode(message).unwrap())).await;
    }

    async fn event(&mut self, event: ExecEvent) {
        self.say(&ShepherdMessage::Event(event)).await;
    }

    /// The next line of any kind; `None` if none comes.
    async fn next(&mut self) -> Option<Frame> {
        settle().await;
        timeout(Duration::from_millis(1), read(&mut self.read)).await.ok()?.ok()?
    }

    async fn next_node(&mut self) -> Option<ToNode> {
        match self.next().await? {
            Frame::Node(line) => Some(serde_json::from_slice(&line).unwrap()),
            Frame::Shepherd(line) => panic!("{}", String::from_utf8_lossy(&line)),
        }
    }

    async fn next_request(&mut self) -> Option<ShepherdRequest> {
        match self.next().await? {
            Frame::Shepherd(line) => Some(decode_request(&line).unwrap()),
            Frame::Node(line) => panic!("{}", String::from_utf8_lossy(&line)),
        }
    }

    /// The part of the job that is to be started here.
    async fn started(&mut self) -> StartJob {
        assert_eq!(self.next_node().await, Some(ToNode::Follow { id: ID, from: 0 }));
        match self.next_request().await {
            Some(ShepherdRequest::Start(job)) => *job,
            other => panic!("{other:?}"),
        }
    }
}

const STARTED: ExecEvent = ExecEvent::Started { id: ID };
const FINISHED: ExecEvent = ExecEvent::Finished { id: ID, status: 0 };
const RELEASED: ExecEvent = ExecEvent::Released { id: ID };

#[tokio::test(start_paused = true)]
async fn each_node_gets_its_part_and_the_job_is_one() {
    let (bench, mut nodes) = Bench::with_nodes(3).await;
    bench.start(&[2, 0]);
    let first = nodes[2].started().await;
    let second = nodes[0].started().await;
    assert_eq!((first.part, second.part), (Some(0), Some(1)));
    assert!(!first.takes_output && !second.takes_output, "output comes from files of both");
    nodes[2].event(STARTED).await;
    assert_eq!(bench.told().await, [""; 0]);
    nodes[0].event(STARTED).await;
    assert_eq!(bench.told().await, ["started"]);
    bench.command(JobCommand::Tasks { id: ID });
    for rank in [0, 2] {
        assert_eq!(
            nodes[rank].next_request().await,
            Some(ShepherdRequest::Job(JobCommand::Tasks { id: ID }))
        );
        let task = crate::exec::TaskProcess { rank: rank as u32, pid: 1 };
        nodes[rank].say(&ShepherdMessage::Tasks { id: ID, tasks: vec![task] }).await;
    }
    assert_eq!(bench.told().await, ["2 tasks"]);
    nodes[0].event(FINISHED).await;
    nodes[0].event(RELEASED).await;
    nodes[2].event(FINISHED).await;
    // The job is released soon after: its first part needs no event of its own.
    nodes[2].event(RELEASED).await;
    assert_eq!(bench.told().await, ["finished 0", "released"]);
    bench.command(JobCommand::Ack { id: ID });
    assert_eq!(nodes[0].next_node().await, Some(ToNode::Unfollow { id: ID }));
    let ack = ShepherdRequest::Job(JobCommand::Ack { id: ID });
    assert_eq!(nodes[0].next_request().await, Some(ack));
    assert_eq!(nodes[1].next().await, None, "it has no part");
    // Nothing is left of it here.
    let text = "late\n".to_owned();
    nodes[2].send(&node_line(&FromNode::Output { id: ID, at: 0, text })).await;
    settle().await;
    assert!(!bench.state.path().join("output/0000.0000.0000.0007").exists());
}

#[tokio::test(start_paused = true)]
async fn a_part_that_is_over_long_before_the_job_frees_its_node() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.start(&[0, 1]);
    for node in &mut nodes {
        node.started().await;
        node.event(STARTED).await;
        node.event(FINISHED).await;
    }
    nodes[1].event(RELEASED).await;
    assert_eq!(bench.told().await, ["started", "finished 0"]);
    advance(Duration::from_secs(3)).await;
    assert_eq!(bench.told().await, ["released 1"]);
    nodes[0].event(RELEASED).await;
    assert_eq!(bench.told().await, ["released"]);
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_lost_in_time() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.start(&[0, 1]);
    for node in &mut nodes {
        node.started().await;
        node.event(STARTED).await;
    }
    assert_eq!(bench.told().await, ["started"]);
    for _ in 0..16 {
        advance(Duration::from_secs(1)).await;
        settle().await;
        // The first node answers when it is asked.
        if let Some(ToNode::Ping) = nodes[0].next_node().await {
            nodes[0].send(&node_line(&FromNode::Pong)).await;
        }
    }
    assert_eq!(bench.told().await, [""; 0], "its connection is cut, but it may come back");
    for _ in 0..31 {
        advance(Duration::from_secs(1)).await;
        settle().await;
        if let Some(ToNode::Ping) = nodes[0].next_node().await {
            nodes[0].send(&node_line(&FromNode::Pong)).await;
        }
    }
    assert_eq!(bench.told().await, ["1 lost: no connection for 30 s"]);
    nodes[0].event(FINISHED).await;
    nodes[0].event(RELEASED).await;
    let killed = (128 + 9) << 8;
    assert_eq!(bench.told().await, [format!("finished {killed}"), "released".to_owned()]);
}

#[tokio::test(start_paused = true)]
async fn commands_on_a_node_that_vanishes_end_when_it_is_lost() {
    let bench = Bench::new(2);
    let mut first = Node::join(&bench, info(0), &[]).await;
    let uri = Some("local:///run/local-1".to_owned());
    let mut node = Node::join(&bench, NodeInfo { uri, ..info(1) }, &[]).await;
    let (to_client, mut client) = tokio::sync::mpsc::channel(1);
    let (_from_client, from_client) = tokio::sync::mpsc::channel(1);
    let asked = Asked { rank: 1, command: Command::default(), to_client, from_client };
    bench.requests.send(Request::Run(Box::new(asked))).ok().unwrap();
    let Some(ToNode::Command { number }) = node.next_node().await else { panic!() };
    // Its channel stays open: a host without power closes nothing.
    let (mut here, there) = tokio::io::duplex(1 << 16);
    let message = Message::Command { number, channel: Box::pin(there) };
    bench.inbox.send(message).await.ok().unwrap();
    here.write_all(&node_line(&FromCommand::Started { pid: 9 })).await.unwrap();
    assert_eq!(client.recv().await, Some(FromCommand::Started { pid: 9 }));
    for _ in 0..47 {
        advance(Duration::from_secs(1)).await;
        settle().await;
        first.send(&node_line(&FromNode::Pong)).await;
    }
    let told = client.recv().await;
    let Some(FromCommand::Failed { reason, .. }) = told else { panic!("{told:?}") };
    assert_eq!(reason, "the connection to its node is lost");
    assert_eq!(client.recv().await, None);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_in_time_goes_on_where_it_was() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.start(&[1]);
    nodes[1].started().await;
    nodes[1].event(STARTED).await;
    let text = "header\none\n".to_owned();
    nodes[1].send(&node_line(&FromNode::Output { id: ID, at: 0, text })).await;
    assert_eq!(bench.told().await, ["started"]);
    nodes.remove(1);
    settle().await;
    // What is asked of it meanwhile is not lost.
    let kill = crate::exec::KillPolicy::default();
    let cancel = JobCommand::Cancel { id: ID, signal: kill.term_signal, kill };
    bench.command(cancel.clone());
    advance(Duration::from_secs(20)).await;
    let held = [HeldJob::new(ID, false)];
    let mut node = Node::join(&bench, info(1), &held).await;
    assert_eq!(node.next_node().await, Some(ToNode::Follow { id: ID, from: 11 }));
    let Some(ShepherdRequest::Resume { jobs }) = node.next_request().await else { panic!() };
    assert_eq!((jobs.len(), jobs[0].id, jobs[0].started), (1, ID, true));
    assert_eq!(node.next_request().await, Some(ShepherdRequest::Job(cancel)));
    node.event(FINISHED).await;
    node.event(RELEASED).await;
    assert_eq!(bench.told().await, ["finished 0", "released"]);
    let output = bench.state.path().join("output/0000.0000.0000.0007");
    assert_eq!(std::fs::read_to_string(output).unwrap(), "header\none\n");
}

#[tokio::test(start_paused = true)]
async fn no_node_is_lost_by_time_in_which_the_manager_was_stopped() {
    let (bench, mut nodes) = Bench::with_nodes(3).await;
    nodes.remove(2);
    settle().await;
    advance(Duration::from_secs(1)).await;
    settle().await;
    // Neither the one that was away then nor the ones that said nothing.
    advance(10 * GRACE).await;
    assert_eq!(bench.told().await, [""; 0]);
    for node in &mut nodes {
        node.send(&node_line(&FromNode::Pong)).await;
    }
    let third = Node::join(&bench, info(2), &[]).await;
    for _ in 0..12 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(bench.told().await, [""; 0], "all are there");
    drop(third);
    for _ in 0..32 {
        advance(Duration::from_secs(1)).await;
        settle().await;
        for node in &mut nodes {
            node.send(&node_line(&FromNode::Pong)).await;
        }
    }
    assert_eq!(bench.told().await, ["2 lost: no connection for 30 s"]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_back_too_late_has_its_jobs_ended() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.start(&[1]);
    nodes[1].started().await;
    nodes[1].event(STARTED).await;
    settle().await;
    nodes.remove(1);
    settle().await;
    for _ in 0..32 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    let killed = (128 + 9) << 8;
    let lost =
        ["started", "1 lost: no connection for 30 s", &format!("finished {killed}"), "released"];
    assert_eq!(bench.told().await, lost);
    let held = [HeldJob::new(ID, false)];
    let mut node = Node::join(&bench, info(1), &held).await;
    let Some(ShepherdRequest::Job(JobCommand::Cancel { id, .. })) = node.next_request().await
    else {
        panic!("the job goes on")
    };
    assert_eq!(id, ID);
    let ack = ShepherdRequest::Job(JobCommand::Ack { id: ID });
    assert_eq!(node.next_request().await, Some(ack));
    assert_eq!(bench.told().await, ["1 back"]);
}

#[tokio::test(start_paused = true)]
async fn a_restarted_manager_goes_on_without_a_node_that_is_gone() {
    let bench = Bench::of_known(2, &[info(0), info(1)]);
    let held = [HeldJob::new(ID, false)];
    let mut first = Node::join(&bench, info(0), &held).await;
    settle().await;
    bench.requests.send(Request::GoOn).ok().unwrap();
    settle().await;
    assert!(matches!(bench.joining.try_recv(), Ok(Joining::Joined(0))));
    let Ok(Joining::Complete(complete)) = bench.joining.try_recv() else { panic!() };
    assert_eq!((complete.nodes.len(), complete.held), (2, held.to_vec()));
    bench.begin();
    // Its job ran on both nodes.
    bench.start(&[0, 1]);
    let killed = bench.told().await;
    assert_eq!(killed, ["0 back", "1 lost: not back after the restart of the manager"]);
    assert_eq!(first.started().await.part, Some(0));
    first.event(STARTED).await;
    first.event(FINISHED).await;
    first.event(RELEASED).await;
    assert_eq!(bench.told().await, ["released"], "it never ran on all of its nodes");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_and_goes_is_lost_in_time() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    settle().await;
    nodes.remove(1);
    settle().await;
    // Its shepherd can't start: it joins, and is gone before it has said what the shepherd holds.
    for _ in 0..32 {
        let mut node = Node::connect(&bench, VERSION, info(1)).await;
        assert_eq!(node.next_node().await, Some(ToNode::Welcome));
        drop(node);
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(bench.told().await, ["1 lost: no connection for 30 s", "1 back"]);
}

#[tokio::test(start_paused = true)]
async fn a_job_for_a_lost_node_ends_at_once() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    nodes.remove(1);
    settle().await;
    for _ in 0..32 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    assert_eq!(bench.told().await, ["1 lost: no connection for 30 s"]);
    bench.start(&[1]);
    assert_eq!(bench.told().await, ["released"]);
}

#[tokio::test(start_paused = true)]
async fn the_other_nodes_wait_for_the_first_if_it_empties_their_file() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    let file = serde_json::json!({"output": {"stdout": {"type": "file", "path": "out"}}});
    let tasks = [0, 1].map(|rank| NodeTasks { rank, ntasks: 1 });
    let job = StartJob { ntasks: 2, nodes: tasks.into(), shell_options: file, ..StartJob::new(ID) };
    bench.requests.send(Request::Start(Box::new(job))).ok().unwrap();
    nodes[0].started().await;
    assert_eq!(nodes[1].next().await, None);
    let entry =
        jobtap_core::eventlog::EventEntry::new(jobtap_core::job::Timestamp(1.0), "init", None);
    nodes[0].event(ExecEvent::Log { id: ID, entry }).await;
    assert_eq!(nodes[1].started().await.part, Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_end_of_an_instance_waits_for_a_node_that_is_away() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    drop(nodes.pop());
    settle().await;
    let (done, ended) = channel();
    bench.requests.send(Request::Shutdown { done }).ok().unwrap();
    assert_eq!(nodes[0].next_node().await, Some(ToNode::End));
    drop(nodes.pop());
    settle().await;
    assert!(matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Empty)));
    let mut back = Node::connect(&bench, VERSION, info(1)).await;
    assert_eq!(back.next_node().await, Some(ToNode::Welcome));
    while let Some(frame) = back.next().await {
        if matches!(&frame, Frame::Node(line) if line == b"{\"op\":\"end\"}\n") {
            drop(back);
            settle().await;
            assert!(matches!(ended.try_recv(), Err(std::sync::mpsc::TryRecvError::Disconnected)));
            return;
        }
    }
    panic!("it isn't told that the instance ends");
}

#[tokio::test(start_paused = true)]
async fn a_node_whose_clock_differs_is_named() {
    let bench = Bench::of_known(2, &[]);
    for (rank, ahead) in [(0, 1.0), (1, -90.0)] {
        let (here, there) = tokio::io::duplex(1 << 16);
        tokio::spawn(serve_own(there, bench.inbox.clone()));
        let (read, write) = tokio::io::split(here);
        let mut node = Node { read: BufReader::new(read), write };
        node.join_with(VERSION, info(rank), now().as_secs() + ahead).await;
        assert_eq!(node.next_node().await, Some(ToNode::Welcome));
    }
    bench.begin();
    let told = bench.told().await;
    let [warning] = told.as_slice() else { panic!("{told:?}") };
    assert!(
        warning.starts_with("rank 1 (n1): its clock is 90 s behind the manager's: "),
        "{warning}"
    );
}

/// The entry for the exit of a task.
fn exit(rank: u32) -> ExecEvent {
    let context = serde_json::json!({"rank": rank, "wait_status": 256});
    let entry = serde_json::json!({
        "timestamp": 1.0, "name": "shell.task-exit", "context": context
    });
    ExecEvent::Log { id: ID, entry: serde_json::from_value(entry).unwrap() }
}

/// Starts a job on the first two nodes whose first exit limits the time of its other tasks.
async fn start_timed(bench: &Bench, nodes: &mut [Node]) {
    let tasks = [0, 1].map(|rank| NodeTasks { rank, ntasks: 1 });
    let shell_options = serde_json::json!({"exit-timeout": "5s"});
    let job = StartJob { ntasks: 2, nodes: tasks.into(), shell_options, ..StartJob::new(ID) };
    bench.requests.send(Request::Start(Box::new(job))).ok().unwrap();
    nodes[0].started().await;
    nodes[1].started().await;
}

#[tokio::test(start_paused = true)]
async fn the_other_nodes_learn_of_the_first_exit_if_it_limits_their_time() {
    let (bench, mut nodes) = Bench::with_nodes(3).await;
    start_timed(&bench, &mut nodes).await;
    nodes[1].event(exit(1)).await;
    let (rank, status, host) = (1, 256, "n1".to_owned());
    let first = ShepherdRequest::Job(JobCommand::FirstExit { id: ID, rank, status, host });
    assert_eq!(nodes[0].next_request().await, Some(first));
    // Once, and only the nodes of the job.
    nodes[0].event(exit(0)).await;
    assert_eq!(nodes[1].next_request().await, None);
    assert_eq!(nodes[2].next_request().await, None);
}

#[tokio::test(start_paused = true)]
async fn the_first_exit_on_a_node_that_is_away_counts_once_it_is_back() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    start_timed(&bench, &mut nodes).await;
    let entry =
        jobtap_core::eventlog::EventEntry::new(jobtap_core::job::Timestamp(1.0), "init", None);
    nodes[1].event(ExecEvent::Log { id: ID, entry }).await;
    settle().await;
    nodes.remove(1);
    settle().await;
    let held = [HeldJob::new(ID, false)];
    let mut node = Node::join(&bench, info(1), &held).await;
    assert_eq!(node.next_node().await, Some(ToNode::Follow { id: ID, from: 0 }));
    // Its shepherd repeats what follows the entry that has come.
    let Some(ShepherdRequest::Resume { jobs }) = node.next_request().await else { panic!() };
    assert_eq!((jobs[0].id, jobs[0].seen.log_entries), (ID, 1));
    node.event(exit(1)).await;
    let (rank, status, host) = (1, 256, "n1".to_owned());
    let first = ShepherdRequest::Job(JobCommand::FirstExit { id: ID, rank, status, host });
    assert_eq!(nodes[0].next_request().await, Some(first));
}

#[tokio::test(start_paused = true)]
async fn a_node_that_was_away_at_the_first_exit_learns_of_it() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    start_timed(&bench, &mut nodes).await;
    let mut other = nodes.remove(1);
    nodes.remove(0);
    settle().await;
    other.event(exit(1)).await;
    settle().await;
    let mut node = Node::join(&bench, info(0), &[HeldJob::new(ID, false)]).await;
    assert_eq!(node.next_node().await, Some(ToNode::Follow { id: ID, from: 0 }));
    let mut requests = Vec::new();
    while let Some(request) = node.next_request().await {
        requests.push(request);
    }
    let (rank, status, host) = (1, 256, "n1".to_owned());
    let first = ShepherdRequest::Job(JobCommand::FirstExit { id: ID, rank, status, host });
    assert_eq!(requests.last(), Some(&first));
}

fn value(key: &str) -> (String, String) {
    (key.to_owned(), key.to_owned())
}

fn exchange(round: u32, keys: &[&str], is_over: bool) -> ShepherdMessage {
    let values = keys.iter().map(|key| value(key)).collect();
    ShepherdMessage::Exchange { id: ID, round, values, is_over }
}

#[tokio::test(start_paused = true)]
async fn tasks_of_all_nodes_get_the_values_of_all() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.start(&[0, 1]);
    for (node, own) in nodes.iter_mut().zip(["a", "b"]) {
        node.started().await;
        node.say(&exchange(1, &[own], false)).await;
    }
    let all = vec![value("a"), value("b")];
    let answer = ShepherdRequest::Job(JobCommand::Exchanged { id: ID, round: 1, values: all });
    assert_eq!(nodes[0].next_request().await, Some(answer.clone()));
    assert_eq!(nodes[1].next_request().await, Some(answer.clone()));
    // The answer got lost.
    nodes[1].say(&exchange(1, &[], false)).await;
    assert_eq!(nodes[1].next_request().await, Some(answer));
    assert_eq!(bench.told().await, [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_gets_the_values_that_the_last_manager_has_sent_to_another() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.start(&[0, 1]);
    nodes[0].started().await;
    nodes[1].started().await;
    // The first node has had the answer, and its tasks wait again.
    nodes[0].say(&exchange(1, &["a"], true)).await;
    nodes[0].say(&exchange(2, &["c"], false)).await;
    nodes[1].say(&exchange(1, &["b"], false)).await;
    let answer = |round, keys: &[&str]| {
        let values = keys.iter().map(|key| value(key)).collect();
        Some(ShepherdRequest::Job(JobCommand::Exchanged { id: ID, round, values }))
    };
    assert_eq!(nodes[1].next_request().await, answer(1, &["a", "b"]));
    nodes[1].say(&exchange(2, &["d"], false)).await;
    assert_eq!(nodes[1].next_request().await, answer(2, &["c", "d"]));
    assert_eq!(nodes[0].next_request().await, answer(2, &["c", "d"]), "and not the first again");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_can_not_be_one_is_refused_in_words() {
    let bench = Bench::new(2);
    let _first = Node::join(&bench, info(0), &[]).await;
    let other_host = NodeInfo { host: "n0".to_owned(), ..info(1) };
    let other_program = NodeInfo { program: "2.0".to_owned(), ..info(1) };
    for (version, node, why) in [
        (VERSION, other_host, "ranks 0 and 1 are both on n0"),
        (VERSION, info(2), "the instance has no rank 2"),
        (VERSION, other_program.clone(), "it runs jobtap 2.0"),
        (VERSION + 1, other_program, "it runs jobtap 2.0"),
        (VERSION, NodeInfo { host: "x".to_owned(), ..info(0) }, "rank 0 is n0, not x"),
    ] {
        let mut node = Node::connect(&bench, version, node).await;
        let Some(ToNode::Refused { reason }) = node.next_node().await else { panic!("{why}") };
        assert!(reason.starts_with(why), "{reason}");
    }
    assert!(matches!(bench.joining.try_recv(), Ok(Joining::Joined(0))));
    assert!(matches!(bench.joining.try_recv(), Ok(Joining::Refused(_))));
}

/// Runs a process on rank 1, and returns its end.
fn run_process(bench: &Bench, key: u64) -> impl Future<Output = ProcessResult> + use<> {
    let (answer, end) = ProcessAnswer::pair();
    let process = Process::new("prolog").on_rank(1);
    let run = ProcessCommand::Run { key: ProcessKey(key), process, lines: None, answer };
    bench.requests.send(Request::Process(PluginKey(3), run)).ok().unwrap();
    end
}

fn ended(seq: u64, key: u64) -> Vec<u8> {
    let happening = Happening::of_end(Ok(ProcessEnd::new(WaitStatus(0)).stdout("done")));
    node_line(&FromNode::Process { seq, key: FIRST + key, happening })
}

fn started(seq: u64, key: u64) -> Vec<u8> {
    node_line(&FromNode::Process { seq, key: FIRST + key, happening: Happening::Started })
}

#[tokio::test(start_paused = true)]
async fn a_process_of_a_plugin_runs_on_its_node_and_its_end_is_confirmed() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    let end = run_process(&bench, 5);
    let Some(ToNode::Run { key: 1005, .. }) = nodes[1].next_node().await else {
        panic!("no order")
    };
    assert_eq!(nodes[0].next_node().await, None);
    nodes[1].send(&started(1, 5)).await;
    assert_eq!(nodes[1].next_node().await, Some(ToNode::Seen { seq: 1 }));
    nodes[1].send(&ended(2, 5)).await;
    assert_eq!(nodes[1].next_node().await, Some(ToNode::Seen { seq: 2 }));
    assert_eq!(end.await.unwrap().stdout, b"done");
}

#[tokio::test(start_paused = true)]
async fn a_cut_neither_loses_a_process_nor_runs_it_twice() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    let (first, second) = (run_process(&bench, 5), run_process(&bench, 6));
    assert!(matches!(nodes[1].next_node().await, Some(ToNode::Run { key: 1005, .. })));
    nodes[1].send(&started(1, 5)).await;
    settle().await;
    // The node has not read the second order, and the end of the first has not arrived.
    drop(nodes.pop());
    settle().await;
    let mut node = Node::connect(&bench, VERSION, info(1)).await;
    assert_eq!(node.next_node().await, Some(ToNode::Welcome));
    let _ = (node.next_request().await, node.next_request().await);
    node.say(&ShepherdMessage::List { jobs: Vec::new() }).await;
    assert_eq!(node.next_node().await, Some(ToNode::Processes { seen: 1, keys: vec![1005, 1006] }));
    assert!(matches!(node.next_node().await, Some(ToNode::Run { key: 1006, .. })));
    assert_eq!(node.next_node().await, None);
    // What the manager has already is ignored.
    for line in [started(1, 5), ended(2, 5), started(3, 6), ended(4, 6)] {
        node.send(&line).await;
    }
    settle().await;
    assert!(first.await.is_ok() && second.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_process_that_is_ended_before_its_node_is_back_never_begins() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    let of_end = ended(2, 6);
    drop(nodes.pop());
    settle().await;
    let (ended, waits) = (run_process(&bench, 5), run_process(&bench, 6));
    for (key, signum) in [(5, 9), (6, 18)] {
        let signal = ProcessCommand::Signal { key: ProcessKey(key), signum };
        bench.requests.send(Request::Process(PluginKey(3), signal)).ok().unwrap();
    }
    assert_eq!(ended.await.unwrap().status, WaitStatus::from_signal(9));
    let mut node = Node::connect(&bench, VERSION, info(1)).await;
    assert_eq!(node.next_node().await, Some(ToNode::Welcome));
    let _ = (node.next_request().await, node.next_request().await);
    node.say(&ShepherdMessage::List { jobs: Vec::new() }).await;
    assert_eq!(node.next_node().await, Some(ToNode::Processes { seen: 0, keys: vec![1006] }));
    assert!(matches!(node.next_node().await, Some(ToNode::Run { key: 1006, .. })));
    let passing = ToNode::SignalProcess { key: 1006, signum: 18 };
    assert_eq!(node.next_node().await, Some(passing));
    for line in [started(1, 6), of_end] {
        node.send(&line).await;
    }
    assert!(waits.await.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_process_on_a_lost_node_has_failed_by_that_reason() {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    let running = run_process(&bench, 5);
    settle().await;
    drop(nodes.pop());
    settle().await;
    for _ in 0..32 {
        advance(Duration::from_secs(1)).await;
        settle().await;
    }
    let failed = running.await.unwrap_err().to_string();
    assert_eq!(failed, "prolog: rank 1 (n1) is lost: no connection for 30 s");
    let refused = run_process(&bench, 6).await.unwrap_err().to_string();
    assert_eq!(refused, "prolog: rank 1 (n1) is lost");
}
