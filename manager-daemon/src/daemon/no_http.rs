//! In the place of `http/` where the feature `http` is left out: there is nothing that could listen, and a configuration
//! that asks for it is refused.

use std::sync::Arc;

use serde_json::Value;

use super::Parts;

/// The settings of a listener, which can't be made.
pub(in crate::daemon) enum HttpSettings {}

impl HttpSettings {
    /// Reads `config`, the whole configuration: always `None`.
    ///
    /// # Errors
    /// The configuration names a place to listen at.
    pub(in crate::daemon) fn read(config: &Value) -> Result<Option<Self>, String> {
        match config.pointer("/http/listen") {
            None => Ok(None),
            Some(_) => Err("http.listen: this manager is built without the feature 'http' of \
                            jobtap-manager"
                .to_owned()),
        }
    }
}

/// A listener. No value of it can be made, since there are no settings.
pub(super) enum HttpListener {}

impl HttpListener {
    pub(super) fn open(settings: &HttpSettings) -> Result<Self, String> {
        match *settings {}
    }

    pub(super) fn uri(&self) -> String {
        match *self {}
    }

    pub(super) async fn serve(self, _parts: Arc<Parts>, _room: usize) {
        match self {}
    }
}
