//! The pairs of a script and a request, from the scripts in `scripts/` and the requests in their first lines.

use std::fs;
use std::path::PathBuf;

use jobtap_core::slurm::Releases;

/// A script and one of its requests.
pub(crate) struct Pair {
    /// The script's file.
    pub(crate) script: PathBuf,
    /// Its name, for messages.
    pub(crate) name: String,
    pub(crate) request: Request,
    /// Only the fields and the messages are compared: the request names something that the Slurm of the test doesn't
    /// have, such as a reservation, which it refuses after the script.
    pub(crate) only_fields: bool,
    /// The releases whose `sbatch` takes these words.
    pub(crate) releases: Releases,
}

/// What is asked of both managers.
pub(crate) enum Request {
    /// The words after `sbatch`.
    Submit(Vec<String>),
    /// A change of a held job: what `scontrol update job ID` sets, and the words after `jobtap`, in which `ID`
    /// stands for the job.
    Modify { theirs: Vec<String>, ours: Vec<String> },
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
    let all = |words: &str| words.split_whitespace().map(str::to_owned).collect();
    let pair = |line: &str| {
        let (kind, words) = line.strip_prefix("-- ")?.split_once(": ")?;
        let (kind, releases) = match kind.split_once(" until ") {
            Some((kind, last)) => (kind, Releases::until(last.parse().unwrap())),
            None => (kind, Releases::ALL),
        };
        let (kind, only_fields) = match kind.strip_suffix(" (fields)") {
            Some(kind) => (kind, true),
            None => (kind, false),
        };
        let request = match (kind, words.split_once(" => ")) {
            ("request", _) => Request::Submit(all(words)),
            ("modify", Some((theirs, ours))) => {
                Request::Modify { theirs: all(theirs), ours: all(ours) }
            }
            _ => return None,
        };
        let name = format!("{name}: {words}");
        Some(Pair { script: script.clone(), name, request, only_fields, releases })
    };
    text.lines().filter_map(pair).collect()
}
