//! Scripts and what commands are given: batch scripts, scripts of Lua, formats, times, lists of inputs.

use std::cell::LazyCell;

use jobtap_builtins::lua::foreign as lua_parts;
use jobtap_builtins::lua::token::Tokens;
use jobtap_manager::foreign;
use mlua::Lua;
use serde_json::{Value, json};

use crate::again::text;

thread_local! {
    static LUA: LazyCell<Lua> = const { LazyCell::new(Lua::new) };
}

/// A script of Lua: its tokens, how it is rewritten for Lua 5.4, and what is said about it.
pub(super) fn lua(bytes: &[u8]) {
    let tokens = Tokens::new(bytes);
    let mut end = 0;
    for token in tokens.list() {
        assert!(token.range.start >= end && token.range.end > token.range.start, "{token:?}");
        end = token.range.end;
        let lines = bytes.get(..token.range.start).unwrap_or_default();
        let before = lines.iter().filter(|byte| **byte == b'\n').count();
        assert_eq!(token.line, before + 1, "{token:?}");
    }
    assert!(end <= bytes.len());
    let rewritten = lua_parts::rewritten(bytes);
    let lines = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
    assert_eq!(lines(&rewritten), lines(bytes), "errors would name other lines");
    LUA.with(|lua| {
        if lua_parts::compiles(lua, bytes) {
            let again = String::from_utf8_lossy(&rewritten);
            assert!(lua_parts::compiles(lua, &rewritten), "it doesn't compile any more: {again}");
        }
        lua.gc_collect().is_ok()
    });
    assert!(foreign::uses(bytes) <= bytes.len());
}

/// A pattern of Lua, on the first line, and a text in which it is searched for.
pub(super) fn lua_pattern(bytes: &[u8]) {
    let end = bytes.iter().position(|byte| *byte == b'\n').unwrap_or(bytes.len());
    let (pattern, subject) = bytes.split_at_checked(end).unwrap_or_default();
    if let Some((start, end)) = lua_parts::found(subject, pattern) {
        assert!(start <= end && end <= subject.len(), "{start} to {end}");
    }
}

/// JSON and YAML that scripts of Lua read.
pub(super) fn lua_document(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    LUA.with(|lua| {
        for form in lua_parts::FORMS {
            let Some(once) = lua_parts::document(lua, form, text) else { continue };
            if form != "yaml" {
                // The members of a table have no order.
                let sorted = |text: &str| {
                    let mut bytes = text.as_bytes().to_vec();
                    bytes.sort_unstable();
                    bytes
                };
                let twice = lua_parts::document(lua, form, &once);
                assert_eq!(twice.as_deref().map(sorted), Some(sorted(&once)), "{once} as {form}");
            }
        }
        lua.gc_collect().is_ok()
    });
}

/// A batch script with options of Slurm.
pub(super) fn sbatch(bytes: &[u8]) {
    if let Some(jobspec) = foreign::script(bytes.to_vec()) {
        assert_eq!(jobspec.pointer("/version"), Some(&1.into()));
    }
}

/// A batch script with directives of Flux.
pub(super) fn directives(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let mut last = 0;
    for (line, words) in foreign::directives(text).into_iter().flatten() {
        assert!(line > last && line <= text.lines().count(), "{line}");
        last = line;
        assert!(words.iter().map(String::len).sum::<usize>() <= text.len());
    }
}

/// Formats of listings, of Flux and of Slurm.
pub(super) fn format(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    let jobs = [job(1), job(u64::MAX), json!({"id": 7, "state": 8})];
    if let Some(lines) = foreign::lines(text, &jobs) {
        assert_eq!(lines.len(), jobs.len() + 1);
    }
    let _ = foreign::slurm_format(text);
}

fn job(id: u64) -> Value {
    json!({
        "id": id, "userid": 1001, "urgency": 16, "priority": 16, "name": "a name", "queue": "batch", "cwd": "/home/a",
        "ntasks": 1, "ncores": 1, "nnodes": 1, "duration": 60.5, "t_submit": 1.5e9, "t_depend": 1.5e9, "t_run": 1.5e9,
        "t_cleanup": 1.6e9, "t_inactive": 1.6e9, "state": 64, "result": 1, "success": true, "waitstatus": 0,
        "exception_occurred": false, "expiration": 0.0, "ranks": "0-3", "nodelist": "host[0-3]",
    })
}

/// Points in time.
pub(super) fn time(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    for time in foreign::times(text).into_iter().flatten() {
        assert!(time.is_finite(), "{time}");
    }
}

/// Lines that are split into words, and files of commands for tasks.
pub(super) fn words(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    for words in foreign::words(text) {
        assert!(words.iter().map(String::len).sum::<usize>() <= text.len(), "{words:?}");
    }
    for rank in [0, 7] {
        let command = foreign::programs(text, rank);
        assert!(command.is_none_or(|words| !words.is_empty()));
    }
}

/// What becomes a job array: files of inputs, and lists of indexes.
pub(super) fn array_file(bytes: &[u8]) {
    let Some(text) = text(bytes) else { return };
    for separator in ["\n", "none", ","] {
        assert!(foreign::inputs(text, separator) <= 2 * text.len());
    }
    if let Some((all, step)) = foreign::indexes(text) {
        let again = foreign::indexes(&all);
        assert_eq!(again, Some((all, step)));
    }
}
