//! Scripts use modules that are written in C elsewhere.

use jobtap_builtins::lua::{MODULES, Options};

use super::{MODIFY, Site, failed, logged, logged_with, submit_with};

#[test]
fn every_member_that_is_listed_is_there() {
    for module in MODULES {
        for member in module.members {
            let body = format!("print(type(require('{}').{member}))", module.name);
            assert_ne!(logged(&body), ["nil"], "{} {member}", module.name);
        }
    }
}

#[test]
fn a_user_is_looked_up_by_number_and_by_name() {
    let lines = logged(
        "local posix = require 'posix'
         local root = posix.getpasswd(0)
         print(root.name, root.uid, root.gid, root.dir)
         print(posix.getpasswd('root', 'uid'), posix.getpasswd('no-such-user'))
         print(posix.getpasswd().name == posix.getpasswd(posix.getpasswd().uid).name)
         print(type(posix.getgroups()), posix.time() - os.time() <= 1, os.date('%Y', 0))",
    );
    assert_eq!(lines, ["root\t0\t0\t/root", "0\tnil", "true", "table\ttrue\t1970"]);
    assert_eq!(logged("local s = require 'socket' print(s.gettime() - os.time() < 2)"), ["true"]);
}

#[test]
fn json_is_decoded_and_encoded() {
    let lines = logged(
        "local cjson, safe = require 'cjson', require 'cjson.safe'
         local value = cjson.decode('{\"a\": [1, 2.5, null], \"b\": {\"c\": \"x\"}}')
         print(value.a[1], value.a[2], value.a[3] == cjson.null, value.b.c)
         print(cjson.encode({ 1, 'two', cjson.null, { yes = true } }))
         print(pcall(cjson.decode, '{'))
         print(safe.decode('{') == nil, safe.encode(print) == nil)",
    );
    assert_eq!(lines[..2], ["1\t2.5\ttrue\tx", "[1,\"two\",null,{\"yes\":true}]"]);
    assert!(lines[2].starts_with("false\t"), "{lines:?}");
    assert_eq!(lines[3], "true\ttrue");
}

#[test]
fn attributes_of_files_are_read() {
    let site = Site::new();
    let path = site.write("data", "12345");
    let lines = logged(&format!(
        "local lfs = require 'lfs'
         local file = lfs.attributes('{path}')
         print(file.mode, file.size, file.permissions:sub(1, 2), os.time() - file.modification < 100)
         print(lfs.attributes('/', 'mode'), (select(2, lfs.attributes('/no/such'))))",
        path = path.display()
    ));
    let missing = "cannot obtain information from file '/no/such': No such file or directory";
    assert_eq!(lines, ["file\t5\trw\ttrue".to_owned(), format!("directory\t{missing}")]);
}

#[test]
fn bits_are_computed_as_in_lua_52() {
    let lines = logged(
        "local b = require 'bit32'
         print(b.band(0xff, 0x0f), b.bor(1, 2, 4), b.bxor(5, 1), b.bnot(0), b.btest(6, 1), b.band())
         print(b.lshift(1, 31), b.lshift(1, 32), b.rshift(256, 4), b.lshift(16, -4), b.arshift(0x80000000, 4))
         print(b.lrotate(0x80000001, 1), b.rrotate(1, 1), b.extract(0xabcd, 4, 8), b.replace(0, 15, 4, 4))
         print(b.band(-1), b.band(2^32 + 1))",
    );
    assert_eq!(
        lines,
        [
            "15\t7\t4\t4294967295\tfalse\t4294967295",
            "2147483648\t0\t16\t1\t4160749568",
            "3\t2147483648\t188\t240",
            "4294967295\t1",
        ]
    );
    assert_eq!(
        failed("require('bit32').band('x')"),
        ":1: bad argument #1 to 'band' (number expected, got string)"
    );
}

#[test]
fn what_is_not_served_is_refused_by_its_name() {
    assert_eq!(
        failed("local posix = require 'posix' posix.fork()"),
        ":1: posix.fork is not served; of posix there are getgroups, getpasswd, time"
    );
    assert_eq!(
        failed("local socket = require 'socket' if socket.tcp then end"),
        ":1: socket.tcp is not served; of socket there are gettime"
    );
    let missing = failed("require 'lsqlite3'");
    assert!(missing.contains("no module 'lsqlite3' is served"), "{missing}");
}

#[test]
fn the_sandbox_has_no_accounts_and_no_files() {
    let sandbox = || Options { sandbox: true, ..Options::default() };
    for call in ["posix.getpasswd(0)", "posix.getgroups()", "lfs.attributes('/')"] {
        let module = call.split('.').next().unwrap();
        let body = format!("local {module} = require '{module}' {call} return 0");
        let error = submit_with(sandbox(), &body, Default::default()).0.error.unwrap();
        assert!(error.ends_with("is not available in the sandbox"), "{error}");
    }
    let lines = logged_with(
        sandbox(),
        "print(require('cjson').encode({ 1 }), require('posix').time() > 0)",
    );
    assert_eq!(lines, ["[1]\ttrue"]);
}

#[test]
fn a_file_beside_the_script_comes_first() {
    let site = Site::new();
    site.write("posix.lua", "return { mine = true }");
    let text = format!(
        "local posix = require 'posix' assert(posix.mine) function slurm_job_submit() return 0 end {MODIFY}"
    );
    site.load(&text).unwrap();
}
