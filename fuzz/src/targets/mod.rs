//! The table of targets.
//!
//! | file | whose bytes |
//! |---|---|
//! | `values` | ids, durations, names: what users type as one word |
//! | `sets` | idsets, hostlists, task maps, resource sets and constraints |
//! | `requests` | jobspecs, shapes, dependencies and job arrays |
//! | `logs` | eventlogs |
//! | `wire` | what comes through sockets |
//! | `configuration` | configuration files |
//! | `scripts` | scripts, and what commands are given |
//! | `files` | archives, packs of output, lists of jobs |

mod configuration;
mod files;
mod logs;
mod requests;
mod scripts;
mod sets;
mod values;
mod wire;

/// A parser of foreign bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    /// Its name, and that of its folder in `corpus/`.
    pub name: &'static str,
    /// Gives it one input. Panics if something doesn't hold that must.
    pub run: fn(&[u8]),
    /// How many bytes of memory it may take beside 64 times the input: what it needs for any input, however short.
    pub memory: usize,
}

/// Room for a few values and error messages.
const SMALL: usize = 128 << 10;

/// The largest value of an archive, which a few compressed bytes may have.
const VALUE: usize = 1 << 30;

/// The indexes of the largest array, each apart from the others.
const INDEXES: usize = 64 << 20;

/// An engine with plugins, which is started to check a configuration.
const ENGINE: usize = 16 << 20;

macro_rules! targets {
    ($($name:literal: $run:path, $memory:expr;)*) => {
        /// All targets.
        pub const TARGETS: &[Target] =
            &[$(Target { name: $name, run: $run, memory: $memory }),*];
    };
}

targets! {
    "accounting": files::accounting, SMALL;
    "archive": files::tar, SMALL;
    "archive-compressed": files::compressed_tar, VALUE;
    "array-file": scripts::array_file, INDEXES;
    "config-check": configuration::checked, ENGINE;
    "config-setting": configuration::setting, SMALL;
    "config-toml": configuration::toml, SMALL;
    "constraint": sets::constraint, SMALL;
    "constraint-query": sets::constraint_query, SMALL;
    "dependency": requests::dependency, SMALL;
    "directives": scripts::directives, SMALL;
    "duration": values::duration, SMALL;
    "elements": requests::elements, SMALL;
    "eventlog": logs::eventlog, SMALL;
    "format": scripts::format, SMALL;
    "hostlist": sets::hostlist, SMALL;
    "http": wire::http, SMALL;
    "id": values::id, SMALL;
    "idset": sets::idset, SMALL;
    "invitation": wire::invitation, SMALL;
    "jobspec": requests::jobspec, SMALL;
    "lua": scripts::lua, SMALL;
    "lua-document": scripts::lua_document, SMALL;
    "lua-pattern": scripts::lua_pattern, SMALL;
    "node-channel": wire::node_channel, SMALL;
    "outer-line": files::outer_line, SMALL;
    "output-pack": files::output_pack, SMALL;
    "pmi": wire::pmi, SMALL;
    "pmi-launcher": wire::pmi_launcher, SMALL;
    "requests": wire::requests, SMALL;
    "request-header": wire::header, SMALL;
    "resource-set": sets::resource_set, SMALL;
    "response": wire::response, SMALL;
    "sbatch": scripts::sbatch, SMALL;
    "shape": requests::shape, SMALL;
    "shepherd-message": wire::shepherd_message, SMALL;
    "shepherd-request": wire::shepherd_request, SMALL;
    "swf": files::swf, SMALL;
    "taskmap": sets::taskmap, SMALL;
    "time": scripts::time, SMALL;
    "word": values::word, SMALL;
    "words": scripts::words, SMALL;
}

/// The target with this name.
#[must_use]
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
