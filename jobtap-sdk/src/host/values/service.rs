//! A request to a plugin's service before its type is known, and the error of a service.

use std::cell::Cell;

use serde_json::Value;

use crate::host::errors::errno::{EINVAL, EPERM};
use crate::host::errors::is_error::IsError;
use crate::job::Uid;

/// The client that sent a request.
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

/// The request to which a response belongs. The daemon chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ReplyTo(pub u64);

/// Who may send requests to a service.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Only the owner of the instance.
    Owner,
    /// Every user.
    Guest,
}

/// A request to a service, before its type is known.
#[derive(Debug)]
pub struct ServiceRequest {
    /// The client.
    pub cred: Cred,
    /// The payload of the request.
    pub payload: Value,
    /// The request that responses belong to.
    pub to: ReplyTo,
    /// Whether the client requested a stream of responses.
    pub streaming: bool,
    /// Whether a [`Responder`](crate::plugin::Responder) was taken, which sends the response.
    pub taken: Cell<bool>,
}

/// The error of a service: an errno, and a sentence for the client.
///
/// `?` converts any other [`std::error::Error`] into it, with EINVAL.
///
/// ```
/// # use jobtap_core::prelude::*;
/// fn may(caller: Caller, of: Uid) -> Result<(), ServiceError> {
///     match caller.owner || caller.userid == of {
///         true => Ok(()),
///         false => Err(ServiceError::denied("only the owner can query the jobs of others")),
///     }
/// }
/// assert_eq!(may(Caller { userid: Uid(7), owner: false }, Uid(8)).unwrap_err().errno, 1);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceError {
    /// The number of the error in errno.h.
    pub errno: i32,
    /// What is wrong and what to do.
    pub text: String,
}

impl ServiceError {
    /// Makes an error with any errno.
    pub fn new(errno: i32, text: impl Into<String>) -> Self {
        Self { errno, text: text.into() }
    }

    /// EINVAL: the request is wrong.
    pub fn invalid(text: impl Into<String>) -> Self {
        Self::new(EINVAL, text)
    }

    /// EPERM: the client may not do this.
    pub fn denied(text: impl Into<String>) -> Self {
        Self::new(EPERM, text)
    }
}

/// Any other error becomes EINVAL with its text.
impl<E: IsError> From<E> for ServiceError {
    fn from(error: E) -> Self {
        Self::invalid(error.to_string())
    }
}
