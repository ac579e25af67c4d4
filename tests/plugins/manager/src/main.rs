//! A manager with plugins for the end-to-end tests.

use std::process::ExitCode;

use deadline as _;
use jobtap_builtins as _;
use mf_priority as _;
use probe as _;

fn main() -> ExitCode {
    jobtap_manager::main()
}
