//! Support for the end-to-end tests: the binaries under test, and a manager that is started for one test.
//!
//! The tests use real processes, sockets and files. Each manager has a state directory of its own and is
//! ended by its process id. [`leftovers`] removes what a test leaves behind.

pub mod cable;
pub mod chance;
pub mod flux;
pub mod leftovers;
pub mod network;
pub mod nodes;
pub mod rpc;
pub mod site;
pub mod slurm;
pub mod terminal;

use std::ffi::{OsStr, OsString};
use std::io::{BufRead, BufReader, Read};
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// How long a test waits for something that must happen.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a command, or a server that a test uses, may run. Some commands build a manager.
const LONGEST: Duration = Duration::from_secs(900);

/// Builds the plain manager, and returns the path of its binary.
pub fn jobtap() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("jobtap-manager", "jobtap"))
}

/// Builds `examples/site-manager`, and returns the path of its binary.
pub fn site_manager() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("site-manager", "site-manager"))
}

/// Builds a manager with the plugin of `tests/plugins/probe`, which is loaded by name.
pub fn probe_manager() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("probe-manager", "probe-manager"))
}

/// Returns the root of the checkout.
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().map_or_else(|| here.to_path_buf(), Path::to_path_buf)
}

/// Builds a binary of another package, as cargo does for a package's own tests.
fn build(package: &str, binary: &str) -> PathBuf {
    let mut command = Command::new(env!("CARGO"));
    command.args(["build", "--quiet", "--package", package, "--bin", binary]);
    if !cfg!(debug_assertions) {
        command.arg("--release");
    }
    let status = command.current_dir(workspace()).status();
    assert!(status.is_ok_and(|status| status.success()), "cargo build -p {package} failed");
    // The tests' own binary is in `TARGET/PROFILE/deps`.
    let exe = std::env::current_exe().unwrap_or_default();
    let profile = exe.ancestors().nth(2).map(Path::to_path_buf).unwrap_or_default();
    profile.join(binary)
}

/// The output and exit code of a command.
#[derive(Debug)]
pub struct Output {
    /// The exit code; -1 when a signal ended the command.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
}

impl Output {
    /// Returns standard output without trailing white space; panics when the command has failed.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.code == 0, "{self:?}");
        self.stdout.trim_end().to_owned()
    }

    /// Asserts the exit code, and that standard error is this text.
    #[track_caller]
    pub fn says(&self, code: i32, text: &str) {
        assert_eq!((self.code, self.stderr.trim_end()), (code, text), "{self:?}");
    }
}

