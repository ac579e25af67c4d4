//! `simulate`: replays a trace through the plugins and the scheduler of a configuration, in virtual time.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jobtap_core::simulation::{Oversized, Rules, TimeLimits};
use jobtap_laboratory::{
    Experiment, Origin, Policy, PolicyRun, Progress, QueueWait, Scenario, Shape, SimulateError,
    Summary, Workload, report_page,
};

use crate::cli::common::message::{CliError, plural};
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::cli::common::work::Work;
use crate::files::{Access, write_whole};

const COMMAND: &str = "simulate";

/// The exit code of a command that SIGINT has ended.
const INTERRUPTED: u8 = 128 + 2;

/// Options of `simulate`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  jobtap simulate --trace NASA-iPSC-1993-3.1-cln.swf.gz --config site.toml -o report
  jobtap simulate --trace month.swf --config now.toml --compare new.toml
  jobtap simulate --generate jobs=100000,seed=7 --nodes 64x32

The plugins are those of this binary, as the configuration loads them. An interrupt (Ctrl-C) ends the
simulation with the figures so far; a second one ends it at once.")]
pub(crate) struct SimulateArgs {
    #[command(flatten)]
    trace: TraceArgs,
    /// The configuration: a TOML or JSON file, or a directory of them
    #[arg(long, short = 'c', value_name = "PATH", alias = "config-path")]
    config: Vec<PathBuf>,
    /// A setting of the configuration, as --conf of start
    #[arg(long, value_name = "KEY=VAL")]
    conf: Vec<String>,
    /// Simulate this configuration too, and compare (repeatable)
    #[arg(long, value_name = "PATH")]
    compare: Vec<PathBuf>,
    /// Write report.html and summary.json into this directory
    #[arg(short = 'o', long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Number users, jobs and queues anew in all output, and leave out texts that may name them
    #[arg(long)]
    anonymize: bool,
    /// Leave out of report.html how long handlers took, so that the same trace gives the same bytes
    #[arg(long, requires = "output")]
    reproducible: bool,
    /// Print summary.json instead of the summary
    #[arg(long)]
    json: bool,
    /// Virtual seconds per second, or max
    #[arg(long, value_name = "FACTOR", default_value = "max", value_parser = speed)]
    speed: Speed,
}

/// Options about the trace and the machine.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct TraceArgs {
    /// The trace: SWF, sacct --parsable2, flux jobs --json or a dump, plain or compressed with gzip; or a state directory
    #[arg(long, value_name = "FILE", required_unless_present = "generate")]
    trace: Option<PathBuf>,
    #[arg(long, value_name = "KEY=VALUE,..", conflicts_with = "trace", help = "Generate a trace from distributions, see below", long_help = Workload::HELP)]
    generate: Option<Workload>,
    /// The machine: NODES, NODESxCORES or NODESxCORESxGPUS [default: as the configuration, else the trace says]
    #[arg(long, value_name = "SHAPE")]
    nodes: Option<Shape>,
    /// Time limits: recorded (else the run time), exact, none (unless recorded), or xFACTOR of the run time
    #[arg(long, value_name = "RULE", default_value = "recorded", value_parser = time_limits)]
    time_limits: TimeLimits,
    /// Jobs larger than the machine: skip, clip to the machine, or submit (the manager refuses them)
    #[arg(long, value_name = "RULE", default_value = "skip", value_parser = oversized)]
    oversized: Oversized,
    /// Name a queue of the trace: jobs of queue NUMBER are submitted to queue NAME (repeatable)
    #[arg(long, value_name = "NUMBER=NAME", value_parser = queue)]
    queue: Vec<(u64, String)>,
    /// Add what this TOML file says: failures of nodes, maintenance, bursts of jobs
    #[arg(long, value_name = "FILE")]
    what_if: Option<PathBuf>,
    /// How long an allocation waits, with [[allocation]]: fixed:SECONDS or exponential:MEAN[:SEED] [default: starts at once]
    #[arg(long, value_name = "WAIT")]
    queue_wait: Option<QueueWait>,
    /// Refuse a trace with broken lines
    #[arg(long)]
    strict: bool,
}

