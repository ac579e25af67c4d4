//! Loads a `job_submit.lua`, loads it again when it has changed, and calls it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use jobtap_core::plugin::Level;
use jobtap_core::slurm::{
    CONSTANTS, FUNCTIONS, JobDescriptor, JobRecord, Release, SlurmError, errno,
};
use mlua::{Function, HookTriggers, Lua, LuaOptions, MultiValue, StdLib, Table, Value, VmState};
use thiserror::Error;

use super::limits::{Limit, Limits, Meter};
use super::modules::modules;
use super::native::{self, Call, LogLine, Shared, Surroundings, lock};

/// The version of Lua that a script sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Version {
    /// Lua 5.1, with which Debian builds its Slurm.
    #[default]
    Lua51,
    /// Lua 5.4 as it is.
    Lua54,
}

/// What happens to a request when the script fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum OnError {
    /// It is refused, as in Slurm since 26.05.
    #[default]
    Reject,
    /// It is accepted with what the script had changed before it failed, as in older Slurm.
    Accept,
}

/// How scripts are run.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Options {
    /// The release of Slurm for which the script was written.
    pub release: Release,
    /// The version of Lua.
    pub version: Version,
    /// Keeps files, commands and the environment of the manager out of reach.
    pub sandbox: bool,
    /// The limits of a call.
    pub limits: Limits,
    /// What happens to a request when the script fails.
    pub on_error: OnError,
    /// `slurm.CLUSTER_NAME`.
    pub cluster: String,
    /// What `slurm.get_qos_priority` returns.
    pub qos_priority: BTreeMap<String, f64>,
}

/// Why a script can't be loaded.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file can't be read.
    #[error("{}: {reason}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// It is no script, it failed, or a function is missing. The text names the line where there is one.
    #[error("{}", placed(path, text))]
    Script {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        text: String,
    },
}

/// The text with the file before it, unless Lua has named it already.
fn placed(path: &Path, text: &str) -> String {
    let path = path.display().to_string();
    let place = text.get(..text.find(": ").unwrap_or(0)).unwrap_or_default();
    let named = text.starts_with(&path) || place.starts_with("...");
    if named { text.to_owned() } else { format!("{path}: {text}") }
}

/// The decision of a script on a request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Verdict {
    /// 0 accepts the request; any other number is the code of a Slurm error.
    pub code: i32,
    /// Messages for the user, even if the request is accepted.
    pub messages: Vec<String>,
    /// Lines for the manager's log.
    pub log: Vec<LogLine>,
    /// Why the script failed, if it did.
    pub error: Option<String>,
    /// The release whose errors the script knows.
    release: Release,
}

impl Verdict {
    /// The error with which the request is refused; `None` if it is accepted.
    #[must_use]
    pub fn refusal(&self) -> Option<SlurmError> {
        match self.error {
            // The manager's own error, which the release of the script may lack.
            Some(_) => SlurmError::from_code(self.code),
            None => SlurmError::in_release(self.code, self.release),
        }
    }
}

/// A `job_submit.lua` that is loaded.
pub struct Script {
    path: PathBuf,
    options: Options,
    program: Program,
    /// The modification time of a file that couldn't be loaded again, so that it is tried only once.
    refused: Option<SystemTime>,
    /// Whether the program must be replaced before its next use, because its memory is full.
    spent: bool,
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script").field("path", &self.path).finish_non_exhaustive()
    }
}

/// One state of Lua in which the script has been run.
struct Program {
    call: Function,
    shared: Arc<Shared>,
    modified: SystemTime,
    /// The last field, so that it is dropped after what refers to it.
    lua: Lua,
}

/// The number of instructions between two checks of the limits.
const INSTRUCTIONS_AT_ONCE: u32 = 1000;

impl Script {
    /// Loads a script and runs it, so that its functions are defined. The lines that it logs meanwhile are
    /// added to `log`.
    ///
    /// # Errors
    /// The file can't be read, is no Lua, fails, or doesn't define both functions.
    pub fn load(path: &Path, options: Options, log: &mut Vec<LogLine>) -> Result<Self, LoadError> {
        let program = Program::load(path, &options, log)?;
        Ok(Self { path: path.to_owned(), options, program, refused: None, spent: false })
    }

    /// Compiles a script without running it.
    ///
    /// # Errors
    /// The file can't be read, or is no Lua.
    pub fn check(path: &Path, options: &Options) -> Result<(), LoadError> {
        let failed = |text: String| LoadError::Script { path: path.to_owned(), text };
        let internal = |error: mlua::Error| failed(text_of(&error));
        let (shared, source) = read_script(path, options)?;
        let Functions { lua, check, .. } = state(options, &shared).map_err(internal)?;
        let source = lua.create_string(source).map_err(internal)?;
        let message = check.call::<Option<String>>((source, path.display().to_string()));
        message.map_err(internal)?.map_or(Ok(()), |message| Err(failed(message)))
    }

