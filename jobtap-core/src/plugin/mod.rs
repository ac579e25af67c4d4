//! The plugin interface: what an author writes against.
//!
//! A plugin is a type with an impl block under `#[jobtap_plugin]`; its methods under `#[on]` are
//! called at [topics](crate::topic). This module doesn't know the engine: what a handler needs of
//! its surroundings goes through the [`Host`] trait.

#[cfg(panic = "abort")]
compile_error!(
    "jobtap catches the panics of plugins: build with `panic = \"unwind\"`, which is the default"
);

mod asyncs;
mod backend;
mod call;
mod conf;
mod cx;
mod data;
mod descriptor;
mod exception;
mod failure;
mod host;
mod outcome;
mod params;
mod registry;
mod remote;
mod token;

pub(crate) use asyncs::panic_text;
pub use asyncs::*;
pub use backend::*;
pub use call::*;
pub use conf::*;
pub use cx::*;
pub use data::*;
pub use descriptor::*;
pub use exception::*;
pub use failure::*;
pub use host::*;
pub use outcome::*;
pub use params::*;
pub use registry::*;
pub use remote::*;
pub use token::Token;

/// A type that `#[jobtap_plugin]` made a plugin.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a plugin",
    label = "no `#[jobtap_plugin]` impl block",
    note = "put `#[jobtap_plugin(name = \"..\")]` on its impl block"
)]
pub trait Plugin: Sized + 'static {
    /// Its name, handlers and constructor.
    const DESCRIPTOR: &'static PluginDescriptor;
}
