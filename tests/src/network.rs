//! Hosts with a network of their own: a namespace for each, and a switch in one more, to which each has a cable. A cable that
//! is cut loses packets as a real one does, and nobody is told.
//!
//! A namespace exists for as long as a process is in it. These processes end when their input does, so that nothing is left
//! even of a test that is killed.

use std::fs;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::{Output, run, temporary};

/// Says that it is in its namespace, and stays there until its input ends.
const STAY: &str = "echo; exec cat";

/// Starts a program on a host, where `hosts` is the file with the addresses of all.
const ON_HOST: &str = r#"#!/bin/sh
exec nsenter --net=/proc/$pid/ns/net unshare --mount sh -c 'mount --bind "$hosts" /etc/hosts && exec "$@"' sh "$@"
"#;

/// A namespace.
struct Namespace(Child);

impl Namespace {
    fn new() -> Option<Self> {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", STAY]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut process = Self(command.spawn().ok()?);
        let said = process.0.stdout.as_mut()?.read(&mut [0]);
        matches!(said, Ok(1)).then_some(process)
    }

    fn ip(&self, words: &str) -> Output {
        let pid = self.0.id().to_string();
        run(Command::new("nsenter").args(["-t", &pid, "-n", "ip"]).args(words.split(' ')))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// Hosts that reach each other by name: `n1` and so on.
pub struct Network {
    switch: Namespace,
    _hosts: Vec<Namespace>,
    wrappers: Vec<PathBuf>,
    _directory: TempDir,
}

impl Network {
    /// Makes so many hosts. `None` if this system doesn't let the test do so.
    #[track_caller]
    pub fn make(size: u32) -> Option<Self> {
        let switch = Namespace::new()?;
        if switch.ip("link add br0 type bridge").code != 0 {
            return None;
        }
        switch.ip("link set br0 up").ok();
        let directory = temporary();
        let file = directory.path().join("hosts");
        let (mut hosts, mut wrappers) = (Vec::new(), Vec::new());
        let mut addresses = "127.0.0.1 localhost\n".to_owned();
        for rank in 0..size {
            let host = Namespace::new()?;
            let (pid, address) = (host.0.id(), format!("10.99.0.{}", rank + 1));
            switch.ip(&format!("link add p{rank} type veth peer name eth0 netns {pid}")).ok();
            switch.ip(&format!("link set p{rank} master br0 up")).ok();
            host.ip(&format!("addr add {address}/24 dev eth0")).ok();
            host.ip("link set eth0 up").ok();
            host.ip("link set lo up").ok();
            addresses.push_str(&format!("{address} n{}\n", rank + 1));
            let wrapper = directory.path().join(format!("on-n{}", rank + 1));
            let variables = [("$pid", pid.to_string()), ("$hosts", file.display().to_string())];
            let script = variables
                .iter()
                .fold(ON_HOST.to_owned(), |script, (name, value)| script.replace(name, value));
            fs::write(&wrapper, script).ok()?;
            fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o755)).ok()?;
            hosts.push(host);
            wrappers.push(wrapper);
        }
        fs::write(&file, addresses).ok()?;
        Some(Self { switch, _hosts: hosts, wrappers, _directory: directory })
    }

    /// The program that starts another one on a host.
    pub fn wrapper(&self, rank: u32) -> Option<PathBuf> {
        self.wrappers.get(rank as usize).cloned()
    }

    /// Cuts the cable of a host: what it sends, and what is sent to it, is lost.
    #[track_caller]
    pub fn cut(&self, rank: u32) {
        self.switch.ip(&format!("link set p{rank} nomaster")).ok();
    }

    /// Mends it.
    #[track_caller]
    pub fn mend(&self, rank: u32) {
        self.switch.ip(&format!("link set p{rank} master br0")).ok();
    }

    /// Pulls the cable of a host, which notices it.
    #[track_caller]
    pub fn unplug(&self, rank: u32) {
        self.switch.ip(&format!("link set p{rank} down")).ok();
    }

    /// Plugs it in again.
    #[track_caller]
    pub fn plug(&self, rank: u32) {
        self.switch.ip(&format!("link set p{rank} up")).ok();
    }
}
