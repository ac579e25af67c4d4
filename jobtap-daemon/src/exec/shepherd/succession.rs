//! A forker takes the place of its shepherd, which has died.
//!
//! The forker is the parent of the tasks and has the shepherd's ends of their streams, so their jobs go on: what they
//! print from then on is kept, and their statuses are known. What was only in the memory of the dead shepherd is lost:
//! output that it hadn't written yet, and the wireup of MPI programs that was not complete.
//!
//! A job is lost if not all of its tasks were started, or if its tasks were children of the dead shepherd because an
//! earlier forker had started them. The processes left by lost jobs are found by the [token](super::pids::token)
//! in their environment, and killed.

use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;

use jobtap_core::job::{JobId, Reach, TaskMap};
use rustix::process::Signal;

use super::forker::{ForkedJob, ForkedJobs};
use super::job::Job;
use super::job_user::JobUser;
use super::pids::signals::signal_task;
use super::placement::{own_tasks, task_map};
use super::start_error::StartError;
use super::state::Shepherd;
use super::streams::input::JobInput;
use super::streams::options::{ExitOptions, Input, IoOptions};
use super::streams::taskio::JobIo;
use crate::exec::StartJob;
use crate::stderr;

/// The variable that decides how ids of jobs are written in names of files.
const STYLE_OF_IDS: &str = "FLUX_F58_FORCE_ASCII";

/// What a successor has to know about a job. `None` if it can't be written.
pub(super) fn record(start: &StartJob) -> Option<String> {
    let style = start.env.iter().find(|(name, _)| name == STYLE_OF_IDS);
    let record = StartJob {
        userid: start.userid,
        account: start.account.clone(),
        command: start.command.clone(),
        ntasks: start.ntasks,
        cwd: start.cwd.clone(),
        env: style.cloned().into_iter().collect(),
        shell_options: start.shell_options.clone(),
        name: start.name.clone(),
        queue: start.queue.clone(),
        element: start.element,
        nodes: start.nodes.clone(),
        part: start.part,
        kill: start.kill,
        output_limit: start.output_limit,
        takes_output: start.takes_output,
        after: start.after,
        ..StartJob::new(start.id)
    };
    serde_json::to_string(&record).ok()
}

/// A job with its task map, and its user.
struct Mapped {
    start: StartJob,
    job_user: JobUser,
}

impl Mapped {
    fn new(mut start: StartJob) -> Self {
        let job_user = JobUser::for_job(&start).unwrap_or_default();
        let counts: Vec<u32> = start.nodes.iter().map(|node| node.ntasks).collect();
        // A map may be in a file of the user, which may be gone.
        let mapped = job_user.try_act(|| Ok::<_, StartError>(task_map(&start)?));
        start.taskmap = mapped.unwrap_or_else(|_| TaskMap::block(&counts));
        Self { start, job_user }
    }
}

impl Shepherd {
    /// Takes over the jobs of the dead shepherd.
    pub(super) fn take_over(&mut self, forked: ForkedJobs) {
        self.is_successor = true;
        stderr::line("shepherd: it takes the place of another one, which has died");
        for (id, forked) in forked.jobs {
            let start = forked.record.as_deref();
            let start = start.and_then(|record| serde_json::from_str::<StartJob>(record).ok());
            let started = forked.tasks.len();
            let mapped = start.map(Mapped::new);
            match mapped.filter(|mapped| usize::try_from(own_tasks(&mapped.start)) == Ok(started)) {
                Some(mapped) => self.inherit(id, mapped, forked),
                // The tasks become orphans of a job that has a claim but no record.
                None => {
                    for task in forked.tasks.iter().filter(|task| task.status.is_none()) {
                        signal_task(task.pid, Signal::KILL, Reach::Group);
                    }
                }
            }
        }
    }

    fn inherit(&mut self, id: JobId, Mapped { start, job_user }: Mapped, forked: ForkedJob) {
        let mut job = Job::running(&start);
        job.dir = self.job_dirs.find(id);
        job.set_exit_options(ExitOptions::parse(&start.shell_options).unwrap_or_default());
        let takes_input = IoOptions::parse(&start.shell_options)
            .is_ok_and(|options| options.input == Input::Service);
        if takes_input {
            let file = self.input.reopen(id).ok();
            let input = JobInput::resumed(file, id, start.ntasks, self.inbox.clone());
            job.streams.input = Some(input);
        }
        let helpers = self.helpers.get(start.userid);
        let io = JobIo::reopen(&start, &job_user, job.streams.helpers(helpers), &self.output);
        job.streams.output = io.as_ref().ok().map(JobIo::log);
        let mut exited = Vec::new();
        for task in forked.tasks {
            job.tasks.add(task.pid, task.rank);
            match task.status {
                Some(status) => exited.push((task.pid, ExitStatus::from_raw(status))),
                None => drop(self.tasks.insert(task.pid, id)),
            }
            let lost = match &io {
                Ok(io) => io
                    .resume(&start, task.rank, task.ends)
                    .and_then(|ends| job.streams.start(id, task.rank, ends, helpers, &self.inbox))
                    .err()
                    .map(|error| error.to_string()),
                Err(error) => Some(error.to_string()),
            };
            if let Some(why) = lost {
                job.journal.inform(format!("task {}: output lost: {why}", task.rank));
            }
        }
        let mut timeout = None;
        for (pid, status) in exited {
            timeout = timeout.or(job.task_exited(pid, status));
        }
        self.jobs.insert(id, job);
        self.time_others(id, timeout);
        self.end_if_done(id);
    }
}
