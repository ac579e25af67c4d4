//! Reads from a crate's source which plugins and schedulers it has, before anything is compiled.
//!
//! Compiling takes minutes, so a crate without a plugin, two plugins of one name and a cycle in the order are
//! refused on the basis of the source, and [`verify`](crate::verify) compares the linked binary with it.
//!
//! It follows the modules from the library's root as the compiler does, and reads the arguments of each
//! `#[jobtap_plugin]` and `scheduler!`. Plugins that other macros make are found only after linking.
//! [`needs`](crate::needs) reads what the functions of the crate need of their host.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

use crate::needs::{self, Need, Signature, What, texts};

/// A plugin or a scheduler in a crate's source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Declared {
    /// Its name.
    pub(crate) name: String,
    /// Whether it is a scheduler rather than a plugin.
    pub(crate) scheduler: bool,
    /// The argument `before`.
    pub(crate) before: Vec<String>,
    /// The argument `after`.
    pub(crate) after: Vec<String>,
    /// The features of its crate that it needs.
    pub(crate) features: Vec<String>,
    /// Whether it has another condition, which only the compiler can evaluate.
    pub(crate) conditional: bool,
    /// What its handlers need of their host.
    pub(crate) needs: Vec<Need>,
}

/// What was found in a crate.
#[derive(Debug, Default)]
pub(crate) struct Found {
    /// Its plugins and schedulers, in the order of the source.
    pub(crate) declared: Vec<Declared>,
    /// What functions outside of the plugins' own blocks need of their host. It isn't known which plugins
    /// call them.
    pub(crate) shared: Vec<Shared>,
}

/// A need of a function that several plugins of a crate may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shared {
    pub(crate) need: Need,
    /// The features of its crate under which it is compiled.
    pub(crate) features: Vec<String>,
}

impl Declared {
    /// The topics of its handlers, sorted.
    pub(crate) fn topics(&self) -> Vec<String> {
        let topic = |need: &Need| match &need.what {
            What::Handler { topic, .. } => Some(topic.clone()),
            What::Service(_) => Some("service".to_owned()),
            What::Call(_) | What::Partitions => None,
        };
        let topics: BTreeSet<String> = self.needs.iter().filter_map(topic).collect();
        topics.into_iter().collect()
    }
}

/// Returns the plugins and schedulers of a library in the order of the source. A file that can't be read
/// or parsed has none: the compiler reports what is wrong with it.
pub(crate) fn library(root: &Path) -> Found {
    let mut found = Found::default();
    let directory = root.parent().map(Path::to_path_buf).unwrap_or_default();
    file(root, &directory, &Conditions::default(), &mut found);
    found
}

/// The conditions under which code is compiled.
#[derive(Debug, Clone, Default)]
struct Conditions {
    features: Vec<String>,
    other: bool,
    never: bool,
}

impl Conditions {
    /// Returns these conditions together with those of an item's attributes.
    fn and(&self, attributes: &[Group]) -> Self {
        let mut all = self.clone();
        for attribute in attributes {
            let text = attribute.stream().to_string().replace(' ', "");
            let Some(condition) = text.strip_prefix("cfg(") else { continue };
            let condition = condition.strip_suffix(')').unwrap_or(condition);
            let feature = condition.strip_prefix("feature=\"").and_then(|f| f.strip_suffix('"'));
            match feature {
                _ if condition == "test" || condition == "doctest" => all.never = true,
                Some(feature) if !feature.contains('"') => all.features.push(feature.to_owned()),
                _ => all.other = true,
            }
        }
        all
    }
}

/// Reads a file; `directory` has the files of its modules.
fn file(path: &Path, directory: &Path, conditions: &Conditions, found: &mut Found) {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    if let Ok(tokens) = text.parse::<TokenStream>() {
        let place = Source { file: path.to_path_buf(), directory: directory.to_path_buf() };
        items(tokens, &place, conditions, found);
    }
}

/// The file of some code, and the directory with the files of its modules.
struct Source {
    file: PathBuf,
    directory: PathBuf,
}

