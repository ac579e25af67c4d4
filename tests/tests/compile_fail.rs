//! A plugin author's mistake is a compile error that says what to do. Each fixture has one mistake and, beside
//! it, the recorded text of the error. `TRYBUILD=overwrite cargo test -p jobtap-tests --test compile_fail`
//! writes the texts again; read each one as an author would before you commit it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Fixtures with several mistakes, or with one that the compiler reports beside another.
const SEVERAL: [&str; 4] = ["026", "134", "138", "177"];

/// No case that must compile is among these: with a single one, trybuild would call cargo for each case separately, and
/// build it where a check would do. Cases that must compile are the tests `compile-pass-NN`.
#[test]
fn every_mistake_gives_its_recorded_compile_error() {
    trybuild::TestCases::new().compile_fail("compile-fail/*.rs");
}

/// An author reads one error for one mistake, without further errors that follow from it.
#[test]
fn one_mistake_is_one_error() {
    for case in cases() {
        let told = std::fs::read_to_string(case.with_extension("stderr")).unwrap();
        let errors = told.lines().filter(|line| line.starts_with("error")).count();
        let several = SEVERAL.contains(&number(&case).as_str());
        assert!(errors == 1 || several, "{}: {errors} errors", case.display());
    }
}

#[test]
fn every_case_that_must_compile_is_a_test() {
    let tests = jobtap_tests::workspace().join("tests");
    let manifest = std::fs::read_to_string(tests.join("Cargo.toml")).unwrap();
    for file in std::fs::read_dir(tests.join("compile-pass")).unwrap() {
        let name = file.unwrap().file_name();
        let path = format!("path = \"compile-pass/{}\"", name.to_string_lossy());
        assert!(manifest.contains(&path), "tests/Cargo.toml has no test with {path}");
    }
}

#[test]
fn every_case_has_a_number_and_a_line_in_the_readme() {
    let list = jobtap_tests::workspace().join("tests/compile-fail/README.md");
    let list = std::fs::read_to_string(list).unwrap();
    let mut numbers: Vec<String> = cases().iter().map(|case| number(case)).collect();
    numbers.sort_unstable();
    let all: Vec<String> = (1..=numbers.len()).map(|number| format!("{number:03}")).collect();
    assert_eq!(numbers, all);
    for number in numbers {
        let line = format!("| {number} | ");
        assert_eq!(list.matches(&line).count(), 1, "the README's lines of {number}");
    }
}

fn cases() -> Vec<PathBuf> {
    let folder = jobtap_tests::workspace().join("tests/compile-fail");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "rs")).collect()
}

fn number(case: &Path) -> String {
    let name = case.file_name().unwrap().to_string_lossy();
    name.chars().take(3).collect()
}
