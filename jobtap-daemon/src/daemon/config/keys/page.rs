//! The page of the guide that says what each key does.

use std::fmt::Write;

use super::{By, Content, Fate, Key, Reader, Table, TakesEffect, tables};

const BEGIN: &str = "\
# Every table and key of the configuration

This page is made from the list by which the manager judges a configuration. It has every table and key of
`flux-config`(5) and its pages, of flux-sched's, and those of jobtap, with what becomes of each:

- **served**: it does here what its page says. *At the start* means that a new value takes effect when the manager
  restarts, and `jobtap config reload` says so by name.
- **no effect**: nothing here reads it. The start of the manager, `jobtap config check` and a reload that brings it say so
  once, with the reason. They say nothing about a value that asks for what happens anyway, such as `false`.
- **refused**: the manager doesn't start with it, and says what to do.

A key that is not in its table here is refused, with the one that was probably meant; a file that is shared with a newer
Flux may have further keys in tables that have no effect. So is a table whose name is a slip of one of these. Any other
table has no effect unless a plugin reads it, and that is said too.

Errors and warnings name the file and the line. A plugin's own keys are on the page of the
[plugin](policies.md); [Configuration](configuration.md) describes the keys of jobtap.
";

/// The page, in Markdown.
pub fn page() -> String {
    let mut text = BEGIN.to_owned();
    for table in tables() {
        // Writing to a String can't fail.
        let _ = write!(text, "\n{}", section(table));
    }
    text
}

fn section(table: &Table) -> String {
    let name = table.name.replace('*', "NAME");
    let mut text = match table.content {
        Content::Keys(Reader::Several, _) => format!("## `[[{name}]]`\n\n"),
        _ => format!("## `[{name}]`\n\n"),
    };
    let by = match table.by {
        By::Flux(page) => format!("Of {page}."),
        By::Jobtap => "jobtap's own.".to_owned(),
    };
    let _ = match &table.content {
        Content::Named(what) => writeln!(text, "{by} {what}."),
        Content::Idle { why, keys: [] } => {
            writeln!(text, "{by} **No effect**: {why}.")
        }
        Content::Idle { why, keys } => {
            let keys: Vec<String> = keys.iter().map(|key| format!("`{key}`")).collect();
            writeln!(text, "{by} **No effect**: {why}. Its keys: {}.", keys.join(", "))
        }
        Content::Keys(_, []) => writeln!(text, "{by} It has only tables."),
        Content::Keys(reader, keys) => {
            let plugin = match reader {
                Reader::Plugin(plugin) => {
                    format!(" The plugin `{plugin}` reads it, where it is loaded.")
                }
                Reader::List | Reader::ListOfTable | Reader::Itself | Reader::Several => {
                    String::new()
                }
            };
            let rows: String = keys.iter().map(row).collect();
            write!(text, "{by}{plugin}\n\n| key | here | |\n|---|---|---|\n{rows}")
        }
    };
    text
}

fn row(key: &Key) -> String {
    let (fate, note) = match &key.fate {
        Fate::Served { takes_effect: TakesEffect::AtOnce, note } => ("served", *note),
        Fate::Served { takes_effect: TakesEffect::AtStart, note } => {
            ("served, at the start", *note)
        }
        Fate::NoEffect { why, .. } => ("no effect", *why),
        Fate::Refused { instead } => ("refused", *instead),
    };
    let by = match key.by {
        None => String::new(),
        Some(By::Jobtap) => ", jobtap's own".to_owned(),
        Some(By::Flux(page)) => format!(", of {page}"),
    };
    format!("| `{}` | {fate}{by} | {note} |\n", key.name)
}
