//! `jobtap licenses` shows the licenses of the crates that are in the program. The text is in the repository, so that the
//! program can be built without the sources of these crates at hand; `UPDATE_LICENSES=1` writes it again after a change of
//! Cargo.lock.
#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use jobtap_tests::{clean, jobtap, run, workspace};
use serde_json::Value;

const FILE: &str = "manager-bin/src/cli/instance/licenses.txt";

/// C libraries that crates bring along without a file of their licenses, which are MIT, too: their authors are named in the
/// sources.
const BUNDLED: &[(&str, &str)] = &[
    ("libmimalloc-sys", "Copyright (c) 2018-2026, Microsoft Research, Daan Leijen (mimalloc)"),
    ("lua-src", "Copyright (C) 1994-2026 Lua.org, PUC-Rio (Lua)"),
];

/// A crate that is in the program.
struct Part {
    name: String,
    version: String,
    license: String,
    directory: PathBuf,
}

/// The crates of others that the program `jobtap` links, for Linux. Macros and build scripts are not in it, but Lua is, which
/// a build script compiles.
fn parts() -> Vec<Part> {
    let mut metadata = Command::new(env!("CARGO"));
    metadata.current_dir(workspace()).args(["metadata", "--format-version=1", "--locked"]);
    metadata.args(["--offline", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let metadata: Value = serde_json::from_str(&run(&mut metadata).ok()).unwrap();
    let by_id = |list: &Value| -> BTreeMap<String, Value> {
        let id = |one: &Value| one["id"].as_str().unwrap().to_owned();
        list.as_array().unwrap().iter().map(|one| (id(one), one.clone())).collect()
    };
    let (packages, nodes) = (by_id(&metadata["packages"]), by_id(&metadata["resolve"]["nodes"]));
    let is_macro = |package: &Value| {
        let mut targets = package["targets"].as_array().unwrap().iter();
        targets.any(|target| target["kind"][0] == "proc-macro")
    };
    let manager = packages.iter().find(|(_, package)| package["name"] == "jobtap-manager");
    let mut left = vec![manager.unwrap().0.clone()];
    let mut seen = BTreeSet::new();
    while let Some(id) = left.pop() {
        if is_macro(&packages[&id]) || !seen.insert(id.clone()) {
            continue;
        }
        for dependency in nodes[&id]["deps"].as_array().unwrap() {
            let needed = dependency["pkg"].as_str().unwrap();
            let mut kinds = dependency["dep_kinds"].as_array().unwrap().iter();
            let is_source = packages[needed]["name"] == "lua-src";
            if kinds.any(|kind| kind["kind"].is_null() || (kind["kind"] == "build" && is_source)) {
                left.push(needed.to_owned());
            }
        }
    }
    let text = |package: &Value, key: &str| package[key].as_str().unwrap_or_default().to_owned();
    let part = |package: &Value| Part {
        name: text(package, "name"),
        version: text(package, "version"),
        // Cargo once wrote `MIT/Apache-2.0`, which isn't SPDX.
        license: text(package, "license").replace(" / ", "/").replace('/', " OR "),
        directory: Path::new(&text(package, "manifest_path")).parent().unwrap().to_owned(),
    };
    let of_others =
        seen.iter().map(|id| &packages[id]).filter(|package| !package["source"].is_null());
    let mut parts: Vec<Part> = of_others.map(part).collect();
    parts.sort_by(|a, b| (&a.name, &a.version).cmp(&(&b.name, &b.version)));
    parts
}

/// The files with a crate's licenses: that of the MIT license where it is one of several to choose from, else all.
fn license_files(part: &Part) -> Vec<PathBuf> {
    let is_license = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy().to_uppercase();
        let begins = ["LICENSE", "LICENCE", "COPYING", "NOTICE", "COPYRIGHT", "UNLICENSE"];
        path.is_file() && begins.iter().any(|word| name.starts_with(word))
    };
    let mut files: Vec<PathBuf> = Vec::new();
    let entries = fs::read_dir(&part.directory).unwrap();
    files.extend(entries.map(|entry| entry.unwrap().path()).filter(is_license));
    files.sort();
    let is_mit = |path: &PathBuf| path.to_string_lossy().to_uppercase().ends_with("MIT");
    let may_choose = part.license.contains("MIT OR") || part.license.contains("OR MIT");
    match files.iter().find(|path| is_mit(path)) {
        Some(mit) if may_choose && !part.license.contains("AND") => vec![mit.clone()],
        _ => files,
    }
}

/// The lines that say whose a work is, and the rest as paragraphs, in which only spaces and line breaks are lost.
fn split(text: &str) -> (BTreeSet<String>, String) {
    let is_notice = |line: &str| {
        let line = line.trim().to_lowercase();
        line.starts_with("copyright (c)")
            || line.starts_with("copyright ©")
            || (line.starts_with("copyright ") && line.bytes().any(|byte| byte.is_ascii_digit()))
    };
    let notices = text.lines().filter(|line| is_notice(line));
    let notices = notices.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
    let rest = text.lines().filter(|line| !is_notice(line)).collect::<Vec<_>>().join("\n");
    let paragraphs = rest.split("\n\n").map(|part| part.split_whitespace().collect::<Vec<_>>());
    let paragraphs = paragraphs.filter(|words| !words.is_empty()).map(filled);
    (notices.collect(), paragraphs.collect::<Vec<_>>().join("\n\n"))
}

/// The words in lines of a common width.
fn filled(words: Vec<&str>) -> String {
    let (mut text, mut width) = (String::new(), 0);
    for word in words {
        if width > 0 && width + word.len() >= 100 {
            text.push('\n');
            width = 0;
        } else if width > 0 {
            text.push(' ');
            width += 1;
        }
        text.push_str(word);
        width += word.len();
    }
    text
}

/// The whole text: a line for each crate, then each license once, with the crates that have it and their notices.
fn written(parts: &[Part]) -> String {
    let mut texts: BTreeMap<String, (BTreeSet<String>, BTreeSet<String>)> = BTreeMap::new();
    for part in parts {
        for file in license_files(part) {
            let (notices, body) = split(&String::from_utf8_lossy(&fs::read(file).unwrap()));
            let (names, all) = texts.entry(body).or_default();
            names.insert(part.name.clone());
            all.extend(notices);
            let bundled = BUNDLED.iter().filter(|(name, _)| *name == part.name);
            all.extend(bundled.map(|(_, notice)| (*notice).to_owned()));
        }
    }
    let line = |part: &Part| format!("{} {} {}\n", part.name, part.version, part.license);
    let mut text: String = parts.iter().map(line).collect();
    let mut texts: Vec<_> = texts.into_iter().collect();
    texts.sort_by_key(|(_, (names, _))| std::cmp::Reverse(names.len()));
    for (body, (names, notices)) in texts {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        text += &format!("\n{}\n{}\n\n", "-".repeat(100), filled(names));
        notices.iter().for_each(|notice| text += &format!("{notice}\n"));
        text += &format!("{}{body}\n", if notices.is_empty() { "" } else { "\n" });
    }
    text
}

#[test]
fn the_licenses_of_all_crates_of_the_program_are_shown() {
    let made = written(&parts());
    let file = workspace().join(FILE);
    if std::env::var_os("UPDATE_LICENSES").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap();
    let update = "UPDATE_LICENSES=1 cargo test -p jobtap-tests --test licenses";
    // The message of a failure doesn't show the whole texts: they are too long to read.
    let changed = made.lines().zip(known.lines()).find(|(made, known)| made != known);
    assert_eq!(changed, None, "{FILE} is not that of Cargo.lock: {update}");
    assert!(made == known, "{FILE} is not that of Cargo.lock: {update}");
}

#[test]
fn every_crate_has_a_text() {
    for part in parts() {
        // These two packages have no file; the texts of their licenses are there for other crates.
        let without = ["varint-rs", "asn1-rs-impl", "mlua-sys"].contains(&part.name.as_str());
        assert!(without || !license_files(&part).is_empty(), "{}", part.name);
    }
}

#[test]
fn the_command_shows_them() {
    let shown = run(clean(jobtap()).arg("licenses")).ok();
    let listed = run(clean(jobtap()).args(["licenses", "--list"])).ok();
    assert!(listed.lines().any(|line| line.starts_with("tokio ") && line.ends_with(" MIT")));
    assert!(shown.starts_with(&listed) && shown.contains("Permission is hereby granted"));
}
