//! Versions of Slurm, as headers, sources and commands name them.

use std::path::Path;
use std::{fmt, fs};

use super::error::InstalledError;

/// A version such as 24.11.5, as Slurm's `SLURM_VERSION_NUMBER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(u32);

impl Version {
    /// The version with this `SLURM_VERSION_NUMBER`.
    pub const fn from_number(number: u32) -> Self {
        Self(number)
    }

    /// The number, which Slurm compares with its own when it loads a plugin.
    pub const fn number(self) -> u32 {
        self.0
    }

    /// The parts of the release, such as 24 and 11.
    pub const fn release(self) -> (u32, u32) {
        (self.0 >> 16, self.0 >> 8 & 0xff)
    }

    /// Reads the version in the public headers.
    pub(super) fn of_headers(include: &Path) -> Result<Self, InstalledError> {
        let file = include.join("slurm/slurm_version.h");
        let text = read(&file)?;
        let number = text.lines().find_map(|line| {
            let rest = line.trim().strip_prefix("#define SLURM_VERSION_NUMBER")?;
            u32::from_str_radix(rest.trim().trim_start_matches("0x"), 16).ok()
        });
        number.map(Self).ok_or(InstalledError::NoVersion { file })
    }

    /// Reads the version of a source, which can be one that isn't released.
    pub(super) fn of_source(source: &Path) -> Result<String, InstalledError> {
        let text = read(&source.join("META"))?;
        let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
        Ok(version.map(str::trim).unwrap_or_default().to_owned())
    }

    /// Reads what `scontrol --version` prints: `slurm 24.11.5`, with a name of the distribution's before it.
    pub fn of_command(printed: &str) -> Option<Self> {
        let version = printed.split_whitespace().next_back()?;
        let mut parts = version.splitn(3, '.');
        let (major, minor, micro) = (parts.next()?, parts.next()?, parts.next()?);
        // A version of a distribution's or one that isn't released: 23.02.0-0rc1.
        let micro = micro.split(|c: char| !c.is_ascii_digit()).next()?;
        let part = |text: &str, most: u32| text.parse::<u32>().ok().filter(|part| *part <= most);
        let (major, minor, micro) = (part(major, 0xffff)?, part(minor, 0xff)?, part(micro, 0xff)?);
        Some(Self(major << 16 | minor << 8 | micro))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (major, minor) = self.release();
        write!(f, "{major}.{minor:02}.{}", self.0 & 0xff)
    }
}

fn read(file: &Path) -> Result<String, InstalledError> {
    fs::read_to_string(file).map_err(|error| InstalledError::File { file: file.to_owned(), error })
}
