//! Mistakes in the bodies of handlers that the compiler would report in its own terms: when a value that is lent
//! for the callback is used later, it speaks of a lifetime, a private cell or a cast.
//!
//! Bodies are read as tokens, so only unambiguous mistakes are reported: the plugin in a closure that is passed to
//! a `Remote`, a lent parameter in a thread, and a priority that is written as a negative number or as a
//! conversion.

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};
use quote::{ToTokens, quote};
use syn::{FnArg, ImplItemFn, Pat, Type, parse_quote};

use super::signature;

/// Reports the first mistake in a handler's body, and removes it from the body, so that the compiler doesn't
/// report it again.
pub(crate) fn check(method: &mut ImplItemFn) -> Option<syn::Error> {
    let names = Names::from_method(method);
    let Found { error, mended } = names.find(method.block.to_token_stream(), Place::Callback)?;
    if let Ok(block) = syn::parse2(mended) {
        method.block = block;
    }
    method.attrs.push(parse_quote!(#[allow(unused, clippy::all)]));
    Some(error)
}

/// A mistake, and the code without it.
struct Found {
    error: syn::Error,
    mended: TokenStream,
}

/// The names of parameters.
struct Names {
    /// The parameters that end with the callback.
    lent: Vec<String>,
    remotes: Vec<String>,
}

/// Where code runs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// In the callback.
    Callback,
    /// Within the arguments of a method of `Remote`, outside of the deferred work.
    Arguments,
    /// In deferred work.
    Later,
    /// Within the arguments of `thread::spawn`, outside of its closure.
    ThreadArguments,
    /// On another thread.
    Thread,
}

/// Methods of `Remote` that take deferred work.
const LATER: [&str; 6] = ["run", "call", "at", "after", "every", "spawn"];

/// Types of parameters that end with the callback, in addition to references.
const LENT: [&str; 6] = ["Cx", "Data", "Descriptor", "InstanceData", "JobsData", "Partitions"];

impl Names {
    fn from_method(method: &ImplItemFn) -> Self {
        // A `Remote` that is a field of the plugin usually has this name, too.
        let mut names = Names { lent: Vec::new(), remotes: vec!["remote".to_owned()] };
        for input in &method.sig.inputs {
            let FnArg::Typed(param) = input else { continue };
            let Pat::Ident(name) = &*param.pat else { continue };
            let name = name.ident.to_string();
            let is = |ty: &str| signature::is_named(&param.ty, ty);
            if is("Remote") {
                names.remotes.push(name);
            } else if matches!(*param.ty, Type::Reference(_)) || LENT.iter().any(|ty| is(ty)) {
                names.lent.push(name);
            }
        }
        names
    }

    fn find(&self, code: TokenStream, mut place: Place) -> Option<Found> {
        let tokens: Vec<TokenTree> = code.into_iter().collect();
        for (index, token) in tokens.iter().enumerate() {
            let before = tokens.get(..index).unwrap_or_default();
            let after = tokens.get(index + 1..).unwrap_or_default();
            match token {
                TokenTree::Group(group) => {
                    let Some(Found { error, mended }) = self.find_in(group, before, place) else {
                        continue;
                    };
                    let mut group = Group::new(group.delimiter(), mended);
                    group.set_span(token.span());
                    let mended = before.iter().cloned().chain([TokenTree::Group(group)]);
                    let mended = mended.chain(after.iter().cloned()).collect();
                    return Some(Found { error, mended });
                }
                TokenTree::Ident(word) if is_variable(before, after) => {
                    let error = refuse(&word.to_string(), token, place, &self.lent);
                    if let Some(error) = error {
                        // The caller replaces the whole of this work.
                        return Some(Found { error, mended: TokenStream::new() });
                    }
                }
                // A closure begins.
                TokenTree::Punct(punct) if punct.as_char() == '|' => {
                    place = match place {
                        Place::Arguments => Place::Later,
                        Place::ThreadArguments => Place::Thread,
                        place => place,
                    };
                }
                _ => {}
            }
        }
        None
    }

    fn find_in(&self, group: &Group, before: &[TokenTree], place: Place) -> Option<Found> {
        if let Some(error) = refuse_priority(group, before) {
            return Some(Found { error, mended: quote!(0) });
        }
        let inner = self.place_in(group, before, place);
        let Found { error, mended } = self.find(group.stream(), inner)?;
        let is_spawn = before.last().is_some_and(|method| is(method, "spawn"));
        let mended = match inner {
            Place::ThreadArguments => quote!(|| ()),
            Place::Arguments if is_spawn => quote!(async {}),
            Place::Arguments => {
                let rest = group.stream().into_iter();
                let first = rest.take_while(|token| !is(token, "move") && !is(token, "|"));
                let first: TokenStream = first.collect();
                quote!(#first |_, _| ::core::unreachable!())
            }
            _ => mended,
        };
        Some(Found { error, mended })
    }

    /// Where the code in a group runs.
    fn place_in(&self, group: &Group, before: &[TokenTree], place: Place) -> Place {
        if place == Place::Arguments && group.delimiter() == Delimiter::Brace && is_async(before) {
            return Place::Later;
        }
        if group.delimiter() != Delimiter::Parenthesis || place != Place::Callback {
            return place;
        }
        match before {
            [.., receiver, dot, method]
                if is(dot, ".")
                    && LATER.iter().any(|name| is(method, name))
                    && self.remotes.iter().any(|name| is(receiver, name)) =>
            {
                Place::Arguments
            }
            [.., receiver, first, clone, arguments, dot, method]
                if is(dot, ".")
                    && LATER.iter().any(|name| is(method, name))
                    && is(first, ".")
                    && is(clone, "clone")
                    && is(arguments, "()")
                    && self.remotes.iter().any(|name| is(receiver, name)) =>
            {
                Place::Arguments
            }
            [.., thread, colon, second, spawn]
                if is(thread, "thread")
                    && is(colon, ":")
                    && is(second, ":")
                    && is(spawn, "spawn") =>
            {
                Place::ThreadArguments
            }
            _ => place,
        }
    }
}

/// `Priority::new(-1)`, and conversions that hide from the call that it takes a `u32`.
fn refuse_priority(group: &Group, before: &[TokenTree]) -> Option<syn::Error> {
    const CLAMPED: &str = "`Priority::clamped(..)` takes any number, and makes 0 of a negative one";
    let [.., priority, first, second, new] = before else { return None };
    if !(is(priority, "Priority") && is(first, ":") && is(second, ":") && is(new, "new")) {
        return None;
    }
    let value: Vec<TokenTree> = group.stream().into_iter().collect();
    let message = match value.as_slice() {
        [minus, TokenTree::Literal(_)] if is(minus, "-") => {
            format!(
                "a priority can't be negative\nnote: 0 is the lowest, and holds the job; {CLAMPED}"
            )
        }
        [.., dot, into, _] if is(dot, ".") && is(into, "into") => format!(
            "`Priority::new` takes a `u32`, and `into` may make anything\nnote: write `u32::from(..)`; {CLAMPED}"
        ),
        [.., dot, try_into, _, second, unwrap, _]
            if is(dot, ".")
                && is(try_into, "try_into")
                && is(second, ".")
                && (is(unwrap, "unwrap") || is(unwrap, "expect")) =>
        {
            format!("a number that is no priority would be a panic of the plugin\nnote: {CLAMPED}")
        }
        _ => return None,
    };
    Some(syn::Error::new_spanned(group.stream(), message))
}

fn is(token: &TokenTree, text: &str) -> bool {
    token.to_string() == text
}

fn is_async(before: &[TokenTree]) -> bool {
    match before {
        [.., word] if is(word, "async") => true,
        [.., word, last] => is(word, "async") && is(last, "move"),
        _ => false,
    }
}

/// Whether a word is a variable, and not a field, a method or a member of a path or of a struct.
fn is_variable(before: &[TokenTree], after: &[TokenTree]) -> bool {
    let follows = before.last().is_some_and(|token| is(token, ".") || is(token, ":"));
    let leads = after.first().is_some_and(|token| is(token, ":"));
    !follows && !leads
}

/// The error for a word in deferred work, or on another thread, if it is lent for the callback.
fn refuse(word: &str, at: &TokenTree, place: Place, lent: &[String]) -> Option<syn::Error> {
    let message = match place {
        Place::Later if word == "self" => {
            "`self` is lent for this callback only, and this work runs later\nnote: the closure gets the plugin as \
             its first argument: write `|plugin, cx| plugin.count += 1`; copy a value of the present before, as in \
             `let count = self.count;`"
                .to_owned()
        }
        Place::Thread if word == "self" || lent.iter().any(|name| name == word) => format!(
            "`{word}` is lent for this callback only, and a thread outlives it\nnote: copy what the thread needs \
             before, as in `let id = job.id();`; what computes or blocks for long runs in \
             `remote.blocking(..)`, and `remote.run(|plugin, cx| ..)` leads back from a thread"
        ),
        _ => return None,
    };
    Some(syn::Error::new_spanned(at, message))
}
