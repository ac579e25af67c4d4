//! What a `job_submit.lua` uses, as far as its text shows it.
//!
//! The text is not run. Names are followed from the parameters of `slurm_job_submit` and
//! `slurm_job_modify` through assignments, loops and calls of the script's own functions, over all its
//! files and without regard to scopes: a field that is named too often is better than one that is missed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use crate::files::input;
use jobtap_builtins::lua::token::{Kind, Tokens};

/// What a name of a script stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Object {
    Description,
    Environment,
    Job,
    Partition,
    Reservation,
    Slurm,
    Partitions,
    Jobs,
    Reservations,
}

impl Object {
    /// What an element of it stands for, if it is a list.
    fn element(self) -> Option<Self> {
        match self {
            Self::Partitions => Some(Self::Partition),
            Self::Jobs => Some(Self::Job),
            Self::Reservations => Some(Self::Reservation),
            _ => None,
        }
    }
}

/// A place in a file of the script.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    /// The index of the file.
    pub(super) file: usize,
    pub(super) line: usize,
}

/// Where something is read and written.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Places {
    pub(super) read: BTreeSet<Place>,
    pub(super) written: BTreeSet<Place>,
}

/// A file of the script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) source: Vec<u8>,
}

/// A function that the script defines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    pub(super) parameters: Vec<String>,
    pub(super) place: Place,
}

/// All that a script uses.
#[derive(Debug, Default)]
pub(super) struct Uses {
    pub(super) functions: BTreeMap<String, Function>,
    /// Fields of the request and of records, variables of the environment, and names of `slurm`.
    pub(super) fields: BTreeMap<(Object, String), Places>,
    /// Fields whose name is computed.
    pub(super) computed: BTreeSet<(Object, Place)>,
    /// Functions of Lua, such as `unpack` and `os.exit`.
    pub(super) library: BTreeMap<String, BTreeSet<Place>>,
    /// Modules that are required.
    pub(super) modules: BTreeMap<String, BTreeSet<Place>>,
}

impl Uses {
    /// Reads all files of a script.
    pub(super) fn read(files: &[File]) -> Self {
        let tokens: Vec<Tokens<'_>> = files.iter().map(|file| Tokens::new(&file.source)).collect();
        let mut finder = Finder::default();
        for (file, tokens) in tokens.iter().enumerate() {
            finder.functions(file, tokens);
        }
        for (name, objects) in ENTRIES {
            finder.bind_parameters(name, &objects.map(Some));
        }
        // Each round can find more names for the next one. Their number is bounded.
        loop {
            let known = finder.names.len();
            for (file, tokens) in tokens.iter().enumerate() {
                finder.follow(file, tokens);
            }
            if finder.names.len() == known {
                return finder.uses;
            }
        }
    }
}

/// Reads a script, and the files beside it that it requires.
///
/// # Errors
/// The script itself can't be read.
pub(super) fn files(path: &Path) -> std::io::Result<Vec<File>> {
    let mut files = vec![File { path: path.to_owned(), source: input::bytes(path)? }];
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut next = 0;
    while let Some(file) = files.get(next) {
        for module in Uses::read(std::slice::from_ref(file)).modules.into_keys() {
            let Some(path) = module_path(directory, &module) else { continue };
            if files.iter().all(|file| file.path != path)
                && let Ok(source) = input::bytes(&path)
            {
                files.push(File { path, source });
            }
        }
        next += 1;
    }
    Ok(files)
}

/// The file of a module beside the script.
pub(super) fn module_path(directory: &Path, module: &str) -> Option<PathBuf> {
    let name = module.replace('.', "/");
    let places = [format!("{name}.lua"), format!("{name}/init.lua")];
    places.iter().map(|place| directory.join(place)).find(|path| path.is_file())
}

/// The functions that the manager calls, and what it gives them.
const ENTRIES: [(&str, [Object; 3]); 2] = [
    ("slurm_job_submit", [Object::Description, Object::Partitions, Object::Slurm]),
    ("slurm_job_modify", [Object::Description, Object::Job, Object::Partitions]),
];

#[derive(Default)]
struct Finder {
    names: BTreeMap<String, Object>,
    uses: Uses,
}

