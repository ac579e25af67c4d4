//! `#[jobtap_plugin]`: reads the impl block, collects every mistake, and expands.
//!
//! The author's items are always emitted, beside the errors, so that an editor keeps completing.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::quote;
use syn::{Attribute, ImplItem, ImplItemFn, Item, ItemImpl, Type};

use crate::args::{self, PluginArgs};
use crate::expand;
use crate::handler::{self, Handler, OnKind};
use crate::policy::Policy;
use crate::service;

/// A whole plugin, ready to be expanded.
pub(crate) struct Plugin {
    pub(crate) args: PluginArgs,
    pub(crate) self_ty: Type,
    pub(crate) init: Option<Init>,
    pub(crate) handlers: Vec<Handler>,
}

/// The function under `#[init]`.
pub(crate) struct Init {
    pub(crate) ident: syn::Ident,
    pub(crate) params: Vec<Type>,
    pub(crate) output: Option<Type>,
}

/// The macro's whole work.
pub(crate) fn jobtap_plugin(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    let args = args::parse(args, &mut errors);
    let mut item_impl = match syn::parse2::<Item>(item.clone()) {
        Ok(Item::Impl(item_impl)) => item_impl,
        Ok(other) => {
            errors.push(not_an_impl(&other));
            return with_errors(&without_marks(item), errors);
        }
        Err(error) => {
            errors.push(error);
            return with_errors(&without_marks(item), errors);
        }
    };
    check_impl(&item_impl, &mut errors);
    let (init, handlers) = take_methods(&mut item_impl, &mut errors);
    check_duplicates(&handlers, &mut errors);
    if errors.is_empty() {
        let self_ty = (*item_impl.self_ty).clone();
        let plugin = Plugin { args, self_ty, init, handlers };
        let expanded = expand::expand(&plugin);
        quote!(#item_impl #expanded)
    } else {
        with_errors(&quote!(#item_impl), errors)
    }
}

fn with_errors(item: &TokenStream, errors: Vec<syn::Error>) -> TokenStream {
    let errors = errors.iter().map(syn::Error::to_compile_error);
    quote!(#item #(#errors)*)
}

/// Takes `#[on]` and `#[init]` off what could not be read, where they would each report that they
/// are in the wrong place.
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
    hash && group.delimiter() == Delimiter::Bracket
        && matches!(last.as_deref(), Some("on" | "init" | "service"))
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
        proc_macro2::Span::call_site(),
        format!(
            "`#[jobtap_plugin]` goes on an impl block, not on {what}\n\
             note: put it on `impl MyPlugin {{ .. }}`, where the handlers are"
        ),
    )
}

fn check_impl(item_impl: &ItemImpl, errors: &mut Vec<syn::Error>) {
    if let Some((path, _)) = &item_impl.trait_ {
        errors.push(syn::Error::new_spanned(
            path,
            "`#[jobtap_plugin]` goes on the plugin's own impl block, not on a trait's\n\
             note: move the handlers to `impl MyPlugin { .. }`",
        ));
    }
    if let Some(param) = item_impl.generics.params.first() {
        errors.push(syn::Error::new_spanned(
            param,
            "a plugin can't be generic\nnote: the manager builds one instance by its name; use a \
             type without parameters, or write one plugin for each",
        ));
    }
}

/// Takes `#[init]` and `#[on]` off the methods and reads what they mark.
fn take_methods(
    item_impl: &mut ItemImpl,
    errors: &mut Vec<syn::Error>,
) -> (Option<Init>, Vec<Handler>) {
    let mut init: Option<Init> = None;
    let mut handlers = Vec::new();
    for item in &mut item_impl.items {
        let ImplItem::Fn(method) = item else { continue };
        let (marks, others): (Vec<Attribute>, Vec<Attribute>) =
            std::mem::take(&mut method.attrs).into_iter().partition(is_mark);
        method.attrs = others;
        let inits: Vec<_> = marks.iter().filter(|a| is_named(a, "init")).collect();
        let ons: Vec<_> = marks.iter().filter(|a| is_named(a, "on")).collect();
        if let Some(mark) = inits.first() {
            if init.is_some() || inits.len() > 1 {
                errors.push(syn::Error::new_spanned(mark, "a plugin has one `#[init]` function"));
            }
            if let Some(on) = ons.first() {
                errors.push(syn::Error::new_spanned(
                    on,
                    "a function is either `#[init]` or a handler\nnote: `#[init]` builds the \
                     plugin, before any topic is called",
                ));
            }
            init = take_init(method, errors).or(init);
            continue;
        }
        let services: Vec<_> = marks.iter().filter(|a| is_named(a, "service")).collect();
        if let Some(mark) = services.first() {
            if services.len() > 1 || !ons.is_empty() {
                errors.push(syn::Error::new_spanned(
                    services.get(1).copied().or(ons.first().copied()).unwrap_or(mark),
                    "a function is one service or a handler\nnote: write one function for each; \
                     they can share a method",
                ));
            }
            match service::parse(mark) {
                Ok(service) => handlers.extend(service::take(method, service, errors)),
                Err(error) => errors.push(error),
            }
            continue;
        }
        if ons.is_empty() {
            continue;
        }
        let mut topics = Vec::new();
        let mut policy = Policy::default();
        for on in ons {
            topics.extend(handler::parse_on(on, &mut policy, errors));
        }
        handlers.extend(handler::take(method, topics, policy, errors));
    }
    (init, handlers)
}

fn is_mark(attribute: &Attribute) -> bool {
    ["on", "init", "service"].iter().any(|name| is_named(attribute, name))
}

/// By the last segment, so that `#[jobtap_core::on(..)]` works too.
fn is_named(attribute: &Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == name)
}

fn take_init(method: &ImplItemFn, errors: &mut Vec<syn::Error>) -> Option<Init> {
    let before = errors.len();
    handler::check_generics(method, "`#[init]`", errors);
    if let Some(asyncness) = method.sig.asyncness {
        errors.push(syn::Error::new(
            asyncness.span,
            "`#[init]` can't be `async`\nnote: the manager waits for it; start work that takes \
             time from a handler",
        ));
    }
    if let Some(receiver) = method.sig.receiver() {
        errors.push(syn::Error::new_spanned(
            receiver,
            "`#[init]` builds the plugin, so there is no `self` yet\nnote: take `Conf<C>`, \
             `InstanceConf<C>` or `Remote<Self>`, and return `Self` or `Result<Self, ConfError>`",
        ));
    }
    (errors.len() == before).then(|| Init {
        ident: method.sig.ident.clone(),
        params: handler::typed_params(method),
        output: handler::output_type(&method.sig.output),
    })
}

/// Two handlers for one topic: Flux calls only the first, without a word.
fn check_duplicates(handlers: &[Handler], errors: &mut Vec<syn::Error>) {
    let mut seen: Vec<(String, &syn::Ident)> = Vec::new();
    for handler in handlers {
        for topic in &handler.topics {
            let OnKind::Known(found) = &topic.kind else {
                continue;
            };
            let name = match (found.topic, found.key.as_str()) {
                ("service", key) => format!("service {key}"),
                (topic, "") => topic.to_owned(),
                (topic, key) => topic.replace('*', key),
            };
            if let Some((_, first)) = seen.iter().find(|(other, _)| *other == name) {
                errors.push(syn::Error::new(
                    topic.span,
                    format!(
                        "`{name}` is handled twice in this plugin: by `{first}` and by `{}`\n\
                         note: a plugin has one handler for a topic; do both in one function",
                        handler.ident
                    ),
                ));
                continue;
            }
            seen.push((name, &handler.ident));
        }
    }
}
