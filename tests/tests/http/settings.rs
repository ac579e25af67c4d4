//! `[http]`: where a manager listens, and what that requires.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use jobtap_tests::{Manager, clean, jobtap, run, temporary};
use serde_json::json;

use crate::client::{ask_unix, token_file};

/// The message of a manager that doesn't start with this configuration.
fn refusal(config: &str) -> String {
    let files = temporary();
    let file = files.path().join("config.toml");
    std::fs::write(&file, config).unwrap();
    let mut start = clean(jobtap());
    start.args(["start", "--test-size=1", "--config-path"]).arg(&file);
    let output = run(start.arg("--state-dir").arg(files.path().join("state")).arg("true"));
    assert_ne!(output.code, 0, "{output:?}");
    output.stderr
}

#[test]
fn a_manager_listens_on_other_hosts_addresses_only_with_a_token() {
    let said = refusal("[http]\nlisten = \"0.0.0.0:0\"\n");
    assert!(said.contains("http.listen") && said.contains("http.token-file"), "{said}");
}

#[test]
fn a_token_that_others_can_read_is_refused() {
    let files = temporary();
    let file = token_file(files.path(), 0o644);
    let said = refusal(&format!("[http]\nlisten = \"127.0.0.1:0\"\ntoken-file = {file:?}\n"));
    assert!(said.contains("http.token-file") && said.contains("chmod 600"), "{said}");
}

#[test]
fn an_address_in_use_is_named() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = refusal(&format!("[http]\nlisten = \"{address}\"\n"));
    assert!(said.contains("http.listen") && said.contains(&address), "{said}");
}

#[test]
fn a_unix_socket_is_the_owners_alone_and_goes_with_the_manager() {
    let files = temporary();
    let path = files.path().join("http");
    let config = format!("[http]\nlisten = \"unix:{}\"\n", path.display());
    let mut m = Manager::start_with(jobtap(), &config);
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(ask_unix(&path, "GET /healthz").ok(), json!({"status": "ok"}));
    assert_eq!(m.jobtap("getattr http-uri").ok(), format!("unix:{}", path.display()));
    m.stop();
    assert!(!path.exists());
}

#[test]
fn a_manager_does_not_listen_unless_it_is_told_to() {
    let m = Manager::start(jobtap());
    assert_ne!(m.jobtap("getattr http-uri").code, 0);
    let sockets =
        std::fs::read_dir(Path::new("/proc").join(m.pid().to_string()).join("fd")).unwrap();
    let listening = listening_inodes();
    for socket in sockets.flatten() {
        let Ok(target) = std::fs::read_link(socket.path()) else { continue };
        assert!(!listening.contains(&target.display().to_string()), "{target:?}");
    }
}

/// `socket:[INODE]` of each listening TCP socket on this host.
fn listening_inodes() -> Vec<String> {
    let mut all = Vec::new();
    for table in ["/proc/net/tcp", "/proc/net/tcp6"] {
        let text = std::fs::read_to_string(table).unwrap_or_default();
        for line in text.lines().skip(1) {
            let columns: Vec<&str> = line.split_whitespace().collect();
            if columns.get(3) == Some(&"0A") {
                all.push(format!("socket:[{}]", columns[9]));
            }
        }
    }
    all
}
