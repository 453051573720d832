//! The program of `.ci/planted`, `.ci/coverage`, `try` and `mutate`: what the tests of `main.rs` leave out because it
//! takes long. `cargo test` runs it only if it is named.

#[allow(dead_code, unused_imports, reason = "some code is for the tests alone")]
#[path = "main.rs"]
mod planted;

fn main() -> std::process::ExitCode {
    planted::run()
}
