//! The `gpc` command.
fn main() {}
