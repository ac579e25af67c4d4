//! The arguments of `#[jobtap_plugin(..)]`.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprArray, Ident, LitStr, Path, Token, Type};

use super::model::{IntroductionOrder, Load, PluginArgs};
use crate::arguments;
use crate::errors::ErrorSink;

const KEYS: &[&str] =
    &["name", "load", "load_order", "before", "after", "data", "instance_data", "crate"];

/// A `key = value`.
struct Arg {
    key: Ident,
    value: Value,
}

enum Value {
    Expr(Expr),
    Type(Type),
    Path(Path),
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        let Some(key) = arguments::key(input)? else { return Err(no_key(input)) };
        arguments::equals(&key, input)?;
        let value = match key.to_string().as_str() {
            "data" | "instance_data" => Value::Type(arguments::type_of(&key, input)?),
            "crate" => Value::Path(arguments::crate_of(&key, input)?),
            _ => Value::Expr(input.parse()?),
        };
        Ok(Arg { key, value })
    }
}

/// The error for a value without a key, which is most likely the name.
fn no_key(input: ParseStream<'_>) -> syn::Error {
    let name = input.fork().parse::<LitStr>();
    let name = name.map_or_else(|_| "my-plugin".to_owned(), |name| name.value());
    input.error(format!(
        "an argument is `key = value`\nnote: write `#[jobtap_plugin(name = {name:?})]`"
    ))
}

/// Reads the arguments. Mistakes are reported, and the other arguments kept.
pub(crate) fn parse(tokens: TokenStream, errors: &ErrorSink<'_>) -> PluginArgs {
    let mut args = PluginArgs::default();
    let parsed = Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens);
    let Some(parsed) = errors.ok(parsed) else {
        args.doubtful = true;
        return args;
    };
    let mut seen: Vec<String> = Vec::new();
    for arg in parsed {
        let key = arg.key.to_string();
        if seen.contains(&key) {
            errors.push(arguments::twice(&arg.key));
            continue;
        }
        seen.push(key);
        errors.ok(set(&mut args, arg));
    }
    if !seen.iter().any(|key| key == "name") {
        errors.push(syn::Error::new(
            Span::call_site(),
            "a plugin needs a name\nnote: write `#[jobtap_plugin(name = \"my-plugin\")]`; \
             users see it in `jobtap plugin list`",
        ));
    }
    errors.extend(contradiction(&args));
    args
}

/// Removes `#[jobtap(crate = path)]` from the block's attributes and reads it. It is the other place for
/// `crate`, for code that `macro_rules!` generates.
pub(crate) fn take_crate(
    attributes: &mut Vec<Attribute>,
    args: &mut PluginArgs,
    errors: &ErrorSink<'_>,
) {
    for attribute in attributes.extract_if(.., |attribute| attribute.path().is_ident("jobtap")) {
        let read = attribute.parse_args_with(|input: ParseStream<'_>| {
            let arg: Arg = input.parse()?;
            match arg.value {
                Value::Path(path) => Ok((arg.key, path)),
                _ => Err(syn::Error::new(
                    arg.key.span(),
                    format!(
                        "`{}` is no argument of `#[jobtap]`\nnote: it takes `crate = path`; the \
                         rest goes to `#[jobtap_plugin(..)]`",
                        arg.key
                    ),
                )),
            }
        });
        match read {
            Ok((key, _)) if args.krate.is_some() => errors.push(arguments::twice(&key)),
            Ok((_, path)) => args.krate = Some(path),
            Err(error) => errors.push(error),
        }
    }
}

fn set(args: &mut PluginArgs, arg: Arg) -> syn::Result<()> {
    match (arg.key.to_string().as_str(), arg.value) {
        ("name", Value::Expr(value)) => args.name = Some(name(&value)?),
        ("load", Value::Expr(value)) => args.load = load(&value)?,
        ("before", Value::Expr(value)) => args.before = names(&value)?,
        ("after", Value::Expr(value)) => args.after = names(&value)?,
        ("load_order", Value::Expr(value)) => args.load_order = load_order(&value)?,
        ("data", Value::Type(value)) => args.data = Some(value),
        ("instance_data", Value::Type(value)) => args.instance_data = Some(value),
        ("crate", Value::Path(value)) => args.krate = Some(value),
        _ => {
            args.doubtful = true;
            let note = format!("the arguments are {}", KEYS.join(", "));
            return Err(arguments::unknown(&arg.key, "", KEYS, &note));
        }
    }
    Ok(())
}

/// Refuses an order that no sequence of plugins can have.
fn contradiction(args: &PluginArgs) -> Option<syn::Error> {
    let name = args.name.as_ref().map(LitStr::value);
    let own = |other: &&LitStr| Some(other.value()) == name;
    if let Some(own) = args.before.iter().chain(&args.after).find(own) {
        let message = "a plugin can't come before or after itself\n\
                       note: name the other plugin";
        return Some(syn::Error::new(own.span(), message));
    }
    let both = |late: &&LitStr| args.before.iter().any(|early| early.value() == late.value());
    let late = args.after.iter().find(both)?;
    let message = format!(
        "this plugin can't come both before and after {:?}\nnote: `before` names plugins that \
         are called later, `after` those called earlier",
        late.value()
    );
    Some(syn::Error::new(late.span(), message))
}

fn name(value: &Expr) -> syn::Result<LitStr> {
    let name = arguments::string(value, "a plugin's name")?;
    let text = name.value();
    let bare = text.strip_prefix('.').unwrap_or(&text);
    let bad = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    if bare.is_empty() || bare.contains(bad) || text == "all" {
        return Err(syn::Error::new(
            name.span(),
            format!(
                "{text:?} can't be a plugin's name\nnote: use letters, digits, `-` and `_`; \
                 a leading dot marks a builtin, and `all` means every plugin"
            ),
        ));
    }
    Ok(name)
}

fn load(value: &Expr) -> syn::Result<Load> {
    let text = arguments::string(value, "`load`")?;
    match text.value().as_str() {
        "auto" => Ok(Load::Auto),
        "last" => Ok(Load::Last),
        "configured" => Ok(Load::Configured),
        "by-name" => Ok(Load::ByName),
        other => Err(syn::Error::new(
            text.span(),
            format!(
                "`load` can't be {other:?}\nnote: \"auto\" loads a linked plugin at start, \"last\" \
                 after those that the configuration names, \"configured\" when the configuration has \
                 a table for it, \"by-name\" only when it is named"
            ),
        )),
    }
}

fn load_order(value: &Expr) -> syn::Result<IntroductionOrder> {
    let text = arguments::string(value, "`load_order`")?;
    match text.value().as_str() {
        "none" => Ok(IntroductionOrder::ById),
        "state" => Ok(IntroductionOrder::State),
        "-state" => Ok(IntroductionOrder::StateReversed),
        other => Err(syn::Error::new(
            text.span(),
            format!(
                "`load_order` can't be {other:?}\nnote: \"none\" shows active jobs to a plugin by \
                 id, \"state\" from DEPEND to CLEANUP, \"-state\" the other way"
            ),
        )),
    }
}

fn names(value: &Expr) -> syn::Result<Vec<LitStr>> {
    match value {
        Expr::Array(ExprArray { elems, .. }) => elems.iter().map(name).collect(),
        other => Err(syn::Error::new_spanned(
            other,
            "a list of plugins is expected\nnote: write their names in brackets: `[\"limits\"]`",
        )),
    }
}
