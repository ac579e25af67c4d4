//! User names and numbers.
//!
//! A static binary can't load the C library's name services. So users who are not in `/etc/passwd` are looked
//! up with getent(1), which queries the site's SSSD or LDAP.

use std::cell::RefCell;
use std::collections::HashMap;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use jobtap_core::engine::Requester;

use crate::exec::Account;

/// Maps user names to numbers and back; each lookup is made once.
pub struct Users {
    names: RefCell<HashMap<u32, String>>,
    numbers: RefCell<HashMap<String, Option<u32>>>,
    /// Whether to look users up with getent(1).
    services: bool,
}

impl Users {
    /// The users of this machine.
    pub fn system() -> Self {
        // Without the file, all users are looked up with getent(1).
        let passwd = std::fs::read_to_string("/etc/passwd").unwrap_or_default();
        Users { services: true, ..Users::from_passwd(&passwd) }
    }

    /// The users of a passwd(5) text, and no others.
    pub fn from_passwd(passwd: &str) -> Self {
        let (mut names, mut numbers) = (HashMap::new(), HashMap::new());
        for (name, uid) in passwd.lines().filter_map(parse_entry) {
            names.entry(uid).or_insert_with(|| name.to_owned());
            numbers.entry(name.to_owned()).or_insert(Some(uid));
        }
        Users { names: names.into(), numbers: numbers.into(), services: false }
    }

    /// The name of user `uid`, or the number if the name is unknown.
    pub fn name(&self, uid: u32) -> String {
        if let Some(name) = self.names.borrow().get(&uid) {
            return name.clone();
        }
        let entry = self.ask(&uid.to_string());
        let name = entry.map_or_else(|| uid.to_string(), |(name, _)| name);
        self.names.borrow_mut().insert(uid, name.clone());
        name
    }

    /// The number of the user `name`.
    pub fn number(&self, name: &str) -> Option<u32> {
        if let Some(number) = self.numbers.borrow().get(name) {
            return *number;
        }
        // getent takes a word of digits for a number, and an unknown number has no name.
        let is_name = !name.is_empty() && !name.bytes().all(|b| b.is_ascii_digit());
        let number = is_name.then(|| self.ask(name)).flatten().map(|(_, uid)| uid);
        self.numbers.borrow_mut().insert(name.to_owned(), number);
        number
    }

    fn ask(&self, key: &str) -> Option<(String, u32)> {
        if !self.services {
            return None;
        }
        let mut command = Command::new("getent");
        command.args(["passwd", "--", key]).stdin(Stdio::null()).stderr(Stdio::null());
        let output = command.output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        let (name, uid) = text.lines().find_map(parse_entry)?;
        Some((name.to_owned(), uid))
    }
}

/// Parses the name and number of a passwd(5) line.
fn parse_entry(line: &str) -> Option<(&str, u32)> {
    let mut fields = line.split(':');
    let (name, uid) = (fields.next()?, fields.nth(1)?);
    let name = Some(name).filter(|name| !name.is_empty() && !name.starts_with('#'))?;
    Some((name, uid.parse().ok()?))
}

/// The home directory of a user in `/etc/passwd`.
pub(crate) fn home(uid: u32) -> Option<PathBuf> {
    let passwd = std::fs::read_to_string("/etc/passwd").ok()?;
    let line = passwd.lines().find(|line| entry_of(line, uid).is_some())?;
    line.split(':').nth(5).filter(|home| !home.is_empty()).map(PathBuf::from)
}

/// The names in a passwd(5) text, in its order.
pub fn names(passwd: &str) -> Vec<String> {
    passwd.lines().filter_map(parse_entry).map(|(name, _)| name.to_owned()).collect()
}

/// The number of the group `name`, from `/etc/group` or else from getent(1).
pub(crate) fn group_number(name: &str) -> Option<u32> {
    let of = |text: &str| {
        text.lines().find_map(|line| {
            let mut fields = line.split(':');
            (fields.next() == Some(name)).then(|| fields.nth(1)?.parse().ok())?
        })
    };
    let known = of(&std::fs::read_to_string("/etc/group").unwrap_or_default());
    known.or_else(|| {
        let mut command = Command::new("getent");
        command.args(["group", "--", name]).stdin(Stdio::null()).stderr(Stdio::null());
        of(&String::from_utf8_lossy(&command.output().ok()?.stdout))
    })
}

