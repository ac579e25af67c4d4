//! The releases of Slurm whose plugins interface is known, and the fields that only some of them have.

use std::fmt;
use std::str::FromStr;

/// A release of Slurm: 22.05, and those after it.
///
/// ```
/// use jobtap_core::slurm::Release;
///
/// assert_eq!("24.11".parse(), Ok(Release::V24_11));
/// assert!(Release::V24_11 > Release::V23_02);
/// assert_eq!(Release::V24_11.to_string(), "24.11");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Release {
    /// 22.05
    V22_05,
    /// 23.02
    V23_02,
    /// 23.11
    V23_11,
    /// 24.05
    V24_05,
    /// 24.11
    V24_11,
    /// 25.05
    V25_05,
    /// 25.11
    V25_11,
    /// 26.05
    V26_05,
}

/// A text that names no release that is known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "Slurm {0} isn't known; known are 22.05, 23.02, 23.11, 24.05, 24.11, 25.05, 25.11 and 26.05"
)]
pub struct UnknownRelease(String);

impl Release {
    /// All releases that are known, the oldest first.
    pub const ALL: [Self; 8] = [
        Self::V22_05,
        Self::V23_02,
        Self::V23_11,
        Self::V24_05,
        Self::V24_11,
        Self::V25_05,
        Self::V25_11,
        Self::V26_05,
    ];

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

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Release {
    type Err = UnknownRelease;

    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let found = Self::ALL.into_iter().find(|release| release.name() == text);
        found.ok_or_else(|| UnknownRelease(text.to_owned()))
    }
}

/// The releases in which something exists, without a gap.
///
/// ```
/// use jobtap_core::slurm::{Release, Releases};
///
/// let has_segments = Releases::of_field("segment_size");
/// assert!(!has_segments.contains(Release::V23_11));
/// assert_eq!(has_segments.to_string(), "24.05 and later");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Releases {
    first: Release,
    last: Release,
}

impl Releases {
    /// All releases that are known.
    pub const ALL: Self = Self { first: Release::V22_05, last: Release::V26_05 };

    const fn since(first: Release) -> Self {
        Self { first, ..Self::ALL }
    }

    const fn until(last: Release) -> Self {
        Self { last, ..Self::ALL }
    }

    /// The releases whose descriptions of requests, job records or partitions have the field of this name.
    #[must_use]
    pub fn of_field(name: &str) -> Self {
        let row = FIELDS_OF_SOME.iter().find(|(field, _)| *field == name);
        row.map_or(Self::ALL, |(_, releases)| *releases)
    }

    /// Whether the release is one of them.
    #[must_use]
    pub fn contains(self, release: Release) -> bool {
        (self.first..=self.last).contains(&release)
    }
}

impl fmt::Display for Releases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (*self == Self::ALL, self.last == Self::ALL.last) {
            (true, _) => f.write_str("all releases"),
            (_, true) => write!(f, "{} and later", self.first),
            _ => write!(f, "{} and earlier", self.last),
        }
    }
}

/// Fields that not all releases have. A name means the same in each structure that has it.
const FIELDS_OF_SOME: &[(&str, Releases)] = &[
    ("power_flags", Releases::until(Release::V23_11)),
    ("container_id", Releases::since(Release::V23_02)),
    ("failed_node", Releases::since(Release::V23_02)),
    ("job_size_str", Releases::since(Release::V23_02)),
    ("max_cpus_per_socket", Releases::since(Release::V23_02)),
    ("resv_port_cnt", Releases::since(Release::V24_05)),
    ("resv_ports", Releases::since(Release::V24_05)),
    ("segment_size", Releases::since(Release::V24_05)),
    ("oom_kill_step", Releases::since(Release::V24_11)),
    ("licenses_allocated", Releases::since(Release::V25_05)),
    ("container_type", Releases::since(Release::V26_05)),
    ("mem_update_delay", Releases::since(Release::V26_05)),
    ("mem_update_margin", Releases::since(Release::V26_05)),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::slurm::{Field, JobDescriptor, JobRecord, Partition};

    #[test]
    fn releases_are_read_by_their_names() {
        for release in Release::ALL {
            assert_eq!(release.name().parse(), Ok(release));
        }
        let error = "24.10".parse::<Release>().unwrap_err().to_string();
        assert!(error.starts_with("Slurm 24.10 isn't known; known are 22.05"), "{error}");
        let known: Vec<&str> = Release::ALL.into_iter().map(Release::name).collect();
        assert!(known.iter().all(|name| error.contains(name)), "{error}");
    }

    #[test]
    fn a_field_of_some_releases_is_one_that_exists() {
        for (name, releases) in FIELDS_OF_SOME {
            let found = Field::find(JobDescriptor::FIELDS, name).is_some()
                || Field::find(JobRecord::FIELDS, name).is_some()
                || Field::find(Partition::FIELDS, name).is_some();
            assert!(found, "{name}");
            assert_ne!(*releases, Releases::ALL, "{name}");
        }
        assert_eq!(Releases::of_field("power_flags").to_string(), "23.11 and earlier");
        assert_eq!(Releases::of_field("account").to_string(), "all releases");
    }
}
