//! Asynchronous handlers: canceled with their jobs, limited in time, run again after a restart.

use jobtap_core::job::WaitStatus;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::{Value, json};

use crate::managers::with;

fn note(m: &TestManager, id: JobId) -> String {
    let log = m.eventlog(id);
    let exception = log.iter().find(|entry| entry.name == "exception").unwrap();
    exception.context.clone().unwrap()["note"].as_str().unwrap().to_owned()
}

const HELD: &str = "submit validate depend priority alloc prolog-start";

mod scripts {
    use super::*;

    /// Runs a script, which may take a minute, before each job.
    #[derive(Default)]
    struct Script;

    #[jobtap_plugin(name = "script")]
    impl Script {
        #[on("job.state.run", timeout = "1m")]
        async fn before(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
            let process = Process::new("prepare").arg(job.id.to_string()).env("A", "1");
            let end = remote.run_process(process).await?;
            end.success().map_err(|how| PrologFailed::new(format!("prepare: {how}")))
        }
    }

    #[test]
    fn a_process_that_ends_well_lets_the_job_start() {
        let mut m = with::<Script>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_events(id, HELD);
        assert_eq!(m.running_processes().next().unwrap().0.args, [id.to_string()]);
        m.end_process("prepare", WaitStatus::SUCCESS);
        m.assert_events(id, &format!("{HELD} prolog-finish start"));
    }

    #[test]
    fn a_process_that_fails_ends_the_job_with_the_reason() {
        let mut m = with::<Script>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.end_process("prepare", WaitStatus::from_exit_code(3));
        m.assert_state(id, State::Inactive);
        assert_eq!(note(&m, id), "prepare: exit code 3");
    }

    #[test]
    fn cancelling_the_job_drops_the_work_and_kills_its_process() {
        let mut m = with::<Script>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.cancel(id).unwrap();
        m.assert_events(id, &format!("{HELD} exception prolog-finish free clean"));
        assert_eq!(m.running_processes().count(), 0);
    }

    #[test]
    fn work_that_takes_too_long_has_failed() {
        let mut m = with::<Script>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(59.0);
        m.assert_events(id, HELD);
        m.advance(2.0);
        m.assert_state(id, State::Inactive);
        assert_eq!(note(&m, id), "script.before: no end after 60 s");
        assert_eq!(m.running_processes().count(), 0);
    }

    #[test]
    fn removing_the_plugin_kills_what_it_runs_and_leaves_nothing_open() {
        let mut m = with::<Script>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.remove_plugin("script").unwrap();
        m.assert_state(id, State::Inactive);
        assert_eq!(m.running_processes().count(), 0);
    }
}

mod run_on {
    use super::*;

    /// Undoes what it began, in order, also when the job is canceled meanwhile.
    #[derive(Default)]
    struct Careful {
        open: Vec<Token>,
    }

    #[jobtap_plugin(name = "careful")]
    impl Careful {
        #[on("job.state.run", on_cancel = "run-on")]
        async fn before(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
            let log = remote.clone();
            let mut child = remote.start_process_with(Process::new("mount"), move |line| {
                let text = format!("{:?} {}", line.stream, line.text);
                log.run(move |_, cx| cx.log(Level::Info, text));
            });
            if remote.until_ended(job.id, child.wait()).await.is_err() {
                child.signal(15);
                if remote.timeout(5.0, child.wait()).await.is_err() {
                    child.signal(9);
                }
                // Undoes what was half done, although the job is in CLEANUP by now.
                let id = job.id;
                remote
                    .call(move |careful, cx| {
                        let job = cx.active_job(id).ok().and_then(|job| job.cleanup())?;
                        careful.open.push(cx.epilog_start_of(job, "unmount").ok()?);
                        Some(())
                    })
                    .await?;
            }
            Ok(())
        }

        #[service("unmounted")]
        fn unmounted(&mut self) {
            self.open.drain(..).for_each(|token| token.finish(0));
        }
    }

    #[test]
    fn the_work_goes_on_and_can_end_its_process_by_steps() {
        let mut m = with::<Careful>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.cancel(id).unwrap();
        m.assert_events(id, &format!("{HELD} exception"));
        assert_eq!(m.running_processes().next().unwrap().1, [15]);
        m.process_prints("mount", Stream::Stderr, "busy");
        m.assert_logged("careful: Stderr busy");
        m.advance(6.0);
        assert_eq!(m.running_processes().count(), 0);
        let both = format!("{HELD} exception epilog-start prolog-finish");
        m.assert_events(id, &both);
        m.call_service("careful.unmounted", json!({})).unwrap();
        m.assert_events(id, &format!("{both} epilog-finish free clean"));
    }
}

