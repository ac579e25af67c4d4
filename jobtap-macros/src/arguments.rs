//! What the arguments of all attributes have in common: `key = value`, whose value is an expression, a
//! type, a function or a path, and the errors for those that are not.
//!
//! A value in quotes where a type or a path belongs gets an error of its own; the parser would list all
//! tokens that may begin a type.

use jobtap_topics::suggest::nearest;
use proc_macro2::TokenStream;
use quote::quote;
use syn::ext::IdentExt;
use syn::parse::ParseStream;
use syn::{Expr, ExprLit, Ident, Lit, LitStr, Path, Token, Type};

/// Reads a key, which may be a keyword; `None` if no key follows.
pub(crate) fn key(input: ParseStream<'_>) -> syn::Result<Option<Ident>> {
    if !input.peek(Ident::peek_any) {
        return Ok(None);
    }
    input.call(Ident::parse_any).map(Some)
}

/// Reads the `=` after a key.
pub(crate) fn equals(key: &Ident, input: ParseStream<'_>) -> syn::Result<()> {
    if !input.peek(Token![=]) {
        let message = format!("`{key}` needs a value\nnote: write `{key} = ..`");
        return Err(syn::Error::new(key.span(), message));
    }
    input.parse::<Token![=]>()?;
    Ok(())
}

/// Reads the type after `key =`.
pub(crate) fn type_of(key: &Ident, input: ParseStream<'_>) -> syn::Result<Type> {
    match in_quotes(input) {
        Some(text) => Err(quoted(key, &text, "a type")),
        None => input.parse(),
    }
}

/// Reads the function after `key =`.
pub(crate) fn function_of(key: &Ident, input: ParseStream<'_>) -> syn::Result<Path> {
    if let Some(text) = in_quotes(input) {
        return Err(quoted(key, &text, "a function"));
    }
    if input.peek(Token![|]) || input.peek(Token![||]) || input.peek(Token![move]) {
        let message = format!(
            "`{key}` is the name of a function, not a closure\nnote: write `fn {key}(..) {{ .. }}` \
             and `{key} = {key}`"
        );
        return Err(input.error(message));
    }
    input.parse()
}

/// Reads the path after `crate =`.
pub(crate) fn crate_of(key: &Ident, input: ParseStream<'_>) -> syn::Result<Path> {
    match in_quotes(input) {
        Some(text) => Err(quoted(key, &text, "a path")),
        None => input.call(Path::parse_mod_style),
    }
}

/// Returns the path to the SDK: the one in `crate = path`, or the crate's own name.
pub(crate) fn krate(given: Option<&Path>) -> TokenStream {
    given.map_or_else(|| quote!(::jobtap_core), |path| quote!(#path))
}

/// Returns the string literal in an expression; `what` names it in the error.
pub(crate) fn string(value: &Expr, what: &str) -> syn::Result<LitStr> {
    match value {
        // A literal that came through a macro by example.
        Expr::Group(group) => string(&group.expr, what),
        Expr::Lit(ExprLit { lit: Lit::Str(text), .. }) => Ok(text.clone()),
        other => Err(syn::Error::new_spanned(
            other,
            format!("{what} is a string\nnote: write it in quotes: `\"..\"`"),
        )),
    }
}

/// The error for one key with two values.
pub(crate) fn twice(key: &Ident) -> syn::Error {
    syn::Error::new(key.span(), format!("`{key}` is given twice\nnote: leave one of them out"))
}

/// The error for a key that an attribute doesn't know. `of` follows "is no argument"; `note` says what
/// can be written where no known key is near.
pub(crate) fn unknown(key: &Ident, of: &str, known: &[&'static str], note: &str) -> syn::Error {
    let message = match nearest(&key.to_string(), known.iter().copied()) {
        Some(meant) => format!("`{key}` is no argument{of}; did you mean `{meant}`?"),
        None => format!("`{key}` is no argument{of}\nnote: {note}"),
    };
    syn::Error::new(key.span(), message)
}

fn in_quotes(input: ParseStream<'_>) -> Option<LitStr> {
    input.fork().parse().ok()
}

fn quoted(key: &Ident, text: &LitStr, what: &str) -> syn::Error {
    let message = format!(
        "`{key}` is {what}, not a string\nnote: write it without the quotes: `{key} = {}`",
        text.value()
    );
    syn::Error::new(text.span(), message)
}
