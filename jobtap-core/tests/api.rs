//! The public API of the SDK as a text in the repository, so that a change of it shows in review.
//!
//! The text is made from the sources: each `pub` item, without its body and its documentation. The workspace's lint
//! `unreachable_pub` makes sure that an item is `pub` only if others can reach it. What macros make isn't in it. The table
//! of topics is in it: macros make the types of the topics from that table.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, missing_docs)]

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use quote::{ToTokens, quote};
use syn::{
    Attribute, Fields, ImplItem, Item, Meta, Signature, TraitItem, Type, UseTree, Visibility,
};

const FILE: &str = "api.txt";

/// The crates whose items authors of plugins use.
const CRATES: [&str; 4] = ["jobtap-core", "jobtap-sdk", "jobtap-domain", "jobtap-macros"];

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The items of a crate as text, each with the module in which it is.
#[derive(Default)]
struct Api {
    text: Vec<String>,
    /// The public types so far, whose implementations of traits are listed.
    types: BTreeSet<String>,
    impls: Vec<(String, syn::ItemImpl)>,
}

impl Api {
    fn of_crate(name: &str) -> String {
        let mut api = Self::default();
        let root = workspace().join(name).join("src");
        api.file(&root.join("lib.rs"), &root, &name.replace('-', "_"));
        for (module, of_type) in std::mem::take(&mut api.impls) {
            api.implementation(&module, of_type);
        }
        api.text.sort();
        api.text.dedup();
        api.text.concat()
    }

    /// The items of a file, whose modules are in `directory`.
    fn file(&mut self, file: &Path, directory: &Path, module: &str) {
        let text = fs::read_to_string(file).unwrap();
        let file = syn::parse_file(&text).unwrap();
        self.items(file.items, directory, module);
    }

    fn items(&mut self, items: Vec<Item>, directory: &Path, module: &str) {
        for item in items {
            self.item(item, directory, module);
        }
    }

    fn item(&mut self, item: Item, directory: &Path, module: &str) {
        match item {
            Item::Mod(inner) if is_listed(&inner.attrs) => {
                let name = inner.ident.to_string();
                let (directory, module) = (directory.join(&name), format!("{module}::{name}"));
                match inner.content {
                    Some((_, items)) => self.items(items, &directory, &module),
                    None => {
                        let files = [directory.join("mod.rs"), directory.with_extension("rs")];
                        let file = files.iter().find(|file| file.exists()).unwrap();
                        self.file(file, &directory, &module);
                    }
                }
            }
            Item::Impl(of_type) if is_listed(&of_type.attrs) => {
                self.impls.push((module.to_owned(), of_type));
            }
            Item::Macro(definition)
                if definition.attrs.iter().any(|a| a.path().is_ident("macro_export")) =>
            {
                if is_listed(&definition.attrs)
                    && let Some(name) = definition.ident
                {
                    self.text.push(format!("{module}: macro {name}!\n"));
                }
            }
            item => self.plain(item, module),
        }
    }

    /// An item that is neither a module nor an implementation.
    fn plain(&mut self, item: Item, module: &str) {
        let shown = match item {
            Item::Struct(mut of) if is_public(&of.vis, &of.attrs) => {
                self.types.insert(of.ident.to_string());
                keep(&mut of.attrs);
                only_public(&mut of.fields);
                Item::Struct(of)
            }
            Item::Enum(mut of) if is_public(&of.vis, &of.attrs) => {
                self.types.insert(of.ident.to_string());
                keep(&mut of.attrs);
                for variant in &mut of.variants {
                    keep(&mut variant.attrs);
                    variant.fields.iter_mut().for_each(|field| keep(&mut field.attrs));
                }
                Item::Enum(of)
            }
            Item::Trait(mut of) if is_public(&of.vis, &of.attrs) => {
                keep(&mut of.attrs);
                of.items.iter_mut().for_each(without_body);
                Item::Trait(of)
            }
            Item::Fn(mut of) if is_public(&of.vis, &of.attrs) => {
                keep(&mut of.attrs);
                of.block.stmts.clear();
                Item::Fn(of)
            }
            Item::Const(mut of) if is_public(&of.vis, &of.attrs) => {
                keep(&mut of.attrs);
                *of.expr = syn::parse_quote!(..);
                Item::Const(of)
            }
            Item::Type(mut of) if is_public(&of.vis, &of.attrs) => {
                keep(&mut of.attrs);
                Item::Type(of)
            }
            Item::Use(mut of) if is_public(&of.vis, &of.attrs) && !is_inner(&of.tree) => {
                keep(&mut of.attrs);
                Item::Use(of)
            }
            _ => return,
        };
        self.show(module, shown);
    }

