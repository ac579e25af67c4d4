//! Finds jansson for the tests of this crate, which read its values. The crate itself links nothing: the
//! broker has it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(jansson)");
    println!("cargo::rerun-if-changed=build.rs");
    // `jobtap build` compiles this crate from sources without tests, where the flag for them is an error.
    if !Path::new("tests").is_dir() {
        return;
    }
    let found = Command::new("pkg-config").args(["--exists", "jansson"]).status();
    if found.is_ok_and(|status| status.success()) {
        println!("cargo::rustc-cfg=jansson");
        println!("cargo::rustc-link-arg-tests=-ljansson");
    }
}
