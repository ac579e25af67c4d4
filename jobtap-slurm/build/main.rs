//! Finds Slurm's headers and generates the offsets of the members of its structures.
//!
//! Slurm's structures change with each of its versions, and some of them are not public. So this crate
//! doesn't contain their layout: the build reads it from the headers of the Slurm for which a plugin file is
//! built. The C compiler determines the layout, since Slurm was built with one, and a C compiler is present
//! wherever Rust can link. (bindgen would need libclang as well, and would generate hundreds of types, of
//! which this crate uses ten, and looks up their members by name anyway.)
//!
//! Without Slurm's source only the public structures are known, and the tables of the others are empty.
//!
//! Without the feature `binding` this script does nothing, and the crate has no functions that Slurm calls.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "so a build script talks to cargo")]

mod error;
#[allow(dead_code, unreachable_pub, reason = "it is a part of the crate, which uses the rest")]
#[path = "../src/installed/mod.rs"]
mod installed;
mod layout;

use std::path::PathBuf;
use std::process::exit;

use self::error::BuildError;
use self::installed::{FORCE_LAYOUT, INCLUDE_DIR, Installed, SOURCE_DIR, Search, Source};

fn main() {
    for variable in [INCLUDE_DIR, SOURCE_DIR, FORCE_LAYOUT, "CC"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    println!("cargo::rerun-if-changed=build");
    println!("cargo::rerun-if-changed=src/installed");
    if std::env::var_os("CARGO_FEATURE_BINDING").is_none() {
        return;
    }
    if let Err(error) = bind() {
        eprintln!("jobtap-slurm: {error}");
        exit(1);
    }
}

/// Writes `layout.rs` into the directory for generated files.
fn bind() -> Result<(), BuildError> {
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or(BuildError::NoOutDir)?;
    let search = Search::from_environment();
    let installed = Installed::find(&search)?;
    if installed.source.is_none() && !matches!(search.source, Source::NotNeeded) {
        return Err(BuildError::NoSource);
    }
    println!("cargo::rerun-if-changed={}", installed.include.join("slurm").display());
    let layout = layout::generate(&installed, &out)?;
    let text = format!(
        "/// The version of the Slurm that this file is built for.\n\
         pub(super) const VERSION: Version = Version::from_number({:#x});\n\
         /// What is known of its release.\n\
         #[allow(clippy::indexing_slicing, reason = \"it is evaluated at compile time\")]\n\
         pub(super) const RELEASE: &Release = &RELEASES[{}];\n\
         /// Whether the members of jobs and partitions are known.\n\
         pub(super) const HAS_SOURCE: bool = {};\n{layout}",
        installed.version.number(),
        installed.release.index(),
        installed.source.is_some(),
    );
    let wrong = |error| BuildError::File { file: "layout.rs".into(), error };
    std::fs::write(out.join("layout.rs"), text).map_err(wrong)
}
