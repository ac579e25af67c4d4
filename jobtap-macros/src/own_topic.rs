//! `#[topic("accounts.share", answer = f64)]`: a struct that is a topic of the author's own, and its
//! payload.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Ident, LitStr, Path, Token, Type};

use crate::args;
use crate::{suggest, values};

#[derive(Default)]
struct TopicArgs {
    name: Option<LitStr>,
    answer: Option<Type>,
    job: bool,
    krate: Option<Path>,
}

enum Arg {
    Name(LitStr),
    Answer(Ident, Type),
    Job,
    Crate(Ident, Path),
}

const KEYS: &[&str] = &["answer", "job", "crate"];

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Arg::Name(input.parse()?));
        }
        if !input.peek(<Ident as syn::ext::IdentExt>::peek_any) {
            return Err(input.error(
                "the topic's name is expected\nnote: write `#[topic(\"my-plugin.question\", answer \
                 = f64)]`",
            ));
        }
        let key = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
        let name = key.to_string();
        if !KEYS.contains(&name.as_str()) {
            let message = match suggest::nearest(&name, KEYS.iter().copied()) {
                Some(meant) => {
                    format!("`{name}` is no argument of `#[topic]`; did you mean `{meant}`?")
                }
                None => format!(
                    "`{name}` is no argument of `#[topic]`\nnote: write \
                     `#[topic(\"my-plugin.question\", answer = f64)]`, and `job` for a topic about \
                     a job"
                ),
            };
            return Err(syn::Error::new(key.span(), message));
        }
        if key == "job" && input.peek(Token![=]) {
            let message =
                "`job` takes no value\nnote: write `#[topic(\"my-plugin.question\", job)]`";
            return Err(syn::Error::new(key.span(), message));
        }
        if key == "job" {
            return Ok(Arg::Job);
        }
        if !input.peek(Token![=]) {
            let message = format!("`{name}` needs a value\nnote: write `{name} = ..`");
            return Err(syn::Error::new(key.span(), message));
        }
        input.parse::<Token![=]>()?;
        if key == "answer" {
            let answer = values::type_of(&key, input)?;
            return Ok(Arg::Answer(key, answer));
        }
        let krate = values::crate_of(&key, input)?;
        Ok(Arg::Crate(key, krate))
    }
}

/// The macro's whole work.
pub(crate) fn topic(args: TokenStream, item: TokenStream) -> TokenStream {
    let mut errors = Vec::new();
    let args = read(args, &mut errors);
    let expanded = match kind(&item) {
        // With a mistake in its arguments it is a topic still: who uses it is not to blame.
        Ok(kind) => Some(expand(&args, &kind)),
        Err(error) => {
            errors.push(error);
            None
        }
    };
    let errors = errors.iter().map(syn::Error::to_compile_error);
    quote!(#item #expanded #(#errors)*)
}

fn read(tokens: TokenStream, errors: &mut Vec<syn::Error>) -> TopicArgs {
    let mut read = TopicArgs::default();
    let parsed = match Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens) {
        Ok(parsed) => parsed,
        Err(error) => {
            errors.push(error);
            return read;
        }
    };
    for arg in parsed {
        match arg {
            Arg::Name(second) if read.name.is_some() => {
                let message = "a topic has one name\nnote: leave one of them out";
                errors.push(syn::Error::new(second.span(), message));
            }
            Arg::Answer(key, _) if read.answer.is_some() => errors.push(args::twice(&key)),
            Arg::Crate(key, _) if read.krate.is_some() => errors.push(args::twice(&key)),
            Arg::Name(name) => {
                errors.extend(check_name(&name).err());
                read.name = Some(name);
            }
            Arg::Answer(_, kind) => match values::borrowed(&kind) {
                Some(error) => errors.push(error),
                None => read.answer = Some(kind),
            },
            Arg::Job => read.job = true,
            Arg::Crate(_, path) => read.krate = Some(path),
        }
    }
    if read.name.is_none() {
        let message = "a topic needs a name\nnote: write `#[topic(\"my-plugin.question\")]`";
        errors.push(syn::Error::new(Span::call_site(), message));
    }
    read
}

/// The type that is to be the topic.
fn kind(item: &TokenStream) -> syn::Result<Ident> {
    let input: DeriveInput = syn::parse2(item.clone()).map_err(|_| {
        syn::Error::new(
            Span::call_site(),
            "`#[topic]` goes on a struct\nnote: the struct is the topic and what is asked in one: \
             `struct Question { user: Uid }`",
        )
    })?;
    if let Some(param) = input.generics.params.first() {
        let message =
            "a topic can't be generic\nnote: it is found by its name; declare one for each type";
        return Err(syn::Error::new_spanned(param, message));
    }
    Ok(input.ident)
}

fn expand(args: &TopicArgs, kind: &Ident) -> TokenStream {
    let krate = args.krate.as_ref().map_or_else(|| quote!(::jobtap_core), |path| quote!(#path));
    let (p, t) = (quote!(#krate::__private), quote!(#krate::topic));
    let name = args.name.as_ref().map_or_else(|| quote!(""), |name| quote!(#name));
    let about = if args.job { quote!(HasJob) } else { quote!(WithoutJob) };
    let (answers, returns) = match &args.answer {
        None => (quote!(()), quote!(impl #t::ReturnsUnit for #kind {})),
        Some(answer) => (
            quote!(#answer),
            quote! {
                impl #p::IntoOutcome<#kind> for #answer {
                    fn into_outcome(self) -> #p::Result<#p::Outcome, #p::Failure> {
                        #p::Result::Ok(#p::Outcome::answer(self))
                    }
                }
            },
        ),
    };
    quote! {
        impl #t::TopicSet for #kind {}
        impl #t::Topic for #kind {
            const NAME: &'static ::core::primitive::str = #name;
            const ON_FAILURE: #t::OnFailure = #t::OnFailure::Log;
            const ID: #t::TopicId = #t::TopicId::Own;
        }
        impl #t::OwnTopic for #kind {
            type Answer = #answers;
        }
        impl #t::NamedByPath for #kind {
            type Topic = Self;
        }
        impl #t::ReturnsFault for #kind {}
        impl #t::#about for #kind {}
        #returns
        impl<'call, __Plugin> #p::FromTopic<'call, __Plugin, #kind> for &'call #kind {
            fn from_topic(__call: &#p::Call<'call, #kind>) -> #p::Result<Self, #p::Failure> {
                __call.payload::<#kind>()
            }
        }
    }
}

/// The manager's own names are taken.
fn check_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let taken = ["job", "conf", "plugin", "unload", "service"];
    let first = text.split('.').next().unwrap_or_default();
    if taken.contains(&first) {
        let message = format!(
            "topics that begin with `{first}` belong to the manager\nnote: begin with your plugin's \
             name: `#[topic(\"my-plugin.question\")]`"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    if text.is_empty() || !text.chars().all(plain) {
        let message = format!(
            "{text:?} can't be a topic's name\nnote: use letters, digits, `-`, `_` and `.`"
        );
        return Err(syn::Error::new(name.span(), message));
    }
    Ok(())
}
