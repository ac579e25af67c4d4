//! Jobs whose parts start, end and are lost in any order.

use proptest::prelude::*;

use super::*;

const ID: JobId = JobId::new(7);

/// The reports in short: `started`, `finished 256`, `released 2`, `released`.
fn words(reports: Vec<ExecEvent>) -> String {
    let word = |event: ExecEvent| match event {
        ExecEvent::Log { entry, .. } => entry.name.to_string(),
        ExecEvent::Output { text, .. } => text,
        ExecEvent::Begun { .. } => "begun".to_owned(),
        ExecEvent::Recalled { .. } => "recalled".to_owned(),
        ExecEvent::Started { .. } => "started".to_owned(),
        ExecEvent::Reattached { .. } => "reattached".to_owned(),
        ExecEvent::CaughtUp { .. } => "caught-up".to_owned(),
        ExecEvent::Exception { exception, .. } => exception.kind,
        ExecEvent::Lost { .. } => "lost".to_owned(),
        ExecEvent::Unkillable { ranks, .. } => format!("drain {ranks}"),
        ExecEvent::Finished { status, .. } => format!("finished {status}"),
        ExecEvent::PartlyReleased { ranks, .. } => format!("released {ranks}"),
        ExecEvent::Released { .. } => "released".to_owned(),
    };
    reports.into_iter().map(word).collect::<Vec<_>>().join(", ")
}

const STARTED: ExecEvent = ExecEvent::Started { id: ID };
const RELEASED: ExecEvent = ExecEvent::Released { id: ID };

fn finished(status: i32) -> ExecEvent {
    ExecEvent::Finished { id: ID, status }
}

fn parts(ranks: &[u32]) -> Parts {
    let mut parts = Parts::default();
    parts.begin(ID, ranks.iter().copied(), Begin::Start);
    parts
}

/// What the reports of nodes lead to, in turn.
fn told(parts: &mut Parts, reports: impl IntoIterator<Item = (u32, ExecEvent)>) -> Vec<String> {
    reports.into_iter().map(|(rank, event)| words(parts.report(rank, event))).collect()
}

#[test]
fn a_job_starts_and_ends_with_the_last_of_its_parts() {
    let mut parts = parts(&[3, 1, 2]);
    let reports = [
        (1, STARTED),
        (3, STARTED),
        (2, STARTED),
        (2, finished(256)),
        (2, RELEASED),
        (3, finished(0)),
        (1, finished(512)),
        (1, RELEASED),
        (3, RELEASED),
    ];
    let wanted =
        ["", "", "started", "", "", "", "finished 512, released 2", "released 1", "released"];
    assert_eq!(told(&mut parts, reports), wanted);
    assert_eq!(parts.jobs_on(2).count(), 0);
    assert_eq!(parts.forget(ID), [3, 1, 2]);
    assert_eq!(parts.ranks(ID).count(), 0);
}

#[test]
fn the_first_node_writes_the_exec_eventlog() {
    let mut parts = parts(&[3, 1]);
    let entry = crate::eventlog::EventEntry::new(crate::job::Timestamp(1.0), "shell.init", None);
    let log = || ExecEvent::Log { id: ID, entry: entry.clone() };
    assert_eq!(told(&mut parts, [(1, log()), (3, log())]), ["", "shell.init"]);
}

#[test]
fn a_job_whose_part_can_not_start_has_no_status() {
    let mut parts = parts(&[1, 2]);
    let exception = RaisedException::new("exec", 0, "no such directory");
    let exception = ExecEvent::Exception { id: ID, exception };
    let reports = [
        (1, STARTED),
        (2, exception),
        (2, RELEASED),
        // The engine has canceled the job.
        (1, finished(15)),
        (1, RELEASED),
    ];
    assert_eq!(told(&mut parts, reports), ["", "exec", "", "", "released"]);
}

#[test]
fn a_lost_node_ends_its_parts_and_the_job_goes_on_to_its_end() {
    let mut parts = parts(&[1, 2, 3]);
    told(&mut parts, [(1, STARTED), (2, STARTED), (3, STARTED)]);
    assert_eq!(words(parts.lose(2)), "");
    // Its reports are too late.
    let reports = [(2, finished(0)), (1, finished(15)), (3, finished(0)), (3, RELEASED)];
    let killed = format!("finished {LOST}, released 2");
    assert_eq!(told(&mut parts, reports), ["", "", &killed, "released 3"]);
    assert_eq!(words(parts.lose(1)), "released");
    assert_eq!(parts.forget(ID), [1, 2, 3], "the nodes that come back are told, too");
}

#[test]
fn a_job_of_one_node_is_lost_with_it() {
    let mut parts = parts(&[2]);
    told(&mut parts, [(2, STARTED)]);
    assert_eq!(words(parts.lose(2)), format!("finished {LOST}, released"));
}

