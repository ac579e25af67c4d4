//! An HTTP client that sends what a test says, well formed or not.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;

use jobtap_tests::{Manager, PATIENCE};
use serde_json::{Value, json};

/// The token of the managers of these tests.
pub(crate) const TOKEN: &str = "0123456789abcdef0123456789abcdef";

/// A manager that listens for HTTP.
pub(crate) struct Site {
    pub(crate) m: Manager,
    /// `ADDRESS:PORT`.
    pub(crate) address: String,
    /// The manager's further files.
    pub(crate) files: tempfile::TempDir,
}

impl Site {
    /// Starts a manager without a token, with this further configuration.
    pub(crate) fn open(more: &str) -> Self {
        Self::start(jobtap_tests::jobtap(), "", more)
    }

    /// Starts a manager with the plugin `probe`, and without a token.
    pub(crate) fn of_probe() -> Self {
        Self::start(jobtap_tests::probe_manager(), "", "")
    }

    /// Starts a manager with a token.
    pub(crate) fn with_token(more: &str) -> Self {
        Self::start(jobtap_tests::jobtap(), "token-file", more)
    }

    /// Starts a manager without a token that finds this script in place of getent(1).
    pub(crate) fn with_getent(script: &str) -> Self {
        use std::os::unix::fs::PermissionsExt;

        let files = jobtap_tests::temporary();
        let put = |name: &str, text: &str| {
            let file = files.path().join(name);
            std::fs::write(&file, text).unwrap();
            std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o755)).unwrap();
            file
        };
        put("getent", &format!("#!/bin/sh\n{script}\n"));
        let (path, jobtap) = (files.path().display(), jobtap_tests::jobtap().display());
        let exe = put("manager", &format!("#!/bin/sh\nPATH={path}:$PATH exec {jobtap} \"$@\"\n"));
        Self::start_in(files, &exe, "", "")
    }

    fn start(exe: &Path, key: &str, more: &str) -> Self {
        Self::start_in(jobtap_tests::temporary(), exe, key, more)
    }

    fn start_in(files: tempfile::TempDir, exe: &Path, key: &str, more: &str) -> Self {
        let file = token_file(files.path(), 0o600);
        let token = match key {
            "" => String::new(),
            key => format!("{key} = {file:?}\n"),
        };
        let config = format!("[http]\nlisten = \"127.0.0.1:0\"\n{token}{more}");
        let m = Manager::start_with(exe, &config);
        let uri = m.jobtap("getattr http-uri").ok();
        let address = uri.trim_start_matches("http://").trim_end_matches('/').to_owned();
        Self { m, address, files }
    }

    /// Sends a request without a token.
    pub(crate) fn read(&self, topic: &str, payload: Value) -> Reply {
        self.send(&[], topic, &payload.to_string())
    }

    /// Sends a request with the token.
    pub(crate) fn call(&self, topic: &str, payload: Value) -> Reply {
        let token = format!("Authorization: Bearer {TOKEN}");
        self.send(&[&token], topic, &payload.to_string())
    }

    /// Sends a request to a service with these further lines in its header.
    pub(crate) fn send(&self, lines: &[&str], topic: &str, content: &str) -> Reply {
        let mut all = vec!["Content-Type: application/json"];
        all.extend(lines);
        self.ask(&format!("POST /v1/{topic}"), &all, content)
    }

    pub(crate) fn get(&self, path: &str) -> Reply {
        self.ask(&format!("GET {path}"), &[], "")
    }

    /// Sends a request, with a `Host` unless `lines` has one.
    pub(crate) fn ask(&self, what: &str, lines: &[&str], content: &str) -> Reply {
        let host = format!("Host: {}", self.address);
        let mut all = lines.to_vec();
        if !lines.iter().any(|line| line.starts_with("Host:")) {
            all.push(&host);
        }
        ask(self.connect(), what, &all, content)
    }

    pub(crate) fn connect(&self) -> TcpStream {
        let socket = TcpStream::connect(&self.address).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    }

    /// Opens a stream with the token.
    pub(crate) fn stream(&self, topic: &str, payload: &Value) -> Stream {
        self.stream_as(Some(TOKEN), topic, payload)
    }

    /// Opens a stream, whose events are read as they come.
    pub(crate) fn stream_as(&self, token: Option<&str>, topic: &str, payload: &Value) -> Stream {
        let rights = token.map(|token| format!("Authorization: Bearer {token}\r\n"));
        let mut socket = self.connect();
        let content = payload.to_string();
        write!(
            socket,
            "POST /v1/{topic} HTTP/1.1\r\nHost: {}\r\n{}Accept: text/event-stream\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{content}",
            self.address,
            rights.unwrap_or_default(),
            content.len()
        )
        .unwrap();
        Stream(BufReader::new(socket))
    }
}

