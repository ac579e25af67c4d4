//! The plain manager.
fn main() {}
