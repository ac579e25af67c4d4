//! `#[jobtap_plugin]`: reads the impl block, collects every mistake, and expands.
//!
//! The author's items are always emitted, in addition to the errors, so that completion in an editor keeps
//! working. So is whatever could be read of the plugin: its other handlers are checked in the same run, and
//! code elsewhere that uses the plugin finds one.
//!
//! The steps, each in a file of its own: `args` reads the attribute, `methods` finds the marked methods
//! (`on` and `service` read the marks, `handler`, `params` and `signature` check the rest), and `expand`
//! writes the code. The types that they pass on are in `model`.

mod args;
mod body_lints;
mod expand;
mod handler;
mod methods;
mod model;
mod on;
mod params;
mod renamed;
mod service;
mod signature;

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::quote;
use syn::visit::Visit;
use syn::{Item, ItemImpl, Lifetime};

use crate::errors::{ErrorSink, ErrorStore};
use model::{Init, Methods, Plugin};

/// Expands the attribute.
pub(crate) fn jobtap_plugin(args: TokenStream, item: TokenStream) -> TokenStream {
    let store = ErrorStore::default();
    let expanded = expanded(args, item, &store.sink());
    let errors = store.to_compile_errors();
    quote!(#expanded #errors)
}

fn expanded(args: TokenStream, item: TokenStream, errors: &ErrorSink<'_>) -> TokenStream {
    let mut args = args::parse(args, errors);
    let Some((mut item_impl, unreadable)) = errors.ok(read(&item)) else {
        return without_marks(item);
    };
    args::take_crate(&mut item_impl.attrs, &mut args, errors);
    if args.krate.is_none()
        && let Some(name) = renamed::name()
    {
        errors.push(syn::Error::new(
            Span::call_site(),
            format!(
                "jobtap-core has another name in this crate's manifest\nnote: tell the macro: \
                 `#[jobtap_plugin(name = \"..\", crate = {name})]`"
            ),
        ));
        // The generated code uses this name, and so has no further errors.
        args.krate = syn::parse_str(&format!("::{name}")).ok();
    }
    let can_be_plugin = check_impl(&item_impl, errors);
    let mut methods = methods::take(&mut item_impl, &args, errors);
    if args.doubtful {
        // The unread argument may have been `data = ..`: handlers that take `Data` would then report errors
        // that aren't theirs.
        methods = Methods { init: Init::Broken, ..Methods::default() };
    }
    let item = if unreadable { without_marks(item) } else { quote!(#item_impl) };
    let expanded = can_be_plugin.then(|| {
        let (impl_span, self_ty) = (item_impl.impl_token.span, (*item_impl.self_ty).clone());
        let broken = errors.has_errors();
        expand::expand(&Plugin { args, impl_span, self_ty, methods, broken })
    });
    quote!(#item #expanded)
}

/// Reads the impl block. The second value is `true` when it could only be read without the bodies of its
/// functions: the compiler reports what is wrong in them, and the signatures are all that is needed.
fn read(item: &TokenStream) -> syn::Result<(ItemImpl, bool)> {
    let (item, unreadable) = match syn::parse2::<Item>(item.clone()) {
        Ok(item) => (item, false),
        Err(error) => match syn::parse2::<Item>(without_bodies(item)) {
            Ok(item) => (item, true),
            Err(_) => return Err(error),
        },
    };
    match item {
        Item::Impl(item_impl) => Ok((item_impl, unreadable)),
        other => Err(not_an_impl(&other)),
    }
}

/// Returns the block with every body in it empty.
fn without_bodies(item: &TokenStream) -> TokenStream {
    let braces = |token: TokenTree, change: &dyn Fn(TokenStream) -> TokenStream| match token {
        TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
            let mut changed = Group::new(Delimiter::Brace, change(group.stream()));
            changed.set_span(group.span());
            changed.into()
        }
        token => token,
    };
    let empty = |items: TokenStream| {
        items.into_iter().map(|token| braces(token, &|_| TokenStream::new())).collect()
    };
    item.clone().into_iter().map(|token| braces(token, &empty)).collect()
}

/// Removes the marks from what could not be read; each would report that it is in the wrong place.
fn without_marks(item: TokenStream) -> TokenStream {
    let mut tokens: Vec<TokenTree> = Vec::new();
    for token in item {
        match token {
            TokenTree::Group(group) if group.delimiter() == Delimiter::Brace => {
                let mut inner = Group::new(Delimiter::Brace, without_marks(group.stream()));
                inner.set_span(group.span());
                tokens.push(inner.into());
            }
            TokenTree::Group(group) if is_mark_group(&group, tokens.last()) => {
                tokens.pop();
            }
            token => tokens.push(token),
        }
    }
    tokens.into_iter().collect()
}

fn is_mark_group(group: &Group, before: Option<&TokenTree>) -> bool {
    let hash = matches!(before, Some(TokenTree::Punct(punct)) if punct.as_char() == '#');
    let path = group.stream().into_iter().take_while(|token| !matches!(token, TokenTree::Group(_)));
    let last = path.last().map(|token| token.to_string());
    let is_mark = |last: String| last == "jobtap" || methods::MARKS.contains(&last.as_str());
    hash && group.delimiter() == Delimiter::Bracket && last.is_some_and(is_mark)
}

fn not_an_impl(item: &Item) -> syn::Error {
    let what = match item {
        Item::Struct(_) => "a struct",
        Item::Enum(_) => "an enum",
        Item::Fn(_) => "a function",
        Item::Trait(_) => "a trait",
        Item::Mod(_) => "a module",
        _ => "this item",
    };
    syn::Error::new(
        Span::call_site(),
        format!(
            "`#[jobtap_plugin]` goes on an impl block, not on {what}\n\
             note: put it on `impl MyPlugin {{ .. }}`, where the handlers are"
        ),
    )
}

/// Returns whether the block is of a type that can be a plugin; if not, says why.
fn check_impl(item_impl: &ItemImpl, errors: &ErrorSink<'_>) -> bool {
    let errors = errors.child();
    if let Some((path, _)) = &item_impl.trait_ {
        errors.push(syn::Error::new_spanned(
            path,
            "`#[jobtap_plugin]` goes on the plugin's own impl block, not on a trait's\n\
             note: move the handlers to `impl MyPlugin { .. }`",
        ));
    }
    if let Some(param) = item_impl.generics.type_params().next() {
        errors.push(generic(param));
    } else if let Some(param) = item_impl.generics.const_params().next() {
        errors.push(generic(param));
    } else {
        let mut borrows = Borrows(None);
        borrows.visit_type(&item_impl.self_ty);
        errors.extend(borrows.0.map(|lifetime| {
            syn::Error::new_spanned(
                lifetime,
                "a plugin can't borrow\nnote: it lives as long as the manager; let it own what it \
                 keeps, as in `String` for `&str`",
            )
        }));
    }
    !errors.has_errors()
}

fn generic(param: impl quote::ToTokens) -> syn::Error {
    syn::Error::new_spanned(
        param,
        "a plugin can't be generic\nnote: the manager builds one instance by its name; use a type \
         without parameters, or write one plugin for each",
    )
}

/// Finds a lifetime other than `'static`.
struct Borrows(Option<Lifetime>);

impl Visit<'_> for Borrows {
    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident != "static" {
            self.0.get_or_insert_with(|| lifetime.clone());
        }
    }
}
