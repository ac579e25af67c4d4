//! One handler: a method under `#[on]`, checked and taken apart.

use proc_macro2::{Span, TokenStream};
use quote::ToTokens;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::visit_mut::VisitMut;
use syn::{
    Attribute, Expr, FnArg, GenericArgument, GenericParam, Generics, Ident, ImplItemFn, Lifetime,
    LitStr, Meta, Path, PathArguments, Receiver, ReceiverKind, ReturnType, Safety, Token, Type,
};

use crate::args;
use crate::params;
use crate::policy::{Policy, Setting};
use crate::topics::{self, Found};

/// A handler as it is expanded.
pub(crate) struct Handler {
    pub(crate) ident: Ident,
    pub(crate) topics: Vec<OnTopic>,
    pub(crate) has_self: bool,
    pub(crate) is_async: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) output: Option<Type>,
    /// Where a return type would stand.
    pub(crate) output_span: Span,
    /// How its work is treated, if it is `async`.
    pub(crate) policy: Policy,
    /// It is a service; whether guests may ask it.
    pub(crate) service: Option<bool>,
    /// The `#[cfg(..)]` on it: where it isn't compiled, it isn't registered.
    pub(crate) conditions: Vec<Attribute>,
}

/// One argument of `#[on]`.
pub(crate) struct OnTopic {
    pub(crate) span: Span,
    pub(crate) kind: OnKind,
}

pub(crate) enum OnKind {
    /// A topic of the job manager.
    Known(Found),
    /// An author's own topic.
    Own(Path),
}

enum OnArg {
    Name(LitStr),
    Path(Path),
    Setting(Setting),
}

impl Parse for OnArg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(OnArg::Name(input.parse()?));
        }
        if input.peek(Ident) && input.peek2(Token![=]) {
            return Ok(OnArg::Setting(input.parse()?));
        }
        if input.peek(Ident) || input.peek(Token![::]) || input.peek(Token![crate]) {
            let path: Path = input.parse()?;
            if input.peek(Token![!]) {
                return Err(syn::Error::new_spanned(
                    path,
                    "a topic's name is written out\nnote: `#[on]` is read before the macros inside of \
                     it; write the string that this one makes",
                ));
            }
            return Ok(OnArg::Path(path));
        }
        Err(input.error(
            "a topic is expected\nnote: write its name as a string, `#[on(\"job.validate\")]`, \
             or the path of your own topic type, `#[on(my::Topic)]`",
        ))
    }
}

/// Reads `#[on(..)]`.
pub(crate) fn parse_on(
    attribute: &Attribute,
    policy: &mut Policy,
    errors: &mut Vec<syn::Error>,
) -> Vec<OnTopic> {
    let list = match &attribute.meta {
        Meta::List(list) => list,
        Meta::NameValue(written) => {
            errors.push(not_in_brackets(attribute, &written.value));
            return Vec::new();
        }
        Meta::Path(_) => {
            errors.push(no_topic(attribute));
            return Vec::new();
        }
    };
    if let Some(error) = bare_topic(&list.tokens) {
        errors.push(error);
        return Vec::new();
    }
    let parser = Punctuated::<OnArg, Token![,]>::parse_terminated;
    let args = match parser.parse2(list.tokens.clone()) {
        Ok(args) => args,
        Err(error) => {
            errors.push(error);
            return Vec::new();
        }
    };
    let names_none = |arg: &OnArg| matches!(arg, OnArg::Setting(s) if s.topic().is_none());
    if args.iter().all(names_none) {
        errors.push(no_topic(attribute));
    }
    let mut topics = Vec::new();
    for arg in args {
        match arg {
            OnArg::Name(name) => match topics::find(&name.value()) {
                Ok(found) => {
                    topics.push(OnTopic { span: name.span(), kind: OnKind::Known(found) });
                }
                Err(message) => errors.push(syn::Error::new(name.span(), message)),
            },
            OnArg::Setting(setting) => errors.extend(policy.set(setting).err()),
            OnArg::Path(path) => match managers_own(&path) {
                Some(error) => errors.push(error),
                None => topics.push(OnTopic { span: path.span(), kind: OnKind::Own(path) }),
            },
        }
    }
    topics
}

/// A topic of the manager goes by its string: a family's type alone doesn't say which member.
fn managers_own(path: &Path) -> Option<syn::Error> {
    let last = path.segments.last()?.ident.to_string();
    let string = topics::string_of(&last)?;
    Some(syn::Error::new_spanned(
        path,
        format!("a topic of the manager is named by its string\nnote: write `#[on({string:?})]`"),
    ))
}

/// `#[on = "job.new"]`.
fn not_in_brackets(attribute: &Attribute, value: &Expr) -> syn::Error {
    let topic = args::string(value, "a topic").map(|topic| topic.value());
    let topic = topic.unwrap_or_else(|_| "job.validate".to_owned());
    syn::Error::new_spanned(
        attribute,
        format!("`#[on]` takes its topics in brackets\nnote: write `#[on({topic:?})]`"),
    )
}

