//! Calls the handlers of an author's own topic, in the same way in every host.

use std::any::Any;

use super::callback::Host;
use super::errors::call_error::CallError;
use super::stack::{BoundHandler, CallResult, Fault};
use crate::job::{Job, JobId};

/// Carries out [`Host::call_own_topic`]: calls the handlers one after the other, and collects their answers. The
/// first failure ends it.
///
/// `call` calls one handler, as the host calls the handlers of other topics. If the handler fails, `call` follows
/// the rules of [`Host`]: it drops the handler's jobspec updates after an error, and all its commands after a panic.
/// A faulted plugin is skipped and its answer is missing, since such a topic is not a gate.
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
