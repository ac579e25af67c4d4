//! Which Slurm the headers are of.

use std::fs;
use std::path::Path;

use crate::headers::Headers;

/// The versions that this crate knows: what its functions take, and when slurmctld and slurmd call them.
const KNOWN: [&str; 1] = ["22.05"];

/// The number of the version, which Slurm compares with its own when it loads a plugin.
pub(crate) fn of(headers: &Headers) -> Result<u32, String> {
    let file = headers.include.join("slurm/slurm_version.h");
    let text = read(&file)?;
    let number = text.lines().find_map(|line| {
        let rest = line.trim().strip_prefix("#define SLURM_VERSION_NUMBER")?;
        let digits = rest.trim().trim_start_matches("0x");
        u32::from_str_radix(digits, 16).ok()
    });
    let number = number.ok_or_else(|| format!("{}: no SLURM_VERSION_NUMBER", file.display()))?;
    let series = format!("{}.{:02}", number >> 16, number >> 8 & 0xff);
    if !KNOWN.contains(&series.as_str()) {
        return Err(format!(
            "{} is of Slurm {series}, and this version of jobtap-slurm knows {}: what Slurm passes to its \
             plugins changes between its versions, so nothing is built for one that was not tried. Use a \
             newer jobtap, or build against a Slurm of these",
            file.display(),
            KNOWN.join(", ")
        ));
    }
    check_source(headers, number, &series)?;
    Ok(number)
}

/// Both must be of one release: a member that moved would be read from the wrong place.
fn check_source(headers: &Headers, number: u32, series: &str) -> Result<(), String> {
    let file = headers.source.join("META");
    let text = read(&file)?;
    let version = text.lines().find_map(|line| line.trim().strip_prefix("Version:"));
    let version = version.map(str::trim).unwrap_or_default();
    let expected = format!("{series}.{}", number & 0xff);
    if version == expected {
        return Ok(());
    }
    Err(format!(
        "the headers below {} are of Slurm {expected}, and the source in {} of {version:?}: take both of one \
         release, that of your daemons",
        headers.include.display(),
        headers.source.display()
    ))
}

fn read(file: &Path) -> Result<String, String> {
    println!("cargo::rerun-if-changed={}", file.display());
    fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))
}
