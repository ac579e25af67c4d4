//! `#[data(version = 2, upgrade = from_v1)]`, `#[data(volatile)]`: says how a plugin's data of a type is
//! stored.

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::spanned::Spanned;
use syn::{DeriveInput, Ident, LitInt, Path, Token};

use crate::arguments;
use crate::errors::{ErrorSink, ErrorStore};

#[derive(Default)]
struct DataArgs {
    version: Option<LitInt>,
    upgrade: Option<Path>,
    volatile: Option<Ident>,
    krate: Option<Path>,
}

enum Arg {
    Version(Ident, LitInt),
    Upgrade(Ident, Path),
    Volatile(Ident),
    Crate(Ident, Path),
}

const KEYS: &[&str] = &["version", "upgrade", "volatile", "crate"];

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let Some(key) = arguments::key(input)? else {
            return Err(input.error(
                "an argument of `#[data]` is expected\nnote: write `#[data(version = 2, upgrade = \
                 function)]` or `#[data(volatile)]`",
            ));
        };
        if key == "volatile" && !input.peek(Token![=]) {
            return Ok(Arg::Volatile(key));
        }
        if !KEYS.iter().any(|known| key == known) {
            let note = "write `#[data(version = 2, upgrade = function)]` or `#[data(volatile)]`";
            return Err(arguments::unknown(&key, " of `#[data]`", KEYS, note));
        }
        arguments::equals(&key, input)?;
        Ok(match key.to_string().as_str() {
            "volatile" => {
                let message = "`volatile` takes no value\nnote: write `#[data(volatile)]`";
                return Err(syn::Error::new(key.span(), message));
            }
            "version" => Arg::Version(
                key,
                input.parse().map_err(|error| {
                    syn::Error::new(
                        error.span(),
                        "a version is a whole number\nnote: write `version = 2`",
                    )
                })?,
            ),
            "crate" => {
                let krate = arguments::crate_of(&key, input)?;
                Arg::Crate(key, krate)
            }
            _ => {
                let upgrade = arguments::function_of(&key, input)?;
                Arg::Upgrade(key, upgrade)
            }
        })
    }
}

/// Expands the attribute.
pub(crate) fn data(args: TokenStream, item: TokenStream) -> TokenStream {
    let store = ErrorStore::default();
    let errors = store.sink();
    let mut read = read(args, &errors);
    // After a mistake, the type counts as data of version 1, so that its uses compile.
    let version = errors.ok(read.check()).unwrap_or_else(|| {
        read = DataArgs { krate: read.krate.take(), ..DataArgs::default() };
        1
    });
    let expanded = match syn::parse2::<DeriveInput>(item.clone()) {
        Ok(input) => Some(expand(&read, version, &input)),
        Err(_) => {
            errors.push(syn::Error::new(
                Span::call_site(),
                "`#[data]` goes on a struct or enum\nnote: put it on the type that the plugin keeps \
                 as its data",
            ));
            None
        }
    };
    let errors = store.to_compile_errors();
    quote!(#item #expanded #errors)
}

fn read(tokens: TokenStream, errors: &ErrorSink<'_>) -> DataArgs {
    let mut read = DataArgs::default();
    let parsed = Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens);
    let Some(parsed) = errors.ok(parsed) else { return read };
    for arg in parsed {
        match arg {
            Arg::Version(key, _) if read.version.is_some() => errors.push(arguments::twice(&key)),
            Arg::Upgrade(key, _) if read.upgrade.is_some() => errors.push(arguments::twice(&key)),
            Arg::Volatile(key) if read.volatile.is_some() => errors.push(arguments::twice(&key)),
            Arg::Crate(key, _) if read.krate.is_some() => errors.push(arguments::twice(&key)),
            Arg::Version(_, version) => read.version = Some(version),
            Arg::Upgrade(_, path) => read.upgrade = Some(path),
            Arg::Volatile(word) => read.volatile = Some(word),
            Arg::Crate(_, path) => read.krate = Some(path),
        }
    }
    read
}

impl DataArgs {
    /// Returns the version, or the error for arguments that contradict each other.
    fn check(&self) -> syn::Result<u32> {
        if let (Some(word), true) =
            (&self.volatile, self.version.is_some() || self.upgrade.is_some())
        {
            let message = "volatile data has no version\nnote: it is never stored, so there is \
                           nothing to upgrade; leave out one of them";
            return Err(syn::Error::new(word.span(), message));
        }
        let version: u32 = match &self.version {
            None => 1,
            Some(version) => version.base10_parse()?,
        };
        if let (Some(literal), 0) = (&self.version, version) {
            let message = "versions count from 1\nnote: data without `#[data]` is version 1";
            return Err(syn::Error::new(literal.span(), message));
        }
        if let (Some(upgrade), true) = (&self.upgrade, version < 2) {
            let message = "there is nothing older than version 1 to upgrade\nnote: raise the \
                           version: `#[data(version = 2, upgrade = ..)]`";
            return Err(syn::Error::new_spanned(upgrade, message));
        }
        Ok(version)
    }
}

fn expand(args: &DataArgs, version: u32, input: &DeriveInput) -> TokenStream {
    let krate = arguments::krate(args.krate.as_ref());
    let p = quote!(#krate::__private);
    let (name, volatile) = (&input.ident, args.volatile.is_some());
    let (generics, arguments, wheres) = input.generics.split_for_impl();
    let upgrade = match &args.upgrade {
        Some(path) => quote_spanned! {path.span()=> {
            let __upgrade: #p::Upgrade<Self> = #path;
            #p::Option::Some(__upgrade)
        }},
        None => quote!(#p::Option::None),
    };
    quote! {
        impl #generics #p::VersionedData for #name #arguments #wheres {
            fn spec() -> #p::DataSpec<Self> {
                #p::DataSpec { version: #version, volatile: #volatile, upgrade: #upgrade }
            }
        }
    }
}
