//! The parameters of a handler, as far as their types can be judged by how they are written.

use quote::ToTokens;
use syn::{FnArg, ImplItemFn, Type, TypePath, TypeReference};

use crate::context;
use crate::handler::{OnKind, OnTopic};

/// Parameters that belong to the callback and are handed over.
const BY_VALUE: &[&str] = &[
    "Caller",
    "Cx",
    "Data",
    "InstanceConf",
    "InstanceData",
    "JobInfo",
    "JobTopic",
    "PrevState",
    "Remote",
    "Request",
    "Responder",
    "Updates",
];

/// Refuses a parameter that no topic has in this form.
pub(crate) fn check(
    param: &Type,
    is_async: bool,
    topics: &[OnTopic],
    errors: &mut Vec<syn::Error>,
) {
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
        Type::Path(path) if is_async => errors.extend(context::refuse_in_async(path)),
        Type::Path(path) if is_own(path, topics) => {
            let topic = path.to_token_stream().to_string().replace(' ', "");
            errors.push(syn::Error::new_spanned(
                path,
                format!("a handler borrows what is asked\nnote: write `&{topic}`"),
            ));
        }
        _ => context::check(param, topics, errors),
    }
}

/// Whether a type is written by this name, whatever leads to it.
pub(crate) fn is_named(written: &Type, name: &str) -> bool {
    let Type::Path(path) = written else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == name)
}

/// Whether this is one of the handler's topics, which is what is asked.
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
    reference.mutability.is_some().then(|| {
        syn::Error::new_spanned(
            reference,
            "a handler can't change its parameters in place\nnote: take `&Job` and the like; what \
             may be changed is changed with `cx`, as in `cx.jobspec_update(path, value)`",
        )
    })
}

/// A handler has the same parameters in every build.
pub(crate) fn check_attributes(method: &ImplItemFn, errors: &mut Vec<syn::Error>) {
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
