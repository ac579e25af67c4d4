//! The releases of Slurm that are known, and the ranges of releases in which something holds.
//!
//! What a release has is declared where the thing itself is: a [field](super::Field), an
//! [error](super::errno::ERRORS), a [constant](super::CONSTANTS) and a [function](super::FUNCTIONS) each
//! name their releases. What a release shows in another form is in [`shown`](super::shown).

use std::fmt;
use std::str::FromStr;

/// A release of Slurm, in the order in which they came out.
///
/// ```
/// use jobtap_core::slurm::Release;
///
/// let release: Release = "24.11.5".parse()?;
/// assert_eq!((release, release.to_string().as_str()), (Release::V24_11, "24.11"));
/// assert!(release < Release::NEWEST);
/// assert!("21.08".parse::<Release>().is_err());
/// # Ok::<(), jobtap_core::slurm::UnknownRelease>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Release {
    /// 22.05, which Debian 12 has.
    V22_05,
    /// 23.02.
    V23_02,
    /// 23.11.
    V23_11,
    /// 24.05.
    V24_05,
    /// 24.11, which Debian 13 has.
    V24_11,
    /// 25.05.
    V25_05,
    /// 25.11.
    V25_11,
    /// 26.05.
    V26_05,
}

impl Release {
    /// All of them, the oldest first.
    pub const ALL: &'static [Self] = &[
        Self::V22_05,
        Self::V23_02,
        Self::V23_11,
        Self::V24_05,
        Self::V24_11,
        Self::V25_05,
        Self::V25_11,
        Self::V26_05,
    ];

    /// The oldest one.
    pub const OLDEST: Self = Self::V22_05;

    /// The newest one.
    pub const NEWEST: Self = Self::V26_05;

    /// Its name, such as `24.11`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::V22_05 => "22.05",
            Self::V23_02 => "23.02",
            Self::V23_11 => "23.11",
            Self::V24_05 => "24.05",
            Self::V24_11 => "24.11",
            Self::V25_05 => "25.05",
            Self::V25_11 => "25.11",
            Self::V26_05 => "26.05",
        }
    }
}

impl Default for Release {
    fn default() -> Self {
        Self::NEWEST
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A text names no release of Slurm that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is no known release of Slurm; known are {}", known())]
pub struct UnknownRelease {
    /// The text.
    pub text: String,
}

/// The names of all releases.
fn known() -> String {
    Release::ALL.iter().map(|release| release.name()).collect::<Vec<_>>().join(", ")
}

impl FromStr for Release {
    type Err = UnknownRelease;

    /// Reads `24.11`, or a version of that release such as `24.11.5`.
    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let is_version = |rest: &str| {
            let micro = rest.strip_prefix('.').unwrap_or_default();
            rest.is_empty() || (!micro.is_empty() && micro.bytes().all(|b| b.is_ascii_digit()))
        };
        let named = |release: &&Self| text.strip_prefix(release.name()).is_some_and(is_version);
        let unknown = || UnknownRelease { text: text.to_owned() };
        Self::ALL.iter().find(named).copied().ok_or_else(unknown)
    }
}

/// The releases of Slurm in which something holds: none, or all from a first to a last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Releases(Option<(Release, Release)>);

impl Releases {
    /// No release.
    pub const NONE: Self = Self(None);
    /// All releases.
    pub const ALL: Self = Self(Some((Release::OLDEST, Release::NEWEST)));

    /// This one and all later ones.
    #[must_use]
    pub const fn since(first: Release) -> Self {
        Self(Some((first, Release::NEWEST)))
    }

    /// This one and all earlier ones.
    #[must_use]
    pub const fn until(last: Release) -> Self {
        Self(Some((Release::OLDEST, last)))
    }

    /// These two, and all between them.
    #[must_use]
    pub const fn between(first: Release, last: Release) -> Self {
        Self(Some((first, last)))
    }

    /// Whether a release is one of them.
    #[must_use]
    pub fn has(self, release: Release) -> bool {
        self.0.is_some_and(|(first, last)| (first..=last).contains(&release))
    }

    /// Whether there is one.
    #[must_use]
    pub const fn any(self) -> bool {
        self.0.is_some()
    }
}

impl fmt::Display for Releases {
    /// Writes `in no release`, `in all releases`, `since 24.11`, `until 23.11` or `from 23.02 to 25.05`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            None => f.write_str("in no release"),
            Some((Release::OLDEST, Release::NEWEST)) => f.write_str("in all releases"),
            Some((first, Release::NEWEST)) => write!(f, "since {first}"),
            Some((first, last)) if first == last => write!(f, "in {first} only"),
            Some((Release::OLDEST, last)) => write!(f, "until {last}"),
            Some((first, last)) => write!(f, "from {first} to {last}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_release_is_read_with_or_without_a_version() {
        for release in Release::ALL {
            assert_eq!(release.name().parse(), Ok(*release));
            assert_eq!(format!("{release}.17").parse(), Ok(*release));
        }
        assert!(Release::ALL.is_sorted());
        assert_eq!(Release::ALL.last(), Some(&Release::NEWEST));
    }

    #[test]
    fn what_is_no_release_is_refused_with_the_known_ones() {
        for text in ["", "24", "24.1", "24.11.", "24.11.x", "24.115", "21.08", "newest"] {
            assert!(text.parse::<Release>().is_err(), "{text}");
        }
        assert_eq!(
            "27.05".parse::<Release>().unwrap_err().to_string(),
            "\"27.05\" is no known release of Slurm; known are \
             22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11, 26.05"
        );
    }

    #[test]
    fn a_range_has_its_ends_and_what_is_between() {
        let middle = Releases::between(Release::V23_02, Release::V24_05);
        let has = |range: Releases| Release::ALL.iter().filter(|of| range.has(**of)).count();
        assert_eq!((has(middle), has(Releases::NONE), has(Releases::ALL)), (3, 0, 8));
        assert_eq!(has(Releases::since(Release::V25_11)), 2);
        assert_eq!(has(Releases::until(Release::V22_05)), 1);
        assert_eq!(middle.to_string(), "from 23.02 to 24.05");
        assert_eq!(Releases::since(Release::V24_11).to_string(), "since 24.11");
        assert_eq!(Releases::until(Release::V23_11).to_string(), "until 23.11");
        assert_eq!(Releases::until(Release::V22_05).to_string(), "in 22.05 only");
    }
}
