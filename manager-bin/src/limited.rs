//! Starts a program under the limit of open files that the manager found, which is not the one that it
//! raised its own to.
//!
//! A limit is a whole process's. Lowered for the moment of a start, it would fail any thread of the manager
//! that opens a file just then; set on the program once that runs, it would come too late for what the
//! program does first. So the manager's own binary is started in the program's place, lowers its limit and
//! becomes the program.

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
pub(crate) const ARGUMENT: &str = "__limited";

/// The running binary, also when its file was replaced meanwhile.
const OWN_BINARY: &str = "/proc/self/exe";

/// Where programs are looked for when there is no `PATH`.
const DEFAULT_PATH: &str = "/bin:/usr/bin";

/// The command that becomes the process's program under a limit, -1 for none. The program's arguments, and
/// all else that a command has, are the caller's to add.
///
/// # Errors
/// As the start of the program itself would tell them: that it isn't there, or can't be executed. What only
/// the system finds, such as an interpreter that isn't there, the process tells itself, and ends as in a shell
/// with exit code 126 or 127.
pub(crate) fn command(process: &Process, limit: i64) -> io::Result<Command> {
    find(process)?;
    let mut command = Command::new(OWN_BINARY);
    command.arg(ARGUMENT).arg(limit.to_string()).arg(&process.program);
    Ok(command)
}

/// Becomes the program of these arguments.
pub(crate) fn main(mut arguments: impl Iterator<Item = OsString>) -> ExitCode {
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

/// Whether there is such a program.
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
    fn what_cannot_be_run_is_told_as_its_own_start_would() {
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
            let (itself, told) = (itself.arg("/dev/null").spawn(), command(&process, 64).map(drop));
            let error = itself.map(|mut child| child.wait().map(drop)).err();
            let kind = |error: io::Error| (error.kind(), error.raw_os_error());
            assert_eq!(told.err().map(kind), error.map(kind), "{process:?}");
        }
    }
}
