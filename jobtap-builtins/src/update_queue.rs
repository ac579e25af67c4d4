//! `.update-queue`: lets users move a pending job to another queue.
//!
//! The job's constraint is replaced by the new queue's. So a job can only be moved if its constraint is
//! exactly its queue's, since a part that the user added could not be told apart. The limits of the new queue
//! apply.

use jobtap_core::prelude::*;

/// The plugin `.update-queue`.
#[derive(Debug, Default)]
pub struct UpdateQueue;

/// Whether a job's constraint is exactly the constraint of this queue.
fn is_of_queue(job: &Job, queue: Queue<'_>) -> bool {
    let empty = |value: &serde_json::Value| value.as_object().is_some_and(|table| table.is_empty());
    let own = job.jobspec().constraints().filter(|value| !empty(value));
    own == queue.constraint().as_ref()
}

#[jobtap_plugin(name = ".update-queue", load = "last")]
impl UpdateQueue {
    #[on("job.update.attributes.system.queue")]
    fn update(
        &self,
        job: &Job,
        request: &UpdateRequest,
        cx: Cx<'_, JobUpdateKey>,
    ) -> Result<Update, Reject> {
        let name: String = request.read()?;
        let text = "update of queue for running job not supported";
        Reject::when(job.state().is_running(), text)?;
        let now = job.jobspec().queue();
        Reject::when(now == Some(&*name), format!("job queue is already set to {name}"))?;
        let queue = cx.queues().lookup(Some(&name))?;
        Reject::when(!queue.is_enabled(), format!("queue {name} is currently disabled"))?;
        let current = cx.queues().lookup(now)?;
        if !is_of_queue(job, current) {
            let now = now.unwrap_or_default();
            return Err(Reject::new(format!(
                "job appears to have non-queue constraints, unable to update queue to {now}"
            )));
        }
        let constraint = queue.constraint().unwrap_or_else(|| serde_json::json!({}));
        let update = Update::allow().needs_feasibility();
        Ok(update.also(path!("attributes.system.constraints"), constraint))
    }
}

#[cfg(test)]
mod tests {
    use jobtap_core::testing::{TestJob, TestManager};
    use serde_json::{Value, json};

    use super::*;
    use crate::PriorityDefault;

    const QUEUE: &str = "attributes.system.queue";

    fn manager() -> TestManager {
        let config = json!({"queues": {
            "a": {"requires": ["pa"]},
            "b": {"requires": ["^pb"]},
            "c": {},
            "night": {"parent": "b"},
        }});
        let builder = TestManager::new().plugin::<PriorityDefault>().plugin::<UpdateQueue>();
        builder.config(config).start()
    }

    fn constraints(m: &TestManager, id: JobId) -> Option<&Value> {
        m.job(id).jobspec().constraints()
    }

    #[test]
    fn a_moved_job_gets_the_constraint_of_the_new_queue() {
        let mut m = manager();
        let id = m.submit(TestJob::new().queue("c")).unwrap();
        m.update(id, QUEUE, "b").unwrap();
        assert_eq!(m.job(id).jobspec().queue(), Some("b"));
        assert_eq!(constraints(&m, id), Some(&json!({"properties": ["^pb"]})));
        m.assert_events(id, "submit validate depend priority jobspec-update priority");
        // A virtual queue has the nodes of its parent.
        m.update(id, QUEUE, "night").unwrap();
        assert_eq!(constraints(&m, id), Some(&json!({"properties": ["^pb"]})));
        m.update(id, QUEUE, "c").unwrap();
        assert_eq!(constraints(&m, id), Some(&json!({})));
        m.start_queue("c").unwrap();
        m.assert_state(id, State::Run);
    }

    #[test]
    fn refusals_name_the_reason() {
        let mut m = manager();
        let id = m.submit(TestJob::new().queue("c")).unwrap();
        let refusal = |m: &mut TestManager, value: Value| m.update(id, QUEUE, value).unwrap_err();
        assert_eq!(refusal(&mut m, json!(5)), "plugin args unpack failed");
        assert_eq!(refusal(&mut m, json!("c")), "job queue is already set to c");
        assert_eq!(refusal(&mut m, json!("x")), "'x' is not a valid queue");
        m.disable_queue("b", "closed").unwrap();
        assert_eq!(refusal(&mut m, json!("b")), "queue b is currently disabled");
        // No node has the property that queue a requires.
        assert!(refusal(&mut m, json!("a")).text().starts_with("unsatisfiable request"));
        m.start_queue("c").unwrap();
        let text = "update of queue for running job not supported";
        assert_eq!(refusal(&mut m, json!("b")), text);
    }

    #[test]
    fn refuses_a_job_with_a_constraint_of_its_own() {
        let mut m = manager();
        let own =
            TestJob::new().queue("c").attribute("constraints", json!({"hostlist": ["testhost"]}));
        let id = m.submit(own).unwrap();
        let text = "job appears to have non-queue constraints, unable to update queue to c";
        assert_eq!(m.update(id, QUEUE, "b").unwrap_err(), text);
    }
}
