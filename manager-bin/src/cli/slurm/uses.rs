//! What a `job_submit.lua` uses, as far as its text shows it. See [`walk`](super::walk) for how names are followed.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::PathBuf;

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
    pub(super) fn element(self) -> Option<Self> {
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
    /// The name by which other files require it.
    pub(super) module: Option<String>,
    pub(super) source: Vec<u8>,
}

/// A literal that is written to a field.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Literal {
    Nil,
    Boolean,
    Table,
    Text(String),
}

type ByName = BTreeMap<String, BTreeSet<Place>>;

/// All that a script uses.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// The functions for the manager that the script defines.
    pub(super) entries: BTreeSet<String>,
    /// Fields of the request and of records, variables of the environment, and names of `slurm`.
    pub(super) fields: BTreeMap<(Object, String), Places>,
    /// Literals that are written to fields.
    pub(super) literals: BTreeMap<(Object, String, Literal), BTreeSet<Place>>,
    /// Fields to which a value is written that may be nil, without an earlier look at it.
    pub(super) maybe_nil: BTreeMap<(Object, String), BTreeSet<Place>>,
    /// Fields whose name is computed.
    pub(super) computed: BTreeSet<(Object, Place)>,
    /// Functions that the script calls without defining them, such as `unpack` and `os.exit`.
    pub(super) called: ByName,
    /// Functions that the script adds to tables of Lua, such as `string.trim`.
    pub(super) extended: BTreeSet<String>,
    /// Objects that are the first argument of such a function.
    pub(super) passed: BTreeMap<(Object, String), BTreeSet<Place>>,
    /// Modules that are required.
    pub(super) modules: ByName,
    /// Members of modules that the manager serves, by the name of the module.
    pub(super) members: BTreeMap<(String, String), BTreeSet<Place>>,
    /// Whether `slurm_job_modify` may send messages to the user.
    pub(super) modify_tells: bool,
    /// Texts of the script.
    pub(super) texts: ByName,
    /// Where the reading of a file has ended before its end.
    pub(super) unread: BTreeSet<Place>,
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
