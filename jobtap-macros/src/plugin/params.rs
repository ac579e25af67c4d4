//! Checks the parameters of a handler as far as the tokens of their types allow: the rest is left to the bounds of
//! `jobtap-core`. The topics of the handler's `Cx<'_, T>` are known here, so the error for a context of other
//! topics names the type to write.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::visit::Visit;
use syn::{
    FnArg, GenericArgument, ImplItemFn, Lifetime, PathArguments, PathSegment, Type, TypePath,
    TypeReference, parse_quote,
};

use super::model::{OnKind, OnTopic};
use crate::errors::ErrorSink;
use crate::topics;

/// Parameters that are taken by value.
const BY_VALUE: &[&str] = &[
    "Caller",
    "Cx",
    "Data",
    "Descriptor",
    "InstanceConf",
    "InstanceData",
    "JobInfo",
    "JobTopic",
    "JobsData",
    "Partitions",
    "PrevState",
    "Remote",
    "Request",
    "Responder",
    "SubmitUid",
    "Updates",
    "UserMessages",
];

/// Refuses a parameter that no topic has in this form.
pub(crate) fn check(param: &Type, is_async: bool, topics: &[OnTopic], errors: &ErrorSink<'_>) {
    errors.extend(refuse_borrowed_table(param));
    match param {
        Type::ImplTrait(_) => errors.push(syn::Error::new_spanned(
            param,
            "a handler can't be generic\nnote: name the parameter's type instead of `impl Trait`",
        )),
        Type::Reference(_) if is_async => errors.push(syn::Error::new_spanned(
            param,
            "an `async` handler can't borrow from the callback, which it outlives\nnote: take it \
             by value: `JobInfo` instead of `&Job`, `ResourceSet` instead of `&ResourceSet`",
        )),
        Type::Reference(reference) => errors.extend(check_reference(reference, topics)),
        Type::Path(path) if is_async => errors.extend(refuse_in_async(path)),
        Type::Path(path) if is_descriptor(path) => errors.push(syn::Error::new_spanned(
            path,
            "changes of a `JobDescriptor` would be lost here, since it is a copy\nnote: take `mut desc: \
             Descriptor<'_>`, which is changed in place; only an `async` handler takes a copy and returns it",
        )),
        Type::Path(path) if is_own(path, topics) => {
            let topic = path.to_token_stream().to_string().replace(' ', "");
            errors.push(syn::Error::new_spanned(
                path,
                format!("a handler borrows what is asked\nnote: write `&{topic}`"),
            ));
        }
        _ => check_context(param, topics, errors),
    }
}

/// Refuses a table of the configuration whose type borrows: `Conf<Settings<'_>>`.
pub(crate) fn refuse_borrowed_table(param: &Type) -> Option<syn::Error> {
    let Type::Path(path) = param else { return None };
    let last = path.path.segments.last()?;
    if !["Conf", "InstanceConf"].iter().any(|name| last.ident == name) {
        return None;
    }
    let mut borrows = Borrows(None);
    borrows.visit_path_arguments(&last.arguments);
    let message = format!(
        "`{}` can't borrow\nnote: the plugin keeps its settings longer than the text that they are read \
         from; let the type own them, as in `String` for `&str`",
        last.ident
    );
    borrows.0.map(|span| syn::Error::new(span, message))
}

/// Finds a lifetime other than `'static`, or a reference.
struct Borrows(Option<Span>);

impl Visit<'_> for Borrows {
    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident != "static" {
            self.0.get_or_insert_with(|| lifetime.span());
        }
    }

    fn visit_type_reference(&mut self, reference: &TypeReference) {
        self.0.get_or_insert_with(|| reference.and_token.span);
    }
}

/// Returns whether this is a copy of a request's description.
fn is_descriptor(path: &TypePath) -> bool {
    path.path.segments.last().is_some_and(|last| last.ident == "JobDescriptor")
}

/// Returns whether this is one of the handler's own topics, which is also the payload.
fn is_own(path: &TypePath, topics: &[OnTopic]) -> bool {
    topics.iter().any(|topic| matches!(&topic.kind, OnKind::Own(own) if *own == path.path))
}

fn check_reference(reference: &TypeReference, topics: &[OnTopic]) -> Option<syn::Error> {
    // An own topic is taken by reference, whatever its name.
    let own = topics.iter().any(|topic| matches!(topic.kind, OnKind::Own(_)));
    if let Type::Path(path) = &*reference.elem
        && let Some(last) = path.path.segments.last().filter(|_| !own)
        && BY_VALUE.iter().any(|name| last.ident == name)
    {
        let (name, and) = match &reference.mutability {
            Some(_) => (&last.ident, "&mut"),
            None => (&last.ident, "&"),
        };
        let message =
            format!("a handler takes `{name}` by value\nnote: write it without the `{and}`");
        return Some(syn::Error::new_spanned(reference, message));
    }
    if let Type::Path(path) = &*reference.elem
        && is_descriptor(path)
        && !own
    {
        return Some(syn::Error::new_spanned(
            reference,
            "the description of a request is a `Descriptor`\nnote: take `mut desc: Descriptor<'_>`, which \
             dereferences to `JobDescriptor`",
        ));
    }
    if let Some(lifetime) = reference.lifetime.as_ref().filter(|name| name.ident == "static") {
        return Some(syn::Error::new_spanned(
            lifetime,
            "a handler borrows for the callback only\nnote: write it without `'static`; to keep something \
             of a job, copy it, as in `let id = job.id();`",
        ));
    }
    reference.mutability.is_some().then(|| {
        syn::Error::new_spanned(
            reference,
            "a handler can't change its parameters in place\nnote: take `&Job` and the like; what \
             may be changed is changed with `cx`, as in `cx.jobspec_update(path, value)`",
        )
    })
}

