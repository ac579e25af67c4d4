//! The largest jobspec that is accepted. Decoded, it takes up to ten times as much memory as its text.

use std::io::{self, Write};

use serde_json::Value;

use crate::rpc::errno::EINVAL;
use crate::rpc::services::ingest::Submit;
use crate::rpc::{MAX_LINE, RpcError};

/// The limit in bytes, unless the configuration says otherwise.
pub(in crate::daemon) const DEFAULT: usize = 4 << 20;

const KEY: &str = "ingest.max-jobspec-size";

/// The limit in `config`, the whole configuration.
///
/// # Errors
/// A value that is not a number of bytes, or more than a request may have.
pub(in crate::daemon) fn limit(config: &Value) -> Result<usize, String> {
    let Some(value) = config.pointer("/ingest/max-jobspec-size") else {
        return Ok(DEFAULT);
    };
    let bytes = value.as_u64().and_then(|bytes| usize::try_from(bytes).ok());
    bytes.filter(|bytes| (1..=MAX_LINE).contains(bytes)).ok_or_else(|| {
        format!("{KEY}: must be a number of bytes from 1 to {MAX_LINE}, not {value}")
    })
}

/// Refuses a request to submit whose jobspec is larger than the limit, before it is decoded.
pub(super) fn check(request: &Submit, limit: usize) -> Result<(), RpcError> {
    let bytes = match (&request.signed, &request.jobspec) {
        // Base64, after the header.
        (Some(token), _) => token.split('.').nth(1).map_or(0, str::len) / 4 * 3,
        (_, Some(Value::String(text))) => text.len(),
        (_, Some(jobspec)) => length(jobspec),
        _ => 0,
    };
    if bytes <= limit {
        return Ok(());
    }
    let text = format!("jobspec: {bytes} bytes are more than the {limit} of {KEY}");
    Err(RpcError::new(EINVAL, text))
}

/// The length of a value's text. The text itself is not made.
fn length(value: &Value) -> usize {
    struct Count(usize);
    impl Write for Count {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }
    let mut count = Count(0);
    // Counting does not fail.
    let _ = serde_json::to_writer(&mut count, value);
    count.0
}

#[cfg(test)]
mod tests {
    use jobtap_core::job::Uid;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_form_of_a_jobspec_counts_its_own_bytes() {
        let jobspec = json!({"a": "x".repeat(100)});
        let text = jobspec.to_string();
        let token = super::super::wrap(&text, Uid::new(7));
        let of = |jobspec: Value| Submit { jobspec: Some(jobspec), ..Submit::default() };
        let signed = Submit { signed: Some(token), ..Submit::default() };
        for request in [of(jobspec), of(json!(text)), signed] {
            check(&request, text.len() + 2).unwrap();
            let refused = check(&request, 50).unwrap_err();
            assert_eq!(refused.errno, EINVAL);
            let words = "are more than the 50 of ingest.max-jobspec-size";
            assert!(refused.text.ends_with(words), "{}", refused.text);
        }
        check(&Submit::default(), 1).unwrap();
    }

    #[test]
    fn a_limit_is_a_number_of_bytes() {
        assert_eq!(limit(&json!({})), Ok(DEFAULT));
        assert_eq!(limit(&json!({"ingest": {"max-jobspec-size": 100}})), Ok(100));
        for bad in [json!(0), json!("1M"), json!(-1), json!(MAX_LINE + 1)] {
            let refused = limit(&json!({"ingest": {"max-jobspec-size": bad}})).unwrap_err();
            assert!(refused.starts_with("ingest.max-jobspec-size: must be"), "{refused}");
        }
    }
}
