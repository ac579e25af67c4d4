//! `slurm explain`: says what a `job_submit.lua` uses, and how each item is served here.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use jobtap_builtins::lua::{MODULES, Options, Script, Version};
use jobtap_core::slurm::{
    CONSTANTS, FUNCTIONS, Field, JobDescriptor, JobRecord, Kind, Partition, Place as Where,
    Release, Reservation, errno,
};
use jobtap_core::suggest::nearest;

use super::changes::changes;
use super::sources::{files, module_path};
use super::uses::{File, Literal, Object, Place, Places, Uses};
use super::walk::uses;
use crate::cli::common::message::{CliError, plural, system_text};
use crate::client::Client;
use crate::daemon::config;
use crate::rpc::services::config::Get;

/// Options and arguments of `slurm explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The script
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// The release of Slurm for which it was written [default: slurm-version of the configuration, or the newest]
    #[arg(long, value_name = "VERSION")]
    from: Option<Release>,
    /// Read the configuration from this file or directory instead of the manager's
    #[arg(short = 'c', long, value_name = "PATH", conflicts_with = "from")]
    config_path: Option<PathBuf>,
    /// Say what changes its meaning in this release of Slurm
    #[arg(long = "for", value_name = "VERSION")]
    to: Option<Release>,
}

/// How the site's scripts are run: as the configuration says, if there is one.
pub(super) async fn options(args: &ExplainArgs) -> Result<Options, CliError> {
    let config = match &args.config_path {
        Some(path) => Some(config::load(path).map_err(CliError::failure)?),
        // Without a manager there is no configuration.
        None => match Client::connect().await {
            Ok(client) => client.call(Get {}).await.ok(),
            Err(_) => None,
        },
    };
    let configured = configured(&config.unwrap_or_default())?;
    Ok(Options { release: args.from.unwrap_or(configured.release), ..configured })
}

/// What a configuration says of the release and the version of Lua.
fn configured(config: &serde_json::Value) -> Result<Options, CliError> {
    let of_plugin = |key: &str| config.pointer("/plugins/lua")?.get(key)?.as_str();
    let release = match of_plugin("slurm-version") {
        Some(release) => {
            release.parse().map_err(|error| CliError::failure(format!("slurm-version: {error}")))?
        }
        None => Release::NEWEST,
    };
    let version = match of_plugin("lua") {
        Some("5.4") => Version::Lua54,
        _ => Version::Lua51,
    };
    Ok(Options { release, version, ..Options::default() })
}

/// Returns the report, and whether everything that the script uses is served.
pub(super) fn explain(args: &ExplainArgs, options: &Options) -> Result<(String, bool), CliError> {
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let read = |error: std::io::Error| {
        CliError::failure(format!("{}: {}", args.file.display(), system_text(&error)))
    };
    let files = files(&path).map_err(read)?;
    let library = Script::library(options).map_err(|error| CliError::failure(error.to_string()))?;
    let uses = uses(&files);
    let mut report = Report::new(&path, &files, options.release);
    if let Err(error) = Script::check(&path, options) {
        report.problems.insert((Place { file: 0, line: 0 }, error.to_string()));
    }
    report.all(&uses, &library);
    if let Some(to) = args.to {
        report.changes(&uses, to);
    }
    Ok(report.finish())
}

/// Functions of `slurm`, and what they do here.
const SERVED: &[(&str, &str)] = &[
    ("error", "the manager's log, level error"),
    ("from_json", "reads JSON"),
    ("from_yaml", "reads YAML"),
    ("get_qos_priority", "the number in the table qos_priority of [plugins.lua]; else 0"),
    ("log", "the manager's log"),
    ("log_debug", "the manager's log, level debug"),
    ("log_debug2", "the manager's log, level debug"),
    ("log_debug3", "the manager's log, level debug"),
    ("log_debug4", "the manager's log, level debug"),
    ("log_error", "the manager's log, level error"),
    ("log_info", "the manager's log, level info"),
    ("log_user", "a message to the user"),
    ("log_verbose", "the manager's log, level debug"),
    ("time_str2mins", "minutes of a time"),
    ("to_json", "writes JSON"),
    ("to_yaml", "writes YAML, with tags as Slurm does"),
    ("user_msg", "a message to the user"),
];

