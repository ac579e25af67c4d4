//! A node that says anything at all: the hub and the other nodes go on.

use proptest::prelude::*;

use super::*;

/// The id of a job: the hub knows some of them.
fn any_id() -> impl Strategy<Value = JobId> {
    (6..9_u64).prop_map(JobId::new)
}

fn any_event() -> impl Strategy<Value = ExecEvent> {
    let reason = || any::<String>();
    prop_oneof![
        any_id().prop_map(|id| ExecEvent::Started { id }),
        any_id().prop_map(|id| ExecEvent::Reattached { id }),
        any_id().prop_map(|id| ExecEvent::CaughtUp { id }),
        (any_id(), any::<i32>()).prop_map(|(id, status)| ExecEvent::Finished { id, status }),
        (any_id(), any::<u32>()).prop_map(|(id, rank)| ExecEvent::PartlyReleased {
            id,
            ranks: Idset::from(rank..=rank)
        }),
        any_id().prop_map(|id| ExecEvent::Released { id }),
        (any_id(), any::<u32>(), reason()).prop_map(|(id, rank, reason)| ExecEvent::Unkillable {
            id,
            ranks: Idset::from(rank..=rank),
            reason
        }),
    ]
}

fn any_message() -> impl Strategy<Value = ShepherdMessage> {
    let values = || proptest::collection::vec((any::<String>(), any::<String>()), 0..3);
    let held = (any_id(), any::<bool>()).prop_map(|(id, ended)| HeldJob::new(id, ended));
    prop_oneof![
        4 => any_event().prop_map(ShepherdMessage::Event),
        1 => proptest::collection::vec(held, 0..4).prop_map(|jobs| ShepherdMessage::List { jobs }),
        2 => (any_id(), 0..4_u32, values(), any::<bool>()).prop_map(
            |(id, round, values, is_over)| ShepherdMessage::Exchange { id, round, values, is_over }
        ),
        1 => any_id().prop_map(|id| ShepherdMessage::Tasks { id, tasks: Vec::new() }),
        1 => any::<String>().prop_map(|reason| ShepherdMessage::Refused { reason }),
    ]
}

fn any_node_message() -> impl Strategy<Value = FromNode> {
    prop_oneof![
        (any_id(), any::<u64>(), any::<String>()).prop_map(|(id, at, text)| FromNode::Output {
            id,
            at,
            text
        }),
        (any::<u64>(), 0..3_u64).prop_map(|(seq, key)| FromNode::Process {
            seq,
            key,
            happening: Happening::Started
        }),
        (any::<u32>(), any::<u64>())
            .prop_map(|(version, number)| FromNode::Command { version, number }),
        any::<u32>().prop_map(|version| FromNode::Client { version }),
        any::<u32>().prop_map(|rank| FromNode::Join {
            version: VERSION,
            node: info(rank),
            time: f64::from(rank)
        }),
        Just(FromNode::Pong),
    ]
}

/// A line of the protocol, or one that only begins as one does.
fn any_line() -> impl Strategy<Value = Vec<u8>> {
    let garbage = |letter: u8| {
        any::<Vec<u8>>().prop_map(move |bytes| {
            let rest = bytes.into_iter().filter(|byte| *byte != b'\n');
            [letter].into_iter().chain(rest).chain([b'\n']).collect()
        })
    };
    prop_oneof![
        6 => any_message().prop_map(|message| to_shepherd(&encode(&message).unwrap())),
        6 => any_node_message().prop_map(|message| node_line(&message)),
        1 => garbage(b's'),
        1 => garbage(b'n'),
        1 => any::<u8>().prop_flat_map(garbage),
    ]
}

proptest! {
    #[test]
    fn no_line_of_a_node_stops_the_hub(lines in proptest::collection::vec(any_line(), 0..30)) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .start_paused(true)
            .build()
            .unwrap();
        runtime.block_on(async {
            let (bench, mut nodes) = Bench::with_nodes(2).await;
            bench.start(&[1]);
            nodes[1].started().await;
            for line in &lines {
                // Its connection may be closed by now.
                if nodes[1].write.write_all(line).await.is_err() {
                    break;
                }
                settle().await;
            }
            let job = StartJob {
                ntasks: 1,
                nodes: vec![NodeTasks { rank: 0, ntasks: 1 }],
                ..StartJob::new(JobId::new(100))
            };
            bench.requests.send(Request::Start(Box::new(job))).ok().unwrap();
            let asked = loop {
                match nodes[0].next().await {
                    Some(Frame::Shepherd(line)) => break decode_request(&line).unwrap(),
                    Some(Frame::Node(_)) => {}
                    None => panic!("the hub has stopped"),
                }
            };
            prop_assert!(matches!(asked, ShepherdRequest::Start(_)), "{asked:?}");
            Ok(())
        })?;
    }
}
