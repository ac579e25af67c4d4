//! Replaces `http/` if the feature `http` is left out: nothing can listen, and a configuration that asks for it is
//! refused.

use std::sync::Arc;

use serde_json::Value;

use super::Parts;

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

/// A listener. No value of it can be made, since there are no settings.
pub(super) enum HttpListener {}

impl HttpListener {
    pub(super) fn open(settings: &HttpSettings) -> Result<Self, HttpError> {
        match *settings {}
    }

    pub(super) fn uri(&self) -> String {
        match *self {}
    }

    pub(super) async fn serve(self, _parts: Arc<Parts>, _room: usize) {
        match self {}
    }
}