mod priorities {
    use super::*;

    /// Waits ten seconds, as if for a slow server.
    #[derive(Default)]
    struct Accounts;

    #[jobtap_plugin(name = "accounts")]
    impl Accounts {
        #[on("job.state.priority")]
        async fn ask(remote: Remote<Self>) -> Result<Priority, HandlerError> {
            remote.sleep(10.0).await?;
            remote.run(|_, cx| cx.log(Level::Info, "answered"));
            Ok(Priority::new(5))
        }

        /// Keeps jobs that have ended in CLEANUP.
        #[on("job.state.cleanup")]
        async fn close(remote: Remote<Self>) -> Result<(), EpilogFailed> {
            Ok(remote.sleep(100.0).await?)
        }
    }

    fn waiting() -> (TestManager, JobId) {
        let mut m = TestManager::new().plugin::<Accounts>().start();
        m.scheduling(false).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(5.0);
        m.assert_state(id, State::Priority);
        (m, id)
    }

    #[test]
    fn other_events_of_the_job_do_not_drop_the_work() {
        let (mut m, id) = waiting();
        m.raise(id, "odd", 3, "something is odd").unwrap();
        m.advance(6.0);
        m.assert_state(id, State::Sched);
        m.assert_priority(id, 5);
    }

    #[test]
    fn it_is_dropped_when_the_job_ends_first() {
        let (mut m, id) = waiting();
        m.cancel(id).unwrap();
        m.advance(6.0);
        m.assert_state(id, State::Cleanup);
        assert!(!m.log().any(|(_, text)| text == "accounts: answered"));
    }
}

mod run_on_with_timeout {
    use super::*;

    /// Takes as long as the job says, and goes on when the job is canceled, but only until its
    /// timeout.
    #[derive(Default)]
    struct Patient;

    #[jobtap_plugin(name = "patient")]
    impl Patient {
        #[on("job.state.run", timeout = "1m", on_cancel = "run-on")]
        async fn before(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
            let takes = job.jobspec.attribute("takes").and_then(Value::as_f64);
            remote.sleep(takes.unwrap_or(1.0)).await?;
            remote.run(|_, cx| cx.log(Level::Info, "done"));
            Ok(())
        }
    }

    fn canceled_after_one_second(takes: f64) -> (TestManager, JobId) {
        let mut m = with::<Patient>();
        let id = m.submit(TestJob::new().attribute("takes", takes)).unwrap();
        m.advance(1.0);
        m.cancel(id).unwrap();
        m.assert_events(id, &format!("{HELD} exception"));
        (m, id)
    }

    #[test]
    fn the_work_goes_on_when_its_job_is_canceled() {
        let (mut m, id) = canceled_after_one_second(30.0);
        m.advance(30.0);
        m.assert_logged("patient: done");
        m.assert_events(id, &format!("{HELD} exception prolog-finish free clean"));
    }

    #[test]
    fn the_timeout_still_ends_it() {
        let (mut m, id) = canceled_after_one_second(300.0);
        m.advance(58.0);
        m.assert_state(id, State::Cleanup);
        m.advance(2.0);
        m.assert_state(id, State::Inactive);
        assert!(!m.log().any(|(_, text)| text == "patient: done"));
    }
}

mod restart {
    use super::*;

    #[derive(Default)]
    struct Stubborn;

    #[jobtap_plugin(name = "stubborn")]
    impl Stubborn {
        #[on("job.state.run", on_restart = "rerun")]
        async fn before(remote: Remote<Self>) -> Result<(), PrologFailed> {
            Ok(remote.sleep(10.0).await?)
        }

        #[on("job.dependency.wait", on_restart = "fail")]
        async fn wait(dependency: Dependency, remote: Remote<Self>) -> Result<(), Reject> {
            Ok(remote.sleep(dependency.value.parse::<f64>()?).await?)
        }

        #[on("job.state.cleanup")]
        async fn after(remote: Remote<Self>) -> Result<(), EpilogFailed> {
            Ok(remote.sleep(10.0).await?)
        }
    }