/// Whether Lua takes a text for a number: a decimal one, or digits to the base 16 after `0x`.
fn is_number(text: &str) -> bool {
    let text = text.trim();
    let unsigned = text.strip_prefix('-').unwrap_or(text);
    match unsigned.strip_prefix("0x").or_else(|| unsigned.strip_prefix("0X")) {
        Some(digits) => !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit()),
        None => text.parse::<f64>().is_ok(),
    }
}

/// Functions of Lua that need a remark.
const LIBRARY: &[(&str, &str)] = &[
    ("collectgarbage", "served; memory is limited"),
    ("debug.getinfo", "served with fewer fields"),
    ("debug.traceback", "served"),
    ("dofile", "served, but not in the sandbox"),
    ("getfenv", "Lua 5.1; served"),
    ("io.lines", "served, but not in the sandbox; a script has no standard input"),
    ("io.open", "served, but not in the sandbox"),
    ("io.popen", "served, but not in the sandbox; runs to its end, as long as the script may run"),
    ("io.read", "a script has no standard input"),
    ("loadstring", "Lua 5.1; served"),
    ("math.cosh", "Lua 5.1; served"),
    ("math.ldexp", "Lua 5.1; served"),
    ("math.log10", "Lua 5.1; served"),
    ("math.mod", "Lua 5.1; served"),
    ("math.pow", "Lua 5.1; served"),
    ("module", "Lua 5.1; served"),
    ("os.execute", "served, but not in the sandbox; as long as the script may run"),
    ("os.setlocale", "the locale stays C"),
    ("print", "the manager's log, level info"),
    ("setfenv", "Lua 5.1; served"),
    ("string.gfind", "Lua 5.1; served"),
    ("table.foreach", "Lua 5.1; served"),
    ("table.foreachi", "Lua 5.1; served"),
    ("table.getn", "Lua 5.1; served"),
    ("table.maxn", "Lua 5.1; served"),
    ("unpack", "Lua 5.1; served"),
];

/// Functions of Lua that are not served.
const ABSENT: &[(&str, &str)] = &[
    ("debug.sethook", "absent: the manager's limits use the hook"),
    ("debug.getlocal", "absent"),
    ("debug.getupvalue", "absent"),
    ("debug.setupvalue", "absent"),
    ("newproxy", "absent"),
    ("os.exit", "an error: a script can't end the manager; return a number instead"),
    ("package.loadlib", "modules written in C can't be loaded"),
    ("table.setn", "an error, as in Lua 5.1"),
];

/// Functions that define others where the text doesn't show it.
const DEFINING: &[&str] =
    &["dofile", "load", "loadfile", "loadstring", "module", "rawset", "setfenv"];

struct Report<'f> {
    files: &'f [File],
    directory: PathBuf,
    /// For which the script was written.
    release: Release,
    text: String,
    /// What is not served, and where.
    problems: BTreeSet<(Place, String)>,
}

impl<'f> Report<'f> {
    fn new(path: &Path, files: &'f [File], release: Release) -> Self {
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        Self { files, directory, release, text: String::new(), problems: BTreeSet::new() }
    }

    fn all(&mut self, uses: &Uses, library: &BTreeSet<String>) {
        self.heading(&format!("as a script of Slurm {}", self.release));
        for name in ["slurm_job_submit", "slurm_job_modify"] {
            if !uses.entries.contains(name) {
                let problem = format!("the function {name} is missing");
                self.problems.insert((Place { file: 0, line: 0 }, problem));
            }
        }
        self.fields(uses, Object::Description, JobDescriptor::FIELDS);
        self.literals(uses);
        self.variables(uses);
        self.fields(uses, Object::Job, JobRecord::FIELDS);
        self.fields(uses, Object::Partition, Partition::FIELDS);
        self.fields(uses, Object::Reservation, Reservation::FIELDS);
        self.passed(uses);
        self.slurm(uses);
        self.library(uses, library);
        self.modules(uses);
        for (object, place) in &uses.computed {
            let what = format!("{object}[..]: the name of the field is computed; not checked");
            self.problems.insert((*place, what));
        }
        self.problem(&uses.unread, "the text from here on is not checked");
    }

