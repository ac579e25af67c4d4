//! What the chapters that are made from the code have in common.

use std::fs;
use std::path::Path;

/// Fails when a chapter differs from what the code says; with `UPDATE_DOCS` it writes the chapter instead.
#[track_caller]
pub(crate) fn agrees(chapter: &str, wanted: &str) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(chapter);
    if std::env::var_os("UPDATE_DOCS").is_some() {
        fs::write(path, wanted).unwrap();
        return;
    }
    let found = fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == wanted,
        "docs/src/{chapter} differs from the code: `UPDATE_DOCS=1 cargo test -p jobtap-guide` writes it \
         again; read the difference before you commit it"
    );
}
