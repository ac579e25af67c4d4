//! `.post-event`: lets the instance's owner post an event with a name of their choice to a job's eventlog,
//! with `jobtap post-job-event`.
//!
//! Events of RFC 21 can't be posted, as they belong to the job manager.

use jobtap_core::prelude::*;
use serde_json::Value;

const ENOENT: i32 = 2;

/// The plugin `.post-event`.
#[derive(Debug, Default)]
pub struct PostEvent;

/// The request: the event to post.
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
