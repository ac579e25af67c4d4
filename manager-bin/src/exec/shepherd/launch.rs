//! Starts a job, or hands one that is known already to the manager that asks for it.

use jobtap_core::job::{Encoding, JobId};
use tokio::sync::mpsc::UnboundedSender;

use super::input::JobInput;
use super::job::Job;
use super::reap::kill_group;
use super::spawn::{Launcher, SpawnError, Spawned};
use super::taskio::{JobIo, plain};
use super::{Message, Shepherd, capture};
use crate::exec::protocol::{Reply, decode_data};
use crate::exec::{ExecEvent, SHEPHERD_LOST, StartJob};

impl Shepherd {
    /// Serves a start request. A job is started once, however often it is asked for.
    pub(super) fn start_or_attach(&mut self, mut start: StartJob) {
        let outbox = self.outbox();
        if let Some(known) = self.jobs.get_mut(&start.id) {
            known.attach(outbox, start.reattach, start.seen);
            return;
        }
        if start.reattach {
            self.report_lost(&start);
            return;
        }
        self.shutdown = false;
        let mut job = Job::new(&start, outbox);
        job.log("init", None);
        job.log("starting", None);
        if let Err(note) = self.launch(&mut start, &mut job) {
            job.fail(note);
            kill_group(&job);
        }
        self.jobs.insert(start.id, job);
        self.end_if_done(start.id);
    }

    fn report_lost(&self, start: &StartJob) {
        let id = start.id;
        let Some(outbox) = self.outbox() else { return };
        if !start.seen.finished {
            let note = "job is lost: the shepherd that ran it is gone".to_owned();
            let event = ExecEvent::Lost { id, note, reason: SHEPHERD_LOST.to_owned() };
            let _ = outbox.send(Reply::Event(event));
        }
        let _ = outbox.send(Reply::Event(ExecEvent::Released { id, last: true }));
    }

    /// Starts all tasks. The error is for the user.
    fn launch(&mut self, start: &mut StartJob, job: &mut Job) -> Result<(), String> {
        let own = rustix::process::geteuid().as_raw();
        if start.userid != own {
            return Err(format!("cannot run a job of user {} as user {own}", start.userid));
        }
        let Self { nonce, limits, state_dir, job_dirs, tasks, inbox, .. } = self;
        job.dir = job_dirs.make(start)?;
        start.tmpdir = job.dir.as_ref().map(|dir| dir.path().to_owned());
        let launcher = Launcher::new(start, nonce, limits);
        launcher.check()?;
        let io = JobIo::prepare(start, state_dir)?;
        if io.takes_input() || io.input_file().is_some() {
            let path =
                self.state_dir.join("input").join(JobId::new(start.id).encode(Encoding::DotHex));
            let mut input = JobInput::create(&path, start.ntasks).map_err(cannot_keep)?;
            if let Some(file) = io.input_file() {
                input.redirect(&file.to_string_lossy()).map_err(cannot_keep)?;
            }
            job.input = Some(input);
        }
        for rank in 0..start.ntasks {
            match launcher.spawn(rank, &io, job.group) {
                Ok(spawned) => {
                    // Before anything else can fail: what runs must be known.
                    tasks.insert(spawned.pid, start.id);
                    job.running.push((spawned.pid, rank));
                    job.group.get_or_insert(spawned.pid);
                    connect(rank, spawned, job, inbox)?;
                }
                Err(SpawnError::System(text)) => return Err(format!("task {rank}: {text}")),
                Err(SpawnError::Command { exit_code, message }) => {
                    io.announce().map_err(cannot_write)?;
                    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
                    let note = format!("task {rank} (host {host}): start failed: {message}");
                    job.command_failed(exit_code, note);
                    kill_group(job);
                    return Ok(());
                }
            }
        }
        io.announce().map_err(cannot_write)?;
        job.started();
        job.tasks_started();
        Ok(())
    }

    /// Serves a request with input.
    pub(super) fn add_input(&mut self, id: u64, rank: Option<u32>, data: &str, eof: bool) {
        let Some(job) = self.jobs.get_mut(&id) else {
            return;
        };
        let Some(input) = &mut job.input else { return };
        let Ok(data) = decode_data(data) else { return };
        if let Err(error) = input.add(rank, &data, eof) {
            job.inform(format!("input lost: {}", plain(&error)));
        }
    }
}

fn cannot_write(error: std::io::Error) -> String {
    format!("cannot write output: {}", plain(&error))
}

fn cannot_keep(error: std::io::Error) -> String {
    format!("cannot keep the input: {}", plain(&error))
}

/// Begins to carry a task's input and output.
fn connect(
    rank: u32,
    spawned: Spawned,
    job: &mut Job,
    inbox: &UnboundedSender<Message>,
) -> Result<(), String> {
    for stream in spawned.captures {
        let pump = capture::start(job.id, stream, inbox)
            .map_err(|error| format!("task {rank}: cannot capture output: {}", plain(&error)))?;
        job.pumps.push(pump);
        job.open_streams += 1;
    }
    if let (Some(input), Some(pipe)) = (&job.input, spawned.input) {
        let pump = input
            .serve(rank, pipe)
            .map_err(|error| format!("task {rank}: cannot pass input: {}", plain(&error)))?;
        job.pumps.push(pump);
    }
    Ok(())
}
