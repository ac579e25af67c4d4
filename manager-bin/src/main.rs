//! The plain manager: the builtin plugins and nothing else.

use std::process::ExitCode;

use jobtap_builtins as _;

fn main() -> ExitCode {
    jobtap_manager::main()
}
