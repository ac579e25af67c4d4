//! The few functions of modules written in C that policies use: scripts ask luaposix for a user's name, or decode JSON.
//!
//! A module written in C could block the manager's thread and corrupt its memory, so none is loaded. What is served here
//! reads accounts, attributes of files and the clock, and computes. A lookup of an account that needs the site's name
//! services runs as a command, under the limits of the script.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use mlua::{IntoLuaMulti, Lua, LuaString, Table, Value as LuaValue};
use rustix::fs::{FileType, Stat};

use super::files;
use super::native::{Shared, lock};
use super::process::{self, Bounds};

/// A module that the manager serves in place of one written in C.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Module {
    /// The name by which scripts require it.
    pub name: &'static str,
    /// Its functions and values. All others are refused by name.
    pub members: &'static [&'static str],
    /// Those that the sandbox refuses.
    pub outside_sandbox: &'static [&'static str],
}

const BIT32: &[&str] = &[
    "arshift", "band", "bnot", "bor", "btest", "bxor", "extract", "lrotate", "lshift", "replace",
    "rrotate", "rshift",
];

/// The modules that are served.
pub const MODULES: &[Module] = &[
    Module { name: "bit32", members: BIT32, outside_sandbox: &[] },
    Module { name: "cjson", members: &["decode", "encode", "null"], outside_sandbox: &[] },
    Module { name: "cjson.safe", members: &["decode", "encode", "null"], outside_sandbox: &[] },
    Module { name: "lfs", members: &["attributes"], outside_sandbox: &["attributes"] },
    Module {
        name: "posix",
        members: &["getgroups", "getpasswd", "time"],
        outside_sandbox: &["getgroups", "getpasswd"],
    },
    Module { name: "socket", members: &["gettime"], outside_sandbox: &[] },
];

/// Makes the modules, by their names.
pub(super) fn modules(
    lua: &Lua,
    shared: &Arc<Shared>,
    native: &Table,
    sandbox: bool,
) -> mlua::Result<Table> {
    functions(lua, shared, native)?;
    let lists = MODULES.iter().map(|module| (module.name, module.members.join(", ")));
    let lists = lua.create_table_from(lists)?;
    let source = lua.load(include_str!("modules.lua")).set_name("=modules");
    source.call((native, lists, sandbox))
}

/// Registers the functions that the modules need.
fn functions(lua: &Lua, shared: &Arc<Shared>, native: &Table) -> mlua::Result<()> {
    native.set("null", LuaValue::NULL)?;
    let here = Arc::clone(shared);
    native.set(
        "account",
        lua.create_function(move |lua, user: Option<LuaString>| {
            let own = || rustix::process::geteuid().as_raw().to_string();
            let user = user.map_or_else(own, |user| user.to_string_lossy());
            let bounds = {
                let meter = lock(&here.meter);
                Bounds { deadline: meter.deadline(), output: meter.output() }
            };
            let account = account(&user, bounds);
            // Records that the time limit is reached, if the lookup took so long.
            lock(&here.meter).spend(0);
            account.map(|account| account.table(lua)).transpose()
        })?,
    )?;
    native.set(
        "groups",
        lua.create_function(|_, ()| {
            let groups = rustix::process::getgroups().unwrap_or_default();
            Ok(groups.into_iter().map(|group| group.as_raw()).collect::<Vec<u32>>())
        })?,
    )?;
    native.set(
        "attributes",
        lua.create_function(|lua, path: LuaString| {
            match rustix::fs::stat(Path::new(OsStr::from_bytes(&path.as_bytes()))) {
                Ok(stat) => attributes(lua, &stat)?.into_lua_multi(lua),
                Err(errno) => {
                    let text = std::io::Error::from(errno).to_string();
                    let text = text.split(" (os error").next().unwrap_or_default().to_owned();
                    (LuaValue::Nil, text, errno.raw_os_error()).into_lua_multi(lua)
                }
            }
        })?,
    )?;
    native.set(
        "now",
        lua.create_function(|_, ()| {
            Ok(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64())
        })?,
    )
}

/// An entry of passwd(5).
#[derive(Debug, PartialEq, Eq)]
struct Account {
    fields: Vec<String>,
    uid: u32,
    gid: u32,
}

impl Account {
    fn parse(line: &str) -> Option<Self> {
        let fields: Vec<String> = line.split(':').map(str::to_owned).collect();
        let [_, _, uid, gid, _, _, _] = fields.as_slice() else { return None };
        let (uid, gid) = (uid.parse().ok()?, gid.parse().ok()?);
        Some(Self { fields, uid, gid })
    }

