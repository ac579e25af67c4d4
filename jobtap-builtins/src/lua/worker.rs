//! Runs a script's calls one after the other, in the order of the requests, on threads of the host.
//!
//! A call is put into a queue, and its thread then runs the queue, unless another thread does already. So no
//! thread waits for another, and at most one runs the script.
//!
//! Nearly all that a script does ends with its limits. What doesn't, such as opening a pipe that has no
//! writer, keeps its thread for ever: such a call is refused, its thread is given up with its script, and the
//! script is loaded anew for those that follow.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use jobtap_core::slurm::{JobDescriptor, JobRecord};

use super::native::{Surroundings, lock};
use super::script::{LoadError, Options, Script, Verdict};

/// A request that waits for the script.
#[derive(Debug)]
pub(super) struct Request {
    pub(super) description: JobDescriptor,
    /// The job that is to be changed; `None` for a submission.
    pub(super) job: Option<JobRecord>,
    pub(super) surroundings: Surroundings,
    pub(super) uid: u32,
}

/// What the script has made of a request.
pub(super) type Answer = Result<(Verdict, JobDescriptor), Refused>;

/// Why the script was not asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the script doesn't end")]
    Stuck,
    #[error("the script has not ended before, and can't be loaded anew: {0}")]
    NotLoaded(String),
    #[error("the script was removed")]
    Gone,
}

/// A place to which a thread brings an answer.
pub(super) trait Reply: Send {
    /// Whether the answer is no longer awaited.
    fn is_gone(&self) -> bool;
    fn send(self: Box<Self>, answer: Answer);
}

/// The number of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket(u64);

/// A script and the requests that wait for it.
pub(super) struct Worker {
    path: PathBuf,
    options: Options,
    queue: Mutex<Queue>,
    mentions_jobs: AtomicBool,
}

struct Queue {
    waiting: VecDeque<(Ticket, Request, Box<dyn Reply>)>,
    last: u64,
    /// The call that runs, and when it began.
    running: Option<(Ticket, Instant)>,
    /// Changes when a thread is given up.
    generation: u64,
    script: Option<Arc<Mutex<Script>>>,
}

/// How much longer than its time limit a call may take before it counts as stuck.
const GRACE: Duration = Duration::from_secs(5);