/// How long a lookup of a user may take. After that, requests of the user go on without the result.
const PATIENCE: Duration = Duration::from_secs(10);

/// Looks up the names of users in one call. Users that the system doesn't know are left out.
pub(crate) async fn names_of(uids: Vec<u32>) -> Vec<(u32, String)> {
    let numbers: Vec<String> = uids.iter().map(u32::to_string).collect();
    let words: Vec<&str> =
        ["passwd", "--"].into_iter().chain(numbers.iter().map(String::as_str)).collect();
    let passwd = match getent(&words).await {
        Ok(text) => text,
        Err(_) => std::fs::read_to_string("/etc/passwd").unwrap_or_default(),
    };
    let known = passwd.lines().filter_map(parse_entry);
    let asked = known.filter(|(_, uid)| uids.contains(uid));
    asked.map(|(name, uid)| (uid, name.to_owned())).collect()
}

/// What the system knows about a user of this host, from getent(1), or from `/etc/passwd` where getent is
/// missing.
pub async fn requester(uid: u32) -> Requester {
    // Requests come over a socket of this host.
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let asked = async {
        let passwd = match getent(&["passwd", "--", &uid.to_string()]).await {
            Ok(text) => text,
            Err(_) => std::fs::read_to_string("/etc/passwd").unwrap_or_default(),
        };
        let (name, group) = passwd.lines().find_map(|line| entry_of(line, uid)).unzip();
        let groups = match (&name, group) {
            (Some(name), Some(group)) => groups(name, group).await,
            _ => Vec::new(),
        };
        (name, group, groups)
    };
    let (name, group, groups) = tokio::time::timeout(PATIENCE, asked).await.unwrap_or_default();
    Requester { name, group, groups, host: Some(host) }
}

/// The account that a user's jobs run under; `None` if the system doesn't know the user, or doesn't answer in
/// time.
pub(crate) async fn account(uid: u32) -> Option<Account> {
    let asked = async {
        let passwd = match getent(&["passwd", "--", &uid.to_string()]).await {
            Ok(text) => text,
            Err(_) => std::fs::read_to_string("/etc/passwd").unwrap_or_default(),
        };
        let (name, gid) = passwd.lines().find_map(|line| entry_of(line, uid))?;
        let mut groups: Vec<u32> = match getent(&["initgroups", "--", &name]).await {
            Ok(text) => numbers(&text).collect(),
            Err(_) => {
                let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
                group_lines(&text, &name, gid).map(|(_, number)| number).collect()
            }
        };
        if !groups.contains(&gid) {
            groups.push(gid);
        }
        groups.sort_unstable();
        groups.dedup();
        Some(Account { name, gid, groups })
    };
    tokio::time::timeout(PATIENCE, asked).await.ok().flatten()
}

/// The numbers of groups in a line of `getent initgroups`, which begins with the user's name.
fn numbers(text: &str) -> impl Iterator<Item = u32> {
    text.split_whitespace().skip(1).filter_map(|word| word.parse().ok())
}

