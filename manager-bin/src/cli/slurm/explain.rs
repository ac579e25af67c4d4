//! `slurm explain`: says what a `job_submit.lua` uses, and how each item is served here.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use jobtap_builtins::lua::{Options, Script};
use jobtap_core::slurm::{
    CONSTANTS, Field, JobDescriptor, JobRecord, Partition, Place as Where, Release, Reservation,
    errno,
};
use jobtap_core::suggest::nearest;

use super::uses::{File, Object, Place, Places, Uses, files, module_path};
use crate::cli::common::message::{CliError, plural, system_text};

/// Options and arguments of `slurm explain`.
#[derive(Debug, clap::Args)]
pub(crate) struct ExplainArgs {
    /// The script
    #[arg(value_name = "FILE")]
    file: PathBuf,
}

/// Returns the report, and whether everything that the script uses is served.
pub(super) fn explain(args: &ExplainArgs) -> Result<(String, bool), CliError> {
    let path = std::path::absolute(&args.file).unwrap_or_else(|_| args.file.clone());
    let read = |error: std::io::Error| {
        CliError::failure(format!("{}: {}", args.file.display(), system_text(&error)))
    };
    let files = files(&path).map_err(read)?;
    let mut report = Report::new(&path, &files);
    if let Err(error) = Script::check(&path, &Options::default()) {
        report.problems.insert((Place { file: 0, line: 0 }, error.to_string()));
    }
    report.all(&Uses::read(&files));
    Ok(report.finish())
}

/// Functions of `slurm`, and what they do here.
const FUNCTIONS: &[(&str, &str)] = &[
    ("error", "the manager's log, level error"),
    ("from_json", "reads JSON"),
    ("from_yaml", "reads YAML"),
    ("get_qos_priority", "the number in the table qos_priority of [plugins.lua]; else nothing"),
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
    ("to_yaml", "writes YAML"),
    ("user_msg", "a message to the user"),
];

/// Functions of Lua that need a remark.
const LIBRARY: &[(&str, &str)] = &[
    ("arg", "Lua 5.1; served"),
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

struct Report<'f> {
    files: &'f [File],
    directory: PathBuf,
    text: String,
    /// What is not served, and where.
    problems: BTreeSet<(Place, String)>,
}

impl<'f> Report<'f> {
    fn new(path: &Path, files: &'f [File]) -> Self {
        let directory = path.parent().map(Path::to_owned).unwrap_or_default();
        Self { files, directory, text: String::new(), problems: BTreeSet::new() }
    }

    fn all(&mut self, uses: &Uses) {
        for name in ["slurm_job_submit", "slurm_job_modify"] {
            if !uses.functions.contains_key(name) {
                let problem = format!("the function {name} is missing");
                self.problems.insert((Place { file: 0, line: 0 }, problem));
            }
        }
        self.fields(uses, Object::Description, JobDescriptor::FIELDS);
        self.variables(uses);
        self.fields(uses, Object::Job, JobRecord::FIELDS);
        self.fields(uses, Object::Partition, Partition::FIELDS);
        self.fields(uses, Object::Reservation, Reservation::FIELDS);
        self.slurm(uses);
        self.library(uses);
        self.modules(uses);
        for (object, place) in &uses.computed {
            let what = format!("{object}[..]: the name of the field is computed; not checked");
            self.problems.insert((*place, what));
        }
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
            let visible = field.filter(|field| field.readable.any() || field.writable.any());
            let Some(field) = visible else {
                let known = table.iter().filter(|field| field.readable.any());
                let meant = nearest(name, known.map(|field| field.name));
                let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
                let text = format!("{object}.{name}: no such field{}", meant.unwrap_or_default());
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
            if object == Object::Description && !field.writable.any() {
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
            if !field.is_in(Release::OLDEST) {
                how.push(field.readable.to_string());
            }
            let places = self.reads_and_writes(places);
            self.row(name, &places, &how.join("; "));
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
            let function = FUNCTIONS.iter().find(|(known, _)| known == name);
            let constant = CONSTANTS.iter().find(|constant| constant.name == name);
            let error = errno::ERRORS.iter().find(|e| e.name == name);
            let how = match (function, constant, error) {
                (Some((_, how)), _, _) => (*how).to_owned(),
                (_, Some(constant), _) => constant.value.to_string(),
                (_, _, Some(error)) => format!("{}: {}", error.code, error.text),
                _ if name == "CLUSTER_NAME" => "the key cluster of [plugins.lua]".to_owned(),
                _ => {
                    let known = FUNCTIONS.iter().map(|(name, _)| *name);
                    let known = known.chain(CONSTANTS.iter().map(|constant| constant.name));
                    let errors = errno::ERRORS.iter().map(|error| error.name);
                    let meant = nearest(name, known.chain(errors));
                    let meant = meant.map(|meant| format!("; did you mean \"{meant}\"?"));
                    let text = format!("slurm.{name}: no such name{}", meant.unwrap_or_default());
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

    fn library(&mut self, uses: &Uses) {
        let mut begun = false;
        for (name, places) in &uses.library {
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
            match module_path(&self.directory, name) {
                Some(path) => self.row(name, &lines, &path.display().to_string()),
                None => {
                    let text = format!(
                        "require(\"{name}\"): not beside the script; it must be Lua, since modules written in C can't be loaded"
                    );
                    self.row(name, &lines, "not beside the script");
                    self.problem(places, &text);
                }
            }
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
