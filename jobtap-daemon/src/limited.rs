//! Starts a program under the limit of open files with which the manager was started, which is lower than
//! the manager's own.
//!
//! A limit applies to a whole process. Lowering it while a program is started would fail other threads of
//! the manager that open a file at that moment, and setting it on the running program would be too late for
//! the program's first actions. So the manager's own binary is started in the program's place, lowers its
//! limit and executes the program.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use rustix::fs::{Access, access};
use rustix::io::Errno;

use crate::open_files::OpenFiles;
use crate::rpc::errno::strerror;
use crate::stderr;

/// The hidden first argument that makes the manager's binary become another program.
pub const ARGUMENT: &str = "__limited";

/// The running binary, even if its file was replaced meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// The search path for programs if there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// A program, and where it is looked for.
#[derive(Debug)]
pub struct Program<'a> {
    /// Its name.
    pub name: &'a OsStr,
    /// Its directory, if it isn't the manager's.
    pub directory: Option<&'a Path>,
    /// Its variable `PATH`.
    pub path: Option<&'a OsStr>,
}

/// Makes the command that executes a program under a limit, -1 for no limit, or under the manager's own. The caller adds
/// the program's arguments, environment, directory and streams.
///
/// # Errors
/// Fails as the start of the program itself would, if the program does not exist or can't be executed. An
/// error that only executing it shows, such as a missing interpreter, is printed by the started process,
/// which then exits with code 126 or 127 as in a shell.
pub fn command(program: &Program<'_>, limit: Option<i64>) -> io::Result<Command> {
    let Some(limit) = limit else { return Ok(Command::new(program.name)) };
    find(program)?;
    let mut command = Command::new(OWN_BINARY);
    command.arg(ARGUMENT).arg(limit.to_string()).arg(program.name);
    Ok(command)
}

/// Executes the program in these arguments in place of this process.
pub fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let limit = arguments.next().and_then(|text| text.to_str()?.parse().ok());
    let (Some(limit), Some(program)) = (limit, arguments.next()) else {
        stderr::line(&format!("usage: {ARGUMENT} OPEN-FILES PROGRAM [ARGUMENT...]"));
        stderr::flush();
        return ExitCode::FAILURE;
    };
    OpenFiles::lower(limit);
    let error = Command::new(&program).args(arguments).exec();
    let reason = Errno::from_io_error(&error).map(|errno| strerror(errno.raw_os_error()));
    let reason = reason.unwrap_or_else(|| error.to_string().into());
    stderr::line(&format!("{}: {reason}", program.display()));
    stderr::flush();
    ExitCode::from(if error.kind() == io::ErrorKind::NotFound { 127 } else { 126 })
}

/// Checks that the program exists and can be executed.
fn find(program: &Program<'_>) -> Result<(), Errno> {
    let Program { name, directory, path } = program;
    let from = directory.unwrap_or(Path::new(""));
    let candidates: Vec<PathBuf> = if name.as_bytes().contains(&b'/') {
        vec![from.join(name)]
    } else {
        let path = path.unwrap_or(DEFAULT_PATH.as_ref());
        std::env::split_paths(path).map(|directory| from.join(directory).join(name)).collect()
    };
    let mut outcome = Err(Errno::NOENT);
    for candidate in candidates.iter().filter(|_| !name.is_empty()) {
        match access(candidate, Access::EXEC_OK) {
            Ok(()) if candidate.is_file() => return Ok(()),
            Ok(()) | Err(Errno::ACCESS) => outcome = Err(Errno::ACCESS),
            Err(_) => {}
        }
    }
    outcome
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_program_that_cannot_run_gives_the_error_of_its_start() {
        let directory = tempfile::tempdir().unwrap();
        fs::write(directory.path().join("plain"), "").unwrap();
        let plain = directory.path().join("plain").display().to_string();
        let there = directory.path().display().to_string();
        let program = |name: &'static str| (name, "/", None);
        let on_path = format!("{there}:/bin");
        for (name, directory, path) in [
            program("true"),
            program("/bin/sh"),
            ("./sh", "/bin", None),
            ("sh", "/", Some(on_path.as_str())),
            program(""),
            program("/nowhere/true"),
            program("no-such-program"),
            ("sh", "/", Some(&there)),
            (&plain, "/", None),
            ("plain", "/", Some(&there)),
            program("/"),
        ] {
            let mut itself = Command::new(name);
            itself.env_clear().envs(path.map(|path| ("PATH", path))).current_dir(directory);
            let error = itself.arg("/dev/null").spawn().map(|mut child| child.wait().map(drop));
            let (directory, path) = (Some(Path::new(directory)), path.map(OsStr::new));
            let program = Program { name: name.as_ref(), directory, path };
            let reported = command(&program, Some(64)).map(drop);
            let kind = |error: io::Error| (error.kind(), error.raw_os_error());
            assert_eq!(reported.err().map(kind), error.err().map(kind), "{program:?}");
        }
    }
}
