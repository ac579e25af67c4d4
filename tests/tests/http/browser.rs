//! A real browser, driven over WebDriver: headless Chromium with Debian's chromedriver.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use jobtap_tests::{PATIENCE, temporary, until};
use serde_json::{Value, json};
use tempfile::TempDir;

/// One browser at a time: each takes a core and half a gigabyte.
static ONE: Mutex<()> = Mutex::new(());

const ENTER: &str = "\u{e007}";

/// Keys by the numbers that WebDriver has for them.
pub(crate) const DOWN: &str = "\u{e015}";
pub(crate) const ESCAPE: &str = "\u{e00c}";

/// A browser with one window, which ends when this value is dropped.
pub(crate) struct Browser {
    driver: Child,
    port: u16,
    session: String,
    _profile: TempDir,
    _one: MutexGuard<'static, ()>,
}

impl Browser {
    /// Starts a browser. Where none is installed, prints that and returns `None`.
    #[allow(clippy::print_stdout)]
    pub(crate) fn start() -> Option<Self> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let found = |name: &str| {
            std::env::split_paths(&path).any(|directory| directory.join(name).exists())
        };
        if !found("chromedriver") || !found("chromium") {
            println!("skipped: there is no Chromium (Debian's chromium and chromium-driver)");
            return None;
        }
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut command = Command::new("chromedriver");
        command.arg("--port=0").stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut driver = command.spawn().unwrap();
        let mut lines = BufReader::new(driver.stdout.take().unwrap()).lines();
        let port = lines.find_map(|line| {
            let line = line.ok()?;
            line.split_once("successfully on port ")?.1.trim_end_matches('.').parse().ok()
        });
        // Whatever else it prints must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let profile = temporary();
        let mut browser = Self {
            driver,
            port: port.unwrap(),
            session: String::new(),
            _profile: profile,
            _one: one,
        };
        let profile = format!("--user-data-dir={}", browser._profile.path().display());
        let arguments = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            "--window-size=1280,800",
            &profile,
        ];
        let wanted = json!({"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": {"args": arguments},
            "goog:loggingPrefs": {"browser": "ALL"},
        }}});
        let session = browser.ask("POST", "/session", &wanted);
        browser.session = session["sessionId"].as_str().unwrap().to_owned();
        Some(browser)
    }

    /// Sends a command of WebDriver.
    fn ask(&self, method: &str, path: &str, content: &Value) -> Value {
        let mut socket = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let content = content.to_string();
        write!(
            socket,
            "{method} {path} HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
             Content-Length: {}\r\n\r\n{content}",
            self.port,
            content.len()
        )
        .unwrap();
        let mut reader = BufReader::new(socket);
        let mut length = 0;
        loop {
            let mut line = String::new();
            assert_ne!(reader.read_line(&mut line).unwrap(), 0, "{path}: no response");
            if line == "\r\n" {
                break;
            }
            if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut text = vec![0; length];
        reader.read_exact(&mut text).unwrap();
        let value: Value = serde_json::from_slice(&text).unwrap();
        assert!(value["value"]["error"].is_null(), "{path}: {value}");
        value["value"].clone()
    }

    fn command(&self, path: &str, content: &Value) -> Value {
        self.ask("POST", &format!("/session/{}/{path}", self.session), content)
    }

    pub(crate) fn open(&self, address: &str) {
        self.open_url(&format!("http://{address}/"));
    }

    pub(crate) fn open_url(&self, url: &str) {
        self.command("url", &json!({ "url": url }));
    }

    /// The value of an expression of JavaScript in the page.
    pub(crate) fn value(&self, expression: &str) -> Value {
        let script = format!("return ({expression})");
        self.command("execute/sync", &json!({"script": script, "args": []}))
    }

    /// Waits until an expression of JavaScript is true in the page.
    #[track_caller]
    pub(crate) fn until(&self, what: &str, expression: &str) {
        until(what, || self.value(expression) == true);
    }

    /// The text of the first element that a selector finds, as a user sees it.
    pub(crate) fn text(&self, selector: &str) -> String {
        let text = self.value(&format!("document.querySelector({selector:?})?.innerText ?? ''"));
        text.as_str().unwrap().to_owned()
    }

    /// Waits until an element shows a text.
    #[track_caller]
    pub(crate) fn until_shown(&self, selector: &str, text: &str) {
        until(&format!("{text:?} in {selector}"), || self.text(selector).contains(text));
    }

    /// Types into the element that has the focus, as a user does.
    pub(crate) fn keys(&self, text: &str) {
        let element =
            self.ask("GET", &format!("/session/{}/element/active", self.session), &json!({}));
        let element = element.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        self.command(&format!("element/{element}/value"), &json!({ "text": text }));
    }

    pub(crate) fn enter(&self, text: &str) {
        self.keys(&format!("{text}{ENTER}"));
    }

    /// Clicks on the element that a selector finds, which must be in sight.
    pub(crate) fn click(&self, selector: &str) {
        let found = json!({"using": "css selector", "value": selector});
        let element = self.command("element", &found);
        let element = element.as_object().unwrap().values().next().unwrap().as_str().unwrap();
        self.command(&format!("element/{element}/click"), &json!({}));
    }

    /// Sets the color scheme that the user prefers, `light` or `dark`.
    pub(crate) fn prefer(&self, scheme: &str) {
        let features = json!([{"name": "prefers-color-scheme", "value": scheme}]);
        let command =
            json!({"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}});
        self.command("goog/cdp/execute", &command);
    }

    /// The browser's complaints: script errors, and what the page's content security policy has blocked. Responses that
    /// are refusals are left out, since they are no fault of the page.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let log = self.command("se/log", &json!({"type": "browser"}));
        let entries = log.as_array().unwrap().iter();
        let entries = entries.filter(|entry| entry["source"] != "network");
        entries.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        // This ends the browser, which would outlive its driver. After a failed test it must not panic again, so errors
        // are ignored.
        if !self.session.is_empty() && !std::thread::panicking() {
            self.ask("DELETE", &format!("/session/{}", self.session), &json!({}));
        } else if let Ok(mut socket) = TcpStream::connect(("127.0.0.1", self.port)) {
            let end = format!(
                "DELETE /session/{} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 0\r\n\r\n",
                self.session
            );
            let _ = socket.set_read_timeout(Some(PATIENCE));
            let _ = socket.write_all(end.as_bytes());
            let _ = socket.read(&mut [0; 1]);
        }
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}