/// Reads the items of a file or of a block.
fn items(tokens: TokenStream, place: &Source, conditions: &Conditions, found: &mut Found) {
    let mut conditions = conditions.clone();
    let mut attributes: Vec<Group> = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut function = Signature::default();
    let mut tokens = tokens.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Punct(punct) if punct.as_char() == '#' => {
                let inner = tokens.next_if(|next| next.to_string() == "!").is_some();
                let Some(TokenTree::Group(group)) = tokens.next() else { continue };
                if inner {
                    conditions = conditions.and(&[group]);
                } else {
                    attributes.push(group);
                }
            }
            TokenTree::Punct(punct) if punct.as_char() == ';' => {
                if let Some(name) = module(&words) {
                    outer_module(&name, &attributes, place, &conditions, found);
                }
                (attributes, words, function) = Default::default();
            }
            TokenTree::Group(group) if words.ends_with(&["scheduler".into(), "!".into()]) => {
                let inner = conditions.and(&attributes);
                found.declared.extend(scheduler(&group, &inner));
                (attributes, words) = Default::default();
            }
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let inner = conditions.and(&attributes);
                // It isn't known whether other conditions hold.
                if !inner.never && !inner.other {
                    let features = inner.features.clone();
                    let needs = std::mem::take(&mut function).calls(&group, &place.file);
                    let shared = |need| Shared { need, features: features.clone() };
                    found.shared.extend(needs.into_iter().map(shared));
                }
                block(&group, &attributes, &words, place, &inner, found);
                (attributes, words, function) = Default::default();
            }
            token => {
                function.read(&token);
                words.push(token.to_string());
            }
        }
    }
}

/// Returns the name in `mod name`, whatever its visibility.
fn module(words: &[String]) -> Option<String> {
    match words {
        [.., keyword, name] if keyword == "mod" => Some(name.clone()),
        _ => None,
    }
}

/// Reads the file of `mod name;`, which is found as the compiler finds it.
fn outer_module(
    name: &str,
    attributes: &[Group],
    place: &Source,
    conditions: &Conditions,
    found: &mut Found,
) {
    let conditions = conditions.and(attributes);
    let named = attributes.iter().find_map(|group| {
        let text = group.stream().to_string();
        let (key, value) = text.split_once('=')?;
        (key.trim() == "path").then(|| value.trim().trim_matches('"').to_owned())
    });
    let beside = place.file.parent().map(Path::to_path_buf).unwrap_or_default();
    let inner = place.directory.join(name);
    let flat = place.directory.join(format!("{name}.rs"));
    match named {
        Some(named) => {
            let path = beside.join(named);
            let directory = path.parent().map(Path::to_path_buf).unwrap_or_default();
            file(&path, &directory, &conditions, found);
        }
        None if flat.is_file() => file(&flat, &inner, &conditions, found),
        None => file(&inner.join("mod.rs"), &inner, &conditions, found),
    }
}

/// Reads an item with a body.
fn block(
    group: &Group,
    attributes: &[Group],
    words: &[String],
    place: &Source,
    conditions: &Conditions,
    found: &mut Found,
) {
    if conditions.never || words.first().is_some_and(|word| word == "macro_rules") {
        return;
    }
    if let Some(plugin) = attributes.iter().find_map(plugin) {
        let (features, conditional) = (conditions.features.clone(), conditions.other);
        let needs = needs::of_plugin(group.stream(), &place.file);
        found.declared.push(Declared { features, conditional, needs, ..plugin });
        return;
    }
    let directory = match module(words) {
        Some(name) => place.directory.join(name),
        None => place.directory.clone(),
    };
    let place = Source { file: place.file.clone(), directory };
    items(group.stream(), &place, conditions, found);
}

/// Reads `scheduler!`: the name is its first string outside of attributes.
fn scheduler(group: &Group, conditions: &Conditions) -> Option<Declared> {
    let mut values = group.stream().into_iter();
    let literal = values.find(|token| matches!(token, TokenTree::Literal(_)))?;
    let name = texts(literal).pop().filter(|_| !conditions.never)?;
    let (features, conditional) = (conditions.features.clone(), conditions.other);
    Some(Declared { name, scheduler: true, features, conditional, ..Declared::default() })
}

/// Reads `jobtap_plugin(..)` in an attribute.
fn plugin(attribute: &Group) -> Option<Declared> {
    let mut name_before = String::new();
    for token in attribute.stream() {
        match token {
            TokenTree::Group(group) if name_before == "jobtap_plugin" => return arguments(&group),
            token => name_before = token.to_string(),
        }
    }
    None
}