    fn heading(&mut self, title: &str) {
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text.push_str(title);
        self.text.push('\n');
    }

    fn row(&mut self, name: &str, places: &str, how: &str) {
        let line = format!("  {name:<24} {places:<26} {how}");
        self.text.push_str(line.trim_end());
        self.text.push('\n');
    }

    /// `12, 15, util.lua:3`; only the first lines if there are many.
    fn lines(&self, places: &BTreeSet<Place>) -> String {
        const SHOWN: usize = 4;
        let shown = places.iter().take(SHOWN).map(|place| self.line(*place));
        let mut text = shown.collect::<Vec<_>>().join(", ");
        if places.len() > SHOWN {
            text.push_str(", ..");
        }
        text
    }

    fn line(&self, place: Place) -> String {
        match self.files.get(place.file).and_then(|file| file.path.file_name()) {
            Some(name) if place.file > 0 => format!("{}:{}", name.to_string_lossy(), place.line),
            _ => place.line.to_string(),
        }
    }

    fn reads_and_writes(&self, places: &Places) -> String {
        let mut parts = Vec::new();
        if !places.read.is_empty() {
            parts.push(format!("read {}", self.lines(&places.read)));
        }
        if !places.written.is_empty() {
            parts.push(format!("written {}", self.lines(&places.written)));
        }
        parts.join("; ")
    }

    fn problem(&mut self, places: &BTreeSet<Place>, text: &str) {
        for place in places {
            self.problems.insert((*place, text.to_owned()));
        }
    }

    /// The fields of an object.
    fn fields<T>(&mut self, uses: &Uses, object: Object, table: &'static [Field<T>]) {
        let used = uses.fields.iter().filter(|((owner, _), _)| *owner == object);
        let mut begun = false;
        for ((_, name), places) in used {
            let field = Field::find(table, name);
            let visible = field.filter(|field| field.is_in(self.release));
            let Some(field) = visible else {
                let other = field.filter(|field| field.readable.any());
                let why = match other {
                    Some(field) => format!(" in {}; it is there {}", self.release, field.readable),
                    None => {
                        let known = table.iter().filter(|field| field.is_in(self.release));
                        let meant = nearest(name, known.map(|field| field.name));
                        let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
                        meant.unwrap_or_default()
                    }
                };
                let text = format!("{object}.{name}: no such field{why}");
                self.problem(&places.read, &text);
                self.problem(&places.written, &text);
                continue;
            };
            if !begun {
                self.heading(match object {
                    Object::Description => "fields of the request (job_desc)",
                    Object::Job => "fields of jobs (job_rec, slurm.jobs)",
                    Object::Partition => "fields of partitions (part_list), which are queues here",
                    _ => "fields of reservations (slurm.reservations)",
                });
                begun = true;
            }
            if object == Object::Description && !field.writable.has(self.release) {
                let text =
                    format!("{object}.{name}: can't be written; a write is logged and ignored");
                self.problem(&places.written, &text);
            } else if object != Object::Description {
                let text = format!("{object}.{name}: a write has no effect");
                self.problem(&places.written, &text);
            }
            let mut how = Vec::new();
            if !field.unit.is_empty() {
                how.push(field.unit.to_owned());
            }
            if object == Object::Description {
                how.push(served(field));
            }
            let places = self.reads_and_writes(places);
            self.row(name, &places, &how.join("; "));
        }
    }

