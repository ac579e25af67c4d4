//! Plugins in a PrEp plugin: the adapter with a double of slurmctld and slurmd.

use std::time::{Duration, Instant};

use jobtap_core::plugin::TextError;
use jobtap_core::prelude::*;
use jobtap_core::slurm::JobRecord;
use jobtap_slurm::prep::{FAILED, NodeJob};
use jobtap_slurm::testing::TestSlurm;
use jobtap_slurm::{Part, PrepEnd};

/// Jobs of user 1 succeed, those of user 2 fail, those of user 3 panic, and those of user 4 take long.
#[derive(Default)]
struct Later;

async fn later(user: u32, remote: &Remote<Later>) -> Result<(), TextError> {
    let end = remote.run_process(Process::new("sh").args(["-c", "echo out; exit 0"])).await;
    end.or_error()?.success().or_error()?;
    match user {
        1 => Ok(()),
        2 => Err("no scratch").or_error(),
        3 => panic!("asked for it"),
        _ => remote.sleep(10.0).await.or_error(),
    }
}

#[jobtap_plugin(name = "later")]
impl Later {
    #[on("slurm.prolog")]
    async fn prolog(job: JobInfo, node: Node, remote: Remote<Self>) -> Result<(), PrologFailed> {
        if node.host != "n2" || node.rank != 1 || job.resources.is_none_or(|r| r.nnodes() != 3) {
            return Err(PrologFailed::new("not the node"));
        }
        Ok(later(job.userid.as_u32(), &remote).await?)
    }

    #[on("slurm.epilog")]
    async fn epilog(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(later(job.userid.as_u32(), &remote).await?)
    }

    #[on("slurm.prolog_slurmctld")]
    async fn prepare(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        Ok(later(job.userid.as_u32(), &remote).await?)
    }

    #[on("slurm.epilog_slurmctld")]
    async fn account(job: JobInfo, remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(later(job.userid.as_u32(), &remote).await?)
    }
}

/// Decides at once, about prologs only.
#[derive(Default)]
struct AtOnce;

#[jobtap_plugin(name = "at-once")]
impl AtOnce {
    #[on("slurm.prolog")]
    fn prolog(&self, job: &Job) -> Result<(), PrologFailed> {
        match job.userid().as_u32() {
            2 => Err(PrologFailed::new("not you")),
            3 => panic!("asked for it"),
            _ => Ok(()),
        }
    }

    #[on("slurm.prolog_slurmctld")]
    fn prepare(&self, job: &Job) -> Result<(), PrologFailed> {
        match job.userid().as_u32() {
            2 => Err(PrologFailed::new("not you")),
            _ => Ok(()),
        }
    }
}

fn on_node(user: u32) -> NodeJob {
    NodeJob {
        id: 5,
        user,
        nodes: Some("n[1-3]".into()),
        node: Some("n2".into()),
        ..NodeJob::default()
    }
}

fn in_controller(user: u32) -> JobRecord {
    JobRecord { job_id: user, user_id: user, nodes: Some("n1".into()), ..JobRecord::default() }
}

#[test]
fn slurmd_waits_for_the_handlers() {
    let slurm = TestSlurm::new().prep().plugin::<Later>().start().unwrap();
    for part in [Part::Prolog, Part::Epilog] {
        assert_eq!(slurm.on_node(part, on_node(1)), 0, "{:?}", slurm.log(Level::Error));
        assert_eq!(slurm.on_node(part, on_node(2)), FAILED);
        assert_eq!(slurm.on_node(part, on_node(3)), FAILED);
    }
    assert_eq!(
        slurm.log(Level::Error),
        [
            "jobtap: later: slurm.prolog: job 5: no scratch",
            "jobtap: later: slurm.prolog: job 5: later.prolog@n2 panicked: asked for it",
            "jobtap: later: slurm.epilog: job 5: no scratch",
            "jobtap: later: slurm.epilog: job 5: later.epilog@n2 panicked: asked for it",
        ]
    );
}

#[test]
fn a_handler_that_is_not_asynchronous_decides_at_once() {
    let slurm = TestSlurm::new().prep().plugin::<AtOnce>().start().unwrap();
    assert_eq!([1, 2, 3].map(|user| slurm.on_node(Part::Prolog, on_node(user))), [0, 256, 256]);
    assert_eq!(slurm.on_node(Part::Epilog, on_node(2)), 0, "it has no handler");
}

