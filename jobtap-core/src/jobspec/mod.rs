//! What a job asks for: the jobspec, version 1 (RFC 25), as the manager receives, keeps and updates it.
//!
//! [`Jobspec`] is the checked document, [`JobspecBuilder`] makes one from the options of the tools,
//! [`Counts`] is what the `resources` section amounts to, [`Dependency`] one entry of
//! `attributes.system.dependencies`, [`Shape`] the resources as a short text, and [`path`] the dotted
//! paths of updates and `--setattr`.

mod builder;
mod counts;
mod dependency;
mod document;
mod error;
pub mod path;
mod per_resource;
mod shape;
mod spec;
mod validate;
#[cfg(test)]
mod vectors;

pub use builder::JobspecBuilder;
pub use counts::Counts;
pub use dependency::Dependency;
pub use error::JobspecError;
pub use shape::{Shape, ShapeError};
pub use spec::Jobspec;
