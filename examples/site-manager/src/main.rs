//! A site's own job manager: the builtins, the plugins of the site's choice, and nothing else.

use std::process::ExitCode;

use deadline as _;
use jobtap_builtins as _;

fn main() -> ExitCode {
    jobtap_manager::main()
}