/// Sends a request over `socket` and reads the response to its end.
pub(crate) fn ask(
    mut socket: impl Read + Write,
    what: &str,
    lines: &[&str],
    content: &str,
) -> Reply {
    let header: String = lines.iter().map(|line| format!("{line}\r\n")).collect();
    let length = content.len();
    let head =
        format!("{what} HTTP/1.1\r\nConnection: close\r\nContent-Length: {length}\r\n{header}\r\n");
    socket.write_all(head.as_bytes()).unwrap();
    // A request that is refused by its header is not read to its end.
    let _ = socket.write_all(content.as_bytes());
    Reply::read(socket)
}

/// Sends a request to a Unix socket.
pub(crate) fn ask_unix(path: &Path, what: &str) -> Reply {
    let socket = UnixStream::connect(path).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    ask(socket, what, &["Host: anything"], "")
}

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) header: String,
    pub(crate) text: String,
}

impl Reply {
    fn read(mut socket: impl Read) -> Self {
        let mut bytes = Vec::new();
        // The connection may be reset after the response to a request that was not read to its end.
        let _ = socket.read_to_end(&mut bytes);
        let all = String::from_utf8(bytes).unwrap();
        let (header, body) = all.split_once("\r\n\r\n").unwrap_or((&all, ""));
        let status = header.split(' ').nth(1).and_then(|status| status.parse().ok());
        let header = header.to_ascii_lowercase();
        let text = match header.contains("transfer-encoding: chunked") {
            true => unchunked(body),
            false => body.to_owned(),
        };
        Self { status: status.unwrap_or(0), header, text }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }

    /// Asserts that the request was carried out, and returns the JSON of the response.
    #[track_caller]
    pub(crate) fn ok(&self) -> Value {
        assert_eq!(self.status, 200, "{self:?}");
        self.json()
    }

    /// Asserts the status and the error number of a refusal, and returns its words.
    #[track_caller]
    pub(crate) fn refused(&self, status: u16, errno: i64) -> String {
        let error = self.json();
        assert_eq!((self.status, &error["errno"]), (status, &json!(errno)), "{self:?}");
        error["error"].as_str().unwrap().to_owned()
    }
}

/// The content of a chunked body; panics if its end is missing.
fn unchunked(body: &str) -> String {
    let (mut rest, mut text) = (body, String::new());
    loop {
        let (size, more) = rest.split_once("\r\n").expect("the body is cut off");
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return text;
        }
        text.push_str(&more[..size]);
        rest = &more[size + 2..];
    }
}

/// Server-sent events.
pub(crate) struct Stream(BufReader<TcpStream>);

impl Stream {
    /// The next event's name, `message` if it has none, and its data; `None` at the end.
    pub(crate) fn next(&mut self) -> Option<(String, Value)> {
        let mut name = "message".to_owned();
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line).unwrap() == 0 {
                return None;
            }
            // Lines with the sizes of chunks are skipped.
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                return Some((name, serde_json::from_str(data).unwrap()));
            }
        }
    }
}

/// Writes a file with the token.
pub(crate) fn token_file(dir: &Path, mode: u32) -> std::path::PathBuf {
    use std::os::unix::fs::PermissionsExt;

    let file = dir.join("token");
    std::fs::write(&file, format!("{TOKEN}\n")).unwrap();
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    file
}

/// A jobspec of one task that runs a command.
pub(crate) fn jobspec(command: &[&str]) -> Value {
    json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task",
                       "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": command, "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "cwd": "/", "environment": {}}},
    })
}
