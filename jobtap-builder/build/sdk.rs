//! Packs the sources of the SDK and of the manager, so that a manager can build managers without any
//! of our crates being published.
//!
//! What is packed is the workspace of this package, which is the unpacked copy itself when a manager is
//! built by `jobtap build`: such a manager builds managers as well as the first one. A published package
//! has no workspace around it, so nothing is packed, and `jobtap build` asks for `--sdk`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The folders of the packages that a manager is made of.
const PACKAGES: &[&str] = include!("packages.rs");

/// Packs them into a file of the build's output directory.
pub(crate) fn pack() -> io::Result<()> {
    let here = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let root = here.parent().map(Path::to_path_buf).unwrap_or_default();
    let mut files = Vec::new();
    // Where cargo has unpacked a published package, its folder is NAME-VERSION. So this name means our own workspace.
    if here.ends_with("jobtap-builder") && root.join("Cargo.toml").is_file() {
        for name in ["Cargo.toml", "Cargo.lock"] {
            collect(&root, name, &mut files)?;
        }
        for package in PACKAGES {
            for part in ["Cargo.toml", "build.rs", "build", "src", "benches"] {
                collect(&root, &format!("{package}/{part}"), &mut files)?;
            }
            // The time of a directory shows files that were added or removed.
            println!("cargo:rerun-if-changed={}", root.join(package).join("src").display());
        }
    }
    println!("cargo:rerun-if-changed=build");
    files.sort();
    let mut packed = Vec::new();
    for name in &files {
        let bytes = fs::read(root.join(name))?;
        packed.extend(format!("{name}\n{}\n", bytes.len()).bytes());
        packed.extend(bytes);
        println!("cargo:rerun-if-changed={}", root.join(name).display());
    }
    let out = PathBuf::from(std::env::var_os("OUT_DIR").unwrap_or_default());
    fs::write(out.join("sdk.lz4"), lz4_flex::compress_prepend_size(&packed))
}

/// Adds a file, or the files in a directory and those below it.
fn collect(root: &Path, name: &str, files: &mut Vec<String>) -> io::Result<()> {
    let path = root.join(name);
    // Snapshots are for tests of the workspace alone.
    if path.is_file() && path.extension().is_none_or(|extension| extension != "snap") {
        files.push(name.to_owned());
    }
    if path.is_dir() {
        for entry in fs::read_dir(&path)? {
            let entry = entry?.file_name();
            collect(root, &format!("{name}/{}", entry.to_string_lossy()), files)?;
        }
    }
    Ok(())
}
