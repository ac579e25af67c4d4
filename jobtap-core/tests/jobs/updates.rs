//! Updates of a jobspec by users: which plugins are asked, what they can decide, and what follows.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};

use crate::common::ByUrgency;

const DURATION: &str = "attributes.system.duration";
const NAME: &str = "attributes.system.job.name";
const SIZE: &str = "attributes.system.size";

/// Allows short durations, which `job.validate` checks, any name, and sizes that fit.
#[derive(Default)]
struct Keeper;

#[jobtap_plugin(name = "keeper")]
impl Keeper {
    #[on("job.validate")]
    fn validate(&self, spec: &Jobspec) -> Result<(), Reject> {
        if spec.duration() > 3600.0 {
            return Err(Reject::new("an hour is the limit"));
        }
        Ok(())
    }

    #[on("job.update.attributes.system.duration")]
    fn duration(&self, request: &UpdateRequest) -> Result<Update, Reject> {
        match request.value.as_f64() {
            Some(_) if request.cred.owner => Ok(Update::allow().validated()),
            Some(_) => Ok(Update::allow()),
            None => Err(Reject::new("a duration is a number")),
        }
    }

    #[on("job.update.attributes.system.job.name")]
    fn name() -> Update {
        Update::allow().validated().also(path!("attributes.system.renamed"), true)
    }

    #[on("job.update.attributes.system.size")]
    fn size(&self, request: &UpdateRequest) -> Update {
        let count = request.value.clone();
        let update = Update::allow().validated().needs_feasibility();
        update.also(path!("resources"), resources(&count)).also(path!("tasks"), tasks())
    }

    #[on("job.update")]
    fn updated(&self, updates: Updates<'_>, cx: Cx<'_, JobUpdate>) {
        let paths: Vec<&str> = updates.iter().map(|(path, _)| path).collect();
        cx.log(Level::Info, format!("updated {}", paths.join(" ")));
    }
}

fn resources(count: &serde_json::Value) -> serde_json::Value {
    let core = serde_json::json!({"type": "core", "count": 1});
    serde_json::json!([{"type": "slot", "count": count, "label": "task", "with": [core]}])
}

fn tasks() -> serde_json::Value {
    serde_json::json!([{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}])
}

fn manager() -> TestManager {
    TestManager::new().plugin::<ByUrgency>().plugin::<Keeper>().start()
}

fn held(m: &mut TestManager, user: u32) -> JobId {
    m.submit(TestJob::new().user(user).urgency(0).duration(60.0)).unwrap()
}

#[test]
fn a_change_that_is_allowed_is_an_event_and_job_update_hears_of_it() {
    let mut m = manager();
    let id = held(&mut m, TestJob::OWNER.0);
    m.update(id, DURATION, 120.0).unwrap();
    assert_eq!(m.job(id).jobspec().duration(), 120.0);
    m.assert_events(id, "submit validate depend priority jobspec-update priority");
    assert!(m.log().any(|(_, text)| text == format!("keeper: updated {DURATION}")));
}

#[test]
fn a_plugin_adds_changes_of_its_own() {
    let mut m = manager();
    let id = held(&mut m, TestJob::OWNER.0);
    m.update(id, NAME, "night run").unwrap();
    assert_eq!(m.job(id).jobspec().name(), Some("night run"));
    assert!(m.job(id).jobspec().attribute("renamed").is_some());
}

#[test]
fn what_is_not_validated_goes_through_job_validate_with_the_new_jobspec() {
    let mut m = manager();
    let id = held(&mut m, 7);
    let refused = m.update_as(7, id, DURATION, 7200.0).unwrap_err();
    assert_eq!(refused, "an hour is the limit");
    assert_eq!(m.job(id).jobspec().duration(), 60.0);
    m.update_as(7, id, DURATION, 1800.0).unwrap();
    assert_eq!(m.job(id).jobspec().duration(), 1800.0);
}

#[test]
fn the_owner_passes_validation_and_the_job_is_immutable_for_its_user_then() {
    let mut m = manager();
    let id = held(&mut m, 7);
    m.update(id, DURATION, 7200.0).unwrap();
    m.assert_events(id, "submit validate depend priority set-flags jobspec-update priority");
    let refused = m.update_as(7, id, DURATION, 60.0).unwrap_err();
    assert_eq!(refused, "job is immutable due to previous instance owner update");
    m.crash_and_restart();
    assert!(m.update_as(7, id, DURATION, 60.0).is_err());
}