    /// Literals that a field doesn't take: the script fails where it writes one.
    fn literals(&mut self, uses: &Uses) {
        for ((object, name, literal), places) in &uses.literals {
            let kind = match object {
                Object::Description => Field::find(JobDescriptor::FIELDS, name)
                    .filter(|field| field.writable.has(self.release))
                    .map(|field| field.kind),
                Object::Environment => Some(Kind::Text),
                _ => None,
            };
            let expected = match (kind, literal) {
                (None, _) | (Some(Kind::Text), Literal::Text(_)) => continue,
                (Some(Kind::Number), Literal::Text(text)) if is_number(text) => continue,
                (Some(kind), _) => kind.lua_type(),
            };
            let (got, instead) = match (literal, kind) {
                (Literal::Nil, _) if *object == Object::Environment => {
                    ("nil", "; a variable can't be unset")
                }
                (Literal::Nil, Some(Kind::Text)) => ("nil", "; \"\" clears it"),
                (Literal::Nil, _) => ("nil", "; slurm.NO_VAL or slurm.NO_VAL16 clears it"),
                (Literal::Boolean, _) => ("boolean", ""),
                (Literal::Table, _) => ("table", ""),
                (Literal::Text(_), _) => ("string", ""),
            };
            let text = format!(
                "{object}.{name}: the script fails here: {expected} expected, got {got}{instead}"
            );
            self.problem(places, &text);
        }
    }

    /// Functions of Lua that don't do what they seem to, since these objects are empty tables with metatables.
    fn passed(&mut self, uses: &Uses) {
        for ((object, function), places) in &uses.passed {
            let is_list = object.element().is_some() || *object == Object::Slurm;
            let what = match function.as_str() {
                "pairs" | "ipairs" | "next" if !is_list => "there is nothing to iterate over",
                "setmetatable" => "this takes its fields away, as in Slurm",
                "getmetatable" if !is_list => "its metatable is the manager's own",
                "rawget" | "rawset" if !is_list => "this goes past its fields, as in Slurm",
                _ => continue,
            };
            self.problem(places, &format!("{function}({object}): {what}"));
        }
    }

    fn variables(&mut self, uses: &Uses) {
        let used = uses.fields.iter().filter(|((owner, _), _)| *owner == Object::Environment);
        let mut begun = false;
        for ((_, name), places) in used {
            if !begun {
                self.heading("variables of the job's environment (job_desc.environment)");
                begun = true;
            }
            let places = self.reads_and_writes(places);
            self.row(name, &places, "");
        }
    }

    fn slurm(&mut self, uses: &Uses) {
        let mut rows = Vec::new();
        for ((_, name), places) in
            uses.fields.iter().filter(|((owner, _), _)| *owner == Object::Slurm)
        {
            let function = FUNCTIONS.iter().find(|function| function.name == name);
            let constant = CONSTANTS.iter().find(|constant| constant.name == name);
            let error = errno::ERRORS.iter().find(|error| error.name == name);
            let releases = function.map(|of| of.releases).or(constant.map(|of| of.releases));
            let releases = releases.or(error.map(|error| error.releases));
            let is_there = releases.is_some_and(|releases| releases.has(self.release))
                && error.is_none_or(|error| error.is_in_scripts(self.release));
            let served = SERVED.iter().find(|(known, _)| known == name);
            let how = match (served, constant, error) {
                (Some((_, how)), _, _) if is_there => (*how).to_owned(),
                (_, Some(constant), _) if is_there => constant.value.to_string(),
                (_, _, Some(error)) if is_there => format!("{}: {}", error.code, error.text),
                _ if name == "CLUSTER_NAME" => "the key cluster of [plugins.lua]".to_owned(),
                _ => {
                    let why = match (releases, error) {
                        (Some(_), Some(error)) if error.releases.has(self.release) => {
                            format!(" in {}; scripts know it since 23.02", self.release)
                        }
                        (Some(releases), _) => {
                            format!(" in {}; it is there {releases}", self.release)
                        }
                        (None, _) => {
                            let known = FUNCTIONS.iter().map(|function| function.name);
                            let known = known.chain(CONSTANTS.iter().map(|of| of.name));
                            let errors = errno::ERRORS.iter().map(|error| error.name);
                            let meant = nearest(name, known.chain(errors));
                            let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
                            meant.unwrap_or_default()
                        }
                    };
                    let text = format!("slurm.{name}: no such name{why}");
                    self.problem(&places.read, &text);
                    self.problem(&places.written, &text);
                    continue;
                }
            };
            rows.push((name, self.lines(&places.read), how));
        }
        if !rows.is_empty() {
            self.heading("names of slurm");
        }
        for (name, places, how) in rows {
            self.row(name, &places, &how);
        }
    }

