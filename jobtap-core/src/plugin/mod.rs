//! The plugin interface: what an author writes against.
//!
//! A plugin is a type with an impl block under `#[jobtap_plugin]`; its methods under `#[on]` are
//! called at [topics](mod@crate::topic). This module doesn't know the engine: what a handler needs of
//! its surroundings goes through the [`Host`] trait.

#[cfg(panic = "abort")]
compile_error!(
    "jobtap catches the panics of plugins: build with `panic = \"unwind\"`, which is the default"
);

mod aborts;
mod asyncs;
mod backend;
mod bracket;
mod bulk;
mod call;
mod call_error;
mod conf;
mod cx;
mod cx_everywhere;
mod cx_log;
mod cx_tasks;
mod data;
mod descriptor;
mod event_name;
mod exception;
mod failure;
mod given;
mod host;
mod jobs;
mod jobspec_path;
mod kept;
mod meter;
mod order;
mod outcome;
mod params;
mod process;
mod query;
mod registry;
mod remote;
mod schedulers;
mod service;
mod stack;
mod token;
mod update;
mod waiting;

pub use aborts::AbortHandle;
pub(crate) use asyncs::panic_text;
pub use asyncs::*;
pub use backend::*;
pub use bracket::Bracket;
pub use bulk::*;
pub use call::*;
pub use call_error::CallError;
pub use conf::*;
pub use cx::*;
pub use data::*;
pub use descriptor::*;
pub use event_name::*;
pub use exception::*;
pub use failure::*;
pub use given::*;
pub use host::*;
pub use jobs::*;
pub use jobspec_path::*;
pub use kept::Kept;
pub use meter::{BUCKETS, HandlerStats, SAMPLE, Ticks};
pub use order::{Place, arrange};
pub use outcome::*;
pub use params::*;
pub use process::*;
pub use query::*;
pub use registry::*;
pub use remote::*;
pub use service::*;
pub use stack::*;
pub use token::Token;
pub use update::*;

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
