//! Removes the processes and files of tests at the end of the test process, also when a test fails or the
//! whole process is killed.
//!
//! All files are below one directory, the [`root`]. The environment of every process that a test starts
//! names it: the commands have it as `TMPDIR`, the jobs in the address of their manager. A guard, a
//! process of its own, notices the end of the test process by a pipe; then it kills the processes whose
//! environment names the root, and removes the root.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

/// The script of the guard. During `execve` a process has no environment for a moment, so the guard stops
/// only when it has found no process several times in a row.
const GUARD: &str = r#"
cat >/dev/null
[ -d "$1" ] || exit 1
quiet=0
for round in $(seq 200); do
    pids=$(grep -lsF -- "$1" /proc/[0-9]*/environ | cut -d/ -f3)
    if [ -n "$pids" ]; then
        quiet=0
        kill -9 $pids 2>/dev/null
    elif [ $quiet = 3 ]; then
        break
    else
        quiet=$((quiet + 1))
    fi
    sleep 0.05
done
rm -rf -- "$1"
"#;

/// The guard with the write end of its pipe, which only the end of this process closes.
struct Guarded {
    root: PathBuf,
    _guard: Child,
}

/// Returns the directory for all files of this test process. The guard removes it.
#[track_caller]
pub fn root() -> &'static Path {
    static GUARDED: OnceLock<Guarded> = OnceLock::new();
    &GUARDED.get_or_init(guarded).root
}

fn guarded() -> Guarded {
    let directory = match tempfile::Builder::new().prefix("jobtap-test-").tempdir() {
        Ok(directory) => directory,
        Err(error) => panic!("no temporary directory: {error}"),
    };
    // A second user must be able to enter directories below this one.
    let passable = fs::Permissions::from_mode(0o711);
    if let Err(error) = fs::set_permissions(directory.path(), passable) {
        panic!("{}: {error}", directory.path().display());
    }
    let mut guard = Command::new("/bin/sh");
    guard.args(["-c", GUARD, "guard"]).arg(directory.path());
    guard.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
    // A signal to the process group of the tests, such as that of Ctrl-C, must not reach the guard.
    match guard.process_group(0).spawn() {
        Ok(guard) => Guarded { root: directory.keep(), _guard: guard },
        Err(error) => panic!("no guard: {error}"),
    }
}

/// Returns the processes whose environment contains this text, such as a path that is given as `TMPDIR`.
pub fn processes_with(text: impl AsRef<Path>) -> Vec<u32> {
    let text = text.as_ref().as_os_str().as_bytes();
    processes("environ", |content| content.windows(text.len()).any(|part| part == text))
}

/// Returns the parent of a process.
pub fn parent(pid: u32) -> Option<u32> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()
}

/// Returns the shepherd of a state directory and its forker.
pub fn shepherds_of(statedir: &Path) -> Vec<u32> {
    let statedir = statedir.canonicalize().unwrap_or_default();
    processes("cmdline", |content| {
        let mut words = content.split(|byte| *byte == 0);
        words.any(|word| word == b"__shepherd")
            && words.next() == Some(statedir.as_os_str().as_bytes())
    })
}

/// Returns the shepherds and forkers whose state is below this directory.
pub fn all_shepherds(directory: &Path) -> Vec<u32> {
    let directory = directory.as_os_str().as_bytes();
    processes("cmdline", |content| {
        let mut words = content.split(|byte| *byte == 0);
        words.any(|word| word == b"__shepherd")
            && words.next().is_some_and(|state| state.starts_with(directory))
    })
}

/// Returns the processes whose file in `/proc` matches. An unreadable file belongs to another user's process.
fn processes(file: &str, wanted: impl Fn(&[u8]) -> bool) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter(|pid| fs::read(format!("/proc/{pid}/{file}")).is_ok_and(|content| wanted(&content)))
        .collect()
}