/// How many threads are given up before no request is accepted any more.
const MOST_STUCK: u64 = 2;

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Worker {
    pub(super) fn new(path: PathBuf, options: Options, script: Script) -> Self {
        let mentions_jobs = AtomicBool::new(script.mentions_jobs());
        let queue = Queue {
            waiting: VecDeque::new(),
            last: 0,
            running: None,
            generation: 0,
            script: Some(Arc::new(Mutex::new(script))),
        };
        Self { path, options, queue: Mutex::new(queue), mentions_jobs }
    }

    /// Whether the script may read `slurm.jobs`, so that a request must come with them.
    pub(super) fn mentions_jobs(&self) -> bool {
        self.mentions_jobs.load(Ordering::Relaxed)
    }

    /// Puts a request at the end of the queue. [`run`](Self::run) must be called afterwards.
    pub(super) fn put(&self, request: Request, reply: Box<dyn Reply>) -> Ticket {
        let mut queue = lock(&self.queue);
        queue.last += 1;
        let ticket = Ticket(queue.last);
        queue.waiting.push_back((ticket, request, reply));
        ticket
    }

    /// Runs all requests of the queue, unless another thread does.
    pub(super) fn run(&self) {
        let generation = lock(&self.queue).generation;
        loop {
            let (ticket, request, reply, script) = {
                let mut queue = lock(&self.queue);
                if queue.running.is_some() || queue.generation != generation {
                    return;
                }
                let Some((ticket, request, reply)) = queue.waiting.pop_front() else { return };
                if reply.is_gone() {
                    continue;
                }
                queue.running = Some((ticket, Instant::now()));
                (ticket, request, reply, queue.script.clone())
            };
            let answer = self.answer(request, script);
            {
                let mut queue = lock(&self.queue);
                if queue.generation != generation {
                    return;
                }
                if queue.running.is_some_and(|(running, _)| running == ticket) {
                    queue.running = None;
                }
            }
            reply.send(answer);
        }
    }

    fn answer(&self, request: Request, script: Option<Arc<Mutex<Script>>>) -> Answer {
        let script = match script {
            Some(script) => script,
            None => self.load()?,
        };
        let mut script = lock(&script);
        let Request { mut description, job, surroundings, uid } = request;
        let verdict = match job {
            None => script.submit(&mut description, surroundings, uid),
            Some(job) => script.modify(&mut description, job, surroundings, uid),
        };
        self.mentions_jobs.store(script.mentions_jobs(), Ordering::Relaxed);
        Ok((verdict, description))
    }

    /// Loads the script again after its thread was given up.
    fn load(&self) -> Result<Arc<Mutex<Script>>, Refused> {
        if lock(&self.queue).generation > MOST_STUCK {
            return Err(Refused::Stuck);
        }
        let failed = |error: LoadError| Refused::NotLoaded(error.to_string());
        let script = Script::load(&self.path, self.options.clone(), &mut Vec::new());
        let script = Arc::new(Mutex::new(script.map_err(failed)?));
        lock(&self.queue).script = Some(Arc::clone(&script));
        Ok(script)
    }

    /// Gives the running thread up if it has taken far too long. Returns whether it was this call's, which
    /// then has no answer. [`run`](Self::run) must be called afterwards.
    pub(super) fn give_up(&self, ticket: Ticket) -> bool {
        let mut queue = lock(&self.queue);
        let most = self.options.limits.time.saturating_add(GRACE);
        let Some((running, began)) = queue.running else { return false };
        if began.elapsed() <= most {
            return false;
        }
        queue.generation += 1;
        queue.running = None;
        queue.script = None;
        running == ticket
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, Sender, channel};

    use super::super::limits::Limits;
    use super::*;

    struct To(Sender<Answer>, bool);

    impl Reply for To {
        fn is_gone(&self) -> bool {
            self.1
        }

        fn send(self: Box<Self>, answer: Answer) {
            let _ = self.0.send(answer);
        }
    }

    fn worker(directory: &tempfile::TempDir, text: &str) -> Worker {
        let path = directory.path().join("job_submit.lua");
        let text = format!("{text}\nfunction slurm_job_modify() return 0 end");
        std::fs::write(&path, text).unwrap();
        let limits = Limits { time: Duration::ZERO, ..Limits::default() };
        let script = Script::load(&path, Options::default(), &mut Vec::new()).unwrap();
        Worker::new(path, Options { limits, ..Options::default() }, script)
    }

    fn put(worker: &Worker, name: &str, gone: bool) -> (Ticket, Receiver<Answer>) {
        let (sender, receiver) = channel();
        let description = JobDescriptor { name: Some(name.to_owned()), ..JobDescriptor::default() };
        let surroundings = Surroundings::default();
        let request = Request { description, job: None, surroundings, uid: 0 };
        (worker.put(request, Box::new(To(sender, gone))), receiver)
    }

    const COUNT: &str =
        "n = 0 function slurm_job_submit(job_desc) n = n + 1 job_desc.comment = n return 0 end";

    #[test]
    fn requests_are_answered_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        let puts = [put(&worker, "a", false), put(&worker, "b", true), put(&worker, "c", false)];
        worker.run();
        let comment = |receiver: &Receiver<Answer>| {
            receiver.try_recv().ok().map(|answer| answer.unwrap().1.comment.unwrap())
        };
        let comments: Vec<_> = puts.iter().map(|(_, receiver)| comment(receiver)).collect();
        // A call whose answer is no longer awaited is not run.
        assert_eq!(comments, [Some("1".to_owned()), None, Some("2".to_owned())]);
    }

    #[test]
    fn a_thread_that_does_not_end_is_given_up() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        let (ticket, _receiver) = put(&worker, "a", false);
        let (_, second) = put(&worker, "b", false);
        assert!(!worker.give_up(ticket));
        {
            let mut queue = lock(&worker.queue);
            queue.waiting.pop_front();
            let began = Instant::now().checked_sub(Duration::from_secs(60)).unwrap();
            queue.running = Some((ticket, began));
        }
        worker.run();
        assert!(second.try_recv().is_err());
        assert!(worker.give_up(ticket));
        worker.run();
        // Of a fresh script.
        assert_eq!(second.try_recv().unwrap().unwrap().1.comment.as_deref(), Some("1"));
    }

    #[test]
    fn a_script_that_is_never_gone_and_can_not_be_loaded_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        lock(&worker.queue).script = None;
        std::fs::remove_file(&worker.path).unwrap();
        let (_, receiver) = put(&worker, "a", false);
        worker.run();
        let refused = receiver.try_recv().unwrap().unwrap_err();
        assert!(matches!(refused, Refused::NotLoaded(_)), "{refused}");
        lock(&worker.queue).generation = MOST_STUCK + 1;
        let (_, receiver) = put(&worker, "b", false);
        worker.run();
        assert_eq!(receiver.try_recv().unwrap().unwrap_err(), Refused::Stuck);
    }
}
