//! What a user and a script see of one submission.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jobtap_core::slurm::errno::ERRORS;
use jobtap_core::slurm::{CONSTANTS, FIELDS, FUNCTIONS, Release};
use jobtap_tests::Output;

use super::pairs::folder;

/// The outcome of one request.
#[derive(Debug, PartialEq)]
pub(crate) struct Observed {
    /// Whether a job was made.
    pub(crate) accepted: bool,
    /// The lines for the user; the last one is the reason of a refusal.
    pub(crate) lines: Vec<String>,
    /// The fields of the description, by `WHEN NAME`.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Observed {
    /// Reads the output of `sbatch`, which has its name before each line, and the record of the driver.
    pub(crate) fn new(output: &Output, record: &Path) -> Self {
        // Newer releases refuse a job with the place in the script. 22.05 begins warnings with a capital.
        let directory = record.parent().unwrap_or(record).to_string_lossy();
        let stderr = output.stderr.replace(&*directory, "").replace(": Warning: ", ": warning: ");
        Self::with_lines(output, stderr.lines().map(str::to_owned).collect(), record)
    }

    /// Reads the output of a command that changes a job. Only the reason of a refusal is compared, without the
    /// words that each command has around it: Slurm 22.05 doesn't deliver messages for changes.
    pub(crate) fn of_update(output: &Output, record: &Path) -> Self {
        let reason = |line: &str| {
            let line = line.rsplit_once(": ERROR: ").map_or(line, |(_, text)| text);
            let line = line.split_once("] ").map_or(line, |(_, text)| text);
            line.split(" for job ").next().unwrap_or_default().to_owned()
        };
        let last = output.stderr.lines().last().filter(|_| output.code != 0);
        Self::with_lines(output, last.map(reason).into_iter().collect(), record)
    }

    fn with_lines(output: &Output, lines: Vec<String>, record: &Path) -> Self {
        let text = fs::read_to_string(record).unwrap_or_default();
        let _ = fs::remove_file(record);
        let field = |line: &str| {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            let (when, name) = (parts.next()?, parts.next()?);
            Some((format!("{when} {name}"), parts.next()?))
        };
        Self { accepted: output.code == 0, lines, fields: text.lines().filter_map(field).collect() }
    }
}

/// The fields of the description that the driver records.
pub(crate) fn fields(release: Release) -> impl Iterator<Item = &'static str> {
    // slurmctld 24.11.5 crashes where a script reads it for a user without an association.
    let crashes = move |name: &str| name == "assoc_qos" && release == Release::V24_11;
    let readable = FIELDS.iter().filter(move |field| field.readable.has(release));
    readable.map(|field| field.name).filter(move |name| !crashes(name))
}

/// The `job_submit.lua` that runs the script of a pair and records what Slurm of this release knows.
pub(crate) fn driver(directory: &Path, release: Release) -> String {
    let text = fs::read_to_string(folder().join("driver.lua")).unwrap();
    let list = |name: &str| format!("    \"{name}\",\n");
    // Also those of other releases, which must be absent in both.
    let names = CONSTANTS.iter().map(|of| of.name).chain(ERRORS.iter().map(|of| of.name));
    let names: String = names.chain(FUNCTIONS.iter().map(|of| of.name)).map(list).collect();
    text.replace("@DIRECTORY@", &directory.to_string_lossy())
        .replace("@FIELDS@\n", &fields(release).map(list).collect::<String>())
        .replace("@NAMES@\n", &names)
}
