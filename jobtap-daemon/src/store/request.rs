//! The signed request of a job (`J` of RFC 16) as it is stored when the manager signs for its user.
//!
//! Such a token names the user and repeats the jobspec in base64. The store keeps those two parts and builds the token
//! when it is read: few tokens are read, and the text of a jobspec, unlike its base64, shrinks to a fraction when
//! tables are compressed.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;

use super::Key;

/// The first character of the stored form, which no token contains.
const MARK: char = '\0';

/// The maximum number of bytes before the jobspec in the stored form. A jobspec's text with this much spare capacity
/// becomes the stored form without a reallocation.
pub const HEAD: usize = 12;

/// The stored form of a user's token for a jobspec.
pub fn unsigned(userid: u32, jobspec: String) -> String {
    let mut text = jobspec;
    text.insert_str(0, &format!("{MARK}{userid}{MARK}"));
    text
}

/// The jobspec in the stored form; `None` for a token that was signed elsewhere.
pub(crate) fn jobspec_in(stored: &str) -> Option<&str> {
    parts(stored).map(|(_, jobspec)| jobspec)
}

/// As [`jobspec_in`], for bytes that need not be UTF-8.
pub(super) fn jobspec_bytes(stored: &[u8]) -> Option<&[u8]> {
    let mark = MARK as u8;
    let rest = stored.strip_prefix(&[mark])?;
    rest.get(rest.iter().position(|byte| *byte == mark)?..)?.get(1..)
}

/// The user and the jobspec in the stored form; `None` for a token that was signed elsewhere.
pub(super) fn parts(stored: &str) -> Option<(u32, &str)> {
    let (userid, jobspec) = stored.strip_prefix(MARK)?.split_once(MARK)?;
    Some((userid.parse().ok()?, jobspec))
}

/// The value of a key as a reader expects it.
pub(crate) fn shown(name: &str, stored: Vec<u8>) -> Vec<u8> {
    if name != Key::J {
        return stored;
    }
    let token = std::str::from_utf8(&stored).ok().and_then(parts);
    match token.map(|(userid, jobspec)| token_of(userid, jobspec)) {
        Some(token) => token.into_bytes(),
        None => stored,
    }
}

/// The token that Flux makes from an unsigned jobspec: header, jobspec, and mechanism `none`.
pub(crate) fn token_of(userid: u32, jobspec: &str) -> String {
    let header = format!("version\0i1\0userid\0i{userid}\0mechanism\0snone\0");
    let mut token = String::with_capacity((header.len() + jobspec.len()) * 4 / 3 + 16);
    BASE64_STANDARD.encode_string(header, &mut token);
    token.push('.');
    BASE64_STANDARD.encode_string(jobspec, &mut token);
    token.push_str(".none");
    token
}

/// The jobspec in such a token; `None` if the text is not a token.
pub fn jobspec_of(token: &str) -> Option<String> {
    let encoded = token.split('.').nth(1)?;
    String::from_utf8(BASE64_STANDARD.decode(encoded).ok()?).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_token_is_that_of_rfc_16() {
        let token = token_of(1000, "{}");
        let (header, rest) = token.split_once('.').unwrap();
        assert_eq!(
            BASE64_STANDARD.decode(header).unwrap(),
            b"version\0i1\0userid\0i1000\0mechanism\0snone\0"
        );
        assert_eq!(rest, "e30=.none");
    }

    proptest! {
        #[test]
        fn a_token_gives_its_jobspec_back(text in ".*", uid: u32) {
            prop_assert_eq!(jobspec_of(&token_of(uid, &text)).unwrap(), text);
        }

        #[test]
        fn the_stored_form_is_shown_as_the_token(userid: u32, jobspec in ".*") {
            let stored = unsigned(userid, jobspec.clone());
            prop_assert!(stored.len() <= jobspec.len() + HEAD);
            prop_assert_eq!(parts(&stored), Some((userid, &*jobspec)));
            prop_assert_eq!(jobspec_bytes(stored.as_bytes()), Some(jobspec.as_bytes()));
            let token = token_of(userid, &jobspec).into_bytes();
            prop_assert_eq!(shown(Key::J, stored.clone().into_bytes()), token);
            prop_assert_eq!(shown(Key::JOBSPEC, stored.clone().into_bytes()), stored.into_bytes());
        }

        #[test]
        fn a_token_from_elsewhere_is_shown_as_it_is(stored in prop::collection::vec(any::<u8>(), 0..99)) {
            prop_assume!(std::str::from_utf8(&stored).ok().and_then(parts).is_none());
            prop_assert_eq!(shown(Key::J, stored.clone()), stored);
        }
    }
}
