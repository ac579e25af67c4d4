//! What `#[jobtap_plugin]` adds to the impl block: the descriptor, and its registration.
//!
//! The glue of each handler is a closure in a constant of an impl of the plugin's type, so that `Self` in
//! the author's types keeps its meaning, and each type is asserted where the author wrote it.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens, quote, quote_spanned};
use syn::ext::IdentExt;
use syn::spanned::Spanned;
use syn::{Attribute, Path, Token, Type};

use super::model::{
    Build, Clash, Handler, Init, IntroductionOrder, Load, Methods, OnKind, OnRestart, OnTopic,
    Plugin, Role, both, respan,
};
use super::signature;

/// Returns the items to emit after the impl block.
pub(crate) fn expand(plugin: &Plugin) -> TokenStream {
    let krate = plugin.args.krate();
    let p = quote!(#krate::__private);
    let self_ty = &plugin.self_ty;
    let data = plugin.args.data.as_ref().map(|data| data_impl(data, "PluginData", self_ty, &p));
    let instance_data = plugin.args.instance_data.as_ref();
    let instance_data =
        instance_data.map(|data| data_impl(data, "PluginInstanceData", self_ty, &p));
    let own = own_topics(&plugin.methods.handlers);
    let descriptor = descriptor(plugin, &own, &krate, &p);
    let registered = (!plugin.broken)
        .then(|| quote!(#krate::__jobtap_register!(<#self_ty as #p::Plugin>::DESCRIPTOR);));
    // The generated `impl` gets the author's span: the compiler reports an unknown type for the author's
    // block and for this one, and merges errors that are equal.
    let keyword = Token![impl](plugin.impl_span);
    // A path to a renamed SDK may be longer than the author's scope requires.
    let quiet = plugin.args.krate.as_ref().map(|_| quote!(#[allow(unused_qualifications)]));
    let implementation = quote_spanned! {self_ty.span()=>
        #quiet
        #keyword #p::AllHandlersInOneImplBlock for #self_ty {
            const DESCRIPTOR: &'static #p::PluginDescriptor = &#descriptor;
        }
    };
    let implementation = if own.is_empty() {
        implementation
    } else {
        let aliases = own.iter().enumerate().map(|(index, path)| {
            let (alias, krate) = (alias(index, path), respan(&krate, path.span()));
            quote_spanned! {path.span()=>
                type #alias = <#path as #krate::topic::NamedByPath>::Topic;
            }
        });
        let checks = check_distinct(plugin, &own, &krate, &p);
        quote!(#quiet const _: () = { #(#aliases)* #checks #implementation };)
    };
    let clashes = plugin.methods.clashes.iter().map(|Clash { conditions, error }| {
        let error = error.to_compile_error();
        quote!(#(#conditions)* #error)
    });
    quote! {
        #implementation
        #(#clashes)*
        #data
        #instance_data
        #registered
    }
}

/// Returns the topics that handlers name by a path, each once.
fn own_topics(handlers: &[Handler]) -> Vec<&Path> {
    let mut own: Vec<&Path> = Vec::new();
    for topic in handlers.iter().flat_map(|handler| &handler.topics) {
        match &topic.kind {
            OnKind::Own(path) if !own.contains(&path) => own.push(path),
            _ => {}
        }
    }
    own
}

/// Returns the alias of an author's path. The path itself is written only in the alias, so that the compiler
/// reports an unknown path once.
fn alias(index: usize, path: &Path) -> Ident {
    Ident::new(&format!("__OwnTopic{index}"), path.span())
}

/// Returns checks that the paths of two handlers lead to different topics, which only the compiler knows.
fn check_distinct(
    plugin: &Plugin,
    own: &[&Path],
    krate: &TokenStream,
    p: &TokenStream,
) -> TokenStream {
    let paths = |handler: &Handler| -> Vec<Path> {
        let paths = handler.topics.iter().filter_map(|topic| match &topic.kind {
            OnKind::Own(path) => Some(path.clone()),
            OnKind::Known(_) => None,
        });
        paths.collect()
    };
    let mut checks = TokenStream::new();
    let mut earlier: Vec<(&Handler, Path)> = Vec::new();
    for handler in &plugin.methods.handlers {
        for later in paths(handler) {
            let at = later.span();
            let (krate, p) = (respan(krate, at), respan(p, at));
            let name = |path: &Path| {
                let index = own.iter().position(|other| *other == path).unwrap_or_default();
                let alias = Ident::new(&alias(index, path).to_string(), at);
                quote_spanned!(at=> <#alias as #krate::topic::Topic>::NAME)
            };
            // The same path twice was reported already.
            for (first, path) in earlier.iter().filter(|(_, path)| *path != later) {
                let (conditions, one, other) = (both(first, handler), name(path), name(&later));
                checks.extend(quote_spanned! {at=>
                    #(#conditions)* const _: () = #p::must_differ(#one, #other);
                });
            }
            earlier.push((handler, later));
        }
    }
    checks
}

fn descriptor(plugin: &Plugin, own: &[&Path], krate: &TokenStream, p: &TokenStream) -> TokenStream {
    let args = &plugin.args;
    let name = args.name.as_ref().map_or_else(|| quote!(""), |name| quote!(#name));
    let load = match args.load {
        Load::Auto => quote!(Auto),
        Load::Last => quote!(Last),
        Load::Configured => quote!(Configured),
        Load::ByName => quote!(ByName),
    };
    let (before, after) = (&args.before, &args.after);
    let load_order = match args.load_order {
        IntroductionOrder::ById => quote!(ById),
        IntroductionOrder::State => quote!(State),
        IntroductionOrder::StateReversed => quote!(StateReversed),
    };
    let new = new(&plugin.methods.init, &plugin.self_ty, p);
    let schema = schema(&plugin.methods, p);
    let reads = reads(&plugin.methods, p);
    let handlers = &plugin.methods.handlers;
    let entries = handlers.iter().map(|handler| entries(handler, own, krate, p));
    let entries = quote!(&[#(#entries)*]);
    quote! {
        #p::PluginDescriptor {
            name: #name,
            crate_name: ::core::env!("CARGO_PKG_NAME"),
            crate_version: ::core::env!("CARGO_PKG_VERSION"),
            authors: ::core::env!("CARGO_PKG_AUTHORS"),
            license: ::core::env!("CARGO_PKG_LICENSE"),
            sdk: #p::SDK_VERSION,
            load: #p::Load::#load,
            before: &[#(#before),*],
            after: &[#(#after),*],
            load_order: #p::IntroductionOrder::#load_order,
            schema: #schema,
            reads: #reads,
            new: #new,
            handlers: #entries,
        }
    }
}

/// Declares the plugin's data, as `#[data(..)]` on its type says.
fn data_impl(data: &Type, kind: &str, self_ty: &Type, p: &TokenStream) -> TokenStream {
    let kind = Ident::new(kind, Span::call_site());
    let form = quote_spanned!(data.span()=> #p::form::<#data>);
    quote! {
        impl #p::#kind<#data> for #self_ty {
            fn form() -> #p::DataForm<#data> {
                use #p::{DeclaredData as _, PlainData as _};
                #form((&#p::DataProbe::<#data>(#p::PhantomData)).data_spec())
            }
        }
    }
}

/// Returns the closure that returns the schema of the plugin's own configuration.
fn schema(methods: &Methods, p: &TokenStream) -> TokenStream {
    let built = match &methods.init {
        Init::Function(build) => build.params.as_slice(),
        _ => &[],
    };
    // A plugin that is built by `Default` may take its table in `conf.update` only.
    let updated = methods.handlers.iter().filter(|handler| handler.conditions.is_empty());
    let updated = updated.flat_map(|handler| &handler.params);
    let params = built.iter().chain(updated.filter(|param| signature::is_named(param, "Conf")));
    // Two references: see `SchemaProbe`.
    let tries = params.map(|param| {
        quote_spanned! {param.span()=>
            __schemas.push((&&#p::SchemaProbe::<#param>(#p::PhantomData)).schema());
        }
    });
    quote!(|| {
        use #p::{AnyTable as _, DerivedSchema as _, NoTable as _};
        let mut __schemas = #p::Schemas::new();
        #(#tries)*
        __schemas.first()
    })
}

/// Returns the closure that says which keys of the instance's configuration the plugin reads.
fn reads(methods: &Methods, p: &TokenStream) -> TokenStream {
    let built = match &methods.init {
        Init::Function(build) => build.params.as_slice(),
        _ => &[],
    };
    let none: &[Attribute] = &[];
    let built = built.iter().map(|param| (none, param));
    let handled = methods.handlers.iter();
    let handled = handled
        .flat_map(|handler| handler.params.iter().map(|param| (&*handler.conditions, param)));
    let params: Vec<_> = built
        .chain(handled)
        .filter(|(_, param)| signature::is_named(param, "InstanceConf"))
        .collect();
    if params.is_empty() {
        return quote!(|_| false);
    }
    // One reference: see `InstanceProbe`.
    let tries = params.into_iter().map(|(conditions, param)| {
        quote_spanned! {param.span()=>
            #(#conditions)*
            {
                __reads |= (&#p::InstanceProbe::<#param>(#p::PhantomData)).reads(__key);
            }
        }
    });
    quote!(|__key| {
        use #p::{ReadsInstance as _, ReadsNothing as _};
        let mut __reads = false;
        #(#tries)*
        __reads
    })
}

/// Returns the closure that builds an instance.
fn new(init: &Init, self_ty: &Type, p: &TokenStream) -> TokenStream {
    let Build { ident: function, params, output } = match init {
        Init::Function(build) => &**build,
        Init::Default => {
            let build = quote_spanned!(self_ty.span()=> <#self_ty as #p::BuildDefault>::build());
            return quote!(|_| #p::Result::Ok(#p::boxed::<Self>(#build)));
        }
        // Never called: the crate doesn't compile, because of the error that made it broken.
        Init::Broken => return quote!(|_| #p::Result::Err(#p::ConfError::new(""))),
    };
    let arguments = arguments(params.len());
    let args = local("args");
    let takes = arguments.iter().zip(params).map(|(argument, param)| {
        quote_spanned! {param.span()=>
            let #argument = <#param as #p::FromInit<Self>>::from_init(#args)?;
        }
    });
    let built = quote_spanned!(function.span()=> Self::#function(#(#arguments),*));
    let result = match output {
        Some(output) => quote_spanned! {output.span()=>
            <#output as #p::IntoInit<Self>>::into_init(#built)?
        },
        None => quote_spanned!(function.span()=> <() as #p::IntoInit<Self>>::into_init(#built)?),
    };
    quote!(|#args| {
        #(#takes)*
        #p::Result::Ok(#p::boxed::<Self>(#result))
    })
}

/// Returns an entry of the descriptor for each topic of a handler.
fn entries(handler: &Handler, own: &[&Path], krate: &TokenStream, p: &TokenStream) -> TokenStream {
    let method = handler.ident.unraw().to_string();
    let topics: Vec<TokenStream> =
        handler.topics.iter().map(|topic| topic_type(topic, own, krate)).collect();
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
    let role = match handler.service {
        Some(Role::Guest) => quote!(Guest),
        Some(Role::Owner) | None => quote!(Owner),
    };
    let policy = if handler.is_async && handler.service.is_none() {
        let policy = policy(handler, p);
        quote!(#p::Option::Some(#policy))
    } else {
        quote!(#p::Option::None)
    };
    let returns_value = signature::returns_value(handler.output.as_ref());
    let conditions = &handler.conditions;
    let entries = handler.topics.iter().zip(&topics).map(|(topic, topic_type)| {
        let key = match &topic.kind {
            OnKind::Known(found) => found.key.as_str(),
            OnKind::Own(_) => "",
        };
        // All have the span of the author's topic: the compiler shows equal errors at one place only once.
        let topic_trait = respan(&quote!(#krate::topic::Topic), topic.span);
        let id = quote_spanned!(topic.span=> <#topic_type as #topic_trait>::ID);
        let name = quote_spanned!(topic.span=> <#topic_type as #topic_trait>::NAME);
        quote! {
            #(#conditions)*
            #p::HandlerEntry {
                id: #id,
                topic: #name,
                key: #key,
                method: #method,
                role: #p::Role::#role,
                returns_value: #returns_value,
                policy: #policy,
                call: #call,
            },
        }
    });
    quote!(#(#entries)*)
}

/// Returns a topic's type; for an author's own topic, its alias.
fn topic_type(topic: &OnTopic, own: &[&Path], krate: &TokenStream) -> TokenStream {
    let index = match &topic.kind {
        OnKind::Own(path) => own.iter().position(|other| *other == path).zip(Some(path)),
        OnKind::Known(_) => None,
    };
    match index {
        Some((index, path)) => alias(index, path).into_token_stream(),
        None => topic.written_type(krate),
    }
}

/// Returns how the work of an `async` handler is treated.
fn policy(handler: &Handler, p: &TokenStream) -> TokenStream {
    let on_restart = match handler.policy.on_restart {
        None => quote!(#p::Option::None),
        Some(OnRestart::Rerun) => quote!(#p::Option::Some(#p::OnRestart::Rerun)),
        Some(OnRestart::Fail) => quote!(#p::Option::Some(#p::OnRestart::Fail)),
    };
    let timeout = match handler.policy.timeout {
        None => quote!(#p::Option::None),
        Some(seconds) => quote!(#p::Option::Some(#seconds)),
    };
    let run_on = handler.policy.run_on;
    quote!(#p::AsyncPolicy { on_restart: #on_restart, timeout: #timeout, run_on: #run_on })
}

/// Returns the closure that takes the parameters, calls the method, and converts what it returns.
fn call(handler: &Handler, set: &TokenStream, p: &TokenStream) -> TokenStream {
    let method = &handler.ident;
    let (plugin, args, call) = (local("plugin"), local("args"), local("call"));
    let arguments = arguments(handler.params.len());
    let takes = arguments.iter().zip(&handler.params).map(|(argument, param)| {
        quote_spanned! {param.span()=>
            let #argument = <#param as #p::FromTopic<'_, Self, #set>>::from_topic(&#call)?;
        }
    });
    let this = handler.has_self.then(|| quote!(#p::downcast::<Self>(#plugin)?,));
    let called = quote_spanned!(method.span()=> Self::#method(#this #(#arguments),*));
    let unit: Type = syn::parse_quote_spanned!(handler.output_span=> ());
    let output = handler.output.as_ref().unwrap_or(&unit);
    let result = match (handler.service.is_some(), handler.is_async) {
        (false, false) => quote_spanned! {output.span()=>
            <#output as #p::IntoOutcome<#set>>::into_outcome(#called)
        },
        (false, true) => {
            let (name, policy) = (method.unraw().to_string(), policy(handler, p));
            quote_spanned! {output.span()=>
                #p::spawn::<#set, #output, _>(&#call, #name, #policy, #called)
            }
        }
        (true, is_async) => answered(output, is_async, &called, set, p),
    };
    let declines = handler.policy.when.as_ref().map(|when| {
        let name = method.unraw().to_string();
        quote_spanned! {when.span()=>
            if !#p::is_concerned::<Self, #set>(&#call, #plugin, #when)? {
                return #p::Result::Ok(#p::decline(&#call, #name)?);
            }
        }
    });
    let needs_plugin = handler.has_self || declines.is_some();
    let plugin = if needs_plugin { quote!(#plugin) } else { quote!(_) };
    let calls = !handler.params.is_empty() || handler.is_async || handler.service.is_some();
    // The topics of the call are inferred from its uses, which have the author's spans, and so do errors
    // about them.
    let (args, begin) = if calls {
        (quote!(#args), quote!(let #call = #p::Call::new(#args);))
    } else {
        (quote!(_), TokenStream::new())
    };
    quote!(|#plugin, #args| {
        #begin
        // First, since a job that doesn't concern the handler must cost nothing.
        #declines
        #(#takes)*
        // `?` boxes the failure: it is rare, and unboxed it would make every outcome as large.
        #p::Result::Ok(#result?)
    })
}

/// Returns the code that sends what a service returns. A `Result` is split into its two types: it is
/// `Serialize` itself, so an error of a wrong type would otherwise be sent as an answer.
fn answered(
    output: &Type,
    is_async: bool,
    called: &TokenStream,
    set: &TokenStream,
    p: &TokenStream,
) -> TokenStream {
    let (call, span) = (local("call"), output.span());
    let (output, called) = match (signature::result_types(output), is_async) {
        (None, _) => (quote!(#output), called.clone()),
        (Some((answer, error)), is_async) => {
            let (answered, refusal) = (local("answered"), local("refusal"));
            // No closure, which clippy would report as redundant in the author's code.
            let refused = quote_spanned! {error.span()=>
                <#error as #p::Refusal>::refusal(#refusal)
            };
            let judged = |called: TokenStream| {
                quote_spanned! {span=>
                    match #called {
                        #p::Result::Ok(#answered) => #p::Result::Ok(#answered),
                        #p::Result::Err(#refusal) => #p::Result::Err(#refused),
                    }
                }
            };
            let called = if is_async {
                let judged = judged(quote_spanned!(span=> #called.await));
                quote_spanned!(span=> async move { #judged })
            } else {
                judged(quote!(#called))
            };
            (quote_spanned!(span=> #p::Result<#answer, #p::ServiceError>), called)
        }
    };
    if is_async {
        quote_spanned!(span=> #p::spawn_service::<#set, #output, _, _>(&#call, #called))
    } else {
        quote_spanned!(span=> #p::reply::<#set, #output, _>(&#call, #called))
    }
}

fn arguments(count: usize) -> Vec<Ident> {
    (0..count).map(|index| local(&format!("argument_{index}"))).collect()
}

/// Returns a variable that can't clash with the author's names: hygiene keeps it apart from variables, and
/// its name from constants, which hygiene doesn't cover.
fn local(name: &str) -> Ident {
    Ident::new(&format!("__{name}"), Span::mixed_site())
}
