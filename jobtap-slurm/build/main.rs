//! Finds Slurm's headers and generates the offsets of the members of its structures.
//!
//! Slurm's structures change with each of its versions, and some of them are not public. So this crate
//! doesn't contain their layout: the build reads it from the headers of the Slurm for which a plugin file is
//! built. The C compiler determines the layout, since Slurm was built with one, and a C compiler is present
//! wherever Rust can link. (bindgen would need libclang as well, and would generate hundreds of types, of
//! which this crate uses ten, and looks up their members by name anyway.)
//!
//! Without the feature `binding` this script does nothing, and the crate has no functions that Slurm calls.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "so a build script talks to cargo")]

mod error;
mod headers;
mod layout;
mod version;

use std::path::PathBuf;
use std::process::exit;

use self::error::BuildError;

fn main() {
    println!("cargo::rerun-if-env-changed=SLURM_INCLUDE_DIR");
    println!("cargo::rerun-if-env-changed=SLURM_SOURCE_DIR");
    println!("cargo::rerun-if-env-changed=CC");
    println!("cargo::rerun-if-changed=build");
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
    let headers = headers::find()?;
    let version = version::read_number(&headers)?;
    let layout = layout::generate(&headers, &out)?;
    let text = format!(
        "/// The number of the Slurm that this file is built for.\n\
         pub(super) const VERSION: u32 = {version:#x};\n{layout}"
    );
    let wrong = |error| BuildError::File { file: "layout.rs".into(), error };
    std::fs::write(out.join("layout.rs"), text).map_err(wrong)
}
