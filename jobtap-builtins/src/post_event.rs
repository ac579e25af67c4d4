//! `.post-event`: lets the instance's owner write an event of a name of their own into a job's log,
//! with `jobtap post-job-event`.
//!
//! The events of RFC 21 can't be forged so: they belong to the job manager.

use jobtap_core::prelude::*;
use serde_json::Value;

const ENOENT: i32 = 2;

/// See the module.
#[derive(Debug, Default)]
pub struct PostEvent;

/// What is to be posted.
#[derive(Debug, Deserialize)]
struct Post {
    id: JobId,
    name: String,
    #[serde(default)]
    context: Value,
}

#[jobtap_plugin(name = ".post-event", after = [".history"])]
impl PostEvent {
    #[service("post")]
    fn post(&self, request: Request<Post>, cx: Cx<'_, Service>) -> Result<(), ServiceError> {
        let Post { id, name, context } = request.into_inner();
        let job =
            cx.active_job(id).map_err(|error| ServiceError::new(ENOENT, error.to_string()))?;
        Ok(cx.post_event(job, EventName::try_new(name)?, context)?)
    }
}
