//! Checks the table of `unsafe` code in the chapter about trust: how much of it each folder has, and that each block has
//! its proof.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Folders that have code that must not compile, or isn't ours.
const LEFT_OUT: [&str; 5] = ["target", "compile-fail", "compile-pass", "build-refusals", "corpus"];

/// How far above a block its proof may begin, in lines.
const NEAR: usize = 40;

/// What a folder has.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Count {
    /// `unsafe { ... }`.
    blocks: usize,
    /// Functions, implementations and attributes that are unsafe.
    items: usize,
}

fn files(folder: &Path, all: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        match path.is_dir() {
            true if LEFT_OUT.contains(&name) || name.starts_with('.') => {}
            true => files(&path, all),
            false if name.ends_with(".rs") => all.push(path),
            false => {}
        }
    }
}

/// The code of a line, without a comment.
fn code(line: &str) -> &str {
    line.split("//").next().unwrap_or_default()
}

fn count(line: &str) -> Count {
    let of = |word: &str| code(line).matches(word).count();
    let items = ["unsafe fn ", "unsafe extern ", "unsafe impl ", "unsafe trait ", "#[unsafe("];
    Count { blocks: of("unsafe {"), items: items.into_iter().map(of).sum() }
}

/// The row of a file: its folder, or itself where its folder has other code.
fn row(root: &Path, path: &Path) -> String {
    let name = path.strip_prefix(root).unwrap().to_str().unwrap();
    match name.split_once("/ffi/") {
        Some((folder, _)) => format!("{folder}/ffi/"),
        None => name.to_owned(),
    }
}

#[test]
fn the_chapter_counts_unsafe_code_and_each_block_has_its_proof() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut all = Vec::new();
    files(&root, &mut all);
    let mut found: BTreeMap<String, Count> = BTreeMap::new();
    // This file has the words as texts.
    for path in all.iter().filter(|path| !path.ends_with(file!())) {
        let text = fs::read_to_string(path).unwrap();
        let lines: Vec<&str> = text.lines().collect();
        for (number, line) in lines.iter().enumerate() {
            let Count { blocks, items } = count(line);
            if blocks + items == 0 {
                continue;
            }
            let count = found.entry(row(&root, path)).or_default();
            (count.blocks, count.items) = (count.blocks + blocks, count.items + items);
            let above = &lines[number.saturating_sub(NEAR)..=number];
            let proved = blocks == 0 || above.iter().any(|line| line.contains("SAFETY:"));
            assert!(proved, "{}:{}: no SAFETY:", path.display(), number + 1);
        }
    }
    let (_, chapter) = include_str!("src/trust.md").split_once("## Unsafe code").unwrap();
    let rows = chapter.lines().skip_while(|line| !line.starts_with("|---"));
    let rows = rows.skip(1).take_while(|line| line.starts_with("| "));
    let told: BTreeMap<String, Count> = rows
        .map(|row| {
            let cells: Vec<&str> = row.split('|').map(str::trim).collect();
            let [_, place, blocks, items, ..] = cells[..] else { panic!("{row}") };
            let number = |text: &str| text.parse().unwrap();
            let count = Count { blocks: number(blocks), items: number(items) };
            (place.trim_matches('`').to_owned(), count)
        })
        .collect();
    assert_eq!(told, found);
}
