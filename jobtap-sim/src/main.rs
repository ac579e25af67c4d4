//! `jobtap-sim`: runs seeds, and says what they have broken.

use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::Parser;
use jobtap_sim::oracle::Violation;
use jobtap_sim::profile::Profile;
use jobtap_sim::run::{Outcome, run, schedule, shrink};

/// Breaks a whole manager by what a seed decides, and checks what it has promised.
#[derive(Parser)]
#[command(version)]
struct Options {
    /// The first seed.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// How many seeds.
    #[arg(long, default_value_t = 1)]
    seeds: u64,
    /// How many steps each has.
    #[arg(long, default_value_t = 300)]
    steps: usize,
    /// Only these steps of the schedule, by their numbers and with commas between them.
    #[arg(long, value_delimiter = ',')]
    only: Option<Vec<usize>>,
    /// For how many seconds a schedule that breaks something is made shorter.
    #[arg(long, default_value_t = 60)]
    shrink: u64,
    /// How many threads run seeds side by side.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// How many of the last events are shown of a seed that breaks something; of each seed if there is only one.
    #[arg(long, default_value_t = 60)]
    events: usize,
    /// Goes on after a seed that breaks something.
    #[arg(long)]
    keep_going: bool,
}

fn main() -> ExitCode {
    let options = Options::parse();
    match simulate(&options) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            let _ = writeln!(io::stderr(), "jobtap-sim: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What all seeds have come to.
#[derive(Default)]
struct Sum {
    seeds: u64,
    faults: u64,
    jobs: usize,
    checks: u64,
    digest: u64,
    broken: Vec<(u64, Outcome)>,
}

fn simulate(options: &Options) -> io::Result<bool> {
    let begun = Instant::now();
    let (next, sum) = (AtomicU64::new(options.seed), Mutex::new(Sum::default()));
    let end = options.seed.saturating_add(options.seeds);
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let outcome = run(seed, &steps_of(options, seed));
            let Ok(mut sum) = sum.lock() else { return };
            sum.seeds += 1;
            sum.faults += outcome.faults;
            sum.jobs += outcome.jobs;
            sum.checks += outcome.checks.values().sum::<u64>();
            if options.seeds == 1 && outcome.violation.is_none() {
                let _ = show(options, &outcome, &mut io::stdout());
            }
            sum.digest ^= outcome.digest.wrapping_mul(seed.wrapping_mul(2).wrapping_add(1));
            if let Some(Violation { rule, text }) = &outcome.violation {
                let first = text.lines().next().unwrap_or_default();
                let _ = writeln!(io::stderr(), "seed {seed} breaks `{rule}`: {first}");
                sum.broken.push((seed, outcome));
                if !options.keep_going {
                    next.store(end, Ordering::Relaxed);
                }
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..options.threads.max(1) {
            scope.spawn(work);
        }
    });
    let Ok(mut sum) = sum.into_inner() else { return Ok(false) };
    sum.broken.sort_by_key(|(seed, _)| *seed);
    let mut out = io::stdout().lock();
    for (seed, outcome) in &sum.broken {
        report(options, *seed, outcome, &mut out)?;
    }
    let Sum { seeds, faults, jobs, checks, digest, .. } = &sum;
    let seconds = begun.elapsed().as_secs_f64();
    writeln!(
        out,
        "{seeds} seeds, {faults} faults, {jobs} jobs, {checks} checks, digest {digest:016x}, {seconds:.1} s"
    )?;
    Ok(sum.broken.is_empty())
}

fn steps_of(options: &Options, seed: u64) -> Vec<(usize, u64)> {
    let mut steps = schedule(seed, options.steps);
    if let Some(only) = &options.only {
        steps.retain(|(at, _)| only.contains(at));
    }
    steps
}

fn show(options: &Options, outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let skipped = outcome.trace.len().saturating_sub(options.events);
    outcome.trace.iter().skip(skipped).try_for_each(|line| writeln!(out, "{line}"))
}

fn report(options: &Options, seed: u64, outcome: &Outcome, out: &mut impl Write) -> io::Result<()> {
    let Some(Violation { rule, text }) = &outcome.violation else { return Ok(()) };
    writeln!(out, "seed {seed} breaks `{rule}` at step {}: {text}", outcome.at)?;
    if options.shrink > 0 {
        let steps: Vec<_> =
            steps_of(options, seed).into_iter().filter(|(at, _)| *at <= outcome.at).collect();
        let time = Duration::from_secs(options.shrink);
        let steps = shrink(seed, &steps, rule, time);
        let shortest = run(seed, &steps);
        let only: Vec<String> = steps.iter().map(|(at, _)| at.to_string()).collect();
        writeln!(out, "{:?}", Profile::of_seed(seed))?;
        show(options, &shortest, out)?;
        if let Some(violation) = &shortest.violation {
            writeln!(out, "{}: {}", violation.rule, violation.text)?;
        }
        writeln!(
            out,
            "again: jobtap-sim --seed {seed} --steps {} --only {}",
            options.steps,
            only.join(",")
        )?;
    }
    Ok(())
}