    #[test]
    fn a_prolog_that_says_so_begins_again() {
        let mut m = with::<Stubborn>();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(9.0);
        m.crash_and_restart();
        m.assert_events(id, HELD);
        m.advance(9.0);
        m.assert_events(id, HELD);
        m.advance(2.0);
        m.assert_events(id, &format!("{HELD} prolog-finish start"));
    }

    #[test]
    fn an_epilog_has_failed_if_not_said_otherwise() {
        let mut m = with::<Stubborn>();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(11.0);
        m.finish(id, 0);
        m.assert_state(id, State::Cleanup);
        m.crash_and_restart();
        m.assert_state(id, State::Inactive);
        let end = "epilog stubborn.after: the manager was restarted while it was open";
        assert_eq!(note(&m, id), end);
    }

    #[test]
    fn a_dependency_that_says_so_has_failed() {
        let mut m = with::<Stubborn>();
        let waits = m.submit(TestJob::new().dependency("wait:5")).unwrap();
        m.crash_and_restart();
        // Its epilog still runs.
        m.assert_state(waits, State::Cleanup);
        assert!(note(&m, waits).contains("stubborn.wait=wait:5"), "{}", note(&m, waits));
        let waits = m.submit(TestJob::new().dependency("wait:5")).unwrap();
        m.advance(6.0);
        assert!(m.job(waits).event_posted("dependency-remove"));
    }

    #[test]
    fn a_reload_keeps_what_reruns_and_fails_the_rest() {
        let mut m = with::<Stubborn>();
        let starts = m.submit(TestJob::new()).unwrap();
        m.advance(5.0);
        m.reload_plugin("stubborn", json!({})).unwrap();
        m.assert_events(starts, HELD);
        m.advance(11.0);
        m.assert_events(starts, &format!("{HELD} prolog-finish start"));
        m.finish(starts, 0);
        m.assert_state(starts, State::Cleanup);
        m.reload_plugin("stubborn", json!({})).unwrap();
        m.assert_state(starts, State::Inactive);
    }
}

mod tokens {
    use super::*;

    /// Keeps a prolog open until its service is called, and takes it over after a restart.
    #[derive(Default)]
    struct Gate {
        open: Vec<Token>,
    }

    #[jobtap_plugin(name = "gate")]
    impl Gate {
        #[on("job.new")]
        fn new_job(&mut self, job: &Job, cx: Cx<'_, JobNew>) {
            if job.state() == State::Run && job.jobspec().attribute("forget").is_none() {
                self.open.extend(cx.prolog_reopen(job, "gate"));
            }
        }

        #[on("job.state.run")]
        fn run(&mut self, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
            self.open.push(cx.prolog_start("gate")?);
            Ok(())
        }

        #[service("open")]
        fn open(&mut self) {
            self.open.drain(..).for_each(|token| token.finish(0));
        }
    }

    #[test]
    fn an_open_token_is_taken_over_after_a_restart() {
        let mut m = with::<Gate>();
        let id = m.submit(TestJob::new()).unwrap();
        m.crash_and_restart();
        m.assert_events(id, HELD);
        m.call_service("gate.open", json!({})).unwrap();
        m.assert_events(id, &format!("{HELD} prolog-finish start"));
    }

    #[test]
    fn work_that_is_not_taken_over_has_failed() {
        let mut m = with::<Gate>();
        let id = m.submit(TestJob::new().attribute("forget", 1)).unwrap();
        m.crash_and_restart();
        m.assert_events(id, &format!("{HELD} exception prolog-finish free clean"));
    }

    #[test]
    fn only_what_is_open_and_free_can_be_taken_over() {
        let mut m = with::<Gate>();
        let id = m.submit(TestJob::new()).unwrap();
        // Loaded again, the plugin finds nothing open, since its removal ended the prolog.
        m.remove_plugin("gate").unwrap();
        m.assert_state(id, State::Inactive);
        m.load_plugin("gate", json!({})).unwrap();
        m.crash_and_restart();
        m.assert_state(id, State::Inactive);
    }
}

mod waiting_for_the_end {
    use super::*;

    #[derive(Default)]
    struct Mourner;