fn arguments(group: &Group) -> Option<Declared> {
    let mut found = Declared::default();
    let mut key = String::new();
    let mut tokens = group.stream().into_iter();
    while let Some(token) = tokens.next() {
        if let TokenTree::Ident(ident) = &token {
            key = ident.to_string();
        }
        if token.to_string() != "=" {
            continue;
        }
        let Some(value) = tokens.next() else { break };
        match key.as_str() {
            "name" => found.name = texts(value).pop()?,
            "before" => found.before = texts(value),
            "after" => found.after = texts(value),
            _ => {}
        }
    }
    (!found.name.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scan(files: &[(&str, &str)]) -> Vec<Declared> {
        let directory = tempfile::tempdir().unwrap();
        for (name, text) in files {
            let file = directory.path().join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        library(&directory.path().join("lib.rs")).declared
    }

    fn names(files: &[(&str, &str)]) -> Vec<String> {
        scan(files).into_iter().map(|found| found.name).collect()
    }

    #[test]
    fn a_plugin_is_found_with_its_order() {
        let text = "
            //! #[jobtap_plugin(name = \"in-a-comment\")] impl X {}
            const S: &str = \"#[jobtap_plugin(name = \\\"in-a-text\\\")] impl X {}\";
            #[derive(Default)] pub struct P;
            #[jobtap_core::jobtap_plugin(name = \"p\", before = [\"a\", \"b\"], after = [\"c\"], load = \"by-name\")]
            impl P { #[on(\"job.new\")] fn new(&self) {} }";
        let mut found = scan(&[("lib.rs", text)]);
        assert_eq!(found[0].topics(), ["job.new"]);
        found[0].needs.clear();
        let expected = Declared {
            name: "p".into(),
            before: vec!["a".into(), "b".into()],
            after: vec!["c".into()],
            ..Declared::default()
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn modules_are_followed_and_tests_are_not() {
        let plugin = |name: &str| format!("#[jobtap_plugin(name = \"{name}\")] impl P {{}}");
        let root = "
            mod flat; pub(crate) mod folder; mod inline { mod deep; }
            #[path = \"elsewhere/x.rs\"] mod y;
            #[cfg(test)] mod tests;
            #[cfg(test)] mod inner_tests { #[jobtap_plugin(name = \"no\")] impl P {} }
            macro_rules! m { () => { #[jobtap_plugin(name = \"made\")] impl P {} } }
            fn f() { #[jobtap_plugin(name = \"local\")] impl P {} }";
        let files = [
            ("lib.rs", root.to_owned()),
            ("flat.rs", plugin("flat")),
            ("folder/mod.rs", plugin("folder")),
            ("inline/deep.rs", plugin("deep")),
            ("elsewhere/x.rs", plugin("path")),
            ("tests.rs", plugin("test")),
        ];
        let files: Vec<(&str, &str)> = files.iter().map(|(n, t)| (*n, t.as_str())).collect();
        assert_eq!(names(&files), ["flat", "folder", "deep", "path", "local"]);
    }

    #[test]
    fn conditions_are_features_or_left_to_the_compiler() {
        let text = "
            #[cfg(feature = \"x\")] mod a { #[cfg(feature = \"y\")] #[jobtap_plugin(name = \"xy\")] impl P {} }
            #[cfg(unix)] #[jobtap_plugin(name = \"unix\")] impl P {}";
        let found = scan(&[("lib.rs", text)]);
        assert_eq!(found[0].features, ["x", "y"]);
        assert!(!found[0].conditional);
        assert!(found[1].conditional);
    }

    #[test]
    fn schedulers_are_found_too() {
        let text = "
            jobtap_core::scheduler! {
                /// \"not this\"
                pub static A = \"shortest\", |_| Err(\"no\".into());
            }
            #[cfg(feature = \"x\")] mod a { scheduler!(static B = \"longest\", new); }
            #[cfg(test)] scheduler!(static C = \"never\", new);
            macro_rules! scheduler { () => {} }";
        let found = scan(&[("lib.rs", text)]);
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["shortest", "longest"]);
        assert!(found.iter().all(|found| found.scheduler));
        assert_eq!(found[1].features, ["x"]);
    }

    #[test]
    fn a_file_that_is_no_rust_has_no_plugins() {
        assert!(names(&[("lib.rs", "impl { ) \"")]).is_empty());
        assert!(names(&[]).is_empty());
    }
}
