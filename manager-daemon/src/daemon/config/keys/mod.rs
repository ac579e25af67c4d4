//! Every table and key of the configuration that Flux or this manager knows, with what becomes of it here: the one list
//! by which a configuration is judged, a reload says what waits for a restart, and the guide's page is made.
//!
//! A key that is in none of the tables is a mistake, unless a plugin reads it.

mod flux;
mod judge;
mod own;
mod page;
mod related;
mod waiting;

pub use judge::Judgement;
pub(in crate::daemon) use judge::{PluginState, Plugins, judge};
pub use page::page;
pub(super) use waiting::{Missing, waiting};

/// A table of the configuration.
#[derive(Debug)]
pub struct Table {
    /// Its name, with periods between the names of tables. `*` stands for a name that the site chooses.
    pub name: &'static str,
    /// Where its keys are documented.
    pub by: By,
    /// What becomes of what is in it.
    pub content: Content,
}

/// Whose documentation has a table or a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum By {
    /// A manual page of Flux's projects, section 5.
    Flux(&'static str),
    /// This guide.
    Jobtap,
}

/// What becomes of what is in a table.
#[derive(Debug)]
pub enum Content {
    /// Each key has its fate.
    Keys(Reader, &'static [Key]),
    /// Nothing here reads it, for one reason.
    Idle {
        /// Why, as the end of a sentence.
        why: &'static str,
        /// The keys that are known.
        keys: &'static [&'static str],
    },
    /// Its keys are names that the site chooses, and what reads the table checks them.
    Named(&'static str),
}

/// Who refuses the unknown keys of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Nobody else: this list does.
    List,
    /// This list, but for a value that is no table, which a reader of it refuses in Flux's words.
    ListOfTable,
    /// The part that reads the table as a whole, in Flux's words.
    Itself,
    /// This plugin, as long as it is loaded. Nobody reads the table without it.
    Plugin(&'static str),
}

/// A key of a table.
#[derive(Debug)]
pub struct Key {
    /// Its name in the table.
    pub name: &'static str,
    /// Whether Flux has it too.
    pub by: Option<By>,
    /// What becomes of it.
    pub fate: Fate,
}

/// What becomes of a key.
#[derive(Debug)]
pub enum Fate {
    /// It does what its documentation says.
    Served {
        /// When a new value takes effect.
        taken: Taken,
        /// What is to be known about it here; may be empty.
        note: &'static str,
    },
    /// Nothing here reads it.
    NoEffect {
        /// Why, as the end of a sentence.
        why: &'static str,
        /// Values, as JSON, that ask for what happens anyway. So do `false` and what is empty.
        fine: &'static [&'static str],
    },
    /// The manager doesn't start with it.
    Refused {
        /// What to do instead, as the end of a sentence.
        instead: &'static str,
    },
}

/// When a new value of a key takes effect.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Taken {
    /// When the configuration is loaded.
    AtOnce,
    /// At the next start of the manager.
    AtStart,
}

/// All tables, in the order of the guide's page.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    flux::TABLES.iter().chain(own::TABLES).chain(related::TABLES)
}

const fn served(name: &'static str, note: &'static str) -> Key {
    Key { name, by: None, fate: Fate::Served { taken: Taken::AtOnce, note } }
}

/// A key that is read at the start only.
const fn at_start(name: &'static str, note: &'static str) -> Key {
    Key { name, by: None, fate: Fate::Served { taken: Taken::AtStart, note } }
}

/// A key of jobtap's own in a table of Flux.
const fn own(key: Key) -> Key {
    Key { by: Some(By::Jobtap), ..key }
}

const fn no_effect(name: &'static str, why: &'static str) -> Key {
    no_effect_unless(name, &[], why)
}

/// A key without effect, of which these values ask for what happens anyway.
const fn no_effect_unless(
    name: &'static str,
    fine: &'static [&'static str],
    why: &'static str,
) -> Key {
    Key { name, by: None, fate: Fate::NoEffect { why, fine } }
}

const fn refused(name: &'static str, instead: &'static str) -> Key {
    Key { name, by: None, fate: Fate::Refused { instead } }
}

/// The names of tables that lead to one.
fn parts(table: &Table) -> impl Iterator<Item = &'static str> {
    table.name.split('.')
}

/// Whether the names that lead to a table, as far as `path` goes, are those of `path`.
fn begins_with(table: &Table, path: &[&str]) -> bool {
    let mut parts = parts(table);
    path.iter().all(|key| parts.next().is_some_and(|part| part == "*" || part == *key))
}

/// The table at a path.
fn table_at(path: &[&str]) -> Option<&'static Table> {
    tables().find(|table| parts(table).count() == path.len() && begins_with(table, path))
}

/// Whether there is a table at this path, or below it.
fn is_known(path: &[&str]) -> bool {
    tables().any(|table| begins_with(table, path))
}

/// The names that are known in the table at `path`: of keys, and of tables.
fn names_in(path: &[&str]) -> Vec<&'static str> {
    let mut names: Vec<&str> = match table_at(path).map(|table| &table.content) {
        Some(Content::Keys(_, keys)) => keys.iter().map(|key| key.name).collect(),
        Some(Content::Idle { keys, .. }) => keys.to_vec(),
        Some(Content::Named(_)) | None => Vec::new(),
    };
    for table in tables().filter(|table| begins_with(table, path)) {
        if let Some(name) = parts(table).nth(path.len()).filter(|name| *name != "*")
            && !names.contains(&name)
        {
            names.push(name);
        }
    }
    names
}
