//! The largest jobspec that is accepted. Decoded, it takes up to ten times as much memory as its text.

use serde_json::Value;

use crate::rpc::errno::EINVAL;
use crate::rpc::{MAX_REQUEST, RpcError};

/// The limit in bytes, unless the configuration says otherwise.
pub(in crate::daemon) const DEFAULT: usize = 4 << 20;

const KEY: &str = "ingest.max-jobspec-size";

/// A limit that is not a number of bytes, or more than a request may have.
#[derive(Debug, thiserror::Error)]
#[error("{KEY}: must be a number of bytes from 1 to {MAX_REQUEST}, not {0}")]
pub struct MaxJobspecError(Value);

/// The limit in `config`, the whole configuration.
///
/// # Errors
/// [`MaxJobspecError`].
pub(in crate::daemon) fn limit(config: &Value) -> Result<usize, MaxJobspecError> {
    let Some(value) = config.pointer("/ingest/max-jobspec-size") else {
        return Ok(DEFAULT);
    };
    let bytes = value.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    let bytes = bytes.filter(|bytes| (1..=MAX_REQUEST).contains(bytes));
    bytes.ok_or_else(|| MaxJobspecError(value.clone()))
}

/// The size of the jobspec in a token, which has it as base64 after the header.
pub(in crate::daemon) fn in_token(token: &str) -> usize {
    token.split('.').nth(1).map_or(0, str::len) / 4 * 3
}

/// Refuses a jobspec of this size if it is over the limit.
pub(in crate::daemon) fn check(bytes: usize, limit: usize) -> Result<(), RpcError> {
    if bytes <= limit {
        return Ok(());
    }
    let text = format!("jobspec: {bytes} bytes are more than the {limit} of {KEY}");
    Err(RpcError::new(EINVAL, text))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_limit_is_a_number_of_bytes() {
        assert_eq!(limit(&json!({})).unwrap(), DEFAULT);
        assert_eq!(limit(&json!({"ingest": {"max-jobspec-size": 100}})).unwrap(), 100);
        for bad in [json!(0), json!("1M"), json!(-1), json!(MAX_REQUEST + 1)] {
            let refused = limit(&json!({"ingest": {"max-jobspec-size": bad}}));
            let refused = refused.unwrap_err().to_string();
            assert!(refused.starts_with("ingest.max-jobspec-size: must be"), "{refused}");
        }
    }
}
