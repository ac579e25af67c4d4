//! Runs a script's calls one after the other, in the order of the requests, on threads of the host.
//!
//! A request is put into a queue; if no thread is running the queue and none has been asked for yet, one is asked for.
//! So no thread waits for another, and at most one runs the script.
//!
//! The limits stop nearly everything that a script does. A call that they don't stop, such as a read from a
//! file system that hangs, blocks its thread forever: the call is refused, its thread is given up with its
//! script, and the script is loaded anew for later calls. While three such threads hang, no request is
//! accepted.

use std::collections::VecDeque;
use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use futures_channel::oneshot;
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

/// The script's verdict on a request, and the request as the script has changed it.
pub(super) type Answer = Result<(Verdict, JobDescriptor), Refused>;

/// Why the script has not answered.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error("the script doesn't end")]
    Stuck,
    #[error(
        "the script isn't asked any more, since {MOST_STUCK} calls of it hang: mend it, and load the plugin again \
         (jobtap plugin reload lua)"
    )]
    GivenUp,
    #[error("the script can't be asked now: {0}")]
    NoThread(String),
    #[error("the script has not ended before, and can't be loaded anew: {0}")]
    NotLoaded(String),
    #[error("the script was removed")]
    Gone,
}

/// Where a thread sends the answer to a request.
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
    serving: Serving,
    /// Incremented when a thread is given up.
    generation: u64,
    /// The number of threads that were given up and still hang.
    stuck: u64,
    /// Dropped when the thread is given up.
    thread: Option<oneshot::Sender<()>>,
    script: Option<Arc<Mutex<Script>>>,
}

/// Whether a thread runs the waiting requests.
enum Serving {
    /// No thread runs them.
    No,
    /// A thread was asked for, at this time.
    Asked(Instant),
    /// A thread is between two calls.
    Between,
    /// A thread runs this call, which has begun at this time.
    Call(Ticket, Instant),
}

/// A request to the host for a thread that runs the queue.
pub(super) struct Errand {
    generation: u64,
    /// Completes when the thread is given up: nothing must wait for the thread any more.
    pub(super) given_up: oneshot::Receiver<()>,
}

/// How much longer than its time limit a call may take before it counts as stuck.
const GRACE: Duration = Duration::from_secs(3);

/// How long the requests wait for a thread that runs them.
const LONGEST_WAIT: Duration = Duration::from_secs(10);

