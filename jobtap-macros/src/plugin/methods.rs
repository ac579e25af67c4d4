//! The methods of a plugin: which of them are marked, and what the marks say.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::{Attribute, ImplItem, ImplItemFn, ItemImpl, Meta, parse_quote};

use super::model::{
    Build, Clash, Handler, Init, Methods, OnKind, OnTopic, PluginArgs, Policy, both,
};
use super::{body_lints, handler, on, params, service, signature};
use crate::errors::ErrorSink;

/// The attributes that mark a method.
pub(crate) const MARKS: [&str; 3] = ["on", "init", "service"];

/// Removes the marks from the methods and reads them.
pub(crate) fn take(item_impl: &mut ItemImpl, args: &PluginArgs, errors: &ErrorSink<'_>) -> Methods {
    let krate = args.krate();
    let mut methods = Methods::default();
    for item in &mut item_impl.items {
        match item {
            ImplItem::Fn(method) => {
                let marks: Vec<_> = method.attrs.extract_if(.., |a| is_mark(a)).collect();
                let hidden = method.attrs.extract_if(.., |a| hides(a).is_some());
                errors.extend(hidden.map(refuse_hidden));
                let mistaken = method.attrs.extract_if(.., |a| is_mistaken(a));
                errors.extend(mistaken.map(refuse_mistaken));
                add(&mut methods, method, &marks, &krate, errors);
            }
            ImplItem::Const(other) => refuse_marks(&mut other.attrs, errors),
            ImplItem::Type(other) => refuse_marks(&mut other.attrs, errors),
            ImplItem::Macro(other) => refuse_marks(&mut other.attrs, errors),
            _ => {}
        }
    }
    methods.clashes = check_duplicates(&methods.handlers, errors);
    methods
}

