//! `scancel`: cancels or signals jobs by Slurm's ids and options.

use std::fmt::Display;
use std::process::ExitCode;

use jobtap_core::job::{JobId, Reach, Signal, State, StateSet};
use jobtap_core::resource::Idset;
use jobtap_core::slurm::JobDescriptor;
use serde_json::Value;

use super::job_line::{JobLine, JobState, display, lines, states};
use super::names::{print_version, split, uids};
use super::squeue::named;
use crate::cli::common::arrays::{Named, jobspecs};
use crate::cli::common::message::CliError;
use crate::cli::common::session;
use crate::cli::common::usage::Family;
use crate::client::Client;
use crate::rpc::service::Service;
use crate::rpc::services::job_list::{ALL, Constraint, List};
use crate::rpc::services::job_manager::Kill;

const COMMAND: &str = "scancel";

/// Options and arguments of `scancel`.
#[derive(Debug, clap::Args)]
#[command(
    infer_long_args = true,
    after_help = "Left out: single steps (ID.STEP), -i, --sibling, reservations and clusters."
)]
pub(crate) struct ScancelArgs {
    /// Print the version
    #[arg(short = 'V', long)]
    version: bool,
    /// Only jobs of these accounts
    #[arg(short = 'A', long, value_name = "ACCOUNT,..")]
    account: Option<String>,
    /// Signal the shell of a batch script alone: with SIGKILL unless --signal says otherwise
    #[arg(short = 'b', long)]
    batch: bool,
    /// With --signal: to a batch script and all that it has started, not only to its steps
    #[arg(short = 'f', long)]
    full: bool,
    /// Only the user's own jobs
    #[arg(long)]
    me: bool,
    /// Only jobs with these names
    #[arg(short = 'n', long, alias = "jobname", value_name = "NAME,..")]
    name: Option<String>,
    /// Only jobs on these hosts
    #[arg(short = 'w', long, value_name = "HOSTS")]
    nodelist: Option<String>,
    /// Only jobs of these partitions
    #[arg(short = 'p', long, value_name = "PARTITION,..")]
    partition: Option<String>,
    /// Only jobs with these qualities of service
    #[arg(short = 'q', long, value_name = "QOS,..")]
    qos: Option<String>,
    /// Print nothing about jobs that have ended
    #[arg(short = 'Q', long)]
    quiet: bool,
    /// Send this signal instead of canceling
    #[arg(short = 's', long, value_name = "SIGNAL")]
    signal: Option<Signal>,
    /// Only jobs in this state: PENDING or RUNNING
    #[arg(short = 't', long, value_name = "STATE")]
    state: Option<String>,
    /// Only jobs of these users
    #[arg(short = 'u', long, value_name = "USER,..")]
    user: Option<String>,
    /// Name the jobs
    #[arg(short = 'v', long, action = clap::ArgAction::Count)]
    verbose: u8,
    /// ID, or ID_3, ID_[1-4] of an array
    #[arg(value_name = "ID")]
    ids: Vec<String>,
}

/// Runs the command.
pub(crate) fn run(args: ScancelArgs) -> ExitCode {
    if args.version {
        return print_version(COMMAND);
    }
    session::with_manager(COMMAND, Family::Slurm, |client| async move {
        let named = named(&args.ids)?;
        if named.is_empty() && !args.selects() {
            return Err(CliError::failure("No job identification provided"));
        }
        let (chosen, missing) = match args.selects() {
            true => (args.selected(&client, &named).await?, false),
            false => args.active(&client, named).await,
        };
        if args.verbose > 0 {
            for named in &chosen {
                session::print_message(&format!("{COMMAND}: Terminating job {named}"));
            }
        }
        let failed = match args.signal() {
            None => {
                let mut failed = false;
                for named in &chosen {
                    if let Err(error) = named.cancel(String::new()).send(&client).await {
                        print_failure(named, &error.to_string());
                        failed = true;
                    }
                }
                failed
            }
            Some((signal, reach)) => {
                let mut ids = Vec::new();
                for named in &chosen {
                    match named.indexes() {
                        // The manager sends a signal for an array to all of its elements that run.
                        None => ids.push(named.id),
                        Some(_) => {
                            let found = named.found(&client, true).await?.unwrap_or_default();
                            ids.extend(found.jobs.into_values());
                        }
                    }
                }
                let signum = signal.number().into();
                let (mut requests, mut failed) = (Vec::new(), false);
                for (id, reach) in ids.iter().zip(reaches(&client, &ids, reach).await) {
                    match reach {
                        Ok(reach) => requests.push((*id, Kill { id: *id, signum, reach })),
                        Err(error) => {
                            print_failure(&id.as_u64(), &error.text);
                            failed = true;
                        }
                    }
                }
                failures(&client, requests).await || failed
            }
        };
        Ok(u8::from(failed || missing))
    })
}

