//! Slurm: `sbatch`, `squeue` and `scancel`.
//!
//! The script goes to sbatch through its standard input. Slurm keeps it where only the user, the user of slurmctld and root
//! can read it.

use std::time::Duration;

use super::outer::{Found, Order, OrderError, OuterManager, OuterState, Wanted};
use super::program::{Program, ProgramError, said};
use super::script;

/// How long sbatch may take. It tries again by itself while slurmctld is busy.
const SUBMITTING: Duration = Duration::from_secs(120);

/// How long the other commands may take.
const ASKING: Duration = Duration::from_secs(60);

/// How many allocations are looked for at once: a command line has a limited length.
const AT_ONCE: usize = 1000;

/// What sbatch says when it can't know whether slurmctld has taken the job, in lower case.
const UNCLEAR: [&str; 5] =
    ["unable to contact", "timed out", "connection refused", "communication", "zero bytes"];

/// The states that end a job.
const ENDED: [&str; 12] = [
    "BOOT_FAIL",
    "CANCELLED",
    "COMPLETED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "TIMEOUT",
];

/// The states in which a job has its nodes.
const RUNNING: [&str; 6] =
    ["RUNNING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"];

/// The Slurm that the manager's environment names.
pub(super) struct Slurm;

impl OuterManager for Slurm {
    fn title(&self) -> &'static str {
        "Slurm"
    }

    async fn order(&self, order: &Order) -> Result<String, OrderError> {
        let script = script::of_slurm(order);
        let (words, limit) = (words(order), SUBMITTING);
        let printed = Program { words, input: &script, env: Vec::new(), limit }.run().await?;
        let id = printed.stdout.trim().split(';').next().unwrap_or_default();
        if printed.status.success() && !id.is_empty() {
            return Ok(id.to_owned());
        }
        let text = said("sbatch", &printed);
        let lower = text.to_lowercase();
        match UNCLEAR.iter().any(|words| lower.contains(words)) {
            true => Err(OrderError::Unclear(text)),
            false => Err(OrderError::Refused(text)),
        }
    }

    async fn look(&self, wanted: &[Wanted]) -> Result<Vec<Found>, ProgramError> {
        let user = rustix::process::geteuid().as_raw();
        let mut found = Vec::new();
        for some in wanted.chunks(AT_ONCE) {
            let names = some.iter().map(|wanted| wanted.name.as_str()).collect::<Vec<_>>();
            let words = vec![
                "squeue".to_owned(),
                "--noheader".to_owned(),
                "--states=all".to_owned(),
                format!("--user={user}"),
                format!("--name={}", names.join(",")),
                "--format=%i|%T|%r|%e|%j".to_owned(),
            ];
            let env = vec![("SLURM_TIME_FORMAT", "%s".to_owned())];
            let printed = Program { words, input: "", env, limit: ASKING }.output().await?;
            for line in printed.lines().filter(|line| !line.trim().is_empty()) {
                found.push(read(line).ok_or_else(|| ProgramError::Unreadable {
                    program: "squeue".to_owned(),
                    line: line.to_owned(),
                })?);
            }
        }
        Ok(found)
    }

    async fn cancel(&self, job: &str) -> Result<(), ProgramError> {
        let words = vec!["scancel".to_owned(), job.to_owned()];
        let program = Program { words, input: "", env: Vec::new(), limit: ASKING };
        program.output().await.map(drop)
    }
}

/// The words of sbatch. What the table says stands between what it may change and what it may not.
fn words(order: &Order) -> Vec<String> {
    let mut words = vec![
        "sbatch".to_owned(),
        "--parsable".to_owned(),
        "--output=/dev/null".to_owned(),
        format!("--cpus-per-task={}", order.cores),
    ];
    if order.gpus > 0 {
        words.push(format!("--gpus-per-node={}", order.gpus));
    }
    words.extend(order.options.iter().cloned());
    words.extend([
        format!("--job-name={}", order.name),
        format!("--nodes={}", order.nodes),
        "--ntasks-per-node=1".to_owned(),
        // Its jobs would not be there any more when it runs again.
        "--no-requeue".to_owned(),
    ]);
    words.extend(order.time_limit.map(|seconds| {
        let seconds = seconds.ceil() as u64;
        format!("--time={}:{:02}", seconds / 60, seconds % 60)
    }));
    words
}

/// Reads a line of squeue.
pub(super) fn read(line: &str) -> Option<Found> {
    let mut fields = line.trim().split('|');
    let (job, state, reason) = (fields.next()?, fields.next()?, fields.next()?);
    let (end, name) = (fields.next()?, fields.next()?);
    let told = match reason {
        "None" | "" => state.to_owned(),
        reason => format!("{state} ({reason})"),
    };
    let state = if ENDED.contains(&state) {
        OuterState::Ended(told)
    } else if RUNNING.contains(&state) {
        OuterState::Runs(end.parse().ok())
    } else if state == "COMPLETING" {
        OuterState::Ending(told)
    } else if state == "PENDING" {
        OuterState::Waits(reason.to_owned())
    } else {
        OuterState::Waits(told)
    };
    Some(Found { name: name.to_owned(), job: job.to_owned(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_options_of_a_table_change_what_they_may() {
        let order = Order {
            name: "jobtap-ab-3".to_owned(),
            options: vec!["--partition=debug".to_owned()],
            nodes: 2,
            cores: 64,
            gpus: 4,
            time_limit: Some(5430.0),
            invitation: String::new(),
        };
        assert_eq!(
            words(&order).join(" "),
            "sbatch --parsable --output=/dev/null --cpus-per-task=64 --gpus-per-node=4 --partition=debug \
             --job-name=jobtap-ab-3 --nodes=2 --ntasks-per-node=1 --no-requeue --time=90:30"
        );
    }

    #[test]
    fn a_line_of_squeue_says_how_far_a_job_has_come() {
        let state = |line: &str| read(line).map(|found| found.state);
        let waits = |text: &str| Some(OuterState::Waits(text.to_owned()));
        let ended = |text: &str| Some(OuterState::Ended(text.to_owned()));
        assert_eq!(state("7|PENDING|QOSMaxJobsPerUser|N/A|x"), waits("QOSMaxJobsPerUser"));
        assert_eq!(state("7|CONFIGURING|None|N/A|x"), waits("CONFIGURING"));
        assert_eq!(
            state("7|RUNNING|None|1796040640|x"),
            Some(OuterState::Runs(Some(1_796_040_640.0)))
        );
        assert_eq!(state("7|RUNNING|None|N/A|x"), Some(OuterState::Runs(None)));
        assert_eq!(state("7|TIMEOUT|TimeLimit|1|x"), ended("TIMEOUT (TimeLimit)"));
        assert_eq!(state("7|CANCELLED|None|1|x"), ended("CANCELLED"));
        let ending = OuterState::Ending("COMPLETING".to_owned());
        assert_eq!(state("7|COMPLETING|None|1|x"), Some(ending));
        assert_eq!(state("slurm_load_jobs error"), None);
        let found = read("7_1|RUNNING|None|1|jobtap-ab-3").unwrap();
        assert_eq!((found.job.as_str(), found.name.as_str()), ("7_1", "jobtap-ab-3"));
    }
}
