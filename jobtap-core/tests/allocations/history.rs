//! Random histories of an elastic instance, with crashes at any moment: whatever happens, the outer job manager has been
//! asked for exactly what the manager knows, and for nothing twice.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;

/// Something that happens.
#[derive(Debug, Clone)]
enum Happens {
    Submit {
        cores: u64,
        run_for: f64,
    },
    Cancel(usize),
    Passes(f64),
    Refuses(bool),
    Starts(usize),
    Ends(usize),
    Releases(u64),
    Loses(u32),
    /// The manager crashes after so many steps, and is started again after so many seconds.
    Crashes(u32, f64),
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => (1u64..9, 1.0..5000.0).prop_map(|(cores, run_for)| Happens::Submit { cores, run_for }),
        1 => any::<usize>().prop_map(Happens::Cancel),
        5 => prop_oneof![0.05..3.0, 3.0..400.0, 400.0..4000.0].prop_map(Happens::Passes),
        1 => any::<bool>().prop_map(Happens::Refuses),
        4 => any::<usize>().prop_map(Happens::Starts),
        2 => any::<usize>().prop_map(Happens::Ends),
        1 => (1u64..20).prop_map(Happens::Releases),
        1 => (1u32..5).prop_map(Happens::Loses),
        3 => (0u32..8, 0.0..4000.0).prop_map(|(steps, down)| Happens::Crashes(steps, down)),
    ]
}

fn outer(m: &TestManager, at: usize) -> Option<AllocationId> {
    let jobs = m.outer_jobs();
    jobs.keys().nth(at.checked_rem(jobs.len())?).copied()
}

fn play(m: &mut TestManager, happens: &Happens) {
    match happens {
        // A job may be larger than any allocation, or than all.
        Happens::Submit { cores, run_for } => {
            let _ = m.submit(TestJob::new().ntasks(*cores).run_for(*run_for));
        }
        Happens::Cancel(at) => {
            let jobs = m.jobs();
            if let Some(job) = at.checked_rem(jobs.len()).and_then(|at| jobs.get(at)) {
                let _ = m.cancel(*job);
            }
        }
        Happens::Passes(seconds) => m.advance(*seconds),
        Happens::Refuses(refuses) => m.refuse_orders(refuses.then_some("no")),
        Happens::Starts(at) => outer(m, *at).into_iter().for_each(|id| m.start_allocation(id)),
        Happens::Ends(at) => {
            outer(m, *at).into_iter().for_each(|id| m.end_allocation(id, "preempted"))
        }
        Happens::Releases(number) => drop(m.release_allocation(id(*number))),
        Happens::Loses(rank) => drop(m.lose_nodes(&rank.to_string())),
        Happens::Crashes(steps, down) => {
            m.crash_in(*steps);
            m.advance(*down);
            m.crash_and_restart();
        }
    }
}

/// What must hold at any time.
fn check(m: &TestManager) {
    let asked: BTreeSet<AllocationId> = m.orders().iter().map(|(id, _)| *id).collect();
    assert_eq!(asked.len(), m.orders().len(), "an allocation was ordered twice: {:?}", m.orders());
    if m.is_dead() {
        return;
    }
    let allocations = m.allocations();
    let known: Vec<&Value> = allocations["allocations"].as_array().unwrap().iter().collect();
    let ids: BTreeSet<u64> = known.iter().map(|shown| shown["id"].as_u64().unwrap()).collect();
    let outside: BTreeSet<u64> = m.outer_jobs().keys().map(|id| id.0.get()).collect();
    assert_eq!(ids, outside, "an allocation is forgotten, or one is remembered that isn't there");
    // Each order was logged, and each logged order was made, unless it was refused.
    let log = m.allocation_log();
    let logged = |name: &str| {
        let entries = log.iter().filter(|entry| entry.name == *name);
        let ids = entries.map(|entry| entry.context.as_ref().unwrap()["id"].as_u64().unwrap());
        ids.collect::<BTreeSet<u64>>()
    };
    let made: BTreeSet<u64> = asked.iter().map(|id| id.0.get()).collect();
    assert_eq!(made, logged("order").difference(&logged("refused")).copied().collect());
    let mut places = Idset::new();
    for shown in known {
        let ranks: Idset = shown["ranks"].as_str().unwrap().parse().unwrap();
        assert!(!places.intersects(&ranks), "two allocations have one place: {allocations}");
        places = places.union(&ranks);
    }
    for job in m.jobs().into_iter().filter(|id| m.job(*id).state() == State::Run) {
        let ranks = m.job(job).resources().unwrap().ranks();
        assert!(ranks.is_subset(&places), "job {job} runs where no allocation is");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_ordered_twice_and_nothing_forgotten(story in prop::collection::vec(happens(), 1..50)) {
        let two = json!({"name": "two", "engine": "flux", "cores": 4, "nodes": 2, "max": 2, "time-limit": "30m"});
        let mut m = start(json!([small(), two]));
        for happens in &story {
            play(&mut m, happens);
            check(&m);
        }
        // In the end, all that is left is done, or can't be.
        m.refuse_orders(None);
        m.let_allocations_wait(0.0);
        m.advance(20.0);
        check(&m);
    }
}
