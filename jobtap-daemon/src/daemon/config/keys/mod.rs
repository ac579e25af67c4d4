//! Every table and key of the configuration that Flux or this manager knows, with what it does here. This one list
//! serves to judge a configuration, to report at a reload which changes wait for a restart, and to make the guide's
//! page.
//!
//! A key that is in none of the tables is a mistake, unless a plugin reads it.

mod flux;
mod judge;
mod own;
mod page;
mod related;
mod table;
mod waiting;

pub use judge::Judgement;
pub(in crate::daemon) use judge::{PluginState, Plugins, judge};
pub use page::page;
pub use table::{By, Content, Fate, Key, Reader, Table, TakesEffect};
pub(super) use waiting::{Missing, waiting};

/// All tables, in the order of the guide's page.
pub fn tables() -> impl Iterator<Item = &'static Table> {
    flux::TABLES.iter().chain(own::TABLES).chain(related::TABLES)
}

/// The names on the path to a table, outermost first.
fn parts(table: &Table) -> impl Iterator<Item = &'static str> {
    table.name.split('.')
}

/// Whether the path to a table begins with `path`.
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

/// Returns the known names in the table at `path`, of keys and of tables.
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
