//! The owner's token.

use constant_time_eq::constant_time_eq_32;
use sha2::{Digest, Sha256};

/// A token. Only its hash is kept.
pub(super) struct Token([u8; 32]);

impl Token {
    pub(super) fn new(text: &str) -> Self {
        Self(hash(text.as_bytes()))
    }

    /// Whether this is the token. Takes the same time whatever is wrong, and whatever its length.
    pub(super) fn is(&self, given: &[u8]) -> bool {
        constant_time_eq_32(&self.0, &hash(given))
    }
}

fn hash(text: &[u8]) -> [u8; 32] {
    Sha256::digest(text).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_the_token() {
        let token = Token::new("0123456789abcdef");
        assert!(token.is(b"0123456789abcdef"));
        for other in ["", "0123456789abcde", "0123456789abcdeg", "0123456789abcdef0"] {
            assert!(!token.is(other.as_bytes()), "{other}");
        }
    }
}