#[test]
fn slurmctld_is_told_the_end() {
    let slurm = TestSlurm::new().prep().plugin::<Later>().start().unwrap();
    for user in 1..=3 {
        assert!(slurm.in_controller(Part::Prolog, in_controller(user)));
    }
    let mut ended = slurm.ended(3);
    ended.sort_by_key(|(_, job, _)| *job);
    let failed = |text: &str| PrepEnd::Failed(text.to_owned());
    assert_eq!(ended[0], (Part::Prolog, 1, PrepEnd::Done));
    assert_eq!(ended[1], (Part::Prolog, 2, failed("no scratch")));
    assert_eq!(ended[2], (Part::Prolog, 3, failed("later.prepare panicked: asked for it")));
    assert!(slurm.in_controller(Part::Epilog, in_controller(1)));
    assert_eq!(slurm.ended(4)[3], (Part::Epilog, 1, PrepEnd::Done));
}

#[test]
fn the_end_is_told_once_all_plugins_have_ended() {
    let slurm = TestSlurm::new().prep().plugin::<AtOnce>().plugin::<Later>().start().unwrap();
    assert!(slurm.in_controller(Part::Prolog, in_controller(2)));
    // The failure of the first handler that has failed.
    let not_you = PrepEnd::Failed("not you".to_owned());
    assert_eq!(slurm.ended(1), [(Part::Prolog, 2, not_you)]);
    assert_eq!(slurm.log(Level::Error).len(), 2);
}

#[test]
fn slurmctld_does_not_wait_without_a_handler() {
    let slurm = TestSlurm::new().prep().plugin::<AtOnce>().start().unwrap();
    assert!(!slurm.in_controller(Part::Epilog, in_controller(1)));
}

#[test]
fn a_prolog_that_takes_too_long_is_given_up() {
    let limit = Duration::from_millis(100);
    let slurm = TestSlurm::new().prep().plugin::<Later>().prep_timeout(limit).start().unwrap();
    let begin = Instant::now();
    assert_eq!(slurm.on_node(Part::Prolog, on_node(4)), FAILED);
    assert!(slurm.in_controller(Part::Prolog, in_controller(4)));
    assert_eq!(slurm.ended(1), [(Part::Prolog, 4, PrepEnd::TimedOut)]);
    assert!(begin.elapsed() < Duration::from_secs(5));
    assert_eq!(slurm.on_node(Part::Prolog, on_node(1)), 0);
}

#[test]
fn the_prolog_of_a_cancelled_job_is_dropped() {
    let slurm = TestSlurm::new().prep().plugin::<Later>().start().unwrap();
    for job in [4, 5] {
        assert!(slurm.in_controller(Part::Prolog, JobRecord { job_id: job, ..in_controller(4) }));
    }
    let begin = Instant::now();
    slurm.cancel(4);
    assert_eq!(slurm.ended(1), [(Part::Prolog, 4, PrepEnd::Cancelled)]);
    assert!(begin.elapsed() < Duration::from_secs(8), "{:?}", begin.elapsed());
    let line = "jobtap: later: slurm.prolog_slurmctld: job 4: dropped, since the job was cancelled";
    assert_eq!(slurm.log(Level::Info).last().map(String::as_str), Some(line));
    assert_eq!(slurm.log(Level::Error), [""; 0]);
}

#[derive(Default)]
struct RunsOn;

#[jobtap_plugin(name = "runs-on")]
impl RunsOn {
    #[on("slurm.prolog_slurmctld", on_cancel = "run-on")]
    async fn prepare(remote: Remote<Self>) -> Result<(), PrologFailed> {
        remote.sleep(2.5).await?;
        remote.call(|_, cx| cx.log(Level::Warning, "tidied up")).await?;
        Ok(())
    }
}

#[test]
fn work_that_runs_on_is_waited_for_in_the_prolog_of_a_cancelled_job() {
    let slurm = TestSlurm::new().prep().plugin::<RunsOn>().start().unwrap();
    assert!(slurm.in_controller(Part::Prolog, in_controller(1)));
    slurm.cancel(1);
    assert_eq!(slurm.ended(1), [(Part::Prolog, 1, PrepEnd::Cancelled)]);
    assert_eq!(slurm.log(Level::Warning), ["jobtap: runs-on: tidied up"]);
}

#[test]
fn prologs_run_at_the_same_time() {
    let limit = Duration::from_millis(600);
    let slurm = TestSlurm::new().prep().plugin::<Later>().prep_timeout(limit).start().unwrap();
    for job in 0..50 {
        let record = JobRecord { job_id: job, ..in_controller(4) };
        assert!(slurm.in_controller(Part::Prolog, record));
    }
    let begin = Instant::now();
    assert_eq!(slurm.ended(50).len(), 50);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}", begin.elapsed());
}

#[derive(Default)]
struct Hangs;

#[jobtap_plugin(name = "hangs")]
impl Hangs {
    #[on("slurm.prolog_slurmctld")]
    fn prepare(&self) {
        std::thread::sleep(Duration::from_secs(4));
    }
}

