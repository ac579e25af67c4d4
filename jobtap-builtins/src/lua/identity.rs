//! Who submits, by name: Slurm tells its plugins, and a request here has the number only.
//!
//! It runs on the script's thread, since a site's directory of users may be slow to answer.

use std::collections::HashMap;
use std::process::{Command, Stdio};
use std::sync::Mutex;

use jobtap_core::slurm::JobDescriptor;

use super::native::lock;

/// The users that were looked up.
#[derive(Debug, Default)]
pub(super) struct Identities(Mutex<HashMap<u32, Option<User>>>);

/// What is known of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
struct User {
    name: String,
    group: u32,
}

impl Identities {
    /// Fills in the name and the group of the user, and the host.
    pub(super) fn fill(&self, description: &mut JobDescriptor, uid: u32) {
        if let Some(user) = self.user(uid) {
            description.user_name = Some(user.name);
            description.group_id = user.group;
        }
        // Requests come over a socket of this host.
        let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
        description.alloc_node = Some(host);
    }

    fn user(&self, uid: u32) -> Option<User> {
        if let Some(known) = lock(&self.0).get(&uid) {
            return known.clone();
        }
        // Not under the lock: the command may take long.
        let user = look_up(uid);
        lock(&self.0).insert(uid, user.clone());
        user
    }
}

/// Asks getent(1), which also knows users of directories that a static binary can't ask.
fn look_up(uid: u32) -> Option<User> {
    let mut command = Command::new("getent");
    command.args(["passwd", "--", &uid.to_string()]).stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok()?;
    parse(&String::from_utf8_lossy(&output.stdout), uid)
}

/// The user in a line of passwd(5).
fn parse(line: &str, uid: u32) -> Option<User> {
    let mut fields = line.trim_end().split(':');
    let name = fields.next().filter(|name| !name.is_empty())?;
    if fields.nth(1)?.parse() != Ok(uid) {
        return None;
    }
    Some(User { name: name.to_owned(), group: fields.next()?.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_passwd_is_read() {
        let line = "ada:x:1000:100:Ada,,,:/home/ada:/bin/sh\n";
        assert_eq!(parse(line, 1000), Some(User { name: "ada".to_owned(), group: 100 }));
        for (line, uid) in [(line, 7), ("", 0), ("ada:x", 1000), (":x:1000:100", 1000)] {
            assert_eq!(parse(line, uid), None, "{line}");
        }
    }

    #[test]
    fn a_user_without_a_name_stays_a_number() {
        let mut description = JobDescriptor::default();
        Identities::default().fill(&mut description, 4_000_000_123);
        assert_eq!((description.user_name, description.group_id), (None, 0));
        assert!(description.alloc_node.is_some());
    }
}
