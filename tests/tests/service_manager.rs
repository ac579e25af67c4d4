//! A manager that a service manager such as systemd has started reports its state to it, works with its watchdog, and
//! ends within a bounded time.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::net::UnixDatagram;
use std::process::{ChildStderr, Stdio};
use std::time::Duration;

use jobtap_tests::{PATIENCE, Process, clean, probe_manager, run, send, spawn, temporary};
use tempfile::TempDir;

/// The period of the watchdog.
const PERIOD: Duration = Duration::from_millis(600);

/// A manager that runs as a service.
struct Service {
    process: Process,
    stderr: BufReader<ChildStderr>,
    uri: String,
    notified: UnixDatagram,
    _dir: TempDir,
}

impl Service {
    fn start(format: &str) -> Self {
        let dir = temporary();
        let at = |name: &str| dir.path().join(name);
        let notified = UnixDatagram::bind(at("notify")).unwrap();
        notified.set_read_timeout(Some(PATIENCE)).unwrap();
        std::fs::write(at("config.toml"), "[job-manager]\nplugins = [{ load = \"probe\" }]\n")
            .unwrap();
        let mut start = clean(probe_manager());
        start.args(["start", "--config-path"]).arg(at("config.toml"));
        start.arg("--state-dir").arg(at("state"));
        start.env("NOTIFY_SOCKET", at("notify")).env("JOBTAP_LOG_FORMAT", format);
        start.env("WATCHDOG_USEC", PERIOD.as_micros().to_string());
        start.stdin(Stdio::null()).stderr(Stdio::piped());
        let mut process = spawn(&mut start);
        let stderr = BufReader::new(process.stderr.take().unwrap());
        let mut service = Self { process, stderr, uri: String::new(), notified, _dir: dir };
        service.uri = loop {
            let line = service.line();
            if let Some((_, uri)) = line.split_once("manager ready at ") {
                break uri.split('"').next().unwrap().trim().to_owned();
            }
        };
        service
    }

    /// The next line on standard error.
    fn line(&mut self) -> String {
        let mut line = String::new();
        assert_ne!(self.stderr.read_line(&mut line).unwrap(), 0, "it has ended");
        line
    }

    /// The next message, or `None` after the read timeout.
    fn message(&self) -> Option<String> {
        let mut bytes = [0; 1024];
        let length = self.notified.recv(&mut bytes).ok()?;
        Some(String::from_utf8(bytes.get(..length)?.to_vec()).unwrap())
    }

    /// Waits for a message with this line.
    fn told(&self, line: &str) -> String {
        loop {
            let message = self.message().unwrap_or_else(|| panic!("{line} is not told"));
            if message.lines().any(|found| found == line) {
                return message;
            }
        }
    }
}

#[test]
fn a_service_manager_is_told_of_start_reload_and_end() {
    let mut service = Service::start("json");
    assert!(service.told("READY=1").contains("STATUS=Listening at local://"));
    service.told("WATCHDOG=1");
    send("HUP", service.process.id());
    assert!(service.told("RELOADING=1").contains("MONOTONIC_USEC="));
    service.told("READY=1");
    service.told("WATCHDOG=1");
    send("TERM", service.process.id());
    service.told("STOPPING=1");
    assert!(service.process.wait().unwrap().success());
    let mut rest = String::new();
    service.stderr.read_to_string(&mut rest).unwrap();
    for line in rest.lines() {
        let said: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(
            said["timestamp"].is_string()
                && said["level"].is_string()
                && said["message"].is_string(),
            "{line}"
        );
    }
}

#[test]
fn a_manager_that_hangs_is_not_reported_and_ends_within_a_bound() {
    let mut service = Service::start("text");
    service.told("READY=1");
    service.told("WATCHDOG=1");
    let mut submit = clean(probe_manager());
    submit.env("JOBTAP_URI", &service.uri).args(["submit", "--setattr=probe.slow=3600000", "true"]);
    let mut submit = spawn(submit.stdout(Stdio::null()).stderr(Stdio::null()));
    service.notified.set_read_timeout(Some(PERIOD * 4)).unwrap();
    let silent = || (0..1000).any(|_| service.message().is_none());
    assert!(silent(), "it is reported although its engine hangs");
    service.notified.set_read_timeout(Some(PATIENCE)).unwrap();
    send("TERM", service.process.id());
    service.told("STOPPING=1");
    assert_eq!(service.process.wait().unwrap().code(), Some(1));
    let mut rest = String::new();
    service.stderr.read_to_string(&mut rest).unwrap();
    assert!(rest.contains("the engine does not end within 20 s"), "{rest}");
    assert!(!submit.wait().unwrap().success());
}

#[test]
fn a_socket_outside_the_state_directory_is_used_and_never_taken_from_another() {
    let dir = temporary();
    let at = |name: &str| dir.path().join(name);
    let option = |name: &str| format!("-Slocal-uri=local://{}", at(name).display());
    let start = |state: &str, name: &str| {
        let mut start = clean(probe_manager());
        start.arg("start").arg(option(name)).arg("--state-dir").arg(at(state));
        start
    };
    let nested = format!(
        "{} getattr local-uri && ! {} start {} --state-dir {} true",
        probe_manager().display(),
        probe_manager().display(),
        option("socket"),
        at("second").display(),
    );
    let output = run(start("first", "socket").args(["sh", "-c", &nested]));
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.stdout.trim().ends_with("/socket"), "{output:?}");
    assert!(output.stderr.contains("another process listens there"), "{output:?}");
    std::fs::write(at("file"), "mine").unwrap();
    assert_eq!(run(start("first", "file").arg("true")).code, 1);
    assert_eq!(std::fs::read_to_string(at("file")).unwrap(), "mine");
    let relative = run(clean(probe_manager()).args(["start", "-Slocal-uri=local://x", "true"]));
    assert!(relative.code == 1 && relative.stderr.contains("is absolute"), "{relative:?}");
}

#[test]
fn an_unknown_log_format_is_refused() {
    let refused =
        run(clean(probe_manager()).args(["start", "true"]).env("JOBTAP_LOG_FORMAT", "xml"));
    assert_eq!(refused.code, 1);
    assert!(refused.stderr.contains("JOBTAP_LOG_FORMAT=xml: use text or json"), "{refused:?}");
}
