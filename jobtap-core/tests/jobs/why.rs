//! In every state, the manager says what a job waits for and who can do something about it.

use jobtap_core::plugin::Plugin;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

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

/// Holds the same jobs as `Holder`.
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
fn dependencies_and_perilogs_name_their_plugins() {
    let mut m = with::<Holder>();
    let waits = m.submit(TestJob::new().dependency("token:1")).unwrap();
    assert_eq!(m.why(waits), ["dependency token=1 holds it, by plugin holder"]);
    assert_eq!(m.waits_for(waits), Some("dependency"));
    let held = m.submit(TestJob::new().name("held")).unwrap();
    assert_eq!(m.why(held), ["prolog mount of plugin holder is not finished"]);
    assert_eq!(m.waits_for(held), Some("prolog"));
    let runs = m.submit(TestJob::new().duration(100.0)).unwrap();
    assert_eq!(m.why(runs), ["its tasks run, for 1 min 40 s at the most"]);
    assert_eq!(m.waits_for(runs), None);
    m.finish(runs, 0);
    assert_eq!(m.waits_for(runs), Some("epilog"));
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
    assert_eq!((m.waits_for(first), m.waits_for(second)), (Some("resources"), Some("order")));
    let order = format!("{first} goes first");
    assert_eq!(m.why(second), [order.as_str(), needs.as_str()]);
    m.urgency(second, 0).unwrap();
    assert_eq!(m.why(second), ["it is held: its urgency is 0 (jobtap job urgency)"]);
    assert_eq!(m.waits_for(second), Some("held"));
    m.scheduling(false).unwrap();
    assert_eq!(m.why(first), ["jobs are not scheduled"]);
    assert_eq!(m.waits_for(first), Some("queue"));
    m.cancel(second).unwrap();
    assert_eq!(m.why(second), ["it was ended by exception cancel"]);
}

/// Is called when a job has left DEPEND, and decides nothing.
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

/// Leaves the priority of jobs named `held` open, and says why.
#[derive(Default)]
struct Licences;

#[jobtap_plugin(name = "licences")]
impl Licences {
    #[on("job.state.priority")]
    fn priority(&self, job: &Job, cx: Cx<'_, JobStatePriority>) -> Result<Priority, HandlerError> {
        if job.jobspec().name() != Some("held") {
            return Ok(Priority::UNCHANGED);
        }
        cx.annotate(
            job,
            Annotations::new().with("licences", json!({"missing": 2, "of": "solver"})),
        )?;
        Ok(Priority::UNAVAILABLE)
    }

    #[on("job.priority.get")]
    fn again(&self) -> Priority {
        Priority::UNCHANGED
    }
}

#[test]
fn a_priority_that_stays_open_is_held_by_the_plugin_that_left_it_open() {
    let builder = TestManager::new().plugin::<ByUrgency>().plugin::<Licences>();
    let mut m = builder.plugin::<LooksOn>().start();
    let held = m.submit(TestJob::new().name("held")).unwrap();
    m.assert_state(held, State::Priority);
    let why = [
        "plugin licences holds it: it has not given it a priority yet",
        "plugin licences says: licences.missing=2, licences.of=solver",
    ];
    assert_eq!(m.why(held), why);
    assert_eq!(m.waits_for(held), Some("plugin"));
    m.crash_and_restart();
    assert_eq!(m.why(held), why);
    m.remove_plugin("licences").unwrap();
    assert_eq!(m.why(held), ["its tasks run, without a time limit"]);
}

/// Annotates each job with what it waits for.
#[derive(Default)]
struct Notes;

#[jobtap_plugin(name = "notes")]
impl Notes {
    #[on("job.state.sched")]
    fn sched(&self) -> Annotations {
        Annotations::new().with("notes", "after lunch").with("user", json!({"seat": 4}))
    }
}

#[test]
fn a_waiting_job_shows_what_plugins_have_noted() {
    let mut m = with::<Notes>();
    let runs = m.submit(TestJob::new().ntasks(4)).unwrap();
    let waits = m.submit(TestJob::new().ntasks(4)).unwrap();
    let why = m.why(waits);
    assert_eq!(why[0], format!("its resources are held by {runs}"));
    assert_eq!(
        why[1..],
        ["plugin notes says: notes=after lunch", "plugin notes says: user.seat=4"]
    );
    assert_eq!(m.why(runs), ["its tasks run, without a time limit"]);
}

/// Makes a job wait for another one forever.
#[derive(Default)]
struct After;

#[jobtap_plugin(name = "after")]
impl After {
    #[on("job.dependency.after")]
    fn after(&self, dependency: &Dependency, cx: Cx<'_, JobDependency>) -> Result<(), Reject> {
        cx.dependency_add(format!("after={}", dependency.value))?;
        Ok(())
    }
}

#[test]
fn a_chain_of_dependencies_is_followed_to_its_cause() {
    let mut m = with::<After>();
    let first = m.submit(TestJob::new().urgency(0)).unwrap();
    let second = m.submit(TestJob::new().dependency(&format!("after:{first}"))).unwrap();
    let third = m.submit(TestJob::new().dependency(&format!("after:{second}"))).unwrap();
    let held = "it is held: its urgency is 0 (jobtap job urgency)";
    let after = |id: JobId| format!("dependency after={id} holds it, by plugin after");
    let expected = [
        after(second),
        format!("{second} is in DEPEND: {}", after(first)),
        format!("{first} is in SCHED: {held}"),
    ];
    assert_eq!(m.why(third), expected);
    m.raise(first, "cancel", 0, "no money").unwrap();
    let never = |id: JobId| format!("dependency after={id} job never started");
    m.raise(second, "dependency", 0, &never(first)).unwrap();
    m.raise(third, "dependency", 0, &never(second)).unwrap();
    m.crash_and_restart();
    let ended = |id: JobId| format!("it was ended by exception dependency: {}", never(id));
    let expected = [
        ended(second),
        format!("{second} is in INACTIVE: {}", ended(first)),
        format!("{first} is in INACTIVE: it was ended by exception cancel: no money"),
    ];
    assert_eq!(m.why(third), expected);
}

#[test]
fn a_guest_is_not_told_of_the_jobs_of_others() {
    let mut m = with::<After>();
    let first = m.submit(TestJob::new().urgency(0)).unwrap();
    let second = m.submit(TestJob::new().user(7).dependency(&format!("after:{first}"))).unwrap();
    assert_eq!(m.why(second).len(), 2);
    assert_eq!(m.why_as(7, second).len(), 1);
}

#[test]
fn a_job_whose_epilog_is_open_says_what_has_ended_it() {
    let mut m = with::<Holder>();
    let id = m.submit(TestJob::new()).unwrap();
    m.raise(id, "timeout", 0, "too long").unwrap();
    let why = [
        "it was ended by exception timeout: too long",
        "epilog unmount of plugin holder is not finished",
    ];
    assert_eq!(m.why(id), why);
}
