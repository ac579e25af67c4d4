//! Targets for fuzzers: every parser that takes foreign bytes, with what must hold for any input.
//!
//! A target is a plain function. `.ci/fuzz` gives it inputs that libFuzzer makes, guided by the branches that they reach,
//! and measures memory and time; `cargo test` gives it the inputs of `corpus/` and random changes of them. An input that
//! was found to break something stays in the corpus.
//!
//! A panic is a failure, in the parser or by an assertion of the target. Where a value has a text form, the target
//! asserts that the form is read back as the same value.

mod again;
mod targets;

pub use targets::{TARGETS, Target, target};
