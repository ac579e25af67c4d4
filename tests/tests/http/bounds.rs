//! A client that sends too much, sends nothing or reads nothing takes a bounded amount of memory and time.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use jobtap_tests::until;
use serde_json::json;

use crate::client::{Site, TOKEN};

const EMSGSIZE: i64 = 90;
const EAGAIN: i64 = 11;

/// The resident memory of the manager in MiB.
fn memory(site: &Site) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", site.m.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

#[test]
fn a_request_that_is_too_long_is_refused() {
    let site = Site::with_token("");
    let long = format!("{{\"constraint\":\"{}\"}}", "x".repeat(1 << 20));
    let token = format!("Authorization: Bearer {TOKEN}");
    let words = site.send(&[&token], "job-list.list", &long).refused(413, EMSGSIZE);
    assert!(words.contains("1048576 bytes"), "{words}");
    // Requests without the token must be shorter, so that those of all clients have room together.
    let shorter = format!("{{\"constraint\":\"{}\"}}", "x".repeat(64 << 10));
    let words = site.send(&[], "job-list.list", &shorter).refused(413, EMSGSIZE);
    assert!(words.contains("65536 bytes"), "{words}");
    // A request without its length is refused, too.
    let mut socket = site.connect();
    let head = format!(
        "POST /v1/job-list.list HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{long}\r\n",
        site.address,
        long.len()
    );
    let _ = socket.write_all(head.as_bytes());
    let mut reply = [0; 12];
    socket.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"HTTP/1.1 413");
    let header = format!("X: {}", "x".repeat(1 << 20));
    // Data that the manager has not read resets the connection, perhaps before the client reads the response.
    let status = site.ask("GET /healthz", &[&header], "").status;
    assert!(matches!(status, 431 | 0), "{status}");
    assert_eq!(site.ask("GET /healthz", &["X: x"; 100], "").status, 431);
}

#[test]
fn a_header_has_at_most_64_kib() {
    let site = Site::open("");
    // A header of exactly the limit and one of a byte more, including what every request here has.
    let line = |bytes: usize| format!("X: {}", "x".repeat(bytes - "X: \r\n".len()));
    let rest = format!(
        "GET /healthz HTTP/1.1\r\nConnection: close\r\nContent-Length: 0\r\nHost: {}\r\n\r\n",
        site.address
    );
    let most = 64 * 1024 - rest.len();
    assert_eq!(site.ask("GET /healthz", &[&line(most)], "").status, 200);
    for bytes in [most + 1, 100 * 1024 - rest.len()] {
        let reply = site.ask("GET /healthz", &[&line(bytes)], "");
        // A refusal by the parser has no content, and may reset the connection before the response is read.
        assert!(matches!(reply.status, 431 | 0), "{bytes}: {reply:?}");
    }
    let words = site.ask("GET /healthz", &[&line(most + 1)], "").refused(431, EMSGSIZE);
    assert_eq!(words, "the header has more than 65536 bytes");
}

