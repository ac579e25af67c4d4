//! Whether text may have non-ASCII characters, according to the variables of the locale.

use std::ffi::OsString;

/// Whether the locale of an environment has the character set UTF-8.
pub fn is_utf8(variable: impl Fn(&str) -> Option<OsString>) -> bool {
    // The first variable that is set determines the character set, as in setlocale(3).
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
        .into_iter()
        .filter_map(variable)
        .find(|value| !value.is_empty())
        .unwrap_or_default();
    let locale = locale.to_string_lossy().to_lowercase();
    let charset = locale.split_once('.').map_or("", |(_, charset)| charset);
    let charset = charset.split_once('@').map_or(charset, |(charset, _)| charset);
    matches!(charset, "utf-8" | "utf8")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn utf8(variables: &[(&str, &str)]) -> bool {
        is_utf8(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_first_set_variable_determines_the_character_set() {
        assert!(!utf8(&[]));
        assert!(utf8(&[("LANG", "en_US.UTF-8")]));
        assert!(utf8(&[("LANG", "de_DE.utf8@euro")]));
        assert!(!utf8(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(utf8(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8")]));
        assert!(!utf8(&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")]));
    }
}
