//! Readers of scripts and of what scripts read, for fuzzers. Nothing is run.

use mlua::Lua;

use super::dialect::rewrite;
use super::document::Form;
use super::pattern::{Budget, PatternError, find};

/// How many steps of a match are allowed.
const STEPS: u64 = 1_000_000;

/// A script of Lua 5.1, rewritten for 5.4.
#[must_use]
pub fn rewritten(source: &[u8]) -> Vec<u8> {
    rewrite(source, 1).text
}

/// Whether Lua 5.4 compiles a script.
#[must_use]
pub fn compiles(lua: &Lua, source: &[u8]) -> bool {
    lua.load(source).set_mode(mlua::chunk::ChunkMode::Text).into_function().is_ok()
}

struct Steps(u64);

impl Budget for Steps {
    fn spend(&mut self, steps: u64) -> Result<(), PatternError> {
        self.0 = self.0.checked_sub(steps).ok_or(PatternError::TooComplex)?;
        Ok(())
    }
}

/// The place of the first match of a pattern, if there is one within the allowed steps.
#[must_use]
pub fn found(subject: &[u8], pattern: &[u8]) -> Option<(usize, usize)> {
    let found = find(subject, pattern, 0, false, &mut Steps(STEPS));
    found.ok().flatten().map(|found| (found.start, found.end))
}

/// The forms of documents.
pub const FORMS: [&str; 3] = ["json", "yaml", "cjson"];

/// A document of this form, written again; `None` if it can't be read or written.
#[must_use]
pub fn document(lua: &Lua, form: &str, text: &str) -> Option<String> {
    let form = Form::from_name(form);
    let value = form.read(lua, text).ok()?;
    form.write(&value).ok()
}
