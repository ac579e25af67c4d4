//! Both managers answer the same pair of script and request alike: the verdict, the lines for the user, and
//! each field of the description before and after the script.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jobtap_core::slurm::{FIELDS, Release};

use super::observed::{Observed, driver};
use super::ours::Ours;
use super::pairs::{self, Pair, Request, folder};
use jobtap_tests::slurm::Slurm;

/// Fields that may differ, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("alloc_node", "Slurm looks the address of the client up, which is `localhost` here"),
    (
        "environment.HOME",
        "without a login on a node, a job keeps HOME though `--export` leaves it out",
    ),
];

/// The job that is changed: held, so that it stays pending in both.
const JOB: &[&str] = &[
    "--parsable",
    "--hold",
    "-t",
    "30",
    "-A",
    "physics",
    "-J",
    "old",
    "--comment=old",
    "--wrap",
    "true",
];

/// Puts the script of a pair, and the files that scripts read, where the driver finds them.
fn place(pair: &Pair, directory: &Path) {
    fs::copy(&pair.script, directory.join("policy.lua")).unwrap();
    for name in ["scripts/site_limits.lua", "accounts.txt"] {
        let file = folder().join(name);
        fs::copy(&file, directory.join(file.file_name().unwrap())).unwrap();
    }
}

fn describe(theirs: &Observed, ours: &Observed, only_fields: bool) -> Vec<String> {
    let mut found = Vec::new();
    if !only_fields && theirs.accepted != ours.accepted {
        found.push(format!("accepted: Slurm {}, ours {}", theirs.accepted, ours.accepted));
    }
    if !only_fields && theirs.lines != ours.lines {
        found.push(format!("lines:\n  Slurm {:?}\n  ours  {:?}", theirs.lines, ours.lines));
    }
    for (field, theirs) in &theirs.fields {
        let name = field.split_once(' ').map_or(&**field, |(_, name)| name);
        let ours = ours.fields.get(field).map_or("(missing)", String::as_str);
        if ours != theirs && !DIFFERENT.iter().any(|(known, _)| *known == name) {
            found.push(format!("{field}: Slurm {theirs:?}, ours {ours:?}"));
        }
    }
    found
}

#[test]
fn a_script_decides_as_in_a_real_slurmctld() {
    if !Slurm::is_installed() {
        eprintln!("skipped: slurmctld, sbatch or munged is not installed");
        return;
    }
    // Ours starts first, since it may have to be compiled, and the time of a test's processes is limited.
    let ours = Ours::start(driver);
    let slurm = Slurm::start(driver);
    let pairs = pairs::all();
    assert!(pairs.len() >= 60, "{} pairs", pairs.len());
    let mut differences = BTreeMap::new();
    let mut seen = BTreeMap::new();
    for pair in &pairs {
        place(pair, &slurm.scripts());
        place(pair, &ours.scripts());
        let (their_record, our_record) =
            (slurm.scripts().join("record"), ours.scripts().join("record"));
        let (theirs, mine) = match &pair.request {
            Request::Submit(words) => {
                let words: Vec<&str> = words.iter().map(String::as_str).collect();
                let theirs = Observed::new(&slurm.sbatch(&words), &their_record);
                (theirs, Observed::new(&ours.sbatch(&words), &our_record))
            }
            Request::Modify { theirs, ours: words } => {
                let id = slurm.sbatch(JOB).ok();
                let theirs = slurm.update(&id, theirs);
                let id = ours.sbatch(JOB).ok();
                let mine = ours.update(&id, words);
                (
                    Observed::of_update(&theirs, &their_record),
                    Observed::of_update(&mine, &our_record),
                )
            }
        };
        assert!(!theirs.fields.is_empty(), "{}: {:?}", pair.name, theirs.lines);
        seen.extend(theirs.fields.keys().map(|field| (field.clone(), ())));
        let found = describe(&theirs, &mine, pair.only_fields);
        if !found.is_empty() {
            differences.insert(&pair.name, found);
        }
    }
    for field in FIELDS.iter().filter(|field| field.readable.has(Release::V22_05)) {
        assert!(seen.contains_key(&format!("after {}", field.name)), "{}", field.name);
    }
    let text: String = differences
        .iter()
        .map(|(name, found)| format!("{name}\n  {}\n", found.join("\n  ")))
        .collect();
    assert!(
        differences.is_empty(),
        "{} of {} pairs differ:\n{text}",
        differences.len(),
        pairs.len()
    );
}
