//! What a method's signature says, as far as its tokens show.

use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{
    FnArg, GenericArgument, GenericParam, Generics, ImplItemFn, Lifetime, PathArguments,
    ReturnType, Safety, Type,
};

use crate::errors::ErrorSink;

/// Returns the types of the parameters, without the receiver.
pub(crate) fn params(method: &ImplItemFn) -> Vec<Type> {
    let inputs = method.sig.inputs.iter();
    inputs
        .filter_map(|input| match input {
            FnArg::Typed(param) => Some(outside(method, &param.ty)),
            FnArg::Receiver(_) => None,
        })
        .collect()
}

/// Returns the written return type.
pub(crate) fn output(method: &ImplItemFn) -> Option<Type> {
    match &method.sig.output {
        ReturnType::Default => None,
        ReturnType::Type(_, output) => Some(outside(method, output)),
    }
}

/// Returns whether a value is returned: anything but `()` and `Result<(), E>`.
pub(crate) fn returns_value(output: Option<&Type>) -> bool {
    let Some(output) = output else { return false };
    let value = result_types(output).map_or(output, |(value, _)| value);
    !matches!(value, Type::Tuple(unit) if unit.elems.is_empty())
}

/// Returns the two types of a type that is written as a `Result`.
pub(crate) fn result_types(output: &Type) -> Option<(&Type, &Type)> {
    let Type::Path(path) = output else { return None };
    let last = path.path.segments.last().filter(|last| last.ident == "Result")?;
    let PathArguments::AngleBracketed(arguments) = &last.arguments else { return None };
    let mut types = arguments.args.iter().filter_map(|argument| match argument {
        GenericArgument::Type(kind) => Some(kind),
        _ => None,
    });
    Some((types.next()?, types.next()?))
}

/// Returns whether a type is written with this name, whatever path leads to it.
pub(crate) fn is_named(written: &Type, name: &str) -> bool {
    let Type::Path(path) = written else { return false };
    path.path.segments.last().is_some_and(|last| last.ident == name)
}

/// Refuses generics, which would make one function many, and what safe Rust can't call.
pub(crate) fn check_plain(method: &ImplItemFn, what: &str, errors: &ErrorSink<'_>) {
    let generics = &method.sig.generics;
    for param in &generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            errors.push(syn::Error::new_spanned(
                param,
                format!(
                    "{what} can't be generic\nnote: the manager calls it by its topic and knows no \
                     type to put here; name the type"
                ),
            ));
        }
    }
    let unsafe_token = match &method.sig.safety {
        Safety::Unsafe(token) => Some((token.span(), "unsafe")),
        _ => None,
    };
    let modifiers = [unsafe_token, method.sig.abi.as_ref().map(|abi| (abi.span(), "extern"))];
    for (span, word) in modifiers.into_iter().flatten() {
        let message = format!("{what} can't be `{word}`\nnote: it is called from safe Rust");
        errors.push(syn::Error::new(span, message));
    }
}

/// Returns a type of the signature as it is written outside of the signature, where its lifetimes
/// have no names.
fn outside(method: &ImplItemFn, written: &Type) -> Type {
    let mut written = written.clone();
    // The author's `$t:ty`, in a plugin that a macro makes.
    while let Type::Group(group) = written {
        written = *group.elem;
    }
    Anonymous(&method.sig.generics).visit_type_mut(&mut written);
    written
}

/// Turns the lifetimes that a function declares into `'_`.
struct Anonymous<'a>(&'a Generics);

impl VisitMut for Anonymous<'_> {
    fn visit_lifetime_mut(&mut self, lifetime: &mut Lifetime) {
        if self.0.lifetimes().any(|declared| declared.lifetime == *lifetime) {
            *lifetime = Lifetime::new("'_", lifetime.span());
        }
    }
}
