//! The arguments of `#[jobtap_plugin(..)]`.

use proc_macro2::{Span, TokenStream};
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, Expr, ExprArray, ExprLit, Ident, Lit, LitStr, Path, Token, Type};

use crate::{suggest, values};

/// What the author wrote, as far as it could be read.
#[derive(Default)]
pub(crate) struct PluginArgs {
    pub(crate) name: Option<LitStr>,
    pub(crate) load: Load,
    pub(crate) before: Vec<LitStr>,
    pub(crate) after: Vec<LitStr>,
    pub(crate) data: Option<Type>,
    pub(crate) instance_data: Option<Type>,
    pub(crate) load_order: LoadOrder,
    pub(crate) krate: Option<Path>,
    /// Something could not be read at all, which may have been any of the above.
    pub(crate) doubtful: bool,
}

/// See `jobtap_core::host::Load`.
#[derive(Clone, Copy, Default)]
pub(crate) enum Load {
    #[default]
    Auto,
    Last,
    Configured,
    ByName,
}

/// See `jobtap_core::host::LoadOrder`.
#[derive(Clone, Copy, Default)]
pub(crate) enum LoadOrder {
    #[default]
    None,
    State,
    StateReversed,
}

const KEYS: &[&str] =
    &["name", "load", "load_order", "before", "after", "data", "instance_data", "crate"];

/// One `key = value`; the value stays raw until the key says what it is.
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
        if !input.peek(<Ident as syn::ext::IdentExt>::peek_any) {
            return Err(no_key(input));
        }
        let key = input.call(<Ident as syn::ext::IdentExt>::parse_any)?;
        if !input.peek(Token![=]) {
            let message = format!("`{key}` needs a value\nnote: write `{key} = ..`");
            return Err(syn::Error::new(key.span(), message));
        }
        input.parse::<Token![=]>()?;
        let value = match key.to_string().as_str() {
            "data" | "instance_data" => Value::Type(values::type_of(&key, input)?),
            "crate" => Value::Path(values::crate_of(&key, input)?),
            _ => Value::Expr(input.parse()?),
        };
        Ok(Arg { key, value })
    }
}

/// A value without its key is most likely the name.
fn no_key(input: ParseStream<'_>) -> syn::Error {
    let name = input.fork().parse::<LitStr>();
    let name = name.map_or_else(|_| "my-plugin".to_owned(), |name| name.value());
    input.error(format!(
        "an argument is `key = value`\nnote: write `#[jobtap_plugin(name = {name:?})]`"
    ))
}

/// Reads the arguments; what is wrong goes to `errors`, and the rest is kept.
pub(crate) fn parse(tokens: TokenStream, errors: &mut Vec<syn::Error>) -> PluginArgs {
    let mut args = PluginArgs::default();
    let parsed = match Punctuated::<Arg, Token![,]>::parse_terminated.parse2(tokens) {
        Ok(parsed) => parsed,
        Err(error) => {
            errors.push(error);
            args.doubtful = true;
            return args;
        }
    };
    let mut seen: Vec<String> = Vec::new();
    for arg in parsed {
        let key = arg.key.to_string();
        if seen.contains(&key) {
            errors.push(twice(&arg.key));
            continue;
        }
        seen.push(key);
        if let Err(error) = args.set(arg) {
            errors.push(error);
        }
    }
    if !seen.iter().any(|key| key == "name") {
        errors.push(syn::Error::new(
            Span::call_site(),
            "a plugin needs a name\nnote: write `#[jobtap_plugin(name = \"my-plugin\")]`; \
             users see it in `jobtap plugin list`",
        ));
    }
    errors.extend(args.contradictions());
    args
}

/// One key with two values.
pub(crate) fn twice(key: &Ident) -> syn::Error {
    syn::Error::new(key.span(), format!("`{key}` is given twice\nnote: leave one of them out"))
}

/// Takes `#[jobtap(crate = path)]` off the block's attributes: the other place for `crate`.
pub(crate) fn take_crate(
    attributes: &mut Vec<Attribute>,
    args: &mut PluginArgs,
    errors: &mut Vec<syn::Error>,
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
            Ok((key, _)) if args.krate.is_some() => errors.push(twice(&key)),
            Ok((_, path)) => args.krate = Some(path),
            Err(error) => errors.push(error),
        }
    }
}

impl PluginArgs {
    fn set(&mut self, arg: Arg) -> syn::Result<()> {
        match (arg.key.to_string().as_str(), arg.value) {
            ("name", Value::Expr(value)) => self.name = Some(name(&value)?),
            ("load", Value::Expr(value)) => self.load = load(&value)?,
            ("before", Value::Expr(value)) => self.before = names(&value)?,
            ("after", Value::Expr(value)) => self.after = names(&value)?,
            ("load_order", Value::Expr(value)) => self.load_order = load_order(&value)?,
            ("data", Value::Type(value)) => self.data = Some(value),
            ("instance_data", Value::Type(value)) => self.instance_data = Some(value),
            ("crate", Value::Path(value)) => self.krate = Some(value),
            (other, _) => {
                self.doubtful = true;
                let message = match suggest::nearest(other, KEYS.iter().copied()) {
                    Some(meant) => format!("`{other}` is no argument; did you mean `{meant}`?"),
                    None => format!(
                        "`{other}` is no argument\nnote: the arguments are {}",
                        KEYS.join(", ")
                    ),
                };
                return Err(syn::Error::new(arg.key.span(), message));
            }
        }
        Ok(())
    }

    /// An order that no list of plugins can have.
    fn contradictions(&self) -> Option<syn::Error> {
        let name = self.name.as_ref().map(LitStr::value);
        let own = |other: &&LitStr| Some(other.value()) == name;
        if let Some(own) = self.before.iter().chain(&self.after).find(own) {
            let message = "a plugin can't come before or after itself\n\
                           note: name the other plugin";
            return Some(syn::Error::new(own.span(), message));
        }
        let both = |late: &&LitStr| self.before.iter().any(|early| early.value() == late.value());
        let late = self.after.iter().find(both)?;
        let message = format!(
            "this plugin can't come both before and after {:?}\nnote: `before` names plugins that \
             are called later, `after` those called earlier",
            late.value()
        );
        Some(syn::Error::new(late.span(), message))
    }
}

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

fn name(value: &Expr) -> syn::Result<LitStr> {
    let name = string(value, "a plugin's name")?;
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
    let text = string(value, "`load`")?;
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

fn load_order(value: &Expr) -> syn::Result<LoadOrder> {
    let text = string(value, "`load_order`")?;
    match text.value().as_str() {
        "none" => Ok(LoadOrder::None),
        "state" => Ok(LoadOrder::State),
        "-state" => Ok(LoadOrder::StateReversed),
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
