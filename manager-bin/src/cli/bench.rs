//! `bench`: measures the memory and time that jobs take on this machine.

use std::process::ExitCode;

use super::common::message::CliError;
use super::common::session;
use super::common::usage::Family;
use crate::bench::{BenchError, memory, restart, throughput};

const COMMAND: &str = "bench";

/// Options of `bench`.
#[derive(Debug, clap::Args)]
pub(crate) struct BenchArgs {
    /// What to measure [default: everything]
    #[arg(value_name = "PART")]
    parts: Vec<Part>,
    /// Numbers of jobs to submit, each in a measurement of its own
    #[arg(long, value_name = "N,..", value_delimiter = ',', value_parser = number,
          default_value = "10k,100k,1M")]
    jobs: Vec<u64>,
    /// Number of pending jobs in the measurements of memory and restart
    #[arg(long, value_name = "N", value_parser = number, default_value = "100k")]
    pending: u64,
    /// Number of inactive jobs in the measurement of restart
    #[arg(long, value_name = "N", value_parser = number, default_value = "1M")]
    inactive: u64,
}

/// The measurements.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// Memory of a pending job
    Memory,
    /// Time from submission to inactive, over the socket
    Throughput,
    /// Time of a start with many stored jobs
    Restart,
}

impl From<BenchError> for CliError {
    fn from(error: BenchError) -> Self {
        Self::failure(error)
    }
}

/// Runs the measurements and prints the result of each when it is done.
pub(crate) fn run(args: BenchArgs) -> ExitCode {
    session::run(COMMAND, Family::Script, async move {
        let wanted = |part| args.parts.is_empty() || args.parts.contains(&part);
        // Memory first: other measurements leave free memory in the allocator, which would hide that of jobs.
        if wanted(Part::Memory) {
            memory(args.pending)?;
        }
        if wanted(Part::Throughput) {
            throughput(&args.jobs).await?;
        }
        if wanted(Part::Restart) {
            restart(args.inactive, args.pending).await?;
        }
        Ok(0)
    })
}

fn memory(jobs: u64) -> Result<(), CliError> {
    let measured = memory::measure(jobs)?;
    session::print(&format!(
        "memory of a pending job, {jobs} of them: {} bytes, {} beyond the {} of its jobspec\n",
        measured.per_job,
        measured.beyond_jobspec(),
        measured.jobspec,
    ))
}

async fn throughput(sizes: &[u64]) -> Result<(), CliError> {
    session::print(
        "submit to inactive, simulated execution, each event durable; medians of runs:\n",
    )?;
    session::print(
        "      JOBS  RUNS   SECONDS    JOBS/S    US/JOB CPU-US/JOB   US/JOB : FIRST  CPU : FIRST\n",
    )?;
    let mut first = None;
    for size in sizes {
        let measured = throughput::median(*size).await?;
        let base = *first.get_or_insert(measured);
        session::print(&format!(
            "{:>10} {:>5} {:>9.2} {:>9.0} {:>9.1} {:>10.1} {:>16.2} {:>12.2}\n",
            measured.jobs,
            throughput::runs(*size),
            measured.elapsed.as_secs_f64(),
            1e6 / measured.micros(),
            measured.micros(),
            measured.cpu_micros(),
            measured.micros() / base.micros(),
            measured.cpu_micros() / base.cpu_micros(),
        ))?;
    }
    Ok(())
}

async fn restart(inactive: u64, pending: u64) -> Result<(), CliError> {
    let measured = restart::measure(inactive, pending).await?;
    session::print(&format!(
        "restart with {inactive} inactive and {pending} pending jobs: ready in {:.2} s, all \
         durable {:.2} s later ({:.2} us a job; the store was filled in {:.1} s)\n",
        measured.started.as_secs_f64(),
        measured.settled.as_secs_f64(),
        measured.started.as_secs_f64() * 1e6 / (inactive + pending).max(1) as f64,
        measured.filled.as_secs_f64(),
    ))
}

/// Parses a count such as `500`, `10k` or `1M`.
fn number(text: &str) -> Result<u64, String> {
    let (digits, scale) = match text.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => text.strip_suffix('M').map_or((text, 1), |digits| (digits, 1_000_000)),
    };
    let count = digits.parse::<u64>().ok().and_then(|count| count.checked_mul(scale));
    count.filter(|count| *count > 0).ok_or_else(|| "not a number such as 500, 10k or 1M".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measurements_of_few_jobs_are_repeated() {
        for (jobs, runs) in [(1, 9), (10_000, 9), (20_000, 5), (50_000, 1), (1_000_000, 1)] {
            assert_eq!(throughput::runs(jobs), runs, "{jobs}");
        }
    }

    #[test]
    fn counts_accept_the_suffixes_k_and_m() {
        let read: Vec<u64> = ["7", "10k", "1M"].iter().map(|text| number(text).unwrap()).collect();
        assert_eq!(read, [7, 10_000, 1_000_000]);
        for text in ["", "0", "k", "1G", "-1", "99999999999999M"] {
            assert!(number(text).is_err(), "{text}");
        }
    }
}
