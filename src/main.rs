//! The `llts` program.
fn main() {}