    /// The public methods of a type, or the traits that a public type implements.
    fn implementation(&mut self, module: &str, mut of: syn::ItemImpl) {
        let Type::Path(path) = &*of.self_ty else { return };
        let name = path.path.segments.last().unwrap().ident.to_string();
        if !self.types.contains(&name) {
            return;
        }
        keep(&mut of.attrs);
        if of.trait_.is_some() {
            of.items.retain(|item| matches!(item, ImplItem::Type(_)));
        } else {
            of.items.retain_mut(is_public_member);
            if of.items.is_empty() {
                return;
            }
        }
        self.show(module, Item::Impl(of));
    }

    fn show(&mut self, module: &str, item: Item) {
        let file =
            syn::File { shebang: None, frontmatter: None, attrs: Vec::new(), items: vec![item] };
        let shown = prettyplease::unparse(&file);
        self.text.push(format!("{module}: {}", shown.replace("\n\n", "\n")));
    }
}

/// Whether an item is part of the API: not of the tests, and not hidden from the documentation.
fn is_listed(attrs: &[Attribute]) -> bool {
    !attrs.iter().any(|attr| {
        let text = attr.meta.to_token_stream().to_string().replace(' ', "");
        text == "cfg(test)" || text == "doc(hidden)"
    })
}

fn is_public(vis: &Visibility, attrs: &[Attribute]) -> bool {
    matches!(vis, Visibility::Public(_)) && is_listed(attrs)
}

/// Whether a re-export is of a module of the same crate: the item itself is listed where it is.
fn is_inner(tree: &UseTree) -> bool {
    let UseTree::Path(path) = tree else { return true };
    !path.ident.to_string().starts_with("jobtap_")
}

/// Keeps the attributes on which users depend.
fn keep(attrs: &mut Vec<Attribute>) {
    let kept = ["derive", "non_exhaustive", "deprecated", "proc_macro_attribute", "cfg"];
    attrs.retain(|attr| kept.iter().any(|name| attr.path().is_ident(name)));
    for attr in attrs {
        if let Meta::List(list) = &mut attr.meta
            && list.path.is_ident("derive")
        {
            let text = list.tokens.to_string();
            let mut names: Vec<&str> =
                text.split(',').map(str::trim).filter(|n| !n.is_empty()).collect();
            names.sort_unstable();
            list.tokens = names.join(", ").parse().unwrap();
        }
    }
}

/// That there are fields which others can't name is shown, since they can't make a value then, and which fields is not.
fn only_public(fields: &mut Fields) {
    let is_public = |vis: &Visibility| matches!(vis, Visibility::Public(_));
    match fields {
        Fields::Named(named) => {
            let all = std::mem::take(&mut named.named);
            let count = all.len();
            named.named = all.into_iter().filter(|field| is_public(&field.vis)).collect();
            if named.named.len() < count {
                named.named.push(syn::parse_quote!(hidden: _));
            }
        }
        Fields::Unnamed(unnamed) if !unnamed.unnamed.iter().all(|field| is_public(&field.vis)) => {
            *fields = Fields::Unnamed(syn::parse_quote!((_)));
        }
        _ => {}
    }
    fields.iter_mut().for_each(|field| keep(&mut field.attrs));
}

fn without_body(item: &mut TraitItem) {
    match item {
        TraitItem::Fn(of) => {
            keep(&mut of.attrs);
            // That a method has a body of its own means that others need none.
            if let Some(body) = &mut of.default {
                body.stmts.clear();
            }
        }
        TraitItem::Type(of) => keep(&mut of.attrs),
        TraitItem::Const(of) => keep(&mut of.attrs),
        _ => {}
    }
}

