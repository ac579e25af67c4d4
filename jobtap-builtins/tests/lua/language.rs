//! The language that a script sees: Lua 5.1, or 5.4 as it is.

use jobtap_builtins::lua::{Options, Version};
use jobtap_core::slurm::JobDescriptor;

use super::{Site, failed, logged, logged_with, submit, submit_with, texts};

fn lua54() -> Options {
    Options { version: Version::Lua54, ..Options::default() }
}

/// Returns what the expressions print.
fn printed(expressions: &[&str]) -> Vec<String> {
    logged(&format!("print({})", expressions.join(")\nprint(")))
}

#[test]
fn numbers_are_written_as_in_lua_51() {
    let (verdict, _) = submit(
        "local hours = job_desc.time_limit / 60
         slurm.log_info('a ' .. hours .. ' b')
         slurm.log_info(hours .. '')
         slurm.log_info(tostring(hours))
         slurm.log_info('%s %d', hours, hours)
         slurm.log_info(table.concat({ hours, 'x', 2.5 }, ','))
         slurm.log_info((hours .. 'x'):len() .. '' .. 0.5 * 4)
         print(2^53, 1e15, 1/3, 10 % 3, -7 % 3, 2^0.5, 1e100, 123456789012345)",
        JobDescriptor { time_limit: Some(120), ..JobDescriptor::default() },
    );
    assert_eq!(verdict.error, None);
    let lines: Vec<_> = verdict.log.iter().map(|line| line.text.as_str()).collect();
    assert_eq!(
        lines,
        [
            "a 2 b",
            "2",
            "2",
            "2 2",
            "2,x,2.5",
            "22",
            "9.007199254741e+15\t1e+15\t0.33333333333333\t1\t2\t1.4142135623731\t1e+100\t1.2345678901234e+14",
            "slurm_job_submit: non-numeric return code (nil): accepted",
        ]
    );
}

#[test]
fn a_format_takes_what_lua_51_takes() {
    assert_eq!(
        printed(&[
            "string.format('%d %i %u', 3.7, -3.7, '12')",
            "string.format('%5.1f|%-5s|%05d|%x|%c|%%', 2, 'a', 7, 255.9, 65)",
            "string.format('%q', 'a\"b')",
            "string.format('%s', 4 / 2)",
            "('%d'):format(1e3)",
        ]),
        ["3 -3 12", "  2.0|a    |00007|ff|A|%", "\"a\\\"b\"", "2", "1000"]
    );
    assert_eq!(
        failed("slurm.log_info('%s', nil)"),
        ":1: bad argument #2 to 'format' (string expected, got nil)"
    );
    assert_eq!(
        failed("slurm.log_user('%d')"),
        ":1: bad argument #2 to 'format' (number expected, got no value)"
    );
    assert_eq!(failed("string.format('%y', 1)"), ":1: invalid option '%y' to 'format'");
    assert_eq!(logged_with(lua54(), "slurm.log_info('%s %s', nil, 4 / 2)"), ["nil 2.0"]);
}

#[test]
fn functions_of_lua_51_are_there() {
    assert_eq!(
        printed(&[
            "unpack({ 1, 2 })",
            "table.getn({ 1, 2, 3 }), table.maxn({ 1, [10] = 1 })",
            "loadstring('return 1 + 1')()",
            "math.pow(2, 3), math.ldexp(3, 2), math.log10(1000), math.mod(7, 3)",
            "math.frexp(8)",
            "string.gsub('abc', '%w', '%0%0', 2)",
            "string.gfind('a=1', '(%w)=(%w)')()",
            "table.foreachi({ 'x' }, function(i, v) return i .. v end)",
            "select('#', unpack({ nil, 2 }, 1, 2))",
            "type(gcinfo()), type(newproxy)",
            "('x'):rep(2.9), ('abc'):sub(1.2, 2.9), ('abc'):byte(1.5)",
            "('x'):rep(2, ','), _VERSION",
            "table.remove({ 1, 2 }, 5), #{ table.remove({}) }",
            "('abc'):gsub('%w*', 'x')",
            "('a.b'):gsub('.', '%.')",
        ]),
        [
            "1\t2",
            "3\t10",
            "2",
            "8\t12\t3\t1",
            "0.5\t4",
            "aabbc\t2",
            "a\t1",
            "1x",
            "2",
            "number\tnil",
            "xx\tab\t97",
            "xx\tLua 5.1",
            "nil\t0",
            "xx\t2",
            "...\t3",
        ]
    );
}