/// What an expression such as `job_desc.environment` stands for.
struct Chain {
    object: Option<Object>,
    /// The index of the token after it.
    end: usize,
}

impl Finder {
    /// Notes the functions of a file and their parameters.
    fn functions(&mut self, file: usize, tokens: &Tokens<'_>) {
        for index in 0..tokens.list().len() {
            if !tokens.is(index, "function") {
                continue;
            }
            // `function a.b:c(`, or `c = function(`.
            let mut at = index + 1;
            let mut name = None;
            while let Some(part) = tokens.name(at) {
                name = Some(part);
                at += if tokens.is(at + 1, ".") || tokens.is(at + 1, ":") { 2 } else { 1 };
            }
            let before = index.checked_sub(1).filter(|before| tokens.is(*before, "="));
            let assigned = before.and_then(|equals| tokens.name(equals.checked_sub(1)?));
            let Some(name) = name.or(assigned).filter(|_| tokens.is(at, "(")) else { continue };
            let mut parameters = Vec::new();
            while let Some(parameter) = tokens.name(at + 1) {
                parameters.push(parameter.to_owned());
                at += 2;
                if !tokens.is(at, ",") {
                    break;
                }
            }
            let place = place(file, tokens, index);
            self.uses.functions.insert(name.to_owned(), Function { parameters, place });
        }
    }

    fn bind(&mut self, name: &str, object: Object) {
        if name != "_" {
            self.names.entry(name.to_owned()).or_insert(object);
        }
    }

    /// Records what the arguments of a function stand for.
    fn bind_parameters(&mut self, function: &str, arguments: &[Option<Object>]) {
        let Some(function) = self.uses.functions.get(function) else { return };
        for (name, object) in function.parameters.clone().iter().zip(arguments) {
            // The third parameter of `slurm_job_submit` is a number; its entry only fills the array.
            if let Some(object) = object.filter(|object| *object != Object::Slurm) {
                self.bind(name, object);
            }
        }
    }

    /// Follows the names that are known so far through a file.
    fn follow(&mut self, file: usize, tokens: &Tokens<'_>) {
        for index in 0..tokens.list().len() {
            if tokens.is(index, "for") {
                self.follow_loop(file, tokens, index);
            }
            let after_dot = index
                .checked_sub(1)
                .is_some_and(|before| tokens.is(before, ".") || tokens.is(before, ":"));
            let Some(name) = tokens.name(index).filter(|_| !after_dot) else { continue };
            self.library(file, tokens, index);
            if tokens.is(index + 1, "=") {
                let chain = self.chain(file, tokens, index + 2);
                let whole = !continues(tokens, chain.end);
                if let Some(object) = chain.object.filter(|_| whole) {
                    self.bind(name, object);
                }
            }
            let chain = self.chain(file, tokens, index);
            if let Some(called) = chain.end.checked_sub(1).and_then(|last| tokens.name(last))
                && tokens.is(chain.end, "(")
            {
                let arguments = self.arguments(file, tokens, chain.end);
                self.bind_parameters(called, &arguments);
            }
        }
    }

    /// `for key, value in pairs(list)`.
    fn follow_loop(&mut self, file: usize, tokens: &Tokens<'_>, index: usize) {
        let (Some(_), Some(value)) = (tokens.name(index + 1), tokens.name(index + 3)) else {
            return;
        };
        let iterates = tokens.is(index + 2, ",") && tokens.is(index + 4, "in");
        let list = match tokens.name(index + 5) {
            Some("pairs" | "ipairs") if tokens.is(index + 6, "(") => index + 7,
            Some("next") if tokens.is(index + 6, ",") => index + 7,
            _ => return,
        };
        if iterates
            && let Some(object) = self.chain(file, tokens, list).object
            && let Some(element) = object.element()
        {
            self.bind(value, element);
        }
    }