/// Runs a command to its end. A command that takes too long is killed, and the test fails.
#[track_caller]
pub fn run(command: &mut Command) -> Output {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let (deadline, output) = match command.spawn() {
        Ok(process) => (Deadline::new(process.id(), LONGEST), process.wait_with_output()),
        Err(error) => panic!("{command:?}: {error}"),
    };
    assert!(!deadline.has_passed(), "{command:?} does not end");
    match output {
        Ok(output) => Output {
            code: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        },
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// Starts a process whose end or output a test waits for.
#[track_caller]
pub fn spawn(command: &mut Command) -> Process {
    spawn_for(PATIENCE, command)
}

/// Starts a server that a test may use until it ends.
#[track_caller]
pub fn serve(command: &mut Command) -> Process {
    spawn_for(LONGEST, command)
}

#[track_caller]
fn spawn_for(time: Duration, command: &mut Command) -> Process {
    match command.spawn() {
        Ok(process) => Process { deadline: Deadline::new(process.id(), time), process },
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// A process that is killed when it takes too long, and at the end of the test.
pub struct Process {
    process: Child,
    deadline: Deadline,
}

impl Process {
    /// Waits until the process exits; panics when it takes too long.
    ///
    /// # Errors
    /// As [`Child::wait`].
    #[track_caller]
    pub fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.process.wait();
        assert!(!self.deadline.has_passed(), "the process does not end");
        status
    }

    /// Waits until the process exits, and reads its output.
    ///
    /// # Errors
    /// As [`Child::wait_with_output`].
    #[track_caller]
    pub fn wait_with_output(mut self) -> std::io::Result<std::process::Output> {
        drop(self.process.stdin.take());
        let stderr = self.process.stderr.take().map(|mut stderr| {
            std::thread::spawn(move || {
                let mut text = Vec::new();
                let _ = stderr.read_to_end(&mut text);
                text
            })
        });
        let mut stdout = Vec::new();
        if let Some(mut printed) = self.process.stdout.take() {
            printed.read_to_end(&mut stdout)?;
        }
        let stderr = stderr.and_then(|read| read.join().ok()).unwrap_or_default();
        Ok(std::process::Output { status: self.wait()?, stdout, stderr })
    }
}

impl Deref for Process {
    type Target = Child;

    fn deref(&self) -> &Child {
        &self.process
    }
}

impl DerefMut for Process {
    fn deref_mut(&mut self) -> &mut Child {
        &mut self.process
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Kills a process that takes too long, so that a test that waits for its end or its output goes on. It is
/// dropped when the process has been waited for, since its id may be reused then.
struct Deadline {
    _end: Sender<()>,
    passed: Arc<AtomicBool>,
}

impl Deadline {
    fn new(process: u32, after: Duration) -> Self {
        let passed = Arc::new(AtomicBool::new(false));
        let (end, ended) = channel();
        let set = Arc::clone(&passed);
        std::thread::spawn(move || {
            if ended.recv_timeout(after) == Err(RecvTimeoutError::Timeout) {
                set.store(true, Ordering::Relaxed);
                let _ = Command::new("kill").args(["-s", "KILL", &process.to_string()]).status();
            }
        });
        Self { _end: end, passed }
    }

    fn has_passed(&self) -> bool {
        self.passed.load(Ordering::Relaxed)
    }
}

/// Returns a command without the environment variables that could change its behavior.
pub fn clean(exe: &Path) -> Command {
    let mut command = Command::new(exe);
    for name in ["JOBTAP_URI", "FLUX_URI", "FLUX_JOBS_FORMAT_DEFAULT", "JOBTAP_JOBS_FORMAT_DEFAULT"]
    {
        command.env_remove(name);
    }
    command.env("LC_ALL", "C.UTF-8").env("FLUX_F58_FORCE_ASCII", "1").env("TZ", "UTC");
    command.env("TMPDIR", leftovers::root());
    command
}

/// Writes a configuration with four cores, whatever this host has, and this additional text.
#[track_caller]
fn write_config(file: &Path, more: &str) {
    let host = run(Command::new("uname").arg("-n")).ok();
    let text = format!(
        "[resource]\nnoverify = true\n[[resource.config]]\nhosts = \"{host}\"\ncores = \"0-3\"\n{more}"
    );
    if let Err(error) = std::fs::write(file, text) {
        panic!("{}: {error}", file.display());
    }
}

/// A started process that is ready.
struct Running {
    process: Child,
    stderr: BufReader<ChildStderr>,
    uri: String,
}

#[track_caller]
fn start_manager(exe: &Path, statedir: &Path, options: &[OsString]) -> Running {
    let mut process = clean(exe);
    process.arg("start").args(options).arg("--state-dir").arg(statedir);
    process.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut process = match process.spawn() {
        Ok(process) => process,
        Err(error) => panic!("{}: {error}", exe.display()),
    };
    let Some(stderr) = process.stderr.take() else { panic!("no stderr") };
    let mut stderr = BufReader::new(stderr);
    let _deadline = Deadline::new(process.id(), PATIENCE);
    let mut seen = String::new();
    let uri = loop {
        let mut line = String::new();
        if stderr.read_line(&mut line).unwrap_or(0) == 0 {
            panic!("the manager is not ready; it said:\n{seen}");
        }
        if let Some((_, uri)) = line.trim().split_once("manager ready at ") {
            break uri.to_owned();
        }
        seen.push_str(&line);
    };
    Running { process, stderr, uri }
}

/// A manager that runs until it is stopped, killed or dropped, with its binary and state directory.
pub struct Manager {
    exe: PathBuf,
    process: Child,
    stderr: BufReader<ChildStderr>,
    uri: String,
    /// The state directory.
    pub statedir: PathBuf,
    options: Vec<OsString>,
    temporary: Option<TempDir>,
}

impl Manager {
    /// Starts a manager on a new state directory, with four cores whatever this host has.
    #[track_caller]
    pub fn start(exe: &Path) -> Self {
        Self::start_with(exe, "")
    }

    /// Like [`start`](Self::start), with this configuration.
    #[track_caller]
    pub fn start_with(exe: &Path, config: &str) -> Self {
        let temporary = temporary();
        let file = temporary.path().join("config.toml");
        write_config(&file, config);
        let options = ["--config-path".as_ref(), file.as_os_str()];
        let mut manager = Self::start_in(exe, &temporary.path().join("state"), &options);
        manager.temporary = Some(temporary);
        manager
    }

    /// Starts a manager on a state directory that may have the state of an earlier one.
    #[track_caller]
    pub fn start_in(exe: &Path, statedir: &Path, options: &[&OsStr]) -> Self {
        let options: Vec<OsString> = options.iter().map(OsString::from).collect();
        let Running { process, stderr, uri } = start_manager(exe, statedir, &options);
        let (exe, statedir) = (exe.to_path_buf(), statedir.to_path_buf());
        Self { exe, process, stderr, uri, statedir, options, temporary: None }
    }

    /// Starts the manager again after its end, on the same state and with the same options.
    #[track_caller]
    pub fn start_again(&mut self) {
        let Running { process, stderr, uri } =
            start_manager(&self.exe, &self.statedir, &self.options);
        (self.process, self.stderr, self.uri) = (process, stderr, uri);
    }

    /// Replaces the configuration file of [`start_with`](Self::start_with). It takes effect with a reload.
    #[track_caller]
    pub fn configure(&self, config: &str) {
        match &self.temporary {
            Some(temporary) => write_config(&temporary.path().join("config.toml"), config),
            None => panic!("this manager has no configuration file of its own"),
        }
    }

    /// Returns a command of the manager's binary that connects to the manager.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = clean(&self.exe);
        command.env("JOBTAP_URI", &self.uri).args(args);
        command
    }

    /// The address of the manager.
    pub fn uri(&self) -> &str {
        &self.uri
    }

    /// Runs a command against the manager; words are split at blanks.
    #[track_caller]
    pub fn jobtap(&self, words: &str) -> Output {
        run(&mut self.command(words.split_whitespace()))
    }

    /// Runs a command against the manager as a guest; words are split at blanks.
    #[track_caller]
    pub fn as_guest(&self, words: &str) -> Output {
        let mut command = self.command(words.split_whitespace());
        run(command.env("FLUX_HANDLE_USERID", "77").env("FLUX_HANDLE_ROLEMASK", "0x2"))
    }

    /// Runs a command given as separate words.
    #[track_caller]
    pub fn jobtap_args(&self, args: &[&str]) -> Output {
        run(&mut self.command(args))
    }

    /// Submits a job that must be accepted, and returns its id.
    #[track_caller]
    pub fn submit(&self, words: &str) -> String {
        self.jobtap(&format!("submit {words}")).ok()
    }

    /// Like [`submit`](Self::submit), for arguments that contain blanks.
    #[track_caller]
    pub fn submit_args(&self, args: &[&str]) -> String {
        run(self.command(["submit"]).args(args)).ok()
    }

    /// Waits for an event of a job.
    #[track_caller]
    pub fn wait(&self, id: &str, event: &str) {
        self.jobtap(&format!("job wait-event -q -t 60s {id} {event}")).ok();
    }

    /// Returns the names of a job's events.
    #[track_caller]
    pub fn events(&self, id: &str) -> String {
        let log = self.jobtap(&format!("job eventlog {id}")).ok();
        let name = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
        log.lines().map(name).collect::<Vec<_>>().join(" ")
    }

    /// Returns one field of a job from `jobtap jobs`.
    #[track_caller]
    pub fn field(&self, id: &str, field: &str) -> String {
        self.jobtap_args(&["jobs", "-no", &format!("{{{field}}}"), id]).ok()
    }

    /// Kills the manager with SIGKILL.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends the manager a signal, by its name.
    pub fn signal(&self, name: &str) {
        send(name, self.pid());
    }

    /// Sends SIGTERM and waits for the shutdown.
    #[track_caller]
    pub fn stop(&mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        self.end_with_stderr()
    }

    /// Waits until the manager ends by itself. Returns what it has written to standard error too.
    #[track_caller]
    pub fn end_with_stderr(&mut self) -> (ExitStatus, String) {
        let status = self.end();
        let mut rest = String::new();
        let _ = self.stderr.read_to_string(&mut rest);
        (status, rest)
    }

    /// Waits until the manager ends by itself.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        let begun = Instant::now();
        loop {
            match self.process.try_wait() {
                Ok(Some(status)) => return status,
                _ if begun.elapsed() > PATIENCE => panic!("the manager does not end"),
                _ => std::thread::sleep(Duration::from_millis(20)),
            }
        }
    }

    /// Returns the process id of the manager.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // Neither the jobs of a failed test nor its shepherd may stay behind.
            let _ = run(&mut self.command(["cancel", "--all", "-q"]));
            self.kill();
            for shepherd in leftovers::shepherds_of(&self.statedir) {
                send("TERM", shepherd);
            }
        }
    }
}

/// Sends a process a signal, by its name. The process may have ended.
pub fn send(name: &str, pid: u32) {
    run(Command::new("kill").args(["-s", name, &pid.to_string()]));
}

/// Makes a directory that is removed at the end of the test.
#[track_caller]
pub fn temporary() -> TempDir {
    match tempfile::Builder::new().prefix("").tempdir_in(leftovers::root()) {
        Ok(directory) => directory,
        Err(error) => panic!("no temporary directory: {error}"),
    }
}

/// Waits until a condition holds; panics after [`PATIENCE`].
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
