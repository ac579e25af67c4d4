//! Bytes in JSON, which has only text: as base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

/// Encodes bytes as text.
pub(crate) fn encode_data(data: &[u8]) -> String {
    STANDARD.encode(data)
}

/// Decodes bytes that [`encode_data`] has encoded.
pub(crate) fn decode_data(data: &str) -> Result<Vec<u8>, base64::DecodeError> {
    STANDARD.decode(data)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn bytes_are_decoded_as_they_were(data in any::<Vec<u8>>()) {
            prop_assert_eq!(decode_data(&encode_data(&data)).unwrap(), data);
        }
    }
}
