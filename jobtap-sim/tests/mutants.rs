//! The faults in `mutants/` are faults of this manager: each patch still applies, to one file, and stands in the guide's
//! table.

#![allow(clippy::unwrap_used, clippy::indexing_slicing)]

use std::collections::BTreeSet;
use std::path::Path;

/// The lines of a patch's hunks as they are before it, each hunk by itself.
fn hunks(patch: &str) -> Vec<String> {
    let parts = patch.split("\n@@ ").skip(1);
    let before = parts.map(|hunk| {
        let lines = hunk.lines().skip(1).filter(|line| !line.starts_with('+'));
        lines.map(|line| format!("{}\n", line.get(1..).unwrap_or_default())).collect()
    });
    before.collect()
}

#[test]
fn each_fault_can_be_made_and_is_in_the_guide() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = folder.parent().unwrap();
    let guide = std::fs::read_to_string(root.join("docs/src/trust.md")).unwrap();
    let mut names = BTreeSet::new();
    for entry in std::fs::read_dir(folder.join("mutants")).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_none_or(|extension| extension != "patch") {
            continue;
        }
        let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
        let patch = std::fs::read_to_string(&path).unwrap();
        let files: Vec<&str> =
            patch.lines().filter_map(|line| line.strip_prefix("--- a/")).collect();
        assert_eq!(files.len(), 1, "{name}");
        let text = std::fs::read_to_string(root.join(files[0])).unwrap();
        let hunks = hunks(&patch);
        assert!(!hunks.is_empty(), "{name}");
        for hunk in hunks {
            assert!(text.contains(&hunk), "{name} doesn't apply to {}:\n{hunk}", files[0]);
        }
        assert!(guide.contains(&format!("| `{name}` |")), "{name} isn't in the guide");
        names.insert(name);
    }
    assert!(names.len() >= 30, "{names:?}");
}