/// While this many threads that were given up still hang, no request is accepted.
const MOST_STUCK: u64 = 3;

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
            serving: Serving::No,
            generation: 0,
            stuck: 0,
            thread: None,
            script: Some(Arc::new(Mutex::new(script))),
        };
        Self { path, options, queue: Mutex::new(queue), mentions_jobs }
    }

    /// Whether the script may read `slurm.jobs`, so that a request must include the jobs.
    pub(super) fn mentions_jobs(&self) -> bool {
        self.mentions_jobs.load(Ordering::Relaxed)
    }

    /// Puts a request at the end of the queue. A thread must be [asked for](Self::ask_for_thread) afterwards.
    pub(super) fn put(&self, request: Request, reply: Box<dyn Reply>) -> Result<Ticket, Refused> {
        let mut queue = lock(&self.queue);
        if queue.stuck >= MOST_STUCK {
            return Err(Refused::GivenUp);
        }
        queue.last += 1;
        let ticket = Ticket(queue.last);
        queue.waiting.push_back((ticket, request, reply));
        Ok(ticket)
    }

    /// Asks for a thread that [runs](Self::run) the queue, unless there is one.
    pub(super) fn ask_for_thread(&self) -> Option<Errand> {
        let mut queue = lock(&self.queue);
        if queue.waiting.is_empty() || !matches!(queue.serving, Serving::No) {
            return None;
        }
        let (sender, given_up) = oneshot::channel();
        queue.serving = Serving::Asked(Instant::now());
        queue.thread = Some(sender);
        Some(Errand { generation: queue.generation, given_up })
    }

    /// Runs all requests of the queue, on the thread that this errand has asked for.
    pub(super) fn run(&self, generation: u64) {
        loop {
            let (request, reply, script) = {
                let mut queue = lock(&self.queue);
                if queue.generation != generation {
                    return;
                }
                let Some((ticket, request, reply)) = queue.waiting.pop_front() else {
                    queue.serving = Serving::No;
                    return;
                };
                if reply.is_gone() {
                    continue;
                }
                queue.serving = Serving::Call(ticket, Instant::now());
                (request, reply, queue.script.clone())
            };
            let answer = self.answer(request, script, generation);
            {
                let mut queue = lock(&self.queue);
                if queue.generation != generation {
                    // The call that was given up has returned after all.
                    queue.stuck = queue.stuck.saturating_sub(1);
                    return;
                }
                queue.serving = Serving::Between;
            }
            reply.send(answer);
        }
    }

    /// Refuses all waiting requests, since the host has no thread for the errand.
    pub(super) fn refuse(&self, generation: u64, reason: &str) {
        let mut queue = lock(&self.queue);
        if queue.generation == generation && matches!(queue.serving, Serving::Asked(_)) {
            queue.serving = Serving::No;
            let waiting = std::mem::take(&mut queue.waiting);
            drop(queue);
            refuse_all(waiting, &Refused::NoThread(reason.to_owned()));
        }
    }

    fn answer(
        &self,
        request: Request,
        script: Option<Arc<Mutex<Script>>>,
        generation: u64,
    ) -> Answer {
        let script = match script {
            Some(script) => script,
            None => self.load(generation)?,
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
    fn load(&self, generation: u64) -> Result<Arc<Mutex<Script>>, Refused> {
        let failed = |error: LoadError| Refused::NotLoaded(error.to_string());
        let script = Script::load(&self.path, self.options.clone(), &mut Vec::new());
        let script = Arc::new(Mutex::new(script.map_err(failed)?));
        let mut queue = lock(&self.queue);
        // Not stored if the thread was given up while it was loading.
        if queue.generation == generation {
            queue.script = Some(Arc::clone(&script));
        }
        Ok(script)
    }

    /// Gives the thread up if it has taken far too long. Returns whether it was running this call, which then
    /// gets no answer. A thread must be [asked for](Self::ask_for_thread) afterwards.
    pub(super) fn give_up(&self, ticket: Ticket) -> bool {
        let most = self.options.limits.time.saturating_add(GRACE);
        let mut queue = lock(&self.queue);
        let (was_at_it, reason) = match queue.serving {
            Serving::Call(running, began) if began.elapsed() > most => {
                queue.stuck += 1;
                queue.script = None;
                let given_up = (queue.stuck >= MOST_STUCK).then_some(Refused::GivenUp);
                (running == ticket, given_up)
            }
            Serving::Asked(since) if since.elapsed() > LONGEST_WAIT => {
                let text = format!("no thread has come free for {} s", LONGEST_WAIT.as_secs());
                (false, Some(Refused::NoThread(text)))
            }
            _ => return false,
        };
        queue.generation += 1;
        queue.serving = Serving::No;
        queue.thread = None;
        let refused = match reason {
            Some(reason) => Some((std::mem::take(&mut queue.waiting), reason)),
            None => None,
        };
        drop(queue);
        if let Some((waiting, reason)) = refused {
            refuse_all(waiting, &reason);
        }
        was_at_it
    }
}

impl Errand {
    /// The generation of the worker. A thread of an older generation was given up, and ends.
    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }
}

