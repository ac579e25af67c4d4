//! Compiles the library in `src/library/`, whose bytes `src/lib.rs` embeds.
//!
//! The library can't be a target of this crate: cargo builds no C library alongside a static manager, and `cargo run`
//! and `jobtap build` must produce a manager that is a single file. The compiler and the linker are the ones that build
//! the manager itself. The library doesn't use Rust's standard library, and the few C functions that it needs come from
//! the program that loads it, so one build works with every libc.

#![allow(clippy::print_stderr, reason = "so a build script talks to who builds")]

use std::env::{self, VarError};
use std::path::PathBuf;
use std::process::{Command, exit};
use std::{fmt, io};

/// The compiler options that don't depend on the environment. `RUSTFLAGS` aren't passed on, since they are meant for
/// the manager: a shared library can't be static, and isn't profiled or measured for coverage.
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

/// Why there is no library.
enum BuildError {
    Variable { name: &'static str, error: VarError },
    NoCompiler { compiler: Box<Command>, error: io::Error },
    Compiler { compiler: Box<Command>, said: String },
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Variable { name, error } => write!(f, "{name}, which cargo sets: {error}"),
            Self::NoCompiler { compiler, error } => write!(f, "{compiler:?}: {error}"),
            Self::Compiler { compiler, said } => {
                write!(f, "libpmi.so can't be compiled: {compiler:?}\n{said}")
            }
        }
    }
}

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/library");
    if let Err(error) = compile() {
        eprintln!("Error: {error}");
        exit(1);
    }
}

fn compile() -> Result<(), BuildError> {
    let package = PathBuf::from(variable("CARGO_MANIFEST_DIR")?);
    let library = PathBuf::from(variable("OUT_DIR")?).join("libpmi.so");
    let mut compiler = Box::new(Command::new(variable("RUSTC")?));
    compiler.args(OPTIONS).args(["--edition", "2024", "--target", &variable("TARGET")?]);
    compiler.args(linker()).arg("-o").arg(&library);
    // Makes builds in different directories identical.
    let mut remap = package.clone().into_os_string();
    remap.push("=jobtap-pmi");
    compiler.arg("--remap-path-prefix").arg(remap);
    compiler.arg(package.join("src/library/mod.rs"));
    match compiler.output() {
        Ok(output) if output.status.success() => Ok(()),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Err(BuildError::Compiler { compiler, said })
        }
        Err(error) => Err(BuildError::NoCompiler { compiler, error }),
    }
}

fn variable(name: &'static str) -> Result<String, BuildError> {
    env::var(name).map_err(|error| BuildError::Variable { name, error })
}

/// Returns the compiler options for the linker that cargo's configuration or the flags select for the target.
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
