//! Changes to a manifest's text, which keep its comments and its order.

use jobtap_core::suggest::nearest;
use toml_edit::{Array, ArrayOfTables, DocumentMut, Item, Table, Value};

use crate::error::{BuildError, EditError};
use crate::manifest::{Manifest, PluginEntry};

/// Adds a plugin's crate to the text of a manifest.
///
/// ```
/// use jobtap_builder::{Manifest, PluginEntry, add_plugin};
///
/// let entry = PluginEntry {
///     name: "deadline".into(),
///     version: Some("1".into()),
///     ..PluginEntry::default()
/// };
/// let text = add_plugin("# Ours.\n[manager]\nname = \"site\"\n", &entry).unwrap();
/// assert!(text.starts_with("# Ours.\n"));
/// assert_eq!(Manifest::parse("new", &text).unwrap().plugins, [entry]);
/// ```
///
/// # Errors
/// When the text is no manifest, has the crate already, or the entry is not valid.
pub fn add_plugin(text: &str, entry: &PluginEntry) -> Result<String, BuildError> {
    let manifest = Manifest::parse("manifest", text)?;
    if manifest.plugins.iter().any(|present| present.name == entry.name) {
        return Err(EditError::Present(entry.name.clone()).into());
    }
    let mut document = parse(text)?;
    let own = toml::to_string(entry).map_err(EditError::Unwritable)?;
    let mut table = parse(&own)?.as_table().clone();
    table.decor_mut().set_prefix("\n");
    plugins(&mut document)?.push(table);
    checked(document)
}

/// Removes a plugin's crate from the text of a manifest.
///
/// # Errors
/// When the text is no manifest or doesn't have the crate.
pub fn remove_plugin(text: &str, name: &str) -> Result<String, BuildError> {
    let manifest = Manifest::parse("manifest", text)?;
    let names = || manifest.plugins.iter().map(|entry| entry.name.as_str());
    if !names().any(|present| present == name) {
        let meant = nearest(name, names()).map(str::to_owned);
        return Err(EditError::Absent { name: name.to_owned(), meant }.into());
    }
    let mut document = parse(text)?;
    plugins(&mut document)?.retain(|table| table.get("name").and_then(Item::as_str) != Some(name));
    checked(document)
}

/// Includes a builtin, or leaves it out.
///
/// ```
/// use jobtap_builder::set_builtin;
///
/// let without = set_builtin("", ".priority-default", false).unwrap();
/// assert_eq!(without, "[manager]\nwithout = [\".priority-default\"]\n");
/// let with = set_builtin(&without, ".priority-default", true).unwrap();
/// assert_eq!(with, "[manager]\nwithout = []\n");
/// ```
///
/// # Errors
/// When the text is no manifest, or includes or leaves out the builtin already.
pub fn set_builtin(text: &str, name: &str, linked: bool) -> Result<String, BuildError> {
    let manifest = Manifest::parse("manifest", text)?.manager;
    let mut document = parse(text)?;
    // A manifest lists the builtins to link, or those to leave out.
    let (key, present) = match &manifest.builtins {
        Some(_) => ("builtins", linked),
        None => ("without", !linked),
    };
    let manager = document.entry("manager").or_insert_with(|| Item::Table(Table::new()));
    let list = manager
        .as_table_like_mut()
        .map(|table| table.entry(key).or_insert_with(|| toml_edit::value(Array::new())))
        .and_then(Item::as_array_mut)
        .ok_or(EditError::NoLists)?;
    let is_it = |value: &Value| value.as_str() == Some(name);
    let found = list.iter().any(is_it);
    match (found, present) {
        (false, true) => list.push(name),
        (true, false) => list.retain(|value| !is_it(value)),
        _ if linked => return Err(not_left_out(&manifest.without, name).into()),
        _ => return Err(EditError::LeftOut(name.to_owned()).into()),
    }
    checked(document)
}

/// The SDK isn't read here, so an unknown builtin can't be told from one that is linked by default.
fn not_left_out(without: &[String], name: &str) -> EditError {
    let meant = nearest(name, without.iter().map(String::as_str)).map(str::to_owned);
    EditError::NotLeftOut { name: name.to_owned(), meant }
}

fn parse(text: &str) -> Result<DocumentMut, EditError> {
    Ok(text.parse()?)
}

fn plugins(document: &mut DocumentMut) -> Result<&mut ArrayOfTables, EditError> {
    let item = document.entry("plugin");
    let item = item.or_insert_with(|| Item::ArrayOfTables(ArrayOfTables::new()));
    item.as_array_of_tables_mut().ok_or(EditError::InOneLine)
}

/// Returns the text if it is a valid manifest.
fn checked(document: DocumentMut) -> Result<String, BuildError> {
    let text = document.to_string();
    Manifest::parse("manifest", &text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Ours.\n[manager]\nname = \"site\" # short\n\n# The first.\n[[plugin]]\nname = \"a\"\npath = \"a\"\n\n[config]\nx = 1\n";

    fn entry(name: &str) -> PluginEntry {
        PluginEntry { name: name.into(), version: Some("1".into()), ..PluginEntry::default() }
    }

    #[test]
    fn adding_and_removing_keep_the_rest_of_the_text() {
        let added = add_plugin(TEXT, &entry("b")).unwrap();
        assert!(added.contains("# The first.\n") && added.contains("[config]\nx = 1\n"), "{added}");
        let names: Vec<String> =
            Manifest::parse("m", &added).unwrap().plugins.into_iter().map(|p| p.name).collect();
        assert_eq!(names, ["a", "b"]);
        let removed = remove_plugin(&added, "a").unwrap();
        assert!(removed.starts_with("# Ours.\n[manager]\nname = \"site\" # short\n"), "{removed}");
        assert_eq!(Manifest::parse("m", &removed).unwrap().plugins, [entry("b")]);
    }

    #[test]
    fn mistakes_are_named() {
        let text = add_plugin(TEXT, &entry("a")).unwrap_err().to_string();
        assert!(text.contains("plugin \"a\" is in the manifest"), "{text}");
        let text = remove_plugin("[[plugin]]\nname = \"deadline\"\npath = \".\"", "deadlin");
        let text = text.unwrap_err().to_string();
        assert!(text.contains("did you mean \"deadline\"?"), "{text}");
        let text = add_plugin(TEXT, &entry("a b")).unwrap_err().to_string();
        assert!(text.contains("is no crate's name"), "{text}");
        let text = set_builtin("", ".x", true).unwrap_err().to_string();
        assert_eq!(text, "the manifest leaves out no builtin \".x\"");
        let text = set_builtin("[manager]\nwithout = [\".history\"]", ".histroy", true);
        let text = text.unwrap_err().to_string();
        assert!(text.ends_with("; did you mean \".history\"?"), "{text}");
    }

    #[test]
    fn builtins_that_are_named_are_the_only_ones() {
        let text = set_builtin("[manager]\nbuiltins = [\".a\"]\n", ".b", true).unwrap();
        assert_eq!(text, "[manager]\nbuiltins = [\".a\", \".b\"]\n");
        let text = set_builtin(&text, ".a", false).unwrap();
        assert_eq!(Manifest::parse("m", &text).unwrap().manager.builtins.unwrap(), [".b"]);
    }
}
