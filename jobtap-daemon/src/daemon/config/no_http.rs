//! Replaces `http.rs` if the feature `http` is left out: a configuration that asks the manager to listen is refused.

use serde_json::Value;

/// The configuration names a place to listen at.
#[derive(Debug, thiserror::Error)]
#[error("http.listen: this manager is built without the feature 'http' of jobtap-manager")]
pub struct HttpError;

/// The settings of a listener. No value of it can be made.
pub(in crate::daemon) enum HttpSettings {}

impl HttpSettings {
    /// Reads `config`, the whole configuration: always `None`.
    ///
    /// # Errors
    /// [`HttpError`].
    pub(in crate::daemon) fn read(config: &Value) -> Result<Option<Self>, HttpError> {
        match config.pointer("/http/listen") {
            None => Ok(None),
            Some(_) => Err(HttpError),
        }
    }
}