/// Which processes of each job get a signal that is to reach these.
async fn reaches(client: &Client, ids: &[JobId], reach: Reach) -> Vec<Result<Reach, CliError>> {
    if reach != Reach::Steps {
        return vec![Ok(reach); ids.len()];
    }
    jobspecs(client, ids).await.into_iter().map(reach_of_steps).collect()
}

/// Which processes are the steps of a job: a job that is no batch script is its own step. One whose jobspec can't be
/// read gets no signal, since its shell might be among those that it would reach.
fn reach_of_steps(jobspec: Result<Value, CliError>) -> Result<Reach, CliError> {
    let is_batch = JobDescriptor::from_jobspec(&jobspec?).script.is_some();
    Ok(if is_batch { Reach::Steps } else { Reach::Group })
}

/// Sends the requests for jobs, and prints the refusals. Returns true if there were any.
async fn failures<S: Service>(client: &Client, requests: Vec<(JobId, S)>) -> bool {
    let (ids, requests): (Vec<JobId>, Vec<S>) = requests.into_iter().unzip();
    let mut failed = false;
    for (id, response) in ids.into_iter().zip(client.call_all(requests).await) {
        if let Err(error) = response {
            print_failure(&id.as_u64(), &error.to_string());
            failed = true;
        }
    }
    failed
}

fn print_failure(id: &dyn Display, error: &str) {
    let text = format!("Kill job error on job id {id}: {error}");
    session::print_error(COMMAND, Family::Slurm, &text);
}

/// Whether a job may be active. One that isn't known is refused by the manager.
fn is_active(state: Option<State>) -> bool {
    state != Some(State::Inactive)
}

impl ScancelArgs {
    /// The signal that is sent, and to which processes of a batch job; `None` to cancel the jobs. As in Slurm, -f goes
    /// before -b.
    fn signal(&self) -> Option<(Signal, Reach)> {
        match (self.signal, self.full, self.batch) {
            (signal, false, true) => Some((signal.unwrap_or(Signal::KILL), Reach::Task)),
            (None | Some(Signal::KILL), ..) => None,
            (Some(signal), true, _) => Some((signal, Reach::Group)),
            (Some(signal), false, false) => Some((signal, Reach::Steps)),
        }
    }

    /// Whether options select jobs.
    fn selects(&self) -> bool {
        let lists = [
            &self.account,
            &self.name,
            &self.nodelist,
            &self.partition,
            &self.qos,
            &self.state,
            &self.user,
        ];
        self.me || lists.iter().any(|list| list.is_some())
    }

