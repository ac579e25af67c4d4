//! Replaces `http/` if the feature `http` is left out: nothing can listen.

use std::sync::Arc;

use super::config::http::{HttpError, HttpSettings};
use super::request_parts::RequestParts;

/// A listener. No value of it can be made, since there are no settings.
pub(super) enum HttpListener {}

impl HttpListener {
    pub(super) fn open(settings: &HttpSettings) -> Result<Self, HttpError> {
        match *settings {}
    }

    pub(super) fn uri(&self) -> String {
        match *self {}
    }

    pub(super) async fn serve(self, _parts: Arc<RequestParts>, _room: usize) {
        match self {}
    }
}