    /// The functions and tables that Lua gives a script, by their names and, for members of a table, as `os.date`.
    ///
    /// # Errors
    /// No state of Lua can be made.
    pub fn library(options: &Options) -> Result<BTreeSet<String>, LoadError> {
        let path = Path::new("").to_owned();
        let failed =
            |error: mlua::Error| LoadError::Script { path: path.clone(), text: text_of(&error) };
        let shared = Arc::new(Shared::new(&path, options));
        let Functions { lua, .. } = state(options, &shared).map_err(failed)?;
        let mut names = BTreeSet::new();
        for pair in lua.globals().pairs::<String, Value>() {
            let (name, value) = pair.map_err(failed)?;
            if let Value::Table(table) = value {
                let members = table.pairs::<Value, Value>().filter_map(Result::ok);
                names.extend(members.filter_map(|(key, _)| {
                    Some(format!("{name}.{}", key.as_string()?.to_string_lossy()))
                }));
            }
            names.insert(name);
        }
        Ok(names)
    }

    /// The files that the script consists of: its own, and those that it has loaded so far.
    #[must_use]
    pub fn files(&self) -> Vec<PathBuf> {
        lock(&self.program.shared.files).clone()
    }

    /// Whether a file of the script contains the word `jobs`, so that it may read `slurm.jobs`.
    #[must_use]
    pub fn mentions_jobs(&self) -> bool {
        self.program.shared.mentions_jobs.load(Ordering::Relaxed)
    }

    /// Calls `slurm_job_submit`, which may change the description.
    pub fn submit(
        &mut self,
        description: &mut JobDescriptor,
        surroundings: Surroundings,
        uid: u32,
    ) -> Verdict {
        self.call(description, None, surroundings, uid)
    }

    /// Calls `slurm_job_modify`, which may change the description of the change.
    pub fn modify(
        &mut self,
        description: &mut JobDescriptor,
        job: JobRecord,
        surroundings: Surroundings,
        uid: u32,
    ) -> Verdict {
        self.call(description, Some(job), surroundings, uid)
    }

    fn call(
        &mut self,
        description: &mut JobDescriptor,
        job: Option<JobRecord>,
        surroundings: Surroundings,
        uid: u32,
    ) -> Verdict {
        let mut log = Vec::new();
        self.reload(&mut log);
        let modify = job.is_some();
        let release = self.options.release;
        let call = Call {
            description: description.shown_in(release),
            job: job.map(|job| job.shown_in(release)),
            surroundings: surroundings.shown_in(release),
            ..Call::default()
        };
        let (answer, call) = self.program.call(call, modify, uid, self.options.limits);
        log.extend(call.log.kept);
        if call.log.dropped > 0 {
            let text = format!("{} more lines of the script are not logged", call.log.dropped);
            log.push(LogLine { level: Level::Warning, text });
        }
        let mut verdict =
            Verdict { messages: call.messages.kept, log, release, ..Verdict::default() };
        let mut keep = true;
        match answer {
            Answer::Code(code) => verdict.code = code,
            Answer::NoNumber(kind) => {
                let function = if modify { "slurm_job_modify" } else { "slurm_job_submit" };
                let text = format!("{function}: non-numeric return code ({kind}): accepted");
                verdict.log.push(LogLine { level: Level::Info, text });
            }
            Answer::Failed { text, limit } => {
                self.spent = matches!(limit, Some(Limit::Memory(_)));
                let outcome = match self.options.on_error {
                    OnError::Accept => "; the request is accepted",
                    OnError::Reject => "; the request is refused",
                };
                let line = format!("{}{outcome}", placed(&self.path, &text));
                verdict.log.push(LogLine { level: Level::Error, text: line });
                if self.options.on_error == OnError::Reject {
                    let error = match limit {
                        Some(Limit::Memory(_)) => errno::ESLURM_LUA_FUNC_FAILED_ENOMEM,
                        _ => errno::ESLURM_LUA_FUNC_FAILED_RUNTIME_ERROR,
                    };
                    verdict.code = error.code();
                    // The user sees the reason for the refusal, and none of the script's own messages.
                    verdict.messages = vec![text.clone()];
                    keep = false;
                }
                verdict.error = Some(text);
            }
        }
        if keep {
            *description = description.with_changes_of(release, call.description);
        }
        verdict
    }

