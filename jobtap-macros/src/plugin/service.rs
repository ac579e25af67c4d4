//! `#[service("name", role = "guest")]`: a function that handles requests from clients.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream, Parser};
use syn::punctuated::Punctuated;
use syn::{Attribute, ImplItemFn, LitStr, Meta, Token};

use super::model::{Handler, OnKind, OnTopic, Policy, Role};
use super::{handler, signature};
use crate::arguments;
use crate::errors::ErrorSink;
use crate::topics::Found;

/// The arguments of the attribute.
pub(crate) struct Service {
    /// Empty for a service that goes by the plugin's name alone.
    pub(crate) name: String,
    pub(crate) role: Role,
    pub(crate) span: Span,
}

enum Arg {
    Name(LitStr),
    Role(syn::Ident, syn::Expr),
}

impl Parse for Arg {
    fn parse(input: ParseStream<'_>) -> syn::Result<Self> {
        if input.peek(LitStr) {
            return Ok(Arg::Name(input.parse()?));
        }
        if !input.peek(syn::Ident) {
            return Err(input.error(
                "the service's name is expected\nnote: write `#[service(\"name\")]`, or \
                 `#[service(\"name\", role = \"guest\")]` for every user",
            ));
        }
        let key: syn::Ident = input.parse()?;
        if !input.peek(Token![=]) {
            let message = if key == "role" {
                "`role` needs a value\nnote: write `role = \"guest\"` or `role = \"owner\"`"
                    .to_owned()
            } else if key == "guest" || key == "owner" {
                format!("`{key}` is a role\nnote: write `role = \"{key}\"`")
            } else {
                format!("a service's name is a string\nnote: write `#[service(\"{key}\")]`")
            };
            return Err(syn::Error::new(key.span(), message));
        }
        input.parse::<Token![=]>()?;
        Ok(Arg::Role(key, input.parse()?))
    }
}

/// Reads the attribute.
pub(crate) fn parse(attribute: &Attribute) -> syn::Result<Service> {
    let span = attribute.path().segments.last().map_or_else(Span::call_site, |s| s.ident.span());
    let mut service = Service { name: String::new(), role: Role::Owner, span };
    let Meta::List(list) = &attribute.meta else {
        return Ok(service);
    };
    let parser = Punctuated::<Arg, Token![,]>::parse_terminated;
    let mut role_given = false;
    for arg in parser.parse2(list.tokens.clone())? {
        match arg {
            Arg::Name(name) if !service.name.is_empty() => {
                let message = "a service has one name\nnote: write a function for each service";
                return Err(syn::Error::new(name.span(), message));
            }
            Arg::Role(key, _) if key == "role" && role_given => return Err(arguments::twice(&key)),
            Arg::Name(name) => {
                service.name = checked(&name)?;
                service.span = name.span();
            }
            Arg::Role(key, value) if key == "role" => {
                role_given = true;
                service.role = role(&value)?;
            }
            Arg::Role(key, _) => {
                let note = "beside the name it takes `role`";
                return Err(arguments::unknown(&key, " of `#[service]`", &["role"], note));
            }
        }
    }
    Ok(service)
}

fn checked(name: &LitStr) -> syn::Result<String> {
    let text = name.value();
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_');
    if !text.is_empty() && text.chars().all(plain) {
        return Ok(text);
    }
    let message = format!(
        "{text:?} can't be a service's name\nnote: use letters, digits, `-` and `_`; clients ask \
         for `job-manager.PLUGIN.NAME`"
    );
    Err(syn::Error::new(name.span(), message))
}

fn role(value: &syn::Expr) -> syn::Result<Role> {
    let text = arguments::string(value, "`role`")?;
    match text.value().as_str() {
        "owner" => Ok(Role::Owner),
        "guest" => Ok(Role::Guest),
        other => Err(syn::Error::new(
            text.span(),
            format!(
                "`role` can't be {other:?}\nnote: \"owner\" lets only the instance's owner ask, \
                 \"guest\" every user"
            ),
        )),
    }
}

/// Refuses a return value in addition to a `Responder`, which sends the response: the value would
/// go nowhere.
fn refuse_two_answers(method: &ImplItemFn) -> Option<syn::Error> {
    let params = signature::params(method);
    params.iter().find(|param| signature::is_named(param, "Responder"))?;
    let output = signature::output(method)?;
    if !signature::returns_value(Some(&output)) {
        return None;
    }
    let answer = signature::result_types(&output).map_or(&output, |(answer, _)| answer);
    let message = "a service with a `Responder` returns no answer\nnote: send it by the `Responder`, \
                   and return nothing or `Result<(), ServiceError>`; or return it and take no \
                   `Responder`";
    Some(syn::Error::new_spanned(answer, message))
}

/// Takes the method apart as a handler of the topic of services.
pub(crate) fn take(
    method: &ImplItemFn,
    service: Service,
    errors: &ErrorSink<'_>,
) -> Option<Handler> {
    let found = Found::service(service.name);
    let topic = OnTopic { span: service.span, kind: OnKind::Known(found) };
    errors.extend(refuse_two_answers(method));
    let mut handler = handler::take(method, vec![topic], Policy::default(), errors)?;
    handler.service = Some(service.role);
    Some(handler)
}