    fn library(&mut self, uses: &Uses, library: &BTreeSet<String>) {
        let mut begun = false;
        let defines = DEFINING.iter().any(|name| uses.called.contains_key(*name));
        for (name, places) in &uses.called {
            let is_there = library.contains(name) || uses.extended.contains(name);
            let known = ABSENT.iter().any(|(known, _)| known == name);
            if !is_there && !known && !defines {
                let newer = name.starts_with("table.").then_some("; it is of Lua 5.2 and later");
                let text = format!("{name}: no such function{}", newer.unwrap_or_default());
                self.problem(places, &text);
            }
            if let Some((_, how)) = ABSENT.iter().find(|(known, _)| known == name) {
                self.problem(places, &format!("{name}: {how}"));
            }
            let Some((_, how)) = LIBRARY.iter().find(|(known, _)| known == name) else { continue };
            if !begun {
                self.heading("functions of Lua");
                begun = true;
            }
            let places = self.lines(places);
            self.row(name, &places, how);
        }
    }

    fn modules(&mut self, uses: &Uses) {
        if !uses.modules.is_empty() {
            self.heading("modules");
        }
        for (name, places) in &uses.modules {
            let lines = self.lines(places);
            let served = MODULES.iter().find(|module| module.name == name);
            match (module_path(&self.directory, name), served) {
                (Some(path), _) => self.row(name, &lines, &path.display().to_string()),
                (None, Some(module)) => {
                    let how = format!("served: {}", module.members.join(", "));
                    self.row(name, &lines, &how);
                }
                (None, None) => {
                    let text = format!(
                        "require(\"{name}\"): not beside the script; it must be Lua, since modules written in C can't be loaded"
                    );
                    self.row(name, &lines, "not beside the script");
                    self.problem(places, &text);
                }
            }
        }
        for ((module, member), places) in &uses.members {
            let served = MODULES.iter().find(|served| served.name == module);
            if !served.is_some_and(|served| served.members.contains(&member.as_str())) {
                self.problem(places, &format!("{module}.{member}: not served"));
            }
        }
    }

    /// What changes its meaning in another release.
    fn changes(&mut self, uses: &Uses, to: Release) {
        let changes = changes(uses, self.release, to);
        if changes.is_empty() {
            self.heading(&format!("nothing changes from {} to {to}", self.release));
            return;
        }
        self.heading(&format!("what changes from {} to {to}", self.release));
        for (place, text) in &changes {
            let line = match place {
                Some(place) => format!("  line {}: {text}", self.line(*place)),
                None => format!("  {text}"),
            };
            let _ = writeln!(self.text, "{line}");
        }
    }

    fn finish(mut self) -> (String, bool) {
        let problems = std::mem::take(&mut self.problems);
        let title = match problems.len() {
            0 => "everything that the script uses is served".to_owned(),
            count => format!("{} to look at", plural(count as u64, "thing")),
        };
        self.heading(&title);
        for (place, text) in &problems {
            if place.line == 0 {
                let _ = writeln!(self.text, "  {text}");
            } else {
                let _ = writeln!(self.text, "  line {}: {text}", self.line(*place));
            }
        }
        (self.text, problems.is_empty())
    }
}

