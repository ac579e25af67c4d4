//! A payload as it was received.
//!
//! A long payload is most of its line, so it is not looked at before its service decodes it: a pass over the text
//! only to find its end would take as long as decoding it.

use std::ops::Range;

use serde_json::value::RawValue;

use super::RpcError;

/// The text of a payload. It may turn out not to be JSON when it is read.
#[derive(Debug)]
pub(crate) struct Received {
    line: String,
    payload: Range<usize>,
}

impl Received {
    /// The payload at this place in a line.
    pub(crate) fn within(line: String, payload: Range<usize>) -> Self {
        Self { line, payload }
    }

    /// A payload apart from its line.
    pub(crate) fn alone(payload: &RawValue) -> Self {
        let line = payload.get().to_owned();
        Self { payload: 0..line.len(), line }
    }

    /// The text.
    pub(crate) fn text(&self) -> &str {
        self.line.get(self.payload.clone()).unwrap_or_default()
    }

    /// The text as JSON.
    ///
    /// # Errors
    /// EPROTO: it is not JSON.
    pub(crate) fn json(&self) -> Result<&RawValue, RpcError> {
        serde_json::from_str(self.text())
            .map_err(|error| RpcError::proto(format!("malformed message: {error}")))
    }

    /// The line of which the payload is a part.
    pub(crate) fn line(&self) -> &str {
        &self.line
    }
}
