//! Jobs that are handed to a node ahead of their turn, behind the job with the id of the other tests.

use tokio::time::sleep;

use super::*;

const NEXT: JobId = JobId::new(8);
const RECALL: ShepherdRequest = ShepherdRequest::Job(JobCommand::Recall { id: NEXT });

/// Two nodes. The first one has a job, and got another one ahead of its turn.
async fn handed_over() -> (Bench, Vec<Node>) {
    let (bench, mut nodes) = Bench::with_nodes(2).await;
    bench.begin();
    bench.start(&[0]);
    nodes[0].started().await;
    nodes[0].event(STARTED).await;
    let places = vec![NodeTasks { rank: 0, ntasks: 1 }];
    let after = Some(ID);
    let job = StartJob { ntasks: 1, nodes: places, after, ..StartJob::new(NEXT) };
    bench.requests.send(Request::Start(Box::new(job))).ok().unwrap();
    assert_eq!(nodes[0].next_node().await, Some(ToNode::FollowOnceBegun { id: NEXT }));
    let request = nodes[0].next_request().await;
    assert!(matches!(request, Some(ShepherdRequest::Start(job)) if job.after == Some(ID)));
    assert_eq!(nodes[1].next().await, None);
    assert_eq!(bench.told().await, ["started"]);
    (bench, nodes)
}

fn begun() -> String {
    format!("{:?}", ExecEvent::Begun { id: NEXT })
}

fn recalled() -> String {
    format!("{:?}", ExecEvent::Recalled { id: NEXT })
}

#[tokio::test(start_paused = true)]
async fn a_node_begins_it_and_it_is_a_job_like_any_other() {
    let (bench, mut nodes) = handed_over().await;
    for event in [FINISHED, ExecEvent::Begun { id: NEXT }, RELEASED] {
        nodes[0].event(event).await;
    }
    nodes[0].event(ExecEvent::Started { id: NEXT }).await;
    assert_eq!(bench.told().await, ["finished 0", &begun(), "released", "started"]);
    bench.command(JobCommand::Tasks { id: NEXT });
    let tasks = ShepherdRequest::Job(JobCommand::Tasks { id: NEXT });
    assert_eq!(nodes[0].next_request().await, Some(tasks));
    // The manager has asked for it before it heard.
    bench.command(JobCommand::Recall { id: NEXT });
    assert_eq!(bench.told().await, [begun()]);
}

#[tokio::test(start_paused = true)]
async fn a_node_gives_it_back() {
    let (bench, mut nodes) = handed_over().await;
    bench.command(JobCommand::Recall { id: NEXT });
    assert_eq!(nodes[0].next_request().await, Some(RECALL));
    nodes[0].event(ExecEvent::Recalled { id: NEXT }).await;
    assert_eq!(bench.told().await, [recalled()]);
    assert_eq!(nodes[0].next_node().await, Some(ToNode::Unfollow { id: NEXT }));
    bench.command(JobCommand::Recall { id: NEXT });
    assert_eq!(bench.told().await, [recalled()], "the manager gets an answer in any case");
}

#[tokio::test(start_paused = true)]
async fn what_a_node_holds_that_was_cut_off_has_begun_and_the_rest_has_not() {
    let (bench, mut nodes) = handed_over().await;
    nodes.remove(0);
    settle().await;
    bench.command(JobCommand::Recall { id: NEXT });
    assert_eq!(bench.told().await, [""; 0], "nobody knows yet");
    let held = [HeldJob::new(ID, false), HeldJob { after: Some(ID), ..HeldJob::new(NEXT, false) }];
    let mut back = Node::join(&bench, info(0), &held).await;
    assert_eq!(bench.told().await, [begun()]);
    for id in [ID, NEXT] {
        assert_eq!(back.next_node().await, Some(ToNode::Follow { id, from: 0 }));
    }
    let resumed = back.next_request().await;
    assert!(
        matches!(&resumed, Some(ShepherdRequest::Resume { jobs }) if jobs.len() == 2),
        "{resumed:?}"
    );

    let (bench, mut nodes) = handed_over().await;
    nodes.remove(0);
    settle().await;
    let _back = Node::join(&bench, info(0), &[HeldJob::new(ID, false)]).await;
    assert_eq!(bench.told().await, [recalled()]);
}

#[tokio::test(start_paused = true)]
async fn with_a_lost_node_it_is_lost_since_it_may_have_begun() {
    let (bench, mut nodes) = handed_over().await;
    nodes.remove(0);
    sleep(GRACE + Duration::from_secs(5)).await;
    let told = bench.told().await;
    let [lost, begins, exception, released, finished, other] = &told[..] else {
        panic!("{told:?}")
    };
    assert!(lost.starts_with("0 lost: "));
    assert_eq!((begins, &**released), (&begun(), "released"));
    assert_eq!((&**finished, &**other), ("finished 35072", "released"));
    assert!(exception.contains("node-failure") && exception.contains("it may have begun the job"));
}
