//! Job ids as they are printed: `ƒ2oLkTLb`, or `f2oLkTLb` where `ƒ` cannot be shown.

use std::ffi::OsString;
use std::sync::OnceLock;

use jobtap_core::job::{Encoding, JobId};

/// Whether ids are shown with `ƒ` or with its ASCII substitute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IdStyle {
    /// `ƒ2oLkTLb`.
    Unicode,
    /// `f2oLkTLb`.
    Ascii,
}

impl IdStyle {
    /// The style of this process's environment.
    pub(crate) fn current() -> Self {
        static STYLE: OnceLock<IdStyle> = OnceLock::new();
        *STYLE.get_or_init(|| IdStyle::from_variables(|name| std::env::var_os(name)))
    }

    /// The style for an environment: Unicode in a UTF-8 locale, unless the user forbids it.
    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        if variable("FLUX_F58_FORCE_ASCII").is_some() {
            return IdStyle::Ascii;
        }
        // The first variable that is set decides about the character set, as in setlocale(3).
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"]
            .into_iter()
            .filter_map(variable)
            .find(|value| !value.is_empty())
            .unwrap_or_default();
        let locale = locale.to_string_lossy().to_lowercase();
        let charset = locale.split_once('.').map_or("", |(_, charset)| charset);
        let charset = charset.split_once('@').map_or(charset, |(charset, _)| charset);
        match charset {
            "utf-8" | "utf8" => IdStyle::Unicode,
            _ => IdStyle::Ascii,
        }
    }

    /// `id` in this style.
    pub(crate) fn show(self, id: JobId) -> String {
        id.encode(match self {
            IdStyle::Unicode => Encoding::F58,
            IdStyle::Ascii => Encoding::F58Plain,
        })
    }
}

/// `id` in the style of this process's environment.
pub(crate) fn show_id(id: JobId) -> String {
    IdStyle::current().show(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn style(variables: &[(&str, &str)]) -> IdStyle {
        IdStyle::from_variables(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| value.into())
        })
    }

    #[test]
    fn the_locale_decides_in_the_order_of_its_variables() {
        assert_eq!(style(&[]), IdStyle::Ascii);
        assert_eq!(style(&[("LANG", "en_US.UTF-8")]), IdStyle::Unicode);
        assert_eq!(style(&[("LANG", "de_DE.utf8@euro")]), IdStyle::Unicode);
        assert_eq!(style(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]), IdStyle::Ascii);
        assert_eq!(style(&[("LC_ALL", ""), ("LC_CTYPE", "C.UTF-8")]), IdStyle::Unicode);
        assert_eq!(style(&[("LC_CTYPE", "POSIX"), ("LANG", "C.UTF-8")]), IdStyle::Ascii);
    }

    #[test]
    fn the_user_can_force_ascii() {
        let forced = style(&[("LANG", "C.UTF-8"), ("FLUX_F58_FORCE_ASCII", "1")]);
        assert_eq!(forced, IdStyle::Ascii);
    }

    #[test]
    fn ids_differ_in_the_first_letter_only() {
        let id = JobId::new(68_484_595_712);
        assert_eq!(IdStyle::Unicode.show(id), "ƒ2oLkTLb");
        assert_eq!(IdStyle::Ascii.show(id), "f2oLkTLb");
    }
}