fn is_public_member(item: &mut ImplItem) -> bool {
    match item {
        ImplItem::Fn(of) => {
            let listed = is_public(&of.vis, &of.attrs);
            keep(&mut of.attrs);
            of.block.stmts.clear();
            nameless(&mut of.sig);
            listed
        }
        ImplItem::Const(of) => {
            let listed = is_public(&of.vis, &of.attrs);
            keep(&mut of.attrs);
            of.expr = syn::parse_quote!(..);
            listed
        }
        _ => false,
    }
}

/// Whether a parameter is `mut` concerns the body alone.
fn nameless(sig: &mut Signature) {
    for input in &mut sig.inputs {
        if let syn::FnArg::Receiver(receiver) = input
            && matches!(receiver.kind, syn::ReceiverKind::Value)
        {
            receiver.mutability = None;
        }
        if let syn::FnArg::Typed(typed) = input
            && let syn::Pat::Ident(name) = &mut *typed.pat
        {
            name.mutability = None;
        }
    }
}

/// The rows of the table of topics, without their documentation.
fn topics() -> String {
    let text = fs::read_to_string(workspace().join("jobtap-topics/src/lib.rs")).unwrap();
    let mut rows = String::new();
    let lines = text.lines().map(str::trim).skip_while(|line| !line.starts_with("topics {"));
    for line in lines.take_while(|line| *line != "};") {
        if line.is_empty() || line.starts_with("//") {
            continue;
        }
        match line.contains(" = ") || line.contains('{') || line == "}" {
            true => write!(rows, "\n{line}").unwrap(),
            false => write!(rows, " {line}").unwrap(),
        }
    }
    rows.trim_start().to_owned()
}

#[test]
fn the_public_api_is_the_one_in_the_repository() {
    let mut made = String::from(
        "The public API of the SDK. `UPDATE_API=1 cargo test -p jobtap-core --test api` writes it again.\n\n",
    );
    for name in CRATES {
        writeln!(made, "# {name}\n\n{}", Api::of_crate(name)).unwrap();
    }
    writeln!(made, "# The table of topics\n\n{}", topics()).unwrap();
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(FILE);
    if std::env::var_os("UPDATE_API").is_some() {
        fs::write(&file, &made).unwrap();
    }
    let known = fs::read_to_string(&file).unwrap_or_default();
    let lines = |text: &str| text.lines().map(str::to_owned).collect::<BTreeSet<String>>();
    let (made_lines, known_lines) = (lines(&made), lines(&known));
    let gone: Vec<_> = known_lines.difference(&made_lines).take(20).collect();
    let new: Vec<_> = made_lines.difference(&known_lines).take(20).collect();
    assert!(
        made == known,
        "the public API has changed\ngone: {gone:#?}\nnew: {new:#?}\ndocs/src/stability.md says what may change; \
         `UPDATE_API=1 cargo test -p jobtap-core --test api` writes {FILE} again"
    );
}

#[test]
fn an_item_is_listed_as_others_see_it() {
    let source = quote! {
        #[derive(Debug, Clone)]
        pub struct Shown { pub a: u8, hidden: u8 }
        struct Hidden;
        impl Shown {
            pub fn method(&self, mut n: u8) -> u8 { n += 1; n }
            pub fn with(mut self) -> Self { self.a = 1; self }
            fn inner(&self) {}
        }
        impl Clone for Hidden {}
        pub(crate) fn of_crate() {}
        #[doc(hidden)]
        pub fn not_for_others() {}
        pub struct Whole { pub a: u8 }
        pub struct Sealed(u8);
        pub const LIMIT: usize = 5;
    };
    let file: syn::File = syn::parse2(source).unwrap();
    let mut api = Api::default();
    api.items(file.items, Path::new(""), "demo");
    for (module, of_type) in std::mem::take(&mut api.impls) {
        api.implementation(&module, of_type);
    }
    let shown = [
        "demo: #[derive(Clone, Debug)]\npub struct Shown {\n    pub a: u8,\n    hidden: _,\n}\n",
        "demo: impl Shown {\n    pub fn method(&self, n: u8) -> u8 {}\n    pub fn with(self) -> Self {}\n}\n",
        "demo: pub const LIMIT: usize = ..;\n",
        "demo: pub struct Sealed(_);\n",
        "demo: pub struct Whole {\n    pub a: u8,\n}\n",
    ];
    api.text.sort();
    assert_eq!(api.text, shown);
}
