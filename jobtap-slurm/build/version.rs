//! Determines the version of Slurm that the headers belong to.

use std::fs;
use std::path::Path;

use crate::error::BuildError;
use crate::headers::Headers;

/// The versions that this crate supports: the parameters of the plugin functions, and when slurmctld and slurmd call
/// them, depend on the version.
const KNOWN: &[&str] = &["22.05"];

/// Returns the version number, which Slurm compares with its own when it loads a plugin.
pub(crate) fn read_number(headers: &Headers) -> Result<u32, BuildError> {
    let file = headers.include.join("slurm/slurm_version.h");
    let text = read(&file)?;
    let number = text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("#define SLURM_VERSION_NUMBER")?;
        let digits = rest.trim().trim_start_matches("0x");
        u32::from_str_radix(digits, 16).ok()
    });
    let Some(number) = number else { return Err(BuildError::NoVersion { file }) };
    let series = format!("{}.{:02}", number >> 16, number >> 8 & 0xff);
    if !KNOWN.contains(&series.as_str()) {
        return Err(BuildError::UnknownSeries { file, series, known: KNOWN });
    }
    check_source(headers, number, &series)?;
    Ok(number)
}

/// Checks that the public headers and the source belong to one release. Otherwise a member could be read at a wrong
/// offset.
fn check_source(headers: &Headers, number: u32, series: &str) -> Result<(), BuildError> {
    let file = headers.source.join("META");
    let text = read(&file)?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    let version = version.map(str::trim).unwrap_or_default();
    let expected = format!("{series}.{}", number & 0xff);
    if version == expected {
        return Ok(());
    }
    Err(BuildError::TwoReleases {
        include: headers.include.clone(),
        of_headers: expected,
        source: headers.source.clone(),
        of_source: version.to_owned(),
    })
}

fn read(file: &Path) -> Result<String, BuildError> {
    println!("cargo::rerun-if-changed={}", file.display());
    fs::read_to_string(file).map_err(|error| BuildError::File { file: file.to_owned(), error })
}