    /// Loads the script again if its file has become newer. When that fails, the old one stays in use.
    fn reload(&mut self, log: &mut Vec<LogLine>) {
        let line = |level, text| LogLine { level, text };
        let newest = match modified(&self.path) {
            Ok(newest) => newest,
            Err(error) => {
                if self.refused != Some(SystemTime::UNIX_EPOCH) {
                    let text =
                        format!("{}: {error}; the old script stays in use", self.path.display());
                    log.push(line(Level::Error, text));
                    self.refused = Some(SystemTime::UNIX_EPOCH);
                }
                return;
            }
        };
        let changed = newest > self.program.modified;
        if !(changed || self.spent) || self.refused == Some(newest) {
            return;
        }
        match Program::load(&self.path, &self.options, log) {
            Ok(program) => {
                self.program = program;
                self.refused = None;
                self.spent = false;
                log.push(line(Level::Info, format!("{}: loaded again", self.path.display())));
            }
            Err(error) => {
                self.refused = Some(newest);
                let text =
                    format!("{error}; the previous script stays in use until the file changes");
                log.push(line(Level::Error, text));
            }
        }
    }
}

fn modified(path: &Path) -> std::io::Result<SystemTime> {
    path.metadata()?.modified()
}

/// The result of a call.
enum Answer {
    /// The number that the function returned.
    Code(i32),
    /// It returned something else, of this type.
    NoNumber(String),
    /// It failed.
    Failed { text: String, limit: Option<Limit> },
}

impl Program {
    fn load(path: &Path, options: &Options, log: &mut Vec<LogLine>) -> Result<Self, LoadError> {
        let read = |reason| LoadError::Read { path: path.to_owned(), reason };
        let failed = |text: String| LoadError::Script { path: path.to_owned(), text };
        // The time is read before the text, so that a change in between is noticed at the next call.
        let modified = modified(path).map_err(read)?;
        let internal = |error: mlua::Error| failed(text_of(&error));
        let (shared, source) = read_script(path, options)?;
        let Functions { lua, run, call, .. } = state(options, &shared).map_err(internal)?;
        let source = lua.create_string(source).map_err(internal)?;
        let ran = run.call::<(bool, Option<String>)>((source, path.display().to_string()));
        let limit = lock(&shared.meter).reached();
        let lines = std::mem::take(&mut *lock(&shared.call));
        log.extend(lines.log.kept);
        match ran {
            Ok((true, _)) if limit.is_none() => Ok(Self { call, shared, modified, lua }),
            ran => {
                let text = match ran {
                    Ok((_, text)) => text.unwrap_or_default(),
                    Err(error) => text_of(&error),
                };
                Err(failed(limit.map_or(text, |limit| limit.to_string())))
            }
        }
    }

    fn call(&self, call: Call, modify: bool, uid: u32, limits: Limits) -> (Answer, Call) {
        let number = {
            let mut now = lock(&self.shared.call);
            let number = now.number + 1;
            *now = Call { number, ..call };
            number
        };
        *lock(&self.shared.meter) = Meter::new(limits);
        let called = self.call.call::<MultiValue>((number, modify, uid));
        let limit = lock(&self.shared.meter).reached();
        let after = {
            let mut now = lock(&self.shared.call);
            // Objects that the script keeps from this call must not read the next one.
            std::mem::replace(&mut *now, Call { number, ..Call::default() })
        };
        let answer = match (called, limit) {
            (_, Some(limit)) => Answer::Failed { text: limit.to_string(), limit: Some(limit) },
            (Err(error), None) => self.failed(text_of(&error), limits),
            (Ok(values), None) => {
                let mut values = values.into_iter();
                match (values.next(), values.next()) {
                    (Some(Value::Boolean(true)), Some(Value::Integer(code))) => {
                        Answer::Code(truncated(code as f64))
                    }
                    (Some(Value::Boolean(true)), Some(Value::Number(code))) => {
                        Answer::Code(truncated(code))
                    }
                    (Some(Value::Boolean(true)), Some(Value::String(kind))) => {
                        Answer::NoNumber(kind.to_string_lossy())
                    }
                    (_, Some(Value::String(text))) => self.failed(text.to_string_lossy(), limits),
                    // A script that raises a value while memory is short may raise something that is no text.
                    (_, raised) => {
                        let kind = raised.map_or("nil", |raised| raised.type_name());
                        self.failed(format!("the script raised a {kind} value, not a text"), limits)
                    }
                }
            }
        };
        (answer, after)
    }