/// Where a field of the request is stored here.
fn served<T>(field: &Field<T>) -> String {
    let view = field.view_of.first().map(|of| format!("as {of}; "));
    let place = match Where::for_field(field.name) {
        Some(Where::Jobspec(place)) => format!("in the jobspec: {place}"),
        Some(Where::Urgency) => "the urgency of the job".to_owned(),
        Some(Where::Request) => "comes with the request".to_owned(),
        _ => "kept in the jobspec; nothing here acts on it".to_owned(),
    };
    format!("{}{place}", view.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is to be looked at in a script whose `slurm_job_submit` has this body.
    fn found(release: Release, body: &str) -> Vec<String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("job_submit.lua");
        let functions = format!(
            "function slurm_job_submit(job_desc, part_list, uid) {body}\nend\n\
             function slurm_job_modify() return slurm.SUCCESS end\n"
        );
        std::fs::write(&file, functions).unwrap();
        let args = ExplainArgs { file, from: None, config_path: None, to: None };
        let options = Options { release, ..Options::default() };
        let (text, good) = explain(&args, &options).unwrap();
        let lines: Vec<String> = text
            .lines()
            .filter_map(|line| Some(line.strip_prefix("  line 1: ")?.to_owned()))
            .collect();
        assert_eq!(good, lines.is_empty(), "{text}");
        lines
    }

    #[test]
    fn what_would_fail_is_named_before() {
        for (body, problem) in [
            (
                "job_desc.environment.A = nil",
                "job_desc.environment.A: the script fails here: string expected, got nil; a variable can't be unset",
            ),
            (
                "job_desc.account = nil",
                "job_desc.account: the script fails here: string expected, got nil; \"\" clears it",
            ),
            (
                "job_desc.requeue = true",
                "job_desc.requeue: the script fails here: number expected, got boolean",
            ),
            (
                "job_desc.time_limit = '1:00'",
                "job_desc.time_limit: the script fails here: number expected, got string",
            ),
            ("return util_check(1)", "util_check: no such function"),
            (
                "return table.unpack({})",
                "table.unpack: no such function; it is of Lua 5.2 and later",
            ),
            ("local p = require 'posix' p.fork()", "posix.fork: not served"),
            (
                "setmetatable(job_desc, {})",
                "setmetatable(job_desc): this takes its fields away, as in Slurm",
            ),
        ] {
            assert_eq!(found(Release::V26_05, body), [problem], "{body}");
        }
    }

    #[test]
    fn what_lua_takes_is_not_named() {
        for body in [
            "job_desc.nice, job_desc.min_nodes = '0x10', ' 2 '",
            "check(job_desc) end function check(d) if d then return check() end",
        ] {
            assert_eq!(found(Release::V26_05, body), Vec::<String>::new(), "{body}");
        }
        assert_eq!(found(Release::V26_05, "job_desc.nice = '0x'").len(), 1);
    }

    #[test]
    fn the_configuration_says_the_release_and_the_version_of_lua() {
        let config =
            serde_json::json!({"plugins": {"lua": {"slurm-version": "24.11", "lua": "5.4"}}});
        let options = configured(&config).unwrap();
        assert_eq!((options.release, options.version), (Release::V24_11, Version::Lua54));
        let options = configured(&serde_json::Value::Null).unwrap();
        assert_eq!((options.release, options.version), (Release::NEWEST, Version::Lua51));
    }

    #[test]
    fn what_a_release_lacks_is_named_with_those_that_have_it() {
        let body = "return job_desc.power_flags or slurm.get_qos_priority('x')";
        let gone = "job_desc.power_flags: no such field in 24.11; it is there until 23.11";
        assert_eq!(found(Release::V24_11, body), [gone]);
        let missing = "slurm.get_qos_priority: no such name in 22.05; it is there since 24.11";
        assert_eq!(found(Release::V22_05, body), [missing]);
        let error = "slurm.ESLURM_INVALID_QOS: no such name in 22.05; scripts know it since 23.02";
        assert_eq!(found(Release::V22_05, "return slurm.ESLURM_INVALID_QOS"), [error]);
    }

    #[test]
    fn what_is_served_is_not_to_be_looked_at() {
        let body = "local cjson, t = require('cjson'), {}
            function string.trim(s) return s end
            job_desc.time_limit = '60'
            job_desc.comment = cjson.encode({ job_desc.name, string.trim('x') })
            for name, part in pairs(part_list) do t[name] = part.max_time end
            return slurm.ESLURM_INVALID_QOS";
        assert_eq!(found(Release::V26_05, body), Vec::<String>::new());
    }
}
