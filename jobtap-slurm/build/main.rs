//! Finds the headers of Slurm, and writes down where the members of its structures are.
//!
//! Slurm's structures change with each of its versions, and some of them are not public. So nothing of
//! them is written down in this crate: it is read from the headers of the Slurm that a file is built for,
//! on the machine that builds it. A C compiler tells the layout, since it is what Slurm was built with, and
//! a C compiler is there wherever Rust can link. (bindgen would need a libclang beside it, and would bring
//! hundreds of types of which the members of eight are used, each by its name.)
//!
//! Without the feature `binding` nothing is looked for, and the crate has no part that Slurm calls.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "so a build script talks to cargo")]

mod headers;
mod layout;
mod version;

use std::path::PathBuf;
use std::process::exit;

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
fn bind() -> Result<(), String> {
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).ok_or("OUT_DIR is not set")?;
    let headers = headers::find()?;
    let version = version::of(&headers)?;
    let layout = layout::of(&headers, &out)?;
    let text = format!(
        "/// The number of the Slurm that this file is built for.\n\
         pub(super) const VERSION: u32 = {version:#x};\n{layout}"
    );
    std::fs::write(out.join("layout.rs"), text).map_err(|error| format!("layout.rs: {error}"))
}
