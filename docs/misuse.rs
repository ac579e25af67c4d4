//! Checks the guide's tables (misuses, Rust mistakes, faults): the tests, fixtures and examples they name must exist,
//! and the counts must match the rows.

use std::fs;
use std::path::{Path, PathBuf};

/// Rows that are about NULL pointers alone.
const NULL: [usize; 11] = [3, 5, 29, 35, 57, 61, 64, 70, 73, 77, 81];

const GONE: [&str; 3] = ["compile error", "impossible by construction", "no longer an error"];
const LEFT: [&str; 3] = ["typed run-time error", "run time, logged", "run time, silent"];

struct Row {
    number: usize,
    verdict: String,
    shown_by: String,
}

fn chapter() -> &'static str {
    include_str!("src/misuse.md")
}

fn rows() -> Vec<Row> {
    let cells = |line: &str| line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>();
    let lines = chapter().lines().map(cells).filter(|cells| cells.len() == 8);
    let row = |cells: Vec<String>| {
        let number = cells[1].parse().ok()?;
        Some(Row { number, verdict: cells[4].clone(), shown_by: cells[6].clone() })
    };
    lines.filter_map(row).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Backquoted text that looks like a test, a fixture or a file.
fn references(text: &str) -> impl Iterator<Item = &str> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|quoted| quoted.contains(".rs") || quoted.starts_with("compile-fail/"))
}

fn exists(reference: &str) -> bool {
    if let Some(number) = reference.strip_prefix("compile-fail/") {
        let fixtures = fs::read_dir(root().join("tests/compile-fail")).unwrap();
        let mut names = fixtures.map(|file| file.unwrap().file_name().into_string().unwrap());
        return names.any(|name| name.starts_with(&format!("{number}-")));
    }
    let (file, test) = reference.split_once("::").unwrap_or((reference, ""));
    let file = if file.contains('/') {
        root().join(file)
    } else {
        root().join("jobtap-core/tests/plugins").join(file)
    };
    // A module's submodules may be in a folder of the same name.
    let modules = fs::read_dir(file.with_extension("")).into_iter().flatten();
    let mut files = modules.map(|file| file.unwrap().path()).chain([file]);
    files.any(|file| {
        fs::read_to_string(file).is_ok_and(|text| test.is_empty() || tests(&text, test))
    })
}

/// Whether `text` defines a test with this name.
fn tests(text: &str, name: &str) -> bool {
    let Some((before, _)) = text.split_once(&format!("fn {name}(")) else { return false };
    let before = before.strip_suffix("async ").unwrap_or(before);
    let marks = before.lines().rev().map(str::trim).filter(|line| !line.is_empty());
    let mut marks = marks.take_while(|line| line.starts_with(['#', '/']));
    marks.any(|line| line == "#[test]" || line.starts_with("#[tokio::test"))
}

/// References in a text to things that don't exist.
fn missing(text: &str) -> Vec<&str> {
    references(text).filter(|reference| !exists(reference)).collect()
}

#[test]
fn there_is_a_row_for_each_of_the_hundred() {
    let numbers: Vec<usize> = rows().iter().map(|row| row.number).collect();
    assert_eq!(numbers, (1..=100).collect::<Vec<_>>());
    for row in rows() {
        let known = GONE.contains(&&*row.verdict) || LEFT.contains(&&*row.verdict);
        assert!(known, "row {}: {}", row.number, row.verdict);
    }
}

#[test]
fn what_shows_a_row_exists() {
    for row in rows() {
        if NULL.contains(&row.number) {
            continue;
        }
        let text = &row.shown_by;
        let examples = text.split("](#example-").skip(1).filter_map(|rest| rest.split(')').next());
        let mut shown = references(text).count();
        for example in examples {
            assert!(chapter().contains(&format!("### Example {example}\n")), "{example}");
            shown += 1;
        }
        assert!(shown > 0, "nothing shows row {}", row.number);
    }
    let rows = rows();
    let missing = rows.iter().flat_map(|row| missing(&row.shown_by));
    assert_eq!(missing.collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn what_the_chapter_about_rust_names_exists() {
    let chapter = include_str!("src/rust-mistakes.md");
    let tables = chapter.lines().filter(|line| line.starts_with('|'));
    let shown_by = tables.filter_map(|line| line.rsplit('|').nth(1));
    assert_eq!(shown_by.flat_map(missing).collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn each_row_of_the_chapters_about_trust_names_tests_that_exist() {
    let (faults, _) = include_str!("src/trust.md").split_once("## What is not promised").unwrap();
    let users = include_str!("src/threat-model.md");
    for (tables, least) in [(faults, 50), (users, 20)] {
        each_row_names_tests_that_exist(tables, least);
    }
}

fn each_row_names_tests_that_exist(tables: &str, least: usize) {
    let rows = tables.lines().filter(|line| line.starts_with("| ")).map(|line| {
        let shown_by = line.rsplit('|').nth(1).unwrap();
        (line, shown_by)
    });
    let faults: Vec<_> = rows.filter(|(_, shown_by)| shown_by.trim() != "test").collect();
    assert!(faults.len() > least, "the tables of the chapter were not found");
    for (row, shown_by) in faults {
        assert!(references(shown_by).next().is_some(), "no test in: {row}");
        assert_eq!(missing(shown_by), [""; 0], "in: {row}");
    }
}

#[test]
fn the_counts_are_those_of_the_rows() {
    let rows = rows();
    let counted = |verdict: &str| {
        let of = |row: &&Row| row.verdict == verdict && !NULL.contains(&row.number);
        rows.iter().filter(of).count()
    };
    for verdict in GONE.iter().chain(&LEFT) {
        let line = format!("| {verdict} | {} |", counted(verdict));
        assert!(chapter().contains(&line), "{line}");
    }
    let gone: usize = GONE.iter().map(|verdict| counted(verdict)).sum();
    let total = rows.len() - NULL.len();
    let percent = gone * 100 / total;
    let sentence = format!("So {gone} of {total}, {percent} %, can't occur at run time any more.");
    assert!(chapter().contains(&sentence), "{sentence}");
    let (last, nulls) = NULL.split_last().unwrap();
    let nulls: Vec<String> = nulls.iter().map(usize::to_string).collect();
    let sentence = format!("Rows {} and {last} are about NULL pointers alone.", nulls.join(", "));
    assert!(chapter().contains(&sentence), "{sentence}");
}