    /// What the arguments of a call stand for.
    fn arguments(&mut self, file: usize, tokens: &Tokens<'_>, open: usize) -> Vec<Option<Object>> {
        let mut arguments = Vec::new();
        let (mut depth, mut index, mut begins) = (0_usize, open, true);
        while tokens.get(index).is_some() {
            if ["(", "{", "["].iter().any(|symbol| tokens.is(index, symbol)) {
                depth += 1;
                begins = depth == 1;
            } else if [")", "}", "]"].iter().any(|symbol| tokens.is(index, symbol)) {
                depth -= 1;
                if depth == 0 {
                    break;
                }
            } else if depth == 1 && tokens.is(index, ",") {
                begins = true;
            } else if depth == 1 && begins {
                let chain = self.chain(file, tokens, index);
                let whole = tokens.is(chain.end, ",") || tokens.is(chain.end, ")");
                arguments.push(chain.object.filter(|_| whole));
                begins = false;
            }
            index += 1;
        }
        arguments
    }

    /// Reads a name with the fields and indexes after it, and records the fields.
    fn chain(&mut self, file: usize, tokens: &Tokens<'_>, start: usize) -> Chain {
        let Some(name) = tokens.name(start) else { return Chain { object: None, end: start } };
        let slurm = (name == "slurm").then_some(Object::Slurm);
        let mut object = slurm.or_else(|| self.names.get(name).copied());
        let mut end = start + 1;
        loop {
            let (key, after) = if tokens.is(end, ".") {
                match tokens.name(end + 1) {
                    Some(key) => (Some(key.to_owned()), end + 2),
                    None => return Chain { object, end },
                }
            } else if tokens.is(end, "[") {
                if object.is_none() {
                    return Chain { object, end };
                }
                if tokens.is(end + 2, "]") && tokens.plain_string(end + 1).is_some() {
                    (tokens.plain_string(end + 1).map(str::to_owned), end + 3)
                } else {
                    // `follow` reaches the tokens in the brackets by itself.
                    (None, closing(tokens, end))
                }
            } else {
                return Chain { object, end };
            };
            let written = tokens.is(after, "=");
            let here = place(file, tokens, end);
            object = match (object, key.as_deref()) {
                (None, _) => None,
                (Some(Object::Description), Some("environment")) if !written => {
                    Some(Object::Environment)
                }
                (Some(Object::Slurm), Some("jobs")) => Some(Object::Jobs),
                (Some(Object::Slurm), Some("reservations")) => Some(Object::Reservations),
                (Some(list), _) if list.element().is_some() => list.element(),
                (Some(owner), Some(key)) => {
                    let places = self.uses.fields.entry((owner, key.to_owned())).or_default();
                    let set = if written { &mut places.written } else { &mut places.read };
                    set.insert(here);
                    None
                }
                (Some(owner), None) => {
                    self.uses.computed.insert((owner, here));
                    None
                }
            };
            end = after;
        }
    }

    /// Notes functions of Lua's library and required modules.
    fn library(&mut self, file: usize, tokens: &Tokens<'_>, index: usize) {
        let Some(name) = tokens.name(index) else { return };
        let here = place(file, tokens, index);
        let member = tokens.name(index + 2).filter(|_| tokens.is(index + 1, "."));
        let full = member.map_or_else(|| name.to_owned(), |member| format!("{name}.{member}"));
        // A parameter or field of that name is not a function of Lua.
        let called = tokens.is(index + 1, "(") || member.is_some() || name == "arg";
        if called && !self.uses.functions.contains_key(name) {
            self.uses.library.entry(full).or_default().insert(here);
        }
        if name == "require" {
            let argument = if tokens.is(index + 1, "(") { index + 2 } else { index + 1 };
            if let Some(module) = tokens.plain_string(argument) {
                self.uses.modules.entry(module.to_owned()).or_default().insert(here);
            }
        }
    }
}

/// Whether the expression continues after a chain, so that its value is a different one.
fn continues(tokens: &Tokens<'_>, end: usize) -> bool {
    let operators =
        ["(", "{", ":", ".", "[", "..", "+", "-", "*", "/", "%", "^", "and", "or", "=="];
    let call = tokens.get(end).is_some_and(|token| matches!(token.kind, Kind::Quoted | Kind::Long));
    call || operators.iter().any(|operator| tokens.is(end, operator))
}

