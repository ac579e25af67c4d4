//! Manager.

// Until `main` calls the commands.
#[allow(dead_code)]
mod cli;
