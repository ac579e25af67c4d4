//! `#[topic("accounts.share", answer = f64)]`: makes a struct a topic of the author's own. The struct is
//! also the topic's payload.

use proc_macro2::{Span, TokenStream};
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::visit::{self, Visit};
use syn::{
    DeriveInput, Ident, Lifetime, LitStr, ParenthesizedGenericArguments, Path, Token, Type,
    TypeFnPtr, TypeReference,
};

use crate::arguments;
use crate::errors::{ErrorSink, ErrorStore};

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
        let Some(key) = arguments::key(input)? else {
            return Err(input.error(
                "the topic's name is expected\nnote: write `#[topic(\"my-plugin.question\", answer \
                 = f64)]`",
            ));
        };
        if !KEYS.iter().any(|known| key == known) {
            let note = "write `#[topic(\"my-plugin.question\", answer = f64)]`, and `job` for a topic \
                        about a job";
            return Err(arguments::unknown(&key, " of `#[topic]`", KEYS, note));
        }
        if key == "job" && input.peek(Token![=]) {
            let message =
                "`job` takes no value\nnote: write `#[topic(\"my-plugin.question\", job)]`";
            return Err(syn::Error::new(key.span(), message));
        }
        if key == "job" {
            return Ok(Arg::Job);
        }
        arguments::equals(&key, input)?;
        if key == "answer" {
            let answer = arguments::type_of(&key, input)?;
            return Ok(Arg::Answer(key, answer));
        }
        let krate = arguments::crate_of(&key, input)?;
        Ok(Arg::Crate(key, krate))
    }
}

/// Expands the attribute.
pub(crate) fn topic(args: TokenStream, item: TokenStream) -> TokenStream {
    let store = ErrorStore::default();
    let errors = store.sink();
    let args = read(args, &errors);
    // Even with a mistake in its arguments, the struct becomes a topic, so that its uses compile.
    let expanded = errors.ok(kind(&item)).map(|kind| expand(&args, &kind));
    let errors = store.to_compile_errors();
    quote!(#item #expanded #errors)
}

fn read(tokens: TokenStream, errors: &ErrorSink<'_>) -> TopicArgs {
    let mut read = TopicArgs::default();
    let parsed = Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens);
    let Some(parsed) = errors.ok(parsed) else { return read };
    for arg in parsed {
        match arg {
            Arg::Name(second) if read.name.is_some() => {
                let message = "a topic has one name\nnote: leave one of them out";
                errors.push(syn::Error::new(second.span(), message));
            }
            Arg::Answer(key, _) if read.answer.is_some() => errors.push(arguments::twice(&key)),
            Arg::Crate(key, _) if read.krate.is_some() => errors.push(arguments::twice(&key)),
            Arg::Name(name) => {
                errors.ok(check_name(&name));
                read.name = Some(name);
            }
            Arg::Answer(_, kind) => match borrowed(&kind) {
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

/// Returns the type that is to be the topic.
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
    let krate = arguments::krate(args.krate.as_ref());
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
            const ID: #t::TopicId = #t::TopicId::Unlisted;
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

/// Refuses names that belong to the manager, and names that no topic can have.
fn check_name(name: &LitStr) -> syn::Result<()> {
    let text = name.value();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let taken = ["job", "conf", "plugin", "unload", "service", "allocation"];
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

/// The error for an answer that borrows without a named lifetime.
fn borrowed(written: &Type) -> Option<syn::Error> {
    let mut found = Borrowed(None);
    found.visit_type(written);
    found.0
}

/// Finds the first borrow in a type.
struct Borrowed(Option<syn::Error>);

impl Borrowed {
    fn at(&mut self, tokens: &impl quote::ToTokens) {
        self.0.get_or_insert_with(|| {
            syn::Error::new_spanned(
                tokens,
                "an answer can't borrow\nnote: it is handed to the plugin that asked; take an owned \
                 type, such as `String` for `&str`",
            )
        });
    }
}

impl Visit<'_> for Borrowed {
    fn visit_type_reference(&mut self, reference: &TypeReference) {
        if reference.lifetime.is_none() {
            self.at(reference);
        }
        visit::visit_type_reference(self, reference);
    }

    fn visit_lifetime(&mut self, lifetime: &Lifetime) {
        if lifetime.ident == "_" {
            self.at(lifetime);
        }
    }

    // A function borrows from its caller, so this isn't a borrow in the answer.
    fn visit_type_fn_ptr(&mut self, _: &TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments(&mut self, _: &ParenthesizedGenericArguments) {}
}
