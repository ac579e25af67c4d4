//! Scripts that loop, allocate or wait without end are stopped; what scripts return and print is used as in
//! Slurm.

use std::time::{Duration, Instant};

use jobtap_builtins::lua::{Limits, OnError, Options, Script, Version};
use jobtap_core::slurm::{JobDescriptor, errno};
use proptest::prelude::*;

use super::{MODIFY, Request, Site, submit, submit_with, texts};

fn small() -> Options {
    let limits = Limits { instructions: 2_000_000, time: Duration::from_secs(20), memory: 8 << 20 };
    Options { limits, ..Options::default() }
}

/// A script that only the clock can stop.
fn short() -> Options {
    let limits = Limits { time: Duration::from_millis(300), ..Limits::default() };
    Options { limits, ..Options::default() }
}

fn stopped(options: &Options, body: &str) -> String {
    let before = Instant::now();
    let (verdict, after) = submit_with(options.clone(), body, JobDescriptor::default());
    assert!(before.elapsed() < Duration::from_secs(60), "{body}");
    assert_ne!(verdict.code, 0, "{body}");
    assert_eq!(after, JobDescriptor::default(), "{body}");
    verdict.error.unwrap()
}

#[test]
fn an_endless_loop_is_stopped() {
    for body in [
        "while true do end",
        "repeat pcall(function() while true do end end) until false",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "while true do coroutine.wrap(function() while true do end end)() end",
        "local c = coroutine.create(function() while true do end end) while true do coroutine.resume(c) end",
        "local function f() return f() end f()",
        "while true do local x <close> = setmetatable({}, { __close = function() while true do end end }) end",
        "setmetatable({}, { __gc = function() while true do end end }) while true do local t = {} end",
        "local t = setmetatable({}, { __index = function(t, k) return t[k + 1] end }) return t[1]",
        "while true do pcall(error) end",
        "for i = 1, math.huge do end",
        "return load(function() return ' ' end)",
    ] {
        let error = stopped(&small(), body);
        assert!(
            error == "stopped after 2000000 instructions" || error.contains("C stack overflow"),
            "{body}: {error}"
        );
    }
}

/// Functions that take a step for each element are stopped like loops of the script itself.
#[test]
fn a_function_over_a_table_without_end_is_stopped() {
    let endless = "local t = setmetatable({}, { __len = function() return 1 << 60 end }) ";
    let texts = "local t = setmetatable({}, { __index = function() return '' end }) ";
    for version in [Version::Lua51, Version::Lua54] {
        let options = Options { version, ..small() };
        for body in [
            format!("{endless} table.insert(t, 1, 'x')"),
            format!("{endless} pcall(table.insert, t, 1, 'x')"),
            format!("{endless} table.remove(t, 1)"),
            format!("{endless} table.sort(t, function() return false end)"),
            format!("{endless} return table.concat(t)"),
            format!("{texts} return table.concat(t, '', 1, 1 << 60)"),
            "table.move({}, 1, 1 << 60, 2)".to_owned(),
            "table.move({}, math.mininteger, math.maxinteger, 1)".to_owned(),
            "local s = ('x'):rep(1e6) while true do s:upper() s:reverse() end".to_owned(),
            "local s = 'x' while true do s:rep(1e6) end".to_owned(),
        ] {
            // Lua 5.1 has no such function.
            if body.starts_with("table.move") && version == Version::Lua51 {
                continue;
            }
            let error = stopped(&options, &body);
            let known = ["stopped after 2000000 instructions", "too many elements to move"];
            assert!(known.iter().any(|text| error.ends_with(text)), "{body}: {error}");
        }
    }
}

#[test]
fn a_script_opens_no_pipe_and_no_device() {
    let site = Site::with(short());
    let pipe = site.directory.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let pipe = pipe.display();
    for version in [Version::Lua51, Version::Lua54] {
        for call in [
            format!("assert(io.open('{pipe}'))"),
            format!("assert(io.open('{pipe}', 'w'))"),
            format!("assert(io.open('{pipe}', 'a+'))"),
            format!("for line in io.lines('{pipe}') do end"),
            format!("io.input('{pipe}')"),
            format!("io.output('{pipe}')"),
            format!("dofile('{pipe}')"),
            format!("assert(loadfile('{pipe}'))"),
            "assert(io.open('/dev/zero')):read('*a')".to_owned(),
            "assert(io.open('/dev/tty'))".to_owned(),
        ] {
            let before = Instant::now();
            let options = Options { version, ..Options::default() };
            let (verdict, _) = submit_with(options, &call, JobDescriptor::default());
            let error = verdict.error.unwrap_or_default();
            assert!(error.to_lowercase().ends_with("not a file"), "{call}: {error}");
            assert!(before.elapsed() < Duration::from_secs(5), "{call}");
        }
    }
}

