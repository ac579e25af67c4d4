//! The README's plugin and its test, as a newcomer copies them: they compile, and the test passes.
#![allow(missing_docs)]

include!(concat!(env!("OUT_DIR"), "/readme.rs"));
