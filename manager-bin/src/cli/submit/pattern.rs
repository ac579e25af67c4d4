//! The patterns by which `--env` and `--rlimit` select names.

use regex_lite::Regex;

/// A pattern for names: a glob or, after a `/`, a regular expression that matches from the beginning of a
/// name.
pub(crate) struct Pattern(Regex);

/// A text that is no pattern.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("invalid pattern")]
pub(crate) struct InvalidPattern;

impl Pattern {
    /// Parses a pattern.
    ///
    /// # Errors
    /// [`InvalidPattern`].
    pub(crate) fn new(text: &str) -> Result<Self, InvalidPattern> {
        let regex = match text.strip_prefix('/') {
            Some(regex) => format!("^(?:{})", regex.trim_end_matches('/')),
            None => glob(text),
        };
        Regex::new(&regex).map(Self).map_err(|_| InvalidPattern)
    }

    pub(crate) fn matches(&self, name: &str) -> bool {
        self.0.is_match(name)
    }
}

/// Translates a glob with `*`, `?`, `[abc]` and `[!abc]` into a regular expression.
fn glob(text: &str) -> String {
    let mut regex = r"(?s)\A".to_owned();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let tail = rest.strip_prefix(first).unwrap_or_default();
        rest = tail;
        match first {
            '*' => regex.push_str(".*"),
            '?' => regex.push('.'),
            '[' => match bracket_set(tail) {
                Some((set, tail)) => {
                    regex.push_str(&set);
                    rest = tail;
                }
                None => regex.push_str(r"\["),
            },
            _ => regex.push_str(&regex_lite::escape(first.encode_utf8(&mut [0; 4]))),
        }
    }
    regex + r"\z"
}

/// Translates the set after a `[`, and returns it with the text after it. `None` if the set isn't closed.
fn bracket_set(text: &str) -> Option<(String, &str)> {
    let (negated, text) = match text.strip_prefix('!') {
        Some(text) => ("^", text),
        None => ("", text),
    };
    // A `]` in the first position is a member of the set.
    let (first, rest) = match text.strip_prefix(']') {
        Some(rest) => (r"\]", rest),
        None => ("", text),
    };
    let (members, tail) = rest.split_once(']')?;
    let members: String = members
        .chars()
        .map(|member| match member {
            '-' => "-".to_owned(),
            other if other.is_ascii_punctuation() => format!("\\{other}"),
            other => other.to_string(),
        })
        .collect();
    Some((format!("[{negated}{first}{members}]"), tail))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_glob_without_special_characters_matches_itself_only(
            name in "[A-Za-z_.+^$(){}|]{1,8}",
            other in "[A-Za-z_]{1,8}",
        ) {
            let pattern = Pattern::new(&name).unwrap();
            prop_assert!(pattern.matches(&name));
            prop_assert_eq!(pattern.matches(&other), name == other);
        }
    }
}