    #[jobtap_plugin(name = "mourner")]
    impl Mourner {
        #[service("await")]
        async fn wait(
            request: Request<JobId>,
            remote: Remote<Self>,
        ) -> Result<&'static str, ServiceError> {
            remote.ended(request.into_inner()).await?;
            Ok("ended")
        }
    }

    #[test]
    fn it_comes_back_at_the_end_and_at_once_for_what_is_over() {
        let mut m = with::<Mourner>();
        let id = m.submit(TestJob::new()).unwrap();
        let waits = m.open_stream("mourner.await", json!(id));
        assert_eq!(m.read_stream(waits).1, None);
        m.cancel(id).unwrap();
        assert_eq!(m.read_stream(waits).1, Some(Ok(())));
        assert_eq!(m.call_service("mourner.await", json!(id)).unwrap(), "ended");
    }
}

mod blocking {
    use jobtap_core::plugin::BlockingError;

    use super::*;

    /// Validates jobs on another thread. The name of a job says how.
    #[derive(Default)]
    struct Computed;

    #[jobtap_plugin(name = "computed")]
    impl Computed {
        #[on("job.validate")]
        async fn validate(job: JobInfo, remote: Remote<Self>) -> Result<(), Reject> {
            let name = job.jobspec.name().unwrap_or_default().to_owned();
            let work = remote.blocking(move || match &*name {
                "broken" => panic!("no such model"),
                name => name.len(),
            });
            match work.await {
                Ok(length) => Reject::when(length > 5, format!("{length} letters")),
                Err(BlockingError::Panicked(text)) => Err(Reject::new(text)),
                Err(error) => Err(error.into()),
            }
        }
    }

    #[test]
    fn the_value_of_blocking_work_comes_back() {
        let mut m = with::<Computed>();
        m.submit(TestJob::new().name("short")).unwrap();
        assert_eq!(m.submit(TestJob::new().name("longer")).unwrap_err(), "6 letters");
    }

    #[test]
    fn a_panic_of_blocking_work_is_an_error() {
        let mut m = with::<Computed>();
        assert_eq!(m.submit(TestJob::new().name("broken")).unwrap_err(), "no such model");
        m.submit(TestJob::new()).unwrap();
    }
}

/// Handlers and futures that block the thread that they wait for.
mod waits {
    use std::pin::pin;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll, Waker};

    use jobtap_core::host::Ticks;
    use jobtap_core::prelude::*;
    use jobtap_core::testing::{TestJob, TestManager};

    /// Blocks the thread until the future is ready, as the executors of other crates do.
    fn block_on<F: Future>(future: F) -> F::Output {
        let mut future = pin!(future);
        loop {
            match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                Poll::Ready(output) => return output,
                Poll::Pending => std::thread::park(),
            }
        }
    }

    #[derive(Default)]
    struct Blocked;

    #[jobtap_plugin(name = "blocked")]
    impl Blocked {
        #[on("job.validate")]
        fn validate(&self, job: &Job, remote: Remote<Self>) -> Result<(), Reject> {
            match job.jobspec().name() {
                Some("call") => {
                    block_on(remote.call(|_, _| ())).map_err(|e| Reject::new(e.to_string()))
                }
                Some("sleep") => {
                    block_on(remote.sleep(1.0)).map_err(|e| Reject::new(e.to_string()))
                }
                Some("ended") => {
                    block_on(remote.ended(job.id())).map_err(|e| Reject::new(e.to_string()))
                }
                Some("process") => {
                    let _ = block_on(remote.run_process(Process::new("true")));
                    Ok(())
                }
                Some("timer") => {
                    remote.clone().after(1.0, move |_, _| block_on(remote.sleep(1.0)).unwrap());
                    Ok(())
                }
                _ => Ok(()),
            }
        }
    }

    #[test]
    fn a_handler_that_waits_for_its_own_thread_fails_by_name() {
        for name in ["call", "sleep", "ended", "process"] {
            let mut m = TestManager::new().plugin::<Blocked>().start();
            m.submit(TestJob::new().name(name)).unwrap_err();
            let said = m.log().find(|(_, text)| text.contains("waits for the manager's thread"));
            let (_, text) =
                said.unwrap_or_else(|| panic!("{name}: {:?}", m.log().collect::<Vec<_>>()));
            assert!(text.contains("blocked: job.validate: job "), "{text}");
            m.submit(TestJob::new()).unwrap();
        }
    }

    #[test]
    fn a_timer_that_waits_for_its_own_thread_fails_by_name() {
        let mut m = TestManager::new().plugin::<Blocked>().start();
        m.submit(TestJob::new().name("timer")).unwrap();
        m.advance(2.0);
        assert!(m.log().any(|(_, text)| text.contains("blocked: later: the handler waits for")));
    }

    static CLOCK: AtomicU64 = AtomicU64::new(0);

    #[derive(Default)]
    struct Slow;

    #[jobtap_plugin(name = "slow")]
    impl Slow {
        #[on("job.state.run")]
        async fn run(_job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
            // Blocks, as a sleep of the standard library does.
            CLOCK.fetch_add(3_000_000_000, Ordering::Relaxed);
            Ok(remote.sleep(1.0).await?)
        }

        #[on("job.state.priority")]
        fn priority(&self) -> Priority {
            Priority::new(1)
        }

        #[on("job.new")]
        fn new_job(&self, remote: Remote<Self>) {
            remote.spawn(async {
                CLOCK.fetch_add(500_000_000, Ordering::Relaxed);
            });
        }
    }

    #[test]
    fn a_poll_over_the_budget_is_named_with_topic_and_job() {
        let ticks = Ticks::new(Arc::default(), || CLOCK.load(Ordering::Relaxed));
        let mut m = TestManager::new().plugin::<Slow>().ticks(ticks).start();
        let id = m.submit(TestJob::new()).unwrap();
        m.advance(2.0);
        for warning in [
            format!(
                "slow: job.state.run: job {id}: a poll of its future: took 3 s, more than its budget of 0.1 s"
            ),
            "slow: spawn: a poll of its future: took 0.5 s, more than its budget of 0.1 s"
                .to_owned(),
        ] {
            let logged: Vec<_> = m.log().collect();
            assert!(logged.iter().any(|(_, text)| *text == warning), "{warning}\n{logged:?}");
        }
        let polls = |m: &TestManager, topic: &str| {
            let mut stats = m.plugin_stats("slow").into_iter();
            let polled = stats.find(|stats| stats.topic == topic && stats.method == "polls");
            polled.map(|stats| (stats.calls, stats.samples[31]))
        };
        assert_eq!(polls(&m, "job.state.run"), Some((2, 1)));
        assert_eq!(polls(&m, "spawn").map(|(calls, _)| calls), Some(1));
    }
}

