//! Job arrays: many jobs that one request submits, and that differ in a few texts of their jobspec.
//!
//! The manager keeps one jobspec and the [`Elements`], and makes a job of an element when its turn comes, so that a million
//! elements cost little more than what they differ in.

mod element;
mod elements;
mod error;
mod progress;
mod texts;

pub use element::Element;
pub use elements::{Elements, Field, Piece, Place};
pub use error::ElementsError;
pub use progress::Progress;
pub use texts::Texts;
