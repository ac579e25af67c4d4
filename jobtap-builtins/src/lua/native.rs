//! The functions that Rust gives to `prelude.lua`, and what they share while a script runs.
//!
//! No function returns `Err` for a mistake of the script: mlua would turn it into an object that no script
//! can read as text. A message is returned instead, and the prelude raises it.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jobtap_core::plugin::Level;
use jobtap_core::slurm::{
    Field, INFINITE, JobDescriptor, JobRecord, Kind, Partition, Release, Reservation, SetError,
    Value, check_variable, minutes_of,
};
use mlua::{Function, IntoLuaMulti, Lua, LuaString, MultiValue, Table, Value as LuaValue};

use rustix::io::Errno;

use super::dialect;
use super::document::Form;
use super::files;
use super::limits::Meter;
use super::pattern::{self, Capture, PatternError};
use super::process::{self, Bounds};

/// What a script can read besides the request.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    /// The partitions that the user may use.
    pub partitions: Vec<Partition>,
    /// The jobs, for `slurm.jobs`.
    pub jobs: Vec<JobRecord>,
    /// The reservations and their names, for `slurm.reservations`.
    pub reservations: Vec<(String, Reservation)>,
}

impl Surroundings {
    /// What scripts of a release see of it.
    pub(super) fn shown_in(mut self, release: Release) -> Self {
        self.jobs = self.jobs.into_iter().map(|job| job.shown_in(release)).collect();
        self
    }
}

/// A line that a script writes to the manager's log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogLine {
    /// How severe it is.
    pub level: Level,
    /// The line.
    pub text: String,
}

/// The data of one call of a script.
#[derive(Debug, Default)]
pub(super) struct Call {
    /// The number of the call. Objects that a script keeps from an earlier call have a different number, so reading
    /// their fields gives nil.
    pub(super) number: u64,
    pub(super) description: JobDescriptor,
    pub(super) job: Option<JobRecord>,
    pub(super) surroundings: Surroundings,
    pub(super) log: Lines<LogLine>,
    pub(super) messages: Lines<String>,
}

/// Lines that a script writes, up to a limit: a script in a loop must not fill the memory.
#[derive(Debug)]
pub(super) struct Lines<T> {
    pub(super) kept: Vec<T>,
    bytes: usize,
    pub(super) dropped: usize,
}

impl<T> Default for Lines<T> {
    fn default() -> Self {
        Self { kept: Vec::new(), bytes: 0, dropped: 0 }
    }
}

/// The limits on the lines that are kept of one call.
const MOST_LINES: usize = 1000;
const MOST_BYTES: usize = 256 << 10;

/// What Slurm prints for a missing text.
const NULL: &str = "(null)";

impl<T> Lines<T> {
    const fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    fn push(&mut self, bytes: usize, line: T) {
        if self.kept.len() == MOST_LINES || self.bytes + bytes > MOST_BYTES {
            self.dropped += 1;
        } else {
            self.bytes += bytes;
            self.kept.push(line);
        }
    }
}

/// The state that the functions of one script share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) call: Mutex<Call>,
    pub(super) meter: Mutex<Meter>,
    /// The files that the script consists of.
    pub(super) files: Mutex<Vec<PathBuf>>,
    /// The file that Lua is opening. Its descriptor must stay valid until Lua has opened it.
    pub(super) opened: Mutex<Option<OwnedFd>>,
    /// Whether one of the files contains the word `jobs`.
    pub(super) mentions_jobs: AtomicBool,
    pub(super) directory: PathBuf,
    pub(super) sandbox: bool,
    pub(super) qos_priority: BTreeMap<String, f64>,
    /// The release of Slurm for which the script was written.
    pub(super) release: Release,
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(super) fn log(&self, level: Level, text: String) {
        lock(&self.call).log.push(text.len(), LogLine { level, text });
    }

    /// Reads a file of the script. In the sandbox it must lie in the script's directory.
    pub(super) fn read_source(&self, path: &Path) -> Result<Vec<u8>, SourceError> {
        let failed = |reason| SourceError::Open { path: path.to_owned(), reason };
        if self.sandbox {
            let real = path.canonicalize().map_err(failed)?;
            let directory = self.directory.canonicalize().map_err(failed)?;
            if !real.starts_with(directory) {
                return Err(SourceError::Outside { path: path.to_owned() });
            }
        }
        let source = read_file(path)?;
        self.note_file(path, &source);
        Ok(source)
    }

    /// Notes that a file is part of the script.
    pub(super) fn note_file(&self, path: &Path, source: &[u8]) {
        lock(&self.files).push(path.to_owned());
        if memchr::memmem::find(source, b"jobs").is_some() {
            self.mentions_jobs.store(true, Ordering::Relaxed);
        }
    }
}

