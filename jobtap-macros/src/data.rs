//! `#[data(version = 2, upgrade = from_v1)]`, `#[data(volatile)]`: how a plugin's data is kept.

use proc_macro2::TokenStream;
use quote::quote;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{DeriveInput, Ident, LitInt, Path, Token};

use crate::suggest;

#[derive(Default)]
struct DataArgs {
    version: Option<LitInt>,
    upgrade: Option<Path>,
    volatile: Option<Ident>,
    krate: Option<Path>,
}

enum Arg {
    Version(LitInt),
    Upgrade(Path),
    Volatile(Ident),
    Crate(Path),
}

const KEYS: &[&str] = &["version", "upgrade", "volatile", "crate"];

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let key = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
        let name = key.to_string();
        if name == "volatile" {
            return Ok(Arg::Volatile(key));
        }
        if !KEYS.contains(&name.as_str()) {
            let message = match suggest::nearest(&name, KEYS.iter().copied()) {
                Some(meant) => {
                    format!("`{name}` is no argument of `#[data]`; did you mean `{meant}`?")
                }
                None => format!(
                    "`{name}` is no argument of `#[data]`\nnote: write `#[data(version = 2, \
                     upgrade = function)]` or `#[data(volatile)]`"
                ),
            };
            return Err(syn::Error::new(key.span(), message));
        }
        if !input.peek(Token![=]) {
            let message = format!("`{name}` needs a value\nnote: write `{name} = ..`");
            return Err(syn::Error::new(key.span(), message));
        }
        input.parse::<Token![=]>()?;
        Ok(match name.as_str() {
            "version" => Arg::Version(input.parse().map_err(|error| {
                syn::Error::new(
                    error.span(),
                    "a version is a whole number\nnote: write `version = 2`",
                )
            })?),
            "crate" => Arg::Crate(input.call(Path::parse_mod_style)?),
            _ => Arg::Upgrade(input.parse()?),
        })
    }
}

/// The macro's whole work.
pub(crate) fn data(args: TokenStream, item: TokenStream) -> TokenStream {
    match expand(args, &item) {
        Ok(expanded) => quote!(#item #expanded),
        Err(error) => {
            let error = error.to_compile_error();
            quote!(#item #error)
        }
    }
}

fn expand(args: TokenStream, item: &TokenStream) -> syn::Result<TokenStream> {
    let mut read = DataArgs::default();
    for arg in Punctuated::<Arg, Token![,]>::parse_terminated.parse2(args)? {
        match arg {
            Arg::Version(version) => read.version = Some(version),
            Arg::Upgrade(path) => read.upgrade = Some(path),
            Arg::Volatile(word) => read.volatile = Some(word),
            Arg::Crate(path) => read.krate = Some(path),
        }
    }
    let input: DeriveInput = syn::parse2(item.clone()).map_err(|_| {
        syn::Error::new(
            proc_macro2::Span::call_site(),
            "`#[data]` goes on the struct or enum that a plugin keeps as its data",
        )
    })?;
    if let (Some(word), true) = (&read.volatile, read.version.is_some() || read.upgrade.is_some()) {
        let message = "volatile data has no version\nnote: it is never stored, so there is nothing \
                       to upgrade; leave out one of them";
        return Err(syn::Error::new(word.span(), message));
    }
    let version: u32 = match &read.version {
        None => 1,
        Some(version) => version.base10_parse()?,
    };
    if let (Some(literal), 0) = (&read.version, version) {
        let message = "versions count from 1\nnote: data without `#[data]` is version 1";
        return Err(syn::Error::new(literal.span(), message));
    }
    if let (Some(upgrade), true) = (&read.upgrade, version < 2) {
        let message = "there is nothing older than version 1 to upgrade\nnote: raise the version: \
                       `#[data(version = 2, upgrade = ..)]`";
        return Err(syn::Error::new_spanned(upgrade, message));
    }
    let krate = read.krate.map_or_else(|| quote!(::jobtap_core), |path| quote!(#path));
    let p = quote!(#krate::__private);
    let (name, volatile) = (&input.ident, read.volatile.is_some());
    let (generics, arguments, wheres) = input.generics.split_for_impl();
    let upgrade = match &read.upgrade {
        Some(path) => quote!(#p::Option::Some(#path as #p::Upgrade<Self>)),
        None => quote!(#p::Option::None),
    };
    Ok(quote! {
        impl #generics #p::VersionedData for #name #arguments #wheres {
            fn spec() -> #p::DataSpec<Self> {
                #p::DataSpec { version: #version, volatile: #volatile, upgrade: #upgrade }
            }
        }
    })
}