    /// The first account in a text like `/etc/passwd` that is the one looked for.
    fn find(text: &[u8], is_it: impl Fn(&Self) -> bool) -> Option<Self> {
        String::from_utf8_lossy(text).lines().filter_map(Self::parse).find(is_it)
    }

    /// Whether it is that of the user with this name or number.
    fn is_of(&self, user: &str) -> bool {
        match user.parse::<u32>() {
            Ok(uid) => self.uid == uid,
            Err(_) => self.fields.first().is_some_and(|name| name == user),
        }
    }

    fn table(&self, lua: &Lua) -> mlua::Result<Table> {
        let table = lua.create_table()?;
        let names = ["name", "passwd", "", "", "gecos", "dir", "shell"];
        for (name, field) in names.iter().zip(&self.fields).filter(|(name, _)| !name.is_empty()) {
            table.raw_set(*name, field.as_str())?;
        }
        table.raw_set("uid", self.uid)?;
        table.raw_set("gid", self.gid)?;
        Ok(table)
    }
}

/// Looks a user up: in `/etc/passwd`, and then by getent(1), which asks the site's SSSD or LDAP.
fn account(user: &str, bounds: Bounds) -> Option<Account> {
    let local = files::read(Path::new("/etc/passwd")).unwrap_or_default();
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._@+-\\".contains(&byte);
    Account::find(&local, |account| account.is_of(user)).or_else(|| {
        // It is a word of a command.
        let user = Some(user).filter(|user| !user.is_empty() && user.bytes().all(is_plain))?;
        let command = format!("exec getent passwd -- '{user}'");
        let output = process::run(&command, Vec::new(), true, bounds).ok()?.output;
        // A name service answers with the account's own name, which may be written in another way.
        Account::find(&output, |_| true)
    })
}

/// The attributes of a file, as luafilesystem names them.
fn attributes(lua: &Lua, stat: &Stat) -> mlua::Result<Table> {
    let mode = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        FileType::Socket => "socket",
        FileType::Fifo => "named pipe",
        FileType::CharacterDevice => "char device",
        FileType::BlockDevice => "block device",
        FileType::Unknown => "other",
    };
    let bit = |(index, letter): (usize, char)| {
        if stat.st_mode & (0o400 >> index) != 0 { letter } else { '-' }
    };
    let table = lua.create_table()?;
    table.raw_set("mode", mode)?;
    table.raw_set("permissions", "rwxrwxrwx".chars().enumerate().map(bit).collect::<String>())?;
    table.raw_set("size", stat.st_size)?;
    table.raw_set("uid", stat.st_uid)?;
    table.raw_set("gid", stat.st_gid)?;
    table.raw_set("ino", stat.st_ino)?;
    table.raw_set("dev", stat.st_dev)?;
    table.raw_set("nlink", stat.st_nlink)?;
    table.raw_set("blocks", stat.st_blocks)?;
    table.raw_set("blksize", stat.st_blksize)?;
    table.raw_set("access", stat.st_atime)?;
    table.raw_set("modification", stat.st_mtime)?;
    table.raw_set("change", stat.st_ctime)?;
    Ok(table)
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::*;

    fn bounds() -> Bounds {
        Bounds { deadline: Instant::now() + Duration::from_secs(20), output: 1 << 20 }
    }

    #[test]
    fn an_account_is_found_by_name_and_by_number() {
        let root = account("root", bounds()).unwrap();
        assert_eq!(account("0", bounds()), Some(root));
        assert_eq!(account("no-such-user", bounds()), None);
        assert_eq!(account("4294967290", bounds()), None);
    }

    #[test]
    fn a_name_is_never_more_than_a_word_of_the_command() {
        for name in ["", "x'; echo root:x:0:0::/:/bin/sh; '", "a b", "$(id)", "a\nb"] {
            assert_eq!(account(name, bounds()), None, "{name:?}");
        }
    }

    #[test]
    fn lines_that_are_no_accounts_are_skipped() {
        assert_eq!(Account::parse("+::::::"), None);
        assert_eq!(Account::parse("x:x:1"), None);
        let account = Account::parse("a:x:1:2:A B:/home/a:/bin/sh").unwrap();
        assert!(account.is_of("a") && account.is_of("1") && !account.is_of("2"));
        assert_eq!(
            Account::find(b"+::::::\na:x:1:2:A B:/home/a:/bin/sh\n", |_| true),
            Some(account)
        );
    }
}
