//! The attribute macros of jobtap: `#[jobtap_plugin]`, and `#[on]` and `#[init]` inside it.
//!
//! Plugin crates use them through `jobtap_core`, whose version they share. The macro checks what
//! the compiler could only report in its own words, and leaves the rest to traits of jobtap-core,
//! asserted at the author's own tokens.

mod args;
mod context;
mod data;
mod elsewhere;
mod expand;
#[cfg(test)]
mod expansions;
mod handler;
mod methods;
mod own_topic;
mod params;
mod plugin;
mod policy;
mod service;
mod suggest;
mod topics;
mod values;

use proc_macro::TokenStream;
use quote::quote;

/// Makes a type a plugin, from its impl block.
///
/// ```text
/// #[jobtap_plugin(
///     name = "fairshare",           // required: what users see
///     load = "auto",                // or "last": after those that the configuration names;
///                                   // or "configured": when there is a table for it;
///                                   // or "by-name": linked, but loaded only when named
///     before = ["limits"],          // called before these plugins, where they are linked
///     after = ["accounts"],         // called after these
///     data = Usage,                 // its durable data on a job
///     instance_data = Totals,       // its durable data on the instance
///     load_order = "state",         // how active jobs are shown to it when it is loaded later
///     crate = jobtap_core,          // where jobtap-core was renamed
/// )]
/// impl Fairshare {
///     #[init] fn new(conf: Conf<Weights>) -> Result<Self, ConfError> { .. }
///     #[on("job.state.priority", "job.priority.get")] fn priority(&self, job: &Job) -> Priority { .. }
/// }
/// ```
#[proc_macro_attribute]
pub fn jobtap_plugin(args: TokenStream, item: TokenStream) -> TokenStream {
    plugin::jobtap_plugin(args.into(), item.into()).into()
}

/// Marks a handler, inside an impl block under `#[jobtap_plugin]`: `#[on("job.validate")]`.
#[proc_macro_attribute]
pub fn on(_args: TokenStream, item: TokenStream) -> TokenStream {
    outside("on", item)
}

/// Marks the function that builds the plugin, inside an impl block under `#[jobtap_plugin]`.
#[proc_macro_attribute]
pub fn init(_args: TokenStream, item: TokenStream) -> TokenStream {
    outside("init", item)
}

/// Marks a function that answers requests of clients, inside an impl block under
/// `#[jobtap_plugin]`: `#[service("name")]`, `#[service("name", role = "guest")]`.
#[proc_macro_attribute]
pub fn service(_args: TokenStream, item: TokenStream) -> TokenStream {
    outside("service", item)
}

/// Says how a plugin's data of this type is kept: `#[data(version = 2, upgrade = from_v1)]`, or
/// `#[data(volatile)]` for what must not outlive the manager.
#[proc_macro_attribute]
pub fn data(args: TokenStream, item: TokenStream) -> TokenStream {
    data::data(args.into(), item.into()).into()
}

/// Makes a struct a topic of the author's own: `#[topic("accounts.share", answer = f64)]`; with
/// `job`, one about a job.
#[proc_macro_attribute]
pub fn topic(args: TokenStream, item: TokenStream) -> TokenStream {
    own_topic::topic(args.into(), item.into()).into()
}

/// `#[jobtap_plugin]` takes these attributes off, so they are expanded only where it is missing.
fn outside(attribute: &str, item: TokenStream) -> TokenStream {
    let message = format!(
        "`#[{attribute}]` works inside an impl block under `#[jobtap_plugin]`\n\
         note: put `#[jobtap_plugin(name = \"..\")]` on the impl block"
    );
    let error = syn::Error::new(proc_macro2::Span::call_site(), message).to_compile_error();
    let item = proc_macro2::TokenStream::from(item);
    quote!(#error #item).into()
}