#[test]
fn feasibility_is_checked_where_a_plugin_wants_it() {
    let mut m = manager();
    let id = held(&mut m, TestJob::OWNER.0);
    let refused = m.update(id, SIZE, 5).unwrap_err().text();
    assert!(refused.starts_with("unsatisfiable request"), "{refused}");
    m.update(id, SIZE, 4).unwrap();
    assert_eq!(m.job(id).jobspec().counts().ntasks, 4);
}

#[test]
fn refusals_name_the_reason() {
    let mut m = manager();
    let id = held(&mut m, 7);
    let mut refusal = |user, path: &str, value: serde_json::Value| {
        m.update_as(user, id, path, value).unwrap_err()
    };
    assert_eq!(refusal(7, DURATION, "soon".into()), "a duration is a number");
    assert_eq!(refusal(8, DURATION, 5.into()), "guests may only update their own jobs");
    assert_eq!(refusal(7, "id", 5.into()), "one or more jobspec updates are invalid");
    let other = "attributes.system.cwd";
    assert_eq!(refusal(7, other, 5.into()), format!("update of {other} not supported"));
    assert_eq!(m.update(JobId::new(1), DURATION, 5).unwrap_err(), "unknown job id");
    m.cancel(id).unwrap();
    assert_eq!(m.update(id, DURATION, 5).unwrap_err(), "job is inactive");
}

#[test]
fn a_running_job_ends_by_its_new_duration_also_after_a_restart() {
    let mut m = manager();
    let id = m.submit(TestJob::new().duration(60.0)).unwrap();
    m.advance(30.0);
    m.update(id, DURATION, 100.0).unwrap();
    m.assert_events(
        id,
        "submit validate depend priority alloc start jobspec-update resource-update",
    );
    m.advance(40.0);
    m.assert_state(id, State::Run);
    m.crash_and_restart();
    m.advance(29.0);
    m.assert_state(id, State::Run);
    m.advance(2.0);
    assert_eq!(m.job(id).result(), Some(JobResult::Timeout));
    let late = m.submit(TestJob::new().duration(60.0)).unwrap();
    m.advance(30.0);
    let refused = m.update(late, DURATION, 10.0).unwrap_err();
    assert_eq!(refused, "requested duration places job expiration in the past");
}

#[derive(Default)]
struct Epilog;

#[jobtap_plugin(name = "epilog")]
impl Epilog {
    #[on("job.state.cleanup")]
    async fn clear(remote: Remote<Self>) -> Result<(), EpilogFailed> {
        Ok(remote.sleep(5.0).await?)
    }
}

#[test]
fn the_duration_of_a_job_can_be_changed_while_its_epilog_runs() {
    let plugins = TestManager::new().plugin::<ByUrgency>().plugin::<Keeper>();
    let mut m = plugins.plugin::<Epilog>().start();
    let id = m.submit(TestJob::new().duration(60.0)).unwrap();
    m.finish(id, 0);
    m.update(id, DURATION, 100.0).unwrap();
    m.assert_state(id, State::Cleanup);
    assert_eq!(m.job(id).jobspec().duration(), 100.0);
    m.crash_and_restart();
    assert_eq!(m.job(id).jobspec().duration(), 100.0);
}

#[test]
fn a_job_whose_end_is_moved_is_warned_before_the_new_one() {
    let mut m = manager();
    let job = TestJob::new().duration(600.0);
    let id = m.submit(job.attribute("shell.options.signal", serde_json::json!({}))).unwrap();
    m.update(id, DURATION, 1000.0).unwrap();
    m.advance(600.0);
    assert!(m.signals(id).is_empty());
    m.advance(341.0);
    assert_eq!(m.signals(id), [10]);
}

#[test]
fn a_job_is_warned_at_once_when_less_time_is_left() {
    let mut m = manager();
    let job = TestJob::new().duration(600.0);
    let id = m.submit(job.attribute("shell.options.signal", serde_json::json!({}))).unwrap();
    m.advance(10.0);
    // The warning is due 60 seconds before the end.
    m.update(id, DURATION, 100.0).unwrap();
    assert!(m.signals(id).is_empty());
    m.update(id, DURATION, 50.0).unwrap();
    assert_eq!(m.signals(id), [10]);
    m.advance(30.0);
    assert_eq!(m.signals(id), [10]);
}
