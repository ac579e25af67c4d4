//! A guest can neither send input to the jobs of other users nor learn their processes.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::Command;

use jobtap_tests::rpc::{PROTOCOL, request};
use jobtap_tests::{Manager, PATIENCE, jobtap, run, temporary};
use serde_json::{Value, json};

/// A user other than root that every system has.
const NOBODY: u32 = 65534;

/// A connection of a client other than jobtap's own.
struct Client {
    socket: BufReader<UnixStream>,
}

impl Client {
    /// Sends the greeting as the user of this process, or with a `role` that only the owner may claim.
    fn new(statedir: &Path, role: Value) -> Self {
        let socket = UnixStream::connect(statedir.join("local-0")).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut client = Self { socket: BufReader::new(socket) };
        let mut hello = json!({ "protocol": PROTOCOL });
        hello.as_object_mut().unwrap().extend(role.as_object().cloned().unwrap());
        let answer = client.ask("hello", &hello);
        assert_eq!(answer["payload"]["protocol"], PROTOCOL, "{answer}");
        client
    }

    fn ask(&mut self, topic: &str, payload: &Value) -> Value {
        let text = request(1, topic, payload);
        self.socket.get_mut().write_all(text.as_bytes()).unwrap();
        let mut line = String::new();
        self.socket.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    /// Sends a request that will be refused, and returns the message.
    #[track_caller]
    fn refused(&mut self, topic: &str, payload: &Value) -> String {
        let answer = self.ask(topic, payload);
        assert_eq!(answer["errno"], 1, "{topic}: {answer}");
        answer["error"].as_str().unwrap().to_owned()
    }
}

/// Starts a job that copies its input to its output; returns its id, as text and as the number in requests.
fn cat(m: &Manager) -> (String, Value) {
    let id = m.submit("--setopt=input.stdin.type=\"service\" cat");
    m.wait(&id, "start");
    let number = m.field(&id, "id.dec").parse::<u64>().unwrap();
    (id, json!(number))
}

/// Asserts that `guest` can neither send input to the job nor inspect it, and that its owner can.
fn assert_guest_has_no_access(m: &Manager, guest: &mut Client) {
    let (id, number) = cat(m);
    let guests = json!({ "id": number, "data": "Z3Vlc3QK", "eof": true });
    let refusal = guest.refused("job-exec.stdin", &guests);
    assert!(!refusal.is_empty());
    let refusal = guest.refused("job-exec.proctable", &json!({ "id": number }));
    assert!(!refusal.is_empty());
    let pids = m.jobtap(&format!("job hostpids {id}")).ok();
    assert!(pids.contains(':'), "{pids}");
    let mut attach = m.command(["job", "attach", &id]);
    let attach = attach.stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let mut attach = attach.spawn().unwrap();
    attach.stdin.take().unwrap().write_all(b"owner\n").unwrap();
    let output = attach.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "owner\n");
    assert_eq!(m.field(&id, "result"), "COMPLETED");
}

#[test]
fn a_guest_cannot_send_input_to_or_inspect_others_jobs() {
    let m = Manager::start(jobtap());
    let mut guest = Client::new(&m.statedir, json!({ "userid": 77, "rolemask": 2 }));
    assert_guest_has_no_access(&m, &mut guest);
}

#[test]
fn another_user_of_the_system_is_a_guest() {
    let root = run(Command::new("id").arg("-u")).ok() == "0";
    if !root || run(Command::new("setpriv").arg("--version")).code != 0 {
        println!("skipped: only root can run a manager as another user, by setpriv");
        return;
    }
    // The checkout may be in a directory that only root can enter.
    let directory = temporary();
    let path = |name: &str| directory.path().join(name);
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::copy(jobtap(), path("jobtap")).unwrap();
    let exe = path("jobtap").display().to_string();
    let script = format!(
        "#!/bin/sh\nexport TMPDIR={}\nexec setpriv --reuid={NOBODY} --regid={NOBODY} --clear-groups {exe} \"$@\"\n",
        path("tmp").display()
    );
    fs::write(path("as-nobody"), script).unwrap();
    fs::set_permissions(path("as-nobody"), fs::Permissions::from_mode(0o755)).unwrap();
    for own in ["state", "tmp"] {
        fs::create_dir(path(own)).unwrap();
        std::os::unix::fs::chown(path(own), Some(NOBODY), Some(NOBODY)).unwrap();
        fs::set_permissions(path(own), fs::Permissions::from_mode(0o700)).unwrap();
    }
    let allow = "--conf=access.allow-guest-user=true";
    let m = Manager::start_in(&path("as-nobody"), &path("state"), &[allow.as_ref()]);
    let mut guest = Client::new(&path("state"), json!({}));
    assert_guest_has_no_access(&m, &mut guest);
    let role = json!({ "protocol": PROTOCOL, "userid": NOBODY, "rolemask": 1 });
    let refusal = guest.refused("hello", &role);
    assert_eq!(refusal, "only the owner may act as another user");
}
