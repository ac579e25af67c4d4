//! What the end-to-end tests share: the binaries under test, and a manager started for one test.
//!
//! Real processes, real sockets, a real disk. Each manager has a state directory of its own and is
//! ended by its process id. What a test leaves behind goes with its process: [`leftovers`].

pub mod leftovers;
pub mod site;

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

/// How long a test waits for what must come.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// How long a command may take; some build a manager.
const LONGEST: Duration = Duration::from_secs(900);

/// The plain manager's binary.
pub fn jobtap() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("jobtap-manager", "jobtap"))
}

/// The binary of `examples/site-manager`.
pub fn site_manager() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("site-manager", "site-manager"))
}

/// A manager with the plugin of `tests/plugins/probe`, to be loaded by name.
pub fn probe_manager() -> &'static Path {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| build("probe-manager", "probe-manager"))
}

/// The root of the checkout.
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

/// What a command printed and how it ended.
#[derive(Debug)]
pub struct Output {
    /// Its exit code; -1 when a signal ended it.
    pub code: i32,
    /// What it wrote.
    pub stdout: String,
    /// What it complained.
    pub stderr: String,
}

impl Output {
    /// Standard output of a command that must have succeeded.
    #[track_caller]
    pub fn ok(self) -> String {
        assert!(self.code == 0, "{self:?}");
        self.stdout.trim_end().to_owned()
    }
}

/// Runs a command to its end. One that takes too long is killed, and the test fails.
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

/// Starts a process that the test looks at while it runs.
#[track_caller]
pub fn spawn(command: &mut Command) -> Process {
    match command.spawn() {
        Ok(process) => Process { deadline: Deadline::new(process.id(), PATIENCE), process },
        Err(error) => panic!("{command:?}: {error}"),
    }
}

/// A process that is killed when it takes too long, and when the test is over.
pub struct Process {
    process: Child,
    deadline: Deadline,
}

impl Process {
    /// Waits for its end, which must come in time.
    ///
    /// # Errors
    /// As [`Child::wait`].
    #[track_caller]
    pub fn wait(&mut self) -> std::io::Result<ExitStatus> {
        let status = self.process.wait();
        assert!(!self.deadline.has_passed(), "the process does not end");
        status
    }

    /// Waits for its end, and reads what it printed.
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

/// Kills a process when its time is over, so that a test that waits for its end or its output goes on.
/// Dropped as soon as somebody has waited for the process, since its id may become another one's.
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

/// A command without what the surroundings of the test may have set.
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

/// Four cores, whatever this host has, and more.
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

/// A manager that runs until it is stopped, killed or dropped.
pub struct Manager {
    exe: PathBuf,
    process: Child,
    stderr: BufReader<ChildStderr>,
    uri: String,
    /// Where its state is.
    pub statedir: PathBuf,
    options: Vec<OsString>,
    temporary: Option<TempDir>,
}

impl Manager {
    /// A manager on a fresh state directory, with four cores whatever this host has.
    #[track_caller]
    pub fn start(exe: &Path) -> Self {
        Self::start_with(exe, "")
    }

    /// As [`start`](Self::start), with this configuration too.
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

    /// A manager on a state directory that may hold the state of an earlier one.
    #[track_caller]
    pub fn start_in(exe: &Path, statedir: &Path, options: &[&OsStr]) -> Self {
        let options: Vec<OsString> = options.iter().map(OsString::from).collect();
        let Running { process, stderr, uri } = start_manager(exe, statedir, &options);
        let (exe, statedir) = (exe.to_path_buf(), statedir.to_path_buf());
        Self { exe, process, stderr, uri, statedir, options, temporary: None }
    }

    /// Starts it again after its end, on the same state and with the same options.
    #[track_caller]
    pub fn start_again(&mut self) {
        let Running { process, stderr, uri } =
            start_manager(&self.exe, &self.statedir, &self.options);
        (self.process, self.stderr, self.uri) = (process, stderr, uri);
    }

    /// Replaces the configuration file of [`start_with`](Self::start_with); nobody reads it yet.
    #[track_caller]
    pub fn configure(&self, config: &str) {
        match &self.temporary {
            Some(temporary) => write_config(&temporary.path().join("config.toml"), config),
            None => panic!("this manager has no configuration file of its own"),
        }
    }

    /// A command of its binary, to be run against it.
    pub fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = clean(&self.exe);
        command.env("JOBTAP_URI", &self.uri).args(args);
        command
    }

    /// Runs a command of its binary against it; words are split at blanks.
    #[track_caller]
    pub fn jobtap(&self, words: &str) -> Output {
        run(&mut self.command(words.split_whitespace()))
    }

    /// Runs a command given as separate words.
    #[track_caller]
    pub fn jobtap_args(&self, args: &[&str]) -> Output {
        run(&mut self.command(args))
    }

    /// Submits a job that must be accepted; gives its id.
    #[track_caller]
    pub fn submit(&self, words: &str) -> String {
        self.jobtap(&format!("submit {words}")).ok()
    }

    /// Submits a job whose command has blanks in its words.
    #[track_caller]
    pub fn submit_args(&self, args: &[&str]) -> String {
        run(self.command(["submit"]).args(args)).ok()
    }

    /// Waits for an event of a job.
    #[track_caller]
    pub fn wait(&self, id: &str, event: &str) {
        self.jobtap(&format!("job wait-event -q -t 60s {id} {event}")).ok();
    }

    /// The names of a job's events.
    #[track_caller]
    pub fn events(&self, id: &str) -> String {
        let log = self.jobtap(&format!("job eventlog {id}")).ok();
        let name = |line: &str| line.split_whitespace().nth(1).unwrap_or_default().to_owned();
        log.lines().map(name).collect::<Vec<_>>().join(" ")
    }

    /// One field of a job's listing.
    #[track_caller]
    pub fn field(&self, id: &str, field: &str) -> String {
        self.jobtap_args(&["jobs", "-no", &format!("{{{field}}}"), id]).ok()
    }

    /// `kill -9`.
    pub fn kill(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }

    /// Sends it a signal, by its name.
    pub fn signal(&self, name: &str) {
        send(name, self.pid());
    }

    /// SIGTERM, and the orderly end.
    #[track_caller]
    pub fn stop(&mut self) -> (ExitStatus, String) {
        self.signal("TERM");
        let status = self.end();
        let mut rest = String::new();
        let _ = self.stderr.read_to_string(&mut rest);
        (status, rest)
    }

    /// Waits for the manager to end by itself.
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

    /// Its process id.
    pub fn pid(&self) -> u32 {
        self.process.id()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        if let Ok(None) = self.process.try_wait() {
            // So that no job of a failed test runs on, nor a shepherd that keeps the jobs' ends.
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

/// A directory that goes with the test.
#[track_caller]
pub fn temporary() -> TempDir {
    match tempfile::Builder::new().prefix("").tempdir_in(leftovers::root()) {
        Ok(directory) => directory,
        Err(error) => panic!("no temporary directory: {error}"),
    }
}

/// Waits until something holds.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !holds() {
        assert!(begun.elapsed() < PATIENCE, "in vain: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
