//! A call of a topic about a job names the job.
use jobtap_core::prelude::*;

#[topic("accounts.share", job, answer = f64)]
struct ShareOf;

#[derive(Default)]
struct Site;

#[jobtap_plugin(name = "site")]
impl Site {
    #[on("job.state.priority")]
    fn priority(&self, cx: Cx<'_, JobStatePriority>) -> Result<Priority, HandlerError> {
        let shares = cx.call(&ShareOf)?;
        Ok(Priority::clamped(shares.iter().sum()))
    }
}

fn main() {}
