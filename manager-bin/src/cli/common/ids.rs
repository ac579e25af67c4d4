//! Job ids on the command line and in output, where they are `ƒ2oLkTLb`, or `f2oLkTLb` in locales without
//! `ƒ`.

use std::ffi::OsString;
use std::sync::OnceLock;

use jobtap_core::job::{Encoding, JobId, JobIdError};

use crate::cli::common::message::CliError;
use crate::locale;

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

    /// The style for an environment: Unicode in a UTF-8 locale, unless `FLUX_F58_FORCE_ASCII` is set.
    fn from_variables(variable: impl Fn(&str) -> Option<OsString>) -> Self {
        if variable("FLUX_F58_FORCE_ASCII").is_some() {
            return IdStyle::Ascii;
        }
        if locale::is_utf8(variable) { IdStyle::Unicode } else { IdStyle::Ascii }
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

/// A job that the command line names: its id, and the text that the user typed for it, which messages repeat.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Target {
    pub(crate) id: JobId,
    pub(crate) typed: String,
}

impl Target {
    /// Parses an id in any encoding. The error is that of Flux's compiled commands; the script commands use
    /// the [`FromStr`](std::str::FromStr) implementation, whose error clap reports as a usage error.
    pub(crate) fn parse(text: &str) -> Result<Self, CliError> {
        text.parse().map_err(|_| CliError::failure(format!("error parsing jobid: \"{text}\"")))
    }
}

impl std::str::FromStr for Target {
    type Err = JobIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Target { id: text.parse()?, typed: text.to_owned() })
    }
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
    fn the_locale_selects_the_style() {
        assert_eq!(style(&[("LANG", "en_US.UTF-8")]), IdStyle::Unicode);
        assert_eq!(style(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]), IdStyle::Ascii);
    }

    #[test]
    fn flux_f58_force_ascii_selects_ascii() {
        let forced = style(&[("LANG", "C.UTF-8"), ("FLUX_F58_FORCE_ASCII", "1")]);
        assert_eq!(forced, IdStyle::Ascii);
    }

    #[test]
    fn styles_differ_only_in_the_first_letter() {
        let id = JobId::new(68_484_595_712);
        assert_eq!(IdStyle::Unicode.show(id), "ƒ2oLkTLb");
        assert_eq!(IdStyle::Ascii.show(id), "f2oLkTLb");
    }
}
