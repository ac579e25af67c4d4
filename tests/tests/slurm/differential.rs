//! Both managers answer the same pair of script and request alike: the verdict, the lines for the user, and
//! each field of the description before and after the script.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use jobtap_core::slurm::shown::FAILURE_REFUSES;
use jobtap_core::slurm::{Release, Releases};

use super::observed::{Observed, driver, fields};
use super::ours::Ours;
use super::pairs::{self, Pair, Request, folder};
use jobtap_tests::slurm::{Installation, Slurm};

/// Fields that may differ, with the reason.
const DIFFERENT: &[(&str, &str)] = &[
    ("alloc_node", "Slurm looks the address of the client up, which is `localhost` here"),
    (
        "environment.HOME",
        "without a login on a node, a job keeps HOME though `--export` leaves it out",
    ),
];

/// Outcomes that differ for a reason outside of the script. For these only the fields are compared.
const OUTCOMES: &[(Releases, &str, &str)] = &[
    (ONLY_24_11, "site_accounts: -J fewer", ONE_NODE),
    (ONLY_24_11, "site_qos: -q PREMIUM -N 4", ONE_NODE),
    (ONLY_24_11, "site_qos: -q premium -N 4", ONE_NODE),
    (SINCE_24_11, "modify_limits: Partition=debug", NO_NODE),
    (SINCE_24_11, "modify_read: Partition=debug", NO_NODE),
    (SINCE_24_11, "modify_site: Partition=debug", NO_NODE),
    (
        Releases::since(FAILURE_REFUSES),
        "error_in_the_middle: -A x",
        "Slurm doesn't say that a table was raised",
    ),
];

const ONLY_24_11: Releases = Releases::between(Release::V24_11, Release::V24_11);
const SINCE_24_11: Releases = Releases::since(Release::V24_11);
const ONE_NODE: &str = "24.11 refuses jobs of more nodes than there are; others leave them pending";
const NO_NODE: &str = "a job can't move to another partition before a node has registered";

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

/// Whether only the fields are compared in this release.
fn has_only_fields(pair: &Pair, release: Release) -> bool {
    let concerns = |(releases, begin, _): &&(Releases, &str, &str)| {
        releases.has(release) && pair.name.starts_with(begin)
    };
    pair.only_fields || OUTCOMES.iter().any(|known| concerns(&known))
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

/// Compares with a Slurm, if it is there.
fn compare(of: &Installation) {
    if let Some(missing) = of.missing() {
        eprintln!("skipped: there is no {missing}");
        return;
    }
    let release: Release = of.version().parse().unwrap();
    let driver = |directory: &Path| driver(directory, release);
    // Ours starts first, since it may have to be compiled, and the time of a test's processes is limited.
    let ours = Ours::start(release, driver);
    let slurm = Slurm::start_with_script(of, driver);
    let mut pairs = pairs::all();
    pairs.retain(|pair| pair.releases.has(release));
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
        let found = describe(&theirs, &mine, has_only_fields(pair, release));
        if !found.is_empty() {
            differences.insert(&pair.name, found);
        }
    }
    for field in fields(release) {
        assert!(seen.contains_key(&format!("after {field}")), "{field}");
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

#[test]
fn a_script_decides_as_in_the_slurmctld_of_the_machine() {
    compare(&Installation::system());
}

#[test]
fn a_script_decides_as_in_slurmctld_24_11() {
    compare(&Installation::made("24.11"));
}

#[test]
fn a_script_decides_as_in_slurmctld_26_05() {
    compare(&Installation::made("26.05"));
}