/// Values of plugins whose `Drop` panics.
mod bombs {
    use jobtap_core::prelude::*;
    use jobtap_core::testing::{TestJob, TestManager};

    struct Bomb;

    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("in Drop");
        }
    }

    #[derive(Default)]
    struct Bombs(Option<Bomb>);

    #[jobtap_plugin(name = "bombs")]
    impl Bombs {
        #[on("job.new")]
        fn new_job(&mut self, cx: Cx<'_, JobNew>, remote: Remote<Self>) {
            self.0.get_or_insert(Bomb);
            let (timer, future, work) = (Bomb, Bomb, Bomb);
            remote.at(cx.now() + 3600.0, move |_, _| drop(timer));
            let (waits, works) = (remote.clone(), remote.clone());
            remote.spawn(async move {
                let _ = waits.sleep(7200.0).await;
                drop(future);
            });
            remote.spawn(async move {
                let _ = works.blocking(move || drop(work)).await;
            });
        }
    }

    #[test]
    fn values_that_panic_when_they_are_dropped_end_no_manager() {
        let mut m = TestManager::new().plugin::<Bombs>().start();
        m.submit(TestJob::new()).unwrap();
        m.advance(4000.0);
        m.submit(TestJob::new()).unwrap();
        m.remove_plugin("bombs").unwrap();
        m.advance(8000.0);
        m.submit(TestJob::new()).unwrap();
    }
}

mod printing {
    use super::*;

    /// Fails each job with what a command has printed.
    #[derive(Default)]
    struct Counts;

    #[jobtap_plugin(name = "counts")]
    impl Counts {
        #[on("job.state.run")]
        async fn count(remote: Remote<Self>) -> Result<(), PrologFailed> {
            let end = remote.run_process(Process::new("count")).await?;
            let (out, err) = (String::from_utf8(end.stdout)?, String::from_utf8(end.stderr)?);
            Err(PrologFailed::new(format!("{}: {out:?} {err:?}", end.status.is_success())))
        }
    }