/// Adds a method, if it is marked.
fn add(
    methods: &mut Methods,
    method: &mut ImplItemFn,
    marks: &[Attribute],
    krate: &TokenStream,
    errors: &ErrorSink<'_>,
) {
    let (Some(first), others) = (marks.first(), marks.get(1..).unwrap_or_default()) else {
        return;
    };
    if let Some(other) = others.iter().find(|other| !(is_on(first) && is_on(other))) {
        errors.push(two_roles(first, other));
    }
    if let Some(error) = body_lints::check(method) {
        errors.push(error);
    }
    // Handlers take `Cx` and the like by value, and most only look into them.
    method.attrs.push(parse_quote!(#[allow(clippy::needless_pass_by_value)]));
    // A method with two marks is read by only one of them, so that only the second mark is reported: by
    // `#[init]` if it is among them, since it has no topic whose parameters could be wrong too.
    if marks.iter().any(|mark| is_named(mark, "init")) {
        if matches!(methods.init, Init::Default) {
            methods.init = take_init(method, first, errors);
        } else {
            errors.push(syn::Error::new_spanned(
                first,
                "a plugin has one `#[init]` function\nnote: leave the mark on the one that builds \
                 it; others can be called from there",
            ));
        }
    } else if let Some(mark) = marks.iter().find(|mark| is_named(mark, "service")) {
        let service = errors.ok(service::parse(mark));
        methods.handlers.extend(service.and_then(|s| service::take(method, s, errors)));
    } else {
        let mut policy = Policy::default();
        let mut topics = Vec::new();
        for mark in marks {
            topics.extend(on::parse(mark, &mut policy, errors));
        }
        let first_topic = topics.first().map(|topic| topic.written_type(krate));
        methods.handlers.extend(handler::take(method, topics, policy, errors));
        if let Some(topic) = first_topic {
            params::complete_contexts(method, &topic);
        }
    }
}

fn take_init(method: &ImplItemFn, mark: &Attribute, errors: &ErrorSink<'_>) -> Init {
    let errors = errors.child();
    if let Meta::List(list) = &mark.meta
        && !list.tokens.is_empty()
    {
        errors.push(syn::Error::new_spanned(
            &list.tokens,
            "`#[init]` takes no arguments\nnote: those of the plugin go to `#[jobtap_plugin(..)]`",
        ));
    }
    if let Some(condition) = method.attrs.iter().find(|a| a.path().is_ident("cfg")) {
        errors.push(syn::Error::new_spanned(
            condition,
            "`#[init]` can't be conditional\nnote: put `#[cfg(..)]` inside the function",
        ));
    }
    signature::check_plain(method, "`#[init]`", &errors);
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
    let params = signature::params(method);
    if let Some(second) = params.iter().filter(|param| signature::is_named(param, "Conf")).nth(1) {
        errors.push(syn::Error::new_spanned(
            second,
            "`#[init]` takes one `Conf`\nnote: a plugin has one table; put all its settings into one \
             struct",
        ));
    }
    for param in &params {
        errors.extend(params::refuse_borrowed_table(param));
    }
    if errors.has_errors() {
        return Init::Broken;
    }
    Init::Function(Box::new(Build {
        ident: method.sig.ident.clone(),
        params,
        output: signature::output(method),
    }))
}

fn two_roles(first: &Attribute, other: &Attribute) -> syn::Error {
    let message = if is_named(first, "init") && is_named(other, "init") {
        "`#[init]` is written twice here\nnote: leave one of them out"
    } else if is_named(first, "init") || is_named(other, "init") {
        "a function is either `#[init]` or a handler\nnote: `#[init]` builds the plugin, before any \
         topic is called"
    } else {
        "a function is one service or a handler\nnote: write one function for each; they can share \
         a method"
    };
    syn::Error::new_spanned(other, message)
}

/// Refuses marks on items that aren't functions.
fn refuse_marks(attributes: &mut Vec<Attribute>, errors: &ErrorSink<'_>) {
    let marks = attributes.extract_if(.., |a| is_mark(a));
    errors.extend(marks.map(|mark| {
        let path = mark.path().to_token_stream().to_string();
        let message = format!(
            "`#[{path}]` goes on a function of the plugin\nnote: write `fn name(&self) {{ .. }}` \
             under it"
        );
        syn::Error::new_spanned(mark, message)
    }));
}

/// Returns the mark inside a `cfg_attr`, which the compiler expands only after this macro has run.
fn hides(attribute: &Attribute) -> Option<&'static str> {
    let Meta::List(list) = attribute.path().is_ident("cfg_attr").then_some(&attribute.meta)? else {
        return None;
    };
    let attributes = || list.tokens.clone().into_iter().skip_while(|t| t.to_string() != ",");
    MARKS.into_iter().find(|mark| attributes().any(|word| word.to_string() == *mark))
}

fn refuse_hidden(attribute: Attribute) -> syn::Error {
    let mark = hides(&attribute).unwrap_or_default();
    syn::Error::new_spanned(
        attribute,
        format!(
            "`#[{mark}]` can't be inside `cfg_attr`\nnote: write `#[cfg(..)]` beside `#[{mark}]`: a \
             handler that isn't compiled isn't called"
        ),
    )
}

/// Names that authors give to the mark of a handler, after other frameworks and Flux's C interface.
const MISTAKEN: [&str; 7] =
    ["handler", "hook", "callback", "event", "subscribe", "topic_handler", "jobtap"];

fn is_mistaken(attribute: &Attribute) -> bool {
    MISTAKEN.iter().any(|name| attribute.path().is_ident(name))
}

fn refuse_mistaken(attribute: Attribute) -> syn::Error {
    let name = attribute.path().to_token_stream().to_string();
    let arguments = match &attribute.meta {
        Meta::List(list) if !list.tokens.is_empty() => list.tokens.to_string(),
        _ => "\"job.state.run\"".to_owned(),
    };
    syn::Error::new_spanned(
        attribute,
        format!(
            "`#[{name}]` marks no handler\nnote: write `#[on({arguments})]`; a service is marked with \
             `#[service(\"name\")]`, and the function that builds the plugin with `#[init]`"
        ),
    )
}

fn is_mark(attribute: &Attribute) -> bool {
    MARKS.iter().any(|name| is_named(attribute, name))
}

fn is_on(attribute: &Attribute) -> bool {
    is_named(attribute, "on")
}

/// Compares the last segment, so that `#[jobtap_core::on(..)]` works too.
fn is_named(attribute: &Attribute, name: &str) -> bool {
    attribute.path().segments.last().is_some_and(|segment| segment.ident == name)
}

/// Reports two handlers for one topic, of which Flux would silently call only the first. Returns the
/// pairs in which `#[cfg(..)]` may leave out one of the two.
fn check_duplicates(handlers: &[Handler], errors: &ErrorSink<'_>) -> Vec<Clash> {
    let mut seen: Vec<(String, &Handler)> = Vec::new();
    let mut clashes = Vec::new();
    for handler in handlers {
        for topic in &handler.topics {
            let name = shown(topic);
            let firsts = seen.iter().filter(|(other, _)| *other == name);
            for (_, first) in firsts {
                let error = syn::Error::new(topic.span, twice(&name, first, handler));
                if first.conditions.is_empty() && handler.conditions.is_empty() {
                    errors.push(error);
                    break;
                }
                clashes.push(Clash { conditions: both(first, handler), error });
            }
            seen.push((name, handler));
        }
    }
    clashes
}

/// Returns a topic as messages name it.
fn shown(topic: &OnTopic) -> String {
    match &topic.kind {
        OnKind::Known(found) if found.topic == "service" && found.key.is_empty() => {
            "the service without a name".to_owned()
        }
        OnKind::Known(found) if found.topic == "service" => format!("service `{}`", found.key),
        OnKind::Known(found) => format!("`{}`", found.name()),
        OnKind::Own(path) => format!("`{}`", path.to_token_stream()).replace(' ', ""),
    }
}

fn twice(name: &str, first: &Handler, second: &Handler) -> String {
    if first.ident == second.ident {
        return format!("{name} is named twice\nnote: a handler is called once for a topic");
    }
    let what =
        if second.service.is_some() { "function for a service" } else { "handler for a topic" };
    format!(
        "{name} is handled twice in this plugin: by `{}` and by `{}`\nnote: a plugin has one {what}; \
         do both in one function",
        first.ident, second.ident
    )
}
