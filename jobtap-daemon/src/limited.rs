//! Starts a program under the limit of open files with which the manager was started, which is lower than
//! the manager's own.
//!
//! A limit applies to a whole process. Lowering it while a program is started would fail other threads of
//! the manager that open a file at that moment, and setting it on the running program would be too late for
//! the program's first actions. So the manager's own binary is started in the program's place, lowers its
//! limit and executes the program.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use jobtap_core::plugin::Process;
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

/// Makes the command that executes the process's program under a limit, -1 for no limit. The caller adds the
/// program's arguments, environment and streams.
///
/// # Errors
/// Fails as the start of the program itself would, if the program does not exist or can't be executed. An
/// error that only executing it shows, such as a missing interpreter, is printed by the started process,
/// which then exits with code 126 or 127 as in a shell.
pub(crate) fn command(process: &Process, limit: i64) -> io::Result<Command> {
    find(process)?;
    let mut command = Command::new(OWN_BINARY);
    command.arg(ARGUMENT).arg(limit.to_string()).arg(&process.program);
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
fn find(process: &Process) -> Result<(), Errno> {
    let name = Path::new(&process.program);
    let from = process.cwd.clone().unwrap_or_default();
    let candidates: Vec<PathBuf> = if process.program.contains('/') {
        vec![from.join(name)]
    } else {
        let path = process.env.get("PATH").map(OsString::from);
        let path = path.or_else(|| std::env::var_os("PATH")).unwrap_or_else(|| DEFAULT_PATH.into());
        std::env::split_paths(&path).map(|directory| from.join(directory).join(name)).collect()
    };
    let mut outcome = Err(Errno::NOENT);
    for candidate in candidates.iter().filter(|_| !process.program.is_empty()) {
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
        for process in [
            Process::new("true"),
            Process::new("/bin/sh"),
            Process::new("./sh").cwd("/bin"),
            Process::new("sh").env("PATH", format!("{there}:/bin")),
            Process::new(""),
            Process::new("/nowhere/true"),
            Process::new("no-such-program"),
            Process::new("sh").env("PATH", &there),
            Process::new(plain),
            Process::new("plain").env("PATH", &there),
            Process::new("/"),
        ] {
            let mut itself = Command::new(&process.program);
            itself.envs(&process.env).current_dir(process.cwd.as_deref().unwrap_or(Path::new("/")));
            let (itself, reported) =
                (itself.arg("/dev/null").spawn(), command(&process, 64).map(drop));
            let error = itself.map(|mut child| child.wait().map(drop)).err();
            let kind = |error: io::Error| (error.kind(), error.raw_os_error());
            assert_eq!(reported.err().map(kind), error.map(kind), "{process:?}");
        }
    }
}