/// Why a file of a script can't be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("cannot open {}: {reason}", path.display())]
    Open { path: PathBuf, reason: std::io::Error },
    #[error("{} is not in the directory of the script", path.display())]
    Outside { path: PathBuf },
}

/// Reads a file of a script.
pub(super) fn read_file(path: &Path) -> Result<Vec<u8>, SourceError> {
    files::read(path).map_err(|reason| SourceError::Open { path: path.to_owned(), reason })
}

/// Registers the functions in a table.
pub(super) fn functions(lua: &Lua, shared: &Arc<Shared>) -> mlua::Result<Table> {
    let table = lua.create_table()?;
    fields(lua, shared, &table)?;
    output(lua, shared, &table)?;
    text(lua, shared, &table)?;
    system(lua, shared, &table)?;
    reflection(lua, &table)?;
    Ok(table)
}

/// The request, the jobs, partitions and reservations.
fn fields(lua: &Lua, shared: &Arc<Shared>, table: &Table) -> mlua::Result<()> {
    let here = Arc::clone(shared);
    table.set(
        "get_field",
        lua.create_function(move |lua, (number, name): (u64, LuaString)| {
            let value = {
                let call = lock(&here.call);
                if call.number != number {
                    return Ok(LuaValue::Nil);
                }
                get(JobDescriptor::FIELDS, &call.description, here.release, &name.to_string_lossy())
            };
            to_lua(lua, value)
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "set_field",
        lua.create_function(move |_, (number, name, value): (u64, LuaString, LuaValue)| {
            let name = name.to_string_lossy();
            let set = {
                let mut call = lock(&here.call);
                if call.number != number {
                    return Ok(None);
                }
                if matches!(&value, LuaValue::String(text) if text.as_bytes().contains(&0)) {
                    return Ok(Some(format!(
                        "bad argument #3 to '?' (the text for {name} has a zero byte)"
                    )));
                }
                call.description.set_in(here.release, &name, from_lua(&value))
            };
            Ok(match set {
                Ok(()) => None,
                Err(SetError::Type { expected, .. }) => {
                    let got = type_name(&value);
                    Some(format!("bad argument #3 to '?' ({expected} expected, got {got})"))
                }
                Err(error @ SetError::ReadOnly(_)) => {
                    here.log(Level::Error, error.to_string());
                    None
                }
                Err(_) => {
                    here.log(Level::Error, format!("unrecognized field: {name}"));
                    None
                }
            })
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "get_variable",
        lua.create_function(move |_, (number, name): (u64, LuaString)| {
            let call = lock(&here.call);
            if call.number != number {
                return Ok(None);
            }
            let environment = &call.description.environment;
            let value = environment.get(&name.to_string_lossy()).map(str::to_owned);
            let unknown = environment.is_empty();
            drop(call);
            if unknown {
                let text = "job_desc.environment: the request comes without an environment";
                here.log(Level::Info, text.to_owned());
            }
            Ok(value)
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "set_variable",
        lua.create_function(move |_, (number, name, value): (u64, LuaString, LuaString)| {
            let mut call = lock(&here.call);
            if call.number != number {
                return Ok(None);
            }
            let (name, value) = (name.to_string_lossy(), value.to_string_lossy());
            Ok(match check_variable(&name, &value) {
                Ok(()) => {
                    call.description.environment.set(name, value);
                    None
                }
                Err(error) => Some(error.to_string()),
            })
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "get_record",
        lua.create_function(
            move |lua, (number, kind, index, name): (u64, LuaString, usize, LuaString)| {
                let (release, name) = (here.release, name.to_string_lossy());
                let value = {
                    let call = lock(&here.call);
                    if call.number != number {
                        return Ok(LuaValue::Nil);
                    }
                    let Surroundings { partitions, jobs, reservations } = &call.surroundings;
                    let at = index.wrapping_sub(1);
                    match &*kind.as_bytes() {
                        b"job" => {
                            call.job.as_ref().map(|job| get(JobRecord::FIELDS, job, release, &name))
                        }
                        b"jobs" => {
                            jobs.get(at).map(|job| get(JobRecord::FIELDS, job, release, &name))
                        }
                        b"reservations" => {
                            let reservation = reservations.get(at);
                            reservation
                                .map(|(_, found)| get(Reservation::FIELDS, found, release, &name))
                        }
                        _ => partitions
                            .get(at)
                            .map(|found| get(Partition::FIELDS, found, release, &name)),
                    }
                };
                to_lua(lua, value.flatten())
            },
        )?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "names",
        lua.create_function(move |_, (number, kind): (u64, LuaString)| {
            let call = lock(&here.call);
            if call.number != number {
                return Ok(Vec::new());
            }
            let Surroundings { partitions, jobs, reservations } = &call.surroundings;
            Ok(match &*kind.as_bytes() {
                b"jobs" => jobs.iter().map(|job| job.job_id.to_string()).collect(),
                b"reservations" => reservations.iter().map(|(name, _)| name.clone()).collect(),
                _ => {
                    partitions.iter().map(|found| found.name.clone().unwrap_or_default()).collect()
                }
            })
        })?,
    )
}

/// Log and messages.
fn output(lua: &Lua, shared: &Arc<Shared>, table: &Table) -> mlua::Result<()> {
    let here = Arc::clone(shared);
    table.set(
        "log",
        lua.create_function(move |_, (level, text): (LuaString, LuaString)| {
            let level = match &*level.as_bytes() {
                b"error" => Level::Error,
                b"info" => Level::Info,
                _ => Level::Debug,
            };
            here.log(level, text.to_string_lossy());
            Ok(())
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "message",
        lua.create_function(move |_, text: Option<LuaString>| {
            let messages = &mut lock(&here.call).messages;
            match text.map(|text| text.to_string_lossy()) {
                Some(text) => messages.push(text.len(), text),
                // Slurm ignores a value that isn't a string while there is no message yet; later it adds this line.
                None if messages.is_empty() => {}
                None => messages.push(NULL.len(), NULL.to_owned()),
            }
            Ok(())
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "expired",
        lua.create_function(move |_, ()| {
            Ok(lock(&here.meter).reached().map(|limit| limit.to_string()))
        })?,
    )
}

/// Patterns, source text, documents, and Slurm's times.
fn text(lua: &Lua, shared: &Arc<Shared>, table: &Table) -> mlua::Result<()> {
    let here = Arc::clone(shared);
    table.set(
        "find",
        lua.create_function(
            move |lua, (subject, pattern, start, caret): (LuaString, LuaString, usize, bool)| {
                let (subject, pattern) = (subject.as_bytes(), pattern.as_bytes());
                let (anchored, pattern) = match pattern.strip_prefix(b"^") {
                    Some(rest) if !caret => (true, rest),
                    _ => (false, &*pattern),
                };
                let start = start.saturating_sub(1);
                let found = {
                    let meter = &mut *lock(&here.meter);
                    pattern::find(&subject, pattern, start, anchored, meter)
                };
                match found {
                    Ok(None) => LuaValue::Nil.into_lua_multi(lua),
                    Ok(Some(found)) => {
                        let mut values = MultiValue::new();
                        values.push_back(integer(found.start + 1));
                        values.push_back(integer(found.end));
                        for capture in found.captures {
                            values.push_back(match capture {
                                Capture::Position(at) => integer(at + 1),
                                Capture::Text { start, length } => {
                                    let text = subject.get(start..start + length);
                                    LuaValue::String(lua.create_string(text.unwrap_or_default())?)
                                }
                            });
                        }
                        Ok(values)
                    }
                    Err(PatternError::Limit) => {
                        let limit = lock(&here.meter).reached();
                        let text = limit.map_or_else(String::new, |limit| limit.to_string());
                        (false, text).into_lua_multi(lua)
                    }
                    Err(error) => (false, error.to_string()).into_lua_multi(lua),
                }
            },
        )?,
    )?;
    table.set(
        "find_text",
        lua.create_function(move |lua, (subject, text, start): (LuaString, LuaString, usize)| {
            let (subject, text) = (subject.as_bytes(), text.as_bytes());
            let start = start.saturating_sub(1);
            let found = memchr::memmem::find(subject.get(start..).unwrap_or_default(), &text);
            match found.map(|at| start + at) {
                None => LuaValue::Nil.into_lua_multi(lua),
                Some(at) => (at + 1, at + text.len()).into_lua_multi(lua),
            }
        })?,
    )?;
    table.set(
        "rewrite",
        lua.create_function(move |lua, (source, first): (LuaString, usize)| {
            let rewritten = dialect::rewrite(&source.as_bytes(), first);
            let operands = lua.create_table()?;
            for (left, right) in rewritten.operands {
                let pair = lua.create_table()?;
                pair.raw_set("left", left)?;
                pair.raw_set("right", right)?;
                operands.raw_push(pair)?;
            }
            Ok((lua.create_string(rewritten.text)?, operands))
        })?,
    )?;
    table.set(
        "to_document",
        lua.create_function(
            move |lua, (form, value): (LuaString, LuaValue)| match Form::from_name(
                &form.to_string_lossy(),
            )
            .write(&value)
            {
                Ok(text) => text.into_lua_multi(lua),
                Err(error) => (LuaValue::Nil, error.to_string()).into_lua_multi(lua),
            },
        )?,
    )?;
    table.set(
        "from_document",
        lua.create_function(
            move |lua, (form, text): (LuaString, LuaString)| match Form::from_name(
                &form.to_string_lossy(),
            )
            .read(lua, &text.to_string_lossy())
            {
                Ok(value) => (true, value).into_lua_multi(lua),
                Err(error) => (false, error.to_string()).into_lua_multi(lua),
            },
        )?,
    )?;
    table.set(
        "minutes",
        lua.create_function(|_, text: LuaString| Ok(minutes(&text.to_string_lossy())))?,
    )
}

/// Parses a time as minutes. As in Slurm's C, the result is an `int`: -1 for no limit, and -2 for a text that
/// is no time.
fn minutes(text: &str) -> i64 {
    minutes_of(text).map_or(-2, |minutes| if minutes == INFINITE { -1 } else { minutes.into() })
}

/// Files and commands, the meter, and the priorities that the site sets.
fn system(lua: &Lua, shared: &Arc<Shared>, table: &Table) -> mlua::Result<()> {
    let here = Arc::clone(shared);
    table.set(
        "read_source",
        lua.create_function(move |lua, path: LuaString| {
            match here.read_source(Path::new(&path.to_string_lossy())) {
                Ok(source) => lua.create_string(source)?.into_lua_multi(lua),
                Err(error) => (LuaValue::Nil, error.to_string()).into_lua_multi(lua),
            }
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "open",
        lua.create_function(move |lua, (path, mode): (LuaString, LuaString)| {
            let path = PathBuf::from(OsStr::from_bytes(&path.as_bytes()).to_owned());
            match files::open(&path, &mode.to_string_lossy()) {
                Ok(file) => {
                    // Named by its descriptor, so that Lua opens this very file.
                    let name = format!("/proc/self/fd/{}", file.as_raw_fd());
                    *lock(&here.opened) = Some(file);
                    name.into_lua_multi(lua)
                }
                Err(error) => {
                    let text = error.to_string();
                    let text = text.split(" (os error").next().unwrap_or_default();
                    let errno = error.raw_os_error().unwrap_or(Errno::INVAL.raw_os_error());
                    (LuaValue::Nil, text, errno).into_lua_multi(lua)
                }
            }
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "opened",
        lua.create_function(move |_, ()| {
            *lock(&here.opened) = None;
            Ok(())
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "spend",
        lua.create_function(move |_, count: f64| {
            let limit = lock(&here.meter).spend(count.max(0.0) as u64);
            Ok(limit.map(|limit| limit.to_string()))
        })?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "run",
        lua.create_function(
            move |lua, (command, input, capture): (LuaString, LuaString, bool)| {
                let bounds = {
                    let meter = lock(&here.meter);
                    Bounds { deadline: meter.deadline(), output: meter.output() }
                };
                let input = input.as_bytes().to_vec();
                match process::run(&command.to_string_lossy(), input, capture, bounds) {
                    Ok(end) => (end.status, lua.create_string(end.output)?).into_lua_multi(lua),
                    Err(error) => {
                        // Records that the time limit is reached, if that was the reason.
                        lock(&here.meter).spend(0);
                        (LuaValue::Nil, error.to_string()).into_lua_multi(lua)
                    }
                }
            },
        )?,
    )?;
    let here = Arc::clone(shared);
    table.set(
        "qos_priority",
        lua.create_function(move |_, name: LuaString| {
            // As in Slurm, an unknown QOS has the priority 0.
            Ok(number(here.qos_priority.get(&name.to_string_lossy()).copied().unwrap_or(0.0)))
        })?,
    )
}

/// What the library `debug` reports about running functions, and their environments.
fn reflection(lua: &Lua, table: &Table) -> mlua::Result<()> {
    table.set(
        "function_at",
        lua.create_function(|lua, level: usize| {
            Ok(lua.inspect_stack(level, |running| running.function()))
        })?,
    )?;
    table.set("environment", lua.create_function(|_, of: Function| Ok(of.environment()))?)?;
    table.set(
        "set_environment",
        lua.create_function(|_, (of, environment): (Function, Table)| {
            of.set_environment(environment)
        })?,
    )?;
    table.set(
        "traceback",
        lua.create_function(|lua, (text, level): (Option<LuaString>, usize)| {
            let text = text.map(|text| text.to_string_lossy());
            lua.traceback(text.as_deref(), level.saturating_add(1))
        })?,
    )?;
    table.set(
        "info_at",
        lua.create_function(|lua, level: usize| {
            let info = lua.inspect_stack(level, |running| {
                let source = running.source();
                let place = (source.source, source.short_src, source.line_defined, source.what);
                let place = (
                    place.0.map(|text| text.into_owned()),
                    place.1.map(|text| text.into_owned()),
                    place.2,
                    place.3.to_owned(),
                );
                let name = running.names().name.map(|name| name.into_owned());
                (place, name, running.current_line(), running.function())
            });
            let Some(((source, short, line, what), name, current, function)) = info else {
                return Ok(None);
            };
            let table = lua.create_table()?;
            table.raw_set("source", source)?;
            table.raw_set("short_src", short)?;
            table.raw_set("linedefined", line)?;
            table.raw_set("what", what)?;
            table.raw_set("name", name)?;
            table.raw_set("currentline", current)?;
            table.raw_set("func", function)?;
            Ok(Some(table))
        })?,
    )?;
    table.set(
        "info_of",
        lua.create_function(|lua, of: Function| {
            let info = of.info();
            let table = lua.create_table()?;
            table.raw_set("source", info.source)?;
            table.raw_set("short_src", info.short_src)?;
            table.raw_set("linedefined", info.line_defined)?;
            table.raw_set("what", info.what)?;
            table.raw_set("func", of)?;
            Ok(table)
        })?,
    )
}

/// Reads a field of a record. `None` if scripts of the release can't read a field of this name.
fn get<T>(
    fields: &'static [Field<T>],
    record: &T,
    release: Release,
    name: &str,
) -> Option<(Kind, Value)> {
    let field = Field::find(fields, name).filter(|field| field.readable.has(release))?;
    Some((field.kind, (field.get)(record)))
}

fn integer(number: usize) -> LuaValue {
    LuaValue::Integer(i64::try_from(number).unwrap_or(i64::MAX))
}

/// Converts a number for scripts: to an integer if it has no fraction, so that it prints as in Lua 5.1.
pub(super) fn number(number: f64) -> LuaValue {
    let exact = number.trunc() == number && number.abs() < 9_007_199_254_740_992.0;
    if exact { LuaValue::Integer(number as i64) } else { LuaValue::Number(number) }
}

fn to_lua(lua: &Lua, value: Option<(Kind, Value)>) -> mlua::Result<LuaValue> {
    let Some((kind, value)) = value else { return Ok(LuaValue::Nil) };
    Ok(match value {
        Value::Nil => LuaValue::Nil,
        Value::Boolean(boolean) => LuaValue::Boolean(boolean),
        Value::Number(value) => number(value),
        Value::Text(text) => LuaValue::String(lua.create_string(text)?),
        Value::List(texts) => {
            let first = if let Kind::List { first } = kind { usize::from(first) } else { 1 };
            let table = lua.create_table()?;
            for (index, text) in texts.into_iter().enumerate() {
                table.raw_set(first + index, text)?;
            }
            LuaValue::Table(table)
        }
    })
}

fn from_lua(value: &LuaValue) -> Value {
    match value {
        LuaValue::Nil => Value::Nil,
        LuaValue::Boolean(boolean) => Value::Boolean(*boolean),
        LuaValue::Integer(integer) => Value::Number(*integer as f64),
        LuaValue::Number(number) => Value::Number(*number),
        LuaValue::String(text) => Value::Text(text.to_string_lossy()),
        // No field takes a value of another type.
        _ => Value::List(Vec::new()),
    }
}

/// The name of a value's type in Lua.
fn type_name(value: &LuaValue) -> &'static str {
    match value {
        LuaValue::Integer(_) => "number",
        other => other.type_name(),
    }
}
