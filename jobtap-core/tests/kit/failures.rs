//! The test kit as the author of a test sees it: what a failed assertion shows.

use std::panic::{AssertUnwindSafe, catch_unwind};

use jobtap_core::job::JobId;
use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};

use crate::common::ByUrgency;

/// Logs each new job.
#[derive(Default)]
struct Talks;

#[jobtap_plugin(name = "talks")]
impl Talks {
    #[on("job.new")]
    fn new_job(&self, job: &Job, cx: Cx<'_, JobNew>) {
        cx.log(Level::Info, format!("{} is new", job.id()));
    }
}

fn one_job() -> (TestManager, JobId) {
    let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Talks>().start();
    let id = m.submit(TestJob::new()).unwrap();
    (m, id)
}

/// The message that the author reads when this assertion fails.
fn failure(asserted: impl FnOnce()) -> String {
    let panic = catch_unwind(AssertUnwindSafe(asserted)).unwrap_err();
    *panic.downcast::<String>().unwrap()
}

#[test]
fn a_failed_assertion_shows_the_eventlog_and_the_log() {
    let (mut m, id) = one_job();
    let failures = [
        failure(|| m.assert_state(id, State::Sched)),
        failure(|| m.assert_events(id, "submit validate")),
        failure(|| m.assert_priority(id, 3)),
        failure(|| m.assert_exception(id, "cancel", "")),
        failure(|| m.allocate(id)),
    ];
    for text in failures {
        assert!(text.contains(&format!("eventlog of {id}:\n")), "{text}");
        for event in ["submit", "validate", "depend", "priority", "alloc", "start"] {
            assert!(text.contains(&format!("\"name\":\"{event}\"")), "{event} in {text}");
        }
        assert!(text.contains(&format!("info: talks: {id} is new")), "{text}");
    }
}

#[test]
fn a_failed_assertion_says_what_was_there_instead() {
    let (m, id) = one_job();
    let text = failure(|| m.assert_state(id, State::Sched));
    assert!(text.starts_with(&format!("job {id} is in RUN, not in SCHED\n")), "{text}");
    let text = failure(|| m.assert_events(id, "submit"));
    let found = "  expected: submit\n  found:    submit validate depend priority alloc start\n";
    assert!(text.contains(found), "{text}");
    let text = failure(|| m.assert_priority(id, 3));
    assert!(text.starts_with(&format!("the priority of job {id} is 16, not 3\n")), "{text}");
    let text = failure(|| m.assert_logged("no such line"));
    assert!(text.contains(&format!("talks: {id} is new")), "{text}");
}

#[test]
fn a_job_or_a_manager_that_is_not_there_is_told_apart() {
    let (mut m, id) = one_job();
    let text = failure(|| m.assert_state(JobId::new(7), State::Run));
    assert!(text.contains(&id.to_string()), "{text}");
    m.crash_in(0);
    m.cancel(id).unwrap_err();
    let text = failure(|| m.assert_state(id, State::Run));
    assert!(text.contains("crash_and_restart"), "{text}");
    m.crash_and_restart();
    m.assert_state(id, State::Run);
}