#[test]
fn a_shepherd_that_has_lost_its_part_drains_its_own_node_alone() {
    let lost =
        || ExecEvent::Lost { id: ID, note: "it died".to_owned(), reason: "shepherd".to_owned() };
    let mut whole = parts(&[1]);
    assert_eq!(told(&mut whole, [(1, lost()), (1, RELEASED)]), ["lost", "released"]);
    let mut parts = parts(&[1, 2]);
    assert_eq!(told(&mut parts, [(2, lost()), (2, RELEASED)]), ["exec, drain 2", ""]);
}

#[test]
fn a_job_is_found_again_when_all_of_its_parts_are() {
    let mut parts = Parts::default();
    parts.begin(ID, [1, 2], Begin::Reattach);
    let (found, caught_up) = (ExecEvent::Reattached { id: ID }, ExecEvent::CaughtUp { id: ID });
    let reports = [
        (1, found.clone()),
        (1, caught_up.clone()),
        (2, found),
        (2, finished(0)),
        (2, caught_up),
        (1, finished(0)),
    ];
    let wanted = ["reattached", "", "", "", "caught-up", "finished 0"];
    assert_eq!(told(&mut parts, reports), wanted);
    // A node that doesn't come back has nothing to add.
    parts.begin(ID, [1, 2], Begin::Reattach);
    told(&mut parts, [(1, ExecEvent::Reattached { id: ID }), (1, ExecEvent::CaughtUp { id: ID })]);
    assert_eq!(words(parts.lose(2)), "caught-up");
}

/// What a node does next with its part, or `None` if it is lost.
type Move = (usize, Option<bool>);

proptest! {
    /// Whatever the order: a job starts at most once and only when all parts have, finishes at most once and after
    /// that, releases each rank at most once, and the last report is its release.
    #[test]
    fn a_job_ends_once(
        nodes in 1_usize..6,
        moves in proptest::collection::vec((0_usize..6, proptest::option::weighted(0.9, any::<bool>())), 0..40),
    ) {
        let ranks: Vec<u32> = (0..nodes as u32).collect();
        let mut parts = parts(&ranks);
        let mut stages = vec![Some(Stage::Requested); nodes];
        let mut statuses = Vec::new();
        let mut reports = Vec::new();
        let (mut lost, mut began) = (0, true);
        let ends: Vec<Move> = (0..4 * nodes).map(|step| (step % nodes, Some(true))).collect();
        for (node, what) in moves.into_iter().chain(ends) {
            let node = node % nodes;
            let rank = node as u32;
            match (what, stages[node]) {
                (_, None | Some(Stage::Released | Stage::Failed)) => {
                    prop_assert!(parts.lose(rank).is_empty());
                }
                (None, Some(stage)) => {
                    reports.extend(parts.lose(rank));
                    lost += 1;
                    began &= stage >= Stage::Started;
                    stages[node] = None;
                }
                (Some(goes_on), Some(Stage::Requested)) => {
                    let (event, next) = match goes_on {
                        true => (STARTED, Stage::Started),
                        false => (RELEASED, Stage::Released),
                    };
                    began &= goes_on;
                    reports.extend(parts.report(rank, event));
                    stages[node] = Some(next);
                }
                (Some(_), Some(Stage::Started)) => {
                    statuses.push(node as i32);
                    reports.extend(parts.report(rank, finished(node as i32)));
                    stages[node] = Some(Stage::Finished);
                }
                (Some(_), Some(Stage::Finished)) => {
                    reports.extend(parts.report(rank, RELEASED));
                    stages[node] = Some(Stage::Released);
                }
            }
        }
        let at = |what: fn(&ExecEvent) -> bool| {
            let found = reports.iter().enumerate().filter(|(_, event)| what(event));
            found.map(|(place, _)| place).collect::<Vec<_>>()
        };
        let started = at(|event| matches!(event, ExecEvent::Started { .. }));
        let ended = at(|event| matches!(event, ExecEvent::Finished { .. }));
        let released = at(|event| matches!(event, ExecEvent::Released { .. }));
        prop_assert_eq!(&released, &[reports.len() - 1]);
        prop_assert!(started.len() <= 1 && ended.len() <= started.len(), "{:?}", reports);
        if began && lost == 0 {
            prop_assert_eq!(started.len(), 1);
        }
        if let (Some(started), Some(ended)) = (started.first(), ended.first()) {
            prop_assert!(started < ended);
            if lost == 0 {
                let status = statuses.iter().max().copied().unwrap_or(0);
                prop_assert_eq!(&reports[*ended], &finished(status));
            }
        }
        let mut free = Idset::new();
        for event in &reports {
            if let ExecEvent::PartlyReleased { ranks, .. } = event {
                prop_assert!(free.intersection(ranks).is_empty());
                free = free.union(ranks);
            }
        }
        prop_assert!(ranks.iter().all(|rank| parts.jobs_on(*rank).next().is_none()));
    }
}