type Speed = Option<f64>;

/// A text that is no value of its option: what the option takes.
#[derive(Debug, thiserror::Error)]
enum WrongValue {
    #[error("use max, or a number above 0")]
    Speed,
    #[error("use recorded, exact, none, or xFACTOR with a factor of at least 1")]
    TimeLimits,
    #[error("use skip, clip or submit")]
    Oversized,
    #[error("use NUMBER=NAME")]
    Queue,
}

fn speed(text: &str) -> Result<Speed, WrongValue> {
    match (text, text.parse::<f64>()) {
        ("max", _) => Ok(None),
        (_, Ok(factor)) if factor > 0.0 && factor.is_finite() => Ok(Some(factor)),
        _ => Err(WrongValue::Speed),
    }
}

fn time_limits(text: &str) -> Result<TimeLimits, WrongValue> {
    let factor = text.strip_prefix('x').and_then(|factor| factor.parse::<f64>().ok());
    match (text, factor) {
        ("recorded", _) => Ok(TimeLimits::Recorded),
        ("exact", _) => Ok(TimeLimits::Exact),
        ("none", _) => Ok(TimeLimits::RecordedOrNone),
        (_, Some(factor)) if factor >= 1.0 && factor.is_finite() => Ok(TimeLimits::Factor(factor)),
        _ => Err(WrongValue::TimeLimits),
    }
}

fn oversized(text: &str) -> Result<Oversized, WrongValue> {
    match text {
        "skip" => Ok(Oversized::Skip),
        "clip" => Ok(Oversized::Clip),
        "submit" => Ok(Oversized::Submit),
        _ => Err(WrongValue::Oversized),
    }
}

fn queue(text: &str) -> Result<(u64, String), WrongValue> {
    let parts = text.split_once('=').and_then(|(n, name)| Some((n.parse().ok()?, name)));
    let (number, name) = parts.filter(|(_, name)| !name.is_empty()).ok_or(WrongValue::Queue)?;
    Ok((number, name.to_owned()))
}

impl TraceArgs {
    /// What is simulated.
    ///
    /// # Errors
    /// The file of `--what-if` can't be used.
    pub(crate) fn experiment(&self) -> Result<Experiment, CliError> {
        let origin = match (&self.trace, &self.generate) {
            (Some(path), _) => Origin::File(path.clone()),
            (None, workload) => Origin::Generated(Box::new(workload.clone().unwrap_or_default())),
        };
        let rules = Rules {
            oversized: self.oversized,
            time_limits: self.time_limits,
            queues: self.queue.clone(),
            ..Rules::default()
        };
        let scenario = self.what_if.as_deref().map(Scenario::read).transpose()?;
        let (scenario, shape) = (scenario.unwrap_or_default(), self.nodes);
        let (strict, queue_wait) = (self.strict, self.queue_wait.unwrap_or_default());
        Ok(Experiment { origin, rules, strict, shape, scenario, queue_wait, speed: None })
    }
}

impl From<SimulateError> for CliError {
    fn from(error: SimulateError) -> Self {
        Self::failure(error)
    }
}

/// Reads a policy from its files and settings.
pub(crate) fn policy(paths: &[PathBuf], settings: &[String]) -> Result<Policy, CliError> {
    Policy::read(paths, settings).map_err(CliError::failure)
}

/// Runs the command.
pub(crate) fn run(args: SimulateArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, simulate(args))
}