#[test]
fn functions_have_environments_as_in_lua_51() {
    assert_eq!(
        logged(
            "local function f() return x end
             setfenv(f, { x = 'inner' })
             slurm.log_info(f())
             slurm.log_info(tostring(getfenv(f).x) .. tostring(getfenv(1) == _G))
             local g = loadstring('y = 5')
             local environment = {}
             setfenv(g, environment)()
             slurm.log_info('%d %s', environment.y, tostring(y))"
        ),
        ["inner", "innertrue", "5 nil"]
    );
}

#[test]
fn arg_holds_the_arguments_of_a_vararg_function() {
    assert_eq!(
        logged(
            "local function f(a, ...) return arg.n .. (arg[1] or '') end
             slurm.log_info(f(1, 'x', nil))
             slurm.log_info(f(1))"
        ),
        ["2x", "0"]
    );
}

#[test]
fn unknown_escapes_are_accepted_as_in_lua_51() {
    assert_eq!(logged(r#"slurm.log_info("a\.b\-%s", "\065")"#), ["a.b-A"]);
}

#[test]
fn a_concatenation_of_nothing_names_the_operand() {
    assert_eq!(
        failed("return 'account ' .. job_desc.account"),
        ":1: attempt to concatenate field 'account' (a nil value)"
    );
    assert_eq!(
        failed("local t = {} return t .. 'x' .. 'y'"),
        ":1: attempt to concatenate variable 't' (a table value)"
    );
    assert_eq!(failed("return 'a' .. (nil)"), ":1: attempt to concatenate a nil value");
}

#[test]
fn a_metamethod_joins_as_the_script_says() {
    assert_eq!(
        logged(
            "local meta = {}
             meta.__concat = function(a, b) return 'joined(' .. tostring(a) .. tostring(b) .. ')' end
             meta.__tostring = function() return 'T' end
             local t = setmetatable({}, meta)
             slurm.log_info(t .. 1)
             slurm.log_info('a' .. t)
             slurm.log_info(4 / 2 .. t .. 'x')"
        ),
        ["joined(T1)", "joined(aT)", "2joined(Tx)"]
    );
}

#[test]
fn errors_name_the_line_of_the_script() {
    for (body, error) in [
        ("\nerror('no')", ":2: no"),
        ("error('no', 0)", "no"),
        ("local t = nil\n\nt.x = 1", ":3: attempt to index local 't' (a nil value)"),
        ("nothing()", ":1: attempt to call global 'nothing' (a nil value)"),
        ("('x'):rep({})", ":1: bad argument #2 to 'rep' (number expected, got table)"),
        ("string.sub()", ":1: bad argument #1 to 'sub' (string expected, got nil)"),
        ("string.find('a', nil)", ":1: bad argument #2 to 'find' (string expected, got nil)"),
        ("string.find('a', '[a')", ":1: malformed pattern (missing ']')"),
        ("string.gsub('a', '(', '')", ":1: unfinished capture"),
        ("for w in ('a'):gmatch('%') do end", ":1: malformed pattern (ends with '%')"),
        ("('a'):gsub('a', '%2')", ":1: invalid capture index %2 in replacement string"),
        (
            "setmetatable(1, {})",
            ":1: bad argument #1 to 'setmetatable' (table expected, got number)",
        ),
        ("for k in pairs(nil) do end", ":1: bad argument #1 to 'pairs' (table expected, got nil)"),
        (
            "for k in ipairs('x') do end",
            ":1: bad argument #1 to 'ipairs' (table expected, got string)",
        ),
        ("table.insert(nil, 1)", ":1: bad argument #1 to 'insert' (table expected, got nil)"),
        ("require('absent')", ":1: module 'absent' not found:"),
        (
            "slurm.from_json('{')",
            ":1: slurm.from_json: EOF while parsing an object at line 1 column 1",
        ),
        ("error({})", "the script raised a table value, not a text"),
        ("error(setmetatable({}, { __tostring = function() return 'told' end }))", "told"),
        ("error()", "the script raised a nil value, not a text"),
        ("error(404)", "404"),
    ] {
        assert_eq!(failed(body).lines().next(), Some(error), "{body}");
    }
}

#[test]
fn a_script_can_catch_its_own_errors() {
    assert_eq!(
        logged(
            "local ok, err = pcall(function() job_desc.name = nil end)
             slurm.log_info('%s %s', tostring(ok), err:gsub('^.-:', ''))
             local ok, err = pcall(error, { code = 7 })
             slurm.log_info('%s %d', tostring(ok), err.code)
             slurm.log_info(select(2, xpcall(function() error('x', 0) end, function(e) return e .. '!' end)))
             slurm.log_info(tostring(pcall(string.rep)))"
        ),
        [
            "false 1: bad argument #3 to '?' (string expected, got nil)",
            "false 7",
            "x!",
            "false",
        ]
    );
}

#[test]
fn the_standard_libraries_are_as_a_daemon_needs_them() {
    assert_eq!(
        logged(
            "local rc = os.execute('exit 3')
             slurm.log_info(tostring(rc))
             local pipe = io.popen('printf \"a\\nb\\n3\"')
             slurm.log_info('%s %s %d', pipe:read(), pipe:read('*l'), pipe:read('*n'))
             slurm.log_info(tostring(pipe:close()))
             for line in io.popen('echo x; echo y'):lines() do slurm.log_info(line) end
             slurm.log_info(tostring(io.read()) .. io.type(pipe))
             slurm.log_info('%s %s', os.date('%Y', 0), type(os.time()))
             slurm.log_info(debug.getinfo(1).currentline .. debug.traceback('t', 1):match('^[^\\n]*'))"
        ),
        ["768", "a b 3", "true", "x", "y", "nilclosed file", "1970 number", "9t"]
    );
    assert_eq!(
        failed("os.exit(1)"),
        ":1: os.exit is not available: return slurm.SUCCESS or an error instead"
    );
    assert_eq!(logged_with(lua54(), "print(os.execute('exit 3'))"), ["nil\texit\t3"]);
}

#[test]
fn the_sandbox_has_no_files_and_no_commands() {
    let sandbox = Options { sandbox: true, ..Options::default() };
    assert_eq!(
        logged_with(
            sandbox,
            "print(io, debug, os.execute, os.remove, os.getenv, dofile, loadfile)
             print(package.loaded.io, package.loaded.debug, (package.loadlib('x', 'y')))
             print(type(os.time()), ('x'):upper(), type(require))"
        ),
        ["nil\tnil\tnil\tnil\tnil\tnil\tnil", "nil\tnil\tnil", "number\tX\tfunction"]
    );
}

#[test]
fn lua_54_is_left_as_it_is() {
    assert_eq!(
        logged_with(
            lua54(),
            "print(4 / 2 .. '', 7 // 2, 1 << 4, table.unpack({ 1 }), ('abc'):gsub('%w*', 'x'))"
        ),
        ["2.0\t3\t16\t1\tx\t1"]
    );
}

#[test]
fn documents_and_times_are_read_and_written() {
    assert_eq!(
        logged(
            "local value = slurm.from_json('{\"a\": [1, 2.5], \"b\": null}')
             slurm.log_info(slurm.to_json({ value.a[1] / 1, value.a[2] }))
             print((slurm.to_yaml({ key = 'x' }):gsub('\\n', ';')))
             slurm.log_info('%d %d %d', slurm.time_str2mins('1-00:00:00'), slurm.time_str2mins('bad'),
               slurm.time_str2mins('unlimited'))
             slurm.log_info(tostring(slurm.get_qos_priority('none')))"
        ),
        ["[1,2.5]", "%YAML 1.1;--- !!map;!!str key: !!str x;...;", "1440 -2 -1", "0"]
    );
}

#[test]
fn files_are_read_and_written() {
    let site = Site::new();
    let path = site.write("data", "1 one\n2 two\n");
    let path = path.display();
    for version in [Version::Lua51, Version::Lua54] {
        let options = Options { version, ..Options::default() };
        let body = format!(
            "local out = {{}}
             for line in io.lines('{path}') do out[#out + 1] = line end
             local file = assert(io.open('{path}.new', 'w'))
             file:write('a', 1, '\\n') file:close()
             file = assert(io.open('{path}.new', 'a+')) file:write('b') file:seek('set')
             out[#out + 1] = file:read('*a') file:close()
             local none, why, number = io.open('{path}.none')
             out[#out + 1] = tostring(none) .. ' ' .. why:match('[^/]*$') .. ' ' .. number
             io.input('{path}') out[#out + 1] = io.read('*n') io.input():close()
             out[#out + 1] = io.type(io.stdout) .. ' ' .. io.type(file) .. ' ' .. tostring(io.type(1))
             out[#out + 1] = tostring(pcall(io.open, '{path}', 'x'))
             io.write('wrote ', 5, '\\n') io.stderr:write('more')
             io.output('{path}.out') io.write('there') io.close() io.output(io.stdout)
             file = io.open('{path}.out') out[#out + 1] = file:read('*a') file:close()
             io.open('/dev/null', 'w'):close()
             job_desc.comment = table.concat(out, '|')
             return 0"
        );
        let (verdict, after) = submit_with(options, &body, JobDescriptor::default());
        assert_eq!(verdict.error, None);
        assert_eq!(
            after.comment.as_deref(),
            Some(
                "1 one|2 two|a1\nb|nil data.none: No such file or directory 2|1|file closed file nil|false|there"
            )
        );
        assert_eq!(texts(&verdict.log), ["wrote 5", "more"]);
        std::fs::remove_file(format!("{path}.new")).unwrap();
    }
}
