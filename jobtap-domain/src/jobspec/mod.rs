//! The jobspec, version 1 (RFC 25): the document that describes what a job needs and runs.
//!
//! [`Jobspec`] is the validated document, and [`JobspecBuilder`] makes one from the options of the
//! tools. [`Counts`] are the amounts of resources that it asks for, [`Dependency`] is an entry of
//! `attributes.system.dependencies`, [`Shape`] the text form of the `resources` section, and [`path`]
//! has the dotted paths of updates and `--setattr`.

mod builder;
mod counts;
mod dependency;
mod document;
mod environment;
mod error;
mod facts;
mod members;
mod one_pass;
pub mod path;
mod shape;
mod spec;
mod validate;

pub use builder::JobspecBuilder;
pub use counts::Counts;
pub use dependency::Dependency;
pub use document::LentDocument;
pub use error::JobspecError;
#[doc(hidden)]
pub use facts::Warning;
pub use shape::{Shape, ShapeError};
pub use spec::Jobspec;