/// The output of getent(1), which is empty if it finds nothing.
async fn getent(words: &[&str]) -> std::io::Result<String> {
    let mut getent = tokio::process::Command::new("getent");
    getent.args(words).stdin(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    Ok(String::from_utf8_lossy(&getent.output().await?.stdout).into_owned())
}

/// The names of a user's groups, including `primary`.
async fn groups(user: &str, primary: u32) -> Vec<String> {
    let Ok(text) = getent(&["initgroups", "--", user]).await else {
        let text = std::fs::read_to_string("/etc/group").unwrap_or_default();
        return groups_in_file(&text, user, primary);
    };
    let mut numbers: Vec<&str> =
        text.split_whitespace().skip(1).filter(|word| word.parse::<u32>().is_ok()).collect();
    let primary = primary.to_string();
    numbers.push(&primary);
    let words = ["group", "--"].into_iter().chain(numbers).collect::<Vec<_>>();
    let text = getent(&words).await.unwrap_or_default();
    let name = |line: &str| line.split(':').next().map(str::to_owned);
    let mut names: Vec<String> = text.lines().filter_map(name).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The names of a user's groups in a text of group(5).
fn groups_in_file(text: &str, user: &str, primary: u32) -> Vec<String> {
    group_lines(text, user, primary).map(|(name, _)| name.to_owned()).collect()
}

/// The name and number of each group in a text of group(5) that a user is in.
fn group_lines<'a>(
    text: &'a str,
    user: &'a str,
    primary: u32,
) -> impl Iterator<Item = (&'a str, u32)> {
    text.lines().filter_map(move |line| {
        let fields: Vec<&str> = line.split(':').collect();
        let [name, _, number, members] = fields.as_slice() else { return None };
        let number = number.parse().ok()?;
        let is_member = members.split(',').any(|member| member == user);
        (is_member || number == primary).then_some((*name, number))
    })
}

/// The name and the primary group in a passwd(5) line of this user.
fn entry_of(line: &str, uid: u32) -> Option<(String, u32)> {
    let (name, _) = parse_entry(line).filter(|(_, number)| *number == uid)?;
    Some((name.to_owned(), line.split(':').nth(3)?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str = "root:x:0:0:root:/root:/bin/sh\n\
        # a comment\n\nbroken line\nalice:x:1001:1001::/home/alice:/bin/sh\n\
        toor:x:0:0::/root:/bin/sh\n";

    #[test]
    fn known_users_have_names_and_numbers() {
        let users = Users::from_passwd(PASSWD);
        assert_eq!(users.name(1001), "alice");
        assert_eq!(users.number("alice"), Some(1001));
        assert_eq!(users.number("toor"), Some(0));
        assert_eq!(users.name(0), "root");
    }

    #[test]
    fn a_line_of_passwd_names_user_and_group() {
        let line = "ada:x:1000:100:Ada,,,:/home/ada:/bin/sh";
        assert_eq!(entry_of(line, 1000), Some(("ada".to_owned(), 100)));
        for (line, uid) in [(line, 7), ("", 0), ("ada:x:1000", 1000), (":x:1000:100", 1000)] {
            assert_eq!(entry_of(line, uid), None, "{line}");
        }
    }

    #[tokio::test]
    async fn the_system_knows_its_users() {
        let root = requester(0).await;
        assert_eq!((root.name.as_deref(), root.group), (Some("root"), Some(0)));
        assert!(root.host.is_some_and(|host| !host.is_empty()));
        let unknown = requester(4_000_000_123).await;
        assert_eq!((unknown.name, unknown.group), (None, None));
    }

    #[test]
    fn groups_are_read_from_a_file_where_getent_is_missing() {
        let text = "root:x:0:\nusers:x:100:\nchem:x:200:bob,ada\nbio:x:300:adam\nbroken\n";
        assert_eq!(groups_in_file(text, "ada", 100), ["users", "chem"]);
        assert_eq!(groups_in_file(text, "eve", 7), [""; 0]);
    }

    #[tokio::test]
    async fn an_account_has_the_numbers_of_all_groups() {
        let root = account(0).await.unwrap();
        assert_eq!((root.name.as_str(), root.gid), ("root", 0));
        assert!(root.groups.contains(&0), "{root:?}");
        assert_eq!(account(4_000_000_123).await, None);
        assert_eq!(numbers("ada 4 20 x 27\n").collect::<Vec<_>>(), [4, 20, 27]);
    }

    #[test]
    fn the_system_knows_the_groups_of_root() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let root = runtime.block_on(requester(0));
        assert_eq!(root.name.as_deref(), Some("root"));
        assert!(root.groups.contains(&"root".to_owned()), "{root:?}");
    }

    #[test]
    fn an_unknown_user_is_shown_by_number() {
        let users = Users::from_passwd(PASSWD);
        assert_eq!(users.name(4242), "4242");
        assert_eq!(users.number("nosuchuser"), None);
        assert_eq!(users.number(""), None);
    }
}
