//! What a job waits for is said in every state, with who can do something about it.

use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};

use crate::common::ByUrgency;

fn with<P: Plugin>() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<P>().start()
}

/// Holds jobs wherever it can.
#[derive(Default)]
struct Holder {
    open: Vec<Token>,
}

#[jobtap_plugin(name = "holder")]
impl Holder {
    #[on("job.dependency.token")]
    fn dependency(&self, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add("token=1")?;
        Ok(())
    }

    #[on("job.state.run")]
    fn run(&mut self, spec: &Jobspec, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        if spec.name() == Some("held") {
            self.open.push(cx.prolog_start("mount")?);
        }
        Ok(())
    }

    #[on("job.state.cleanup")]
    fn cleanup(&mut self, cx: Cx<'_, JobStateCleanup>) -> Result<(), HandlerError> {
        self.open.push(cx.epilog_start("unmount")?);
        Ok(())
    }
}

/// Holds the same job.
#[derive(Default)]
struct Second {
    open: Vec<Token>,
}

#[jobtap_plugin(name = "second")]
impl Second {
    #[on("job.state.run")]
    fn run(&mut self, job: &Job, cx: Cx<'_, JobStateRun>) -> Result<(), HandlerError> {
        if job.jobspec().name() == Some("held") {
            self.open.push(cx.prolog_start("check")?);
        }
        Ok(())
    }
}

#[test]
fn each_of_several_open_prologs_is_that_of_its_plugin() {
    let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Holder>();
    let mut m = builder.plugin::<Second>().start();
    let held = m.submit(TestJob::new().name("held")).unwrap();
    let prologs = [
        "prolog mount of plugin holder is not finished",
        "prolog check of plugin second is not finished",
    ];
    assert_eq!(m.why(held), prologs);
}

#[test]
fn dependencies_and_brackets_name_their_plugins() {
    let mut m = with::<Holder>();
    let waits = m.submit(TestJob::new().dependency("token:1")).unwrap();
    assert_eq!(m.why(waits), ["dependency token=1 holds it, by plugin holder"]);
    let held = m.submit(TestJob::new().name("held")).unwrap();
    assert_eq!(m.why(held), ["prolog mount of plugin holder is not finished"]);
    let runs = m.submit(TestJob::new().duration(100.0)).unwrap();
    assert_eq!(m.why(runs), ["its tasks run, for 1 min 40 s at the most"]);
    m.finish(runs, 0);
    assert_eq!(m.why(runs), ["epilog unmount of plugin holder is not finished"]);
    m.crash_and_restart();
    assert_eq!(m.why(waits), ["dependency token=1 holds it, by plugin holder"]);
    m.remove_plugin("holder").unwrap();
    assert!(m.why(waits)[0].contains("no loaded plugin looks after that"), "{:?}", m.why(waits));
    assert_eq!(m.why(runs), ["it has completed"]);
}

#[test]
fn inactive_jobs_say_how_they_have_ended() {
    let mut m = TestManager::new().plugin::<ByUrgency>().start();
    for (exit_code, end) in [(0, "it has completed"), (1, "its tasks failed")] {
        let id = m.submit(TestJob::new()).unwrap();
        m.finish(id, exit_code);
        assert_eq!(m.why(id), [end]);
    }
    let id = m.submit(TestJob::new().urgency(0)).unwrap();
    m.cancel(id).unwrap();
    assert_eq!(m.why(id), ["it was ended by exception cancel"]);
}

#[test]
fn waiting_jobs_are_told_who_goes_first_and_who_holds_what_they_need() {
    let mut m = TestManager::new().plugin::<ByUrgency>().start();
    let runs = m.submit(TestJob::new().ntasks(3).duration(3600.0)).unwrap();
    let first = m.submit(TestJob::new().ntasks(4).duration(60.0)).unwrap();
    let second = m.submit(TestJob::new().ntasks(2).duration(9000.0)).unwrap();
    let needs = format!("its resources are held by {runs}, in 1 h 0 min at the latest");
    assert_eq!(m.why(first), [needs.as_str()]);
    let order = format!("{first} goes first");
    assert_eq!(m.why(second), [order.as_str(), needs.as_str()]);
    m.urgency(second, 0).unwrap();
    assert_eq!(m.why(second), ["it is held: its urgency is 0 (jobtap job urgency)"]);
    m.scheduling(false).unwrap();
    assert_eq!(m.why(first), ["jobs are not scheduled"]);
    m.cancel(second).unwrap();
    assert_eq!(m.why(second), ["it was ended by exception cancel"]);
}

/// Is told when a job has left DEPEND, and decides nothing.
#[derive(Default)]
struct LooksOn;

#[jobtap_plugin(name = "looks-on")]
impl LooksOn {
    #[on("job.state.priority")]
    fn left_depend(&self) -> Result<(), HandlerError> {
        Ok(())
    }
}

#[test]
fn who_only_looks_on_is_not_named_as_one_who_gives_priorities() {
    let mut m = TestManager::new().plugin::<LooksOn>().start();
    m.assert_logged("no loaded plugin decides priorities in job.state.priority");
    let id = m.submit(TestJob::new()).unwrap();
    assert!(m.why(id)[0].starts_with("no loaded plugin sets priorities"), "{:?}", m.why(id));
}

#[test]
fn without_a_priority_it_says_who_could_give_one() {
    let mut m = TestManager::new().plugin::<ByUrgency>().start();
    m.remove_plugin("by-urgency").unwrap();
    let id = m.submit(TestJob::new()).unwrap();
    assert!(m.why(id)[0].starts_with("no loaded plugin sets priorities"), "{:?}", m.why(id));
}
