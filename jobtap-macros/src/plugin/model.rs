//! What was read of a plugin: the types that the steps of `#[jobtap_plugin]` pass on.

use proc_macro2::{Span, TokenStream};
use quote::{ToTokens, quote_spanned};
use syn::{Attribute, Expr, Ident, LitStr, Path, Type};

use crate::arguments;
use crate::topics::Found;

/// A whole plugin, ready to be expanded.
pub(crate) struct Plugin {
    pub(crate) args: PluginArgs,
    /// Where the author's own block begins.
    pub(crate) impl_span: Span,
    pub(crate) self_ty: Type,
    pub(crate) methods: Methods,
    /// Whether a mistake was reported: the plugin is then checked further, but not registered.
    pub(crate) broken: bool,
}

/// The arguments of `#[jobtap_plugin(..)]`, as far as they could be read.
#[derive(Default)]
pub(crate) struct PluginArgs {
    pub(crate) name: Option<LitStr>,
    pub(crate) load: Load,
    pub(crate) before: Vec<LitStr>,
    pub(crate) after: Vec<LitStr>,
    pub(crate) data: Option<Type>,
    pub(crate) instance_data: Option<Type>,
    pub(crate) load_order: IntroductionOrder,
    pub(crate) krate: Option<Path>,
    /// Whether something could not be read at all: it may have been any of the above.
    pub(crate) doubtful: bool,
}

impl PluginArgs {
    /// Returns the path to the SDK.
    pub(crate) fn krate(&self) -> TokenStream {
        arguments::krate(self.krate.as_ref())
    }
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

/// See `jobtap_core::host::IntroductionOrder`.
#[derive(Clone, Copy, Default)]
pub(crate) enum IntroductionOrder {
    #[default]
    ById,
    State,
    StateReversed,
}

/// What was found in the impl block.
#[derive(Default)]
pub(crate) struct Methods {
    pub(crate) init: Init,
    pub(crate) handlers: Vec<Handler>,
    /// Two handlers of one topic, in builds where both are compiled.
    pub(crate) clashes: Vec<Clash>,
}

/// How the plugin is built.
#[derive(Default)]
pub(crate) enum Init {
    /// By `Default`.
    #[default]
    Default,
    /// By the function under `#[init]`.
    Function(Box<Build>),
    /// By a function whose mistakes were reported.
    Broken,
}

/// The function under `#[init]`.
pub(crate) struct Build {
    pub(crate) ident: Ident,
    pub(crate) params: Vec<Type>,
    pub(crate) output: Option<Type>,
}

/// A handler: a method under `#[on]` or `#[service]`.
pub(crate) struct Handler {
    pub(crate) ident: Ident,
    pub(crate) topics: Vec<OnTopic>,
    pub(crate) has_self: bool,
    pub(crate) is_async: bool,
    pub(crate) params: Vec<Type>,
    pub(crate) output: Option<Type>,
    /// Where a return type would be.
    pub(crate) output_span: Span,
    /// How its work is treated, if it is `async`.
    pub(crate) policy: Policy,
    /// Who may send requests to it, if it is a service.
    pub(crate) service: Option<Role>,
    /// The `#[cfg(..)]` on it: where it isn't compiled, it isn't registered.
    pub(crate) conditions: Vec<Attribute>,
}

/// See `jobtap_core::host::Role`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Role {
    Owner,
    Guest,
}

/// One topic of a handler.
pub(crate) struct OnTopic {
    pub(crate) span: Span,
    pub(crate) kind: OnKind,
}

/// How a topic was named.
pub(crate) enum OnKind {
    /// A topic of the job manager, by its string.
    Known(Found),
    /// An author's own topic, by its path.
    Own(Path),
}

impl OnTopic {
    /// Returns the topic's type as the author's own code can write it.
    pub(crate) fn written_type(&self, krate: &TokenStream) -> TokenStream {
        match &self.kind {
            OnKind::Known(found) => {
                // All tokens have the span of the author's string, where an error about the topic belongs.
                let ident = Ident::new(found.type_name, self.span);
                let krate = respan(krate, self.span);
                quote_spanned!(self.span=> #krate::topic::#ident)
            }
            OnKind::Own(path) => path.to_token_stream(),
        }
    }
}

/// How the work of an `async` handler is treated.
#[derive(Default)]
pub(crate) struct Policy {
    /// Which jobs concern the handler, as a function of the plugin and a job.
    pub(crate) when: Option<Expr>,
    pub(crate) on_restart: Option<OnRestart>,
    /// In seconds.
    pub(crate) timeout: Option<f64>,
    pub(crate) run_on: bool,
    /// What was set, for messages.
    pub(crate) keys: Vec<Ident>,
}

/// See `jobtap_core::host::OnRestart`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum OnRestart {
    Fail,
    Rerun,
}

/// A mistake only in builds that compile both of two handlers.
pub(crate) struct Clash {
    /// The conditions of these builds.
    pub(crate) conditions: Vec<Attribute>,
    pub(crate) error: syn::Error,
}

/// Returns the conditions under which both handlers are compiled.
pub(crate) fn both(first: &Handler, second: &Handler) -> Vec<Attribute> {
    first.conditions.iter().chain(&second.conditions).cloned().collect()
}

/// Returns the same tokens at another place in the author's code.
pub(crate) fn respan(tokens: &TokenStream, span: Span) -> TokenStream {
    let at = |mut token: proc_macro2::TokenTree| {
        // Only the reported position changes. The token keeps its hygiene, else `$crate` would resolve in the
        // author's crate.
        token.set_span(span.resolved_at(token.span()));
        token
    };
    tokens.clone().into_iter().map(at).collect()
}
