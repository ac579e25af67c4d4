//! Types and functions as arguments of the attributes: who writes a text instead is told so, where the
//! parser would list all that may begin a type.

use syn::parse::ParseStream;
use syn::visit::{self, Visit};
use syn::{
    Ident, Lifetime, LitStr, ParenthesizedGenericArguments, Path, Token, Type, TypeFnPtr,
    TypeReference,
};

/// The type behind `key =`.
pub(crate) fn type_of(key: &Ident, input: ParseStream<'_>) -> syn::Result<Type> {
    match in_quotes(input) {
        Some(text) => Err(quoted(key, &text, "a type")),
        None => input.parse(),
    }
}

/// The function behind `key =`.
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

/// Where the SDK is.
pub(crate) fn crate_of(key: &Ident, input: ParseStream<'_>) -> syn::Result<Path> {
    match in_quotes(input) {
        Some(text) => Err(quoted(key, &text, "a path")),
        None => input.call(Path::parse_mod_style),
    }
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

/// Where a type borrows without a name for how long.
pub(crate) fn borrowed(written: &Type) -> Option<syn::Error> {
    let mut found = Borrowed(None);
    found.visit_type(written);
    found.0
}

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

    // What a function borrows is its caller's.
    fn visit_type_fn_ptr(&mut self, _: &TypeFnPtr) {}

    fn visit_parenthesized_generic_arguments(&mut self, _: &ParenthesizedGenericArguments) {}
}