fn no_topic(attribute: &Attribute) -> syn::Error {
    syn::Error::new_spanned(
        attribute,
        "`#[on]` needs a topic\nnote: name one or more: `#[on(\"job.validate\")]`",
    )
}

/// `#[on(job.new)]`: the string without its quotes.
fn bare_topic(tokens: &TokenStream) -> Option<syn::Error> {
    let text = tokens.to_string().replace(' ', "");
    if !text.contains('.') || text.contains('"') {
        return None;
    }
    let quoted: Vec<String> = text.split(',').map(|topic| format!("{topic:?}")).collect();
    let message = format!("a topic's name is a string\nnote: write `#[on({})]`", quoted.join(", "));
    Some(syn::Error::new_spanned(tokens, message))
}

/// Takes a method apart; `None` when it can't be a handler, with the reasons in `errors`.
pub(crate) fn take(
    method: &ImplItemFn,
    topics: Vec<OnTopic>,
    policy: Policy,
    errors: &mut Vec<syn::Error>,
) -> Option<Handler> {
    let before = errors.len();
    let signature = &method.sig;
    let is_async = signature.asyncness.is_some();
    check_generics(method, "a handler", errors);
    let has_self = check_receiver(method, is_async, errors);
    params::check_attributes(method, errors);
    let params: Vec<Type> = typed_params(method);
    for param in &params {
        params::check(param, is_async, &topics, errors);
    }
    policy.check(is_async, &topics, errors);
    if is_async {
        let idle = topics.iter().filter_map(refuse_async);
        let before = errors.len();
        errors.extend(idle);
        if errors.len() == before {
            errors.extend(refuse_several(&topics));
        }
    }
    let output = output_type(method);
    errors.extend(output.as_ref().and_then(refuse_output));
    if errors.len() > before {
        return None;
    }
    Some(Handler {
        ident: signature.ident.clone(),
        topics,
        has_self,
        is_async,
        params,
        output_span: signature.ident.span(),
        output,
        policy,
        service: None,
        conditions: method.attrs.iter().filter(|a| a.path().is_ident("cfg")).cloned().collect(),
    })
}

/// What no topic takes, as far as it is seen by how it is written.
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

/// The errors of the SDK.
const ERRORS: [&str; 6] =
    ["ConfError", "EpilogFailed", "HandlerError", "PrologFailed", "Reject", "ServiceError"];

/// Nothing waits for the work of an `async` handler but at some topics. A service waits, too.
fn refuse_async(topic: &OnTopic) -> Option<syn::Error> {
    let message = match &topic.kind {
        OnKind::Known(found) if found.waits() || found.topic == "service" => return None,
        OnKind::Known(found) => format!(
            "a handler of `{}` can't be `async`\nnote: nothing waits for it; `async` works on \
             `job.validate`, `job.dependency.SCHEME`, `job.state.depend`, `.priority`, `.run` and \
             `.cleanup`; elsewhere start the work through `Remote<Self>`",
            found.name()
        ),
        OnKind::Own(_) => "a handler of a topic of your own can't be `async`\nnote: who asks gets the \
                           answer within the callback; answer with what is known, and start work that \
                           takes time through `Remote<Self>`"
            .to_owned(),
    };
    Some(syn::Error::new(topic.span, message))
}

/// What an `async` handler's answer is for depends on its topic.
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

/// The types of the parameters, the receiver left out.
pub(crate) fn typed_params(method: &ImplItemFn) -> Vec<Type> {
    let inputs = method.sig.inputs.iter();
    inputs
        .filter_map(|input| match input {
            FnArg::Typed(param) => Some(outside(method, &param.ty)),
            FnArg::Receiver(_) => None,
        })
        .collect()
}

/// The written return type.
pub(crate) fn output_type(method: &ImplItemFn) -> Option<Type> {
    match &method.sig.output {
        ReturnType::Default => None,
        ReturnType::Type(_, output) => Some(outside(method, output)),
    }
}

/// Whether something is returned, as far as the type is written.
pub(crate) fn answers(output: Option<&Type>) -> bool {
    let Some(output) = output else { return false };
    let value = result_types(output).map_or(output, |(value, _)| value);
    !matches!(value, Type::Tuple(unit) if unit.elems.is_empty())
}

/// The two types of a `Result`, as far as it is written as one.
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

/// A type of the signature as it is written outside of it, where its lifetimes have no names.
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

/// A handler is one function: what would make it many is refused.
pub(crate) fn check_generics(method: &ImplItemFn, what: &str, errors: &mut Vec<syn::Error>) {
    let generics = &method.sig.generics;
    for param in &generics.params {
        if !matches!(param, GenericParam::Lifetime(_)) {
            errors.push(syn::Error::new_spanned(
                param,
                format!("{what} can't be generic\nnote: the manager calls it by its topic and knows no type to put here; name the type"),
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

fn check_receiver(method: &ImplItemFn, is_async: bool, errors: &mut Vec<syn::Error>) -> bool {
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
