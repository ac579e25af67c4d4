//! A request to a plugin's service, before its type is known, and its refusal.

use std::cell::Cell;

use serde_json::Value;

use crate::job::Uid;

const EINVAL: i32 = 22;
const EPERM: i32 = 1;

/// Who sent a request.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn all_or_own(caller: Caller, of: Uid) -> bool {
///     caller.owner || caller.userid == of
/// }
/// assert!(all_or_own(Caller { userid: Uid(7), owner: false }, Uid(7)));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cred {
    /// The user.
    pub userid: Uid,
    /// Whether this user has the owner role of the instance.
    pub owner: bool,
}

/// Names the request that is answered; chosen by the host's caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(pub u64);

/// Who may ask a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The owner of the instance alone.
    Owner,
    /// Every user.
    Guest,
}

/// A request to a service, before its type is known.
#[derive(Debug)]
pub struct ServiceRequest {
    /// Who asks.
    pub cred: Cred,
    /// What is asked.
    pub payload: Value,
    /// Where the answer goes.
    pub to: ReplyTo,
    /// Whether a stream of answers is asked for.
    pub streaming: bool,
    /// A [`Responder`](crate::plugin::Responder) was taken: the answer comes from it.
    pub taken: Cell<bool>,
}

/// A refusal by a service: an errno, and a sentence for who asked.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn may(caller: Caller, of: Uid) -> Result<(), ServiceError> {
///     match caller.owner || caller.userid == of {
///         true => Ok(()),
///         false => Err(ServiceError::denied("others' jobs are not yours to ask about")),
///     }
/// }
/// assert_eq!(may(Caller { userid: Uid(7), owner: false }, Uid(8)).unwrap_err().errno, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    /// As in errno.h.
    pub errno: i32,
    /// What is wrong and what to do.
    pub text: String,
}

impl ServiceError {
    /// A refusal with any errno.
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// EINVAL: the request asks for what can't be.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(EINVAL, text)
    }

    /// EPERM: the caller may not ask for this.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::new(EPERM, text)
    }
}

/// Any error refuses the request with its text (EINVAL).
impl<E: std::error::Error> From<E> for ServiceError {
    fn from(error: E) -> Self {
        Self::invalid(error.to_string())
    }
}
