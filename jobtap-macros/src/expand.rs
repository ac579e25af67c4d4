//! What `#[jobtap_plugin]` adds to the impl block: the descriptor, and its place in the registry.
//!
//! The glue of each handler is a closure in a constant of `impl Plugin for P`, so that `Self` in
//! the author's types keeps its meaning, and each type is asserted where the author wrote it.

use proc_macro2::{Ident, Span, TokenStream, TokenTree};
use quote::{format_ident, quote, quote_spanned};
use syn::Type;
use syn::spanned::Spanned;

use crate::args::LoadOrder;
use crate::handler::{Handler, OnKind, OnTopic};
use crate::plugin::{Init, Plugin};

/// The items to emit after the impl block.
pub(crate) fn expand(plugin: &Plugin) -> TokenStream {
    let krate = plugin.args.krate.as_ref().map_or_else(|| quote!(::jobtap_core), |p| quote!(#p));
    let p = quote!(#krate::__private);
    let self_ty = &plugin.self_ty;
    let name = plugin.args.name.as_ref();
    let load = if plugin.args.by_name { quote!(ByName) } else { quote!(Auto) };
    let (before, after) = (&plugin.args.before, &plugin.args.after);
    let new = new(plugin.init.as_ref(), self_ty, &p);
    let entries = plugin.handlers.iter().map(|handler| entries(handler, &krate, &p));
    let data = plugin.args.data.as_ref().map(|data| keeps(data, "PluginData", self_ty, &p));
    let instance_data = plugin.args.instance_data.as_ref();
    let instance_data = instance_data.map(|data| keeps(data, "PluginInstanceData", self_ty, &p));
    let load_order = match plugin.args.load_order {
        LoadOrder::None => quote!(None),
        LoadOrder::State => quote!(State),
        LoadOrder::StateReversed => quote!(StateReversed),
    };
    let schema = schema(plugin.init.as_ref(), &p);
    quote! {
        impl #p::Plugin for #self_ty {
            const DESCRIPTOR: &'static #p::PluginDescriptor = &#p::PluginDescriptor {
                name: #name,
                crate_name: ::core::env!("CARGO_PKG_NAME"),
                crate_version: ::core::env!("CARGO_PKG_VERSION"),
                sdk: #p::SDK_VERSION,
                load: #p::Load::#load,
                before: &[#(#before),*],
                after: &[#(#after),*],
                load_order: #p::LoadOrder::#load_order,
                schema: #schema,
                new: #new,
                handlers: &[#(#entries)*],
            };
        }
        #data
        #instance_data
        #krate::__jobtap_register!(<#self_ty as #p::Plugin>::DESCRIPTOR);
    }
}

/// Declares the plugin's data, with what `#[data(..)]` on its type says.
fn keeps(data: &Type, kind: &str, self_ty: &Type, p: &TokenStream) -> TokenStream {
    let kind = Ident::new(kind, Span::call_site());
    quote! {
        impl #p::#kind<#data> for #self_ty {
            fn spec() -> #p::DataSpec<#data> {
                use #p::{DeclaredData as _, PlainData as _};
                (&#p::DataProbe::<#data>(#p::PhantomData)).data_spec()
            }
        }
    }
}

/// The closure that gives the schema of the plugin's own configuration.
fn schema(init: Option<&Init>, p: &TokenStream) -> TokenStream {
    let params = init.map(|init| init.params.as_slice()).unwrap_or_default();
    let tries = params.iter().map(
        |param| quote_spanned!(param.span()=> .or_else(<#param as #p::FromInit<Self>>::schema)),
    );
    quote!(|| #p::Option::None #(#tries)*)
}

/// The closure that builds an instance.
fn new(init: Option<&Init>, self_ty: &Type, p: &TokenStream) -> TokenStream {
    let Some(init) = init else {
        let build = quote_spanned!(self_ty.span()=> <#self_ty as #p::BuildDefault>::build());
        return quote!(|_| #p::Result::Ok(#p::boxed::<Self>(#build)));
    };
    let function = &init.ident;
    let arguments = arguments(init.params.len());
    let takes = arguments.iter().zip(&init.params).map(|(argument, param)| {
        quote_spanned! {param.span()=>
            let #argument = <#param as #p::FromInit<Self>>::from_init(args)?;
        }
    });
    let built = quote_spanned!(function.span()=> Self::#function(#(#arguments),*));
    let result = match &init.output {
        Some(output) => quote_spanned! {output.span()=>
            <#output as #p::IntoInit<Self>>::into_init(#built)?
        },
        None => quote_spanned!(function.span()=> <() as #p::IntoInit<Self>>::into_init(#built)?),
    };
    quote!(|args| {
        #(#takes)*
        #p::Result::Ok(#p::boxed::<Self>(#result))
    })
}

/// One table entry for each topic of a handler.
fn entries(handler: &Handler, krate: &TokenStream, p: &TokenStream) -> TokenStream {
    let method = handler.ident.to_string();
    let topics: Vec<TokenStream> =
        handler.topics.iter().map(|topic| topic_type(topic, krate)).collect();
    let mut distinct: Vec<&TokenStream> = Vec::new();
    for topic in &topics {
        // Members of one family are one type: `Cx<'_, JobDependency>` for any number of schemes.
        if !distinct.iter().any(|other| other.to_string() == topic.to_string()) {
            distinct.push(topic);
        }
    }
    let set = match distinct.as_slice() {
        [one] => (*one).clone(),
        many => quote!((#(#many,)*)),
    };
    let call = call(handler, &set, p);
    let role = if handler.service == Some(true) { quote!(Guest) } else { quote!(Owner) };
    let policy = if handler.is_async && handler.service.is_none() {
        let policy = policy(handler, p);
        quote!(#p::Option::Some(#policy))
    } else {
        quote!(#p::Option::None)
    };
    let entries = handler.topics.iter().zip(&topics).map(|(topic, topic_type)| {
        let key = match &topic.kind {
            OnKind::Known(found) => found.key.as_str(),
            OnKind::Own(_) => "",
        };
        quote! {
            #p::HandlerEntry {
                id: <#topic_type as #krate::topic::Topic>::ID,
                topic: <#topic_type as #krate::topic::Topic>::NAME,
                key: #key,
                method: #method,
                role: #p::Role::#role,
                policy: #policy,
                call: #call,
            },
        }
    });
    quote!(#(#entries)*)
}

fn topic_type(topic: &OnTopic, krate: &TokenStream) -> TokenStream {
    match &topic.kind {
        OnKind::Known(found) => {
            // All at the author's string, where an error about the topic belongs.
            let ident = Ident::new(found.type_name, topic.span);
            let krate = respan(krate, topic.span);
            quote_spanned!(topic.span=> #krate::topic::#ident)
        }
        OnKind::Own(path) => quote!(#path),
    }
}

/// How the work of an `async` handler is treated.
fn policy(handler: &Handler, p: &TokenStream) -> TokenStream {
    let on_restart = match handler.policy.rerun {
        None => quote!(#p::Option::None),
        Some(true) => quote!(#p::Option::Some(#p::OnRestart::Rerun)),
        Some(false) => quote!(#p::Option::Some(#p::OnRestart::Fail)),
    };
    let timeout = match handler.policy.timeout {
        None => quote!(#p::Option::None),
        Some(seconds) => quote!(#p::Option::Some(#seconds)),
    };
    let run_on = handler.policy.run_on;
    quote!(#p::AsyncPolicy { on_restart: #on_restart, timeout: #timeout, run_on: #run_on })
}

/// The same tokens, at another place of the author's code.
fn respan(tokens: &TokenStream, span: Span) -> TokenStream {
    let at = |mut token: TokenTree| {
        token.set_span(span);
        token
    };
    tokens.clone().into_iter().map(at).collect()
}

/// The closure that takes the parameters, calls the method, and reads what it returned.
fn call(handler: &Handler, set: &TokenStream, p: &TokenStream) -> TokenStream {
    let method = &handler.ident;
    let arguments = arguments(handler.params.len());
    let takes = arguments.iter().zip(&handler.params).map(|(argument, param)| {
        quote_spanned! {param.span()=>
            let #argument = <#param as #p::FromTopic<'_, Self, #set>>::from_topic(&call)?;
        }
    });
    let this = handler.has_self.then(|| quote!(#p::downcast::<Self>(plugin)?,));
    let called = quote_spanned!(method.span()=> Self::#method(#this #(#arguments),*));
    let unit: Type = syn::parse_quote_spanned!(handler.output_span=> ());
    let output = handler.output.as_ref().unwrap_or(&unit);
    let result = match (handler.service.is_some(), handler.is_async) {
        (false, false) => quote_spanned! {output.span()=>
            <#output as #p::IntoOutcome<#set>>::into_outcome(#called)
        },
        (false, true) => {
            let (name, policy) = (method.to_string(), policy(handler, p));
            quote_spanned! {output.span()=>
                #p::spawn::<#set, #output, _>(&call, #name, #policy, #called)
            }
        }
        (true, false) => quote_spanned! {output.span()=>
            #p::reply::<#set, #output, _>(&call, #called)
        },
        (true, true) => quote_spanned! {output.span()=>
            #p::spawn_service::<#set, #output, _, _>(&call, #called)
        },
    };
    let plugin = if handler.has_self { quote!(plugin) } else { quote!(_) };
    quote!(|#plugin, args| {
        let call = #p::Call::<#set>::new(args);
        #(#takes)*
        // Boxed by `?`: a failure is rare, and every outcome would be as large.
        #p::Result::Ok(#result?)
    })
}

fn arguments(count: usize) -> Vec<Ident> {
    (0..count).map(|index| format_ident!("argument_{index}", span = Span::mixed_site())).collect()
}
