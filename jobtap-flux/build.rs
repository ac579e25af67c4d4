//! Finds jansson for this crate's tests, which read jansson's values. The crate itself doesn't link it: the broker has
//! loaded it.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rustc-check-cfg=cfg(jansson)");
    println!("cargo::rerun-if-changed=build.rs");
    // `jobtap build` compiles this crate from sources without tests, for which a linker flag for tests is an error.
    if !Path::new("tests").is_dir() {
        return;
    }
    let found = Command::new("pkg-config").args(["--exists", "jansson"]).status();
    if found.is_ok_and(|status| status.success()) {
        println!("cargo::rustc-cfg=jansson");
        println!("cargo::rustc-link-arg-tests=-ljansson");
    }
}