/// Refuses `#[cfg]` on parameters: a handler has the same parameters in every build.
pub(crate) fn check_attributes(method: &ImplItemFn, errors: &ErrorSink<'_>) {
    for input in &method.sig.inputs {
        let FnArg::Typed(param) = input else { continue };
        let conditional = |path: &syn::Path| path.is_ident("cfg") || path.is_ident("cfg_attr");
        if let Some(attribute) = param.attrs.iter().find(|a| conditional(a.path())) {
            errors.push(syn::Error::new_spanned(
                attribute,
                "a handler's parameter can't be conditional\nnote: put `#[cfg(..)]` on two \
                 handlers, one for each case",
            ));
        }
    }
}

/// Refuses a context that doesn't name the handler's own topics, in their order.
fn check_context(param: &Type, topics: &[OnTopic], errors: &ErrorSink<'_>) {
    let Type::Path(path) = param else { return };
    let Some(context) = path.path.segments.last().filter(|last| last.ident == "Cx") else {
        return;
    };
    let mut names: Vec<&str> = Vec::new();
    for topic in topics {
        // An author's own topic may be named by any path, so only the compiler can compare it.
        let OnKind::Known(found) = &topic.kind else {
            return;
        };
        if !names.contains(&found.type_name) {
            names.push(found.type_name);
        }
    }
    let wanted = match names.as_slice() {
        [] => return,
        [one] => (*one).to_owned(),
        many => format!("({})", many.join(", ")),
    };
    // The compiler reports a type that isn't a topic.
    if written(context).is_some_and(|written| written == names || !all_known(&written)) {
        return;
    }
    errors.push(syn::Error::new_spanned(
        param,
        format!(
            "the context of this handler is `Cx<'_, {wanted}>`\n\
             note: `Cx` names the topic of `#[on]`, or all of them in their order"
        ),
    ));
}

/// Writes the handler's first topic into each `Cx` that names no topic, or several without brackets. The macro has
/// reported that; without a valid type the compiler would report it again.
pub(crate) fn complete_contexts(method: &mut ImplItemFn, topic: &TokenStream) {
    for input in &mut method.sig.inputs {
        let FnArg::Typed(param) = input else { continue };
        let Type::Path(path) = &mut *param.ty else { continue };
        let Some(last) = path.path.segments.last_mut().filter(|last| last.ident == "Cx") else {
            continue;
        };
        if written(last).is_none() || types(&last.arguments) > 1 {
            last.arguments = PathArguments::AngleBracketed(parse_quote!(<'_, #topic>));
        }
    }
}

/// Refuses what an `async` handler can't take because it ends with the callback.
fn refuse_in_async(path: &TypePath) -> Option<syn::Error> {
    let last = path.path.segments.last()?;
    let instead = match last.ident.to_string().as_str() {
        "Cx" => {
            "take `remote: Remote<Self>`, and get a `cx` with \
             `remote.call(|plugin, cx| ..).await`"
        }
        "Data" | "JobsData" => {
            "use it in a handler that is not `async`, or `cx.data(job)` in \
             `remote.call(|plugin, cx| ..).await`"
        }
        "InstanceData" => {
            "use it in a handler that is not `async`, or `cx.instance_data()` in \
             `remote.call(|plugin, cx| ..).await`"
        }
        "Descriptor" => {
            "take `mut desc: JobDescriptor`, a copy, and return it changed: \
             `Result<JobDescriptor, SlurmError>`"
        }
        "Partitions" => "take a copy, `Vec<Partition>`",
        "JobTopic" | "Updates" => "use it in a handler that is not `async`",
        _ => return None,
    };
    let message = format!(
        "an `async` handler can't take `{}`, which ends with the callback\nnote: {instead}",
        last.ident
    );
    Some(syn::Error::new_spanned(path, message))
}

/// Returns the names of the topics in `Cx<'_, ..>`; `None` when there are no topics or no plain ones.
fn written(context: &PathSegment) -> Option<Vec<String>> {
    let PathArguments::AngleBracketed(arguments) = &context.arguments else {
        return None;
    };
    let topics = arguments.args.iter().rev().find_map(|a| match a {
        GenericArgument::Type(topics) => Some(topics),
        _ => None,
    })?;
    let types: Vec<&Type> = match topics {
        Type::Tuple(tuple) => tuple.elems.iter().collect(),
        one => vec![one],
    };
    let names = types.into_iter().map(|topic| match topic {
        Type::Path(path) => path.path.segments.last().map(|last| last.ident.to_string()),
        _ => Some(String::new()),
    });
    names.collect()
}

fn types(arguments: &PathArguments) -> usize {
    let PathArguments::AngleBracketed(arguments) = arguments else { return 0 };
    arguments.args.iter().filter(|a| matches!(a, GenericArgument::Type(_))).count()
}

fn all_known(names: &[String]) -> bool {
    names.iter().all(|name| topics::is_type(name))
}
