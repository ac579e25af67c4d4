//! Priorities that plugins set later or ask for again, in every state in which a job can have or
//! await one.

use jobtap_core::prelude::*;
use jobtap_core::testing::{TestJob, TestManager};
use serde_json::json;

use crate::common::ByUrgency;

mod ask_again {
    use super::*;

    /// Sets priorities only once its service has been called. Until then jobs wait in PRIORITY.
    #[derive(Default)]
    struct Bank {
        open: Option<u32>,
    }

    #[jobtap_plugin(name = "bank")]
    impl Bank {
        #[on("job.state.priority", "job.priority.get")]
        fn priority(&self) -> Priority {
            self.open.map_or(Priority::Unavailable, Priority::new)
        }

        #[service("open")]
        fn open(&mut self, request: Request<u32>, cx: Cx<'_, Service>) {
            self.open = Some(request.into_inner());
            cx.reprioritize_all();
        }
    }

    #[test]
    fn jobs_in_priority_and_in_sched_are_asked_again() {
        let mut m = TestManager::new().plugin::<Bank>().start();
        m.scheduling(false).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_state(id, State::Priority);
        m.call_service("bank.open", json!(7)).unwrap();
        m.assert_state(id, State::Sched);
        m.assert_priority(id, 7);
        m.call_service("bank.open", json!(9)).unwrap();
        m.assert_priority(id, 9);
        m.assert_events(id, "submit validate depend priority priority");
    }
}

mod several_in_one_callback {
    use super::*;

    /// Sets a priority and replaces it before the first one is in the job's log, since the job is
    /// still busy with its change of state.
    #[derive(Default)]
    struct Hesitant;

    #[jobtap_plugin(name = "hesitant")]
    impl Hesitant {
        #[on("job.state.sched")]
        fn sched(&self, job: &Job, cx: Cx<'_, JobStateSched>) -> Result<(), HandlerError> {
            cx.reprioritize(job, Priority::new(30))?;
            Ok(cx.reprioritize(job, Priority::new(16))?)
        }
    }

    #[test]
    fn the_last_priority_of_a_callback_stands() {
        let mut m = TestManager::new().plugin::<ByUrgency>().plugin::<Hesitant>().start();
        m.scheduling(false).unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_priority(id, 16);
        m.assert_events(id, "submit validate depend priority priority priority");
    }
}
