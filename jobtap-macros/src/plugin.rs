//! `#[jobtap_plugin]`: reads the impl block, collects every mistake, and expands.
//!
//! The author's items are always emitted, beside the errors, so that an editor keeps completing. So
//! is what could be read of the plugin: its other handlers are checked in the same run, and what uses
//! the plugin elsewhere finds one.

use proc_macro2::{Delimiter, Group, Span, TokenStream, TokenTree};
use quote::quote;
use syn::visit::Visit;
use syn::{Item, ItemImpl, Lifetime, Type};

use crate::args::{self, PluginArgs};
use crate::expand;
use crate::methods::{self, Init, Methods};

/// A whole plugin, ready to be expanded.
pub(crate) struct Plugin {
    pub(crate) args: PluginArgs,
    /// Where the author's own block begins.
    pub(crate) impl_span: Span,
    pub(crate) self_ty: Type,
    pub(crate) methods: Methods,
    /// A mistake was reported: the plugin is checked further, and not registered.
    pub(crate) broken: bool,
}

/// The macro's whole work.
pub(crate) fn jobtap_plugin(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    let mut args = args::parse(args, &mut errors);
    let (mut item_impl, unreadable) = match read(&item) {
        Ok(read) => read,
        Err(error) => {
            errors.push(error);
            return with_errors(&without_marks(item), &errors);
        }
    };
    args::take_crate(&mut item_impl.attrs, &mut args, &mut errors);
    let can_be_plugin = check_impl(&item_impl, &mut errors);
    let mut methods = methods::take(&mut item_impl, &args, &mut errors);
    if args.doubtful {
        // Handlers would miss what an argument was to declare.
        methods = Methods { init: Init::Broken, ..Methods::default() };
    }
    let item = if unreadable { without_marks(item) } else { quote!(#item_impl) };
    let expanded = can_be_plugin.then(|| {
        let (impl_span, self_ty) = (item_impl.impl_token.span, (*item_impl.self_ty).clone());
        expand::expand(&Plugin { args, impl_span, self_ty, methods, broken: !errors.is_empty() })
    });
    with_errors(&quote!(#item #expanded), &errors)
}

/// Reads the impl block. A body that can't be read is left out, which the second value says: what is
/// wrong in there is the compiler's to tell, and its signature is all that is needed.
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

/// The block with every body in it empty.
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

fn with_errors(item: &TokenStream, errors: &[syn::Error]) -> TokenStream {
    let errors = errors.iter().map(syn::Error::to_compile_error);
    quote!(#item #(#errors)*)
}

/// Takes the marks off what could not be read, where they would each report that they are in the
/// wrong place.
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

/// Whether the block is of a type that can be a plugin.
fn check_impl(item_impl: &ItemImpl, errors: &mut Vec<syn::Error>) -> bool {
    let before = errors.len();
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
    errors.len() == before
}

fn generic(param: impl quote::ToTokens) -> syn::Error {
    syn::Error::new_spanned(
        param,
        "a plugin can't be generic\nnote: the manager builds one instance by its name; use a type \
         without parameters, or write one plugin for each",
    )
}

/// Finds a lifetime that ends.
struct Borrows(Option<Lifetime>);

impl Visit<'_> for Borrows {
    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident != "static" {
            self.0.get_or_insert_with(|| lifetime.clone());
        }
    }
}