fn refuse_all(waiting: VecDeque<(Ticket, Request, Box<dyn Reply>)>, reason: &Refused) {
    for (_, _, reply) in waiting {
        reply.send(Err(reason.clone()));
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
        let ticket = worker.put(request(name), Box::new(To(sender, gone))).unwrap();
        (ticket, receiver)
    }

    fn request(name: &str) -> Request {
        let description = JobDescriptor { name: Some(name.to_owned()), ..JobDescriptor::default() };
        Request { description, job: None, surroundings: Surroundings::default(), uid: 0 }
    }

    /// Runs the queue as the plugin does, but on the test's own thread.
    fn run(worker: &Worker) {
        if let Some(errand) = worker.ask_for_thread() {
            worker.run(errand.generation());
        }
    }

    /// Makes a thread hang in the next call, until after the call's time limit.
    fn hang<'s>(
        scope: &'s std::thread::Scope<'s, '_>,
        worker: &'s Worker,
        release: Receiver<()>,
    ) -> std::thread::ScopedJoinHandle<'s, ()> {
        let script = lock(&worker.queue).script.clone();
        let script = script.unwrap_or_else(|| worker.load(lock(&worker.queue).generation).unwrap());
        let (locked, is_locked) = channel();
        scope.spawn(move || {
            let _script = lock(&script);
            locked.send(()).unwrap();
            let _ = release.recv();
        });
        is_locked.recv().unwrap();
        let errand = worker.ask_for_thread().unwrap();
        let thread = scope.spawn(move || worker.run(errand.generation()));
        loop {
            let mut queue = lock(&worker.queue);
            if let Serving::Call(ticket, began) = queue.serving {
                let earlier = began.checked_sub(Duration::from_secs(60)).unwrap();
                queue.serving = Serving::Call(ticket, earlier);
                return thread;
            }
            drop(queue);
            std::thread::yield_now();
        }
    }

    const COUNT: &str =
        "n = 0 function slurm_job_submit(job_desc) n = n + 1 job_desc.comment = n return 0 end";

    fn comment(receiver: &Receiver<Answer>) -> Option<String> {
        receiver.try_recv().ok().map(|answer| answer.unwrap().1.comment.unwrap())
    }

    #[test]
    fn requests_are_answered_in_their_order() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        let puts = [put(&worker, "a", false), put(&worker, "b", true), put(&worker, "c", false)];
        run(&worker);
        let comments: Vec<_> = puts.iter().map(|(_, receiver)| comment(receiver)).collect();
        // A call whose answer is no longer awaited is not run.
        assert_eq!(comments, [Some("1".to_owned()), None, Some("2".to_owned())]);
    }

    #[test]
    fn one_thread_at_a_time_is_asked_for() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        assert!(worker.ask_for_thread().is_none());
        let _a = put(&worker, "a", false);
        let errand = worker.ask_for_thread().unwrap();
        let _b = put(&worker, "b", false);
        assert!(worker.ask_for_thread().is_none());
        worker.run(errand.generation());
        let _c = put(&worker, "c", false);
        assert!(worker.ask_for_thread().is_some());
    }

    #[test]
    fn a_call_that_hangs_is_given_up_and_the_script_loaded_afresh() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        let (ticket, first) = put(&worker, "a", false);
        let (_, second) = put(&worker, "b", false);
        let (release, released) = channel();
        std::thread::scope(|scope| {
            assert!(!worker.give_up(ticket));
            let thread = hang(scope, &worker, released);
            assert!(worker.give_up(ticket));
            run(&worker);
            assert_eq!(comment(&second).as_deref(), Some("1"));
            drop(release);
            thread.join().unwrap();
            // Its answer comes too late.
            assert!(first.try_recv().is_err());
            assert_eq!(lock(&worker.queue).stuck, 0);
        });
    }

    #[test]
    fn after_the_third_call_that_hangs_requests_are_refused_at_once() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        std::thread::scope(|scope| {
            let mut held = Vec::new();
            for _ in 0..MOST_STUCK {
                let (ticket, _receiver) = put(&worker, "a", false);
                let (_, waiting) = put(&worker, "b", false);
                let (release, released) = channel();
                let thread = hang(scope, &worker, released);
                held.push((release, thread));
                assert!(worker.give_up(ticket));
                if held.len() == MOST_STUCK as usize {
                    assert_eq!(waiting.try_recv().unwrap().unwrap_err(), Refused::GivenUp);
                } else {
                    run(&worker);
                    assert!(comment(&waiting).is_some());
                }
            }
            let refused = worker.put(request("c"), Box::new(To(channel().0, false))).unwrap_err();
            assert!(refused.to_string().contains("jobtap plugin reload lua"), "{refused}");
            // When one of them returns, requests are accepted again.
            let (release, thread) = held.pop().unwrap();
            drop(release);
            thread.join().unwrap();
            let (_, receiver) = put(&worker, "d", false);
            run(&worker);
            assert_eq!(comment(&receiver).as_deref(), Some("1"));
            held.clear();
        });
    }

    #[test]
    fn a_request_waits_for_a_thread_only_so_long() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        let (ticket, receiver) = put(&worker, "a", false);
        let late = worker.ask_for_thread().unwrap();
        assert!(!worker.give_up(ticket));
        let since = Instant::now().checked_sub(LONGEST_WAIT * 2).unwrap();
        lock(&worker.queue).serving = Serving::Asked(since);
        assert!(!worker.give_up(ticket));
        let refused = receiver.try_recv().unwrap().unwrap_err();
        assert_eq!(
            refused.to_string(),
            "the script can't be asked now: no thread has come free for 10 s"
        );
        // The host may also report by itself that it has no thread.
        let (_, receiver) = put(&worker, "b", false);
        let errand = worker.ask_for_thread().unwrap();
        worker.refuse(errand.generation(), "none is free");
        let refused = receiver.try_recv().unwrap().unwrap_err();
        assert_eq!(refused, Refused::NoThread("none is free".to_owned()));
        // A thread that starts late finds nothing to do.
        let (_, receiver) = put(&worker, "c", false);
        worker.run(late.generation());
        assert!(receiver.try_recv().is_err());
        run(&worker);
        assert_eq!(comment(&receiver).as_deref(), Some("1"));
    }

    #[test]
    fn a_script_that_can_not_be_loaded_again_refuses() {
        let directory = tempfile::tempdir().unwrap();
        let worker = worker(&directory, COUNT);
        lock(&worker.queue).script = None;
        std::fs::remove_file(&worker.path).unwrap();
        let (_, receiver) = put(&worker, "a", false);
        run(&worker);
        let refused = receiver.try_recv().unwrap().unwrap_err();
        assert!(matches!(refused, Refused::NotLoaded(_)), "{refused}");
    }
}
