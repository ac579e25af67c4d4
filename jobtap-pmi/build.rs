//! Compiles the library of `src/library/`, which `src/lib.rs` has as bytes.
//!
//! It can't be a target of this crate: cargo makes no library for C beside a static manager, and a manager that
//! `cargo run` or `jobtap build` makes is one file, whatever it needs. The compiler and the linker are those that
//! compile the manager itself. The library uses nothing of Rust's standard library and takes the few functions that it
//! needs of C's from the program that loads it, so it is the same for every libc.

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::process::Command;

/// The options of the compiler besides those that depend on the environment. The manager's own (`RUSTFLAGS`) are for
/// the manager: a library can't be static, and has no profile or coverage of its own.
const OPTIONS: [&str; 10] = [
    "-Copt-level=s",
    "-Cpanic=abort",
    "-Ccodegen-units=1",
    "-Clto=fat",
    "-Cstrip=symbols",
    "-Crelocation-model=pic",
    "-Ctarget-feature=-crt-static",
    "-Clink-arg=-nostdlib",
    "--crate-name=pmi",
    "--crate-type=cdylib",
];

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/library");
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let library = PathBuf::from(variable("OUT_DIR")?).join("libpmi.so");
    let mut compiler = Command::new(variable("RUSTC")?);
    compiler.args(OPTIONS).args(["--edition", "2024", "--target", &variable("TARGET")?]);
    compiler.args(linker()).arg("-o").arg(&library);
    // Two builds in different directories are the same.
    let mut remap = package.clone().into_os_string();
    remap.push("=jobtap-pmi");
    compiler.arg("--remap-path-prefix").arg(remap);
    compiler.arg(package.join("src/library/mod.rs"));
    let output = compiler.output().map_err(|error| format!("{compiler:?}: {error}"))?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        return Err(format!("libpmi.so can't be compiled: {compiler:?}\n{said}").into());
    }
    Ok(())
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|error| format!("{name}, which cargo sets: {error}"))
}

/// The linker that cargo was told to use for the target, by its configuration or by flags.
fn linker() -> Vec<String> {
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    let mut words = flags.split('\x1f').peekable();
    let mut found = Vec::new();
    while let Some(word) = words.next() {
        let option = match word {
            "-C" | "--codegen" => words.next().unwrap_or_default(),
            _ => word.strip_prefix("-C").or(word.strip_prefix("--codegen=")).unwrap_or_default(),
        };
        if option.starts_with("linker=") || option.starts_with("linker-flavor=") {
            found.push(format!("-C{option}"));
        }
    }
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        found.push(format!("-Clinker={linker}"));
    }
    found
}
