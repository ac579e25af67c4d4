//! Values of jobs that are stored once for all jobs of an array. In the place of such a value stands the name of the key of
//! the instance that has it.

/// The first characters of a reference. No value begins like this: values are JSON or tokens, or begin with a user's id.
const MARK: &str = "\0=";

/// What is stored in the place of the value of this key.
pub fn refer_to(key: &str) -> String {
    format!("{MARK}{key}")
}

/// The key that a stored value refers to, if it is a reference.
pub(super) fn key_of(stored: &[u8]) -> Option<&str> {
    std::str::from_utf8(stored.strip_prefix(MARK.as_bytes())?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::request;

    #[test]
    fn a_reference_gives_its_key_and_other_values_are_none() {
        assert_eq!(key_of(refer_to("a.b").as_bytes()), Some("a.b"));
        for value in ["{}", "", "a.b.none", &request::unsigned(0, "{}".to_owned())] {
            assert_eq!(key_of(value.as_bytes()), None);
        }
    }
}
