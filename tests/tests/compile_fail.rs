//! Mistakes of plugin authors and what the compiler says to them: one mistake a fixture, its text
//! pinned. `TRYBUILD=overwrite cargo test -p jobtap-tests --test compile_fail` writes the texts
//! again; read each one as an author would before you commit it.

#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

/// Fixtures of several mistakes, or of one that the compiler tells beside another.
const SEVERAL: [&str; 4] = ["026", "134", "138", "177"];

#[test]
fn mistakes_are_compile_errors_that_teach() {
    // Before the cases, which run when they are dropped.
    let readme = readme_program();
    let cases = trybuild::TestCases::new();
    cases.compile_fail("compile-fail/*.rs");
    cases.pass("compile-pass/*.rs");
    cases.pass(readme.path());
}

/// No error follows another: an author reads one, and it is the right one.
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
fn every_case_has_its_number_and_its_line() {
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

/// The README's plugin and its test as one program: it compiles, and the test passes.
fn readme_program() -> tempfile::NamedTempFile {
    let readme = std::fs::read_to_string(jobtap_tests::workspace().join("README.md")).unwrap();
    let blocks = readme.split("```rust\n").skip(1);
    let code: Vec<&str> = blocks.filter_map(|block| block.split("```").next()).collect();
    assert_eq!(code.len(), 2, "the README has a plugin and its test");
    let mut program = code.concat().replace("#[test]\n", "");
    program.push_str("\nfn main() {\n    small_jobs_go_first();\n}\n");
    let file = tempfile::Builder::new().suffix(".rs").tempfile().unwrap();
    std::fs::write(file.path(), program).unwrap();
    file
}
