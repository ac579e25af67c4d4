//! `.priority-default`: sets the priority of a job to its urgency, so that jobs leave PRIORITY if no other
//! plugin sets a priority.

use jobtap_core::prelude::*;

/// The plugin `.priority-default`.
#[derive(Debug, Default)]
pub struct PriorityDefault;

#[jobtap_plugin(name = ".priority-default")]
impl PriorityDefault {
    #[on("job.state.priority", "job.priority.get")]
    fn priority(&self, job: &Job) -> Priority {
        Priority::new(u32::from(job.urgency().value()))
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::testing::{TestJob, TestManager};

    use super::*;

    #[test]
    fn priority_is_the_urgency() {
        let mut m = TestManager::new().plugin::<PriorityDefault>().start();
        for urgency in [1, 16, 30] {
            let id = m.submit(TestJob::new().urgency(urgency)).unwrap();
            assert_eq!(m.job(id).priority().map(i64::from), Some(urgency));
        }
    }

    #[test]
    fn hold_and_expedite_give_the_extreme_priorities() {
        let mut m = TestManager::new().plugin::<PriorityDefault>().start();
        let held = m.submit(TestJob::new().urgency(0)).unwrap();
        let first = m.submit(TestJob::new().urgency(31)).unwrap();
        assert_eq!(m.job(held).priority(), Some(0));
        m.assert_state(held, State::Sched);
        assert_eq!(m.job(first).priority(), Some(u32::MAX));
        m.assert_state(first, State::Run);
    }

    #[test]
    fn jobs_stay_in_priority_until_it_is_loaded() {
        let mut m = TestManager::new().plugin::<PriorityDefault>().start();
        m.remove_plugin(".priority-default").unwrap();
        let id = m.submit(TestJob::new()).unwrap();
        m.assert_state(id, State::Priority);
        m.load_plugin(".priority-default", serde_json::json!({})).unwrap();
        m.assert_state(id, State::Run);
    }
}
