//! Clients that send more than they read, or malformed requests, cost a bounded amount of memory and time,
//! and other clients are served in turn.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use jobtap_tests::rpc::{PROTOCOL, request, stream};
use jobtap_tests::{Manager, PATIENCE, jobtap, until};
use serde_json::{Value, json};

/// A connection that sends raw requests and reads only when a test asks it to.
struct Client {
    socket: UnixStream,
    answers: BufReader<UnixStream>,
}

impl Client {
    fn connect(m: &Manager) -> Self {
        let socket = UnixStream::connect(m.statedir.join("local-0")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let answers = BufReader::new(socket.try_clone().unwrap());
        Self { socket, answers }
    }

    /// Connects as a guest; returns the response to the greeting, too.
    fn guest(m: &Manager, uid: u32) -> (Self, Value) {
        let mut client = Self::connect(m);
        let answer =
            client.ask("hello", json!({"protocol": PROTOCOL, "userid": uid, "rolemask": 2}));
        (client, answer)
    }

    /// Sends as many of these requests as the manager accepts while no response is read.
    fn flood(&self, requests: &str, times: usize) {
        let mut socket = self.socket.try_clone().unwrap();
        socket.set_nonblocking(true).unwrap();
        for _ in 0..times {
            let mut rest = requests.as_bytes();
            let mut refused = 0;
            while !rest.is_empty() {
                match socket.write(rest) {
                    Ok(count) => (rest, refused) = (&rest[count..], 0),
                    // The manager has stopped reading from this connection.
                    Err(_) if refused == 50 => return socket.set_nonblocking(false).unwrap(),
                    Err(_) => refused += 1,
                }
                if refused > 0 {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
        }
        socket.set_nonblocking(false).unwrap();
    }

    fn send(&mut self, id: u64, topic: &str, payload: Value) {
        self.socket.write_all(request(id, topic, &payload).as_bytes()).unwrap();
    }

    /// Returns the next response, or `None` at the end of the connection.
    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        self.answers.read_line(&mut line).unwrap();
        (!line.is_empty()).then(|| serde_json::from_str(&line).unwrap())
    }

    fn ask(&mut self, topic: &str, payload: Value) -> Value {
        self.send(1, topic, payload);
        self.answer().unwrap()
    }
}

/// Returns the resident memory of the manager, in MiB.
fn memory(m: &Manager) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", m.pid())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() / 1024
}

/// Starts a manager with `count` pending jobs.
fn with_jobs(count: usize) -> Manager {
    let m = Manager::start(jobtap());
    let mut client = Client::connect(&m);
    let jobspec = json!({
        "version": 1,
        "resources": [{"type": "slot", "count": 1, "label": "task",
                       "with": [{"type": "core", "count": 1}]}],
        "tasks": [{"command": ["true"], "slot": "task", "count": {"per_slot": 1}}],
        "attributes": {"system": {"duration": 0, "job": {"name": "x".repeat(400)}}},
    });
    for id in 0..count {
        client.send(id as u64, "job-ingest.submit", json!({"jobspec": jobspec, "urgency": 0}));
    }
    for _ in 0..count {
        let answer = client.answer().unwrap();
        assert!(answer["payload"]["id"].is_u64(), "{answer}");
    }
    m
}

fn listing() -> String {
    request(7, "job-list.list", &json!({"max_entries": 0}))
}

#[test]
fn unread_listings_take_little_memory() {
    let m = with_jobs(400);
    let before = memory(&m);
    let floods: Vec<Client> = (0..8).map(|_| Client::connect(&m)).collect();
    for flood in &floods {
        // Each listing has 300 KiB or more, so all together have more than a gigabyte.
        flood.flood(&listing(), 500);
    }
    let mut other = Client::connect(&m);
    for _ in 0..20 {
        assert!(other.ask("job-manager.getinfo", json!({}))["payload"].is_object());
    }
    let grown = memory(&m).saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more than {before} MiB");
    // All requests are still answered, whole and in order.
    let mut first = floods.into_iter().next().unwrap();
    for _ in 0..3 {
        let listing = first.answer().unwrap();
        assert_eq!(listing["payload"]["jobs"].as_array().unwrap().len(), 400);
    }
}

#[test]
fn streams_that_are_not_read_take_little_memory() {
    let m = with_jobs(10);
    let before = memory(&m);
    let topics = [
        ("job-manager.events-journal", json!({"full": true})),
        ("job-list.changes", json!({})),
        ("log.dmesg", json!({})),
        ("kvs.watch", json!({"key": "resource.eventlog"})),
        ("resource.journal", json!({})),
    ];
    let streams: Vec<Client> = (0..8)
        .flat_map(|_| &topics)
        .map(|(topic, payload)| {
            let mut client = Client::connect(&m);
            client.socket.write_all(stream(1, topic, payload).as_bytes()).unwrap();
            client
        })
        .collect();
    for round in 0..4 {
        let name = "x".repeat(1000);
        m.jobtap(&format!(
            "submit --quiet --cc=1-200 --urgency=hold --job-name={name}{round} true"
        ))
        .ok();
        m.jobtap(&format!("resource drain 0 {name}{round}")).ok();
        m.jobtap("resource undrain 0").ok();
    }
    let mut other = Client::connect(&m);
    assert!(other.ask("job-manager.getinfo", json!({}))["payload"].is_object());
    let grown = memory(&m).saturating_sub(before);
    // The jobs themselves take a part of this memory.
    assert!(grown < 128, "{grown} MiB more than {before} MiB");
    drop(streams);
}

#[test]
fn a_busy_client_delays_others_by_one_turn() {
    let m = with_jobs(400);
    let flood = Client::connect(&m);
    let answered = Arc::new(AtomicUsize::new(0));
    let (mut reader, count) = (flood.answers, Arc::clone(&answered));
    let reading = std::thread::spawn(move || {
        let mut line = Vec::new();
        while count.load(Ordering::SeqCst) < 300 {
            line.clear();
            reader.read_until(b'\n', &mut line).unwrap();
            count.fetch_add(1, Ordering::SeqCst);
        }
    });
    let mut socket = flood.socket;
    socket.write_all(listing().repeat(300).as_bytes()).unwrap();
    let mut other = Client::connect(&m);
    let mut asked = 0;
    while answered.load(Ordering::SeqCst) < 200 {
        let before = answered.load(Ordering::SeqCst);
        other.ask("job-manager.getinfo", json!({}));
        let between = answered.load(Ordering::SeqCst) - before;
        assert!(between <= 6, "{between} listings went first");
        asked += 1;
    }
    assert!(asked >= 200 / 6, "only {asked} requests between 200 listings");
    reading.join().unwrap();
}

#[test]
fn waits_are_bounded_and_end_with_their_connection() {
    let m = Manager::start(jobtap());
    let held = m.submit("--urgency=hold true");
    let before = memory(&m);
    let mut flood = Client::connect(&m);
    let drains = "{\"id\":7,\"topic\":\"job-manager.drain\"}\n".repeat(1000);
    let sending = flood.socket.try_clone().unwrap();
    let sender = std::thread::spawn(move || {
        let mut socket = sending;
        for _ in 0..20 {
            socket.write_all(drains.as_bytes()).unwrap();
        }
    });
    // Requests within the limit wait; the others are refused at once.
    for _ in 0..20_000 - 16 * 1024 {
        let refused = flood.answer().unwrap();
        assert_eq!(refused["errno"], 11, "{refused}");
        let text = refused["error"].as_str().unwrap();
        assert_eq!(text, "16384 requests of this user wait, as many as may");
    }
    sender.join().unwrap();
    let grown = memory(&m).saturating_sub(before);
    assert!(grown < 200, "{grown} MiB more than {before} MiB");
    // This connection is still served, and so are others.
    assert!(flood.ask("job-manager.getinfo", json!({}))["payload"].is_object());
    drop(flood);
    let mut other = Client::connect(&m);
    until("there is room again", || {
        other.send(3, "job-manager.drain", json!({}));
        other.ask("job-manager.getinfo", json!({}))["errno"].is_null()
    });
    m.jobtap(&format!("cancel {held}")).ok();
    m.jobtap("queue drain").ok();
}

#[test]
fn unfinished_requests_take_little_memory() {
    let m = Manager::start(jobtap());
    let before = memory(&m);
    let floods: Vec<Client> = (0..20).map(|_| Client::connect(&m)).collect();
    let piece = "x".repeat(1 << 20);
    for flood in &floods {
        flood.flood("{\"id\":7,\"topic\":\"job-ingest.submit\",\"size\":8000000}\n", 1);
        flood.flood(&piece, 7);
    }
    let mut other = Client::connect(&m);
    assert!(other.ask("job-manager.getinfo", json!({}))["payload"].is_object());
    m.submit("true");
    let grown = memory(&m).saturating_sub(before);
    assert!(grown < 64, "{grown} MiB more than {before} MiB");
    // Connections for which there is no room get an error.
    let refused = floods.into_iter().next_back().unwrap().answer().unwrap();
    assert_eq!((&refused["id"], &refused["errno"]), (&json!(7), &json!(11)), "{refused}");
}

#[test]
fn malformed_requests_get_an_error_before_the_close() {
    let m = Manager::start(jobtap());
    for (sent, id, words) in [
        ("garbage\n".to_owned(), 0, "malformed message"),
        ("{\"id\":5,\"topic\":\n".to_owned(), 0, "malformed message"),
        (format!("{{\"id\":6,\"topic\":\"{}", "x".repeat(9 << 20)), 0, "more than 4096 bytes"),
        (
            "{\"id\":7,\"topic\":\"job-ingest.submit\",\"size\":9000000}\n".to_owned(),
            7,
            "more than 8388608 bytes",
        ),
    ] {
        let mut client = Client::connect(&m);
        // The manager may close the connection before it has read everything.
        let _ = client.socket.write_all(sent.as_bytes());
        let refused = client.answer().unwrap();
        assert_eq!(refused["id"], id, "{refused}");
        assert!(refused["error"].as_str().unwrap().contains(words), "{refused}");
        assert!(matches!(client.answers.read(&mut [0]), Ok(0) | Err(_)));
    }
}

#[test]
fn a_guest_cannot_take_all_connections() {
    let m = Manager::start(jobtap());
    let guests: Vec<(Client, Value)> = (0..70).map(|_| Client::guest(&m, 77)).collect();
    let refused = guests.iter().filter(|(_, answer)| answer["errno"] == 11).count();
    assert!(refused >= 6, "{refused}");
    let (_, last) = guests.last().unwrap();
    let text = last["error"].as_str().unwrap();
    assert!(text.contains("connections of user 77 are as many as one user may have"), "{text}");
    let (_other, answer) = Client::guest(&m, 78);
    assert_eq!(answer["payload"]["protocol"], PROTOCOL);
    m.submit("true");
}

#[test]
fn requests_not_begun_are_dropped_with_their_connection() {
    let m = with_jobs(400);
    let cpu = || {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", m.pid())).unwrap();
        let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
        fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
    };
    let mut flood = Client::connect(&m);
    flood.flood(&listing(), 1);
    // The manager has begun to serve this connection.
    flood.answer().unwrap();
    flood.flood(&listing(), 3000);
    drop(flood);
    // The manager works on none of the dropped requests: its CPU time stops growing.
    until("the manager rests", || {
        let before = cpu();
        std::thread::sleep(Duration::from_millis(300));
        cpu() - before <= 2
    });
}
