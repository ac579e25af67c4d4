//! Flux: `flux submit`, `flux jobs` and `flux cancel`, in the instance that the manager's environment names.
//!
//! The allocation is a job with one task on each node: the node's process. It reads its invitation from a file that comes
//! with the job, which only the user of the job can read.

use std::time::Duration;

use super::outer::{Found, Order, OrderError, OuterManager, OuterState, Wanted};
use super::private_file::PrivateFiles;
use super::program::{Program, ProgramError, said};
use super::script;

/// How long a command may take.
const ASKING: Duration = Duration::from_secs(60);

/// How many jobs are asked for at once: a command line has a limited length.
const AT_ONCE: usize = 1000;

/// What the commands say when they don't reach Flux, in lower case.
const UNREACHABLE: [&str; 4] = ["connect", "connection", "unable to", "timed out"];

/// What is printed about a job. The note can have any text, so that it comes last.
const FORMAT: &str = "{id.f58plain}|{state}|{status}|{expiration}|{name}|{exception.note}";

/// The Flux that the manager's environment names.
pub(super) struct Flux {
    pub(super) files: PrivateFiles,
}

impl OuterManager for Flux {
    fn title(&self) -> &'static str {
        "Flux"
    }

    async fn order(&self, order: &Order) -> Result<String, OrderError> {
        let written = self.files.write(&order.name, &order.invitation);
        let file = written.map_err(|error| OrderError::Refused(error.to_string()))?;
        let words = words(order, &file.display().to_string());
        let printed = Program { words, input: "", env: Vec::new(), limit: ASKING }.run().await;
        // It has become a part of the job.
        self.files.remove(&order.name);
        let printed = printed?;
        let id = printed.stdout.trim();
        if printed.status.success() && !id.is_empty() {
            return Ok(id.to_owned());
        }
        let text = said("flux submit", &printed);
        let lower = text.to_lowercase();
        match UNREACHABLE.iter().any(|words| lower.contains(words)) {
            true => Err(OrderError::Unclear(text)),
            false => Err(OrderError::Refused(text)),
        }
    }

    async fn look(&self, wanted: &[Wanted]) -> Result<Vec<Found>, ProgramError> {
        let jobs: Vec<&str> = wanted.iter().filter_map(|wanted| wanted.job.as_deref()).collect();
        let mut found = Vec::new();
        for jobs in jobs.chunks(AT_ONCE) {
            found.extend(list(jobs.iter().map(|job| (*job).to_owned())).await?);
        }
        for wanted in wanted.iter().filter(|wanted| wanted.job.is_none()) {
            let words = ["-a".to_owned(), format!("--name={}", wanted.name)];
            found.extend(list(words.into_iter()).await?);
        }
        Ok(found)
    }

    async fn cancel(&self, job: &str) -> Result<(), ProgramError> {
        let words = ["flux", "cancel", job].map(str::to_owned).into();
        let program = Program { words, input: "", env: Vec::new(), limit: ASKING };
        program.output().await.map(drop)
    }
}

/// The words of the submission. What the table says stands between what it may change and what it may not.
fn words(order: &Order, file: &str) -> Vec<String> {
    let mut words = vec![
        "flux".to_owned(),
        "submit".to_owned(),
        format!("--cores-per-task={}", order.cores),
        // A node that ends first must not end the others.
        "-oexit-timeout=none".to_owned(),
    ];
    if order.gpus > 0 {
        words.push(format!("--gpus-per-task={}", order.gpus));
    }
    words.extend(order.options.iter().cloned());
    words.extend([
        format!("--job-name={}", order.name),
        format!("--nodes={}", order.nodes),
        format!("--ntasks={}", order.nodes),
        format!("--add-file=invitation:0600={file}"),
    ]);
    words.extend(order.time_limit.map(|seconds| format!("--time-limit={seconds}s")));
    words.extend(
        [script::program().as_str(), "allocation", "join", "{{tmpdir}}/invitation"]
            .map(str::to_owned),
    );
    words
}

/// What Flux says about these jobs.
async fn list(words: impl Iterator<Item = String>) -> Result<Vec<Found>, ProgramError> {
    let first = ["flux", "jobs", "--no-header"].map(str::to_owned);
    let format = format!("--format={FORMAT}");
    let words = first.into_iter().chain([format]).chain(words).collect();
    let printed = Program { words, input: "", env: Vec::new(), limit: ASKING }.output().await?;
    let lines = printed.lines().filter(|line| !line.trim().is_empty());
    lines
        .map(|line| {
            read(line).ok_or_else(|| ProgramError::Unreadable {
                program: "flux jobs".to_owned(),
                line: line.to_owned(),
            })
        })
        .collect()
}

/// Reads a line of `flux jobs`.
pub(super) fn read(line: &str) -> Option<Found> {
    let mut fields = line.trim().splitn(6, '|');
    let (job, state, status) = (fields.next()?, fields.next()?, fields.next()?);
    let (end, name, note) = (fields.next()?, fields.next()?, fields.next()?.trim());
    let state = match state {
        "RUN" => OuterState::Runs(end.parse().ok().filter(|end| *end > 0.0)),
        "CLEANUP" if status == "CLEANUP" => OuterState::Ending(status.to_owned()),
        "CLEANUP" | "INACTIVE" if note.is_empty() => OuterState::Ended(status.to_owned()),
        "CLEANUP" | "INACTIVE" => OuterState::Ended(format!("{status} ({note})")),
        waits => OuterState::Waits(waits.to_owned()),
    };
    Some(Found { name: name.to_owned(), job: job.to_owned(), state })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_job_has_a_task_on_each_node() {
        let order = Order {
            name: "jobtap-ab-3".to_owned(),
            options: vec!["--queue=debug".to_owned()],
            nodes: 2,
            cores: 8,
            gpus: 1,
            time_limit: Some(90.0),
            invitation: String::new(),
        };
        let words = words(&order, "/s/x").join(" ");
        let begin = "flux submit --cores-per-task=8 -oexit-timeout=none --gpus-per-task=1 --queue=debug \
                     --job-name=jobtap-ab-3 --nodes=2 --ntasks=2 --add-file=invitation:0600=/s/x --time-limit=90s ";
        assert!(words.starts_with(begin), "{words}");
        assert!(words.ends_with(" allocation join {{tmpdir}}/invitation"), "{words}");
    }

    #[test]
    fn a_line_of_flux_jobs_says_how_far_a_job_has_come() {
        let state = |line: &str| read(line).map(|found| found.state);
        assert_eq!(state("f1|SCHED|SCHED|0.0|x|"), Some(OuterState::Waits("SCHED".to_owned())));
        assert_eq!(state("f1|RUN|RUN|9.5|x|"), Some(OuterState::Runs(Some(9.5))));
        assert_eq!(state("f1|RUN|RUN|0.0|x|"), Some(OuterState::Runs(None)));
        let ended = |text: &str| Some(OuterState::Ended(text.to_owned()));
        assert_eq!(state("f1|INACTIVE|TIMEOUT|9|x|a|b"), ended("TIMEOUT (a|b)"));
        assert_eq!(state("f1|CLEANUP|COMPLETED|9|x|"), ended("COMPLETED"));
        assert_eq!(state("flux-jobs: x"), None);
    }
}