    fn failed(&self, text: String, limits: Limits) -> Answer {
        if text.ends_with("not enough memory") {
            let limit = Limit::Memory(limits.memory);
            lock(&self.shared.meter).out_of_memory();
            // Makes room for the next call, in case the script can't be loaded again.
            let _ = self.lua.gc_collect();
            return Answer::Failed { text: limit.to_string(), limit: Some(limit) };
        }
        Answer::Failed { text, limit: None }
    }
}

/// Reads the text of a script, and creates what its functions share.
fn read_script(path: &Path, options: &Options) -> Result<(Arc<Shared>, Vec<u8>), LoadError> {
    let shared = Shared::new(path.parent().unwrap_or(Path::new("")), options);
    let source = native::read_file(path)
        .map_err(|error| LoadError::Script { path: path.to_owned(), text: error.to_string() })?;
    shared.note_file(path, &source);
    Ok((Arc::new(shared), source))
}

impl Shared {
    fn new(directory: &Path, options: &Options) -> Self {
        Self {
            call: Mutex::default(),
            meter: Mutex::new(Meter::new(options.limits)),
            files: Mutex::default(),
            opened: Mutex::default(),
            mentions_jobs: AtomicBool::new(false),
            directory: directory.to_owned(),
            sandbox: options.sandbox,
            qos_priority: options.qos_priority.clone(),
            release: options.release,
        }
    }
}

/// A fresh state with the prelude, and the prelude's functions.
struct Functions {
    run: Function,
    call: Function,
    check: Function,
    lua: Lua,
}

fn state(options: &Options, shared: &Arc<Shared>) -> mlua::Result<Functions> {
    let libraries = match options.sandbox {
        true => StdLib::ALL_SAFE & !StdLib::IO,
        false => StdLib::ALL_SAFE,
    };
    let lua = Lua::new_with(libraries, LuaOptions::default())?;
    lua.set_memory_limit(options.limits.memory)?;
    let functions = native::functions(&lua, shared)?;
    let served = modules(&lua, shared, &functions, options.sandbox)?;
    let prelude = lua.load(include_str!("prelude.lua")).set_name("=prelude");
    let (run, call, check) =
        prelude.call((functions, prelude_options(&lua, options, shared)?, served))?;
    let meter = Arc::clone(shared);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_AT_ONCE);
    lua.set_global_hook(triggers, move |_, _| {
        match lock(&meter.meter).spend(INSTRUCTIONS_AT_ONCE.into()) {
            None => Ok(VmState::Continue),
            Some(limit) => Err(mlua::Error::runtime(limit)),
        }
    })?;
    Ok(Functions { run, call, check, lua })
}

fn prelude_options(lua: &Lua, options: &Options, shared: &Shared) -> mlua::Result<Table> {
    let constants = lua.create_table()?;
    let release = options.release;
    for constant in CONSTANTS.iter().filter(|constant| constant.releases.has(release)) {
        constants.raw_set(constant.name, native::number(constant.value))?;
    }
    for error in errno::ERRORS.iter().filter(|error| error.is_in_scripts(release)) {
        constants.raw_set(error.name, error.code)?;
    }
    constants.raw_set("CLUSTER_NAME", options.cluster.as_str())?;
    let table = lua.create_table()?;
    table.raw_set("constants", constants)?;
    let absent = FUNCTIONS.iter().filter(|function| !function.releases.has(release));
    table.raw_set("absent", lua.create_sequence_from(absent.map(|function| function.name))?)?;
    table.raw_set("lua51", options.version == Version::Lua51)?;
    table.raw_set("sandbox", options.sandbox)?;
    let directory = match shared.directory.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => shared.directory.display().to_string(),
    };
    table.raw_set("directory", directory)?;
    Ok(table)
}

/// The text of an error that mlua returns, without the places in the prelude.
fn text_of(error: &mlua::Error) -> String {
    let text = match error {
        mlua::Error::CallbackError { cause, .. } => return text_of(cause),
        mlua::Error::MemoryError(_) => "not enough memory".to_owned(),
        mlua::Error::RuntimeError(text) => text.clone(),
        other => other.to_string(),
    };
    text.split("\nstack traceback:").next().unwrap_or_default().to_owned()
}

/// Converts a number to an `int` as Slurm's C does. A number that doesn't fit becomes `i32::MIN`, which
/// refuses the request.
fn truncated(code: f64) -> i32 {
    let whole = code.trunc();
    let fits = whole >= f64::from(i32::MIN) && whole <= f64::from(i32::MAX);
    if fits { whole as i32 } else { i32::MIN }
}