    #[test]
    fn what_a_process_prints_is_in_its_end() {
        let mut m = with::<Counts>();
        m.hold_processes();
        let id = m.submit(TestJob::new()).unwrap();
        m.process_prints("count", Stream::Stdout, "free: 3");
        m.process_prints("count", Stream::Stderr, "slow server");
        m.process_prints("count", Stream::Stdout, "used: 4\nold: 1");
        m.end_process("count", WaitStatus::SUCCESS);
        let printed = r#"true: "free: 3\nused: 4\nold: 1\n" "slow server\n""#;
        assert_eq!(note(&m, id), printed);
    }

    #[test]
    fn each_process_has_what_it_has_printed_itself() {
        let mut m = with::<Counts>();
        m.hold_processes();
        let first = m.submit(TestJob::new()).unwrap();
        let second = m.submit(TestJob::new()).unwrap();
        m.process_prints("count", Stream::Stdout, "1");
        m.end_process("count", WaitStatus::from_exit_code(2));
        m.end_process("count", WaitStatus::SUCCESS);
        assert_eq!(note(&m, first), r#"false: "1\n" """#);
        assert_eq!(note(&m, second), r#"true: "" """#);
    }
}

mod concerned {
    use super::*;

    /// Makes a job that wants data wait at each topic at which a job can wait.
    #[derive(Default)]
    struct Stages {
        /// Whether it declines every job.
        closed: bool,
    }

    impl Stages {
        fn wants(&self, job: &Job) -> bool {
            !self.closed && job.jobspec().attribute("data").is_some()
        }
    }

    #[jobtap_plugin(name = "stages")]
    impl Stages {
        #[on("job.validate", when = Self::wants)]
        async fn validate(remote: Remote<Self>) -> Result<(), Reject> {
            remote.run_process(Process::new("validate")).await?;
            Ok(())
        }

        #[on("job.state.depend", when = Self::wants)]
        async fn depend(remote: Remote<Self>) -> Result<(), Reject> {
            remote.run_process(Process::new("depend")).await?;
            Ok(())
        }

        #[on("job.state.priority", when = Self::wants)]
        async fn priority(remote: Remote<Self>) -> Result<Priority, HandlerError> {
            remote.run_process(Process::new("priority")).await?;
            Ok(Priority::new(7))
        }

        #[on("job.state.run", when = |stages: &Self, job| stages.wants(job))]
        async fn run(remote: Remote<Self>) -> Result<(), PrologFailed> {
            remote.run_process(Process::new("run")).await?;
            Ok(())
        }

        #[on("job.state.cleanup", when = |_, job| job.jobspec().attribute("data").is_some())]
        async fn cleanup(remote: Remote<Self>) -> Result<(), EpilogFailed> {
            remote.run_process(Process::new("cleanup")).await?;
            Ok(())
        }

        #[init]
        fn new(conf: Conf<Value>) -> Self {
            Self { closed: conf.get("closed").is_some() }
        }
    }

    fn manager() -> TestManager {
        with::<Stages>()
    }

    #[test]
    fn a_job_that_a_handler_declines_has_no_event_of_it() {
        let mut m = manager();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_priority(id, 16);
        m.finish(id, 0);
        m.assert_events(
            id,
            "submit validate depend priority alloc start finish release free clean",
        );
        assert_eq!(m.started_processes().len(), 0);
    }

    #[test]
    fn a_job_that_concerns_it_waits_at_each_topic() {
        let mut m = manager();
        let id = m.submit(TestJob::new().attribute("data", 1)).unwrap();
        m.assert_priority(id, 7);
        m.finish(id, 0);
        m.assert_events(
            id,
            "submit validate dependency-add dependency-remove depend priority alloc prolog-start \
             prolog-finish start finish epilog-start epilog-finish release free clean",
        );
        assert_eq!(m.started_processes().len(), 5);
    }

    #[test]
    fn what_it_held_before_a_restart_is_let_go_when_it_declines() {
        let mut m = manager();
        m.hold_processes();
        m.submit(TestJob::new().attribute("data", 1)).unwrap_err();
        m.end_process("validate", WaitStatus::SUCCESS);
        let depends = m.late_responses().pop().unwrap().unwrap();
        m.assert_state(depends, State::Depend);
        m.configure(json!({"plugins": {"stages": {"closed": true}}})).unwrap();
        m.crash_and_restart();
        m.assert_state(depends, State::Run);
    }
}
