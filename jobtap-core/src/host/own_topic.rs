//! The walk over the handlers of an author's own topic, which is alike in every host.

use std::any::Any;

use super::call_error::CallError;
use super::callback::Host;
use super::stack::{BoundHandler, CallResult, Fault};
use crate::job::{Job, JobId};

/// Carries out [`Host::call_own_topic`]: calls the handlers one after the other, and collects their answers. The
/// first that fails ends it.
///
/// `call` calls one, as the host calls the handlers of other topics. Of one that fails it takes back what the rules
/// of [`Host`] say: a failure drops its jobspec updates, a panic all that it has asked for. A faulted plugin is left
/// out: such a topic is no gate, so that its answer is missing.
///
/// # Errors
/// [`CallError::UnknownJob`], [`CallError::Reentrant`] for a plugin that is being called, or
/// [`CallError::Topic`] with the failure of a handler.
pub fn call_own_handlers<'h>(
    host: &'h dyn Host,
    topic: &'static str,
    handlers: &[BoundHandler],
    job: Option<JobId>,
    mut call: impl FnMut(&BoundHandler, Option<&'h Job>) -> CallResult,
) -> Result<Vec<Box<dyn Any>>, CallError> {
    let job = match job {
        None => None,
        Some(id) => Some(host.job(id).ok_or(CallError::UnknownJob(id))?),
    };
    let mut answers = Vec::new();
    for bound in handlers.iter().filter(|bound| !bound.is_out_of_service()) {
        let fault = match call(bound, job) {
            Ok(outcome) => {
                answers.extend(outcome.decisions().answer);
                continue;
            }
            Err(fault) => *fault,
        };
        let plugin = bound.instance().name().to_string();
        return Err(match fault {
            Fault::Busy => CallError::Reentrant { topic, plugin },
            Fault::Failure(failure) => {
                CallError::Topic { topic, plugin, text: failure.text().to_owned() }
            }
            Fault::Panic(text) => {
                CallError::Topic { topic, plugin, text: format!("panicked: {text}") }
            }
        });
    }
    Ok(answers)
}
