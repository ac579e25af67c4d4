//! A seed is a run: the same one each time, on each thread, and one that breaks nothing.

use jobtap_sim::run::{run, schedule};

#[test]
fn the_same_seed_does_the_same_again() {
    for seed in [3, 17, 40] {
        let steps = schedule(seed, 200);
        let first = run(seed, &steps);
        let other = std::thread::spawn(move || run(seed, &schedule(seed, 200)).digest);
        assert_eq!(first.digest, run(seed, &steps).digest, "seed {seed}");
        assert_eq!(Some(first.digest), other.join().ok(), "seed {seed}");
    }
}

#[test]
fn a_few_seeds_break_nothing() {
    let (mut jobs, mut faults) = (0, 0);
    for seed in 1000..1020 {
        let outcome = run(seed, &schedule(seed, 300));
        assert_eq!(outcome.violation, None, "seed {seed}: {:#?}", outcome.trace);
        (jobs, faults) = (jobs + outcome.jobs, faults + outcome.faults);
    }
    assert!(jobs > 50 && faults > 100, "{jobs} jobs, {faults} faults");
}
