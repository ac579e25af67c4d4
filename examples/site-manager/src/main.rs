//! Site manager.
fn main() {}