/// The token after the bracket that closes the one at `open`.
fn closing(tokens: &Tokens<'_>, open: usize) -> usize {
    let mut depth = 0_usize;
    let mut index = open;
    while tokens.get(index).is_some() {
        if tokens.is(index, "[") {
            depth += 1;
        } else if tokens.is(index, "]") {
            depth -= 1;
            if depth == 0 {
                return index + 1;
            }
        }
        index += 1;
    }
    index
}

fn place(file: usize, tokens: &Tokens<'_>, index: usize) -> Place {
    Place { file, line: tokens.get(index).map_or(0, |token| token.line) }
}

impl fmt::Display for Object {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Description => "job_desc",
            Self::Environment => "job_desc.environment",
            Self::Job => "job_rec",
            Self::Partition => "part_list",
            Self::Reservation => "slurm.reservations",
            Self::Slurm => "slurm",
            Self::Partitions => "part_list",
            Self::Jobs => "slurm.jobs",
            Self::Reservations => "slurm.reservations",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(source: &str) -> Uses {
        Uses::read(&[File { path: "x.lua".into(), source: source.as_bytes().to_vec() }])
    }

    /// The names of the fields of an object, those that are written with `=` after them.
    fn fields(uses: &Uses, object: Object) -> Vec<String> {
        let of = uses.fields.iter().filter(|((owner, _), _)| *owner == object);
        let shown = |((_, name), places): (&(Object, String), &Places)| {
            format!("{name}{}", if places.written.is_empty() { "" } else { "=" })
        };
        of.map(shown).collect()
    }

    #[test]
    fn fields_are_found_by_the_position_of_parameters() {
        let uses = uses(
            "function slurm_job_submit(jd, parts, uid)
               if jd.account == nil then jd.qos = 'x' end
               jd['comment'] = jd.name .. parts['batch'].max_time
               for n, p in pairs(parts) do if p.flag_default == 1 then jd.partition = n end end
               jd.environment.A = jd.environment['B']
               return slurm.SUCCESS
             end
             slurm_job_modify = function(d, rec, ps, uid) d.time_limit = rec.time_limit end",
        );
        assert_eq!(
            fields(&uses, Object::Description),
            ["account", "comment=", "name", "partition=", "qos=", "time_limit="]
        );
        assert_eq!(fields(&uses, Object::Environment), ["A=", "B"]);
        assert_eq!(fields(&uses, Object::Partition), ["flag_default", "max_time"]);
        assert_eq!(fields(&uses, Object::Job), ["time_limit"]);
        assert_eq!(fields(&uses, Object::Slurm), ["SUCCESS"]);
    }

    #[test]
    fn names_are_followed_through_calls_and_assignments() {
        let uses = uses(
            "local function check(job, list) return job.licenses and list.gpu.max_nodes end
             local M = {}
             function M.deep(x) local y = x y.reservation = 'r' end
             function slurm_job_submit(desc, parts)
               check(desc, parts)
               M.deep(desc)
               local jobs = slurm.jobs
               for id, j in pairs(jobs) do print(j.user_id) end
               return slurm.jobs['1'].job_state
             end",
        );
        assert_eq!(fields(&uses, Object::Description), ["licenses", "reservation="]);
        assert_eq!(fields(&uses, Object::Partition), ["max_nodes"]);
        assert_eq!(fields(&uses, Object::Job), ["job_state", "user_id"]);
    }

    #[test]
    fn computed_names_and_library_functions_are_noted() {
        let uses = uses(
            "local util = require 'util'
             require(\"posix\")
             function slurm_job_submit(job_desc)
               local f = 'x'
               job_desc[f] = job_desc[job_desc.name]
               os.exit(unpack({}))
             end",
        );
        assert_eq!(uses.computed.len(), 1);
        assert_eq!(fields(&uses, Object::Description), ["name"]);
        assert!(uses.library.contains_key("unpack") && uses.library.contains_key("os.exit"));
        assert_eq!(uses.modules.keys().collect::<Vec<_>>(), ["posix", "util"]);
    }

    #[test]
    fn a_broken_text_is_read_as_far_as_it_goes() {
        for source in
            ["function", "for", "x = ", "slurm.", "slurm_job_submit = function(", "a[b", "f(("]
        {
            uses(source);
        }
    }
}
