//! The `Cx<'_, T>` of a handler: its topics are known here, so a context of others is answered with
//! the type to write.

use proc_macro2::TokenStream;
use syn::{
    FnArg, GenericArgument, ImplItemFn, PathArguments, PathSegment, Type, TypePath, parse_quote,
};

use crate::handler::{OnKind, OnTopic};
use crate::topics;

/// Refuses a context that is not of the handler's own topics, in their order.
pub(crate) fn check(param: &Type, topics: &[OnTopic], errors: &mut Vec<syn::Error>) {
    let Type::Path(path) = param else { return };
    let Some(context) = path.path.segments.last().filter(|last| last.ident == "Cx") else {
        return;
    };
    let mut names: Vec<&str> = Vec::new();
    for topic in topics {
        // A type of the author's own may go by any path: that is left to the compiler.
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
    // A type of the author's own in the place of a topic is left to the compiler.
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

/// Puts a topic into every context that is written without one, or with a list of them, which was
/// reported: the compiler would only say once more that one is missing or too many.
pub(crate) fn complete(method: &mut ImplItemFn, topic: &TokenStream) {
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

/// What an `async` handler can't take because it belongs to the callback.
pub(crate) fn refuse_in_async(path: &TypePath) -> Option<syn::Error> {
    let last = path.path.segments.last()?;
    let instead = match last.ident.to_string().as_str() {
        "Cx" => {
            "take `remote: Remote<Self>`, and get a `cx` with \
             `remote.call(|plugin, cx| ..).await`"
        }
        "Data" | "InstanceData" => {
            "use it in a handler that is not `async`, or `cx.data(job)` in \
             `remote.call(|plugin, cx| ..).await`"
        }
        "JobTopic" | "Updates" => "use it in a handler that is not `async`",
        _ => return None,
    };
    let message = format!(
        "an `async` handler can't take `{}`, which ends with the callback\nnote: {instead}",
        last.ident
    );
    Some(syn::Error::new_spanned(path, message))
}

/// The names of the topics in `Cx<'_, ..>`; none when there are no topics or no plain ones.
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