#[test]
fn a_handler_that_hangs_does_not_keep_a_job_for_ever() {
    let limit = Duration::from_millis(100);
    let slurm = TestSlurm::new().prep().plugin::<Hangs>().prep_timeout(limit).start().unwrap();
    let begin = Instant::now();
    assert!(slurm.in_controller(Part::Prolog, in_controller(1)));
    assert_eq!(slurm.ended(1), [(Part::Prolog, 1, PrepEnd::TimedOut)]);
    assert!(begin.elapsed() < Duration::from_millis(3500), "{:?}", begin.elapsed());
}

/// A plugin that uses only Flux's topics.
#[derive(Default)]
struct FromFlux;

#[jobtap_plugin(name = "from-flux")]
impl FromFlux {
    #[on("job.state.run")]
    async fn run(job: JobInfo, remote: Remote<Self>) -> Result<(), PrologFailed> {
        remote.sleep(0.01).await?;
        match job.userid.as_u32() {
            2 => Err(PrologFailed::new("no scratch")),
            _ => Ok(()),
        }
    }

    #[on("job.state.cleanup")]
    fn cleanup(&self, job: &Job) -> Result<(), HandlerError> {
        Err(HandlerError::new(format!("in {}", job.state())))
    }
}

#[test]
fn topics_of_flux_are_the_controllers() {
    let slurm = TestSlurm::new().prep().plugin::<FromFlux>().start().unwrap();
    assert_eq!(slurm.on_node(Part::Prolog, on_node(2)), 0);
    assert!(slurm.in_controller(Part::Prolog, in_controller(1)));
    assert_eq!(slurm.ended(1), [(Part::Prolog, 1, PrepEnd::Done)]);
    assert!(slurm.in_controller(Part::Prolog, in_controller(2)));
    let failed = PrepEnd::Failed("no scratch".to_owned());
    assert_eq!(slurm.ended(2)[1], (Part::Prolog, 2, failed));
    // A synchronous handler can't fail the job: its failure is only logged.
    assert!(slurm.in_controller(Part::Epilog, in_controller(1)));
    assert_eq!(slurm.ended(3)[2], (Part::Epilog, 1, PrepEnd::Done));
    let line = "jobtap: from-flux: job.state.cleanup: job 1: in CLEANUP";
    assert_eq!(slurm.log(Level::Error).last().map(String::as_str), Some(line));
}

/// Delays the start of a job with a prolog token, which fails or finishes in a timer.
#[derive(Default)]
struct Tokens;

#[jobtap_plugin(name = "tokens")]
impl Tokens {
    #[on("job.state.run")]
    fn run(
        &self,
        job: &Job,
        remote: Remote<Self>,
        cx: Cx<'_, JobStateRun>,
    ) -> Result<(), HandlerError> {
        let token = cx.prolog_start("burst-buffer")?;
        let fails = job.userid().as_u32() == 2;
        remote.at(cx.now() + 0.02, move |_, _| match fails {
            true => token.fail("no space"),
            false => token.finish(0),
        });
        // Slurm doesn't let a plugin set a memo of a job.
        if let Err(refused) = cx.memo(job, "site", "seen") {
            cx.log(Level::Info, refused.to_string());
        }
        Ok(())
    }

    #[on("unload")]
    fn unload(&self, cx: Cx<'_, Unload>) {
        cx.log(Level::Info, "ends");
    }
}

#[test]
fn a_token_holds_the_start() {
    let slurm = TestSlurm::new().prep().plugin::<Tokens>().start().unwrap();
    assert!(slurm.in_controller(Part::Prolog, in_controller(1)));
    assert_eq!(slurm.ended(1), [(Part::Prolog, 1, PrepEnd::Done)]);
    assert!(slurm.in_controller(Part::Prolog, in_controller(2)));
    let failed = PrepEnd::Failed("no space".to_owned());
    assert_eq!(slurm.ended(2)[1], (Part::Prolog, 2, failed));
    let log = slurm.log(Level::Info);
    assert!(log[0].contains("memo"), "{log:?}");
    slurm.stop();
    assert_eq!(slurm.log(Level::Info).last().map(String::as_str), Some("jobtap: tokens: ends"));
}

#[test]
fn a_prolog_that_is_open_when_slurmctld_ends_has_not_failed() {
    let slurm = TestSlurm::new().prep().plugin::<Later>().start().unwrap();
    assert!(slurm.in_controller(Part::Prolog, in_controller(4)));
    slurm.stop();
    std::thread::sleep(Duration::from_millis(50));
    assert_eq!(slurm.ended(0), []);
}