async fn simulate(args: SimulateArgs) -> Result<u8, CliError> {
    let experiment = Experiment { speed: args.speed, ..args.trace.experiment()? };
    let mut first = policy(&args.config, &args.conf)?;
    if args.anonymize {
        // Settings may name users.
        first.name = Policy::name_of(&args.config, &[]);
    }
    let mut policies = vec![first];
    for other in &args.compare {
        policies.push(policy(std::slice::from_ref(other), &args.conf)?);
    }
    // Before the simulation, which may take long.
    if let Some(directory) = &args.output {
        std::fs::create_dir_all(directory)
            .map_err(|error| CliError::failure(format!("{}: {error}", directory.display())))?;
    }
    let mut runs = simulated(experiment.clone(), policies).await?;
    if args.anonymize {
        runs.iter_mut().for_each(PolicyRun::anonymize);
    }
    let summary = Summary::from_runs(experiment.origin.name(), &runs);
    if let Some(directory) = &args.output {
        write(directory, "summary.json", &summary.to_json())?;
        let page = report_page(&summary, &runs, args.reproducible);
        write(directory, "report.html", &page)?;
    }
    if args.json {
        session::print(&summary.to_json())?;
    } else {
        session::print(&summary.to_text())?;
        session::print_message(&speed_line(&runs));
    }
    let interrupted = runs.iter().any(|run| run.interrupted);
    Ok(if interrupted { INTERRUPTED } else { 0 })
}

/// Simulates the policies one after the other, on a thread of its own, so that an interrupt is heard. A second one ends
/// the command without figures: the first one has no effect while a trace is opened that never comes, such as a FIFO
/// without a writer.
pub(crate) async fn simulated(
    experiment: Experiment,
    policies: Vec<Policy>,
) -> Result<Vec<PolicyRun>, CliError> {
    if policies.len() > 1 && !experiment.origin.can_be_read_again() {
        return Err(SimulateError::Once(experiment.origin.name()).into());
    }
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let work = tokio::task::spawn_blocking(move || all(&experiment, &policies, &stopped));
    tokio::pin!(work);
    loop {
        tokio::select! {
            result = &mut work => {
                return result.map_err(CliError::failure)?.map_err(CliError::from);
            }
            _ = tokio::signal::ctrl_c() => {
                if stop.swap(true, Ordering::Relaxed) {
                    return Err(CliError { code: INTERRUPTED, ..CliError::failure("interrupted") });
                }
            }
        }
    }
}

fn all(
    experiment: &Experiment,
    policies: &[Policy],
    stop: &AtomicBool,
) -> Result<Vec<PolicyRun>, SimulateError> {
    let mut runs = Vec::new();
    for policy in policies {
        let work = Work::start(&format!("simulating {}", policy.name));
        let run = experiment.run(policy, stop, |progress| show(&work, progress));
        runs.push(run?);
        if stop.load(Ordering::Relaxed) {
            break;
        }
    }
    Ok(runs)
}

/// Shows how far a simulation is.
fn show(work: &Work, progress: Progress) {
    if let Some(expected) = progress.expected {
        work.set_total(expected, "jobs");
    }
    work.at(progress.done);
    let seconds = work.elapsed().as_secs_f64().max(1e-3);
    work.say(&format!("{:.0}k events/s", progress.events as f64 / seconds / 1e3));
}

/// How fast it was; on standard error, since it differs each time.
fn speed_line(runs: &[PolicyRun]) -> String {
    let jobs: u64 = runs.iter().map(|run| run.results.jobs.len() as u64).sum();
    let events: u64 = runs.iter().map(|run| run.results.events).sum();
    let seconds: f64 = runs.iter().map(|run| run.elapsed.as_secs_f64()).sum();
    let each = events as f64 / seconds.max(1e-9);
    format!("{} and {events} events in {seconds:.2} s ({each:.0} events/s)", plural(jobs, "job"))
}

fn write(directory: &Path, name: &str, text: &str) -> Result<(), CliError> {
    let path = directory.join(name);
    let written = write_whole(&path, text.as_bytes(), Access::Kept);
    written.map_err(|error| CliError::failure(format!("{}: {error}", path.display())))
}
