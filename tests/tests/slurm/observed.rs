//! What a user and a script see of one submission.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jobtap_core::slurm::FIELDS;
use jobtap_tests::Output;

use super::pairs::folder;

/// The outcome of one request.
#[derive(Debug, PartialEq)]
pub(crate) struct Observed {
    /// Whether a job was made.
    pub(crate) accepted: bool,
    /// The lines for the user, without the program's name; the reason of a refusal is the last.
    pub(crate) lines: Vec<String>,
    /// The description, by `WHEN NAME`.
    pub(crate) fields: BTreeMap<String, String>,
}

impl Observed {
    /// Reads the output of `sbatch`, whose name stands before each line, and the record of the driver.
    pub(crate) fn new(output: &Output, programs: &[&str], record: &Path) -> Self {
        let plain = |line: &str| {
            let rest = programs.iter().find_map(|name| line.strip_prefix(&format!("{name}: ")));
            let rest = rest.unwrap_or(line);
            let mark = ["error: ", "ERROR: "].iter().find_map(|mark| rest.strip_prefix(mark));
            mark.unwrap_or(rest).to_owned()
        };
        let text = fs::read_to_string(record).unwrap_or_default();
        let _ = fs::remove_file(record);
        let field = |line: &str| {
            let mut parts = line.splitn(3, '\t').map(str::to_owned);
            let (when, name) = (parts.next()?, parts.next()?);
            Some((format!("{when} {name}"), parts.next()?))
        };
        Self {
            accepted: output.code == 0,
            lines: output.stderr.lines().map(plain).collect(),
            fields: text.lines().filter_map(field).collect(),
        }
    }
}

/// The `job_submit.lua` that runs the script of a pair and records the fields that Slurm 22.05 knows.
pub(crate) fn driver(directory: &Path) -> String {
    let text = fs::read_to_string(folder().join("driver.lua")).unwrap();
    let readable = FIELDS.iter().filter(|field| field.readable.v22_05);
    let names: String = readable.map(|field| format!("    \"{}\",\n", field.name)).collect();
    text.replace("@DIRECTORY@", &directory.to_string_lossy()).replace("@FIELDS@\n", &names)
}
