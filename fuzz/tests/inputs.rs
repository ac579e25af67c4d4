//! Every target with the inputs of `corpus/` and random changes of them.
//!
//! `JOBTAP_FUZZ_INPUTS` is the number of changed inputs for each target, `JOBTAP_FUZZ_SEED` what they begin with, and
//! `JOBTAP_FUZZ_TARGET` the only target to run.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use jobtap_fuzz::{TARGETS, Target};

mod common;

use common::{inputs, number};

/// Whether what must hold holds for this input. Says which it is if not.
#[allow(clippy::print_stderr)]
fn holds(target: &Target, input: &[u8]) -> bool {
    let run = catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    if run.is_err() {
        eprintln!("{} fails with this input: b\"{}\"", target.name, input.escape_ascii());
    }
    run.is_ok()
}

#[test]
fn what_must_hold_holds_for_changed_inputs() {
    let (count, seed) = (number("JOBTAP_FUZZ_INPUTS", 200), number("JOBTAP_FUZZ_SEED", 1));
    let only = std::env::var("JOBTAP_FUZZ_TARGET").ok();
    let is_chosen = |target: &&Target| only.as_ref().is_none_or(|name| name == target.name);
    let fails = |target: &&Target| inputs(target, count, seed).any(|input| !holds(target, &input));
    let failed: Vec<&str> =
        TARGETS.iter().filter(is_chosen).filter(fails).map(|target| target.name).collect();
    assert!(failed.is_empty(), "{failed:?}");
}

#[test]
fn each_folder_of_inputs_has_a_target_and_all_are_small() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let mut bytes = 0;
    for folder in corpus.read_dir().unwrap() {
        let folder = folder.unwrap();
        let name = folder.file_name().into_string().unwrap();
        assert!(jobtap_fuzz::target(&name).is_some(), "{name} has no target");
        for file in folder.path().read_dir().unwrap() {
            bytes += file.unwrap().metadata().unwrap().len();
        }
    }
    assert!(bytes < 200_000, "{bytes} bytes");
}