#[test]
fn a_match_without_end_is_stopped() {
    for body in [
        "return (('a'):rep(3000)):find(('a*'):rep(30) .. 'b')",
        "return pcall(string.gsub, ('a'):rep(3000), ('a-'):rep(30) .. 'b', '')",
        "for x in (('a'):rep(3000)):gmatch(('.-'):rep(30) .. 'b') do end",
    ] {
        assert_eq!(stopped(&small(), body), "stopped after 2000000 instructions", "{body}");
    }
}

#[test]
fn a_script_that_allocates_without_end_is_stopped() {
    for body in [
        "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
        "local s = 'x' while true do s = s .. s end",
        "return ('x'):rep(1e12)",
        "return ('x'):rep(1e9):rep(1e9)",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "return table.concat({ ('x'):rep(3e6), ('x'):rep(3e6) })",
        "local function f(t) return f({ t }) end f()",
    ] {
        let error = stopped(&small(), body);
        let known = ["stopped at 8 MiB of memory", "resulting string too large"];
        assert!(known.iter().any(|text| error.ends_with(text)), "{body}: {error}");
    }
}

#[test]
fn a_script_whose_memory_is_full_is_loaded_afresh() {
    let site = Site::with(small());
    let mut script = site
        .load(&format!(
            "kept = {{}}
             function slurm_job_submit(job_desc)
               while job_desc.name == 'hog' do kept[#kept + 1] = ('x'):rep(1000) .. #kept end
               return #kept
             end
             {MODIFY}"
        ))
        .unwrap();
    let hog =
        || Request::new(JobDescriptor { name: Some("hog".to_owned()), ..JobDescriptor::default() });
    let (verdict, _) = hog().submit(&mut script);
    assert_eq!(verdict.code, errno::ESLURM_LUA_FUNC_FAILED_ENOMEM.code());
    let (verdict, _) = Request::new(JobDescriptor::default()).submit(&mut script);
    assert_eq!((verdict.error, verdict.code), (None, 0));
    assert!(texts(&verdict.log)[0].ends_with("loaded again"));
}

#[test]
fn a_script_that_waits_is_stopped() {
    for (body, error) in [
        ("os.execute('sleep 600') while true do end", "stopped after 0.3 s"),
        ("io.popen('sleep 600'):read('*a')", "stopped after 0.3 s"),
        ("while true do os.execute('true') end", "stopped after 0.3 s"),
    ] {
        assert_eq!(stopped(&short(), body), error, "{body}");
    }
}

#[test]
fn the_output_of_a_command_takes_a_quarter_of_the_memory() {
    // The memory limit is 8 MiB.
    for (bytes, said) in
        [(2 << 20, "2097152"), ((2 << 20) + 1, "the command wrote too much output")]
    {
        let body = format!(
            "local file, why = io.popen('head -c {bytes} /dev/zero')
             local text, reason
             if file then text, reason = file:read('*a') end
             slurm.user_msg(tostring(why or reason or text and #text))
             return 0"
        );
        let (verdict, _) = submit_with(small(), &body, JobDescriptor::default());
        assert!(verdict.messages[0].ends_with(said), "{verdict:?}");
    }
}

#[test]
fn an_endless_loop_while_loading_is_refused() {
    let site = Site::with(small());
    assert_eq!(
        site.refused("while true do end"),
        "job_submit.lua: stopped after 2000000 instructions"
    );
    assert_eq!(
        site.refused("local s = 'x' while true do s = s .. s end"),
        "job_submit.lua: not enough memory"
    );
}

#[test]
fn a_script_that_logs_without_end_fills_no_memory() {
    let (verdict, _) = submit(
        "for i = 1, 5000 do slurm.log_info('x') slurm.user_msg('y') end return 0",
        JobDescriptor::default(),
    );
    assert_eq!((verdict.code, verdict.messages.len(), verdict.log.len()), (0, 1000, 1001));
    assert_eq!(verdict.log[1000].text, "4000 more lines of the script are not logged");
}

#[test]
fn a_script_that_fails_refuses_the_request() {
    let body = "job_desc.name = 'x' slurm.log_user('hello') error('broken')";
    let (verdict, after) = submit(body, JobDescriptor::default());
    assert_eq!(verdict.code, errno::ESLURM_LUA_FUNC_FAILED_RUNTIME_ERROR.code());
    assert_eq!(after, JobDescriptor::default());
    let [message] = &*verdict.messages else { panic!("{:?}", verdict.messages) };
    assert!(message.ends_with("job_submit.lua:1: broken"), "{message}");
    assert!(texts(&verdict.log)[0].ends_with(":1: broken; the request is refused"));
}

#[test]
fn a_script_that_fails_accepts_the_request_if_configured() {
    let options = Options { on_error: OnError::Accept, ..Options::default() };
    let body = "job_desc.name = 'x' slurm.log_user('hello') error('broken')";
    let (verdict, after) = submit_with(options, body, JobDescriptor::default());
    assert_eq!((verdict.code, after.name.as_deref()), (0, Some("x")));
    assert_eq!(verdict.messages, ["hello"]);
    assert!(texts(&verdict.log)[0].ends_with(":1: broken; the request is accepted"));
}

#[test]
fn the_returned_number_decides() {
    for (returned, code) in [
        ("slurm.SUCCESS", 0),
        ("slurm.ERROR", -1),
        ("slurm.ESLURM_ACCESS_DENIED", 2002),
        ("'2002'", 2002),
        ("2002.9", 2002),
        ("0.5", 0),
        ("'0x10'", 16),
        ("1e300", i32::MIN),
        ("0/0", i32::MIN),
        ("99999, 'more'", 99_999),
    ] {
        let (verdict, _) = submit(&format!("return {returned}"), JobDescriptor::default());
        assert_eq!(verdict.code, code, "{returned}");
    }
    for (returned, kind) in
        [("'denied'", "string"), ("nil", "nil"), ("{}", "table"), ("false", "boolean")]
    {
        let (verdict, _) = submit(&format!("return {returned}"), JobDescriptor::default());
        assert_eq!(verdict.code, 0, "{returned}");
        let text = format!("slurm_job_submit: non-numeric return code ({kind}): accepted");
        assert_eq!(texts(&verdict.log), [text]);
    }
}

#[test]
fn messages_are_told_on_acceptance_and_refusal() {
    for code in [0, 2002] {
        let body =
            format!("slurm.log_user('%d of %s', 1, 'x') slurm.user_msg('100% sure') return {code}");
        let (verdict, _) = submit(&body, JobDescriptor::default());
        assert_eq!(
            (verdict.code, verdict.messages),
            (code, vec!["1 of x".to_owned(), "100% sure".to_owned()])
        );
    }
}

#[test]
fn what_is_no_text_is_printed_as_in_slurm() {
    let (verdict, _) = submit("slurm.user_msg(nil) slurm.user_msg({})", JobDescriptor::default());
    assert_eq!((verdict.code, verdict.messages), (0, Vec::<String>::new()));
    let body = "slurm.user_msg('left out', 'a') slurm.user_msg() slurm.user_msg(true) slurm.user_msg(5)\n\
                slurm.error(nil) slurm.log(0, nil) slurm.log('alone') slurm.log()";
    let (verdict, _) = submit(&format!("{body} return 0"), JobDescriptor::default());
    assert_eq!(verdict.messages, ["a", "(null)", "(null)", "5"]);
    assert_eq!(texts(&verdict.log), ["(null)", "(null)", "alone", "(null)"]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Words of Lua in any order: most are no program, some are, and none stops the manager.
    #[test]
    fn no_text_panics_or_hangs(words in proptest::collection::vec(prop_oneof![
        Just("function f(...)"), Just("end"), Just("while true do"), Just("local x ="), Just("job_desc"),
        Just("slurm."), Just("NO_VAL"), Just(".."), Just("("), Just(")"), Just("'a'"), Just("1/0"),
        Just("return"), Just("slurm.jobs"), Just("string.rep('x', 1e8)"), Just("pcall(error)"),
        Just("if x then"), Just("{"), Just("}"), Just("="), Just(","), Just("x"), Just("x.y"), Just("[1]"),
        Just("coroutine.wrap(f)()"), Just("setmetatable({}, {__index = f})"), Just("\"\\q\""), Just("--"),
        Just("error({})"), Just("arg"), Just("..."), Just("(\"\")[1]"), Just("string"), Just("nil"), Just("\n"),
    ], 0..20)) {
        let limits = Limits { instructions: 100_000, time: Duration::from_secs(5), memory: 4 << 20 };
        let options = Options { limits, sandbox: true, ..Options::default() };
        let site = Site::with(options.clone());
        let text = words.join(" ");
        site.write("job_submit.lua", &format!("{MODIFY}\nfunction slurm_job_submit(job_desc)\n{text}\nend"));
        if let Ok(mut script) = Script::load(&site.path(), options, &mut Vec::new()) {
            let _ = Request::new(JobDescriptor::default()).submit(&mut script);
        }
    }
}
