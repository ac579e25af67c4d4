//! A manager whose standard error is full, closed or never read goes on: it drops and counts the lines that it
//! can't write, and keeps them in its log. Commands end quietly when the reader of their output exits.
#![allow(clippy::unwrap_used)]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Stdio};

use jobtap_tests::{Output, clean, jobtap, run, temporary, until};

/// A manager with a given standard error, killed at the end of the test.
struct Manager {
    process: Child,
    uri: String,
}

impl Manager {
    fn start(state: &Path, stderr: Stdio) -> Self {
        let mut command = clean(jobtap());
        command.arg("start").arg("--state-dir").arg(state);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(stderr);
        let process = command.spawn().unwrap();
        let uri = format!("local://{}", state.join("local-0").display());
        let manager = Self { process, uri };
        until("the manager answers", || manager.jobtap("uptime").code == 0);
        manager
    }

    fn jobtap(&self, words: &str) -> Output {
        run(clean(jobtap()).env("JOBTAP_URI", &self.uri).args(words.split_whitespace()))
    }

    /// Loads a configuration about which the manager logs warnings of this length.
    fn load_doubtful(&self, directory: &Path, length: usize) {
        let file = directory.join("doubtful.toml");
        let name = "x".repeat(length);
        std::fs::write(&file, format!("[plugins.{name}]\n[queues.a]\n")).unwrap();
        self.jobtap(&format!("config load {}", file.display())).ok();
    }

    fn dropped(&self) -> u64 {
        self.jobtap("module stats --parse stderr.dropped job-manager").ok().parse().unwrap()
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Asserts that the configuration is in force and the manager answers requests.
fn assert_serves(m: &Manager) {
    let config = m.jobtap("config get").ok();
    assert!(config.contains("queues"), "{config}");
    m.jobtap("queue start --queue=a").ok();
    m.jobtap("run --queue=a true").ok();
    until("dropped lines are counted", || m.dropped() > 0);
    let log = m.jobtap("dmesg").ok();
    assert!(log.contains("no plugin of this name is linked"), "{log}");
    assert!(log.contains("can't be written to standard error"), "{log}");
}

#[test]
fn a_full_standard_error_stops_nothing() {
    let directory = temporary();
    let full = File::options().write(true).open("/dev/full").unwrap();
    let m = Manager::start(&directory.path().join("state"), full.into());
    m.load_doubtful(directory.path(), 20);
    m.load_doubtful(directory.path(), 20);
    assert_serves(&m);
}

#[test]
fn a_closed_standard_error_stops_nothing() {
    let directory = temporary();
    let (reader, writer) = std::io::pipe().unwrap();
    let m = Manager::start(&directory.path().join("state"), writer.into());
    // Reads one line and closes the pipe, as `head -1` does.
    let mut first = String::new();
    BufReader::new(reader).read_line(&mut first).unwrap();
    m.load_doubtful(directory.path(), 20);
    m.load_doubtful(directory.path(), 20);
    assert_serves(&m);
}

#[test]
fn an_unread_standard_error_stops_nothing() {
    let directory = temporary();
    let (reader, writer) = std::io::pipe().unwrap();
    let mut m = Manager::start(&directory.path().join("state"), writer.into());
    // Far more than the pipe can hold: a writer that blocked would never answer again.
    for _ in 0..6 {
        m.load_doubtful(directory.path(), 16_000);
    }
    m.jobtap("queue start --queue=a").ok();
    m.jobtap("run --queue=a true").ok();
    // The shutdown doesn't wait for a reader either.
    run(std::process::Command::new("kill").arg(m.process.id().to_string()));
    until("the manager ends", || m.process.try_wait().unwrap().is_some());
    drop(reader);
}

#[test]
fn commands_end_quietly_when_their_reader_exits() {
    let directory = temporary();
    let m = Manager::start(&directory.path().join("state"), Stdio::null());
    let id = m.jobtap("submit --urgency=hold true").ok();
    for words in
        ["jobs", "jobs --json", "job eventlog ID", "config get", "dmesg", "resource list", "--help"]
    {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let words = words.replace("ID", &id);
        let mut command = clean(jobtap());
        command.env("JOBTAP_URI", &m.uri).args(words.split_whitespace());
        let ended = command.stdin(Stdio::null()).stdout(writer).output().unwrap();
        let code = ended.status.code();
        assert!(code == Some(0) || code == Some(141), "{words}: {ended:?}");
        assert!(ended.stderr.is_empty(), "{words}: {ended:?}");
    }
    m.jobtap(&format!("cancel {id}")).ok();
}
