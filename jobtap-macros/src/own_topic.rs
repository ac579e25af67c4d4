//! `#[topic("accounts.share", answer = f64)]`: a struct that is a topic of the author's own, and its
//! payload.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Ident, LitStr, Path, Token, Type};

enum Arg {
    Name(LitStr),
    Answer(Type),
    Job,
    Crate(Path),
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Arg::Name(input.parse()?));
        }
        let key = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
        match key.to_string().as_str() {
            "job" => return Ok(Arg::Job),
            "answer" | "crate" => {}
            other => {
                let message = format!(
                    "`{other}` is no argument of `#[topic]`\nnote: write `#[topic(\"plugin.question\", \
                     answer = f64)]`, and `job` for a topic about a job"
                );
                return Err(syn::Error::new(key.span(), message));
            }
        }
        input.parse::<Token![=]>()?;
        if key == "answer" {
            return Ok(Arg::Answer(input.parse()?));
        }
        Ok(Arg::Crate(input.call(Path::parse_mod_style)?))
    }
}

/// The macro's whole work.
pub(crate) fn topic(args: TokenStream, item: TokenStream) -> TokenStream {
    match expand(args, &item) {
        Ok(expanded) => quote!(#item #expanded),
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#item #error)
        }
    }
}

fn expand(args: TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    let (mut name, mut answer, mut job, mut krate) = (None, None, false, None);
    for arg in Punctuated::<Arg, Token![,]>::parse_terminated.parse2(args)? {
        match arg {
            Arg::Name(text) => name = Some(text),
            Arg::Answer(kind) => answer = Some(kind),
            Arg::Job => job = true,
            Arg::Crate(path) => krate = Some(path),
        }
    }
    let span = proc_macro2::Span::call_site();
    let name = name.ok_or_else(|| {
        let message = "a topic needs a name\nnote: write `#[topic(\"my-plugin.question\")]`";
        syn::Error::new(span, message)
    })?;
    check_name(&name)?;
    let input: DeriveInput = syn::parse2(item.clone()).map_err(|_| {
        syn::Error::new(span, "`#[topic]` goes on the struct that is the topic's payload")
    })?;
    if let Some(param) = input.generics.params.first() {
        let message =
            "a topic can't be generic\nnote: it is found by its name; declare one for each type";
        return Err(syn::Error::new_spanned(param, message));
    }
    let krate = krate.map_or_else(|| quote!(::jobtap_core), |path: Path| quote!(#path));
    let (p, t, kind) = (quote!(#krate::__private), quote!(#krate::topic), &input.ident);
    let about = if job {
        quote!(impl #t::HasJob for #kind {})
    } else {
        quote!(impl #t::WithoutJob for #kind {})
    };
    let (answers, returns) = match &answer {
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
    Ok(quote! {
        impl #t::TopicSet for #kind {}
        impl #t::Topic for #kind {
            const NAME: &'static str = #name;
            const ON_FAILURE: #t::OnFailure = #t::OnFailure::Log;
            const ID: #t::TopicId = #t::TopicId::Own;
        }
        impl #t::OwnTopic for #kind {
            type Answer = #answers;
        }
        impl #t::ReturnsFault for #kind {}
        #about
        #returns
        impl<'call, P> #p::FromTopic<'call, P, #kind> for &'call #kind {
            fn from_topic(call: &#p::Call<'call, #kind>) -> #p::Result<Self, #p::Failure> {
                call.payload::<#kind>()
            }
        }
    })
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