    /// The jobs that the options select, among those that are named if there are any.
    async fn selected(&self, client: &Client, named: &[Named]) -> Result<Vec<Named>, CliError> {
        let states = match self.state.as_deref().map(|word| (word, JobState::named(word))) {
            None => StateSet::ACTIVE,
            Some((_, Some(JobState::Pending))) => StateSet::PENDING,
            Some((_, Some(JobState::Running))) => StateSet::RUNNING,
            Some((other, _)) => {
                let text = format!("Invalid job state specified: {other}; use PENDING or RUNNING");
                return Err(CliError::failure(text));
            }
        };
        let mut constraints = vec![Constraint::States(vec![states.state_bits().into()])];
        // As in Slurm, a user who isn't an administrator means their own jobs.
        let own = rustix::process::getuid().as_raw();
        match (&self.user, self.me || own != 0) {
            (Some(users), _) => {
                constraints.push(Constraint::Userid(uids(users, &display().users)?))
            }
            (None, true) => constraints.push(Constraint::Userid(vec![own])),
            (None, false) => {}
        }
        if let Some(names) = &self.name {
            constraints.push(Constraint::Name(split(names)));
        }
        if let Some(hosts) = &self.nodelist {
            constraints.push(Constraint::Hostlist(vec![hosts.clone()]));
        }
        let constraint: Value = Constraint::And(constraints).into();
        let list = List {
            max_entries: Some(0),
            constraint: Some(constraint),
            attrs: ALL,
            arrays: true,
            since: None,
        };
        let jobs = lines(client, client.call(list).await?.jobs).await?;
        let in_list = |list: &Option<String>, text: &str| {
            list.as_ref().is_none_or(|list| split(list).iter().any(|word| word == text))
        };
        let chosen = |job: &&JobLine| {
            in_list(&self.partition, &job.partition())
                && in_list(&self.account, job.row.text("bank"))
                && in_list(&self.qos, &job.asked(|desc| desc.qos.clone()))
        };
        // The jobs, and the pending elements of arrays, as far as they are among those that are named.
        let among = |job: &JobLine| {
            if job.pending.is_empty() {
                let is_named = named.is_empty()
                    || named.iter().any(|named| named.means(job.row.id, job.place));
                return is_named.then(|| Named::job(job.row.id));
            }
            let mut elements = Idset::new();
            for named in named.iter().filter(|named| named.id == job.row.id) {
                let own = named.indexes().map(|indexes| job.pending.intersection(indexes));
                elements = elements.union(own.as_ref().unwrap_or(&job.pending));
            }
            let all = if named.is_empty() { job.pending.clone() } else { elements };
            (!all.is_empty()).then(|| Named::elements(job.row.id, all))
        };
        Ok(jobs.iter().filter(chosen).filter_map(among).collect())
    }

    /// The named jobs that are active, and whether an array doesn't have a named job. As in Slurm, a job that has ended
    /// is only worth a message.
    async fn active(&self, client: &Client, named: Vec<Named>) -> (Vec<Named>, bool) {
        let (mut active, mut failed) = (Vec::new(), false);
        for named in named {
            match self.is_left(client, &named).await {
                Ok(true) => active.push(named),
                Ok(false) if self.quiet => {}
                Ok(false) => {
                    let text = format!(
                        "Kill job error on job id {named}: Job/step already completing or completed"
                    );
                    session::print_error(COMMAND, Family::Slurm, &text);
                }
                Err(error) => {
                    session::print_error(COMMAND, Family::Slurm, &error.text);
                    failed = true;
                }
            }
        }
        (active, failed)
    }

    /// Whether something that is named is left to be canceled.
    async fn is_left(&self, client: &Client, named: &Named) -> Result<bool, CliError> {
        let Some(jobs) = named.found(client, true).await? else {
            return Ok(is_active(states(client, &[named.id]).await.pop().flatten()));
        };
        if !jobs.jobs.is_empty() {
            return Ok(true);
        }
        Ok(!named.waiting(client).await?.is_empty())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_jobs_that_are_known_not_to_be_scripts_are_signaled_as_a_whole() {
        let request =
            JobDescriptor { script: Some("#!/bin/sh\n".to_owned()), ..JobDescriptor::default() };
        let script = request.to_jobspec().unwrap();
        assert_eq!(reach_of_steps(Ok(script)).ok(), Some(Reach::Steps));
        assert_eq!(reach_of_steps(Ok(json!({}))).ok(), Some(Reach::Group));
        let refused = reach_of_steps(Err(CliError::failure("may not be read")));
        assert_eq!(refused.unwrap_err().text, "may not be read");
    }
}
