//! The pairs of a script and a request, from the scripts in `scripts/` and the requests in their first lines.

use std::fs;
use std::path::PathBuf;

/// A script and one of its requests.
pub(crate) struct Pair {
    /// The script's file.
    pub(crate) script: PathBuf,
    /// Its name, for messages.
    pub(crate) name: String,
    /// The words after `sbatch`.
    pub(crate) request: Vec<String>,
    /// Only the fields and the messages are compared: the request names what the Slurm of the test doesn't
    /// have, such as a reservation, which it refuses after the script.
    pub(crate) only_fields: bool,
}

impl Pair {
    /// The words after `sbatch`.
    pub(crate) fn words(&self) -> Vec<&str> {
        self.request.iter().map(String::as_str).collect()
    }
}

/// The folder of the scripts.
pub(crate) fn folder() -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/slurm"))
}

/// All pairs, in the order of the scripts' names.
pub(crate) fn all() -> Vec<Pair> {
    let files = fs::read_dir(folder().join("scripts")).unwrap();
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    files.into_iter().flat_map(of_script).collect()
}

fn of_script(script: PathBuf) -> Vec<Pair> {
    let text = fs::read_to_string(&script).unwrap();
    let name = script.file_stem().unwrap().to_string_lossy().into_owned();
    let requests = text.lines().filter_map(|line| line.strip_prefix("-- request"));
    let pair = |line: &str| {
        let (kind, words) = line.split_once(": ").unwrap();
        let request: Vec<String> = words.split_whitespace().map(str::to_owned).collect();
        let name = format!("{name}: {words}");
        Pair { script: script.clone(), name, request, only_fields: kind == " (fields)" }
    };
    requests.map(pair).collect()
}
