//! One handler: a method under `#[on]` or `#[service]`, checked and taken apart.

use quote::ToTokens;
use syn::{FnArg, ImplItemFn, Receiver, ReceiverKind, Type};

use super::model::{Handler, OnKind, OnTopic, Policy};
use super::{on, params, signature};
use crate::errors::ErrorSink;

/// Takes a method apart. If it can't be a handler, reports that and returns `None`.
pub(crate) fn take(
    method: &ImplItemFn,
    topics: Vec<OnTopic>,
    policy: Policy,
    errors: &ErrorSink<'_>,
) -> Option<Handler> {
    let errors = errors.child();
    let ident = method.sig.ident.clone();
    let is_async = method.sig.asyncness.is_some();
    signature::check_plain(method, "a handler", &errors);
    let has_self = check_receiver(method, is_async, &errors);
    params::check_attributes(method, &errors);
    let params = signature::params(method);
    for param in &params {
        params::check(param, is_async, &topics, &errors);
    }
    on::check_policy(&policy, is_async, &topics, &errors);
    if is_async {
        check_async(&topics, &errors);
    }
    let output = signature::output(method);
    errors.extend(output.as_ref().and_then(refuse_output));
    if !is_async {
        errors.extend(output.as_ref().and_then(refuse_descriptor));
    }
    if errors.has_errors() {
        return None;
    }
    Some(Handler {
        output_span: ident.span(),
        ident,
        topics,
        has_self,
        is_async,
        params,
        output,
        policy,
        service: None,
        conditions: method.attrs.iter().filter(|a| a.path().is_ident("cfg")).cloned().collect(),
    })
}

/// Reports the receiver if a handler can't take it; returns whether there is one.
fn check_receiver(method: &ImplItemFn, is_async: bool, errors: &ErrorSink<'_>) -> bool {
    let Some(FnArg::Receiver(receiver)) = method.sig.inputs.first() else {
        return false;
    };
    if is_async {
        errors.push(syn::Error::new_spanned(
            receiver,
            "an `async` handler can't take the plugin\nnote: it outlives the callback; take \
             `remote: Remote<Self>` and reach the plugin with `remote.call(|plugin, cx| ..).await`",
        ));
    } else if !is_reference(receiver) {
        errors.push(syn::Error::new_spanned(
            receiver,
            "a handler can't consume the plugin\nnote: take `&self`, or `&mut self` to change it",
        ));
    }
    true
}

fn is_reference(receiver: &Receiver) -> bool {
    match &receiver.kind {
        ReceiverKind::Reference(..) => true,
        ReceiverKind::Typed(_, typed) => matches!(**typed, Type::Reference(_)),
        _ => false,
    }
}

/// Reports the topics at which nothing waits for the work of an `async` handler, and more than one.
fn check_async(topics: &[OnTopic], errors: &ErrorSink<'_>) {
    let errors = errors.child();
    errors.extend(topics.iter().filter_map(refuse_async));
    if !errors.has_errors() {
        errors.extend(refuse_several(topics));
    }
}

fn refuse_async(topic: &OnTopic) -> Option<syn::Error> {
    let message = match &topic.kind {
        OnKind::Known(found) if found.may_be_async => return None,
        OnKind::Known(found) => format!(
            "a handler of `{}` can't be `async`\nnote: nothing waits for it; `async` works on \
             `job.validate`, `job.dependency.SCHEME`, `job.state.depend`, `.priority`, `.run` and \
             `.cleanup`, `slurm.job_submit` and `slurm.job_modify`; elsewhere start the work through \
             `Remote<Self>`",
            found.name()
        ),
        OnKind::Own(_) => "a handler of a topic of your own can't be `async`\nnote: who asks gets the \
                           answer within the callback; answer with what is known, and start work that \
                           takes time through `Remote<Self>`"
            .to_owned(),
    };
    Some(syn::Error::new(topic.span, message))
}

/// Refuses several topics, since the meaning of an `async` handler's answer depends on its topic.
fn refuse_several(topics: &[OnTopic]) -> Option<syn::Error> {
    let kind = |topic: &OnTopic| match &topic.kind {
        OnKind::Known(found) => found.type_name.to_owned(),
        OnKind::Own(path) => path.to_token_stream().to_string(),
    };
    let (first, others) = topics.split_first()?;
    let second = others.iter().find(|other| kind(other) != kind(first))?;
    Some(syn::Error::new(
        second.span,
        "an `async` handler has one topic\nnote: each topic waits in a way of its own; write one \
         `async fn` for each, which may share a function",
    ))
}

/// The errors of the SDK, which authors are tempted to return alone.
const ERRORS: [&str; 6] =
    ["ConfError", "EpilogFailed", "HandlerError", "PrologFailed", "Reject", "ServiceError"];

/// Refuses a changed description as the return value of a handler that is not `async`.
fn refuse_descriptor(output: &Type) -> Option<syn::Error> {
    let value = signature::result_types(output).map_or(output, |(value, _)| value);
    signature::is_named(value, "JobDescriptor").then(|| {
        syn::Error::new_spanned(
            value,
            "a changed `JobDescriptor` is returned by `async` handlers only\nnote: change the request in \
             place: take `mut desc: Descriptor<'_>`, and return `Result<(), SlurmError>`",
        )
    })
}

/// Refuses a return type that no topic takes, as far as its tokens show that.
fn refuse_output(output: &Type) -> Option<syn::Error> {
    let message = match output {
        Type::ImplTrait(_) => {
            "a handler's return type must be named\nnote: write the type itself, \
                               such as `Priority` or `Result<(), Reject>`"
                .to_owned()
        }
        Type::Path(path) => {
            let error = &path.path.segments.last()?.ident;
            if !ERRORS.iter().any(|known| error == known) {
                return None;
            }
            format!(
                "a handler can't return an error alone\nnote: it would always fail; write \
                 `Result<(), {error}>`, and `Err({error}::new(..))` where it does"
            )
        }
        _ => return None,
    };
    Some(syn::Error::new_spanned(output, message))
}