#[test]
fn a_client_that_sends_no_header_is_disconnected() {
    let site = Site::open("");
    let mut sockets = [site.connect(), site.connect()];
    // One client sends nothing, and the other never ends its header.
    sockets[1].write_all(b"GET /healthz HTTP/1.1\r\n").unwrap();
    let begun = Instant::now();
    for mut socket in sockets {
        let mut rest = Vec::new();
        let _ = socket.read_to_end(&mut rest);
    }
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// Asserts that all kinds of requests are served, whatever other clients do.
#[track_caller]
fn all_are_served(site: &Site) {
    for _ in 0..3 {
        assert_eq!(site.get("/healthz").status, 200);
        site.call("job-manager.uptime", json!({})).ok();
        site.read("job-list.job-stats", json!({})).ok();
        let id = site.m.submit("true");
        site.m.wait(&id, "clean");
    }
}

#[test]
fn clients_that_keep_their_connections_lock_nobody_out() {
    let site = Site::with_token("");
    let ask = |socket: &mut TcpStream| {
        let request = format!("GET /healthz HTTP/1.1\r\nHost: {}\r\n\r\n", site.address);
        // Connections that gave way to others are closed.
        let _ = socket.write_all(request.as_bytes());
    };
    let mut clients: Vec<TcpStream> = (0..300).map(|_| site.connect()).collect();
    for _ in 0..2 {
        clients.iter_mut().for_each(ask);
        all_are_served(&site);
    }
}

#[test]
fn idle_clients_lock_nobody_out() {
    let site = Site::with_token("");
    let idle: Vec<TcpStream> = (0..2000).map(|_| site.connect()).collect();
    all_are_served(&site);
    drop(idle);
}

#[test]
fn clients_that_read_slowly_lock_nobody_out() {
    let site = Site::with_token("");
    site.m.jobtap("submit --cc=1-20 --quiet --urgency=hold true").ok();
    let request = format!(
        "POST /v1/job-list.list HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 17\r\n\r\n{{\"max_entries\":0}}",
        site.address
    );
    let mut slow: Vec<TcpStream> = (0..300).map(|_| site.connect()).collect();
    for client in &mut slow {
        client.set_nonblocking(true).unwrap();
        let _ = client.write(request.repeat(50).as_bytes());
    }
    all_are_served(&site);
}

#[test]
fn a_stream_with_the_token_outlives_a_flood_of_others() {
    let site = Site::with_token("");
    let id = site.m.submit("--urgency=hold true");
    let number: u64 = site.m.field(&id, "id.dec").parse().unwrap();
    let watch = json!({"id": number, "path": "eventlog"});
    let mut events = site.stream("job-info.eventlog-watch", &watch);
    assert!(events.next().unwrap().1["event"].as_str().unwrap().contains("submit"));
    let flood: Vec<TcpStream> = (0..600).map(|_| site.connect()).collect();
    all_are_served(&site);
    site.m.jobtap(&format!("cancel {id}")).ok();
    let mut rest = std::iter::from_fn(|| events.next());
    assert!(rest.any(|(_, event)| event["event"].as_str().is_some_and(|e| e.contains("clean"))));
    drop(flood);
}

#[test]
fn streams_of_others_leave_the_token_its_own() {
    let site = Site::with_token("");
    let open = |token| site.stream_as(token, "job-list.changes", &json!({}));
    let mut others: Vec<_> = (0..64).map(|_| open(None)).collect();
    for stream in &mut others {
        assert!(stream.next().is_some());
    }
    let refused = site.read("job-list.changes", json!({})).refused(429, EAGAIN);
    assert!(refused.contains("64 streams"), "{refused}");
    assert!(open(Some(TOKEN)).next().is_some());
    all_are_served(&site);
}

#[test]
fn streams_that_are_not_read_take_little_memory() {
    let site = Site::with_token("");
    let before = memory(&site);
    let changes: Vec<_> =
        (0..20).map(|_| site.stream_as(None, "job-list.changes", &json!({}))).collect();
    let journal = |_| site.stream("job-manager.events-journal", &json!({"full": true}));
    let journals: Vec<_> = (0..20).map(journal).collect();
    for round in 0..4 {
        let name = "x".repeat(1000);
        let words =
            format!("submit --quiet --cc=1-200 --urgency=hold --job-name={name}{round} true");
        site.m.jobtap(&words).ok();
    }
    all_are_served(&site);
    let grown = memory(&site).saturating_sub(before);
    // The jobs themselves take a part of this memory.
    assert!(grown < 128, "{grown} MiB more than {before} MiB");
    drop((changes, journals));
}

#[test]
fn unread_lists_take_little_memory() {
    let site = Site::open("");
    site.m.jobtap("submit --cc=1-400 --quiet --urgency=hold true").ok();
    let before = memory(&site);
    let request = format!(
        "POST /v1/job-list.list HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\n\
         Content-Length: 17\r\n\r\n{{\"max_entries\":0}}",
        site.address
    );
    let mut clients: Vec<_> = (0..32).map(|_| site.connect()).collect();
    for client in &mut clients {
        client.set_nonblocking(true).unwrap();
        let all = request.repeat(500);
        let _ = client.write(all.as_bytes());
    }
    assert_eq!(site.read("job-list.list", json!({"max_entries": 1})).ok()["jobs"][0]["state"], 8);
    let grown = memory(&site).saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more than {before} MiB");
}

#[test]
fn streams_are_counted() {
    let site = Site::with_token("");
    let open = |_| {
        let mut socket = site.connect();
        let content = "{\"key\":\"no.such\",\"waitcreate\":true}";
        write!(
            socket,
            "POST /v1/kvs.watch HTTP/1.1\r\nHost: {}\r\nAuthorization: Bearer {TOKEN}\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{content}",
            site.address,
            content.len()
        )
        .unwrap();
        let mut status = [0; 12];
        socket.read_exact(&mut status).unwrap();
        (socket, status)
    };
    let streams: Vec<_> = (0..64).map(open).collect();
    assert!(streams.iter().all(|(_, status)| status == b"HTTP/1.1 200"));
    let request = json!({"key": "no.such", "waitcreate": true});
    site.call("kvs.watch", request).refused(429, EAGAIN);
    drop(streams);
    until("a stream can be opened", || open(0).1 == *b"HTTP/1.1 200");
}
